"""How commands name a mechanism for profiles and its parameters."""

from typing import Annotated, Any

import typer

__all__ = ["KINDS", "Bins", "Bits", "CodeBits", "Delta", "Dimensions", "Hashes", "Kind", "make"]

# Written out, so that --help need not load the mechanisms: what each takes besides epsilon.
KINDS = {
    "blip": ("bits", "hashes"),
    "jlt": ("dimensions", "delta"),
    "signs": ("bits", "delta"),
    "minima": ("bins", "code_bits"),
}
NAMES = ", ".join(KINDS)
OPTIONS = ("bits", "hashes", "dimensions", "bins", "code_bits", "delta")

Kind = Annotated[str, typer.Option(help=f"How profiles are encoded: {NAMES}.")]
Bits = Annotated[int | None, typer.Option(help="Bits of a profile: blip, signs.")]
Hashes = Annotated[int | None, typer.Option(help="Bits that an item sets: blip.")]
Dimensions = Annotated[int | None, typer.Option(help="Numbers of a profile: jlt.")]
Bins = Annotated[int | None, typer.Option(help="Minima of a profile: minima.")]
CodeBits = Annotated[int | None, typer.Option(help="Bits of a minimum: minima.")]
Delta = Annotated[float | None, typer.Option(help="Chance that the promise fails: jlt, signs.")]


def make(command: str, options: dict[str, Any], epsilon: float) -> Any:
    """The mechanism that the options of a command describe; others keep their defaults."""
    from sfumato import profile

    kind = options["mechanism"]
    if kind not in KINDS:
        named = ", ".join(map(repr, KINDS))
        raise ValueError(f"{command}: --mechanism must be one of {named}, not {kind!r}.")
    given = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    for name in given:
        if name not in KINDS[kind]:
            written = f"--{name.replace('_', '-')}"
            raise ValueError(f"{command}: {written} does not go with --mechanism {kind}.")
    for name in ("seed", "typical_size"):
        if options.get(name) is not None:
            given[name] = options[name]
    return getattr(profile, kind.capitalize())(epsilon=epsilon, **given)
