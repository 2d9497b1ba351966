"""Reports of browsers under local differential privacy: counted, and decoded with intervals."""

import asyncio
import math
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from sfumato.errors import ParameterError
from sfumato.serve.config import MetricConfig
from sfumato.serve.endpoint import Call, Endpoint, Reply
from sfumato.serve.protection.problems import Problem, not_found
from sfumato.serve.routes.messages import ReportsCounted, TelemetryAnswer, TelemetryRow, Text
from sfumato.telemetry.decoding.decode import decode
from sfumato.telemetry.reports.counts import Counts
from sfumato.telemetry.reports.jsonl import read_reports
from sfumato.telemetry.reports.reports import Reports
from sfumato.telemetry.schemes.base import Scheme, read_scheme

__all__ = ["ENDPOINTS", "schemes"]

MOST = 10_000  # candidates of one query


class DecodeQuery(Struct, forbid_unknown_fields=True):
    """Values to look for; those of the settings unless given."""

    LISTS = ("candidate",)
    candidate: Annotated[list[Text], Meta(max_length=MOST)] = []
    level: Annotated[float, Meta(gt=0, lt=1)] = 0.05


def schemes(metrics: dict[str, MetricConfig]) -> dict[str, Scheme]:
    """Read the schemes of all metrics; those that protect nothing are refused."""
    found = {}
    for name, metric in metrics.items():
        scheme = read_scheme(Path(metric.scheme).read_bytes())
        if not math.isfinite(scheme.epsilon_permanent):
            raise ParameterError.of(
                "ServiceConfig", f"metrics.{name}.scheme", "must have a finite epsilon_permanent."
            )
        found[name] = scheme
    return found


async def add_reports(call: Call) -> ReportsCounted:
    """Count reports, a line of JSON each, of the key's metric. Addresses are not stored."""
    assert call.key is not None
    service = call.service
    origin = call.headers.get(b"origin")
    if origin is not None and origin.decode("latin-1") not in call.key.attributes["origins"]:
        raise Problem(403, "Pages of this origin may not use the key.", kind="origin")
    metric = call.key.attributes["metric"]
    scheme = service.schemes.get(metric)
    if scheme is None:
        raise not_found("metric")
    limit = service.config.largest_batch
    if call.body.count(b"\n") > limit:
        raise Problem(413, f"There must be at most {limit} reports.", kind="batch-too-large")
    batches = list(read_reports(call.body, scheme))
    reports = Reports.concat(batches) if batches else None
    refused = dict(reports.refused) if reports is not None else {}
    if reports is None or not len(reports):
        raise Problem(422, "There is no report of the metric's parameters.", kind="no-reports")
    new = await service.store.add_reports_async(metric, reports)
    service.metrics.add("reports_total", new)
    return ReportsCounted(new, len(reports) - new, refused)


async def parameters(call: Call) -> Reply:
    """Return the parameters that a client needs to randomise its value."""
    assert call.key is not None
    scheme = call.service.schemes.get(call.key.attributes["metric"])
    if scheme is None:
        raise not_found("metric")
    return Reply(scheme.to_json().encode())


async def get_telemetry(call: Call) -> TelemetryAnswer:
    """Estimate how many clients have each value. Reports are private, so nothing is charged."""
    metric, query = call.path("metric"), call.query(DecodeQuery)
    settings = call.service.config.metrics.get(metric)
    if settings is None:
        raise not_found("metric", field="metric")
    scheme = call.service.schemes[metric]
    counts = await asyncio.to_thread(call.service.store.telemetry, metric)
    candidates = query.candidate or settings.candidates
    counts = Counts(scheme) if counts is None else counts
    table = await asyncio.to_thread(_decoded, counts, candidates, query.level)
    other, epsilon = _finite(table.other), scheme.epsilon_permanent
    return TelemetryAnswer(metric, table.reports, _rows(table), other, table.notes, epsilon)


def _decoded(counts: Any, candidates: list[str] | None, level: float) -> Any:
    try:
        return decode(counts, candidates, level=level)
    except ValueError as error:
        # The sentence is about the query: candidates that are missing, repeated or too many.
        raise Problem(422, str(error), field="candidate") from None


def _rows(table: Any) -> list[TelemetryRow]:
    names = ("estimate", "std_error", "low", "high", "p_value")
    columns: list[list[Any]] = [
        [_finite(value) for value in table[name].tolist()] for name in names
    ]
    columns.append(table["detected"].tolist())
    rows = [
        TelemetryRow(str(value), *numbers)
        for value, *numbers in zip(table.value, *columns, strict=True)
    ]
    return sorted(rows, key=lambda row: -(row.estimate or 0.0))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


ENDPOINTS = [
    Endpoint(
        "POST",
        "/reports",
        add_reports,
        "ingest",
        ReportsCounted,
        takes=("text/plain", "application/x-ndjson"),
        public=True,
    ),
    Endpoint("GET", "/reports/parameters", parameters, "ingest", dict[str, Any], public=True),
    Endpoint(
        "GET",
        "/telemetry/{metric}",
        get_telemetry,
        "read",
        TelemetryAnswer,
        DecodeQuery,
        statuses=(404,),
    ),
]
