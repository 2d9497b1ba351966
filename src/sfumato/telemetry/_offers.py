"""Every scheme at one epsilon, each with the sizes that tell a dictionary of given length best."""

import math
from collections.abc import Callable, Iterator
from itertools import product

from sfumato.telemetry._scheme import Scheme
from sfumato.telemetry._spread import hashed_variance
from sfumato.telemetry.hadamard_response import HadamardResponse
from sfumato.telemetry.local_hashing import LocalHashing
from sfumato.telemetry.params import Params
from sfumato.telemetry.subset_selection import SubsetSelection

__all__ = ["hashed_offers", "known_offers"]

SLACK = 1.05  # of the variance, for a smaller report
TABLE = 2**26  # hashes of a dictionary in all cohorts that decoding may take: 256 MiB
PER_COHORT = 64  # reports at least
CELLS = [2**power for power in range(4, 13)]
COHORTS = [2**power for power in range(17)]

MOST = 22  # a hash: a little less than RAPPOR's chances, in steps of 2**-16, can cost for ever

Sizes = tuple[int, int, int]  # hashes, cells, cohorts


def hashed_offers(
    n_reports: int, epsilon: float, dictionary: int, longitudinal: bool
) -> Iterator[tuple[str, Scheme]]:
    """Schemes that take any value: RAPPOR, local hashing, subset selection of hashed cells."""
    most = min(n_reports // PER_COHORT, TABLE // dictionary)
    cohorts = [m for m in COHORTS if m <= max(1, most)]
    ones = {h: _one(epsilon, h, longitudinal) for h in (1, 2, 4)}
    noised = {h: Params.for_epsilon(epsilon, one, hashes=h) for h, one in ones.items()}
    sizes = _best(
        list(product(noised, CELLS, cohorts)),
        lambda h, k, m: hashed_variance(*_chances(noised[h]), k, m, dictionary, h),
    )
    noise = noised[sizes[0]]
    yield "RAPPOR", Params(sizes[1], sizes[0], sizes[2], f=noise.f, p=noise.p, q=noise.q)
    local = LocalHashing(epsilon)
    sizes = _best(
        list(product([1], [local.cells], cohorts)),
        lambda _, k, m: hashed_variance(*_chances(local), k, m, dictionary, marks=1),
    )
    yield "local hashing", LocalHashing(epsilon, sizes[2], local.cells)
    chosen = {k: SubsetSelection(epsilon, cells=k) for k in CELLS}
    sizes = _best(
        list(product([1], CELLS, cohorts)),
        lambda _, k, m: hashed_variance(
            *_chances(chosen[k]), k, m, dictionary, marks=chosen[k].chosen
        ),
    )
    yield "subset selection, hashed", SubsetSelection(epsilon, cells=sizes[1], cohorts=sizes[2])


def known_offers(
    epsilon: float, dictionary: int, longitudinal: bool
) -> Iterator[tuple[str, Scheme]]:
    """Schemes for a known domain, whose values are here called by their numbers, from 0 on."""
    names = tuple(map(str, range(dictionary)))
    one = _one(epsilon, 1, longitudinal)
    yield "basic RAPPOR", Params.for_epsilon(epsilon, one, categories=names)
    yield "k-ary response", SubsetSelection(epsilon, names, chosen=1)
    yield "subset selection", SubsetSelection(epsilon, names)
    yield "Hadamard response", HadamardResponse(epsilon, names)


def _one(epsilon: float, hashes: int, longitudinal: bool) -> float | None:
    """What one report may cost: half of what all together do, where it needs noise of its own."""
    return min(epsilon, MOST * hashes) / 2 if longitudinal else None


def _chances(scheme: Scheme) -> tuple[float, float]:
    return float(scheme.high), float(scheme.low)


def _best(sizes: list[Sizes], variance: Callable[[int, int, int], float]) -> Sizes:
    """The least effort whose variance is within SLACK of the least; if none has one, most counts.

    Cells cost bytes of every report and cohorts hashes of every candidate: eight cells, which
    are a byte, weigh as four cohorts.
    """
    found = {size: variance(*size) for size in sizes}
    least = min(found.values())
    if math.isinf(least):
        return max(sizes, key=lambda size: size[1] * size[2])
    near = [size for size in sizes if found[size] <= SLACK * least]
    return min(near, key=lambda size: (size[1] / 2 + size[2], size))
