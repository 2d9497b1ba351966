"""`sfumato mine svd` and `sfumato mine cur`: matrices as a few concepts, or columns and rows."""

import time
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.input_files import COLUMNS
from sfumato.cli.mine import files
from sfumato.cli.options import Force, Json, Quiet, check_output, takes

__all__ = ["cur", "svd"]

SHOWN = 3  # columns that are named for a concept
MATRICES = (".mtx", ".npz", ".npy")
DRAWS = ("sampling", "selection", "u", "random_state")

Source = Annotated[
    Path,
    typer.Argument(
        help="Ratings (user, item, rating), a matrix (.mtx, .npz, .npy), or a table of numbers."
    ),
]
Table = Annotated[
    bool, typer.Option("--table", help="The file is a table of numbers, one matrix row per row.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help=f"Where to write: the factors of the columns with {', '.join(files.TABLES)}, the "
        "whole decomposition with any other ending.",
    ),
]
RandomState = Annotated[int, typer.Option(help="Seed of the random choices.")]


@takes(COLUMNS, before="rank")
def svd(
    context: typer.Context,
    file: Source,
    table: Table = False,
    rank: Annotated[int | None, typer.Option(help="Number of concepts.", min=1)] = None,
    energy: Annotated[
        float | None,
        typer.Option(
            help="Choose the rank that holds this fraction of the sum of squares, such as 0.9."
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="randomized, power or gram.")] = "randomized",
    random_state: RandomState = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the spectrum and its energy: .png, .svg or .pdf.")
    ] = None,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compute leading singular values and vectors.

    In a matrix of ratings, rows are users and columns items, both in ascending order of their ids.
    """
    from sfumato.cli import printing
    from sfumato.mine.decompose import plot_spectrum
    from sfumato.mine.decompose import svd as decomposed

    _check(output, figure, force, file)
    matrix, names = _read(file, context.params)
    begin = time.perf_counter()
    with printing.progress("decomposing", "vectors", hidden=quiet or json) as advance:
        parts = decomposed(
            matrix, rank, energy=energy, method=method, random_state=random_state, progress=advance
        )
    seconds = round(time.perf_counter() - begin, 3)
    if figure is not None:
        _draw(figure, plot_spectrum(parts, energy=energy))
    if output is not None:
        _write(output, parts, lambda: _column_factors(parts, names))
    about = {
        **({} if output is None else {"file": str(output)}),
        "rows": parts.rows,
        "columns": parts.columns,
        "rank": parts.rank,
        "energy": parts.energy,
        "relative_error": parts.error() / parts.norm if parts.norm else 0.0,
        "entries": parts.entries,
        "seconds": seconds,
    }
    if json:
        about["concepts"] = _concepts(parts, names, parts.rank)
    printing.document(about, json)
    if output is None and not json:
        printing.rows(_concepts(parts, names, 20), False)


@takes(COLUMNS, before="columns")
def cur(
    context: typer.Context,
    file: Source,
    table: Table = False,
    columns: Annotated[int, typer.Option(help="Columns to draw.", min=1)] = 100,
    rows: Annotated[int, typer.Option(help="Rows to draw.", min=1)] = 100,
    sampling: Annotated[str, typer.Option(help="length-squared or leverage.")] = "length-squared",
    selection: Annotated[
        str, typer.Option(help="replacement, distinct or largest.")
    ] = "replacement",
    keep_duplicates: Annotated[
        bool,
        typer.Option(
            "--keep-duplicates",
            help="Store columns and rows that are drawn several times separately.",
        ),
    ] = False,
    u: Annotated[
        str, typer.Option("--u", help="projection (C+ A R+) or pseudo-inverse (W+).")
    ] = "projection",
    random_state: RandomState = 0,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Decompose a matrix into its own columns and rows.

    Columns and rows stay sparse.
    """
    from sfumato.cli import printing
    from sfumato.mine.decompose import cur as decomposed

    _check(output, None, force, file)
    matrix, names = _read(file, context.params)
    begin = time.perf_counter()
    options = {name: context.params[name] for name in DRAWS}
    parts = decomposed(matrix, columns, rows, join=not keep_duplicates, **options)
    seconds = round(time.perf_counter() - begin, 3)
    if output is not None:
        _write(output, parts, lambda: _drawn(parts, names))
    about = {
        **({} if output is None else {"file": str(output)}),
        "rows": parts.rows,
        "columns": parts.columns,
        "columns_taken": int(parts.column_positions.size),
        "rows_taken": int(parts.row_positions.size),
        "relative_error": parts.error() / parts.norm if parts.norm else 0.0,
        "entries": parts.entries,
        "seconds": seconds,
    }
    if json:
        about["drawn"] = _drawn(parts, names).to_pylist()
    printing.document(about, json)


