"""Shares of noise: nothing alone, a release as a secure sum, with dropouts and colluders."""

import inspect
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.density import NoiseSharing, NoisyShare, combine, sum_shares
from sfumato.privacy import BudgetExceeded, Ledger
from sfumato.privacy.accounting.losses import Approximate, Loss
from sfumato.privacy.noise.discrete import add_laplace_share, laplace_share
from sfumato.privacy.noise.tables import gaussian_sampler
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.privacy.statement import INSECURE, SYSTEM
from sfumato.sketch import BloomFilter, CountMin, KernelFourier, SketchFormatError

RANDOM = np.random.default_rng(8)
PARTS = np.split(RANDOM.uniform(0, 4, (400, 2)), 4)
QUERIES = RANDOM.uniform(0, 4, (10, 2))
TERMS = NoiseSharing(parties=4, epsilon=1.0, dropouts=1, colluders=1)


def sketch(points=(), seed=0, rows=32):
    made = KernelFourier(1.0, ([0, 0], [4, 4]), rows=rows, seed=seed)
    return made.update(points) if len(points) else made


def seeded(seed):
    return InsecureSeededSource(seed)


def shares(terms=TERMS, parties=range(4)):
    return [terms.share(sketch(PARTS[p]), p, source=seeded(p)) for p in parties]


def test_a_sum_of_shares_is_the_merged_sketch_with_the_noise_of_all_shares():
    made = shares()
    result = sum_shares(made)
    full = sketch(np.concatenate(PARTS))
    scale = sketch().release(1.0).scale
    noise = np.zeros((2, 32), np.int64)
    for party in range(4):
        noise += laplace_share(scale, 2, (2, 32), source=seeded(party))
    assert (result._waves == full._waves + noise).all()
    assert type(result).__name__ == "ReleasedKernelFourier"
    assert abs(result.size() - 400) < 100
    assert sum_shares([made[0] + made[2], made[3] + made[1]]) == result


@pytest.mark.parametrize(("parties", "dropouts", "colluders"), [(5, 0, 0), (5, 2, 1), (4, 1, 2)])
def test_honest_survivors_alone_add_exactly_all_of_the_noise(parties, dropouts, colluders):
    # Each share is one of as many as surely survive, of the scale of a release; that this many sum
    # to the noise is tested with the share distributions.
    terms = NoiseSharing(parties=parties, epsilon=0.5, dropouts=dropouts, colluders=colluders)
    assert terms.whole_noise == parties - dropouts - colluders
    share = terms.share(sketch(), 0, source=seeded(9))
    released = sketch().release(0.5)
    cells, source = np.zeros(65, np.int64), seeded(9)
    for part in (cells[:64], cells[64:]):
        add_laplace_share(part, Fraction(released.scale), terms.whole_noise, source=source)
    assert (share.cells["_waves"].view(np.int64).reshape(-1) == cells[:64]).all()
    assert (share.cells["_count"].view(np.int64) == cells[64:]).all()


def test_dropouts_are_tolerated_up_to_the_number_agreed():
    made = shares()
    for retained in ([0, 1, 2], [1, 2, 3], [0, 1, 2, 3]):
        result = sum_shares([made[party] for party in retained])
        assert result.statement.epsilon == 1.0
    with pytest.raises(ValueError, match="2 of 4 shares are missing, but only 1 may be"):
        sum_shares(made[:2])


@pytest.mark.parametrize(("dropouts", "colluders"), [(4, 0), (0, 4), (2, 2), (3, 9)])
def test_nobody_left_to_add_noise_is_refused(dropouts, colluders):
    with pytest.raises(ValueError, match="more than dropouts and colluders together"):
        NoiseSharing(parties=4, epsilon=1.0, dropouts=dropouts, colluders=colluders)


