"""A design has exactly the cells of its candidates, and knows its rank."""

import numpy as np
import pytest

from sfumato.telemetry import CandidateMap, Rappor
from sfumato.telemetry.decoding.design import Design

SCHEME = Rappor(bits=16, hashes=2, cohorts=4, f=0.5)


def test_the_matrix_has_a_one_exactly_where_a_candidate_has_a_cell():
    words = ["tea", "milk", "rum", "gin"]
    members, matrix = SCHEME.members(words), Design(SCHEME, words).matrix.toarray()
    assert matrix.sum() == members.size
    for v in range(4):
        for j in range(4):
            assert set(np.flatnonzero(matrix[16 * j : 16 * j + 16, v])) == set(members[v, j])


def test_the_rank_is_that_of_the_dense_matrix_and_never_above_the_most():
    for count in (5, 40, 70, 90):
        design = Design(SCHEME, [f"w{n}" for n in range(count)])
        dense = design.matrix.toarray()
        assert design.rank() == np.linalg.matrix_rank(dense) <= design.most == 61
        wider = np.column_stack([dense, np.ones(64)])
        assert design.rank(other=True) == np.linalg.matrix_rank(wider)
        half = np.arange(64) < 32
        assert design.rank(rows=half) == np.linalg.matrix_rank(dense[half])


def test_repeated_candidates_are_refused_by_number_and_never_named():
    with pytest.raises(ValueError, match="2 of 4 are repeated") as result:
        Design(SCHEME, ["tea", "secret", "secret", "secret"])
    assert "tea" not in str(result.value)
    assert "secret" not in str(result.value)


@pytest.mark.parametrize(
    "empty", [[], (), np.array([], str), set(), CandidateMap([], np.empty((0, 4, 2)))]
)
def test_an_empty_dictionary_is_refused_with_the_remedy(empty):
    with pytest.raises(ValueError, match="at least one value; give the dictionary"):
        Design(SCHEME, empty)


def test_a_map_is_taken_as_it_is_and_twins_are_found():
    members = np.array([[[0, 1]] * 4, [[1, 0]] * 4, [[1, -1]] * 4], np.int32)
    design = Design(SCHEME, CandidateMap(["a", "b", "c"], members))
    assert design.twins.tolist() == [0, 0, 2]
    assert design.matrix.sum(0).tolist() == [[8, 8, 4]]
    with pytest.raises(ValueError, match="a cell that the scheme has not"):
        Design(SCHEME, CandidateMap(["a"], np.full((1, 4, 2), 16, np.int32)))
    with pytest.raises(ValueError, match="members must be 1 x 4"):
        Design(SCHEME, CandidateMap(["a"], np.zeros((1, 3, 2), np.int32)))


def test_integers_stand_for_their_decimal_text():
    assert (Design(SCHEME, [7, 12]).members == Design(SCHEME, ["7", "12"]).members).all()


def test_candidates_of_one_bin_are_refused_with_the_bin_and_the_remedy():
    ages = Rappor(edges=[0, 18, 40, 65], f=0.5)
    said = r"4 of 5 share one, as 18 to 40; give scheme\.domain or leave candidates out"
    with pytest.raises(ValueError, match=said):
        Design(ages, [3, 20, 30, 50, 60])
    assert len(Design(ages, [60, 20])) == 2
