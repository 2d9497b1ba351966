"""Budgets hold whatever is requested: charges, retries, splits, and what is refused."""

import math
import pickle
import random
from fractions import Fraction

import pytest

from sfumato.privacy import Accountant, BudgetExceeded, Ledger
from sfumato.privacy.accounting.losses import Flips, GaussianNoise, LaplaceNoise, Pure
from sfumato.privacy.ledger.budget import DataSet, Spending
from sfumato.store import open_store
from support.stores import run_sql

# A ledger of its own file, and those of stores: one contract.
STORAGES = ("file", "sqlite", "postgresql")


@pytest.fixture(params=STORAGES)
def storage(request, new_location, tmp_path):
    """Where the ledger is, and a function that opens it; each call is another process's view."""
    if request.param == "file":
        path = str(tmp_path / "shop.ledger")
        yield path, lambda: Ledger(path)
        return
    location, stores = new_location(request.param), []

    def opened():
        stores.append(open_store(location))
        return stores[-1].ledger

    yield location, opened
    for each in stores:
        each.close()


@pytest.fixture
def backend():
    """Stores here are made by their kind."""
    return "sqlite"


@pytest.fixture
def ledger(storage):
    found = storage[1]()
    found.create("views", epsilon=1)
    found.create("rough", epsilon=1, delta=1e-6, unit="user", relation="replace")
    return found


def entries(location):
    """Everything that is stored."""
    tables = ("dataset", "charge")
    return [run_sql(location, f"SELECT * FROM {table} ORDER BY place") for table in tables]


def never(release_id):
    raise AssertionError("made again")


def test_charges_add_up_to_the_budget_and_no_further(ledger, storage):
    for _ in range(10):
        ledger.charge("views", 0.1, "a count")
    assert ledger.spent("views").epsilon == pytest.approx(1)
    assert ledger.spent("views").delta == 0
    before = entries(storage[0])
    with pytest.raises(BudgetExceeded, match=r"'views' has epsilon 0 left of 1") as error:
        ledger.charge("views", 1e-6, "one more")
    for tiny in (1e-13, 1e-15):  # less than what the tenth tenth may round up by, again and again
        with pytest.raises(BudgetExceeded):
            ledger.charge("views", tiny, "one more")
    assert entries(storage[0]) == before
    assert error.value.remaining == ledger.remaining("views")
    assert isinstance(error.value, ValueError)
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.remaining) == (str(error.value), error.value.remaining)


def test_a_refusal_says_what_is_left_and_that_much_fits(ledger):
    ledger.charge("views", LaplaceNoise(Fraction(4), 1, 3), "three cells")
    with pytest.raises(BudgetExceeded) as error:
        ledger.charge("views", 0.2500001, "too much")
    assert error.value.remaining.epsilon == 0.25
    assert error.value.dataset == "views"
    ledger.charge("views", error.value.remaining.epsilon, "the rest")
    assert ledger.remaining("views").epsilon == 0


def test_a_delta_budget_composes_tightly(ledger):
    noise = GaussianNoise(Fraction(400), relation="replace")
    mine = Accountant(relation="replace")
    count = 0
    while mine.compose(noise).delta(1) <= 1e-6:
        count += 1
        ledger.charge("rough", noise, f"round {count}")
    with pytest.raises(BudgetExceeded, match="at delta 1e-06"):
        ledger.charge("rough", noise, "one too many")
    assert count == 22
    assert ledger.spent("rough").delta == 1e-6
    assert 0.97 < ledger.spent("rough").epsilon <= 1
    pure = 20 * Accountant(relation="replace").compose(noise).epsilon(1e-6)
    assert pure > 3  # what adding up epsilons would claim


def test_pure_charges_in_a_delta_budget_are_their_sum_while_that_fits(ledger):
    for _ in range(3):
        ledger.charge("rough", 0.3, "a count")
    assert ledger.spent("rough").epsilon == pytest.approx(0.9)
    assert ledger.spent("rough").delta == 0
    ledger.create("wide", epsilon=3, delta=1e-3)
    for _ in range(40):
        ledger.charge("wide", 0.1, "a count")
    assert ledger.spent("wide").delta == 1e-3
    exact = Accountant().compose(0.1, 40).epsilon(1e-3)
    assert exact * (1 - 1e-6) <= ledger.spent("wide").epsilon <= exact * 1.01
    left = ledger.remaining("wide").epsilon
    ledger.charge("wide", left, "the rest")


