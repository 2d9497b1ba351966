"""After the rows that decide a type no value of a text file changes: it fits or is refused."""

import re
from itertools import accumulate

import pytest

from sfumato.data import Reading, read_batches

ROWS = 25_000  # more than decide the type
SECRET = "SECRET"


def late(path, usual, value):
    """A file of one column of usual values and one that comes late, then a few usual ones."""
    values = [usual] * ROWS + [value] + [usual] * 3
    if path.suffix == ".csv":
        path.write_text("user\n" + "".join(f"{each}\n" for each in values))
    else:
        path.write_text("".join(f'{{"user": {each}}}\n' for each in values))
    return path


def refused(path, batch_rows=1000):
    result = (
        f"{path}: row {ROWS + 1}: column 'user' is not of the type of the first 20000 rows; read"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(result)} it as text.$") as error:
        list(read_batches(path, ["user"], batch_rows=batch_rows))
    assert error.value.__cause__ is None


def last(path, **options):
    batches = list(read_batches(path, ["user"], **options))
    return [value for batch in batches for value in batch.column(0).to_pylist()][ROWS:]


NO_INTEGERS = [
    *("007", "00", "-0", "-07", "0x1F", "0x0", "1.5", "1.", "1e3", "+5", " 12", "12 ", "1_000"),
    *("1,000", "12L", "true", "-", "\u0663", str(2**63), str(-(2**63) - 1), "9" * 30, SECRET),
]


@pytest.mark.parametrize("value", NO_INTEGERS)
def test_a_late_field_that_is_no_integer_is_refused(tmp_path, value):
    quoted = f'"{value}"' if "," in value else value
    path = late(tmp_path / "views.csv", "7", quoted)
    refused(path)
    refused(path, batch_rows=1 << 20)
    assert last(path, text=["user"]) == [value, "7", "7", "7"]


@pytest.mark.parametrize(
    "value",
    ["1.5", "7.0", "1e3", "true", '"7"', '"007"', f'"{SECRET}"', "{}", "[7]", "9" * 30, '""'],
)
def test_a_late_json_value_that_is_no_integer_is_refused(tmp_path, value):
    refused(late(tmp_path / "views.jsonl", "7", value))


@pytest.mark.parametrize("value", [" 2.5", "1_000.5", "1,5", "0x1p3", "true", SECRET])
def test_a_late_field_that_is_no_number_is_refused(tmp_path, value):
    quoted = f'"{value}"' if "," in value else value
    refused(late(tmp_path / "views.csv", "0.5", quoted))


@pytest.mark.parametrize("value", ["true", '"2.5"', "{}"])
def test_a_late_json_value_that_is_no_number_is_refused(tmp_path, value):
    refused(late(tmp_path / "views.jsonl", "0.5", value))


@pytest.mark.parametrize("value", ["1", "0", '"true"', "1.5"])
def test_a_late_json_value_that_is_no_truth_value_is_refused(tmp_path, value):
    refused(late(tmp_path / "views.jsonl", "false", value))


@pytest.mark.parametrize(
    ("usual", "value"),
    [
        ("7", "0"),
        ("7", "-1"),
        ("7", "-9223372036854775808"),
        ("7", "9223372036854775807"),
        ("18446744073709551615", "0"),
        ("0.5", "-2"),
        ("0.5", "1e3"),
        ("0.5", "0.1"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_late_values_of_the_type_are_read_exactly(tmp_path, ending, usual, value):
    path = late(tmp_path / f"views.{ending}", usual, value)
    number = float if "." in usual else int
    assert last(path) == [number(value), *[number(usual)] * 3]


@pytest.mark.parametrize(("ending", "nothing"), [("csv", '""'), ("csv", ""), ("jsonl", "null")])
@pytest.mark.parametrize(("usual", "value"), [("7", 7), ("0.5", 0.5)])
def test_nulls_are_of_every_type(tmp_path, ending, nothing, usual, value):
    path = late(tmp_path / f"views.{ending}", usual, nothing)
    if not nothing:  # an empty line would be no row
        path.write_text("user,item\n" + f"{usual},x\n" * ROWS + f",x\n{usual},x\n" * 3)
    assert last(path)[:2] == [None, value]
    assert set(last(path, skip_nulls=True)) == {value}


def test_truth_values_and_keys_that_are_not_there_stay(tmp_path):
    path = tmp_path / "views.jsonl"
    path.write_text('{"user": true}\n{}\n{"user": false}\n{"user": null}\n')
    rows = [batch.column(0).to_pylist() for batch in read_batches(path, ["user"])]
    assert rows == [[True, None, False, None]]


def test_mixed_json_can_be_read_as_text(tmp_path):
    path = tmp_path / "views.jsonl"
    path.write_text('{"user": 7}\n{"user": "tea"}\n')
    rows = [batch.column(0).to_pylist() for batch in read_batches(path, ["user"], text=["user"])]
    assert rows == [["7", "tea"]]


def test_long_identifiers_in_digits_stay_text(tmp_path):
    path = tmp_path / "views.csv"
    path.write_text(f"user\n{'9' * 30}\n7\n")
    assert next(iter(read_batches(path, ["user"]))).column(0).to_pylist() == ["9" * 30, "7"]


def test_the_row_is_that_of_the_file_also_with_several_threads(tmp_path):
    path = tmp_path / "views.csv"
    rows = 1_500_000  # several of the buffers that the threads parse
    path.write_text("user\n" + "".join(f"{n}\n" for n in range(rows)) + "007\n" + "1\n" * 1000)
    batches = read_batches(path, ["user"]).pieces[0].open(Reading(threads=4))
    firsts = []
    with pytest.raises(ValueError, match=f"row {rows + 1}: column 'user'"):
        firsts.extend((batch.column(0)[0].as_py(), batch.num_rows) for batch in batches)
    starts = accumulate((rows for _, rows in firsts), initial=0)
    assert [first for first, _ in firsts] == list(starts)[:-1]
