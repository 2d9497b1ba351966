"""The contract every release passes, driven by what its class declares.

A new kind of release joins in release_cases.py.
"""

import copy
import inspect
import pickle
from dataclasses import replace
from functools import cached_property
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from sfumato.privacy import BudgetExceeded, Ledger, Privacy, PrivacyStatement
from sfumato.privacy.parameters import TERMS
from sfumato.privacy.random_source import InsecureSeededSource, SystemSource
from sfumato.privacy.statement import INSECURE, SYSTEM, UNACCOUNTED
from sfumato.sketch import Release, SketchFormatError, load
from support.observable import leaves, outside, public, use
from support.release_cases import Case
from support.sketch_contract import KEYS


def accounted(folder: Any, case: Case, epsilon: float = 10.0) -> tuple[Ledger, dict[str, Any]]:
    """A ledger with a data set of the case's unit and relation, and the terms to charge it."""
    ledger = Ledger(folder / "budget.db")
    named = {name: case.arguments[name] for name in ("unit", "relation") if name in case.arguments}
    ledger.create("shop", epsilon, 1e-5, **named)
    return ledger, {"ledger": ledger, "dataset": "shop"}


def spent(ledger: Ledger) -> tuple[float, int]:
    return ledger.spent("shop").epsilon, len(list(ledger.history("shop")))


def check_says_what_it_promises(case: Case, folder: Any) -> None:
    release = case.release(source=None)
    released = release.statement
    assert isinstance(released, PrivacyStatement)
    assert (released.ledger, released.source, released.proof) == (UNACCOUNTED, SYSTEM, "proved")
    assert 0 < released.epsilon <= 1.0
    assert released.delta <= case.arguments.get("delta", 0)
    assert str(released) in str(release)
    assert released.headline in repr(release)


def check_insecure_noise_is_reported(case: Case, folder: Any) -> None:
    class Disguised(SystemSource):
        known = InsecureSeededSource(1)

        def fill(self, out):
            self.known.fill(out)

    for source in (InsecureSeededSource(1), Disguised()):
        assert case.release(source=source).statement.source == INSECURE


def check_noise_is_fresh(case: Case, folder: Any) -> None:
    # 20 tables alike would need every noise alike: for the smallest, two cells, p < 1e-6.
    tables = {case.release(source=None).to_bytes() for _ in range(20)}
    assert len(tables) > 1


def check_bytes_pickle_and_load_keep_everything(case: Case, folder: Any) -> None:
    release = case.release()
    data = release.to_bytes()
    release.save(folder / "released.sketch")
    twins = [load(data), load(folder / "released.sketch"), pickle.loads(pickle.dumps(release))]
    twins += [type(release).from_bytes(data), copy.copy(release), copy.deepcopy(release)]
    for twin in twins:
        assert type(twin) is type(release)
        assert twin == release
        assert twin.to_bytes() == data
        assert twin.statement == release.statement
    assert release != case.release(source=InsecureSeededSource(8))


def check_cannot_be_changed(case: Case, folder: Any) -> None:
    for release in (case.release(), load(case.release().to_bytes())):
        before = release.to_bytes()
        for name in (*vars(release), "anything"):
            with pytest.raises(AttributeError, match="cannot be changed"):
                setattr(release, name, None)
        with pytest.raises(AttributeError, match="cannot be changed"):
            del release.statement
        for array in release._arrays().values():
            with pytest.raises(ValueError, match="read-only"):
                array.reshape(-1)[0] = 0
        for change in (release.update, release.merge):
            with pytest.raises(TypeError, match="cannot be changed"):
                change(KEYS)
        assert release.to_bytes() == before


def check_is_a_function_of_noisy_cells_and_public_parameters(case: Case, folder: Any) -> None:
    first = case.release(0)
    observed = outside(first)
    original = Release.__dict__["_make"].__func__

    def forced(cls, parameters, arrays, statement):
        if cls is not type(first):  # a part, whose bytes are cells of the whole
            return original(cls, parameters, arrays, statement)
        shapes = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        same = first._arrays()
        assert shapes == {name: (array.dtype, array.shape) for name, array in same.items()}
        copies = {name: array.copy() for name, array in same.items()}
        return original(cls, parameters, copies, statement)

    with patch.object(Release, "_make", classmethod(forced)):
        for which in (1, 2):
            assert outside(case.release(which)) == observed


