"""A release on the command line: its options, and the ledger that pays for it, if any."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["completing", "is_charged", "is_stored", "released", "way_back"]


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
    charge = _charge(ledger, release_id)
    return charge is not None and charge.released is not None


def is_charged(ledger: Path | None, release_id: str | None) -> bool:
    """Whether a release of this id was paid, made or not."""
    return _charge(ledger, release_id) is not None


def completing(ledger: Path, charge: Any) -> str:
    """Which command makes a release that was paid and never made: it draws once, and is free."""
    kind = charge.what.partition(":")[0].removeprefix("Released")
    command = next((each for each, kinds in COMMANDS.items() if kind in kinds.split()), None)
    paid = f"--ledger {ledger} --dataset {charge.dataset!r} --release-id {charge.release_id!r}"
    how = f"sfumato {command} ... {paid}" if command else f"the command that made it with {paid}"
    return (
        f"release {charge.release_id!r} ({charge.what}) was charged to {charge.dataset!r}, and "
        f"nothing of it was made or stored. Run {how} with the same options as before: that "
        "draws its noise once and costs nothing more."
    )


# The command that makes a release, by its kind.
COMMANDS = {
    "sketch release SKETCH": "AMS BloomFilter CosineSketch CountMin CountSketch HyperLogLog "
    "MinHash",
    "profiles release RATINGS": "Blip Jlt Minima Signs",
    "density build TABLE": "ClassColumns ClassKernels SliceTable KernelFourier KernelGrid "
    "KernelSlices Moments Race",
    "fit RATINGS": "PrivateFactorization",
    "mine itemsets BASKETS": "Itemsets",
    "mine cluster TABLE": "KMeans BFR",
}


@contextmanager
def way_back(ledger: Path | None, release_id: str | None) -> Iterator[None]:
    """If the block fails after its charge, print how to get the paid release."""
    before = is_stored(ledger, release_id)
    try:
        yield
    except BaseException as error:
        try:
            paid_now = not before and is_charged(ledger, release_id)
        except (OSError, ValueError):  # such as a full disk; the error says so
            paid_now = False
        if not paid_now:
            raise
        paid = f"--release-id {release_id} was charged; with it the next run is free."
        if isinstance(error, KeyboardInterrupt):
            print(f"sfumato: stopped; {paid}", file=sys.stderr)
            raise SystemExit(130) from None
        error.add_note(paid)
        raise


def _charge(ledger: Path | None, release_id: str | None) -> Any:
    if ledger is None or release_id is None or not ledger.exists() or not ledger.stat().st_size:
        return None
    from sfumato.privacy import Ledger

    with Ledger(ledger) as known:
        return known.find(release_id)


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
            raise ValueError(f"--set {name} must be an integer, not {written!r}.") from None
    needed = [name for name in known if takes[name].default is inspect.Parameter.empty]
    for name in needed:
        if name not in values:
            kind = type(sketch).__name__
            raise ValueError(f"{kind}: its release needs --set {name}=VALUE, a public number.")
    return values
