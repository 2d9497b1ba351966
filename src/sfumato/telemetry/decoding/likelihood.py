"""Maximum likelihood over complete reports: the fractions of candidates that make them most likely.

The log-likelihood is concave in the fractions, so constrained Newton steps converge to the
maximum. A step needs the gradient over all reports, but the curvature only roughly: that of an
evenly spaced sample of reports suffices.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy

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
_RIDGE = 1e-10  # of the diagonal: indistinguishable candidates then get equal parts
_STEP_WORK, _LAST_WORK = 3 * 10**9, 2 * 10**10  # multiplications of a step and for the errors
_LEAST_ROWS = 64  # of a sample for each candidate: its errors are then within 1 %


class _CandidateMembers(Protocol):
    """Anything with the cells of candidates."""

    @property
    def members(self) -> np.ndarray: ...


@dataclass(frozen=True)
class LikelihoodFit:
    """Maximum-likelihood fractions of candidates, and the standard errors of their counts.

    One entry per candidate: `fractions`; `std_errors`, of the COUNTS fractions x reports, given
    that candidates of fraction 0 are absent (each but itself); `p_values`, one-sided, of a
    candidate being absent; `unconstrained`, counts after one more Newton step without the bound at
    0, and `unconstrained_std_errors`. The latter are normal and unbiased, so their intervals and
    tests are exact, while the nonnegative estimates are closer to the truth. `other`, a fraction,
    and `other_std_error`, of a count, are of values that are no candidates. Many candidates near 0,
    none of them below, take from it more than that error, so `unconstrained_other`, a count, is the
    one to state. `gap` bounds how far the log-likelihood is below its maximum; `log_likelihood` is
    relative to reports that depend on no value. `reports` is the number used; `identified`, whether
    they distinguish all candidates.
    """

    fractions: np.ndarray
    other: float
    std_errors: np.ndarray
    other_std_error: float
    p_values: np.ndarray
    unconstrained: np.ndarray
    unconstrained_std_errors: np.ndarray
    unconstrained_other: float
    unconstrained_other_std_error: float
    iterations: int
    gap: float
    log_likelihood: float
    reports: int
    identified: bool


def maximize(reports: Reports, design: _CandidateMembers, *, other: bool = True) -> LikelihoodFit:
    """Return the fractions of the design's candidates that make these reports most likely.

    Guarantee: no fractions have a log-likelihood greater by more than `gap`. Errors are of the
    counts of the clients that reported: the part of the usual error that comes from sampling
    clients is subtracted. They include noise, and unknown values as many rare ones: a frequent
    value that is no candidate shifts candidates with common cells by more than the errors state.
    Reports that do not fit the scheme are left out. Time is proportional to reports x candidates,
    memory to reports.

    `design.members` is (candidates, cohorts, cells) of at most 4096 candidates; `other` says
    whether clients may have values that are no candidates.

    >>> from sfumato.telemetry import Rappor, ReportEncoder
    >>> from sfumato.telemetry.decoding.design import Design
    >>> scheme = Rappor(16, 2, 4, f=0.25)
    >>> sent = ReportEncoder(scheme, seed=1).encode_many(["tea"] * 3000 + ["milk"] * 1000)
    >>> fit = maximize(sent, Design(scheme, ["tea", "milk", "rum"]))
    >>> bool(np.all(np.abs(fit.fractions * 4000 - [3000, 1000, 0]) < 4 * fit.std_errors))
    True

    Kim, Carbonetto, Stephens and Anitescu 2020, section 2, on the curvature of a sample.
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
    fractions, probabilities, gradient, steps = _climb(likely, unknown)
    return _judged(likely, unknown, fractions, probabilities, gradient, steps)


