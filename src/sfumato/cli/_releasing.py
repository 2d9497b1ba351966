"""A release on the command line: its options, and the ledger that pays for it, if any."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["is_charged", "is_stored", "released", "way_back"]


def released(
    sketch: Any,
    cost: tuple[float, float],
    ledger: Path | None,
    settings: list[str],
    **options: Any,
) -> Any:
    """The release of a sketch at (epsilon, delta); options that are None were not given."""
    if not hasattr(sketch, "release"):
        kind = type(sketch).__name__
        raise ValueError(f"{kind}: is a release already; name the file of the sketch it came from.")
    given = {name: value for name, value in options.items() if value is not None}
    given |= _settings(sketch, settings)
    if ledger is None:
        return sketch.release(*cost, **given)
    if not ledger.exists() or not ledger.stat().st_size:
        raise FileNotFoundError(f"{ledger}: there is no ledger; make one with budget create.")
    return sketch.release(*cost, ledger=ledger, **given)


def is_stored(ledger: Path | None, release_id: str | None) -> bool:
    """Whether a release of this id was made before, whose bytes a retry returns."""
    return any(charge.released for charge in _charges(ledger, release_id))


def is_charged(ledger: Path | None, release_id: str | None) -> bool:
    """Whether a release of this id was paid, made or not."""
    return bool(_charges(ledger, release_id))


@contextmanager
def way_back(ledger: Path | None, release_id: str | None) -> Iterator[None]:
    """Where the block fails or is stopped after its charge, tell how to have what was paid for."""
    before = is_stored(ledger, release_id)
    try:
        yield
    except BaseException as error:
        if before or not is_charged(ledger, release_id):
            raise
        paid = f"--release-id {release_id} was charged; with it the next run is free."
        if isinstance(error, KeyboardInterrupt):
            print(f"sfumato: stopped; {paid}", file=sys.stderr)
            raise SystemExit(130) from None
        error.add_note(paid)
        raise


def _charges(ledger: Path | None, release_id: str | None) -> list[Any]:
    if ledger is None or release_id is None or not ledger.exists() or not ledger.stat().st_size:
        return []
    from sfumato.privacy import Ledger

    known = Ledger(ledger)
    charges = (charge for each in known.datasets() for charge in known.history(each.name))
    return [charge for charge in charges if charge.release_id == release_id]


def _settings(sketch: Any, settings: list[str]) -> dict[str, Any]:
    """NAME=VALUE for what this kind of sketch also wants to know."""
    takes = inspect.signature(sketch.release).parameters
    known = [
        name
        for name, each in takes.items()
        if each.kind is each.KEYWORD_ONLY and name not in ("epsilon", "delta")
    ]
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, written = setting.partition("=")
        if name not in known:
            there = ", ".join(known) or "nothing more"
            kind = type(sketch).__name__
            raise ValueError(f"{kind}: its release has no setting {name!r}; it has {there}.")
        if name == "noise":
            values[name] = written
            continue
        try:
            values[name] = int(written)
        except ValueError:
            raise ValueError(f"--set {name} must be a whole number, not {written!r}.") from None
    needed = [name for name in known if takes[name].default is inspect.Parameter.empty]
    for name in needed:
        if name not in values:
            kind = type(sketch).__name__
            raise ValueError(f"{kind}: its release needs --set {name}=VALUE, a public number.")
    return values
