"""Counters, gauges and latencies of the service, in the text format of Prometheus."""

from bisect import bisect_left
from collections.abc import Callable

__all__ = ["Metrics"]

BOUNDS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.0, 5.0)


class Metrics:
    """What the service counts about itself; labels are routes and statuses, never paths."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, int], int] = {}
        self._seconds: dict[str, list[float]] = {}  # by route: a count per bound, then the sum
        self._counters: dict[str, float] = {}
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = method, route, status
        self._requests[key] = self._requests.get(key, 0) + 1
        row = self._seconds.get(route)
        if row is None:
            row = self._seconds[route] = [0.0] * (len(BOUNDS) + 2)
        row[bisect_left(BOUNDS, seconds)] += 1
        row[-1] += seconds

    def add(self, name: str, number: float = 1) -> None:
        """Add to a counter."""
        self._counters[name] = self._counters.get(name, 0) + number

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Register a value that is read when the metrics are."""
        self._gauges[name] = about, read

    def value(self, name: str) -> float:
        """Return a counter."""
        return self._counters.get(name, 0)

    def totals(self) -> tuple[int, int, int, float]:
        """Return requests so far, those refused (4xx), those failed (5xx), and their seconds.

        That the service is not ready is an answer of /readyz, not a failure of it.
        """
        answered = refused = failed = 0
        for (_, route, status), requests in self._requests.items():
            answered += requests
            refused += requests * (400 <= status < 500)
            failed += requests * (status >= 500 and route != "/readyz")
        return answered, refused, failed, sum(row[-1] for row in self._seconds.values())

    def text(self) -> str:
        """Return all of them."""
        lines = ["# HELP sfumato_requests_total Requests by route and status."]
        lines.append("# TYPE sfumato_requests_total counter")
        for (method, route, status), requests in sorted(self._requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"sfumato_requests_total{{{labels}}} {requests}")
        lines.append("# HELP sfumato_request_seconds Time from a request's headers to its answer.")
        lines.append("# TYPE sfumato_request_seconds histogram")
        for route, row in sorted(self._seconds.items()):
            total = 0.0
            for bound, number in zip([*map(str, BOUNDS), "+Inf"], row, strict=False):
                total += number
                labels = f'route="{route}",le="{bound}"'
                lines.append(f"sfumato_request_seconds_bucket{{{labels}}} {total:.0f}")
            lines.append(f'sfumato_request_seconds_sum{{route="{route}"}} {row[-1]:.6f}')
            lines.append(f'sfumato_request_seconds_count{{route="{route}"}} {total:.0f}')
        for name, number in sorted(self._counters.items()):
            lines += [f"# TYPE sfumato_{name} counter", f"sfumato_{name} {number:g}"]
        for name, (about, read) in sorted(self._gauges.items()):
            lines += [f"# HELP sfumato_{name} {about}", f"# TYPE sfumato_{name} gauge"]
            lines.append(f"sfumato_{name} {read():g}")
        return "\n".join(lines) + "\n"
