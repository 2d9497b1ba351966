"""Mixtures over reports: the blocked kernels against plain NumPy over all reports at once."""

import numpy as np
import pytest

from sfumato.kernels.telemetry import decoding as mixture

RNG = np.random.default_rng(5)
COHORTS, CELLS, VALUES, SIZE = 3, 21, 7, 3
SETS = RNG.permuted(np.tile(np.arange(CELLS, dtype=np.int32), (COHORTS, VALUES, 1)), axis=2)
SETS = np.ascontiguousarray(SETS[:, :, :SIZE])
SETS[0, 2, 1:] = -1  # a set of one cell
SETS[1, 4] = -1  # and one of none
BASE = RNG.uniform(0.3, 0.9, (COHORTS, VALUES))
RATIO = 2.5


def reports(*sizes):
    """Random payloads, some of each cohort, with the numbers that go with them."""
    rows = sum(sizes)
    bits = RNG.random((rows, CELLS)) < 0.4
    payload = np.packbits(bits, axis=1, bitorder="little")
    flat, weights = RNG.uniform(0.5, 1.5, rows), RNG.uniform(0.5, 3, rows)
    return bits, payload, np.append(0, np.cumsum(sizes)), flat, weights


def plain(bits, starts, flat):
    """Likelihoods (values + 1, reports), by the definition."""
    out = np.empty((VALUES + 1, len(bits)))
    out[-1] = flat
    for j in range(COHORTS):
        rows = slice(starts[j], starts[j + 1])
        for v in range(VALUES):
            own = SETS[j, v][SETS[j, v] >= 0]
            out[v, rows] = BASE[j, v] * RATIO ** bits[rows][:, own].sum(axis=1)
    return out


def located():
    cells = np.zeros((COHORTS, min(CELLS, VALUES * SIZE) + 1), np.int32)
    places, observed = np.empty(SETS.shape, np.int32), np.zeros(CELLS, np.int32)
    mixture.locate(SETS, observed, cells, places)
    assert not observed.any()
    return cells, places


def test_places_lead_back_to_the_cells_and_absent_cells_to_none():
    cells, places = located()
    for j in range(COHORTS):
        np.testing.assert_array_equal(np.where(places[j] > 0, cells[j][places[j]], -1), SETS[j])
        assert cells[j, 0] == np.unique(SETS[j][SETS[j] >= 0]).size


@pytest.mark.parametrize("sizes", [(1, 64, 65), (0, 130, 7), (63, 0, 0)])
def test_chances_and_slopes_are_those_of_the_definition_in_whole_and_broken_blocks(sizes):
    bits, payload, starts, flat, weights = reports(*sizes)
    shares = RNG.dirichlet(np.ones(VALUES + 1))
    shares[3] = 0.0
    likelihoods = plain(bits, starts, flat)
    chances, slopes = np.empty(len(bits)), np.zeros(VALUES + 1)
    mixture.expectations(
        payload, starts, *located(), BASE, RATIO, flat, weights, shares, chances, slopes
    )
    np.testing.assert_allclose(chances, shares @ likelihoods, rtol=1e-13)
    np.testing.assert_allclose(slopes, likelihoods @ (weights / chances), rtol=1e-12)


@pytest.mark.parametrize("sizes", [(1, 64, 65), (0, 130, 7), (63, 0, 0)])
def test_deviations_are_likelihoods_over_chances_less_one(sizes):
    bits, payload, starts, flat, weights = reports(*sizes)
    likelihoods, chances = plain(bits, starts, flat), RNG.uniform(0.5, 2, len(bits))
    out = np.empty(likelihoods.shape, np.float32)
    mixture.deviations(payload, starts, *located(), BASE, RATIO, flat, weights, chances, out)
    wanted = np.sqrt(weights) * (likelihoods / chances - 1)
    np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-6)


def test_marks_counts_the_bits_of_every_row():
    bits, payload, *_ = reports(5, 6, 7)
    out = np.empty(len(bits), np.int64)
    mixture.marks(payload, out)
    np.testing.assert_array_equal(out, bits.sum(axis=1))
