"""What the library needs is named as the option that gives it, by the error and not its words."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato import cli, telemetry
from sfumato.core.hashing import KeyColumn
from sfumato.data import Interactions, read_interactions
from sfumato.engine import map_merge
from sfumato.mine.itemsets import read_baskets
from sfumato.profile import Blip
from sfumato.recommend import DenseFactorization, TemporalMeans
from sfumato.retrieve import BinaryIndex
from sfumato.sketch import CountMin, CountSketch
from sfumato.telemetry import Counts, Rappor, ReportEncoder, SubsetSelection, read_params_csv

VECTORS = np.eye(4, dtype=np.float32)


def written(folder, text, name="a.csv"):
    path = folder / name
    path.write_text(text)
    return path


def both():
    counts = Counts(Rappor(8, 2, 4, f=0.5))
    counts.update(ReportEncoder(counts.scheme, seed=1).encode_many(["a"]))
    return counts.merge(Counts.from_bytes(counts.to_bytes()))


def index():
    return BinaryIndex(64).add(np.arange(4), VECTORS)


def make():
    return CountMin(64)


def heavy():
    return CountMin(64).update(["a"], [5]).release(1.0, weight=2)


def known(**more):
    return SubsetSelection(1.0, categories=["a", "b"], **more).values(["c"])


CASES = {
    "null": (lambda _: KeyColumn([1, None], strict=True), "--skip-nulls leaves such rows"),
    "null weight": (
        lambda _: CountMin(64).update(["a"], pa.array([None], pa.int64())),
        "--skip-nulls leaves such rows",
    ),
    "null of a table": (
        lambda _: map_merge(
            {"k": [1], "n": pa.array([None], pa.int64())}, make, column="k", weights="n"
        ),
        "--skip-nulls leaves such rows",
    ),
    "whole weights": (
        lambda _: CountMin(64).update(["a"], [0.5]),
        "A count-sketch takes others with --set cells=real.",
    ),
    "weight": (lambda _: heavy(), "That is --set weight=W."),
    "candidates": (lambda _: CountSketch(64).heavy_hitters(2), "That is --among FILE."),
    "candidates of a release": (
        lambda _: CountSketch(64).release(1.0, weight=1).heavy_hitters(2),
        "That is --among FILE.",
    ),
    "dataset": (
        lambda _: CountMin(64).release(1.0, weight=1, dataset="d"),
        "They are --ledger and --dataset.",
    ),
    "ledger": (
        lambda _: Blip(bits=64, epsilon=1.0).release([], ledger="l"),
        "They are --ledger and --dataset.",
    ),
    "bad line": (
        lambda folder: read_interactions(
            written(folder, "user,item,rating\n1,2,3\n1,2,x\n"), guess=False
        ),
        "That is --skip-bad.",
    ),
    "users": (
        lambda folder: read_interactions(written(folder, "a,b,rating\n1,2,3\n")),
        "That is --user-column.",
    ),
    "items": (
        lambda folder: read_interactions(written(folder, "user,b,rating\n1,2,3\n")),
        "That is --item-column.",
    ),
    "ratings": (
        lambda folder: read_interactions(
            written(folder, '{"user": 1, "item": 2}\n', "a.jsonl"),
            users="user",
            items="item",
            invalid="drop",
        ),
        "That is --rating-column.",
    ),
    "no ratings": (
        lambda _: DenseFactorization().fit(Interactions([1, 2], [1, 2])),
        "That is --rating-column, or --model linear-items.",
    ),
    "no times": (
        lambda _: TemporalMeans().fit(Interactions([1, 2], [1, 2], [3.0, 4.0])),
        "That is --time-column.",
    ),
    "header": (
        lambda folder: read_interactions(written(folder, "ann,tea\n"), users=0, items=1),
        "They are --header and --no-header.",
    ),
    "delimiter": (
        lambda folder: read_interactions(written(folder, "12\n13\n")),
        "That is --delimiter.",
    ),
    "keep_vectors": (
        lambda _: index().search(VECTORS, 1, rerank="exact"),
        "That is --keep-vectors, when it is built.",
    ),
    "rerank": (lambda _: index().search(VECTORS, 1, rerank="best"), "Without: --rerank none."),
    "encoder": (lambda _: BinaryIndex(64, "best"), "That is --encoder."),
    "twice": (
        lambda _: both(),
        "Give each file once, or files of reports in place of such counts.",
    ),
    "category": (
        lambda _: telemetry.decode(Counts(Rappor(categories=["a", "b"], f=0.5)), candidates=["c"]),
        "Or telemetry params --scheme subset-selection --other makes it.",
    ),
    "baskets": (
        lambda folder: read_baskets(written(folder, "a,b\n"), format="long"),
        "That is --basket-column.",
    ),
    "other": (lambda _: known(), "That is telemetry params --other."),
    "own": (
        lambda folder: read_params_csv(written(folder, "k,h,m,p,q,f\n128,2,64,0.5,0.75,0.6\n")),
        "Make a .json of it: sfumato telemetry params FILE --own -o params.json",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_of_the_library_names_the_option(name, tmp_path):
    wrong, hint = CASES[name]
    with pytest.raises((ValueError, TypeError)) as error:
        wrong(tmp_path)
    assert cli._sentence(error.value).startswith(f"{' '.join(str(error.value).split())} {hint}")


def test_a_hint_does_not_hang_on_words():
    words = "weights must be integers, not; rerank must be; give users=; row 1 is null"
    assert cli._sentence(ValueError(words)) == words


def test_every_hint_is_tried():
    hints = {*cli.HINTS.values(), *cli.CLASS_HINTS.values()}
    assert {
        hint for hint in hints if not any(hint.startswith(h) for _, h in CASES.values())
    } == set()
