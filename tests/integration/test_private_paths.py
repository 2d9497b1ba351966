"""No row makes a private class speak: same errors, warnings, shapes, types and texts, small moves.

For every private class, found by discovery, and every odd row: a neighbour's run shows what the run
on good rows shows, its noisy sums are moved by no more than the statement's cost, and what is made
of equal noisy sums is equal. Interrupted and self-merged sketches: tests/checks.py.
"""

import importlib
import inspect
import pkgutil
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato.privacy.accounting.losses import Flips, Loss
from sfumato.sketch import Release
from support.private_paths import PATHS, Path
from support.replayed_noise import Outcome, run

ROOMS = [each.name for each in pkgutil.iter_modules(sfumato.__path__) if each.ispkg]
NO_DATA = "takes no rows: a result, a budget or a description"
LOCAL = "each row is a client of its own: tests/telemetry holds them to every value"
ELSEWHERE = {
    **dict.fromkeys(["Audit", "Attack", "EpsilonChoice", "LowerBound", "ProfileAudit"], NO_DATA),
    **dict.fromkeys(["Cost", "DataSet", "Ledger", "Pure", "PrivacyStatement", "Plan"], NO_DATA),
    **dict.fromkeys(["ModelResult", "Privacy"], NO_DATA),
    **dict.fromkeys(["Mechanism", "Sketch"], "abstract"),
    **dict.fromkeys(["ReportEncoder", "PrefixDiscovery"], LOCAL),
    **dict.fromkeys(["HadamardResponse", "LocalHashing", "SubsetSelection"], LOCAL),
    "Store": "stores bytes that a caller makes: no row reaches a release by itself",
    "NoiseSharing": "adds its noise to a sketch that is a path: tests/density/test_combined.py",
}


# Modules that are public themselves, beside the rooms and the folders in them.
MODULES = (
    "sfumato.attack.bounds",
    "sfumato.recommend.tuning",
    "sfumato.recommend.private.baselines",
)


def public_classes() -> dict[str, type]:
    """Every class that a room or a folder in it shows."""
    found = {}
    for room in ROOMS:
        if room in ("cli", "kernels"):
            continue
        top = importlib.import_module(f"sfumato.{room}")
        names = [top.__name__]
        below = pkgutil.walk_packages(top.__path__, f"{top.__name__}.")
        names += [each.name for each in below if each.ispkg or each.name in MODULES]
        for name in names:
            if any(part.startswith("_") for part in name.split(".")):
                continue
            module = importlib.import_module(name)
            for shown in getattr(module, "__all__", []):
                if inspect.isclass(getattr(module, shown, None)):
                    found[shown] = getattr(module, shown)
    return found


def is_private(kind: type) -> bool:
    """Whether it makes releases, or takes an epsilon."""
    if issubclass(kind, Release):
        return False
    makes = any(callable(getattr(kind, name, None)) for name in ("release", "release_rows"))
    makes |= callable(getattr(kind, "encode_many", None))
    result = inspect.signature(kind.__init__).parameters
    return makes or any(name.startswith("epsilon") for name in result)


def releases_nothing(kind: type) -> bool:
    """Whether its `release` refuses, whatever it holds."""
    return (
        getattr(kind.release, "__qualname__", "") == "Sketch.release"
        if hasattr(kind, "release")
        else False
    )


def test_every_private_class_is_a_path_here_or_says_where_it_is_held():
    private = {name for name, kind in public_classes().items() if is_private(kind)}
    refused = {
        name
        for name, kind in public_classes().items()
        if name in private and releases_nothing(kind) and not hasattr(kind, "release_rows")
    }
    assert len(refused) >= 6
    assert private - refused == set(PATHS) | set(ELSEWHERE) - refused


CASES = [
    pytest.param(path, id=f"{name}-{at}")
    for name, paths in PATHS.items()
    for at, path in enumerate(paths)
]