def test_the_scale_of_the_sum_has_the_variance_of_its_noise():
    one = sketch().release(1.0)
    for retained, more in ((3, 3 / 2), (4, 2)):
        result = sum_shares(shares()[:retained])
        assert result._distribution.variance == pytest.approx(
            one._distribution.variance * more, rel=1e-9
        )
        assert result.noise_error() == pytest.approx(one.noise_error() * np.sqrt(more), rel=1e-9)
    exact = NoiseSharing(parties=2, epsilon=1.0)
    assert sum_shares([exact.share(sketch(), p) for p in (0, 1)]).scale == one.scale


def test_gaussian_shares_are_accounted_for():
    terms = NoiseSharing(parties=4, epsilon=1.0, delta=1e-6, dropouts=1)
    result = sum_shares([terms.share(sketch(PARTS[p]), p, source=seeded(p)) for p in range(4)])
    one = sketch().release(1.0, 1e-6)
    assert result.noise == "Gaussian"
    assert result.scale == pytest.approx(one.scale * np.sqrt(4 / 3), rel=0.01)
    assert (result.statement.epsilon, result.statement.delta) == (1.0, 1e-6)
    assert Loss.from_dict(result.statement.loss) == Approximate(1.0, 1e-6)
    noise = np.zeros((2, 32), np.int64)
    sigma2 = Fraction(result.scale / np.sqrt(4 / 3)).limit_denominator(64) ** 2
    for party in range(4):
        gaussian_sampler(sigma2 / 3, noise.size).add(noise.reshape(-1), seeded(party))
    assert (result._waves == sketch(np.concatenate(PARTS))._waves + noise).all()


def test_gaussian_noise_too_small_to_be_shared_is_refused():
    terms = NoiseSharing(parties=2**20, epsilon=500.0, delta=0.5)
    with pytest.raises(ValueError, match="too small to be shared"):
        terms._promise(CountMin(64, 32).release(40.0, 0.5, noise="gaussian"), 64)


def test_its_moments_bound_those_of_the_sum():
    # E exp(t noise) of 4 shares, 2 of which are all of the noise, is M(t)**2: at most that of the
    # new scale.
    one, released = sketch().release(1.0), sum_shares(shares())

    def moment(scale, t):
        x = np.exp(-1 / scale)
        return (1 - x) ** 2 / ((1 - x * np.exp(t)) * (1 - x * np.exp(-t)))

    tilts = np.linspace(0, 0.99 / released.scale, 50)[1:]
    assert (moment(one.scale, tilts) ** 2 <= moment(released.scale, tilts) * (1 + 1e-9)).all()


def test_the_statement_names_what_is_tolerated():
    result = sum_shares(shares()[:3]).statement
    assert result.epsilon == 1.0
    assert Loss.from_dict(result.loss).epsilon == 1.0
    assert "secure sum" in result.covers
    assert "at most 1 parties, while at most 1 drop out" in result.covers
    assert "shares of 3 of 4 parties, of which 2 sum to this noise" in result.mechanism
    assert result.source == INSECURE
    assert (
        sum_shares([NoiseSharing(parties=1, epsilon=1).share(sketch(), 0)]).statement.source
        == SYSTEM
    )


def test_a_share_answers_and_guarantees_nothing():
    share = shares()[0]
    names = {name for name, _ in inspect.getmembers(share) if not name.startswith("_")}
    assert not names & {"estimate", "mean", "size", "statement", "epsilon", "release"}
    assert "not private" in repr(share)
    with pytest.raises(TypeError):
        combine([share])


def test_shares_that_do_not_belong_together_are_not_added():
    made = shares()
    other = NoiseSharing(parties=4, epsilon=2.0, dropouts=1, colluders=1)
    for invalid, says in (
        (made[0], "party 0 is in both"),
        (other.share(sketch(), 1), "terms is"),
        (TERMS.share(sketch(seed=1), 1), "parameters is"),
    ):
        with pytest.raises(ValueError, match=says):
            made[0] + invalid
    for bad in ([], [made[0], None], [sketch()]):
        with pytest.raises(TypeError, match="must be NoisyShare"):
            sum_shares(bad)
    with pytest.raises(ValueError, match="party must be an integer from 0 to 3"):
        TERMS.share(sketch(), 4)


