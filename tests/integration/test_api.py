"""docs/api.txt lists the public API as it is."""

import difflib
import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def script():
    spec = importlib.util.spec_from_file_location("api", DOCS / "api.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_the_list_of_the_public_api_is_up_to_date():
    stored, current = (DOCS / "api.txt").read_text(), script().page()
    changes = difflib.unified_diff(stored.split("\n"), current.split("\n"), "stored", "now", n=0)
    changes = [line for line in changes if line[:1] in "+-"][2:]
    shown = "\n".join(changes[:20])
    assert not changes, (
        f"docs/api.txt differs from the package in {len(changes)} lines. If the change is meant, "
        f"run `python docs/api.py` and commit the file.\n{shown}"
    )


def test_the_list_knows_every_room_and_what_is_below():
    listed = (DOCS / "api.txt").read_text().split("\n")  # which is up to date, see above
    for line in (
        "class sfumato.sketch.CountMin(width: int, depth: int = 4, *, seed: int = 0",
        "sfumato.sketch.CountMin.depth: int",
        "sfumato.sketch.CountMin.merge(other: Self) -> Self",  # inherited
        "class sfumato.attack.LowerBound(epsilon: float",  # a dataclass
        "sfumato.attack.bounds.",  # a module that a page names
        "class sfumato.privacy.mechanisms.Laplace(",
        "sfumato.privacy.noise.discrete_laplace = sfumato.privacy.discrete_laplace",
        "sfumato.recommend.metrics.",
    ):
        assert any(each.startswith(line) for each in listed), line
