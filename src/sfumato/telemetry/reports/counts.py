"""Counts: how often each cell of each cohort was marked, exact, mergeable, and no report twice."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from sfumato.core.file_format import (
    Packed,
    SketchFormatError,
    damaged,
    pack,
    packed_file,
    unreadable_version,
    write_atomic,
)
from sfumato.core.storage import REGISTRIES, Cells
from sfumato.core.typing import Bytes
from sfumato.core.validation import flag, integer
from sfumato.errors import DuplicateReportsError
from sfumato.kernels.lanes import aligned
from sfumato.kernels.telemetry import marks
from sfumato.telemetry.reports.jsonl import line_bytes
from sfumato.telemetry.reports.reports import Reports, added
from sfumato.telemetry.reports.validation import (
    Dispersion,
    HashSet,
    check_counts,
    counted_once,
    dispersion,
    fitting,
)
from sfumato.telemetry.schemes.base import Scheme, read_scheme

__all__ = ["Counts"]

KIND, VERSION = "telemetry counts", 1
REFUSED = integer(0)
LAYOUT = {
    "scheme": Cells(np.uint8, (-1,)),
    "cells": Cells(np.int64, (-1, -1)),
    "reports": Cells(np.int64, (-1,)),
    "ids": Cells(np.uint64, (-1,)),
}


class Counts:
    """How often reports of one scheme marked each cell of each cohort.

    scheme;

    Parameters
    ----------
    scheme : Scheme
        TODO.
    keep_ids : bool, default=True
        Whether to hold 8 bytes a report to find duplicates. Two ids that differ are taken for one
        with chance 2**-64.

    Notes
    -----
    **Guarantee.** Counts are exact: the same for any order, any batches and any split that is
    merged. A report that cannot be one of the scheme's is left out and counted in `refused` by its
    reason: other "parameters" (another fingerprint), a payload of another "length", a "cohort" that
    is not there, "marks" that no client makes (a cell beyond the last, a wrong number of cells),
    and a "duplicate", whose id was counted before; what the reader of the lines left out is added.
    A call that raises leaves the counts as they were; Ctrl-C may leave the reports of one batch
    counted without their ids.

    Examples
    --------
    >>> from sfumato.telemetry import Rappor
    >>> one = Reports(Rappor(8, 2, 4, f=0.5), [3], np.array([[0b101]], np.uint8),
    ...               np.zeros((1, 16), np.uint8))
    >>> counts = Counts(one.scheme).update(one).update(one)
    >>> counts.cells[3], counts.reports, counts.refused
    (array([1, 0, 1, 0, 0, 0, 0, 0]), array([0, 0, 0, 1]), {'duplicate': 1})
    """

    scheme: Scheme
    cells: np.ndarray
    reports: np.ndarray
    refused: dict[str, int]
    keep_ids: bool

    def __init__(self, scheme: Scheme, *, keep_ids: bool = True) -> None:
        if not isinstance(scheme, Scheme):
            raise TypeError(f"Counts: scheme must be parameters, not {type(scheme).__name__}.")
        self.scheme = scheme
        self.keep_ids = flag.check("Counts", "keep_ids", keep_ids)
        self.cells = _table(scheme)
        self.reports = aligned(scheme.cohorts, np.int64)
        self.refused, self._seen = {}, HashSet()

    def update(self, reports: Reports | Iterable[Reports]) -> Self:
        """Count reports: one `Reports`, or batches of them, as `read_reports` gives them.

        Parameters
        ----------
        reports : Reports or iterable
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        if isinstance(reports, Reports | list | tuple):
            self._count([reports] if isinstance(reports, Reports) else _all_reports(reports))
            return self
        if isinstance(reports, str | bytes) or not isinstance(reports, Iterable):
            raise TypeError(f"Counts: reports must be Reports, not {type(reports).__name__}.")
        twin = self.copy()  # the next batch may raise when it is made
        for batch in reports:
            twin._count(_all_reports([batch]))
        self.__dict__.update(twin.__dict__)
        return self

    def merge(self, other: Self) -> Self:
        """Take in other counts of the same scheme, as if their reports had come here too.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        self._check_mergeable(other)
        seen = self._seen.joined(other._seen)
        self.cells, self.reports, self.refused, self._seen = (
            self.cells + other.cells,
            self.reports + other.reports,
            added([self.refused, other.refused]),
            seen,
        )
        return self

    def copy(self) -> Self:
        """Independent counts with the same content.

        Returns
        -------
        Self
            The object itself.
        """
        twin = type(self)(self.scheme, keep_ids=self.keep_ids)
        twin.cells[...], twin.reports[...] = self.cells, self.reports
        twin.refused, twin._seen = dict(self.refused), self._seen
        return twin

    def without_ids(self) -> Self:
        """Independent counts that hold no ids, so that duplicates will not be found.

        Returns
        -------
        Self
            The object itself.
        """
        twin = self.copy()
        twin.keep_ids, twin._seen = False, HashSet()
        return twin

    def __len__(self) -> int:
        """How many reports are counted."""
        return int(self.reports.sum())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        return (
            self.scheme.fingerprint == other.scheme.fingerprint
            and (self.keep_ids, self.refused) == (other.keep_ids, other.refused)
            and np.array_equal(self.cells, other.cells)
            and np.array_equal(self.reports, other.reports)
            and np.array_equal(self._seen.sorted(), other._seen.sorted())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        told = f"{len(self)} reports of parameters {self.scheme.fingerprint}"
        return f"Counts({told}, refused {self.refused})"

    @property
    def nbytes(self) -> int:
        """Bytes of the cells, the totals and the ids."""
        return int(self.cells.nbytes + self.reports.nbytes) + self._seen.nbytes

    @property
    def bytes_per_report(self) -> dict[str, int]:
        """What a client sends: bytes of the payload alone, and of the longest line that has it."""
        return {"payload": self.scheme.payload_bytes, "line": line_bytes(self.scheme)}

    def dispersion(self) -> Dispersion:
        """How much the counts vary, as a share of what independent clients give.

        Returns
        -------
        Dispersion
            How much the counts vary, as a share of what independent clients give.
        """
        return dispersion(self.scheme, self.cells, self.reports)

    def to_bytes(self) -> bytes:
        """The counts as bytes with magic, version, parameters, cells and checksum.

        Returns
        -------
        bytes
            The counts as bytes with magic, version, parameters, cells and checksum.
        """
        header = {
            "kind": KIND,
            "version": VERSION,
            "parameters": {"keep_ids": self.keep_ids},
            "state": {"refused": self.refused},
        }
        arrays = {
            "scheme": np.frombuffer(self.scheme.to_json().encode(), np.uint8),
            "cells": self.cells,
            "reports": self.reports,
            "ids": self._seen.sorted(),
        }
        return pack(header, arrays)

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """The counts in these bytes; SketchFormatError when they are not whole and intact ones.

        Parameters
        ----------
        data : bytes_like
            TODO.

        Returns
        -------
        Self
            The counts in these bytes; SketchFormatError when they are not whole and intact ones.
        """
        packed = Packed(data)
        if packed.kind != KIND:
            raise SketchFormatError(f"Counts: the bytes hold a {packed.kind!r}.")
        if packed.version != VERSION:
            found = ("Counts", packed.version, VERSION)
            raise SketchFormatError(unreadable_version(*found, "count the reports anew"))
        with damaged("Counts"):
            return cls._restored(packed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file that is either complete or not there.

        Parameters
        ----------
        path : path_like
            TODO.
        """
        write_atomic(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The counts in a file; SketchFormatError when it is not a whole and intact one.

        Parameters
        ----------
        path : path_like
            TODO.

        Returns
        -------
        Self
            The counts in a file; SketchFormatError when it is not a whole and intact one.
        """
        return cls.from_bytes(packed_file(path))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def _count(self, batches: Sequence[Reports]) -> None:
        """Judge all, then count all: what can fail comes first."""
        kept, seen = [], self._seen
        told: list[Mapping[str, int]] = [self.refused]
        for sent in batches:
            if self.keep_ids:
                keep, refused, seen = counted_once(self.scheme, sent, seen)
            else:
                keep, refused = fitting(self.scheme, sent)
            kept.append(keep)
            told += [sent.refused, refused]
        refused = added(told)
        add = marks.add_symbols if self.scheme.kind == "symbol" else marks.add_bits
        for sent, keep in zip(batches, kept, strict=True):
            if keep.any():
                columns = (sent.cohorts, sent.payload, keep)
                add(*columns, self.reports.view(np.uint64), self.cells.view(np.uint64))
        self._seen, self.refused = seen, refused

    def _check_mergeable(self, other: Any) -> None:
        if not isinstance(other, Counts):
            raise TypeError(f"Counts: cannot merge with {type(other).__name__}.")
        for name, mine, yours in (
            ("the fingerprint", self.scheme.fingerprint, other.scheme.fingerprint),
            ("keep_ids", self.keep_ids, other.keep_ids),
        ):
            if mine != yours:
                hint = "; `without_ids` makes them alike" if name == "keep_ids" else ""
                raise ValueError(
                    f"Counts: cannot merge, {name} is {mine!r} here and {yours!r} there{hint}."
                )
        if shared := self._seen.common(other._seen):
            raise DuplicateReportsError(
                f"Counts: cannot merge, {shared} reports are in both, and counts cannot tell what "
                "they marked; count those reports into one of them instead of merging."
            )

    @classmethod
    def _restored(cls, packed: Packed) -> Self:
        arrays = packed.arrays(LAYOUT)
        scheme = read_scheme(arrays["scheme"].tobytes().decode())
        counts = cls.__new__(cls)
        counts.scheme, counts.cells, counts.reports = scheme, arrays["cells"], arrays["reports"]
        counts.keep_ids = flag.check("file", "keep_ids", packed.parameters["keep_ids"])
        counts.refused = {
            str(reason): REFUSED.check("file", "refused", count)
            for reason, count in dict(packed.state["refused"]).items()
        }
        check_counts(scheme, counts.cells, counts.reports)
        ids = arrays["ids"]
        if ids.size != (len(counts) if counts.keep_ids else 0) or (ids[1:] <= ids[:-1]).any():
            raise ValueError("there must be an id for every report, in order, and none twice.")
        counts._seen = HashSet([ids] if ids.size else [])
        return counts


def _table(scheme: Scheme) -> np.ndarray:
    cohorts, cells = scheme.cohorts, scheme.cells
    try:
        return aligned((cohorts, cells), np.int64)
    except MemoryError:
        raise ValueError(
            f"Counts: {cohorts} cohorts of {cells} cells take {cohorts * cells / 2**27:.1f} GiB, "
            "more than there is; use fewer of them."
        ) from None


REGISTRIES.append({KIND: Counts})


def _all_reports(batches: Sequence[Any]) -> Sequence[Reports]:
    for batch in batches:
        if not isinstance(batch, Reports):
            raise TypeError(f"Counts: a batch must be Reports, not {type(batch).__name__}.")
    return batches
