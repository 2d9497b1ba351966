"""The encoder: equal secrets give equal responses for ever, others independent ones, by row."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from sfumato.privacy.random_source import SystemSource
from sfumato.telemetry import (
    Counts,
    GoogleRappor,
    HadamardResponse,
    LocalHashing,
    Rappor,
    ReportEncoder,
    SubsetSelection,
)
from sfumato.telemetry.keyed_randomness import DrawnStream
from sfumato.telemetry.schemes import base as schemes
from sfumato.telemetry.schemes import cells as _bloom
from sfumato.telemetry.values import value_column
from support.hard_rows import silent

SECRET = bytes(range(32))
FULL = Rappor(100, 3, 7, f=0.5, p=0.3, q=0.8, metric="home page")
ONE_TIME = Rappor(48, 2, 8, f=0.73)


def cells(payload, count):
    return np.unpackbits(payload, axis=1, bitorder="little", count=count)


def coins(params, secret=SECRET, values=range(2000)):
    """The noise of the permanent responses of a client to many values: 1 where a bit was turned."""
    client = ReportEncoder(params, secret=secret)
    column = params.values(np.asarray(values))
    payload = client._response(client._client(), column, np.zeros(column.codes.size, np.int32))
    clear = np.zeros((len(payload), params.bits), np.uint8)
    np.put_along_axis(clear, params.members(np.asarray(values))[:, 0], 1, axis=1)
    return cells(payload, params.bits) ^ clear


@pytest.mark.parametrize("bits", [48, 100])
def test_cells_are_uniform_for_any_number_of_them(bits):
    # The values are fixed; were the hash random, each assertion would fail with p < 1e-9.
    params = Rappor(bits, 2, 4, f=0.5)
    members = params.members(np.arange(30000)).reshape(-1, 2)
    assert (members[:, 0] != members[:, 1]).all()
    first = np.bincount(members[:, 0], minlength=bits)
    pairs = np.bincount(members[:, 0] * bits + members[:, 1], minlength=bits**2)
    pairs = pairs.reshape(bits, bits)[~np.eye(bits, dtype=bool)]
    assert stats.chisquare(first).pvalue > 1e-9
    assert stats.chisquare(pairs).pvalue > 1e-9


@pytest.mark.parametrize("params", [ONE_TIME, FULL], ids=["one-time", "full"])
@pytest.mark.parametrize("keyed", [False, True], ids=["drawn", "keyed"])
def test_cells_are_marked_with_the_stated_probabilities(params, keyed):
    # A count of that many coins is beyond six standard deviations with p < 2e-9.
    rows = 30000
    values = np.arange(rows) % 50
    secrets = np.random.default_rng(1).integers(0, 256, (rows, 16), np.uint8) if keyed else None
    sent = ReportEncoder(params, seed=2).encode_many(values, secrets)
    own = np.zeros((rows, params.bits), bool)
    table = params.members(np.arange(50))
    np.put_along_axis(own, table[values, sent.cohorts], True, axis=1)
    marked = cells(sent.payload, params.bits)
    for probability, found in ((params.high, marked[own]), (params.low, marked[~own])):
        deviation = math.sqrt(float(probability * (1 - probability)) / found.size)
        assert abs(found.mean() - float(probability)) < 6 * deviation
    assert stats.chisquare(np.bincount(sent.cohorts, minlength=params.cohorts)).pvalue > 1e-9


def test_the_same_secret_and_metric_give_the_same_permanent_response_for_ever():
    first, again = ReportEncoder(FULL, secret=SECRET), ReportEncoder(FULL, secret=SECRET)
    assert first.cohort == again.cohort == first.encode("tea").cohorts[0]
    assert (first.permanent("tea") == again.permanent("tea")).all()
    reports = first.encode_many(["tea"] * 50)
    assert len(np.unique(reports.payload, axis=0)) > 40  # only what is sent is fresh
    assert len(np.unique(reports.ids, axis=0)) == 50
    once = ReportEncoder(ONE_TIME, secret=SECRET)
    sent = once.encode_many(["tea"] * 50).payload
    assert (sent == once.permanent("tea")).all()


def test_other_metrics_parameters_secrets_and_values_have_independent_noise():
    # Coins of probability 1/4 agree with 1/4**2 + 3/4**2 = 5/8 if independent: p < 2e-9 each.
    params = Rappor(128, 2, 1, f=0.5, metric="a")
    noise = coins(params)
    others = {
        "metric": coins(Rappor(128, 2, 1, f=0.5, metric="b")),
        "parameters": coins(Rappor(128, 2, 1, f=0.5, p=0.1, q=0.9, metric="a")),
        "secret": coins(params, bytes(range(1, 33))),
        "value": np.roll(noise, 1, axis=0),
        "cell": np.roll(noise, 1, axis=1),
        "block": np.roll(noise, 16, axis=1),
    }
    for name, other in others.items():
        agree = (noise == other).mean()
        assert abs(agree - 0.625) < 6 * math.sqrt(0.625 * 0.375 / noise.size), name


def test_a_client_of_many_is_the_client_by_itself():
    rng = np.random.default_rng(3)
    secrets = rng.integers(0, 256, (40, 70), np.uint8)  # longer than a block, so hashed first
    values = [f"value {n % 9}" for n in range(40)]
    sent = ReportEncoder(ONE_TIME).encode_many(values, secrets)
    for row in range(40):
        client = ReportEncoder(ONE_TIME, secret=secrets[row].tobytes())
        assert client.cohort == sent.cohorts[row]
        assert (client.permanent(values[row]) == sent.payload[row]).all()


@pytest.mark.parametrize(
    ("how", "params"),
    [(how, params) for how in ("seed", "secrets") for params in (ONE_TIME, FULL)]
    + [("secret", ONE_TIME)],  # what a client with a secret draws afresh, no seed repeats
    ids=lambda given: given if isinstance(given, str) else str(given.bits),
)
def test_reports_do_not_depend_on_how_rows_are_split_into_calls(how, params):
    rows, cuts = 3000, [0, 1, 17, 1500, 3000]
    values = np.random.default_rng(4).integers(0, 300, rows)
    secrets = np.random.default_rng(5).integers(0, 256, (rows, 16), np.uint8)

    def encoder():
        return (
            ReportEncoder(params, secret=SECRET)
            if how == "secret"
            else ReportEncoder(params, seed=6)
        )

    def reports(encode, part):
        return encode.encode_many(values[part], secrets[part] if how == "secrets" else None)

    full, parts = encoder(), encoder()
    one = reports(full, slice(None))
    many = [reports(parts, slice(a, b)) for a, b in pairwise(cuts)]
    assert (one.payload == np.concatenate([each.payload for each in many])).all()
    assert (one.cohorts == np.concatenate([each.cohorts for each in many])).all()


def test_a_seed_repeats_reports_and_says_that_they_are_not_private():
    first, again = (ReportEncoder(FULL, seed=1).encode_many(["a", "b"]) for _ in range(2))
    assert (first.payload == again.payload).all()
    assert ReportEncoder(FULL, seed=1).statement.insecure
    assert not ReportEncoder(FULL, secret=SECRET).statement.insecure
    drawn = [ReportEncoder(FULL).encode_many(["a"] * 20).payload for _ in range(2)]
    assert (drawn[0] != drawn[1]).any()


def test_a_seed_draws_cohorts_noise_and_ids_from_streams_of_their_own():
    encoder, streams = ReportEncoder(FULL, seed=1), []
    for source in (encoder._drawn, encoder._permanent, encoder._fresh, encoder._ids):
        streams.append(np.empty(16, np.uint8))
        source.fill(streams[-1])
    assert len({stream.tobytes() for stream in streams}) == 4


@pytest.mark.parametrize(
    "value", ["tea", "a rather long value, of more than one block of SHA-256", 7]
)
def test_one_report_has_the_permanent_response_of_many(value):
    scheme = Rappor(bits=128, hashes=3, cohorts=64, f=0.4, p=0, q=1, metric="m")
    client = ReportEncoder(scheme, secret=bytes(range(20)))
    one, many = client.encode(value), client.encode_many([value, "another", value])
    np.testing.assert_array_equal(np.tile(one.payload, (2, 1)), many.payload[[0, 2]])
    assert one.cohorts.tolist() * 3 == many.cohorts.tolist() == [client.cohort] * 3


def test_no_rows_give_no_reports():
    for params in (ONE_TIME, FULL, Rappor(f=0.5, categories=["a"]), Rappor(f=0.5, edges=[0, 1])):
        assert len(ReportEncoder(params).encode_many([])) == 0
        assert len(ReportEncoder(params, secret=SECRET).encode_many([])) == 0


def test_numbers_in_bins_and_categories_are_encoded_in_their_cell():
    for params, values, wanted in (
        (Rappor(f=0, edges=[0, 1, 2, 3]), [0.5, 9, -1], [1, 4, 1]),
        (Rappor(f=0, categories=["x", "y"]), ["y", "x", "y"], [2, 1, 2]),
    ):
        for encoder in (ReportEncoder(params), ReportEncoder(params, secret=SECRET)):
            assert encoder.encode_many(values).payload[:, 0].tolist() == wanted


@pytest.mark.parametrize(
    "scheme",
    [
        Rappor(f=0.5, categories=["tea", "milk"]),
        SubsetSelection(1.0, ["tea", "milk"]),
        SubsetSelection(1.0, ["tea", "milk"], other=True),
        HadamardResponse(1.0, ["tea", "milk"]),
    ],
)
def test_unused_words_of_a_dictionary_column_are_no_values(scheme):
    drinks = pa.DictionaryArray.from_arrays(pa.array([2, 0]), pa.array(["tea", "secret", "milk"]))
    for encoder in (ReportEncoder(scheme), ReportEncoder(scheme, secret=SECRET)):
        assert len(encoder.encode_many(drinks)) == 2
    assert (scheme.members(drinks) == scheme.members(["milk", "tea"])).all()


@dataclass(frozen=True)
class Plain(schemes.Scheme):
    """A scheme that says no more than the contract asks for."""

    cohorts = 5
    cells = 40

    def members(self, values):
        column = value_column(values)
        lengths = np.diff(column.offsets)[column.codes]
        return (lengths[:, None, None] * 5 + np.arange(5)[:, None]).astype(np.int32)


@pytest.mark.parametrize("entries", [1, 10, 1 << 20])
def test_any_scheme_finds_the_cells_of_each_row_in_its_cohort(monkeypatch, entries):
    monkeypatch.setattr(schemes, "ENTRIES", entries)
    rng = np.random.default_rng(7)
    values = np.array(["a" * n for n in rng.integers(0, 7, 60)])
    cohorts = rng.integers(0, 5, 60)
    found = Plain().own_members(value_column(values), cohorts)
    assert (found == Plain().members(values)[np.arange(60), cohorts]).all()
    assert Plain().own_members(value_column([]), cohorts[:0]).shape == (0, 1)


@pytest.mark.parametrize(
    "scheme", [Rappor(64, 4, 50, f=0.5), GoogleRappor(16, 4, 50, f=0.5), LocalHashing(1.0, 200)]
)
def test_a_table_of_members_beyond_the_limit_is_refused_with_the_remedy(monkeypatch, scheme):
    monkeypatch.setattr(_bloom, "LARGEST", 1000)
    assert len(scheme.members(range(5))) == 5
    with pytest.raises(ValueError, match=r"members: 6 values .* take at most 5 values at a time"):
        scheme.members(range(6))
    assert len(ReportEncoder(scheme).encode_many(range(100))) == 100  # which needs no such table


@pytest.mark.parametrize(
    "scheme", [FULL, GoogleRappor(16, 2, 4, f=0.5), SubsetSelection(1.0, cells=20)], ids=repr
)
def test_cells_beyond_the_table_never_reach_the_code_that_writes_them(scheme):
    stream = DrawnStream(SystemSource())
    for cell in (scheme.cells, -2, 2**31 - 1):
        with pytest.raises(ValueError, match="members must be rows of cells from 0 to"):
            scheme.respond(stream, np.array([[0], [cell]]))
    with pytest.raises(ValueError, match="payload must be uint8, rows of 13 bytes"):
        FULL.instant(np.zeros((2, 12), np.uint8), SystemSource())


@pytest.mark.parametrize("secret", [b"", b"x" * 15, "x" * 16, 5])
def test_a_secret_that_is_none_is_refused(secret):
    with pytest.raises(ValueError, match="ReportEncoder: secret must be at least 16 random bytes"):
        ReportEncoder(ONE_TIME, secret=secret)


def test_secrets_that_do_not_fit_are_refused():
    for secrets in (np.zeros((3, 16), np.uint8), np.zeros((2, 15), np.uint8), np.zeros((2, 16))):
        with pytest.raises(ValueError, match="secrets must be a uint8 array of 2 rows"):
            ReportEncoder(ONE_TIME).encode_many(["a", "b"], secrets)
    with pytest.raises(ValueError, match="without a secret of its own"):
        ReportEncoder(ONE_TIME, secret=SECRET).encode_many(["a"], np.zeros((1, 16), np.uint8))
    with pytest.raises(ValueError, match="exclude each other"):
        ReportEncoder(ONE_TIME, secret=SECRET, seed=1)
    with pytest.raises(ValueError, match="give secret="):
        ReportEncoder(ONE_TIME).permanent("a")


CATEGORIES = ["tea", "milk", "7"]
ALL_SCHEMES = {
    "rappor": (ONE_TIME, None),
    "categories": (Rappor(f=0.5, categories=CATEGORIES), None),
    "an empty category": (Rappor(f=0.5, categories=["tea", "", "7"]), ""),
    "edges": (Rappor(f=0.5, edges=[0, 5, 10]), None),
    "published": (GoogleRappor(16, 2, 4, f=0.5), ""),
    "local hashing": (LocalHashing(2.0, cohorts=4), ""),
    "subset selection": (SubsetSelection(2.0), ""),
    "subset of categories": (SubsetSelection(2.0, categories=CATEGORIES), "7"),
    "subset and other": (SubsetSelection(2.0, categories=CATEGORIES, other=True), "gin"),
    "hadamard": (HadamardResponse(2.0, CATEGORIES), "7"),
}
ODD_VALUES = [None, math.nan, 7.5, 2.0**70, True, [1], {"a": 1}, "\ud800", 10**5000, object()]


@pytest.mark.parametrize("name", ALL_SCHEMES)
def test_no_value_raises_warns_or_changes_the_report_of_another(name):
    # Secrets make cohorts and permanent responses fixed, and all schemes here send just those.
    scheme, equivalent = ALL_SCHEMES[name]
    good = (
        [7, "7", 7.0, "tea", 7, "-3"] if name != "edges" else [7, "7", 7.0, -1e9, math.inf, 10**9]
    )
    if scheme.domain is not None and name != "edges":
        good[-1] = "tea"
    secrets = np.random.default_rng(1).integers(0, 256, (7, 16), np.uint8)
    plain = ReportEncoder(scheme).encode_many(good, secrets[:6])
    empty = silent(lambda: ReportEncoder(scheme).encode_many([*good, None], secrets))
    for odd in [*ODD_VALUES, *([] if scheme.domain is None else ["private", 10**9])]:
        if name == "edges" and odd in (7.5, 2.0**70, 10**5000, 10**9):
            continue  # numbers, which have their bins
        sent = silent(lambda odd=odd: ReportEncoder(scheme).encode_many([*good, odd], secrets))
        assert (sent.payload[:6] == plain.payload).all()
        assert (sent.cohorts[:6] == plain.cohorts).all()
        assert (sent.payload.dtype, sent.payload.shape) == (np.uint8, (7, plain.payload.shape[1]))
        assert (sent.payload[6] == empty.payload[6]).all()  # one answer for all that is none
    assert len(Counts(scheme).update(empty)) == 7
    if equivalent is not None:
        known = ReportEncoder(scheme).encode_many([equivalent], secrets[6:])
        assert (known.payload[0] == empty.payload[6]).all()
    one = ReportEncoder(scheme, secret=SECRET)
    assert (one.permanent(None) == one.permanent(math.nan)).all()


@pytest.mark.parametrize(
    ("params", "odd"),
    [
        (Rappor(f=0.5, p=0.1, q=0.8, categories=["a", "b", "c", "d"]), "private"),
        (Rappor(f=0.5, edges=[0, 1, 2, 3]), None),
    ],
)
def test_what_is_none_of_the_domain_marks_every_cell_as_the_cell_of_another(params, odd):
    # Of 20,000 coins 5.5 deviations off has p < 4e-8 for a cell.
    sent = cells(ReportEncoder(params, seed=5).encode_many([odd] * 20_000).payload, params.bits)
    low = float(params.low)
    assert np.abs(sent.mean(axis=0) - low).max() < 5.5 * math.sqrt(low * (1 - low) / 20_000)
    # Against a value of the domain one cell differs: its odds are within what is stated.
    high = params.high
    ratio = max(high / params.low, (1 - params.low) / (1 - high))
    assert math.log(ratio) <= params.epsilon_one
    unchanged = 1 - params.f / 2
    assert math.log(unchanged / (1 - unchanged)) <= params.epsilon_permanent