def test_what_is_spent_never_goes_down(ledger, storage):
    # Sums of pure epsilons give way to distributions, and tiny losses change the grid of these.
    ledger.create("wide", epsilon=8, delta=1e-6)
    draw, before = random.Random(4), 0.0
    for k in range(60):
        size = 10 ** draw.uniform(-5, -0.7)
        kinds = (size, LaplaceNoise(1 / Fraction(size)), GaussianNoise(1 / Fraction(size) ** 2))
        ledger.charge("wide", kinds[k % (1 if k < 15 else 3)], "a count")
        spent = ledger.spent("wide").epsilon
        assert spent >= before, k
        before = spent
    with pytest.raises(Exception, match="what is spent never becomes less"):
        run_sql(storage[0], "UPDATE running SET epsilon = epsilon / 2")


def test_what_is_left_fits_and_is_no_more_than_the_difference(ledger):
    # In floats 1 - 0.1 - ... rounds to either side: it must round down, and then fit.
    draw = random.Random(5)
    for k in range(20):
        name, delta = f"set {k}", 1e-6 * (k % 2)
        ledger.create(name, epsilon=draw.uniform(0.9, 1.1), delta=delta)
        ledger.charge(name, draw.uniform(0, 0.8), "a count")
        spent, left = ledger.spent(name).epsilon, ledger.remaining(name).epsilon
        assert Fraction(spent) + Fraction(left) <= Fraction(ledger.dataset(name).epsilon)
        ledger.charge(name, left, "the rest")
    # Where many losses are composed on a grid, adding a pure one costs no more than itself.
    assert Spending(1.0, None).with_loss(Pure(0.25), tight=1.5).epsilon == 1.25
    assert Spending(1.0, None).with_loss(Pure(0.25), tight=1.125).epsilon == 1.125
    assert Spending(1.0, None).with_loss(Pure(0.25), tight=0.5).epsilon == 1.0
    for whole in (0.3, 0.7, 1.0):
        budget = DataSet("x", whole, 0, "event", "add/remove", None)
        exact, left = Fraction(whole) - Fraction(0.1), Spending(0.1).left(budget).epsilon
        assert Fraction(left) <= exact < Fraction(math.nextafter(left, 2))


SPELLED = ["Views", "VIEWS", "\uff56iews", "\uff36\uff29\uff25\uff37\uff33", "view\u017f"]
LOOKING = ["view\ua731", "\u1d20iews"]
LOOKING += ["v\u0456ews", "\u03bdiews", "view\u0455", "\u0475i\u0435w\u0455"]


@pytest.mark.parametrize("name", SPELLED)
def test_another_spelling_is_the_same_data_set(ledger, name):
    with pytest.raises(ValueError, match="data set 'views' is there already, which"):
        ledger.create(name, epsilon=1)
    ledger.charge(name, 0.25, "a count")
    assert ledger.spent("views").epsilon == ledger.spent(name).epsilon == 0.25
    assert ledger.dataset(name).name == "views"
    assert [each.name for each in ledger.datasets()] == ["views", "rough"]


@pytest.mark.parametrize("name", LOOKING)
def test_a_name_that_looks_like_another_is_refused(ledger, name):
    with pytest.raises(ValueError, match="looks like the data set 'views' that is there"):
        ledger.create(name, epsilon=1)
    with pytest.raises(ValueError, match="there is no data set"):
        ledger.charge(name, 0.1, "a count")


def test_names_that_look_different_are_taken_and_invisible_letters_are_not(ledger):
    for name in ("view", "views 2", "vie\u0301ws", "\u0432\u0438\u0434\u044b", "\u6ce8\u6587"):
        ledger.create(name, epsilon=1)
    with pytest.raises(ValueError, match="data set 'views 2' is there"):
        ledger.create("views  2", epsilon=1)
    for bad in ("\u3164", "\u034f", "\u2800", "\ufe0f", "\u200b", "\u00ad", "\U000e0101"):
        with pytest.raises(ValueError, match=r"invisible letters|printable line"):
            ledger.create(f"ord{bad}ers", epsilon=1)
    ledger.create("AI", epsilon=1)
    with pytest.raises(ValueError, match="looks like the data set 'AI'"):
        ledger.create("Al", epsilon=1)