def check_answers_every_query(case: Case, folder: Any) -> None:
    release = case.release()
    released = list(use(release))
    assert {name for name, _ in released} == set(public(type(release)))
    assert all(answer is not None for _, answer in released)


def check_holds_nothing_else(case: Case, folder: Any) -> None:
    release = case.release()
    twin = load(release.to_bytes())
    list(use(release)), list(use(twin))
    kind = type(release)
    derived = {
        name for name, retained in inspect.getmembers(kind) if isinstance(retained, cached_property)
    }
    assert set(vars(release)) <= {*kind._limits, *release._layout(), "statement", *derived}
    assert leaves(vars(release)) == leaves(vars(twin))  # what is derived comes from the bytes


def check_is_charged_before_noise_is_drawn(case: Case, folder: Any) -> None:
    ledger, terms = accounted(folder, case)
    observed = []

    class Watching(InsecureSeededSource):
        def fill(self, out):
            observed.append(spent(Ledger(folder / "budget.db")))
            super().fill(out)

    released = case.release(source=Watching(1), **terms).statement
    assert observed[0] == spent(ledger)
    assert observed[0][0] > 0
    assert observed[0][1] == 1
    assert (released.dataset, released.ledger) == ("shop", "budget.db")
    assert released.release


def check_retry_returns_the_same_bytes_for_nothing(case: Case, folder: Any) -> None:
    ledger, terms = accounted(folder, case)
    first = case.release(source=None, release_id="spring", **terms)
    paid = spent(ledger)
    again = case.release(2, source=None, release_id="spring", **terms)
    assert again.to_bytes() == first.to_bytes()
    assert spent(ledger) == paid
    assert case.release(source=None, release_id="autumn", **terms).statement != first.statement
    assert spent(ledger)[1] == 2


def check_over_budget_releases_nothing(case: Case, folder: Any) -> None:
    ledger, terms = accounted(folder, case, epsilon=0.5)

    class Untouched(InsecureSeededSource):
        def fill(self, out):
            raise AssertionError("noise was drawn")

    with pytest.raises(BudgetExceeded):
        case.release(source=Untouched(1), **terms)
    assert spent(ledger) == (0, 0)


BAD = [("epsilon", bad) for bad in (0, -1, np.nan, np.inf, "much", None, True)]
BAD += [("delta", bad) for bad in (-0.1, 1, np.nan, np.inf, "much", True)]
BAD += [("contributions", bad) for bad in (0, -1, 1.5, "many", 2**40)]
BAD += [("unit", "nobody"), ("relation", "similar"), ("release_id", 7), ("source", 3)]


def check_bad_terms_name_themselves_and_cost_nothing(case: Case, folder: Any) -> None:
    ledger, terms = accounted(folder, case)
    for name, bad in BAD:
        with pytest.raises(ValueError, match=name):
            case.release(**{**terms, name: bad})
    for missing in ({"ledger": ledger}, {"dataset": "shop"}):
        with pytest.raises(ValueError, match="ledger and dataset go together"):
            case.release(**missing)
    with pytest.raises(TypeError, match="'epsilom'"):
        case.release(epsilom=1, **terms)
    with pytest.raises(ValueError, match="release_id"):
        case.release(release_id="spring")
    assert spent(ledger) == (0, 0)


def check_a_privacy_object_stands_for_its_keywords(case: Case, folder: Any) -> None:
    given = {"epsilon": 1.0, **case.arguments}
    privacy = Privacy(**{name: given.pop(name) for name in TERMS if name in given})
    bare = replace(case, arguments=given)
    assert bare.release(epsilon=None, privacy=privacy) == case.release()
    assert bare.release(epsilon=privacy) == case.release()
    with pytest.raises(ValueError, match="privacy and contributions must not both be given"):
        bare.release(epsilon=None, privacy=privacy, contributions=1)


def check_cut_off_and_flipped_bytes_are_found(case: Case, folder: Any) -> None:
    data = case.release().to_bytes()
    for cut in (0, 15, 24, len(data) // 2, len(data) - 1):
        with pytest.raises(SketchFormatError):
            load(data[:cut])
    for at in np.linspace(0, len(data) - 1, 40).astype(int):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(SketchFormatError):
            load(bytes(damaged))


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]