def test_bytes_keep_a_share_and_damage_is_found():
    made = shares()
    sent = [NoisyShare.from_bytes(each.to_bytes()) for each in made[:3]]
    assert sum_shares([*sent, pickle.loads(pickle.dumps(made[3]))]) == sum_shares(made)
    data = bytearray(made[0].to_bytes())
    data[-100] ^= 1
    for bad in (bytes(data), b"", sketch().to_bytes()):
        with pytest.raises(SketchFormatError):
            NoisyShare.from_bytes(bad)


def test_every_party_pays_before_noise_is_drawn_and_a_retry_returns_the_same_share(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.create("visits", 1.5, 0.0)
    paid = {"ledger": ledger, "dataset": "visits", "release_id": "spring"}
    first = TERMS.share(sketch(PARTS[0]), 0, **paid)
    again = TERMS.share(sketch(PARTS[0]), 0, **paid)
    assert again.to_bytes() == first.to_bytes()
    assert ledger.spent("visits").epsilon == 1.0

    class Untouched(InsecureSeededSource):
        def fill(self, out):
            raise AssertionError("noise was drawn")

    with pytest.raises(BudgetExceeded):
        TERMS.share(sketch(PARTS[0]), 0, ledger=ledger, dataset="visits", source=Untouched(1))
    with pytest.raises(ValueError, match="relation"):
        NoiseSharing(parties=2, epsilon=0.1, relation="replace").share(sketch(), 0, **paid)


def test_other_sketches_are_shared_where_their_noise_is_laplace():
    terms = NoiseSharing(parties=2, epsilon=1.0)
    result = sum_shares([terms.share(CountMin(64).update([7]), party) for party in (0, 1)])
    assert type(result).__name__ == "ReleasedCountMin"
    with pytest.raises(ValueError, match="BloomFilter cannot be shared"):
        terms.share(BloomFilter(512), 0)


def test_what_cannot_be_shared_is_refused_before_it_is_paid_for(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.create("visits", 10.0, 0.0)
    ledger.create("people", 10.0, 0.0, unit="user")
    terms, paid = NoiseSharing(parties=2, epsilon=1.0), {"ledger": ledger, "dataset": "visits"}
    with pytest.raises(ValueError, match="BloomFilter cannot be shared"):
        terms.share(BloomFilter(512), 0, **paid)
    with pytest.raises(ValueError, match="holds a heavier event"):
        terms.share(sketch().update([[1, 1]], [9]), 0, **paid)
    of_people = NoiseSharing(parties=2, epsilon=1.0, unit="user")
    with pytest.raises(ValueError, match="contributions must be given"):
        of_people.share(sketch(), 0, ledger=ledger, dataset="people")
    assert ledger.spent("visits").epsilon == ledger.spent("people").epsilon == 0


def test_a_retry_under_the_name_of_another_share_is_refused(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.create("visits", 1.5, 0.0)
    paid = {"ledger": ledger, "dataset": "visits", "release_id": "spring"}
    TERMS.share(sketch(PARTS[0]), 0, **paid)
    with pytest.raises(ValueError, match="of another party"):
        TERMS.share(sketch(PARTS[1]), 1, **paid)


@pytest.mark.parametrize("change", [{"members": (0, 0, 1)}, {"members": (4,)}, {"members": ()}])
def test_forged_members_are_refused(change):
    with pytest.raises(ValueError, match="members must be parties"):
        replace(shares()[0], **change)


def test_forged_shapes_are_refused():
    one, other = shares()[:2]
    flat = {name: array.reshape(-1)[:1] for name, array in other.cells.items()}
    with pytest.raises(ValueError, match="not of the same shapes"):
        one + replace(other, cells=flat)
