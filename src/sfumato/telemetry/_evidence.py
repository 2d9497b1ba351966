"""What reports say for each candidate and for "other": likelihoods, a row a report, in blocks."""

from typing import Self

import numpy as np

from sfumato.kernels import mixture, paired
from sfumato.telemetry._design import Design
from sfumato.telemetry._fitting import fitting
from sfumato.telemetry._odds import odds_of
from sfumato.telemetry.reports import Reports

__all__ = ["Evidence", "usable"]

_HELD = 2**28  # bytes of likelihoods that are kept; more are made again whenever they are read


def usable(reports: Reports) -> np.ndarray:
    """True where a client can have sent the report, by the rule of `Counts`: a mask."""
    return fitting(reports.scheme, reports)[0]


def symbols_of(reports: Reports) -> np.ndarray:
    return np.ascontiguousarray(reports.payload).view("<u4")[:, 0].astype(np.int64)


class Evidence:
    """Likelihoods of reports under candidates; the last column is that of "other", if there is one.

    Each row is scaled so that its largest is 1, which no comparison of candidates sees. "Other" is
    a value that is no candidate: where the scheme knows its values, any of those that are left,
    and there is no "other" if none is; else one whose cells are drawn at random.
    """

    def __init__(self, reports: Reports, design: Design, *, other: bool) -> None:
        self._reports, self._scheme = reports, reports.scheme
        self._members = np.ascontiguousarray(design.members.transpose(1, 0, 2))
        self._odds = odds_of(self._scheme, design.members)
        self._powers = self._odds.ratio ** np.arange(1.0 + self._members.shape[2])
        left = self._odds.held
        self.other = other and (left is None or bool(left.any()))
        self.columns = len(design) + self.other
        self._kept: np.ndarray | None = None

    def held(self) -> Self:
        """Keep all likelihoods if they are not too many."""
        if 4 * len(self._reports) * self.columns <= _HELD:
            self._kept = self.block(slice(None))
        return self

    def block(self, rows: slice) -> np.ndarray:
        """The likelihoods of these rows, float32."""
        if self._kept is not None:
            return self._kept[rows]
        sent = self._reports.take(rows)
        out = np.empty((len(sent), self.columns))
        named = out[:, : self.columns - self.other]
        law = (sent.cohorts, self._members, self._odds.base, self._powers, named)
        if self._scheme.kind == "symbol":
            paired.of_symbols(symbols_of(sent), *law)
        else:
            paired.of_bits(sent.payload, *law)
        if self.other:
            out[:, -1] = self._unnamed(sent)
        out /= out.max(axis=1, keepdims=True, initial=0)
        return out.astype(np.float32)

    def _unnamed(self, sent: Reports) -> np.ndarray:
        """The likelihood of "other": a sum over marked cells, or by how many are marked."""
        odds, symbol = self._odds, self._scheme.kind == "symbol"
        if odds.held is None:
            if symbol:
                return np.full(len(sent), odds.other[1])
            marks = np.empty(len(sent), np.int64)
            mixture.marks(sent.payload, marks)
            return np.asarray(odds.other[np.minimum(marks, self._scheme.cells)])
        weights = odds.clear * (odds.ratio - 1) * odds.held[0]  # known values have one cohort
        if symbol:
            return np.asarray(odds.clear + weights[symbols_of(sent)])
        out, spare = np.empty(len(sent)), 8 * self._scheme.payload_bytes - len(weights)
        paired.weighted_marks(sent.payload, np.append(weights, np.zeros(spare)), out)
        return out + odds.clear
