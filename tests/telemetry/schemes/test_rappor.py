"""RAPPOR: epsilons are those of the exact distribution; JSON and line determine parameters."""

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sfumato.privacy import Accountant
from sfumato.privacy.statement import PrivacyStatement
from sfumato.telemetry import LocalHashing, Rappor, plan
from sfumato.telemetry.planning import variance
from sfumato.telemetry.schemes.base import read_scheme

GRID = 65536


class Counted:
    """A stream and a source whose 16-bit numbers are every one there is, one a row."""

    numbers = np.arange(GRID, dtype=np.uint32)

    def __init__(self):
        self.row = 0

    def words(self, rows, start, count):
        return np.repeat((self.numbers[rows] << 16 | self.numbers[rows])[:, None], count, axis=1)

    def fill(self, out):
        own = self.numbers[self.row : self.row + len(out)]
        out[:] = own.astype(">u2").view(np.uint16)[:, None]
        self.row += len(out)


def unpacked(payload, cells):
    return np.unpackbits(payload, axis=1, bitorder="little", count=cells)


@pytest.mark.parametrize(("f", "p", "q"), [(0.73, 0, 1), (0.5, 0.25, 0.75), (0.001, 0.4, 0.41)])
def test_the_probabilities_that_run_are_exactly_those_that_are_stated(f, p, q):
    # Every number is met once, so how often a cell is 1 is its probability times 65536, exactly.
    params = Rappor(3, 1, 1, f=f, p=p, q=q)
    permanent = params.respond(Counted(), np.ones((GRID, 1), np.int32))
    assert unpacked(permanent, 3).sum(0).tolist() == [params.flip, GRID - params.flip, params.flip]
    ones = {}
    for bit, start in ((0, 0), (1, 7)):
        sent = params.instant(np.full((GRID, 1), start, np.uint8), Counted())
        ones[bit] = unpacked(sent, 3).sum(0).tolist()
    assert ones == {0: [params.p16] * 3, 1: [params.q16] * 3}
    flip = Fraction(params.flip, GRID)
    for fraction, probability in ((1 - flip, params.high), (flip, params.low)):
        assert probability == (fraction * params.q16 + (1 - fraction) * params.p16) / GRID


def distribution(params, cells):
    """The exact probability of every permanent response and of every report of a value's cells."""
    every = list(itertools.product((0, 1), repeat=params.bits))
    flip, p, q = (Fraction(n, GRID) for n in (params.flip, params.p16, params.q16))
    permanent = {
        bits: math.prod(1 - flip if bit == (i in cells) else flip for i, bit in enumerate(bits))
        for bits in every
    }
    sent = {
        report: sum(
            probability * math.prod((q if b else p) if r else 1 - (q if b else p)
                               for b, r in zip(bits, report, strict=True))
            for bits, probability in permanent.items()
        )
        for report in every
    }  # fmt: skip
    return permanent, sent


@pytest.mark.parametrize(("bits", "hashes"), [(2, 1), (3, 1), (4, 2), (5, 2)])
@pytest.mark.parametrize(("f", "p", "q"), [(0.73, 0, 1), (0.5, 0.25, 0.75), (0.3, 0, 0.5)])
def test_epsilons_are_the_largest_log_ratios_over_all_values_and_reports(bits, hashes, f, p, q):
    params = Rappor(bits, hashes, 1, f=f, p=p, q=q)
    distributions = [
        distribution(params, cells) for cells in itertools.combinations(range(bits), hashes)
    ]
    worst = [
        max(
            math.log(a[which][r] / b[which][r])
            for a in distributions
            for b in distributions
            for r in a[which]
        )
        for which in (0, 1)
    ]
    assert worst == pytest.approx([params.epsilon_permanent, params.epsilon_one], rel=1e-12)
    assert params.epsilon_permanent >= worst[0] * (1 - 1e-15)
    assert params.epsilon_one >= worst[1] * (1 - 1e-15)


@pytest.mark.parametrize(("bits", "hashes"), [(3, 1), (4, 2), (5, 2)])
@pytest.mark.parametrize("f", [0.2, 0.5, 0.9])
def test_the_loss_covers_every_pair_of_values_at_every_epsilon(bits, hashes, f):
    params = Rappor(bits, hashes, 1, f=f)
    distributions = [
        distribution(params, cells)[0] for cells in itertools.combinations(range(bits), hashes)
    ]
    charged = Accountant(relation="replace").compose(params.loss())
    assert charged.epsilon() >= params.epsilon_permanent * (1 - 1e-9)
    for epsilon in np.linspace(0, params.epsilon_permanent * 0.99, 7):
        result = charged.delta(epsilon) * (1 + 1e-9)
        for a, b in itertools.permutations(distributions, 2):
            assert sum(max(0.0, a[r] - math.exp(epsilon) * b[r]) for r in a) <= result


def test_epsilon_is_never_too_low_where_sets_must_overlap():
    params = Rappor(3, 2, 1, f=0.5)
    distributions = [
        distribution(params, cells)[0] for cells in itertools.combinations(range(3), 2)
    ]
    worst = max(math.log(a[r] / b[r]) for a in distributions for b in distributions for r in a)
    assert worst <= params.epsilon_permanent


