"""Reports: what clients sent, as columns that do not change, with a count of what was left out."""

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
    """Reports of one scheme: for each client its cohort, its payload and the report's random id.

    Parameters
    ----------
    scheme : Scheme
        Whose parameters the clients ran.
    cohorts : object
        Integers, one a report.
    payload : object
        Uint8, a row a report: cell i is bit i & 7 of byte i >> 3, or a symbol is a 32-bit number,
        low byte first.
    ids : array_like or scalar
        Uint8, 16 bytes a report.
    refused : mapping or None, default=None
        How many reports were left out before these columns were made, for each reason.

    Notes
    -----
    **Guarantee.** The columns have one length and cannot be written to; nothing but what a client
    sent is held. Whether a cohort or a payload fits the scheme is for `Counts` to say, which counts
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
        """One Reports of all batches, in their order; at least one, all of one scheme.

        Parameters
        ----------
        batches : iterable
            TODO.

        Returns
        -------
        Self
            One Reports of all batches, in their order; at least one, all of one scheme.
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
        left = f", {sum(self.refused.values())} refused" if self.refused else ""
        return f"Reports({len(self)} of parameters {self.scheme.fingerprint}{left})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reports):
            return NotImplemented
        return self.scheme.fingerprint == other.scheme.fingerprint and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("cohorts", "payload", "ids")
        )

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            "Reports: the columns do not change; `take` or `concat` makes new ones."
        )

    def take(self, rows: Any) -> Self:
        """The reports at these positions, or where a mask is true; `refused` is not carried on.

        Parameters
        ----------
        rows : object
            TODO.

        Returns
        -------
        Self
            The reports at these positions, or where a mask is true; `refused` is not carried on.
        """
        rows = rows if isinstance(rows, slice) else np.asarray(rows)
        if isinstance(rows, np.ndarray) and rows.size == 0 and rows.dtype != bool:
            rows = rows.astype(np.int64)
        return type(self)(self.scheme, self.cohorts[rows], self.payload[rows], self.ids[rows])

    @property
    def nbytes_per_report(self) -> int:
        """Bytes a report takes in these columns: payload, 4 of the cohort and 16 of the id."""
        return int(self.payload.shape[1]) + 4 + ID_BYTES

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def added(refused: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The counts of all, reason by reason."""
    total: dict[str, int] = {}
    for each in refused:
        for reason, count in each.items():
            total[reason] = total.get(reason, 0) + count
    return total


def _cohorts(cohorts: Any) -> np.ndarray:
    column = plain_numbers(cohorts)
    if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
        raise ValueError("Reports: cohorts must be one column of integers.")
    # What 32 bits cannot hold is no cohort of any scheme, and neither is -1.
    inside = (column >= 0) & (column < 2**31)
    return _fixed(np.where(inside, column, -1).astype(np.int32))


def _octets(name: str, table: Any, rows: int, width: int | None = None) -> np.ndarray:
    table = np.asarray(table)
    if table.dtype != np.uint8 or table.ndim != 2 or len(table) != rows:
        raise ValueError(f"Reports: {name} must be a uint8 table of {rows} rows, one a cohort.")
    if width is not None and table.shape[1] != width:
        raise ValueError(f"Reports: {name} must have {width} bytes a row, not {table.shape[1]}.")
    return _fixed(np.ascontiguousarray(table))


def _fixed(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
