"""`sfumato mine`: files of baskets become the tables of the library, or a private release."""

import csv
import functools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli.mine import rules as commands
from sfumato.core.storage import load_any
from sfumato.mine.itemsets import association_rules, frequent_itemsets
from sfumato.mine.itemsets.rules import METRICS
from sfumato.mine.similar import near_duplicates
from sfumato.privacy import Ledger
from support.cli_workspace import result_of, run, run_json


@pytest.fixture(scope="module")
def baskets():
    rng = np.random.default_rng(0)
    return [sorted({*(rng.zipf(1.4, rng.integers(1, 9)) % 20).tolist()}) for _ in range(300)]


@pytest.fixture
def folder(tmp_path, baskets):
    (tmp_path / "b.dat").write_text("".join(f"{' '.join(map(str, row))}\n" for row in baskets))
    (tmp_path / "ids.txt").write_text("".join(f"{k}\n" for k in range(20)))
    return tmp_path


def as_set(rows):
    return {(tuple(sorted(row["items"])), row["count"]) for row in rows}


def test_itemsets_are_those_of_the_library_in_every_format(folder, baskets):
    wanted = {(tuple(sorted(i)), c) for i, c in frequent_itemsets(baskets, 0.05).to_list()}
    words = ("mine", "itemsets", "b.dat", "--min-support", "0.05")
    rows = run_json(folder, *words)["rows"]
    assert as_set(rows) == wanted
    assert [row["count"] for row in rows] == sorted((c for _, c in wanted), reverse=True)
    for name in ("o.parquet", "o.csv", "o.json"):
        about = run_json(folder, *words, "-o", name)
        assert (about["itemsets"], about["baskets"], about["min_count"]) == (len(wanted), 300, 15)
        assert about["passes"] >= 2
    assert as_set(pq.read_table(folder / "o.parquet").to_pylist()) == wanted
    assert as_set(json.loads((folder / "o.json").read_text())["rows"]) == wanted
    with (folder / "o.csv").open() as file:
        written = [{**row, "items": json.loads(row["items"])} for row in csv.DictReader(file)]
    assert {(items, str(count)) for items, count in wanted} == as_set(written)


def test_top_rows_on_the_screen_and_a_note_that_there_are_more(folder):
    result = result_of(folder, "mine", "itemsets", "b.dat", "--min-support", "3", "--max-size", "2")
    assert "20 of" in result.stderr
    assert (
        len(
            run_json(folder, "mine", "itemsets", "b.dat", "--min-support", "3", "--top", "7")[
                "rows"
            ]
        )
        == 7
    )


def test_closed_maximal_methods_and_what_each_pass_did(folder, baskets):
    found = frequent_itemsets(baskets, 15)
    words = ("mine", "itemsets", "b.dat", "--min-support", "15")
    for option, kind in (("--closed", found.closed()), ("--maximal", found.maximal())):
        wanted = {(tuple(sorted(items)), count) for items, count in kind.to_list()}
        assert as_set(run_json(folder, *words, option)["rows"]) == wanted
    about = run_json(folder, *words, "--method", "pcy", "--explain", "-o", "x.csv")
    assert about["method"] == "pcy"
    assert len(about["explain"]) >= 2
    limited = run_json(folder, *words, "--memory-limit", "64M", "--method", "son", "-o", "y.csv")
    assert limited["itemsets"] == len(found)
    assert "bitmap" in run(folder, *words, "--method", "pcy", "--explain")


def test_long_tables_lines_and_encodings(tmp_path):
    (tmp_path / "long.csv").write_text("who,what\n1,tea\n1,milk\n2,tea\n3,tea\n3,milk\n")
    (tmp_path / "lines.txt").write_bytes("th\xe9;milk\nth\xe9;milk\nth\xe9\n".encode("latin-1"))
    long = ("long.csv", "--basket-column", "who", "--item-column", "what")
    lines = ("lines.txt", "--format", "lines", "--separator", ";", "--encoding", "latin-1")
    for words, tea in ((long, "tea"), (lines, "th\xe9")):
        rows = run_json(tmp_path, "mine", "itemsets", *words, "--min-support", "2")["rows"]
        assert as_set(rows) == {((tea,), 3), (("milk",), 2), (("milk", tea), 2)}
        assert len(run_json(tmp_path, "mine", "rules", *words, "--min-support", "2")["rows"]) == 2
    assert "UTF-8" in run(
        tmp_path, "mine", "itemsets", *lines[:-2], "--min-support", "2", code=2
    ).replace("utf-8", "UTF-8")


