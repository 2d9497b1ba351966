"""The Cramer-Rao bound: the least standard errors of counts that a design of reports allows.

The clients and their values are fixed; cohorts and noise are random. Let J be the information of
the reports about the counts c of values drawn anew: the mean of L L' / (L'c)**2 for full reports
with likelihoods L, and its projection on marks for counts. Then J c = 1, the covariance of the best
estimates is J^-1 for values drawn anew up to their sum, and of that diag(c) is the drawing: for
fixed clients J^-1 - diag(c) is left.
"""

import math
from typing import Any

import numpy as np

from sfumato._require import flag
from sfumato.data._columns import plain_numbers
from sfumato.telemetry._count_information import count_information
from sfumato.telemetry._inverse import inverted
from sfumato.telemetry._odds import left_over
from sfumato.telemetry._report_information import report_information
from sfumato.telemetry._scheme import Scheme

__all__ = ["MOST_TOGETHER", "cramer_rao", "fixed_variance"]

MOST_TOGETHER = 4096  # values whose counts are unknown together
_TELLS = 1e-12  # of a report about a value; less is rounding


def cramer_rao(
    scheme: Scheme,
    members: Any,
    counts: Any,
    other_count: float | None,
    *,
    full_reports: bool = False,
    alone: bool = False,
) -> np.ndarray:
    """The least standard error of every value's count that an unbiased decoder can have.

    Guarantee: exact for many reports (the Gaussian limit), with the exact covariance of marks; from
    full reports exact for symbols and up to 16 cells, else from random reports with a fixed seed,
    within about 1 % (two standard errors). Infinite where a count cannot be told from others'.
    Decoders that know more, as that no count is negative, can do better, but not than `alone`.
    Parameters: members, int (values, cohorts, cells of a set), as of `scheme.members`; counts, how
    many clients have each value, true or estimated, from 0 up; other_count, how many have none of
    these, an unknown as well (None: it is known that there are none); full_reports, whether reports
    are kept or only counts of marks; alone, whether the proportions of all other values are known.

    >>> from sfumato.telemetry import Params
    >>> asked = Params(categories=["tea", "milk"], f=0.5)
    >>> cramer_rao(asked, asked.members(["tea", "milk"]), [600, 400], None).round(1)
    array([19.4, 19.4])

    Bickel and Doksum 2015, section 6.2; Erlingsson, Pihur and Korolova 2014, section 4.
    """
    full_reports = flag.check("cramer_rao", "full_reports", full_reports)
    alone = flag.check("cramer_rao", "alone", alone)
    members = np.asarray(members, np.int32)
    amounts, unknown = _amounts(scheme, members, counts, other_count)
    total = amounts.sum()
    if total == 0:
        return np.zeros(len(members))
    if len(members) > MOST_TOGETHER and not alone:
        raise ValueError(
            f"cramer_rao: members must hold at most {MOST_TOGETHER} values, not {len(members)}; "
            "give the most frequent, or alone=True."
        )
    told = report_information if full_reports and scheme.kind != "symbol" else count_information
    information = told(scheme, members, amounts, diagonal=alone)
    if alone:
        variance = _alone_variance(information, amounts)
    else:
        variance = fixed_variance(information[unknown][:, unknown], amounts[unknown])
    return np.asarray(np.sqrt(variance[: len(members)]))


def fixed_variance(information: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The diagonal of information^-1 - diag(counts), infinite where it is not identified."""
    inverse, identified = inverted(information)
    return np.where(identified, np.maximum(inverse.diagonal() - counts, 0.0), math.inf)


def _alone_variance(information: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The same for a value against all others in known proportions: two unknowns with one sum.

    With a = J_vv and J c = 1 the other entries of the two by two information follow.
    """
    total, certain = counts.sum(), information * counts.sum() - 1
    drawn = np.maximum((total - counts) * (1 - information * counts), 0.0)
    unknown = np.where(drawn > 0, math.inf, 0.0)
    return np.where(certain > _TELLS, drawn / np.maximum(certain, _TELLS), unknown)


def _amounts(
    scheme: Scheme, members: np.ndarray, counts: Any, other_count: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Counts of values and others, and which of them are unknown."""
    amounts = np.append(plain_numbers(counts), other_count or 0.0).astype(np.float64)
    if members.ndim != 3 or amounts.shape != (len(members) + 1,):
        raise ValueError("cramer_rao: members must be (values, cohorts, cells), a row each count.")
    if not np.isfinite(amounts).all() or amounts.min() < 0:
        raise ValueError("cramer_rao: counts and other_count must be finite numbers from 0 up.")
    held = left_over(scheme, members)
    others = other_count is not None and (held is None or bool(held.any()))
    return amounts, np.append(np.ones(len(members), bool), others)
