"""Inputs and outputs of `sfumato density`: points, models and their descriptions."""

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "At",
    "Columns",
    "Model",
    "Points",
    "announce",
    "check_distinct",
    "chosen",
    "column_names",
    "described",
    "load",
    "numbers",
    "parts",
    "query_points",
    "refuse_unlisted",
    "unlisted",
]

# What density build is given for a model of each class.
OPTIONS = {
    "SketchDensity": "--kind density",
    "SketchSampler": "--kind sampler",
    "PrivateTableSampler": "--kind table",
    "SketchClassifier": "--label COLUMN",
    "SketchRegressor": "--target COLUMN",
    "SketchAnomalyDetector": "--kind anomalies",
}
Model = Annotated[
    Path, typer.Argument(help="A file that density build wrote, or a release of a kernel sketch.")
]
Points = Annotated[
    Path | None,
    typer.Argument(help="A table of points: text, Parquet, Arrow, JSON lines, NumPy; - is stdin."),
]
At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="X,Y,...", help="A point in place of a table; repeatable."),
]
Columns = Annotated[
    str | None,
    typer.Option(help="The table's names of the model's columns, in its order, if others: a,b,..."),
]


def numbers(option: str, written: str) -> list[float]:
    """Numbers between commas."""
    try:
        return [float(part) for part in written.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be numbers between commas, not {written!r}.") from None


def chosen(
    file: Path, columns: str | None, beside: str | None, given: Any, *, private: bool = False
) -> list[str] | None:
    """The names of the points' columns: those given, or all but the one beside; None: a matrix.

    given: how text is written. Row numbers of pandas are no column of points.
    """
    from sfumato.data.readers.formats import form_of, position_of
    from sfumato.data.tables import is_matrix, names_of, point_names

    if is_matrix(file):
        return _of_matrix(file, columns, beside)
    form = form_of(file)
    if private and not columns and form is not None and not form.delimiter:
        raise ValueError(
            f"{file}: --columns must be given with --epsilon: the names in a JSON file are rows' "
            "own, and not public."
        )
    if private and not columns and given.header is False:
        raise ValueError(
            f"{file}: --columns must be given with --epsilon and --no-header, as 0,1,...: how many "
            "columns there are would be read from a row."
        )
    if columns:
        names = columns.split(",")
    else:
        other = beside
        if beside is not None:
            known = names_of(file, given, private=private)
            other = known[position_of(file, known, beside)]
        names = point_names(file, other, given, private=private)
    return check_distinct(names, beside)


def _of_matrix(file: Path, columns: str | None, beside: str | None) -> list[str] | None:
    """Numbers of the columns of a matrix; None for all of them."""
    from sfumato.data.readers.formats import position_of
    from sfumato.data.tables import matrix_of

    if not columns and beside is None:
        return None
    known = [*map(str, range(matrix_of(file).shape[1]))]
    names = columns.split(",") if columns else [each for each in known if each != beside]
    for name in (*names, *([] if beside is None else [beside])):
        position_of(file, known, name)
    return check_distinct(names, beside)


def check_distinct(names: list[str], beside: str | None) -> list[str]:
    """The names of the points' columns; raises for one named twice or that is to be predicted."""
    if len(set(names)) < len(names):
        raise ValueError("--columns names a column twice.")
    if beside in names:
        raise ValueError(f"--columns names {beside!r}, which is the column to predict.")
    return names


def announce(
    file: Path, names: list[str] | None, options: dict[str, Any], **others: str | None
) -> None:
    """Say which columns the points are, and others by their roles; None: all of a matrix."""
    from sfumato.cli import input_files

    shown = "all columns" if names is None else input_files.shown_columns(names)
    given = {role: name for role, name in others.items() if name is not None}
    roles = [f"{role} from {input_files.shown_column(name)}" for role, name in given.items()]
    input_files.note(file, ", ".join([shown, *roles]), options)


def query_points(model: Any, options: dict[str, Any], beside: str | None) -> tuple[Any, Any]:
    """The query points, from a table or --at, and the label column if there is one.

    options: those of the command.
    """
    import numpy as np

    file, at, columns = (options[name] for name in ("points", "at", "columns"))

    if (file is None) == (not at):
        raise ValueError("give the points as a table or with --at X,Y,..., one of them.")
    if file is None:
        if columns or beside is not None:
            raise ValueError("--at goes without --columns, --label and --target.")
        found = [_point(model, written) for written in at or []]
        if any(len(point) != model.n_features_in_ for point in found):
            raise ValueError(f"--at must be {model.n_features_in_} numbers between commas.")
        kind = object if getattr(model, "categories_", {}) else np.float64
        return _named(model, np.array(found, kind)), None
    return _read(model, file, beside, options)


def _point(model: Any, written: str) -> list[Any]:
    """The coordinates of --at: numbers, and categories where the model lists them."""
    lists = getattr(model, "categories_", {})
    if not lists:
        return numbers("--at", written)
    return [
        part if at in lists else numbers("--at", part)[0] for at, part in enumerate(parts(written))
    ]


def parts(written: str) -> list[str]:
    """Texts between commas; one with a comma of its own is written in quotes."""
    import csv

    return next(csv.reader([written]), [])


def _read(model: Any, file: Path, beside: str | None, options: dict[str, Any]) -> tuple[Any, Any]:
    from sfumato.cli import input_files
    from sfumato.data.tables import PointFile

    named, file = file, input_files.located(file)
    given = input_files.text_format(options)
    names = chosen(file, options["columns"] or _known(model, file, given), beside, given)
    text = hasattr(model, "classes_")
    lists = getattr(model, "categories_", {}) if names is not None else {}
    listed = tuple(name for at, name in enumerate(names or []) if at in lists)
    source = PointFile(file, names, beside, text, given=given, categorical=listed)
    points, other = source.all()
    announce(named, names, options, **{"classes" if text else "targets": beside})
    width = points.shape[1]
    if width != model.n_features_in_:
        raise ValueError(
            f"{file}: has {width} columns of points, and the model {model.n_features_in_}; name "
            "them with --columns a,b,..."
        )
    refuse_unlisted(file, points, lists)
    return _named(model, points), other


def unlisted(points: Any, lists: dict[int, Any]) -> dict[int, Any]:
    """By position of a column with a list of categories, a mask of the cells outside the list."""
    import numpy as np

    from sfumato.density.classify.categories import CategoryList

    return {at: np.isnan(CategoryList(one).codes(points.column(at))) for at, one in lists.items()}


def refuse_unlisted(file: Path, points: Any, lists: dict[int, Any]) -> None:
    """Raise if a column holds a category that is not in its public list."""
    for at, mask in unlisted(points, lists).items():
        if mask.any():
            raise ValueError(
                f"{file}: row {1 + int(mask.argmax())} of those used: column "
                f"{points.column_names[at]!r} holds a category that its list does not name; drop "
                "such rows, or name all categories when the model is built."
            )


def _known(model: Any, file: Path, given: Any) -> str | None:
    """The model's names of columns, where the file has names at all."""
    from sfumato.data.tables import is_matrix, matrix_of, names_of

    known = list(getattr(model, "feature_names_in_", ()))
    if not known:
        return None
    if is_matrix(file):
        width = matrix_of(file).shape[1]
        numbers = {*map(str, range(width))}
        return ",".join(known) if width != len(known) and {*known} <= numbers else None
    names = names_of(file, given)
    numbered = names == [*map(str, range(len(names)))]
    return None if numbered and not set(known) & set(names) else ",".join(known)


def _named(model: Any, points: Any) -> Any:
    """Points under the names that the model knows, if it knows any."""
    import numpy as np
    import pyarrow as pa

    names = list(getattr(model, "feature_names_in_", ()))
    if not names:
        if isinstance(points, np.ndarray):
            return points
        return np.column_stack([column.to_numpy() for column in points.columns])
    if isinstance(points, np.ndarray):
        return pa.table(dict(zip(names, points.T, strict=True)))
    return points.rename_columns(names)


def column_names(model: Any) -> list[str]:
    """Names of the columns; x0, x1, ... if the model has none, empty for a graph."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    return names or [f"x{j}" for j in range(getattr(model, "n_features_in_", 0))]


def load(file: Path, *kinds: str) -> Any:
    """The model in a file, which must be of one of these classes where some are named."""
    from sfumato.cli.printing import check_kind

    if file.is_dir():
        raise IsADirectoryError(f"{file}: is a folder, not a model.")
    check_kind(file, "sketch")
    from sfumato.density import SketchDensity
    from sfumato.density import load as read
    from sfumato.density.serialization import holds_model
    from sfumato.sketch import SketchFormatError

    try:
        held = read(file) if holds_model(file) else _release(file)
    except SketchFormatError as error:
        raise SketchFormatError(f"{file}: {error}") from None
    kind = type(held).__name__
    if "SketchDensity" in kinds and hasattr(held, "statement") and hasattr(held, "mean"):
        return SketchDensity.from_release(held)
    if kinds and kind not in kinds:
        wanted = " or ".join(kinds)
        option = next((f"; density build {OPTIONS[each]} makes one" for each in kinds), "")
        raise ValueError(f"{file}: holds a {kind}, and this command asks a {wanted}{option}.")
    return held


def _release(file: Path) -> Any:
    """A sketch or release, of which some can answer as a density does."""
    from sfumato.sketch import load as read

    return read(file)


def described(model: Any, file: Path, json: bool) -> dict[str, Any]:
    """What a model is, without its cells."""
    from sfumato.density.serialization import PAYING

    parameters = {
        name: value for name, value in model.get_params(deep=False).items() if value is not None
    }
    names = column_names(model)
    return {
        "file": str(file),
        "kind": type(model).__name__,
        "columns": names if json else ", ".join(names),
        "parameters": {
            name: _plain(value) for name, value in parameters.items() if name not in PAYING
        },
        **_learned(model, json),
        "private": hasattr(model, "statement_"),
        "file_bytes": file.stat().st_size,
        **({"statement": model.statement_.to_dict()} if hasattr(model, "statement_") else {}),
    }


def _plain(value: Any) -> Any:
    """A parameter with its ranges as their first and last integer, as JSON has none."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [value.start, value.stop - 1] if isinstance(value, range) else value


def _learned(model: Any, json: bool) -> dict[str, Any]:
    """What a kind of model found besides its cells, and for the curator how many were clipped."""
    if hasattr(model, "tree_"):
        pairs = [list(pair) for pair in model.tree_]
        return {"size": model.size_, "pairs": pairs if json else ", ".join(map("-".join, pairs))}
    found: dict[str, Any] = {"backend": getattr(model, "backend_", "race")}
    if hasattr(model, "classes_"):
        labels = model.classes_.tolist()
        found |= {"method": model.method_, "classes": labels}
        if not json:
            found["classes"] = ", ".join(map(str, labels))
    if hasattr(model, "degree_"):
        found["degree"] = model.degree_
    if hasattr(model, "coef_"):
        named = dict(zip(column_names(model), model.coef_.tolist(), strict=True))
        shown = named if json else {name: f"{value:.6g}" for name, value in named.items()}
        found |= {"intercept": model.intercept_, "coefficients": shown}
    if hasattr(model, "offset_"):
        found["threshold"] = model.offset_
    return {**found, **({"clipped": model.clipped_} if hasattr(model, "clipped_") else {})}
