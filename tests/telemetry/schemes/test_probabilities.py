"""Exact distributions of reports: no output has a larger likelihood ratio than stated."""

from fractions import Fraction
from itertools import permutations

import mpmath
import pytest

from sfumato.telemetry import HadamardResponse, LocalHashing, SubsetSelection
from support.report_distributions import law_of, marks

NAMES = ["a", "b", "c", "d", "e"]
TINY = [
    LocalHashing(0.7, cohorts=2, cells=2),
    LocalHashing(2.0, cohorts=3),
    LocalHashing(30.0, cohorts=1, cells=3),
    SubsetSelection(0.5, NAMES),
    SubsetSelection(1.0, NAMES, other=True),
    SubsetSelection(1.5, NAMES, chosen=1),
    SubsetSelection(3.0, NAMES, chosen=4),
    SubsetSelection(0.8, cells=6, cohorts=2),
    SubsetSelection(40.0, ["yes", "no"]),
    HadamardResponse(0.5, NAMES),
    HadamardResponse(2.0, NAMES, other=True),
    HadamardResponse(1.0, NAMES, blocks=2),
    HadamardResponse(30.0, NAMES, blocks=4),
]


def distributions(scheme):
    """The distributions of reports of all values, or of all cells that a value is hashed to."""
    if scheme.domain is None:
        return {(cell,): law_of(scheme, [cell]) for cell in range(scheme.cells)}
    sets = scheme.members(scheme.domain)[:, 0].tolist()
    return {tuple(cells): law_of(scheme, cells) for cells in sets}


@pytest.mark.parametrize("scheme", TINY, ids=repr)
def test_no_output_is_likelier_than_stated_under_another_value(scheme):
    found = list(distributions(scheme).values())
    outputs = set().union(*found)
    assert all(
        set(distribution) == outputs for distribution in found
    )  # else epsilon would be infinite
    worst = max(p[o] / q[o] for p, q in permutations(found, 2) for o in outputs)
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator)
        assert exact <= scheme.epsilon_one <= scheme.epsilon
        assert scheme.epsilon_one - exact < 1e-9
    assert scheme.epsilon_permanent == scheme.epsilon_one == scheme.loss().epsilon
    assert scheme.statement().epsilon == scheme.epsilon_one


@pytest.mark.parametrize("scheme", TINY, ids=repr)
def test_high_and_low_are_the_probabilities_of_the_code(scheme):
    for own, distribution in distributions(scheme).items():
        for cell in range(scheme.cells):
            probability = sum(
                (p for o, p in distribution.items() if cell in marks(scheme, o)), Fraction(0)
            )
            assert probability == (scheme.high if cell in own else scheme.low)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 2.2148, 5.0, 9.0])
def test_one_more_step_of_the_probabilities_would_exceed_epsilon(epsilon):
    grid = 2**32
    with mpmath.workdps(60):
        limit = mpmath.exp(mpmath.mpf(epsilon))
        for scheme in (LocalHashing(epsilon), HadamardResponse(epsilon, NAMES)):
            invalid, size = scheme.wrong - 1, scheme.set_size
            extra = (grid - scheme.cells * invalid) // size
            assert invalid == 0 or mpmath.mpf(invalid + extra) / invalid > limit * (1 - 1e-11)
        scheme = SubsetSelection(epsilon, cells=50)
        odds = mpmath.mpf(scheme.cells - scheme.chosen) / scheme.chosen
        more = scheme.own_words + 1
        assert odds * more / (grid - more) > limit * (1 - 1e-11)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.2148, 4.0])
def test_the_sizes_that_are_chosen_are_the_best_of_all(epsilon):
    def known(s):
        return float(s.low * (1 - s.low) / (s.high - s.low) ** 2)

    def hashed(s, marked):
        mean = Fraction(marked, s.cells)
        return float(mean * (1 - mean) / (s.high - mean) ** 2)

    least = min(hashed(LocalHashing(epsilon, cells=g), 1) for g in range(2, 150))
    assert hashed(LocalHashing(epsilon), 1) <= least * (1 + 1e-7)
    best = SubsetSelection(epsilon, cells=40)
    sets = [SubsetSelection(epsilon, cells=40, chosen=w) for w in range(1, 40)]
    least = min(hashed(s, s.chosen) for s in sets)
    assert hashed(best, best.chosen) <= least * (1 + 1e-7)
    names = [str(i) for i in range(40)]
    least = min(known(SubsetSelection(epsilon, names, chosen=w)) for w in range(1, 40))
    assert known(SubsetSelection(epsilon, names)) <= least * (1 + 1e-7)


@pytest.mark.parametrize(
    "build",
    [
        lambda e: LocalHashing(e, cells=65536),
        lambda e: SubsetSelection(e, cells=65536),
        lambda e: HadamardResponse(e, [str(i) for i in range(50000)]),
    ],
)
def test_an_epsilon_too_small_for_the_probabilities_is_refused(build):
    with pytest.raises(ValueError, match="epsilon must be larger"):
        build(1e-10)
