"""Double masks: exact sums under dropouts in every round, and nothing else to be unmasked."""

import os
from dataclasses import replace
from functools import reduce
from itertools import combinations, permutations, product
from operator import add

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.density import MaskingParty, NoiseSharing, PairwiseMasks, sum_shares, unmask
from sfumato.density import pairwise_masks as masks
from sfumato.density.pairwise_masks import rebuild, split
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import CountMin

TERMS = NoiseSharing(parties=4, epsilon=1.0, dropouts=1, colluders=1)
ALL = {0, 1, 2, 3}
# Two tails of 5e-7: a uniform residual fails with p = 1e-6, and the seeds are fixed besides.
LOW, HIGH = chi2.ppf([5e-7, 1 - 5e-7], 255)


@pytest.fixture(autouse=True)
def seeded_system(monkeypatch):
    """Secrets of a fixed seed, so that statistical tests repeat."""
    random = np.random.default_rng(17)
    monkeypatch.setattr(masks.os, "urandom", random.bytes)


def shares(terms=TERMS, width=512):
    """One share of 4 x width cells for each party: small counts and noise."""
    return [
        terms.share(CountMin(width).update([party] * 9), party, source=InsecureSeededSource(party))
        for party in range(terms.parties)
    ]


def total(hidden):
    return reduce(add, hidden)


def bytes_chi_square(cells):
    """Of the bytes of all cells against the uniform distribution: 255 degrees of freedom."""
    data = np.concatenate([array.reshape(-1).view(np.uint8) for array in cells.values()])
    expected = data.size / 256
    return float(((np.bincount(data, minlength=256) - expected) ** 2).sum() / expected)


def minus(one, *others):
    return {name: array - sum(each[name] for each in others) for name, array in one.items()}


class SingleMasks:
    """The broken protocol: masks between every two parties, revealed for those that dropped out."""

    def __init__(self, parties):
        self.parties = parties
        self.keys = {pair: os.urandom(32) for pair in combinations(range(parties), 2)}

    def between(self, members, others, share):
        sums = {name: np.zeros_like(array) for name, array in share.cells.items()}
        for one, other in product(members, others):
            if one != other:
                drawn = masks._mask(self.keys[min(one, other), max(one, other)], share)
                for name in sums:
                    sums[name] += drawn[name] if one < other else -drawn[name]
        return sums

    def hide(self, share):
        moved = self.between(share.members, range(self.parties), share)
        return share.moved(moved, masked=True)

    def reveal(self, summed):
        missing = sorted(set(range(self.parties)) - set(summed.members))
        masks_left = self.between(summed.members, missing, summed)
        return summed.moved({name: -mask for name, mask in masks_left.items()}, masked=False)


def difference(protocol, made):
    """The attack: all hidden shares, less the revealed sum of all but the last party."""
    hidden = [protocol.hide(share) for share in made]
    return hidden, minus(total(hidden).cells, protocol.reveal(total(hidden[:3])).cells)


def test_with_single_masks_the_sum_of_all_less_the_revealed_sum_is_the_share_of_the_dropped_party():
    made = shares()
    remainder = difference(SingleMasks(4), made)[1]
    assert all((remainder[name] == array).all() for name, array in made[3].cells.items())
    assert bytes_chi_square(remainder) > HIGH  # so the test below can detect it


def test_with_double_masks_that_difference_keeps_the_self_masks():
    made, protocol = shares(), PairwiseMasks(4, threshold=3)
    hidden, left = difference(protocol, made)
    assert LOW < bytes_chi_square(left) < HIGH
    # The server also subtracts all that the survivors' answers reveal: three self masks, one key.
    answers = [protocol._group[party].answer([0, 1, 2]) for party in range(3)]
    seeds = rebuild({each + 1: answers[each].self_masks for each in range(3)})
    known = [masks._mask(seed.to_bytes(32, "big"), made[0]) for seed in seeds.values()]
    assert sorted(seeds) == [0, 1, 2]
    residual = minus(left, *known)
    assert LOW < bytes_chi_square(residual) < HIGH
    own = masks._mask(protocol._group[3]._seed, made[3])  # which nobody revealed: this remains
    stripped = minus(residual, own)
    assert all((stripped[name] == array).all() for name, array in made[3].cells.items())
    key = rebuild({each + 1: answers[each].pair_keys for each in range(3)})[3].to_bytes(32, "big")
    pairs = [
        masks._mask(masks._agreed(key, protocol.keys[each][:32]), made[0]) for each in range(3)
    ]
    alone = {
        name: array + sum(each[name] for each in pairs) for name, array in hidden[3].cells.items()
    }
    assert LOW < bytes_chi_square(alone) < HIGH


