"""Counts of telemetry reports: an id is counted once, in the transaction that records it."""

from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterTypeError
from sfumato.store.backend import Backend, Session
from sfumato.store.events import check_text
from sfumato.store.group_commit import Job

if TYPE_CHECKING:
    from sfumato.telemetry import Counts, Reports

__all__ = ["adding", "counts_of", "metrics"]


def adding(metric: str, reports: "Reports") -> Job:
    """Return the job that counts reports and returns how many were new."""
    from sfumato.telemetry import Reports

    metric = check_text("Store", "metric", metric)
    if not isinstance(reports, Reports):
        given = type(reports).__name__
        raise ParameterTypeError.of("Store", "reports", f"must be Reports, not {given}.")
    return lambda session: _add(session, metric, reports)


def counts_of(backend: Backend, metric: str) -> "Counts | None":
    """Return the counts of a metric."""
    with backend.reading() as session:
        return _load(session, check_text("Store", "metric", metric))


def metrics(backend: Backend) -> list[str]:
    """List the metrics."""
    with backend.reading() as session:
        rows = session.execute("SELECT metric FROM telemetry_count ORDER BY metric").fetchall()
    return [metric for (metric,) in rows]


def _add(session: Session, metric: str, reports: "Reports") -> int:
    from sfumato.telemetry import Counts

    counts = _load(session, metric)
    if counts is None:
        counts = Counts(reports.scheme, keep_ids=False)
    elif counts.scheme.fingerprint != reports.scheme.fingerprint:
        raise ValueError(
            f"Store: metric {metric!r} has reports of parameters {counts.scheme.fingerprint}, not "
            f"{reports.scheme.fingerprint}; give other parameters another metric."
        )
    new = [_is_new(session, metric, bytes(each)) for each in reports.ids]
    before = len(counts)
    counts.update(reports.take(new))
    session.execute(
        "INSERT INTO telemetry_count VALUES (?, ?) ON CONFLICT (metric) DO UPDATE SET "
        "counts = excluded.counts",
        (metric, counts.to_bytes()),
    )
    return len(counts) - before


def _is_new(session: Session, metric: str, report_id: bytes) -> bool:
    done: Any = session.execute(
        "INSERT INTO telemetry_report VALUES (?, ?) ON CONFLICT (metric, report_id) DO NOTHING",
        (metric, report_id),
    )
    return bool(done.rowcount == 1)


def _load(session: Session, metric: str) -> "Counts | None":
    from sfumato.telemetry import Counts

    row = session.execute(
        "SELECT counts FROM telemetry_count WHERE metric = ?", (metric,)
    ).fetchone()
    return None if row is None else Counts.from_bytes(bytes(row[0]))
