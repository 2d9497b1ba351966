"""Reports of clients as immutable columns, with a count of those left out."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from sfumato.core.ids import plain_numbers
from sfumato.core.typing import Ids
from sfumato.telemetry.schemes.base import Scheme

__all__ = ["ID_BYTES", "Reports"]

ID_BYTES = 16


class Reports:
    """Reports of one scheme: the cohort, payload and random id of each.

    Parameters
    ----------
    scheme : Scheme
        Parameters that the clients used.
    cohorts : object
        Column of n integers, one per report.
    payload : object
        Array of uint8, shape (n, payload_bytes): cell i is bit ``i & 7`` of byte ``i >> 3``, or
        the symbol is a little-endian uint32.
    ids : array_like or scalar
        Array of uint8, shape (n, 16): the random id of each report.
    refused : mapping of str to int or None, default=None
        Number of reports left out before, by reason.

    Attributes
    ----------
    scheme : Scheme
        As given.
    cohorts : ndarray of shape (n,)
        As int32; a number below 0 or beyond 31 bits becomes -1, which no scheme accepts.
    payload : ndarray of shape (n, payload_bytes)
        As given, read-only.
    ids : ndarray of shape (n, 16)
        As given, read-only.
    refused : mapping
        As given, read-only.

    Notes
    -----
    **Guarantee.** The columns have one length and are read-only; only what a client sent is stored.
    Whether a cohort or payload fits the scheme is not checked here: `Counts` does so and counts
    those that do not.

    Examples
    --------
    >>> from sfumato.telemetry import Rappor
    >>> sent = Reports(Rappor(8, 2, 4, f=0.5), [3, 0], np.zeros((2, 1), np.uint8),
    ...                np.zeros((2, 16), np.uint8), {"unreadable": 1})
    >>> len(sent), len(sent.take([0])), dict(sent.refused)
    (2, 1, {'unreadable': 1})
    """

    scheme: Scheme
    cohorts: np.ndarray
    payload: np.ndarray
    ids: np.ndarray
    refused: Mapping[str, int]

    def __init__(
        self,
        scheme: Scheme,
        cohorts: Any,
        payload: Any,
        ids: Ids,
        refused: Mapping[str, int] | None = None,
    ) -> None:
        if not isinstance(scheme, Scheme):
            raise TypeError(f"Reports: scheme must be parameters, not {type(scheme).__name__}.")
        self._keep("scheme", scheme)
        self._keep("cohorts", _cohorts(cohorts))
        self._keep("payload", _octets("payload", payload, len(self)))
        self._keep("ids", _octets("ids", ids, len(self), ID_BYTES))
        self._keep("refused", MappingProxyType(dict(refused or {})))

    @classmethod
    def concat(cls, batches: Iterable[Self]) -> Self:
        """Concatenate batches of one scheme.

        Parameters
        ----------
        batches : iterable of Reports
            At least one batch, all of the same parameters.

        Returns
        -------
        Self
            All reports, in order; the counts in `refused` are added up.

        Raises
        ------
        ValueError
            If there is no batch, or the parameters of two differ.
        """
        batches = list(batches)
        if not batches:
            raise ValueError("Reports: concat needs at least one batch, which names the scheme.")
        first = batches[0]
        for at, batch in enumerate(batches):
            if (batch.scheme.fingerprint, batch.payload.shape[1]) != (
                first.scheme.fingerprint,
                first.payload.shape[1],
            ):
                raise ValueError(
                    f"Reports: concat needs one scheme, but batch {at} has the parameters "
                    f"{batch.scheme.fingerprint} and batch 0 {first.scheme.fingerprint}, or "
                    "payloads of another length; give each its own Counts."
                )
        cohorts, payload, ids = (
            np.concatenate([getattr(batch, name) for batch in batches])
            for name in ("cohorts", "payload", "ids")
        )
        return cls(first.scheme, cohorts, payload, ids, added(batch.refused for batch in batches))

    def __len__(self) -> int:
        return len(self.cohorts)

    def __repr__(self) -> str:
        refused = f", {sum(self.refused.values())} refused" if self.refused else ""
        return f"Reports({len(self)} of parameters {self.scheme.fingerprint}{refused})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reports):
            return NotImplemented
        return self.scheme.fingerprint == other.scheme.fingerprint and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("cohorts", "payload", "ids")
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            "Reports: the columns do not change; `take` or `concat` makes new ones."
        )

    def take(self, rows: Any) -> Self:
        """Select reports by position or mask.

        Parameters
        ----------
        rows : object
            Positions, a boolean mask or a slice.

        Returns
        -------
        Self
            The selected reports, with an empty `refused`.
        """
        rows = rows if isinstance(rows, slice) else np.asarray(rows)
        if isinstance(rows, np.ndarray) and rows.size == 0 and rows.dtype != bool:
            rows = rows.astype(np.int64)
        return type(self)(self.scheme, self.cohorts[rows], self.payload[rows], self.ids[rows])

    @property
    def nbytes_per_report(self) -> int:
        """Bytes of one report in these columns: payload, 4 for the cohort, 16 for the id."""
        return int(self.payload.shape[1]) + 4 + ID_BYTES

    def _keep(self, name: str, value: Any) -> None:
        """Set an attribute once, although the object is immutable."""
        object.__setattr__(self, name, value)


def added(refused: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of counts by reason."""
    total: dict[str, int] = {}
    for each in refused:
        for reason, count in each.items():
            total[reason] = total.get(reason, 0) + count
    return total


def _cohorts(cohorts: Any) -> np.ndarray:
    """Return a column of integers as int32, -1 for those out of range."""
    if type(cohorts) is np.ndarray and cohorts.dtype == np.int32 and cohorts.ndim == 1:
        return _fixed(np.maximum(cohorts, np.int32(-1)))
    column = plain_numbers(cohorts)
    if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
        raise ValueError("Reports: cohorts must be one column of integers.")
    # No scheme has a cohort beyond 31 bits, and none has -1.
    inside = (column >= 0) & (column < 2**31)
    return _fixed(np.where(inside, column, -1).astype(np.int32))


def _octets(name: str, table: Any, rows: int, width: int | None = None) -> np.ndarray:
    """Check a uint8 table and return it read-only."""
    table = np.asarray(table)
    if table.dtype != np.uint8 or table.ndim != 2 or len(table) != rows:
        raise ValueError(f"Reports: {name} must be a uint8 table of {rows} rows, as cohorts has.")
    if width is not None and table.shape[1] != width:
        raise ValueError(f"Reports: {name} must have {width} bytes per row, not {table.shape[1]}.")
    return _fixed(np.ascontiguousarray(table))


def _fixed(array: np.ndarray) -> np.ndarray:
    """Return a read-only view."""
    view = array.view()
    view.flags.writeable = False
    return view