def test_each_hidden_share_looks_uniform():
    made, protocol = shares(), PairwiseMasks(4, threshold=3)
    for share in made:
        assert bytes_chi_square(share.cells) > HIGH
        assert LOW < bytes_chi_square(protocol.hide(share).cells) < HIGH


def test_masks_cancel():
    made, protocol = shares(), PairwiseMasks(4, threshold=3)
    hidden = [protocol.hide(share) for share in made]
    assert sum_shares([protocol.reveal(total(hidden))]) == sum_shares(made)
    with pytest.raises(ValueError, match="masks are still on"):
        sum_shares(hidden)
    with pytest.raises(ValueError, match="masked is"):
        hidden[0] + made[1]
    with pytest.raises(ValueError, match="no masks on this sum"):
        protocol.reveal(total(made))


def run(terms, threshold, keyed, secrets, hid, answered):
    """One session in which these parties are there in each round; the sum and what went in."""
    made, group = shares(terms, 32), [MaskingParty(p, terms.parties, threshold) for p in range(5)]
    keys = {party: group[party].public_key for party in keyed}
    mail = {party: group[party].send_secrets(keys) for party in secrets}
    hidden = [
        group[to].hide(made[to], {of: mail[of][to] for of in secrets if of != to}) for to in hid
    ]
    answers = {party: group[party].answer(hid) for party in answered}
    found = unmask(total(hidden), keys, answers, threshold=threshold)
    return found, total([made[party] for party in hid])


@pytest.mark.parametrize(
    "rounds",
    [
        ([0, 1, 2, 3, 4],) * 4,
        ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [4, 1, 2]),
        ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 2, 4], [0, 2, 4]),
        ([0, 1, 2, 3, 4], [0, 1, 3, 4], [1, 3, 4], [1, 3, 4]),
        ([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4], [1, 3, 4]),
        ([1, 2, 3], [1, 2, 3], [1, 2, 3], [3, 1, 2]),
    ],
)
def test_the_sum_is_exact_whoever_drops_out_between_rounds(rounds):
    found, expected = run(NoiseSharing(parties=5, epsilon=1.0, dropouts=2), 3, *rounds)
    assert not found.masked
    assert found.members == expected.members
    assert all((found.cells[name] == array).all() for name, array in expected.cells.items())


@pytest.mark.parametrize(
    ("rounds", "says"),
    [
        (([0, 1], [0, 1], [0, 1], [0, 1]), "keys must be of 3 or more"),
        (([0, 1, 2, 3], [0, 1], [0, 1], [0, 1]), "inbox must be of 3 or more"),
        (([0, 1, 2, 3], [0, 1, 2, 3], [0, 1], [0, 1]), "survivors must be 3 or more of 5, not 2"),
        (([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2], [0, 1]), "answers must be of 3 or more"),
    ],
)
def test_more_dropouts_than_the_threshold_allows_are_refused_in_every_round(rounds, says):
    with pytest.raises(ValueError, match=says):
        run(NoiseSharing(parties=5, epsilon=1.0, dropouts=2), 3, *rounds)


def test_masks_stay_on_where_the_noise_would_not_be_enough():
    with pytest.raises(ValueError, match="survivors must be 4 or more of 5, not 3"):
        run(NoiseSharing(parties=5, epsilon=1.0, dropouts=1), 3, ALL, ALL, [0, 1, 2], [0, 1, 2])


def test_a_survivor_reveals_one_secret_of_each_party_and_never_the_other():
    protocol = PairwiseMasks(4, threshold=3)
    hidden = [protocol.hide(share) for share in shares()]
    first = protocol._group[0].answer([2, 1, 0])
    assert (set(first.self_masks), set(first.pair_keys)) == ({0, 1, 2}, {3})
    assert protocol._group[0].answer([0, 1, 2]) == first
    for other in (ALL, [0, 1, 3], [0, 2, 3]):
        with pytest.raises(ValueError, match="survivors were others before"):
            protocol._group[0].answer(other)
    with pytest.raises(ValueError, match="survivors were others before"):
        protocol.reveal(total(hidden))
    for bad in ([0, 1, 9], [1, 2, 3]):
        with pytest.raises(ValueError, match="survivors must be parties whose secrets"):
            protocol._group[0].answer(bad)


