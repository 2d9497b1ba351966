"""Private models on the local engine: no line of a file of text stops them or changes another."""

import json
import warnings

import pytest

from sfumato.density import (
    PrivateTableSampler,
    SketchAnomalyDetector,
    SketchClassifier,
    SketchDensity,
    SketchRegressor,
)
from sfumato.engine import LocalEngine
from sfumato.mine.cluster import PrivateKMeans
from sfumato.mine.decompose import PrivatePCA
from sfumato.mine.rank import PrivateDegreeHistogram
from sfumato.recommend import PrivateFactorization, PrivatePopular

NAMES = ["n", "i", "c", "k"]
GOOD = [f"{k}.5,{k % 7},{'ab'[k % 2]},{'yes' if k % 3 else 'no'}\n".encode() for k in range(60)]
ODD = {
    "too few fields": b"1,2\n",
    "too many fields": b"1,2,a,yes,5\n",
    "not UTF-8": b"1,2,\xe9,yes\n",
    "zero byte": b"1,2,\0,yes\n",
    "not closed": b'1,"2,a,yes\n',
    "blank": b"\n",
    "text": b"x,y,z,w\n",
    "thousands of digits": b"9" * 5000 + b",2,a,yes\n",
    "fractions": b"1e999,2.5,a,yes\n",
}
LINES = {
    "nonsense": "nonsense",
    "a list": "[1, 2]",
    "nested": '{"n": [1], "i": {"x": 2}, "c": "a", "k": "yes"}',
    "deep": "[" * 3000,
    "thousands of digits": '{"n": 1, "i": %s, "c": "a", "k": "yes"}' % ("9" * 5000),
    "half a pair": '{"n": true, "i": 1, "c": "\\ud800", "k": null}',
}
BOUNDED = dict(epsilon=1, bounds=(0, 100))
PUBLIC = {"n": (0, 100), "i": range(7), "c": ["a", "b"], "k": ["yes", "no"]}
RATED = dict(columns=("n", "c", "i"), users=[f"{k}.5" for k in range(60)], catalogue=["a", "b"])
LEARN = {
    "density": lambda rows: SketchDensity(bandwidth=9, **BOUNDED).fit_rows(columns=["n"], **rows),
    "regressor": lambda rows: SketchRegressor(target_bounds=(0, 7), **BOUNDED).fit_rows(
        columns=["n"], target="i", **rows
    ),
    "classifier": lambda rows: SketchClassifier(classes=["yes", "no"], **BOUNDED).fit_rows(
        columns=["n", "i"], label="k", **rows
    ),
    "detector": lambda rows: SketchAnomalyDetector(**BOUNDED).fit_rows(columns=["n"], **rows),
    "table": lambda rows: PrivateTableSampler(PUBLIC, epsilon=1).fit_rows(
        rows["source"], engine=rows["engine"]
    ),
    "components": lambda rows: PrivatePCA(1, **BOUNDED).fit(
        rows["source"], engine=rows["engine"], columns=["n", "i"]
    ),
    "clusters": lambda rows: PrivateKMeans(2, epsilon=1, bounds=([0, 0], [99, 9])).fit(
        rows["source"], engine=rows["engine"], columns=["n", "i"]
    ),
    "degrees": lambda rows: PrivateDegreeHistogram(1, max_degree=5).fit(
        rows["source"], engine=rows["engine"], source_column="n", target_column="c"
    ),
    "popular": lambda rows: PrivatePopular(epsilon=1, delta=1e-6).fit_rows(
        columns=("n", "c"), catalogue=["a", "b"], **rows
    ),
    "factors": lambda rows: PrivateFactorization(epsilon=1, delta=1e-6, bounds=(0, 7)).fit_rows(
        **RATED, **rows
    ),
}


def with_line(folder, odd, place):
    path = folder / "odd.csv"
    path.write_bytes(b"".join([b"n,i,c,k\n", *GOOD[:place], odd, *GOOD[place:]]))
    return path


def cells(path):
    batches = LocalEngine(threads=1).rows(path, NAMES, private=True).batches()
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("place", [0, 30, 60])
def test_every_line_is_read_on_its_own(tmp_path, odd, place):
    good, found = cells(with_line(tmp_path, b"", 0)), cells(with_line(tmp_path, odd, place))
    assert len(good) == 60
    more = found[place : place + len(found) - len(good)]
    assert found == [*good[:place], *more, *good[place:]]
    assert len(more) <= 1


@pytest.mark.parametrize("odd", LINES.values(), ids=LINES)
def test_every_object_is_read_on_its_own(tmp_path, odd):
    good = [dict(zip(NAMES, line.decode().strip().split(","), strict=True)) for line in GOOD]
    found = []
    for name, more in (("good.jsonl", []), ("odd.jsonl", [odd])):
        (tmp_path / name).write_text("\n".join([*more, *map(json.dumps, good)]) + "\n")
        found.append(cells(tmp_path / name))
    assert len(found[0]) == 60
    assert found[1][-60:] == found[0]
    assert len(found[1]) <= 61


@pytest.mark.parametrize("learn", LEARN.values(), ids=LEARN)
def test_no_line_stops_a_private_model(tmp_path, learn):
    text = b"".join(ODD.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that epsilon is small for so few rows
        learn({"source": with_line(tmp_path, text, 30), "engine": LocalEngine(threads=2)})
