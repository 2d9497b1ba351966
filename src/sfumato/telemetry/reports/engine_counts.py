"""Counts of reports on an engine: reports come together by id, and only counts reach the caller."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.telemetry.reports.counts import Counts
from sfumato.telemetry.reports.reports import ID_BYTES, Reports
from sfumato.telemetry.schemes.base import Scheme

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["count_reports"]


def count_reports(
    source: Any,
    scheme: Scheme,
    *,
    engine: "Engine",
    columns: tuple[str, str, str] = ("cohort", "payload", "id"),
) -> Counts:
    """Count the reports of a source, on an engine.

    Parameters
    ----------
    source : object
        What the engine reads: see the engine. One report per row.
    scheme : Scheme
        Parameters that the clients used.
    engine : Engine
        Where the work runs: `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`.
    columns : tuple of str, default=('cohort', 'payload', 'id')
        Names of the columns of cohorts, integers, and of payloads and random ids, bytes as in
        `Reports`.

    Returns
    -------
    Counts
        The counts, without ids (``keep_ids=False``): they are of fixed size, whatever the number
        of reports.

    Notes
    -----
    **Guarantee.** The counts are those of `Counts` of all reports, in any order and partitions. A
    report with an id that was counted before is left out: rows are shuffled by id first. What is
    no report is left out and counted in `refused` as `Counts` does, and as "unreadable" where a
    value is null or an id has not 16 bytes.

    Examples
    --------
    >>> from sfumato.engine import LocalEngine
    >>> from sfumato.telemetry import Rappor
    >>> rows = {"cohort": [3, 3], "payload": [b"\\x05", b"\\x05"], "id": [b"0" * 16, b"0" * 16]}
    >>> counts = count_reports(rows, Rappor(8, 2, 4, f=0.5), engine=LocalEngine(threads=1))
    >>> counts.cells[3], counts.refused
    (array([1, 0, 1, 0, 0, 0, 0, 0]), {'duplicate': 1})
    """
    rows = engine.rows(source, columns).shuffle(columns[2])
    counts: Counts = rows.fold(_Counting(scheme, columns), _merged)
    return counts


def _merged(left: Counts, right: Counts) -> Counts:
    return left.merge(right)


@dataclass(frozen=True)
class _Counting:
    """Fold to the counts of a partition, which has all reports of its ids."""

    scheme: Scheme
    columns: tuple[str, str, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Counts:
        counts = Counts(self.scheme)
        for batch in batches:
            counts.update(self._reports(batch))
        return counts.without_ids()

    def _reports(self, batch: pa.RecordBatch) -> Reports:
        """Return the reports of a batch, with the number of rows that are none."""
        cohorts, payload, ids = (batch.column(name) for name in self.columns)
        payload, ids = payload.cast(pa.large_binary()), ids.cast(pa.large_binary())
        readable = pc.and_(pc.is_valid(cohorts), pc.equal(pc.binary_length(ids), ID_BYTES))
        readable = pc.fill_null(pc.and_(readable, pc.is_valid(payload)), False)
        width = self.scheme.payload_bytes
        fits = pc.fill_null(pc.equal(pc.binary_length(payload), width), False)
        used = pc.and_(readable, fits)
        refused = {
            "unreadable": batch.num_rows - pc.sum(readable, min_count=0).as_py(),
            "length": pc.sum(pc.and_not(readable, fits), min_count=0).as_py(),
        }
        sent, random = _octets(payload.filter(used), width), _octets(ids.filter(used), ID_BYTES)
        numbers = cohorts.filter(used).to_numpy(zero_copy_only=False)
        none = {reason: number for reason, number in refused.items() if number}
        return Reports(self.scheme, numbers, sent, random, none)


def _octets(column: pa.Array, width: int) -> np.ndarray:
    """Return values of one length as rows of bytes."""
    starts = np.frombuffer(column.buffers()[1], np.int64)[column.offset :][: len(column) + 1]
    if not len(column):
        return np.empty((0, width), np.uint8)
    values = np.frombuffer(column.buffers()[2], np.uint8)[starts[0] : starts[-1]]
    return values.reshape(len(column), width)