def test_answers_about_another_sum_do_not_unmask_this_one():
    protocol = PairwiseMasks(4, threshold=3)
    hidden = [protocol.hide(share) for share in shares()]
    answers = {party: protocol._group[party].answer([0, 1, 2]) for party in range(3)}
    with pytest.raises(ValueError, match="about the parties in the sum"):
        unmask(total(hidden), protocol.keys, answers, threshold=3)
    forged = {
        party: each._replace(self_masks={0: 1, 1: 2, 2: 3}) for party, each in answers.items()
    }
    forged[2] = forged[2]._replace(self_masks={0: 9**99, 1: 9**99, 2: 9**99})
    with pytest.raises(ValueError, match="do not fit together"):
        unmask(total(hidden[:3]), protocol.keys, forged, threshold=3)


def test_each_object_serves_one_sum():
    made, protocol = shares(), PairwiseMasks(4, threshold=3)
    protocol.hide(made[3])
    with pytest.raises(ValueError, match="party 3 was hidden before"):
        protocol.hide(made[3])
    with pytest.raises(ValueError, match="sent before"):
        protocol._group[3].send_secrets(protocol.keys)
    with pytest.raises(ValueError, match="no sum to unmask before"):
        protocol._group[0].answer(ALL)
    with pytest.raises(ValueError, match="parties is 2 here and 4 in the terms"):
        PairwiseMasks(2, threshold=2).hide(made[3])
    with pytest.raises(ValueError, match="share must be that of party 0, without masks"):
        protocol.hide(made[0] + made[1])


def test_as_many_colluders_as_the_threshold_are_refused():
    terms = NoiseSharing(parties=4, epsilon=1.0, colluders=2)
    with pytest.raises(ValueError, match="2 colluders of the terms could rebuild every secret"):
        PairwiseMasks(4, threshold=2).hide(shares(terms)[0])
    PairwiseMasks(4, threshold=3).hide(shares(terms)[0])


@pytest.mark.parametrize("bad", [{"threshold": 1}, {"threshold": 5}, {"parties": 1}])
def test_limits(bad):
    with pytest.raises(ValueError, match=f"PairwiseMasks: {next(iter(bad))} must be"):
        PairwiseMasks(**{"parties": 4, "threshold": 3, **bad})


def test_messages_to_others_or_changed_ones_are_not_opened():
    group = [MaskingParty(party, 3, 2) for party in range(3)]
    keys = {each.party: each.public_key for each in group}
    mail = {each.party: each.send_secrets(keys) for each in group}
    share = shares(NoiseSharing(parties=3, epsilon=1.0))[0]
    good = {1: mail[1][0], 2: mail[2][0]}
    for bad in (mail[1][2], mail[2][0], mail[0][1], mail[1][0][:-1] + b"0"):
        with pytest.raises(ValueError, match="no message of party 1 to this one"):
            group[0].hide(share, good | {1: bad})
    assert group[0].hide(share, good).masked
    with pytest.raises(ValueError, match="own public_key"):
        MaskingParty(0, 3, 2).send_secrets(keys)
    with pytest.raises(ValueError, match="secrets must be sent"):
        MaskingParty(0, 3, 2).hide(share, {})


def test_fewer_shares_than_the_threshold_have_the_same_distribution_for_every_secret(monkeypatch):
    # All polynomials over a small field: any two shares of three are uniform, whatever the secret.
    for secret in (0, 3, 6):
        observed = {pair: [] for pair in combinations((1, 2, 3, 4), 2)}
        for drawn in product(range(7), repeat=2):
            monkeypatch.setattr(masks, "_below", lambda prime, left=list(drawn): left.pop())
            result = split(secret, 3, (1, 2, 3, 4), prime=7)
            for three in permutations(result, 3):
                assert rebuild({x: {0: result[x]} for x in three}, prime=7) == {0: secret}
            for pair, values in observed.items():
                values.append(tuple(result[x] for x in pair))
        assert all(
            sorted(values) == list(product(range(7), repeat=2)) for values in observed.values()
        )


def test_numbers_below_a_prime_are_uniform():
    # 7,000 draws over 7 values: 1000 each, standard deviation 29; 6 of them have p < 2e-8 here.
    drawn = np.bincount([masks._below(7) for _ in range(7000)], minlength=7)
    assert drawn.size == 7
    assert (np.abs(drawn - 1000) < 6 * 29.3).all()


def test_forged_terms_do_not_pass():
    protocol = PairwiseMasks(4, threshold=3)
    share = replace(shares()[0], masked=True)
    with pytest.raises(ValueError, match="without masks"):
        protocol.hide(share)
