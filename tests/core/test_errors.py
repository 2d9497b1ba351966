"""One family of errors: each passes its old `except`, and travels between processes."""

import ast
import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn.exceptions

import sfumato
from sfumato import errors
from sfumato.core.estimator_errors import EstimatorNotFittedError
from sfumato.core.validation import integer, one_of
from sfumato.data import Interactions
from sfumato.density import SketchDensity
from sfumato.privacy import BudgetExceeded, Ledger, LedgerDamaged
from sfumato.recommend import DenseFactorization, ModelFormatError, NotFittedError, StaleIndexError
from sfumato.retrieve import IndexFormatError
from sfumato.sketch import CountMin, SketchFormatError


def classes():
    found = [getattr(errors, name) for name in errors.__all__]
    return [*found, EstimatorNotFittedError]


def test_old_names_are_the_new_classes_and_pass_the_old_excepts():
    for old in (
        SketchFormatError,
        IndexFormatError,
        ModelFormatError,
        NotFittedError,
        StaleIndexError,
        BudgetExceeded,
        LedgerDamaged,
    ):
        assert old is getattr(errors, old.__name__)
        assert issubclass(old, ValueError)
    assert issubclass(IndexFormatError, SketchFormatError)
    for kind in (SketchFormatError, ModelFormatError):
        assert issubclass(kind, errors.FormatError)
    assert issubclass(NotFittedError, AttributeError)
    assert all(issubclass(kind, errors.SfumatoError) for kind in classes())


def test_all_names_are_listed():
    public = {name for name, each in vars(errors).items() if isinstance(each, type)}
    assert {name for name in public if not name.startswith("_")} - {"Any", "Self"} == set(
        errors.__all__
    )


def test_the_module_imports_nothing_heavy():
    tree = ast.parse(Path(errors.__file__).read_text())
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert names == ["typing"]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    code = "import sys, sfumato; sfumato.errors.FormatError; print('numpy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def raised(call, *expected):
    with pytest.raises(expected) as found:
        call()
    return found.value


def test_an_estimator_before_fit_raises_either_error():
    error = raised(
        lambda: SketchDensity().score_samples([[0.0]]), sklearn.exceptions.NotFittedError
    )
    assert isinstance(error, errors.NotFittedError)
    error = raised(lambda: DenseFactorization().predict(1, 2), errors.NotFittedError)
    assert not isinstance(error, sklearn.exceptions.NotFittedError)


@pytest.mark.parametrize("limit", [integer(1, 9), one_of(("a", "b"))])
def test_a_limit_names_owner_and_parameter(limit):
    error = raised(lambda: limit.check("Tea", "strength", "weak"), errors.ParameterError)
    assert (error.owner, error.parameter) == ("Tea", "strength")
    assert str(error).startswith("Tea: strength must be ")
    assert vars(error) == {"owner": "Tea", "parameter": "strength"}  # and not the value


def test_every_declared_limit_raises_the_error_of_its_parameter():
    from support.stored_files import import_all

    import_all()
    from sfumato.core.storage import REGISTRIES

    limits = {
        (kind.__name__, name): limit
        for registry in REGISTRIES
        for kind in registry.values()
        for table in ("_limits", "LIMITS")
        for name, limit in getattr(kind, table, {}).items()
    }
    assert len(limits) > 150
    for (owner, name), limit in limits.items():
        for bad in limit.bad():
            error = raised(lambda: limit.check(owner, name, bad), ValueError)  # noqa: B023
            assert isinstance(error, errors.ParameterError), (owner, name, bad)
            assert (error.owner, error.parameter) == (owner, name)


def test_the_estimator_that_was_called_is_the_owner():
    # The sketch below refuses the weight; its error names the estimator.
    from sfumato.density.base import naming

    def inside():
        with naming("SketchDensity", "KernelGrid"):
            integer(1).check("KernelGrid", "rows", 0)

    error = raised(inside, errors.ParameterError)
    assert (error.owner, str(error)[:22]) == ("SketchDensity", "SketchDensity: rows mu")


def examples(folder):
    yield raised(lambda: CountMin(1), errors.ParameterError)
    yield raised(lambda: CountMin(4).update(["a"], [0.5]), TypeError)
    yield raised(lambda: sfumato.load(b"junk"), errors.FormatError)
    yield raised(lambda: sfumato.sketch.load(b"junk"), SketchFormatError)
    yield raised(lambda: sfumato.recommend.load(b"junk"), ModelFormatError)
    yield raised(lambda: sfumato.retrieve.load(b"junk"), IndexFormatError)
    yield raised(lambda: SketchDensity().score_samples([[0.0]]), EstimatorNotFittedError)
    ledger = Ledger(folder / "ledger")
    ledger.create("views", epsilon=1)
    yield raised(lambda: ledger.charge("views", 2.0, what="much"), BudgetExceeded)
    world = Interactions(np.array([1, 2, 3]), np.array([1, 2, 3]), np.array([1.0, 5.0, 3.0]))
    model = DenseFactorization(factors=2, epochs=1).fit(world)
    index = sfumato.recommend.ItemIndex(model)
    model.fit(world)
    yield raised(lambda: index.recommend([1], 1), StaleIndexError)


def test_errors_survive_pickling_and_copying(tmp_path):
    given = list(examples(tmp_path))
    given += [
        kind("a sentence.") for kind in classes() if kind not in (BudgetExceeded, *map(type, given))
    ]
    assert {type(error) for error in given} == set(classes())
    for error in given:
        error.add_note("a note")
        for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(twin) is type(error)
            assert str(twin) == str(error)
            assert vars(twin) == vars(error)


def test_a_renamed_error_is_of_the_other_owner():
    error = errors.ParameterError.of("Params", "one", "must be larger, not 0.1.")
    twin = error.renamed("telemetry params", "--epsilon-one")
    assert str(twin) == "telemetry params: --epsilon-one must be larger, not 0.1."
    assert (twin.owner, twin.parameter) == ("telemetry params", "--epsilon-one")
    free = errors.ParameterError("a.csv: give users=.", owner="read", parameter="users")
    assert str(free.renamed("other")) == "a.csv: give users=."
