"""Every table and figure of the sources has its row of evidence, and the course its examples."""

import re
import sys
from pathlib import Path

import pytest

from support.benchmarks import benchmark

ROOT = Path(__file__).parents[2]
SEEDS = ROOT.parent / "shared" / "seeds"


@pytest.fixture(scope="module")
def evidence():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import evidence

        yield evidence
    finally:
        sys.path.remove(str(ROOT / "docs"))


def numbered(kind, *numbers):
    return [f"{kind} {number}" for number in numbers]


# What the captions of each source number; the course numbers nothing, and has its lectures' items.
NUMBERED = {
    "Thesis": [
        *numbered("Table", 1, 1.1, 3.1, 4.1, 4.2, 5.1, 6.1),
        *numbered("Figure", 1.1, 3.1, 3.2, 3.3, 3.4, 3.5, 3.6),
        *numbered("Figure", 4.1, 4.2, 4.3, 4.4, 4.5, 4.6, 4.7, 4.8, 5.1, 5.2, 6.1),
    ],
    "Matrix factorization paper": [*numbered("Table", 1), *numbered("Figure", 1, 2, 3, 4)],
    "RACE": [*numbered("Table", 1, 2, 3, 4), *numbered("Figure", 1, 2, 3, 4, 5, 6)],
    "RAPPOR notes": [*numbered("Figure", 1, 2, 3, 4, 5, 6), *numbered("Table", 6.4)],
}
LECTURES = {1: 16, 2: 18, 3: 13, 4: 9, 5: 17, 6: 12}
STARTS = {
    "Thesis": "000",
    "Matrix factorization paper": "001",
    "RACE": "002",
    "RAPPOR notes": "004",
}


@pytest.mark.parametrize("source", NUMBERED)
def test_every_table_and_figure_has_a_row(evidence, source):
    rows = {title: rows for title, rows, _ in evidence.sections()}[source]
    assert sorted(row.name for row in rows) == sorted(NUMBERED[source])


@pytest.mark.parametrize("source", NUMBERED)
def test_the_numbers_are_those_of_the_captions(source):
    found = list(SEEDS.glob(f"{STARTS[source]}_*.txt"))
    if not found:
        pytest.skip(f"the sources are not in {SEEDS}")
    captions = re.findall(r"^ *(Table|Figure) (\d+(?:\.\d+)?)\b", found[0].read_text(), re.M)
    assert {f"{kind} {number}" for kind, number in captions} == set(NUMBERED[source])


def test_every_item_of_the_course_has_a_row(evidence):
    rows = {title: rows for title, rows, _ in evidence.sections()}["Big-data course"]
    wanted = [f"{lecture}.{n}" for lecture, last in LECTURES.items() for n in range(1, last + 1)]
    assert [row.name for row in rows] == wanted


def test_commands_and_pages_of_the_rows_are_there(evidence):
    for _, rows, _ in evidence.sections():
        for row in rows:
            for path in re.findall(r"\b(?:benchmarks|tests)/[\w./]+", row.command):
                assert (ROOT / path).exists(), path
            for page in re.findall(r"\]\((.*?)\)", row.page + row.ours):
                assert (ROOT / "docs" / page).exists(), page


def test_names_that_the_rows_give_are_public(evidence):
    public = set(re.findall(r"\w+", (ROOT / "docs" / "api.txt").read_text()))
    source = (ROOT / "src" / "sfumato" / "mine" / "itemsets" / "mining.py").read_text()
    for _, rows, _ in evidence.sections():
        for row in rows:
            for name in re.findall(r"`(\w+)", row.ours):
                assert name in public or name == "method", name
            if row.name.startswith("1."):
                for method in re.findall(r'method="(\w+)"', row.ours):
                    assert f'"{method}"' in source, method


def test_examples_of_the_course_are_as_recorded(evidence):
    course = benchmark("course")
    recorded = evidence.course.read("course")["examples"]
    assert course.examples() == recorded
