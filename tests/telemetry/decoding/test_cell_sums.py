"""Sums of several cohorts at a time are those of the sparse matrix of cells by candidates."""

import numpy as np
import pytest

from sfumato.telemetry import LocalHashing, Rappor, SubsetSelection
from sfumato.telemetry.decoding import fisher_information
from sfumato.telemetry.decoding.cell_sums import GroupedSums, SparseSums
from sfumato.telemetry.decoding.design import Design

WORDS = [f"w{number}" for number in range(300)]


@pytest.mark.parametrize(("cells", "cohorts"), [(2, 25), (3, 7), (8, 64), (40, 5), (2000, 3)])
def test_grouped_sums_are_those_of_the_matrix(cells, cohorts):
    design = Design(LocalHashing(epsilon=2, cohorts=cohorts, cells=cells), WORDS)
    grouped, sparse = design.sums, SparseSums(design.matrix)
    assert isinstance(grouped, GroupedSums)
    assert grouped.candidates == sparse.candidates == 300
    random = np.random.default_rng(1)
    fractions, (first, second) = random.random(300), random.normal(size=(2, cells * cohorts))
    np.testing.assert_allclose(grouped.marked(fractions), sparse.marked(fractions), atol=1e-12)
    for found, wanted in zip(grouped.sums(first, second), sparse.sums(first, second), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    for position in (0, 299):
        assert sorted(grouped.cells_of(position)) == sorted(sparse.cells_of(position))


def test_sets_of_several_cells_take_the_matrix():
    assert isinstance(Design(Rappor(bits=16, hashes=2, cohorts=4, f=0.5), WORDS).sums, SparseSums)
    assert isinstance(
        Design(SubsetSelection(epsilon=1, cells=16, cohorts=4), WORDS).sums, GroupedSums
    )


def test_twins_share_their_cells_in_all_cohorts_and_not_only_in_the_first():
    scheme = LocalHashing(epsilon=1, cohorts=40, cells=2)
    members = np.zeros((6, 40, 1), np.int32)
    members[1, 39] = 1  # differs from the first in the last cohort alone
    members[3] = 1
    members[4, 0] = 1
    members[5, 39] = 1

    class Candidates:
        values = list("abcdef")

    Candidates.members = members
    assert Design(scheme, Candidates).twins.tolist() == [0, 1, 0, 3, 4, 1]


@pytest.mark.parametrize("other", [0.0, 250.0])
def test_the_information_of_symbols_is_that_of_their_moments(other):
    scheme = LocalHashing(epsilon=1.5, cohorts=6)
    members = scheme.members(WORDS[:20])
    counts = np.append(np.arange(20.0) * 10, other)
    quick = fisher_information.count_information(scheme, members, counts, diagonal=True)
    full = fisher_information.count_information(scheme, members, counts)
    np.testing.assert_allclose(quick, full.diagonal(), rtol=1e-10)


def test_the_rank_of_many_candidates_needs_no_matrix():
    design = Design(LocalHashing(epsilon=1, cohorts=1024, cells=8), [str(n) for n in range(4097)])
    assert design.rank() == 4097
    assert "matrix" not in vars(design)
