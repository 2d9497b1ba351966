"""`sfumato split`: a file of ratings as files to learn from, to test on and to choose by."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import input_files
from sfumato.cli.options import Force, Json, Quiet, check_output, takes

__all__ = ["split"]

COMMAND = "split"
WAYS = ("row", "user", "time", "last")
TABLES = (".csv", ".parquet")
NAMES = {"users": "user", "items": "item", "ratings": "rating", "times": "time"}


@takes(input_files.COLUMNS, before="force")
def split(
    context: typer.Context,
    ratings: Annotated[
        Path,
        typer.Argument(help="A file of user, item and, if there are any, rating and time."),
    ],
    output: Annotated[
        tuple[Path, Path],
        typer.Option(
            "--output",
            "-o",
            metavar="TRAIN TEST",
            help="Where to write the rows to learn from and to test on: .csv or .parquet.",
        ),
    ],
    test: Annotated[
        float | None,
        typer.Option(
            help="Fraction of the rows that is tested on; with --by last a number of rows of each "
            "user. Default: 0.1, or 1."
        ),
    ] = None,
    valid: Annotated[
        float | None,
        typer.Option(help="Fraction or number of validation rows, as --test; default: none."),
    ] = None,
    valid_output: Annotated[
        Path | None, typer.Option(help="Where to write the validation rows, with --valid.")
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            help="row: at random; user: at random of each user; time: the latest rows; last: the "
            "latest of each user."
        ),
    ] = "row",
    seed: Annotated[int, typer.Option(help="Seed of random rows.")] = 0,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Split ratings into files to train, test and validate.

    Names of columns stay as they are. Of several ratings of one item by one user the latest is
    kept. The files appear when all of them are complete.
    """
    from sfumato.cli import printing
    from sfumato.core.file_format import write_together

    if by not in WAYS:
        raise ValueError(f"{COMMAND}: --by must be one of {', '.join(WAYS)}, not {by!r:.100}.")
    if (valid is None) != (valid_output is None):
        raise ValueError(f"{COMMAND}: --valid and --valid-output go together; give both.")
    outputs = dict(zip(("train", "test", "valid"), (*output, valid_output), strict=True))
    paths = {name: path for name, path in outputs.items() if path is not None}
    _check_outputs(paths, force, ratings)
    given = input_files.columns(context.params)
    file = input_files.located(ratings)
    rows = input_files.read(file, given, context.params)
    parts = _parts(rows, by, _sizes(by, test, valid), seed)
    names = _names(file, given)
    write_together({path: _content(path, parts[name], names) for name, path in paths.items()})
    files = {name: {"file": str(path), "rows": len(parts[name])} for name, path in paths.items()}
    shown = {name: f"{each['file']}, {each['rows']:,} rows" for name, each in files.items()}
    printing.document({**(files if json else shown), **input_files.reported(rows)}, json)


def _check_outputs(paths: dict[str, Path], force: bool, ratings: Path) -> None:
    for name, path in paths.items():
        if path.suffix.lower() not in TABLES:
            option = "--valid-output" if name == "valid" else "-o"
            raise ValueError(f"{COMMAND}: {option} {path}: must end in {', '.join(TABLES)}.")
        check_output(path, force, ratings)
    if len({path.resolve() for path in paths.values()}) < len(paths):
        raise ValueError(f"{COMMAND}: two of the outputs are one file; name another.")


def _sizes(by: str, test: float | None, valid: float | None) -> dict[str, float]:
    """How much of the rows, or of each user's, each part has but the first."""
    usual: float = 1 if by == "last" else 0.1
    sizes = {"test": usual if test is None else test, **({} if valid is None else {"valid": valid})}
    for name, size in sizes.items():
        if by == "last" and not (size >= 1 and size == int(size)):
            raise ValueError(f"{COMMAND}: --{name} must be a number of rows with --by last.")
        if by != "last" and not 0 < size < 1:
            raise ValueError(f"{COMMAND}: --{name} must be a fraction between 0 and 1, not {size}.")
    if by != "last" and sum(sizes.values()) >= 1:
        raise ValueError(f"{COMMAND}: --test and --valid must leave rows to learn from.")
    return sizes


def _parts(rows: Any, by: str, sizes: dict[str, float], seed: int) -> dict[str, Any]:
    """The parts by name, the validation rows taken from what the test leaves."""
    from sfumato.data import leave_last_out, split_by_time, split_by_user

    if by == "row":
        train = 1 - sum(sizes.values())
        found = rows.split(train, *sizes.values(), random_state=seed)
        return dict(zip(("train", *sizes), found, strict=True))
    parts: dict[str, Any] = {}
    rest = 1.0
    for name, size in sizes.items():
        if by == "last":
            rows, parts[name] = leave_last_out(rows, int(size))
        elif by == "time":
            rows, parts[name] = split_by_time(rows, size / rest)
        else:
            rows, parts[name] = split_by_user(rows, size / rest, random_state=seed)
        rest -= size
    return {"train": rows, **parts}


def _names(file: Path, given: dict[str, Any]) -> dict[str, str]:
    """The names of the columns in the file, where they have names."""
    from sfumato.data.readers.batches import matches
    from sfumato.data.readers.ratings import chosen_columns

    found = chosen_columns(matches(file)[0], given)
    return {role: NAMES[role] if name.isdigit() else name for role, name in found.items()}


def _content(path: Path, part: Any, names: dict[str, str]) -> bytes:
    import pyarrow as pa

    from sfumato.data.files import table_bytes

    # Ids are written as they are, so that the parts name the same users and items.
    columns = {name: pa.array(getattr(part, role)) for role, name in names.items()}
    return table_bytes(path, pa.table(columns), formulas=True)
