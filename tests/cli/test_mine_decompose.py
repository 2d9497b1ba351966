"""`sfumato mine svd` and `mine cur`: the library's decompositions of files of every kind."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from scipy.io import mmwrite

from sfumato.core.storage import load_any
from sfumato.mine.decompose import cur, svd
from support.cli_workspace import result_of, run, run_json
from support.matrices import FILMS


@pytest.fixture
def folder(tmp_path):
    lines = [
        f"user{user},film{item},{FILMS[user, item]:g}"
        for user, item in zip(*np.nonzero(FILMS), strict=True)
    ]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")
    np.save(tmp_path / "m.npy", FILMS)
    sparse.save_npz(tmp_path / "m.npz", sparse.csr_array(FILMS))
    mmwrite(tmp_path / "m.mtx", sparse.csr_array(FILMS))
    rows = [",".join(f"{cell:g}" for cell in row) for row in FILMS]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,e", *rows]) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    "words", [("r.csv",), ("m.npy",), ("m.npz",), ("m.mtx",), ("t.csv", "--table")]
)
def test_every_kind_of_file_gives_the_same_concepts(folder, words):
    wanted = svd(FILMS, 2)
    found = run_json(folder, "mine", "svd", *words, "--rank", "2")
    assert (found["rows"], found["columns"], found["rank"]) == (7, 5, 2)
    assert found["energy"] == pytest.approx(wanted.energy)
    assert found["relative_error"] == pytest.approx(wanted.error() / wanted.norm, rel=1e-6)
    values = [each["singular_value"] for each in found["concepts"]]
    np.testing.assert_allclose(values, wanted.s)
    drawn = run_json(folder, "mine", "cur", *words, "--columns", "4", "--rows", "4")
    parts = cur(FILMS, 4, 4)
    assert drawn["relative_error"] == pytest.approx(parts.error() / parts.norm, abs=1e-6)
    assert (drawn["columns_taken"], drawn["rows_taken"]) == parts.u.shape


def test_energy_chooses_the_rank_and_columns_have_their_names(folder):
    found = run_json(folder, "mine", "svd", "r.csv", "--energy", "0.9")
    assert found["rank"] == svd(FILMS, energy=0.9).rank
    assert "film" in found["concepts"][0]["columns"]
    assert "film" in run(folder, "mine", "svd", "r.csv", "--rank", "2")


def test_outputs_are_the_decomposition_or_the_factors_of_its_columns(folder):
    run(folder, "mine", "svd", "r.csv", "--rank", "2", "-o", "films.svd", "--figure", "s.png")
    assert load_any(folder / "films.svd") == svd(sparse.csr_array(FILMS), 2)
    assert (folder / "s.png").read_bytes().startswith(b"\x89PNG")
    run(folder, "mine", "svd", "r.csv", "--rank", "2", "-o", "f.parquet")
    table = pq.read_table(folder / "f.parquet")
    assert table.column_names == ["column", "concept_1", "concept_2"]
    assert table["column"].to_pylist() == [f"film{at}" for at in range(5)]
    run(folder, "mine", "cur", "r.csv", "--columns", "3", "--rows", "3", "-o", "films.cur")
    assert load_any(folder / "films.cur") == cur(sparse.csr_array(FILMS), 3, 3)
    run(folder, "mine", "cur", "r.csv", "--columns", "3", "--rows", "3", "-o", "c.csv")
    assert (folder / "c.csv").read_text().startswith('"kind","position"')


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("svd", "r.csv"), "--rank or --energy must be given"),
        (("svd", "r.csv", "--rank", "9"), "rank must be an integer from 1 to 5"),
        (("svd", "missing.csv", "--rank", "1"), "there is no such file"),
        (("svd", "bad.npy", "--rank", "1"), "is expected"),
        (("svd", "text.csv", "--table", "--rank", "1"), "text.csv"),
        (("svd", "r.csv", "--rank", "1", "--figure", "s.doc"), "must end in"),
        (("cur", "r.csv", "--sampling", "odd"), "sampling must be one of"),
        (("svd", "r.csv", "--rank", "1", "-o", "m.npy"), "m.npy"),
    ],
)
def test_bad_input_is_one_sentence(folder, words, sentence):
    (folder / "bad.npy").write_bytes(b"nothing")
    (folder / "text.csv").write_text("a,b\n1,x\n2,y\n")
    result = result_of(folder, "mine", *words, code=2)
    assert sentence in result.stderr
    assert result.stderr.count("\n") <= 2