def _check(output: Path | None, figure: Path | None, force: bool, file: Path) -> None:
    """Refuse before the work what could not be written after it."""
    files.check_outputs(None, figure, force, file)
    if output is not None:
        check_output(output, force, file)


def _read(file: Path, given: dict[str, Any]) -> tuple[Any, Any]:
    """The matrix of a file, and the names of its columns, None for their numbers."""
    from sfumato.cli import input_files

    named, file = file, input_files.located(file)
    endings = [each.lower() for each in file.suffixes[-2:]]
    if any(each in MATRICES for each in endings) and not given["table"] and not _has_names(file):
        input_files.note(named, "all columns of a matrix", given)
        return _matrix(file, endings), None
    if given["table"]:
        return _numbers(named, file, given)
    from sfumato.mine.decompose import ratings_matrix

    ratings = input_files.read(file, input_files.columns(given), given)
    matrix, _, items = ratings_matrix(ratings)
    return matrix, items


def _has_names(file: Path) -> bool:
    """Whether a .npz holds named columns, and no matrix."""
    from sfumato.data.tables import is_matrix

    return file.suffix.lower() == ".npz" and not is_matrix(file)


def _matrix(file: Path, endings: list[str]) -> Any:
    """A matrix in a format of its own; nothing is unpickled."""
    import numpy as np

    try:
        if ".mtx" in endings:
            from scipy.io import mmread

            return mmread(file)
        if ".npy" in endings:
            return np.load(file, allow_pickle=False)
        from scipy.sparse import load_npz

        return load_npz(file)
    except (ValueError, KeyError, OSError, EOFError) as error:
        wanted = "Matrix Market, or a sparse .npz of SciPy, or a .npy of numbers, is expected"
        raise ValueError(f"{file}: {wanted} ({type(error).__name__}).") from None


def _numbers(named: Path, file: Path, options: dict[str, Any]) -> tuple[Any, list[str]]:
    """A table of numbers, and the names of its columns."""
    import numpy as np

    from sfumato.cli import input_files
    from sfumato.data.tables import PointFile, point_names

    given = input_files.text_format(options)
    names = point_names(file, None, given)
    which = "leave other columns out of the file."
    points, _ = PointFile(file, names, None, False, which=which, given=given).all()
    input_files.announce(named, names, options)
    return np.column_stack([column.to_numpy() for column in points.columns]), names


def _name(names: Any, at: int) -> Any:
    found = at if names is None else names[at]
    return found.item() if hasattr(found, "item") else found


def _concepts(parts: Any, names: Any, n: int) -> list[dict[str, Any]]:
    """The first concepts: strength, energy so far, and the columns of largest weight."""
    import numpy as np

    out = []
    for at in range(min(n, parts.rank)):
        best = np.argsort(-np.abs(parts.vt[at]), kind="stable")[:SHOWN]
        leading = ", ".join(f"{_name(names, int(j))} {parts.vt[at, j]:+.2f}" for j in best)
        out.append(
            {
                "concept": at + 1,
                "singular_value": float(parts.s[at]),
                "energy": float(parts.energies[at]),
                "columns": leading,
            }
        )
    return out


def _column_factors(parts: Any, names: Any) -> Any:
    """One row per column of the matrix: its name and its weight in each concept."""
    import pyarrow as pa

    listed = [_name(names, at) for at in range(parts.columns)]
    weights = {f"concept_{at + 1}": parts.vt[at] for at in range(parts.rank)}
    return pa.table({"column": listed, **weights})


def _drawn(parts: Any, names: Any) -> Any:
    """One row per column and row that was taken: its position, name and number of draws."""
    import pyarrow as pa

    columns, rows = parts.column_positions, parts.row_positions
    named = [str(_name(names, int(at))) for at in columns]
    return pa.table(
        {
            "kind": ["column"] * columns.size + ["row"] * rows.size,
            "position": [*columns.tolist(), *rows.tolist()],
            "name": [*named, *map(str, rows.tolist())],
            "draws": [*parts.column_counts.tolist(), *parts.row_counts.tolist()],
        }
    )


def _write(path: Path, parts: Any, table: Any) -> None:
    if path.suffix.lower() in files.TABLES:
        files.write(path, table())
    else:
        parts.save(path)


def _draw(path: Path, figure: Any) -> None:
    from sfumato.core.file_format import write_atomic

    out = BytesIO()
    figure.savefig(out, format=path.suffix[1:].lower(), dpi=120)
    write_atomic(path, out.getvalue())
