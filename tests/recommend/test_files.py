"""A model file is complete and intact or refused; it has the fitted state and no training data."""

import numpy as np
import pytest
from hypothesis import given, strategies

import sfumato.sketch
from sfumato.core.file_format import pack
from sfumato.data import Interactions
from sfumato.recommend import Factorization, ModelFormatError, load
from sfumato.sketch import CountMin, SketchFormatError
from support.recommender_contract import Known, random_world

MODEL = random_world(5, 7, 3)
DATA = MODEL.to_bytes()


def header(**changed):
    plain = {"bounds": [1.0, 5.0]}
    scalars = {"mean_": 3.0, "low_": 1.0, "high_": 5.0}
    state = {**scalars, "user_kind_": "", "catalogue": "integers"}
    return {"kind": "Known", "version": 1, "parameters": plain, "state": state, **changed}


def arrays(**changed):
    return {**MODEL._arrays(), "catalogue": np.arange(7), **changed}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_not_written(tmp_path, value):
    model = random_world(5, 7, 3)
    model.items_[2, 1] = value
    with pytest.raises(ValueError, match="Known: items_ is not finite; fit the model anew"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ids", [None, ["tea", "", "crème", "茶", "a", "b", "c"]])
def test_a_file_gives_the_same_answers_and_the_same_bytes(tmp_path, ids):
    model = Known.of(MODEL.users_, MODEL.items_, ids)
    model.save(tmp_path / "model")
    for twin in (load(tmp_path / "model"), Known.load(str(tmp_path / "model")), load(DATA)):
        np.testing.assert_array_equal(twin.users_, model.users_)
    twin = Factorization.load(tmp_path / "model")
    assert isinstance(twin, Known)
    assert twin.catalogue_ == model.catalogue_
    assert twin.get_params() == {"bounds": (1.0, 5.0)}
    for got, want in zip(twin.recommend([0, 3], 4), model.recommend([0, 3], 4), strict=True):
        np.testing.assert_array_equal(got, want)
    assert twin.to_bytes() == model.to_bytes()


def test_arrays_start_cache_lines_and_can_be_changed():
    twin = load(DATA)
    for array in twin._arrays().values():
        assert array.ctypes.data % 64 == 0
        assert array.flags.writeable


def test_a_crafted_header_equals_what_is_written():
    assert pack(header(), arrays()) == DATA


def test_every_cut_is_refused():
    for cut in range(len(DATA)):
        with pytest.raises(ModelFormatError, match="model: "):
            load(DATA[:cut])


@given(strategies.integers(0, len(DATA) - 1), strategies.integers(0, 7))
def test_every_flipped_bit_is_refused(at, bit):
    damaged = bytearray(DATA)
    damaged[at] ^= 1 << bit
    with pytest.raises(ModelFormatError):
        load(bytes(damaged))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"kind": "Oracle"}, "Estimator: the bytes hold a 'Oracle'"),
        ({"kind": "Factorization", "parameters": {}}, "the bytes hold a 'Factorization'"),
        ({"version": 2}, "Known: version 2 of the format cannot be read, only 1; use the sfumato"),
        ({"parameters": {}}, "no sentence: defaults are fine"),
        ({"parameters": {"bounds": [5, 1]}}, "damaged content: Known: bounds must be a pair"),
        ({"parameters": {"colour": 1}}, "damaged content"),
        ({"state": {}}, "damaged content"),
        ({"state": header()["state"] | {"mean_": "3"}}, "mean_ must be a finite number"),
        ({"state": header()["state"] | {"user_kind_": "names"}}, "user_kind_ must be"),
        ({"state": header()["state"] | {"mean_": None}}, "mean_ must be a finite number"),
        ({"state": header()["state"] | {"low_": 9.0}}, "low_ must not be above high_"),
        ({"state": header()["state"] | {"catalogue": "lists"}}, "catalogue is of no known kind"),
        ({"state": header()["state"] | {"catalogue": "text"}}, "damaged content"),
    ],
)
def test_a_header_that_does_not_hold_together_is_refused(changed, sentence):
    data = pack(header(**changed), arrays())
    if sentence.startswith("no sentence"):
        assert load(data).bounds is None
    else:
        with pytest.raises(ModelFormatError, match=sentence):
            load(data)


@pytest.mark.parametrize(
    "changed",
    [
        {"users_": MODEL.users_.astype(np.float64)},
        {"users_": MODEL.users_[0]},
        {"catalogue": np.zeros(7, np.int64)},
        {"catalogue": np.arange(0)},
        {"further": np.arange(3)},
    ],
)
def test_arrays_that_do_not_hold_together_are_refused(changed):
    with pytest.raises(ModelFormatError, match="Known: damaged content"):
        load(pack(header(), arrays(**changed)))


@pytest.mark.parametrize(
    ("letters", "ends"),
    [
        (b"teamilk", [0, 3, 8]),
        (b"teamilk", [0, 9, 7]),
        (b"teamilk", [1, 3, 7]),
        (b"teamilk", []),
        (b"teatea", [0, 3, 6]),
        (b"te\xffmilk", [0, 3, 7]),
    ],
)
def test_texts_that_do_not_hold_together_are_refused(letters, ends):
    section = {
        "catalogue": np.frombuffer(letters, np.uint8),
        "catalogue_ends": np.array(ends, np.int64),
    }
    state = header()["state"] | {"catalogue": "text"}
    with pytest.raises(ModelFormatError, match="Known: damaged content"):
        load(pack(header(state=state), {**MODEL._arrays(), **section}))


def test_a_sketch_is_no_model_and_a_model_no_sketch(tmp_path):
    with pytest.raises(ModelFormatError, match="the bytes hold a 'CountMin'"):
        load(CountMin(8).to_bytes())
    with pytest.raises(SketchFormatError, match="the bytes hold a 'Known'"):
        sfumato.sketch.load(DATA)


def test_an_array_of_python_objects_is_never_written():
    model = Known.of(MODEL.users_, MODEL.items_)
    model.users_ = model.users_.astype(object)
    with pytest.raises(TypeError, match="Known: users_ holds objects, not numbers"):
        model.to_bytes()


def test_another_class_is_refused():
    class Other(Known):
        pass

    with pytest.raises(ModelFormatError, match="Other: the bytes hold a 'Known'"):
        Other.from_bytes(DATA)
    assert type(Known.from_bytes(Other.of(MODEL.users_, MODEL.items_).to_bytes())) is Other


def test_a_save_that_fails_leaves_the_old_file(tmp_path):
    MODEL.save(tmp_path / "model")
    broken = random_world(5, 7, 3, seed=1)
    broken.mean_ = float("nan")
    with pytest.raises(ValueError, match="Known: what was learned is not finite"):
        broken.save(tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == DATA
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with pytest.raises(OSError, match="regular file"):
        MODEL.save(tmp_path)


def test_what_was_excluded_never_enters_the_file():
    model = random_world(5, 7, 3)
    model.recommend([1, 2], exclude=Interactions([1, 2], [3, 4], [1, 1]))
    model.recommend_fold_in([3], [5])
    assert model.to_bytes() == DATA
