"""Arrow arrays of numbers and texts equal those that pyarrow makes, and import no pandas."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from sfumato.core import arrow_compute
from sfumato.core.arrow_arrays import cells, number_array, text_array


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64, np.float32, np.float64])
def test_numbers_go_to_arrow_and_back(kind):
    column = np.arange(12).astype(kind)
    for each in (column, column[::3], column[:0]):
        assert number_array(each).equals(pa.array(each))
        np.testing.assert_array_equal(cells(number_array(each)), each)
    np.testing.assert_array_equal(cells(number_array(column).slice(3, 4)), column[3:7])
    halves = pa.chunked_array([number_array(column[:5]), number_array(column[5:])])
    np.testing.assert_array_equal(cells(halves), column)


def test_texts_are_those_of_pyarrow_with_and_without_pandas(monkeypatch):
    rows = ["tea", "", "Grüße", "\0", "🍵" * 40]
    import pandas  # noqa: F401

    for without in (False, True):
        if without:
            monkeypatch.delitem(sys.modules, "pandas")
        for some in (rows, rows[:0], tuple(rows)):
            made = text_array(some)
            made.validate(full=True)
            assert made.equals(pa.array(some, pa.large_string()))
        with pytest.raises(UnicodeEncodeError):
            text_array(["tea", "\ud800"])


def test_functions_of_arrow_are_found_and_others_are_not():
    assert arrow_compute.sum(pa.array([1, 2])).as_py() == 3
    with pytest.raises(AttributeError):
        arrow_compute.no_such_function  # noqa: B018


def test_first_calls_import_no_pandas():
    code = """
import sys
import numpy as np
from sfumato.data import Interactions
from sfumato.mine.similar import near_duplicates
from sfumato.recommend import LinearItems
from sfumato.telemetry import Counts, Rappor, ReportEncoder, decode
near_duplicates(["one text of many words", "one text of many words"], threshold=0.9)
data = Interactions(*np.array([[1, 1, 2, 2], [1, 2, 2, 3], [1, 1, 1, 1]]))
LinearItems().fit(data).recommend([1], 2)
scheme = Rappor(f=0.5, p=0.25, q=0.75)
words = [f"word {i % 5}" for i in range(200)]
decode(Counts(scheme).update(ReportEncoder(scheme).encode_many(words)), words[:5])
print("pandas" in sys.modules)
"""
    line = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
