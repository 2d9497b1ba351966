"""Lines, pages and tables of results, on small classes of their own."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

from sfumato.core.tables import LONGEST, ROWS_SHOWN, Page, Table, described
from sfumato.data import Interactions
from sfumato.telemetry import Counts, Rappor, ReportEncoder, decode


class Owner:
    pass


def test_a_line_names_its_facts():
    assert described(Owner(), width=4, kind="plain") == "Owner(width=4, kind='plain')"
    assert described(Owner(), "proved", width=4) == "Owner(width=4; proved)"
    assert described(Owner()) == "Owner()"


def test_long_values_are_cut_and_arrays_shown_by_size():
    text = described(Owner(), bounds=tuple(range(999)), words=np.zeros((3, 2)), function=np.sort)
    assert text == "Owner(bounds=(0, 1, 2, 3, ...), words=<3 x 2 float64>, function=sort)"


@pytest.mark.parametrize("facts", [{f"name{n}": "x" * 999 for n in range(9)}, {"a" * 999: 1}])
def test_no_line_is_long(facts):
    text = described(Owner(), "proved, epsilon 1", **facts)
    assert len(text) <= LONGEST
    assert text.endswith("; proved, epsilon 1)")
    assert all(f"{name}=" in text for name in facts if len(name) < LONGEST)


def test_a_line_has_no_break():
    assert "\n" not in described(Owner(), text=Break())


class Break:
    def __repr__(self):
        return "a\nb"


class Facts(Page):
    def _facts(self):
        return {"<b>name</b>": "<script>alert('&')</script>", "none": None}


class Prices(Table):
    def __init__(self, rows):
        self.rows = rows

    def __repr__(self):
        return f"Prices({self.rows[0]!r})"

    def _columns(self):
        return {"<i>item</i>": self.rows, "price": np.linspace(0, 1, len(self.rows))}


EVIL = "<script>alert(1)</script>\"'&"


@pytest.mark.parametrize("shown", [Facts(), Prices([EVIL])])
def test_pages_escape_what_they_show(shown):
    page = shown._repr_html_()
    assert "<script" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;" in page


def test_ids_of_results_are_escaped():
    scheme = Rappor(64, 2, 4, f=0.25)
    counts = Counts(scheme).update(ReportEncoder(scheme, seed=1).encode_many([EVIL] * 300))
    page = decode(counts, [EVIL, "tea"])._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_pages_show_few_rows():
    page = Prices(list("abc" * 100))._repr_html_()
    assert page.count("<tr>") == ROWS_SHOWN + 1
    assert "280 more rows" in page


def test_numbers_that_are_missing_are_left_empty():
    class Odd(Table):
        def _columns(self):
            return {"a": np.array([np.nan, 1.25, np.inf]), "b": [None, "x", 3]}

    page = Odd()._repr_html_()
    assert "nan" not in page
    assert "None" not in page
    assert "1.25" in page


def test_interactions_show_no_rows_but_give_them():
    given = Interactions(["ann", "bob"], ["tea", "rum"], [5, 1], [10, 20])
    assert "ann" not in given._repr_html_()
    assert "tea" not in given._repr_html_()
    assert given.to_arrow().to_pylist()[1] == {
        "user": "bob",
        "item": "rum",
        "rating": 1,
        "time": 20,
    }
    again = Interactions(*given.to_pandas().T.values.tolist())
    assert again == given
    assert Interactions([7], [8], [1]).to_arrow().column_names == ["user", "item", "rating"]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named(package, monkeypatch):
    true = importlib.import_module

    def without(name, *args):
        if name == package:
            raise ImportError(name)
        return true(name, *args)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ImportError, match=f"pip install {package}.*to_arrow"):
        getattr(Prices(["a"]), f"to_{package}")()


def test_data_frame_libraries_are_not_imported_before_they_are_needed():
    code = "import sys, sfumato.core.tables;assert not {'pandas', 'polars'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
