"""Old names and old import paths still work, are the same objects, and warn with the new name."""

import importlib
import subprocess
import sys
import warnings

import numpy as np
import pytest

from sfumato import _moved, recommend
from sfumato.data import Interactions
from sfumato.recommend import DenseFactorization, PrivateNeighbours, UserNeighbours

ROOMS = {
    "attack": {"Truth": "GroundTruth"},
    "density": {"Combined": "CombinedRelease", "Sharing": "NoiseSharing"},
    "retrieve": {"Encoder": "CodeEncoder"},
    "sketch.lsh": {"Both": "ProductKernel", "Either": "MixtureKernel", "Power": "PowerKernel"},
    "telemetry": {
        "Decoded": "DecodeResult",
        "Encoder": "ReportEncoder",
        "Joint": "AssociationResult",
        "Map": "CandidateMap",
        "Params": "Rappor",
        "Published": "GoogleRappor",
    },
}
NAMES = [(room, old, new) for room, names in ROOMS.items() for old, new in names.items()]
# (old module, old name, room or new module, new name)
PATHS = [
    ("attack.reconstruction", "Truth", "attack", "GroundTruth"),
    ("density.parties", "Combined", "density", "CombinedRelease"),
    ("density.shares", "Sharing", "density", "NoiseSharing"),
    ("privacy.pan_private", "NoisyCells", "privacy.mechanisms.pan_private", "PanPrivateTable"),
    ("privacy.posterior", "Model", "privacy.mechanisms.posterior_sampling", "PosteriorModel"),
    ("retrieve.codes", "Options", "retrieve.encoders.factories", "EncoderOptions"),
    ("sketch.lsh.composed", "Both", "sketch.lsh", "ProductKernel"),
    ("sketch.lsh.composed", "Power", "sketch.lsh", "PowerKernel"),
    ("sketch.lsh.sums", "Either", "sketch.lsh", "MixtureKernel"),
    ("telemetry.decode", "Decoded", "telemetry", "DecodeResult"),
    ("telemetry.encode", "Encoder", "telemetry", "ReportEncoder"),
    ("telemetry.joint", "Joint", "telemetry", "AssociationResult"),
    ("telemetry.likelihood", "Fit", "telemetry.decoding.likelihood", "LikelihoodFit"),
    ("telemetry.params", "Params", "telemetry", "Rappor"),
    ("telemetry.published", "Published", "telemetry", "GoogleRappor"),
    ("telemetry.published_files", "Map", "telemetry", "CandidateMap"),
]


def module(name):
    """A module, by an old path or a new one; what an old one binds in its room is put back."""
    path = f"sfumato.{name}"
    room, last = importlib.import_module(path.rpartition(".")[0]), path.rpartition(".")[2]
    before = vars(room).get(last)
    with warnings.catch_warnings(action="ignore"):  # that it has moved
        found = importlib.import_module(path)
    if path in _moved.MOVED:
        del sys.modules[path]
        vars(room).pop(last) if before is None else setattr(room, last, before)
    return found


@pytest.mark.parametrize(("room", "old", "new"), NAMES)
def test_an_old_name_of_a_room_warns_and_is_the_new_class(room, old, new):
    room = module(room)
    assert new in room.__all__
    assert old not in room.__all__
    with pytest.warns(DeprecationWarning, match=f"{old} is now called {new}") as caught:
        assert getattr(room, old) is getattr(room, new)
    assert caught[0].filename == __file__  # the line of the one who still uses it
    with pytest.raises(AttributeError, match="no attribute 'Paramz'"):
        room.Paramz  # noqa: B018


@pytest.mark.parametrize(("path", "old", "home", "new"), PATHS)
def test_an_old_name_in_an_old_module_warns_and_is_the_new_class(path, old, home, new):
    with pytest.warns(DeprecationWarning, match=f"{old} is now called {new}"):
        assert getattr(module(path), old) is getattr(module(home), new)


def test_an_old_module_has_all_names_of_the_one_that_took_its_place():
    for old, new in _moved.MOVED.items():
        there, alias = importlib.import_module(new), module(old.removeprefix("sfumato."))
        strange = [
            name for name in there.__all__ if getattr(alias, name) is not getattr(there, name)
        ]
        assert not strange, old


BOTH = """
import importlib, warnings
warnings.simplefilter("ignore")
for path in "attack.audit attack.information attack.popularity attack.reconstruction \\
             telemetry.decode telemetry.plan".split():
    room, name = path.split(".")
    room = importlib.import_module("sfumato." + room)
    function = getattr(room, name)
    old = importlib.import_module("sfumato." + path)
    assert getattr(room, name) is old is not function, path
    assert getattr(old, name) is function, path
    try:
        old(wrong=1)
    except TypeError as error:
        assert f"{name}() got an unexpected keyword argument 'wrong'" in str(error), error
    else:
        raise AssertionError("the function was not called")
"""


def test_a_function_that_was_also_a_module_is_both():
    # In a process of its own, for the import binds the module over the function.
    subprocess.run([sys.executable, "-c", BOTH], check=True)


def test_recommend_guest_warns_and_answers_as_recommend_fold_in():
    users, items = np.repeat(np.arange(8), 4), np.arange(32) % 7
    data = Interactions(users, items, np.ones(32) + items % 5)
    private = PrivateNeighbours(epsilon=1.0, per_user=4).fit(data, catalogue=np.arange(7))
    models = [
        DenseFactorization(factors=2, random_state=0).fit(data),
        UserNeighbours().fit(recommend.RawProfiles(data)),
        private,
        private.release_,
    ]
    for model in models:
        with pytest.warns(DeprecationWarning, match="recommend_guest is now .*recommend_fold_in"):
            old = model.recommend_guest([1, 2], n=3)
        for mine, theirs in zip(old, model.recommend_fold_in([1, 2], n=3), strict=True):
            np.testing.assert_array_equal(mine, theirs)
