"""The density stop of `sfumato demo`: what releases of one table answer, beside the truth."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sfumato.density import (
    SketchAnomalyDetector,
    SketchClassifier,
    SketchDensity,
    SketchRegressor,
    SketchSampler,
    find_modes,
)

__all__ = ["density"]

NAMES = ("question", "private, epsilon 1", "not private", "truth")
CENTRES = np.array([[25.0, 30.0], [70.0, 40.0], [45.0, 75.0]])
STD, CONTAMINATION = 6.0, 0.01
BOUNDS = (0.0, 100.0)
POSITIONS = (*CENTRES[:2].tolist(), [90.0, 90.0])
Row = dict[str, Any]


class _Rows:
    """Points of three clusters and some anomalies, each with a class and a number."""

    def __init__(self, rows: int, seed: int) -> None:
        draw = np.random.default_rng(seed)
        cluster = draw.choice(3, rows, p=[0.5, 0.3, 0.2])
        self.points = draw.normal(CENTRES[cluster], STD)
        self.anomalous = draw.random(rows) < CONTAMINATION
        self.points[self.anomalous] = draw.uniform(*BOUNDS, (int(self.anomalous.sum()), 2))
        self.kind = np.where(draw.random(rows) < 0.05, "other", np.array(["a", "b", "c"])[cluster])
        self.price = self.points @ [2.0, -1.0] + draw.normal(0, 20, rows)


def density(console: Console, rows: int = 20_000) -> list[Row]:
    """Release a generated table six times, ask the releases; print the table, return its rows."""
    console.print(
        f"[bold cyan]What may a table of {rows:,} rows tell?[/]  Two columns, a class, a number; "
        "SketchDensity(bandwidth=5, epsilon=1, bounds=(0, 100)).fit(points)"
    )
    learned, fresh = _Rows(rows, 21), _Rows(rows, 22)
    stops = (_dense, _highest, _classes, _numbers, _anomalies, _synthetic)
    found = [row for stop in stops for row in stop(learned, fresh)]
    table = Table(box=None, pad_edge=False)
    for name in NAMES:
        table.add_column(name, justify="left" if name == "question" else "right")
    for row in found:
        table.add_row(row["question"], *(_written(row[key]) for key in list(row)[1:]))
    console.print(table)
    console.print(
        "Six releases of epsilon 1 cost 6. Each answers any number of questions. Bounds and "
        "classes are public.\n"
    )
    return found


def _row(question: str, *answers: Any) -> Row:
    """The answer of a release, of the same model without privacy, and the truth if there is one."""
    values = [None if each is None else float(each) for each in answers]
    names = ("private", "not_private", "truth")
    return {"question": question, **dict.fromkeys(names), **dict(zip(names, values, strict=False))}


def _both(kind: Any, **parameters: Any) -> tuple[Any, Any]:
    """The same model, private and not."""
    return kind(epsilon=1, **parameters), kind(**parameters)


def _dense(learned: _Rows, fresh: _Rows) -> Iterator[Row]:
    private, plain = (
        model.fit(learned.points) for model in _both(SketchDensity, bandwidth=5, bounds=BOUNDS)
    )
    truth = plain.sketch_.exact(learned.points, POSITIONS) / len(learned.points)
    for point, *answers in zip(
        POSITIONS, private.density(POSITIONS), plain.density(POSITIONS), truth, strict=True
    ):
        x, y = point
        yield _row(f"how crowded is it around ({x:.0f}, {y:.0f})", *answers)


def _highest(learned: _Rows, fresh: _Rows) -> Iterator[Row]:
    both = _both(SketchDensity, bandwidth=5, kernel="gaussian", bounds=BOUNDS)
    found = [find_modes(model.fit(learned.points), random_state=0)[0] for model in both]
    yield _row("number of modes", *map(len, found), len(CENTRES))
    away = [
        np.linalg.norm(CENTRES[:, None] - positions, axis=2).min(axis=1).max()
        if len(positions)
        else None
        for positions in found
    ]
    yield _row("the farthest of them from a centre", *away, 0)


def _classes(learned: _Rows, fresh: _Rows) -> Iterator[Row]:
    both = _both(SketchClassifier, bounds=BOUNDS, classes=["a", "b", "c", "other"])
    right = [
        model.fit(learned.points, learned.kind).score(fresh.points, fresh.kind) for model in both
    ]
    yield _row("right classes of fresh rows", *right)


def _numbers(learned: _Rows, fresh: _Rows) -> Iterator[Row]:
    both = _both(SketchRegressor, bounds=BOUNDS, target_bounds=(-200, 300), degree=1)
    fitted = [model.fit(learned.points, learned.price) for model in both]
    yield _row("slope of the number along column 1", *(model.coef_[0] for model in fitted), 2)
    yield _row("R2 of fresh rows", *(model.score(fresh.points, fresh.price) for model in fitted))


def _anomalies(learned: _Rows, fresh: _Rows) -> Iterator[Row]:
    both = _both(SketchAnomalyDetector, bounds=BOUNDS, contamination=CONTAMINATION)
    found = []
    for model in both:
        order = np.argsort(model.fit(learned.points).score_samples(fresh.points))
        found.append(fresh.anomalous[order[: int(fresh.anomalous.sum())]].mean())
    yield _row("strangest that were planted", *found)


def _synthetic(learned: _Rows, fresh: _Rows) -> Iterator[Row]:
    both = _both(SketchSampler, bandwidth=5, bounds=BOUNDS, random_state=0)
    means = [model.fit(learned.points).sample(5_000)[:, 0].mean() for model in both]
    yield _row("mean of column 1 of synthetic rows", *means, learned.points[:, 0].mean())


def _written(value: float | None) -> str:
    return "" if value is None else f"{value:,.3g}"