@pytest.mark.parametrize("hashes", [1, 2, 7])
@pytest.mark.parametrize("permanent", [0.02, 0.5, 2 * math.log(3), 9.0, 20.0])
@pytest.mark.parametrize("fraction", [None, 1.5, 1.0, 0.9, 0.3, 0.05])
def test_for_epsilon_never_exceeds_epsilon_and_wastes_little(hashes, permanent, fraction):
    one = None if fraction is None else permanent * fraction
    params = Rappor.for_epsilon(permanent, one, hashes=hashes, bits=16)
    assert params.epsilon_permanent <= permanent
    assert params.epsilon_one <= min(one or permanent, permanent)
    less = Rappor(16, hashes, f=(params.flip - 1) / 32768)
    assert less.epsilon_permanent > permanent
    if fraction in (0.3, 0.05) and one > 0.1:
        assert params.epsilon_one > one * 0.98
    assert params.one_time == (fraction in (None, 1.0, 1.5))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("permanent", [1.3e-4, 1e-3, 25.0, 1e308])
@pytest.mark.parametrize("one", [1e-4, 1e-3, 12.0, 1e308])
def test_for_epsilon_keeps_its_guarantee_at_the_extremes_and_refuses_beyond(permanent, one):
    params = Rappor.for_epsilon(permanent, one, hashes=1, bits=16)
    for less in ((1e-9, one), (permanent, 1e-9)):
        with pytest.raises(ValueError, match="must be larger, not 1e-09"):
            Rappor.for_epsilon(*less, hashes=1, bits=16)
    flip, high, low = params.flip, params.high, params.low
    with mpmath.workdps(60):
        exact = 2 * mpmath.log(mpmath.mpf(GRID - flip) / flip)
        assert exact <= params.epsilon_permanent <= permanent
        odds = high * (1 - low) / (low * (1 - high))
        exact = mpmath.log(mpmath.mpf(odds.numerator) / odds.denominator)
        assert exact <= params.epsilon_one <= one


def test_for_epsilon_takes_the_quietest_instantaneous_response():
    params = Rappor.for_epsilon(4.0, 1.0, hashes=1, bits=4)
    noise = float(params.low * (1 - params.low) / (params.high - params.low) ** 2)
    for q in np.linspace(0.05, 1, 60):
        for p in np.linspace(0, q, 60)[:-1]:
            try:
                other = Rappor(4, 1, f=params.f, p=float(p), q=float(q))
            except ValueError:
                continue
            if other.epsilon_one <= 1:
                result = float(other.low * (1 - other.low) / (other.high - other.low) ** 2)
                assert result >= noise * (1 - 1e-9)


@pytest.mark.parametrize("epsilons", [(0.5,), (2.0,), (6.0,), (4.0, 1.0), (6.0, 3.0)])
def test_for_epsilon_has_the_error_of_the_plan(epsilons):
    permanent, one = epsilons[0], epsilons[-1]
    chosen = variance(Rappor.for_epsilon(*epsilons), 200)
    planned = plan(1_000_000, permanent, 200, longitudinal=one < permanent)
    row = next(row for row in planned.rows if row.name == "RAPPOR")
    if one in (permanent, permanent / 2):  # what the plan compares
        assert chosen <= 1.1 * variance(row.scheme, 200)
    for hashes in (2, 3, 4):  # none is better
        assert variance(Rappor.for_epsilon(*epsilons, hashes=hashes), 200) > chosen
    if one < permanent:  # with fresh noise it is that of local hashing
        assert chosen <= 1.1 * variance(LocalHashing(one), 200)


@pytest.mark.parametrize("epsilons", [(0.5,), (3.0,), (4.0, 1.0)])
def test_for_epsilon_by_its_defaults_is_private_over_all_reports(epsilons):
    params = replace(Rappor.for_epsilon(*epsilons), bits=3, cohorts=1)
    every = [distribution(params, (cell,)) for cell in range(3)]
    for which, bound in enumerate((params.epsilon_permanent, params.epsilon_one)):
        worst = max(
            math.log(a[which][r] / b[which][r]) for a in every for b in every for r in a[which]
        )
        assert worst <= bound <= (epsilons[0], epsilons[-1])[which]
        assert worst > 0.98 * bound


def test_for_epsilon_leaves_given_sizes_alone():
    params = Rappor.for_epsilon(8, hashes=3, bits=32, cohorts=4)
    assert (params.hashes, params.bits, params.cohorts) == (3, 32, 4)
    assert Rappor.for_epsilon(2, edges=[0, 1, 2]).bits == 2
    assert Rappor.for_epsilon(1e308).bits == 4096


def test_no_noise_is_said_to_be_no_privacy():
    params = Rappor(f=0, p=0.4, q=0.6)
    assert params.epsilon_permanent == math.inf
    assert params.statement().startswith("NOT PRIVATE: epsilon_permanent is infinite")
    assert Rappor(f=0).epsilon_one == math.inf