@pytest.mark.parametrize("loss", [(0.1, 1e-9), GaussianNoise(Fraction(10**6))])
def test_delta_zero_takes_pure_losses_only(ledger, loss):
    with pytest.raises(BudgetExceeded, match="takes pure losses only"):
        ledger.charge("views", loss, "a count")
    assert ledger.history("views") == []


def test_a_loss_of_another_relation_is_refused(ledger, storage):
    with pytest.raises(ValueError, match="'replace', and data set 'views' under 'add/remove'"):
        ledger.charge("views", Pure(0.1, relation="replace"), "a count")
    with pytest.raises(ValueError, match="'add/remove', and data set 'rough' under 'replace'"):
        ledger.release("rough", Pure(0.1), "a count", never)
    assert entries(storage[0])[1] == []
    ledger.charge("rough", 0.1, "a plain epsilon is one of the data set's relation")
    assert ledger.history("rough")[0].loss == Pure(0.1, relation="replace")


def test_a_release_is_charged_before_it_is_made_and_stored_before_it_is_returned(ledger):
    def make(release_id):
        (charge,) = ledger.history("views")
        assert (charge.release_id, charge.released, charge.nbytes) == (release_id, None, 0)
        return b"noisy " + release_id.encode()

    made = ledger.release("views", 0.5, "a count", make)
    (charge,) = ledger.history("views")
    assert made == b"noisy " + charge.release_id.encode()
    assert charge.nbytes == len(made)
    assert charge.charged <= charge.released


def test_a_retry_returns_the_stored_bytes_and_costs_nothing(ledger, storage):
    first = ledger.release("views", 0.9, "a count", lambda release_id: b"first", release_id="one")
    again = storage[1]().release("views", 0.9, "a count", never, release_id="one")
    assert first == again == b"first"
    assert ledger.spent("views").epsilon == 0.9
    assert ledger.charge("views", 0.1, "stored elsewhere", release_id="two") == "two"
    with pytest.raises(ValueError, match="'two' was charged already; draw no fresh noise"):
        ledger.charge("views", 0.1, "stored elsewhere", release_id="two")
    assert len(ledger.history("views")) == 2