def test_a_long_table_is_seen_by_its_header_and_no_result_is_said(tmp_path):
    (tmp_path / "long.csv").write_text("order,item\n1,a\n1,b\n2,a\n2,b\n")
    (tmp_path / "lines.csv").write_text("a,b\na,c\n")
    words = ("mine", "itemsets", "long.csv", "--min-support", "2")
    for more in ((), ("--item-column", "item"), ("--format", "long")):
        found = result_of(tmp_path, *words, *more)
        assert found.stderr == "sfumato: long.csv: baskets from 'order', items from 'item'.\n"
        assert "a, b" in found.stdout
    text = (tmp_path / "long.csv").read_bytes()
    rules = ("mine", "rules", "-", "--min-support", "2")
    assert len(run_json(tmp_path, *rules, stdin=text)["rows"]) == 2
    none = result_of(tmp_path, "mine", "itemsets", "lines.csv", "--min-support", "3")
    assert none.stdout.strip() == ""
    assert "no itemset is in so many baskets" in none.stderr
    assert "lines.csv: one basket per line" in none.stderr
    assert "no rules" in result_of(tmp_path, *rules, stdin=b"a,b\nc,d\n").stderr
    item = ("mine", "itemsets", "lines.csv", "--min-support", "2", "--item-column", "a")
    assert "goes with --basket-column" in run(tmp_path, *item, code=2)


def test_a_private_release_does_not_look_for_a_header(tmp_path):
    (tmp_path / "long.csv").write_text("order,item\n1,a\n")
    words = ("mine", "itemsets", "long.csv", "--min-support", "2", "--epsilon", "1")
    words = (*words, "--delta", "1e-6", "--max-items", "2")
    assert "one basket per line" in result_of(tmp_path, *words).stderr


def test_private_itemsets_of_marked_files_and_of_empty_baskets(tmp_path):
    (tmp_path / "b.flat").write_text("1,2,-1," * 200)
    (tmp_path / "none.dat").write_text("\n" * 20)
    words = ("--epsilon", "9", "--delta", "1e-3", "--max-items", "2")
    found = run_json(tmp_path, "mine", "itemsets", "b.flat", *words)
    assert {tuple(sorted(row["items"])) for row in found["rows"]} == {("1",), ("2",), ("1", "2")}
    assert run_json(tmp_path, "mine", "itemsets", "none.dat", *words)["rows"] == []


def test_rules_are_those_of_the_library_and_are_drawn(folder, baskets):
    found = frequent_itemsets(baskets, 9)
    words = ("mine", "rules", "b.dat", "--min-support", "9", "--metric", "lift", "--min", "1.1")
    words = (*words, "--consequents", "several")
    wanted = association_rules(found, "lift", min=1.1, consequents="several").to_arrow()
    rows = run_json(folder, *words)["rows"]
    assert len(rows) == wanted.num_rows > 5
    sides = {(tuple(r["antecedent"]), tuple(r["consequent"]), r["count"]) for r in rows}
    assert sides == {
        (tuple(r["antecedent"]), tuple(r["consequent"]), r["count"]) for r in wanted.to_pylist()
    }
    about = run_json(folder, *words, "--figure", "r.png", "-o", "r.parquet", "--top", "5")
    assert about["rules"] == pq.read_table(folder / "r.parquet").num_rows == 5
    assert (folder / "r.png").read_bytes().startswith(b"\x89PNG")
    assert "confidence" in run(folder, *words)
    assert ", ".join(METRICS) == commands.METRICS


def test_a_private_release_is_charged_stored_and_gives_rules_at_no_cost(folder):
    Ledger(folder / "l").create("shop", 5, unit="basket")
    words = ("mine", "itemsets", "b.dat", "--epsilon", "4", "--max-items", "4")
    words = (*words, "--vocabulary", "ids.txt")
    paid = ("--ledger", "l", "--dataset", "shop", "--release-id", "one")
    about = run_json(folder, *words, *paid, "-o", "a.itemsets")
    assert about["statement"]["unit"] == "basket"
    assert about["statement"]["epsilon"] == 4
    assert not about["stored_before"]
    again = run_json(folder, *words, *paid, "-o", "a.itemsets", "--force")
    assert again["stored_before"]
    assert Ledger(folder / "l").spent("shop").epsilon == 4
    release = load_any(folder / "a.itemsets")
    assert about["itemsets"] == len(release.itemsets()) > 0
    rules = run_json(folder, "mine", "rules", "a.itemsets", "--min", "0")["rows"]
    assert len(rules) == len(release.rules(min=0))
    assert "ReleasedItemsets" in run(folder, "inspect", "a.itemsets")
    refused = run(folder, *words, "--ledger", "l", "--dataset", "shop", code=2)
    assert "shop" in refused
    table = run_json(folder, *words, *paid, "-o", "a.csv")
    assert table["stored_before"]
    assert (folder / "a.csv").read_text().startswith('"items"')
    assert "differential" in run(folder, *words).lower()