def test_the_statement_says_what_adds_up_and_what_is_not_protected():
    result = Rappor(f=0.5, p=0.25, q=0.75, metric="a\u00a0b").statement()
    assert isinstance(result, PrivacyStatement)
    assert result.relation == "replace"
    for part in (
        "per distinct value and secret",
        "a changed value, cleared storage, another metric or new parameters",
        "add up",
        "One report alone costs epsilon",
        "computational",
        "separated by metric",
        "that share one",
        "Not protected",
    ):
        assert part in result.covers
    assert Rappor(f=0.5, p=0.25, q=0.75).epsilon_one == pytest.approx(
        float(result.covers.split("alone costs epsilon ")[1].split(". ")[0]), rel=1e-5
    )


BAD = {
    "bits": [0, 65537, 1.5, None],
    "hashes": [0, 17, "2"],
    "cohorts": [0, 65537, True],
    "f": [-0.1, 1, 0.99999, math.nan, "0.5", None],
    "p": [-0.1, 1.1, 1.0, math.nan],
    "q": [-0.1, 1.1, None],
    "metric": ["a\nb", "x" * 201, "\x7f", "\ud800", None, b"a"],
    "categories": [[], "ab", ["a", "a"], [1], ["\ud800"], 5],
    "edges": [[1], [1, 1], [2, 1], [0, math.inf], [0, math.nan], ["a", "b"], ["1", "2"], "12", 7],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n in BAD for v in BAD[n]])
def test_a_bad_parameter_is_refused_by_its_name(name, value):
    with pytest.raises(ValueError, match=rf"Rappor: {name} must"):
        Rappor(**{"f": 0.5, "p": 0.0} | {name: value})


def test_sizes_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="hashes must be at most bits, 3"):
        Rappor(3, 4, f=0.5)
    with pytest.raises(ValueError, match="exclude each other"):
        Rappor(f=0.5, categories=["a"], edges=[0, 1])
    with pytest.raises(ValueError, match="bits must be 2 for 2 known values"):
        Rappor(64, f=0.5, categories=["a", "b"])


def test_a_known_domain_has_one_cell_each_and_refuses_others_by_position():
    basic = Rappor(f=0.5, categories=["no", "yes", "3"])
    assert (basic.bits, basic.hashes, basic.cohorts, basic.domain) == (3, 1, 1, ["no", "yes", "3"])
    assert basic.members(["yes", "3", "no"]).tolist() == [[[1]], [[2]], [[0]]]
    assert basic.members([3]).tolist() == [[[2]]]
    with pytest.raises(ValueError, match=r"values: row 1 is none of the 3 categories") as result:
        basic.members(["no", "secret"])
    assert "secret" not in str(result.value)


def test_bins_take_their_lower_edge_and_what_is_outside_goes_to_the_ends():
    bins = Rappor(f=0.5, edges=[0, 1, 10])
    assert bins.members([-5, 0, 0.99, 1, 9.5, 10, 99]).ravel().tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert bins.members(bins.domain).ravel().tolist() == [0, 1]
    for same in ([-0.0, 1, 10], np.array([0, 1, 10]), (edge for edge in (0, 1, 10))):
        assert Rappor(f=0.5, edges=same).fingerprint == bins.fingerprint
    with pytest.raises(ValueError, match="row 1 is not a number"):
        bins.members(np.array([0.0, math.nan]))


@pytest.mark.parametrize(
    "params",
    [
        Rappor(48, 2, 8, f=0.73),
        Rappor(f=1 / 3, p=0.1, q=0.9, metric="größe \u2603"),
        Rappor(f=0.5, categories=["a", "ü"]),
        Rappor(f=0.5, edges=[-0.0, 0.1, 1e300]),
    ],
)
def test_json_gives_the_same_parameters_and_any_change_is_noticed(params):
    document = json.loads(params.to_json())
    assert read_scheme(params.to_json()) == Rappor.from_json(params.to_json()) == params
    assert document["fingerprint"] == params.fingerprint
    other = {"metric": "other", "bits": document["bits"] + 1, "f": 0.6, "q": 0.95}
    for name, value in other.items():
        with pytest.raises(ValueError, match=r"fingerprint must be|bits must be"):
            read_scheme(json.dumps(document | {name: value}))
    with pytest.raises(ValueError, match="take the complete text from where it was made") as said:
        read_scheme(json.dumps(document | {"fingerprint": "0" * 16}))
    assert params.fingerprint not in str(said.value)  # or it would be pasted in


def test_what_is_no_json_of_parameters_is_refused_with_the_reason():
    good = json.loads(Rappor(f=0.5).to_json())
    bad = {
        "not JSON": "{",
        "is not JSON": "[" * 10**5,
        "format": "[]",
        "version": json.dumps(good | {"version": 2}),
        "scheme": json.dumps(good | {"scheme": "none"}),
        "'more'": json.dumps(good | {"more": 1}),
        "'f'": json.dumps({name: value for name, value in good.items() if name != "f"}),
    }
    for reason, text in bad.items():
        with pytest.raises(ValueError, match=reason):
            read_scheme(text)
