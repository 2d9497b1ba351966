"""What a user sees of every public object: one short line, without data, keys or seeds."""

import importlib.util
import inspect
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sfumato.core.storage import Stored
from sfumato.core.tables import ROWS_SHOWN, Page, Table
from sfumato.privacy.release import Release
from support.public_objects import KEY, SECRET, SEED, public_objects

DOCS = Path(__file__).parents[2] / "docs"


def public_classes():
    spec = importlib.util.spec_from_file_location("api", DOCS / "api.py")
    api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(api)
    found = {thing for _, _, thing in api.public() if inspect.isclass(thing)}
    return [
        each
        for each in found
        if not issubclass(each, BaseException) and not getattr(each, "_is_protocol", False)
    ]


@pytest.fixture(scope="module")
def objects():
    return public_objects()


def test_there_is_an_object_of_every_public_class(objects):
    missing = [
        kind.__name__
        for kind in public_classes()
        if not any(isinstance(each, kind) for each in objects)
    ]
    assert missing == [], "add an object of each to tests/support/public_objects.py"


def test_every_object_has_one_short_line(objects):
    for each in objects:
        text = repr(each)
        name = type(each).__name__
        assert " at 0x" not in text, f"{name} shows an address: give it a __repr__"
        assert len(text) < 300, f"{name} shows {len(text)} characters"
        lines = 3 if hasattr(each, "__sklearn_tags__") else 1  # scikit-learn breaks its own
        assert len(text.splitlines()) <= lines, f"{name} shows several lines"


def test_no_line_and_no_page_shows_raw_data_or_secrets(objects):
    for each in objects:
        page = each._repr_html_() if hasattr(each, "_repr_html_") else ""
        answer = isinstance(each, Table)  # what was decoded or found is there to be read
        for text in (repr(each), "" if answer else page):
            assert SECRET not in text, type(each).__name__
            assert not re.search(rf"\b{SEED}\b", text), type(each).__name__
            assert KEY.hex() not in text, type(each).__name__
            assert repr(KEY)[2:-1] not in text, type(each).__name__


def test_parameters_are_named(objects):
    for each in objects:
        if isinstance(each, Stored):
            text = repr(each)
            assert all(f"{name}=" in text for name in each.parameters), text
        if isinstance(each, Release):
            assert each.statement.headline in repr(each)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.rows, self.open = set(), 0, []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.rows += tag == "tr"
        self.open.append(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


ALLOWED = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


def test_pages_are_whole_and_short(objects):
    shown = {type(each): each for each in objects if isinstance(each, Page | Table)}
    assert len(shown) >= 10
    for each in shown.values():
        read = Tags()
        read.feed(each._repr_html_())
        assert read.open == [], type(each).__name__
        assert read.tags <= ALLOWED, type(each).__name__
        assert read.rows <= ROWS_SHOWN + 1


def test_tables_go_to_other_libraries(objects):
    tables = {type(each): each for each in objects if isinstance(each, Table)}
    assert {
        "DecodeResult",
        "AssociationResult",
        "DiscoveredStrings",
        "Plan",
        "Tuned",
        "Interactions",
    } <= {kind.__name__ for kind in tables}
    for each in tables.values():
        arrow, pandas, polars = each.to_arrow(), each.to_pandas(), each.to_polars()
        assert arrow.num_rows > 0
        assert list(pandas.columns) == polars.columns == arrow.column_names
        assert len(pandas) == polars.height == arrow.num_rows
        assert polars.to_dicts() == arrow.to_pylist()