def test_similar_documents_are_those_of_the_library(tmp_path):
    texts = ["a rose is a rose", "a daisy", "A rose is a rose!", "a rose was a rose, is a rose"]
    (tmp_path / "d.txt").write_text("".join(f"{text}\n" for text in texts))
    rows = {"text": texts, "name": ["r", "d", "R", "q"]}
    pq.write_table(pa.table(rows), tmp_path / "d.parquet")
    words = ("mine", "similar", "d.txt", "--threshold", "0.5", "-k", "3")
    wanted = near_duplicates(texts, 0.5, k=3).to_pylist()
    found = run_json(tmp_path, *words)["rows"]
    assert len(found) == 3
    assert sorted(map(str, found)) == sorted(map(str, wanted))
    table = ("mine", "similar", "d.parquet", "--column", "text", "--id-column", "name")
    about = run_json(tmp_path, *table, "-o", "p.csv", "--figure", "p.svg")
    assert (about["pairs"], about["documents"]) == (1, 4)
    assert (tmp_path / "p.csv").read_text().splitlines()[1] == '"r","R",1'
    assert b"<svg" in (tmp_path / "p.svg").read_bytes()
    assert "--column must be given" in run(tmp_path, "mine", "similar", "d.parquet", code=2)
    assert "no --id-column" in run(tmp_path, *words, "--id-column", "x", code=2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("itemsets b.dat", "--min-support must be given"),
        ("itemsets b.dat --min-support 0", "--min-support must be"),
        ("itemsets b.dat --min-support 3 --method fun", "method must be"),
        ("itemsets b.dat --min-support 3 -o x.txt", "must end in .parquet, .csv, .json"),
        ("itemsets b.dat --min-support 3 -o no/x.csv", "there is no folder"),
        ("itemsets b.dat --min-support 3 --memory-limit much", "--memory-limit must be bytes"),
        ("itemsets b.dat --min-support 3 --closed --maximal", "exclude each other"),
        ("itemsets b.dat --min-support 3 --max-items 3", "--max-items goes with --epsilon"),
        ("itemsets b.dat --epsilon 1", "--max-items must be given"),
        ("itemsets b.dat --epsilon 1 --max-items 3", "vocabulary must be given where delta is 0"),
        ("itemsets b.dat --epsilon 1 --max-items 3 --explain", "--explain goes without"),
        ("itemsets none.dat --min-support 3", "none.dat: there is no such file"),
        ("rules b.dat --min-support 3 --figure x.gif", "must end in .png, .svg, .pdf"),
        ("rules b.dat --min-support 3 --metric fun", "metric must be"),
        ("rules b.dat", "--min-support must be given"),
    ],
)
def test_errors_are_one_line(folder, words, sentence):
    text = run(folder, "mine", *words.split(), code=2)
    assert sentence in text
    assert len(text.strip().splitlines()) == 1
    assert not set(folder.iterdir()) - {folder / "b.dat", folder / "ids.txt"}


@pytest.mark.filterwarnings("ignore:near_duplicates")
def test_more_pairs_than_fit_into_memory_are_listed_and_written(tmp_path, monkeypatch):
    import sfumato.mine.similar

    limited = functools.partial(near_duplicates, max_pairs=10)
    monkeypatch.setattr(sfumato.mine.similar, "near_duplicates", limited)
    texts = [f"the same text, or nearly the same text {k % 7}" for k in range(30)]
    rows = {"text": texts, "name": [f"=n{k}" for k in range(30)]}
    pq.write_table(pa.table(rows), tmp_path / "d.parquet")
    words = ("mine", "similar", "d.parquet", "--column", "text", "--id-column", "name")
    wanted = near_duplicates(texts)
    sides = [wanted[side].to_pylist() for side in ("first", "second")]
    pairs = {(f"=n{a}", f"=n{b}") for a, b in zip(*sides, strict=True)}
    for name in ("o.parquet", "o.csv", "o.json"):
        about = run_json(tmp_path, *words, "-o", name, "--figure", "p.png", "--force")
        assert about["pairs"] == len(pairs) > 10
    found = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert {(row["first"], row["second"]) for row in found} == pairs
    assert json.loads((tmp_path / "o.json").read_text())["rows"] == found
    with (tmp_path / "o.csv").open() as file:
        written = list(csv.DictReader(file))
    assert {(row["first"][1:], row["second"][1:]) for row in written} == pairs
    best = run_json(tmp_path, *words, "--top", "3")["rows"]
    assert [row["similarity"] for row in best] == [1.0] * 3
    result = result_of(tmp_path, *words)
    assert f"20 of {len(pairs)} rows" in result.stderr
