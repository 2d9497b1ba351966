"""Maximum likelihood over full reports: the shares of candidates that make them most likely.

The log-likelihood is concave in the shares, so Newton steps that keep shares positive reach the
best ones. A step needs the slope over all reports, but the curvature only roughly: that of an even
sample of reports does.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import stats

from sfumato.telemetry.decoding.fisher_information import (
    MOST_TOGETHER,
    fixed_variance,
    information,
    inverted,
)
from sfumato.telemetry.decoding.report_likelihood import Likely, likely_of, usable
from sfumato.telemetry.decoding.weighted_least_squares import nonnegative
from sfumato.telemetry.reports.reports import Reports

__all__ = ["LikelihoodFit", "maximize"]

_STEPS = 200
_GAP = 1e-4  # to the greatest log-likelihood: a hundredth of a standard error
_RIDGE = 1e-10  # of the diagonal: candidates that no report tells apart then share what they have
_STEP_WORK, _LAST_WORK = 3 * 10**9, 2 * 10**10  # multiplications of a step and for the errors
_LEAST_ROWS = 64  # of a sample for each candidate: its errors are then within 1 %


class _CandidateMembers(Protocol):
    @property
    def members(self) -> np.ndarray: ...


@dataclass(frozen=True)
class LikelihoodFit:
    """The shares that make reports most likely, and how far the counts that they give may be off.

    One entry a candidate: `shares`; `std_errors`, of COUNTS shares x reports, where candidates with
    share 0 are known to be absent (each but itself); `p_values`, that a candidate is absent,
    one-sided; `free`, counts from one more step in which shares may be negative, and
    `free_std_errors`: normal without bias, so their intervals and tests hold exactly, while the
    estimates that are never negative are closer to the truth. `other`, a share, and its
    `other_std_error`, of a count, are of what is no candidate. Many candidates near 0, none of them
    below, take from it more than that error, so that `free_other`, a count, is what to state of it.
    `gap` is how far the log-likelihood
    may be below the greatest; it is against reports that depend on no value. `reports` that were
    used; `identified`, whether they tell all candidates apart.
    """

    shares: np.ndarray
    other: float
    std_errors: np.ndarray
    other_std_error: float
    p_values: np.ndarray
    free: np.ndarray
    free_std_errors: np.ndarray
    free_other: float
    free_other_std_error: float
    iterations: int
    gap: float
    log_likelihood: float
    reports: int
    identified: bool


def maximize(reports: Reports, design: _CandidateMembers, *, other: bool = True) -> LikelihoodFit:
    """The shares of the design's candidates that make these reports most likely.

    Guarantee: no shares have a log-likelihood greater by more than `gap`. Errors are of the counts
    of the clients that reported: the part of the usual error that comes from drawing clients is
    taken off. They count noise, and unknown values as many rare ones: one that is frequent and no
    candidate shifts what shares its cells by more than the errors say. Reports whose cohort or
    payload does not fit the scheme are left out. Time grows as reports x candidates, memory as the
    reports.
    Parameters: reports, of any kind of scheme; design, whose `members` (candidates, cohorts, cells)
    hold at most 4096 candidates; other, whether clients may have values that are no candidates.

    >>> from sfumato.telemetry import Rappor, ReportEncoder
    >>> from sfumato.telemetry.decoding.design import Design
    >>> asked = Rappor(16, 2, 4, f=0.25)
    >>> sent = ReportEncoder(asked, seed=1).encode_many(["tea"] * 3000 + ["milk"] * 1000)
    >>> fit = maximize(sent, Design(asked, ["tea", "milk", "rum"]))
    >>> bool(np.all(np.abs(fit.shares * 4000 - [3000, 1000, 0]) < 4 * fit.std_errors))
    True

    Kim, Carbonetto, Stephens and Anitescu 2020, section 2, on a sample's curvature.
    """
    if len(design.members) > MOST_TOGETHER:
        raise ValueError(
            f"maximize: candidates must be at most {MOST_TOGETHER}, not {len(design.members)}; "
            "decode by counts first, and give those that it detects."
        )
    fits = np.flatnonzero(usable(reports))
    if not fits.size:
        return _nothing(len(design.members))
    scheme, cohorts, payload = reports.scheme, reports.cohorts[fits], reports.payload[fits]
    likely = likely_of(scheme, design.members, cohorts, payload)
    unknown = np.append(np.ones(likely.values, bool), other and likely.others)
    shares, chances, gradient, steps = _climb(likely, unknown)
    return _judged(likely, unknown, shares, chances, gradient, steps)


def _climb(likely: Likely, unknown: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """The best shares, the chances of all rows and the slopes there, and how many steps it took."""
    total, shares = likely.weights.sum(), unknown / unknown.sum()
    part = likely.sample(_rows(likely, _STEP_WORK))
    chances, gradient = likely.expect(shares)
    last = 0.0
    for step in range(_STEPS):
        gap = gradient[unknown].max() - total
        if gap <= _GAP + 1e-11 * total:
            return shares, chances, gradient, step
        if gap > last / 4:  # else the curvature is still good enough
            curved = information(part, shares)[unknown][:, unknown]
            curved.flat[:: len(curved) + 1] *= 1 + _RIDGE
        last = gap
        best, slope = np.zeros(unknown.size), gradient[unknown] / total - 1
        best[unknown] = nonnegative(curved, curved @ shares[unknown] + slope, closed=True)
        shares, chances, gradient = _toward(likely, shares, best, chances)
    return shares, chances, gradient, _STEPS


def _toward(
    likely: Likely, shares: np.ndarray, best: np.ndarray, chances: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As much of the way to the best as raises the likelihood."""
    before, rounding = likely.weights @ np.log(chances), 1e-12 * likely.weights.sum()
    for part in 0.25 ** np.arange(8):
        tried = shares + part * (best - shares)
        tried /= tried.sum()
        chances, gradient = likely.expect(tried)
        if likely.weights @ np.log(chances) >= before - rounding:
            break
    return tried, chances, gradient