def _climb(likely: Likely, unknown: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return the best fractions, the probabilities of all rows, the gradient, and the steps."""
    total, fractions = likely.weights.sum(), unknown / unknown.sum()
    part = likely.sample(_rows(likely, _STEP_WORK))
    probabilities, gradient = likely.expect(fractions)
    last = 0.0
    for step in range(_STEPS):
        gap = gradient[unknown].max() - total
        if gap <= _GAP + 1e-11 * total:
            return fractions, probabilities, gradient, step
        if gap > last / 4:  # else the curvature is still good enough
            curved = information(part, fractions)[unknown][:, unknown]
            curved.flat[:: len(curved) + 1] *= 1 + _RIDGE
        last = gap
        best, slope = np.zeros(unknown.size), gradient[unknown] / total - 1
        best[unknown] = nonnegative(curved, curved @ fractions[unknown] + slope, closed=True)
        fractions, probabilities, gradient = _toward(likely, fractions, best, probabilities)
    return fractions, probabilities, gradient, _STEPS


def _toward(
    likely: Likely, fractions: np.ndarray, best: np.ndarray, probabilities: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Go as far towards the best fractions as raises the likelihood."""
    before, rounding = likely.weights @ np.log(probabilities), 1e-12 * likely.weights.sum()
    for part in 0.25 ** np.arange(8):
        tried = fractions + part * (best - fractions)
        tried /= tried.sum()
        probabilities, gradient = likely.expect(tried)
        if likely.weights @ np.log(probabilities) >= before - rounding:
            break
    return tried, probabilities, gradient


def _judged(
    likely: Likely,
    unknown: np.ndarray,
    fractions: np.ndarray,
    probabilities: np.ndarray,
    gradient: np.ndarray,
    steps: int,
) -> LikelihoodFit:
    """Return the fit with its errors and tests."""
    total, values = likely.weights.sum(), likely.values
    curved = information(likely.sample(_rows(likely, _LAST_WORK)), fractions) / total
    slope = gradient - total
    errors, z = _errors(curved, fractions * total, slope / total, unknown)
    unconstrained, free_errors = _unconstrained(curved, fractions * total, slope / total, unknown)
    return LikelihoodFit(
        fractions=fractions[:-1],
        other=float(fractions[-1]),
        std_errors=errors[:-1],
        other_std_error=float(errors[-1]),
        p_values=np.where(np.isfinite(errors), scipy.special.ndtr(-z), 1.0)[:-1],
        unconstrained=unconstrained[:-1],
        unconstrained_std_errors=free_errors[:-1],
        unconstrained_other=float(unconstrained[-1]),
        unconstrained_other_std_error=float(free_errors[-1]),
        iterations=steps,
        gap=float(max(slope[unknown].max(), 0.0)),
        log_likelihood=float(likely.weights @ np.log(probabilities)),
        reports=round(total),
        identified=bool(np.isfinite(free_errors[:values]).all()),
    )


def _errors(
    curved: np.ndarray, counts: np.ndarray, slope: np.ndarray, unknown: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return standard errors, and z-values of a count of 0, given that other counts of 0 are known.

    A positive count is divided by its error. A count of 0 would have variance 1 / residual if it
    joined the others, where residual is its information given them; its gradient is used.
    """
    present = counts > 0
    inverse, identified = inverted(curved[present][:, present])
    across = curved[:, present] @ inverse
    residual = curved.diagonal() - (across * curved[:, present]).sum(axis=1)
    variance = np.where(
        residual > 1e-10 * curved.diagonal(), 1 / np.maximum(residual, 1e-300), np.inf
    )
    fixed = np.maximum(inverse.diagonal() - counts[present], 0.0)
    variance[present] = np.where(identified, fixed, np.inf)
    errors = np.sqrt(np.where(unknown, variance, 0.0))
    positive = counts / np.maximum(errors, 1e-300)
    return errors, np.where(present, positive, slope * np.where(np.isfinite(errors), errors, 0.0))


def _unconstrained(
    curved: np.ndarray, counts: np.ndarray, slope: np.ndarray, unknown: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Take one Newton step without constraints; return the counts and their standard errors."""
    among = curved[unknown][:, unknown]
    inverse, _ = inverted(among)
    unconstrained, errors = counts.copy(), np.zeros(counts.size)
    unconstrained[unknown] += inverse @ slope[unknown]
    errors[unknown] = np.sqrt(fixed_variance(among, counts[unknown]))
    return unconstrained, errors


def _rows(likely: Likely, work: int) -> int:
    """Return the rows of a sample that costs this number of multiplications."""
    return max(_LEAST_ROWS * likely.values, work // likely.values**2)


def _nothing(values: int) -> LikelihoodFit:
    """Return the fit without any report."""
    none = np.zeros(values)
    return LikelihoodFit(
        none, 0.0, none, 0.0, none + 1, none, none, 0.0, 0.0, 0, 0.0, 0.0, 0, False
    )
