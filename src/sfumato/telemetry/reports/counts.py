"""Exact, mergeable counts of reports by cohort and cell, without duplicates."""

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
from sfumato.kernels.alignment import aligned
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
    """Number of reports that mark each cell of each cohort.

    Memory is 8 bytes per cell of each cohort, plus 8 bytes per report if `keep_ids`.

    Parameters
    ----------
    scheme : Scheme
        Parameters that the clients used.
    keep_ids : bool, default=True
        Whether to store a 64-bit hash of every report's id to detect duplicates. Two different
        ids collide with probability 2**-64.

    Attributes
    ----------
    cells : ndarray of shape (cohorts, cells)
        Number of reports of the cohort that mark the cell, int64.
    reports : ndarray of shape (cohorts,)
        Number of reports of the cohort, int64.
    refused : dict of str to int
        Number of reports left out, by reason.

    Notes
    -----
    **Guarantee.** Counts are exact: the same for any order, batching and split that is merged. A
    report that no client of the scheme can have sent is left out and counted in `refused` by its
    reason: "parameters" (another fingerprint), "length" (of the payload), "cohort" (out of range),
    "marks" (a cell beyond the last, or a number of cells that no client marks) and "duplicate" (an
    id that was counted before); what the reader of the lines left out is added. A call that raises
    leaves the counts unchanged; Ctrl-C may leave the reports of one batch counted without their
    ids.

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
        self.refused, self._id_hashes = {}, HashSet()

    def update(self, reports: Reports | Iterable[Reports]) -> Self:
        """Count reports.

        Parameters
        ----------
        reports : Reports or iterable of Reports
            One batch, or many, such as `read_reports` yields.

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
        """Add other counts of the same scheme, as after counting their reports here too.

        Parameters
        ----------
        other : Self
            Counts with equal parameters and `keep_ids`.

        Returns
        -------
        Self
            The object itself.

        Raises
        ------
        DuplicateReportsError
            If some reports were counted in both.
        ValueError
            If parameters or `keep_ids` differ.
        """
        self._check_mergeable(other)
        id_hashes = self._id_hashes.joined(other._id_hashes)
        self.cells, self.reports, self.refused, self._id_hashes = (
            self.cells + other.cells,
            self.reports + other.reports,
            added([self.refused, other.refused]),
            id_hashes,
        )
        return self

    def copy(self) -> Self:
        """Copy the counts.

        Returns
        -------
        Self
            Independent counts with the same content.
        """
        twin = type(self)(self.scheme, keep_ids=self.keep_ids)
        twin.cells[...], twin.reports[...] = self.cells, self.reports
        twin.refused, twin._id_hashes = dict(self.refused), self._id_hashes
        return twin

    def without_ids(self) -> Self:
        """Copy the counts without the hashes of ids, so that duplicates are no longer detected.

        Returns
        -------
        Self
            Independent counts with ``keep_ids=False``.
        """
        twin = self.copy()
        twin.keep_ids, twin._id_hashes = False, HashSet()
        return twin

    def __len__(self) -> int:
        """Return the number of reports counted."""
        return int(self.reports.sum())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        return (
            self.scheme.fingerprint == other.scheme.fingerprint
            and (self.keep_ids, self.refused) == (other.keep_ids, other.refused)
            and np.array_equal(self.cells, other.cells)
            and np.array_equal(self.reports, other.reports)
            and np.array_equal(self._id_hashes.sorted(), other._id_hashes.sorted())
        )

    def __repr__(self) -> str:
        counted = f"{len(self)} reports of parameters {self.scheme.fingerprint}"
        return f"Counts({counted}, refused {self.refused})"

    @property
    def nbytes(self) -> int:
        """Bytes of the cells, the totals and the hashes of ids."""
        return int(self.cells.nbytes + self.reports.nbytes) + self._id_hashes.nbytes

    @property
    def bytes_per_report(self) -> dict[str, int]:
        """Bytes that a client sends: "payload" alone, and "line", the longest JSON line with it."""
        return {"payload": self.scheme.payload_bytes, "line": line_bytes(self.scheme)}

    def dispersion(self) -> Dispersion:
        """Compare the variance of the counts with that of independent clients.

        Returns
        -------
        Dispersion
            Variance ratios, about 1 if every report is of another client.
        """
        return dispersion(self.scheme, self.cells, self.reports)

    def to_bytes(self) -> bytes:
        """Write the counts as bytes.

        Returns
        -------
        bytes
            Content of a Sfumato file: parameters, counts, hashes of report ids and a checksum.
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
            "ids": self._id_hashes.sorted(),
        }
        return pack(header, arrays)

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """Read the counts that `to_bytes` wrote.

        Parameters
        ----------
        data : bytes_like
            The complete bytes.

        Returns
        -------
        Self
            Equal counts.

        Raises
        ------
        SketchFormatError
            If the bytes are no counts, incomplete or damaged.
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
        """Write the counts to a file, atomically.

        Parameters
        ----------
        path : path_like
            File to write; an existing one is replaced.
        """
        write_atomic(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the counts that `save` wrote.

        Parameters
        ----------
        path : path_like
            File to read.

        Returns
        -------
        Self
            Equal counts.

        Raises
        ------
        SketchFormatError
            If the file has no counts, is incomplete or damaged.
        """
        return cls.from_bytes(packed_file(path))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def _count(self, batches: Sequence[Reports]) -> None:
        """Validate all batches first, then count them, so that a failure changes nothing."""
        masks, id_hashes = [], self._id_hashes
        reasons: list[Mapping[str, int]] = [self.refused]
        for sent in batches:
            if self.keep_ids:
                keep, refused, id_hashes = counted_once(self.scheme, sent, id_hashes)
            else:
                keep, refused = fitting(self.scheme, sent)
            masks.append(keep)
            reasons += [sent.refused, refused]
        refused = added(reasons)
        add = marks.add_symbols if self.scheme.kind == "symbol" else marks.add_bits
        for sent, keep in zip(batches, masks, strict=True):
            if keep.any():
                columns = (sent.cohorts, sent.payload, keep)
                add(*columns, self.reports.view(np.uint64), self.cells.view(np.uint64))
        self._id_hashes, self.refused = id_hashes, refused

    def _check_mergeable(self, other: Any) -> None:
        """Raise if other counts cannot be merged into these."""
        if not isinstance(other, Counts):
            raise TypeError(f"Counts: cannot merge with {type(other).__name__}.")
        for name, mine, yours in (
            ("the fingerprint", self.scheme.fingerprint, other.scheme.fingerprint),
            ("keep_ids", self.keep_ids, other.keep_ids),
        ):
            if mine != yours:
                hint = "; `without_ids` makes them equal" if name == "keep_ids" else ""
                raise ValueError(
                    f"Counts: cannot merge, {name} is {mine!r} here and {yours!r} there{hint}."
                )
        if shared := self._id_hashes.common(other._id_hashes):
            raise DuplicateReportsError(
                f"Counts: cannot merge, {shared} reports are in both, and counts do not say what "
                "they marked; count those reports into one of them instead of merging."
            )

    @classmethod
    def _restored(cls, packed: Packed) -> Self:
        """Return the counts of an unpacked file, validated."""
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
        counts._id_hashes = HashSet([ids] if ids.size else [])
        return counts


def _table(scheme: Scheme) -> np.ndarray:
    """Return a zero count for every cell of every cohort."""
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
    """Check that every batch is Reports."""
    for batch in batches:
        if not isinstance(batch, Reports):
            raise TypeError(f"Counts: a batch must be Reports, not {type(batch).__name__}.")
    return batches