def _judged(
    likely: Likely,
    unknown: np.ndarray,
    shares: np.ndarray,
    chances: np.ndarray,
    gradient: np.ndarray,
    steps: int,
) -> LikelihoodFit:
    total, values = likely.weights.sum(), likely.values
    curved = information(likely.sample(_rows(likely, _LAST_WORK)), shares) / total
    slope = gradient - total
    errors, z = _errors(curved, shares * total, slope / total, unknown)
    free, free_errors = _free(curved, shares * total, slope / total, unknown)
    return LikelihoodFit(
        shares=shares[:-1],
        other=float(shares[-1]),
        std_errors=errors[:-1],
        other_std_error=float(errors[-1]),
        p_values=np.where(np.isfinite(errors), stats.norm.sf(z), 1.0)[:-1],
        free=free[:-1],
        free_std_errors=free_errors[:-1],
        free_other=float(free[-1]),
        free_other_std_error=float(free_errors[-1]),
        iterations=steps,
        gap=float(max(slope[unknown].max(), 0.0)),
        log_likelihood=float(likely.weights @ np.log(chances)),
        reports=round(total),
        identified=bool(np.isfinite(free_errors[:values]).all()),
    )


def _errors(
    curved: np.ndarray, counts: np.ndarray, slope: np.ndarray, unknown: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors, and deviations from a count of 0, where counts of 0 are known but for one.

    A positive count is compared with its error. That of 0 would be 1 / rest if it joined the
    others, where rest is what the others leave of its information; its slope is compared.
    """
    present = counts > 0
    inverse, identified = inverted(curved[present][:, present])
    across = curved[:, present] @ inverse
    rest = curved.diagonal() - (across * curved[:, present]).sum(axis=1)
    variance = np.where(rest > 1e-10 * curved.diagonal(), 1 / np.maximum(rest, 1e-300), np.inf)
    kept = np.maximum(inverse.diagonal() - counts[present], 0.0)
    variance[present] = np.where(identified, kept, np.inf)
    errors = np.sqrt(np.where(unknown, variance, 0.0))
    positive = counts / np.maximum(errors, 1e-300)
    return errors, np.where(present, positive, slope * np.where(np.isfinite(errors), errors, 0.0))


def _free(
    curved: np.ndarray, counts: np.ndarray, slope: np.ndarray, unknown: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One Newton step without regard to signs, and the standard errors of where it leads."""
    among = curved[unknown][:, unknown]
    inverse, _ = inverted(among)
    free, errors = counts.copy(), np.zeros(counts.size)
    free[unknown] += inverse @ slope[unknown]
    errors[unknown] = np.sqrt(fixed_variance(among, counts[unknown]))
    return free, errors


def _rows(likely: Likely, work: int) -> int:
    return max(_LEAST_ROWS * likely.values, work // likely.values**2)


def _nothing(values: int) -> LikelihoodFit:
    """What no report at all tells."""
    none = np.zeros(values)
    return LikelihoodFit(
        none, 0.0, none, 0.0, none + 1, none, none, 0.0, 0.0, 0, 0.0, 0.0, 0, False
    )