def test_a_failed_make_leaves_the_charge_and_a_retry_completes_it(ledger):
    with pytest.raises(ZeroDivisionError):
        ledger.release("views", 0.9, "a count", lambda release_id: 1 // 0, release_id="one")
    with pytest.raises(TypeError, match="make must return bytes, not str"):
        ledger.release("views", 0.9, "a count", lambda release_id: "text", release_id="one")
    assert ledger.spent("views").epsilon == 0.9
    made = ledger.release("views", 0.9, "a count", lambda release_id: b"done", release_id="one")
    assert made == b"done"
    assert ledger.spent("views").epsilon == 0.9


def test_of_two_that_make_the_same_release_the_first_stored_wins(ledger):
    def slow(release_id):
        ledger.release("views", 0.5, "a count", lambda same: b"quick", release_id=release_id)
        return b"slow"

    assert ledger.release("views", 0.5, "a count", slow, release_id="one") == b"quick"


def test_a_release_id_is_one_release_only(ledger):
    ledger.create("other", epsilon=1)
    ledger.release("views", 0.5, "a count", lambda release_id: b"x", release_id="one")
    for dataset, loss, what, name in [
        ("other", 0.5, "a count", "dataset"),
        ("views", 0.4, "a count", "loss"),
        ("views", 0.5, "a sum", "what"),
    ]:
        with pytest.raises(ValueError, match=f"'one' was charged with another {name}"):
            ledger.release(dataset, loss, what, never, release_id="one")
    with pytest.raises(ValueError, match="the other of charge and release"):
        ledger.charge("views", 0.5, "a count", release_id="one")
    ledger.charge("views", 0.1, "mine", release_id="two")
    with pytest.raises(ValueError, match="the other of charge and release"):
        ledger.release("views", 0.1, "mine", never, release_id="two")


def test_a_split_charges_what_it_is_a_part_of(ledger):
    ledger.create("train", epsilon=0.6, parent="views")
    ledger.create("fold", epsilon=0.5, parent="train")
    ledger.create("test", epsilon=0.9, parent="views")
    ledger.charge("fold", 0.4, "a model")
    assert [ledger.spent(name).epsilon for name in ("fold", "train", "test", "views")] == [
        *(0.4, 0.4, 0.0, 0.4),
    ]
    with pytest.raises(BudgetExceeded, match=r"'fold' has epsilon 0.1 left of 0.5"):
        ledger.charge("fold", 0.2, "another")
    ledger.charge("train", 0.15, "another")
    with pytest.raises(BudgetExceeded, match=r"'train' has epsilon 0.05 left of 0.6"):
        ledger.charge("fold", 0.1, "another")
    with pytest.raises(BudgetExceeded, match=r"'views' has epsilon 0.45 left of 1"):
        ledger.charge("test", 0.5, "a score")
    assert ledger.remaining("fold").epsilon == pytest.approx(0.05)
    assert ledger.remaining("test").epsilon == pytest.approx(0.45)
    assert [charge.dataset for charge in ledger.history("views")] == ["fold", "train"]
    assert ledger.dataset("fold").parent == "train"


def test_a_split_has_the_unit_and_relation_of_its_parent(ledger):
    ledger.create("part", epsilon=0.5, parent="rough")
    assert (ledger.dataset("part").unit, ledger.dataset("part").relation) == ("user", "replace")
    for invalid in (dict(unit="event"), dict(relation="add/remove")):
        with pytest.raises(ValueError, match="of a split must be that of its parent"):
            ledger.create("other", epsilon=0.5, parent="rough", **invalid)
    with pytest.raises(ValueError, match="no data set 'nobody'"):
        ledger.create("other", epsilon=0.5, parent="nobody")
    assert [each.name for each in ledger.datasets()] == ["views", "rough", "part"]


def test_a_budget_is_given_once(ledger, storage):
    before = entries(storage[0])
    with pytest.raises(ValueError, match="'views' is there already; its budget stays"):
        ledger.create("views", epsilon=100)
    assert entries(storage[0]) == before


NUMBERS = [0, -1, math.nan, math.inf, "1", None, True]
TEXTS = ["", " ", "two\nlines", "\x1b[0m", None, 7, "x" * 2001]


@pytest.mark.parametrize(
    ("call", "name", "bad"),
    [
        ("create", "epsilon", NUMBERS),
        ("create", "delta", [-1e-9, 1, math.nan, "0", None, True]),
        ("create", "unit", ["person", "", 1]),
        ("create", "relation", ["both", "", 1]),
        ("create", "dataset", TEXTS),
        ("charge", "dataset", [*TEXTS, "nobody"]),
        ("charge", "loss", [*NUMBERS, (1,), (0.1, 1), (0.1, 0.1, 0.1), b"x", {}]),
        ("charge", "what", TEXTS),
        ("charge", "release_id", [text for text in TEXTS if text is not None]),
    ],
)
def test_bad_input_raises_before_anything_is_stored(ledger, storage, call, name, bad):
    good = dict(
        create=dict(dataset="new", epsilon=1),
        charge=dict(dataset="views", loss=0.1, what="a count"),
    )[call]
    before = entries(storage[0])
    for value in bad:
        with pytest.raises(ValueError, match="Ledger: "):
            getattr(ledger, call)(**{**good, name: value})
    with pytest.raises(TypeError, match="make must be a function"):
        ledger.release("views", 0.1, "a count", b"bytes")
    assert entries(storage[0]) == before
    getattr(ledger, call)(**good)


def test_a_loss_that_could_not_be_read_again_is_not_stored(ledger):
    with pytest.raises(ValueError, match="ratio"):
        ledger.charge("views", Flips(Fraction(10**4200 - 1, 3 * 10**4200)), "a bit")
    assert ledger.history("views") == []


def test_history_tells_losses_as_they_were(ledger):
    loss = LaplaceNoise(Fraction(21, 2), 2, 3)
    ledger.charge("views", loss, "three cells", release_id="one")
    (charge,) = ledger.history("views")
    assert (charge.release_id, charge.dataset, charge.what) == ("one", "views", "three cells")
    assert charge.loss == loss
    assert charge.charged.endswith("+00:00")
    assert ledger.history("rough") == []
    with pytest.raises(ValueError, match="no data set 'nobody'"):
        ledger.history("nobody")