def statements(result: Any) -> list[Any]:
    """The statements of a result, of its parts where it is several."""
    if isinstance(result, tuple):
        return [each for part in result for each in statements(part)]
    for name in ("statement", "statement_"):
        if hasattr(result, name):
            return [getattr(result, name)]
    return []


def shape_of(value: Any, deep: int = 6) -> Any:
    """All that can be seen of a value but the numbers in it."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape
    if not deep:  # some objects know those that made them
        return type(value).__name__
    if isinstance(value, dict):
        return {name: shape_of(part, deep - 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [shape_of(part, deep - 1) for part in value]
    if hasattr(value, "__dict__") and type(value).__module__.startswith("sfumato"):
        return type(value).__name__, shape_of(vars(value), deep - 1)
    return type(value).__name__


def text_of(result: Any) -> list[str]:
    shown = [] if isinstance(result, tuple) or not hasattr(result, "to_bytes") else [result]
    answer = [each.statement for each in shown if hasattr(each, "statement")]
    texts = [repr(each) for each in shown if not hasattr(each, "value")]  # an answer shows that
    return [str(each) for each in [*statements(result), *answer]] + texts


def differing(one: Any, two: Any) -> int:
    """In how many bits or symbols two releases of answers at random differ, by the same coins."""
    count = 0
    for name, array in one._arrays().items():
        other = two._arrays()[name]
        wide = name.endswith("words") or array.dtype == np.uint64
        changed = np.bitwise_count(array ^ other).sum() if wide else (array != other).sum()
        count += int(changed)
    return count


def hold(path: Path, good: Outcome, odd: Outcome, units: int = 1) -> None:
    """A neighbour shows what the good rows showed, and moved the sums by so many units at most."""
    assert (odd.error, odd.heard) == (good.error, good.heard)
    assert shape_of(odd.result) == shape_of(good.result)
    assert text_of(odd.result) == text_of(good.result)
    result = statements(good.result)
    if good.noise.laws and path.measured:
        loss = Loss.from_dict(result[0].loss)
        epsilon, rho = good.noise.cost(odd.noise)
        allowed = (1 + 1e-9) * units
        assert epsilon <= loss.epsilon * allowed or rho <= loss.rho * (1 + 1e-9) * units**2
    if path.same and hasattr(good.result, "to_bytes"):
        if good.noise.laws:
            assert odd.result.to_bytes() == good.result.to_bytes()
        else:
            loss = Loss.from_dict(result[0].loss)
            most = loss.cells if isinstance(loss, Flips) else 1
            assert differing(good.result, odd.result) <= most * units


# Each odd row comes in one container, the next one in another; every one in all takes minutes.
SHARE = ["in turn", pytest.param("in every container", marks=pytest.mark.soak)]


@pytest.mark.parametrize("containers", SHARE)
@pytest.mark.parametrize("path", CASES)
def test_no_row_makes_a_private_class_speak_or_moves_more_than_is_stated(path, containers):
    good = run(lambda: path.of(path.rows))
    assert good.error == ""
    assert statements(good.result)
    for at, (name, row) in enumerate(path.odd.items()):
        turn = path.boxes[at % len(path.boxes)]
        for box in [turn] if containers == "in turn" else path.boxes:
            added, instead = [*path.rows, row], [row, *path.rows[1:]]
            for rows, units in ((instead, path.replaced), *([] if path.fixed else [(added, 1)])):
                odd = run(lambda rows=rows, box=box: path.of(box(rows)), good.noise)
                try:
                    hold(path, good, odd, units)
                except AssertionError as failed:
                    result = f"{name}, {box.__name__}, {units} units: {failed}"
                    raise AssertionError(result) from None


@pytest.mark.parametrize("path", [case for case in CASES if not case.values[0].fixed])
def test_no_rows_and_one_row_look_alike(path):
    none = run(lambda: path.of([]))
    assert none.error == ""
    for row in [path.rows[0], *list(path.odd.values())[:6]]:
        hold(path, none, run(lambda row=row: path.of([row]), none.noise))
