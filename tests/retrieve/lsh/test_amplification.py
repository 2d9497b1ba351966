"""AND and OR multiply probabilities as independent hashes do; lecture figures are recomputed."""

import numpy as np
import pytest

from sfumato.retrieve import Sensitive, candidate_probability
from sfumato.retrieve.lsh.amplification import bands_and_rows

FAMILY = Sensitive(near=0.2, far=0.8, near_agree=0.8, far_agree=0.2)


def test_cascade_of_or_and_then_and_or_has_the_known_figures():
    cascade = FAMILY.some(4).every(4).every(4).some(4)
    assert cascade.near_agree == pytest.approx(0.99999959, abs=1e-8)
    assert cascade.far_agree == pytest.approx(0.00087148, abs=1e-8)
    assert (cascade.near, cascade.far) == (FAMILY.near, FAMILY.far)


@pytest.mark.parametrize(("rows", "bands"), [(1, 1), (4, 4), (5, 10), (16, 64)])
def test_and_then_or_is_the_s_curve(rows, bands):
    for s in np.linspace(0, 1, 11):
        expected = 1 - (1 - s**rows) ** bands
        assert candidate_probability(s, bands, rows) == pytest.approx(expected, abs=1e-14)


def test_or_then_and_mirrors_and_then_or():
    # Exchanging s with 1 - s, P with 1 - P and rows with bands turns one curve into the other.
    for s in (0.1, 0.37, 0.9):
        turned = Sensitive(0, 1, s, s).some(7).every(3).near_agree
        assert turned == pytest.approx(1 - candidate_probability(1 - s, bands=3, rows=7))


def test_small_probabilities_keep_their_digits():
    assert candidate_probability(1e-5, bands=1, rows=4) == pytest.approx(1e-20, rel=1e-12)


def test_half_of_the_pairs_are_found_near_the_estimated_threshold():
    # (ln 2 / bands) ** (1 / rows), the approximation for many bands.
    assert candidate_probability((np.log(2) / 100) ** (1 / 6), 100, 6) == pytest.approx(
        0.5, abs=2e-3
    )


@pytest.mark.parametrize("agree", [0.55, 0.8, 0.97])
@pytest.mark.parametrize("recall", [0.5, 0.95, 0.999])
def test_chosen_bands_and_rows_are_the_strictest_that_reach_the_recall(agree, recall):
    bands, rows = bands_and_rows(agree, recall, most_bands=50)
    assert bands <= 50
    assert candidate_probability(agree, bands, rows) >= recall
    if bands > 1:
        assert candidate_probability(agree, bands - 1, rows) < recall
    if rows < 64:
        assert candidate_probability(agree, 50, rows + 1) < recall


def test_bad_values_are_refused():
    for call in (
        lambda: FAMILY.every(0),
        lambda: FAMILY.some(1.5),
        lambda: Sensitive(0.2, 0.8, 1.5, 0.2),
        lambda: Sensitive(0.2, 0.8, 0.8, float("nan")),
        lambda: Sensitive(0.8, 0.2, 0.8, 0.2),
        lambda: Sensitive(0.2, 0.8, "much", 0.2),
        lambda: candidate_probability(1.1, 2, 2),
        lambda: candidate_probability(float("nan"), 2, 2),
        lambda: candidate_probability(0.5, 0, 2),
        lambda: bands_and_rows(0.0, 0.9),
        lambda: bands_and_rows(0.9, 1.0),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()
    with pytest.raises(ValueError, match="allow more bands"):
        bands_and_rows(0.1, 0.99, most_bands=2)
