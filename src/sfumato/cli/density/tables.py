"""`sfumato density build --kind samples`: which sampler learns, and a table's public columns."""

from typing import Any

from sfumato.cli.bounds import column_bounds
from sfumato.cli.density import files

__all__ = ["chosen_sampler", "learn_table", "made_table"]

POINTS = ("bandwidth", "kernel", "backend", "rows", "expected_size", "method")
MOST = 2.0**53  # integers up to here are exact in bounds


def chosen_sampler(given: dict[str, Any]) -> str:
    """ "table" with epsilon, which is the better sampler, unless an option is of points alone."""
    of_points = any(given[name] is not None for name in POINTS)
    return "sampler" if given["epsilon"] is None or of_points else "table"


def made_table(given: dict[str, Any], names: list[str] | None, paid: dict[str, Any]) -> Any:
    """A `PrivateTableSampler` of the columns as the options describe them."""
    from sfumato.density import PrivateTableSampler

    if names is None:
        raise ValueError("density build: --kind table needs columns with names; a matrix has none.")
    if given["epsilon"] is None:
        raise ValueError("density build: --kind table needs --epsilon; it keeps nothing else.")
    for name in (*POINTS, "contamination"):
        if given[name] is not None:
            option = name.replace("_", "-")
            raise ValueError(f"density build: a model of kind table takes no --{option}.")
    public = _public(given, names)
    if given["label"] is not None:
        public[given["label"]] = given["classes"].split(",")
    model = PrivateTableSampler(
        public,
        target=given["label"],
        epsilon=given["epsilon"],
        delta=given["delta"],
        random_state=given["seed"],
        **paid,
    )
    model._check()
    return model


def _public(given: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """What is public of each column but the label."""
    lists = {}
    for each in given["categorical"] or []:
        name, is_list, texts = each.partition("=")
        if not is_list:
            raise ValueError(
                "--categorical must be NAME=A,B,... with --kind table: a list for each column."
            )
        lists[name.strip()] = files.parts(texts)
    integers = given["integers"].split(",") if given["integers"] else []
    for option, named in (("--categorical", lists), ("--integers", integers)):
        for name in named:
            if name not in names:
                raise ValueError(f"{option} names {name!r}, which is no column of the points.")
    others = [name for name in names if name not in lists]
    if others and not given["bounds"]:
        raise ValueError("--epsilon needs --bounds: public, never taken from private data.")
    pairs = column_bounds(given["bounds"], others) if given["bounds"] else []
    limits = dict(zip(others, pairs * len(others) if len(pairs) == 1 else pairs, strict=True))
    return {
        name: lists[name] if name in lists else _numbers(name, limits[name], name in integers)
        for name in names
    }


def _numbers(name: str, limits: tuple[float, float], integer: bool) -> Any:
    """The bounds of a column, or its range of integers."""
    if not integer:
        return limits
    low, high = limits
    if not (low == int(low) and high == int(high) and max(abs(low), abs(high)) < MOST):
        raise ValueError(f"--bounds of {name!r} must be integers, as --integers names it.")
    return range(int(low), int(high) + 1)


def learn_table(model: Any, points: Any, label: str | None, beside: Any) -> None:
    """Fit the sampler to the points and, if there is one, the column of classes."""
    import pyarrow as pa

    from sfumato.core.arrow_arrays import text_array

    table = points if isinstance(points, pa.Table) else None
    if table is None:
        names = [each for each in model.columns if each != label]
        table = pa.table(dict(zip(names, points.T, strict=True)))
    if label is not None:
        # An empty cell and one that no list names are alike: such rows are left out.
        table = table.append_column(label, text_array([_text(each) for each in beside]))
    model.fit(table)


def _text(cell: Any) -> str:
    """A cell as text, whatever it holds."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    return "" if cell is None else str(cell).encode("utf-8", "replace").decode()
