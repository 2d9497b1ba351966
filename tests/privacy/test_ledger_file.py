"""The file of a ledger: durable, append-only, ours or refused, and quick with many charges."""

import json
import shutil
import sqlite3
from fractions import Fraction

import pytest

from sfumato.privacy import Accountant, Ledger, _ledger_file
from sfumato.privacy.loss import Flips, LaplaceNoise, Pure


def test_the_file_is_durable_and_append_only(ledger):
    ledger.release("views", 0.1, "a count", lambda release_id: b"x", release_id="one")
    with sqlite3.connect(ledger.path) as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        for change in (
            "DELETE FROM charge",
            "UPDATE charge SET bytes = x'00'",
            "UPDATE charge SET what = 'other'",
            "REPLACE INTO charge SELECT * FROM charge",
            "DELETE FROM dataset",
            "UPDATE dataset SET epsilon = 100",
            "REPLACE INTO dataset SELECT * FROM dataset",
            "REPLACE INTO dataset (rowid, name, epsilon, delta, unit, relation, created) "
            "VALUES (1, 'new', 9, 0, 'event', 'add/remove', '')",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                file.execute(change)
    with _ledger_file.writing(ledger.path) as file:
        assert file.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path):
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("not a database, and longer than a header of SQLite would be " * 20)
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE mine (x)")
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(ValueError, match="is not a ledger of ours"):
            Ledger(path)
        assert path.read_bytes() == before
    with pytest.raises(IsADirectoryError, match="is a folder"):
        Ledger(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        Ledger(tmp_path / "nowhere" / "x.ledger")


def test_another_version_is_refused(ledger):
    with sqlite3.connect(ledger.path) as file:
        file.execute("PRAGMA user_version = 2")
    for use in (lambda: Ledger(ledger.path), lambda: ledger.charge("views", 0.1, "x")):
        with pytest.raises(ValueError, match="has version 2, and this program reads 1"):
            use()


def test_a_ledger_that_is_gone_is_not_made_anew(ledger, tmp_path):
    shutil.move(ledger.path, tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="is gone"):
        ledger.charge("views", 0.1, "x")
    assert not (tmp_path / "shop.ledger").exists()


def test_it_is_a_context_manager_and_has_a_name(tmp_path):
    with Ledger(tmp_path / "shop.ledger") as ledger:
        ledger.create("views", 1)
    assert ledger.name == "shop.ledger"
    assert repr(ledger) == "Ledger('shop.ledger')"
    assert Ledger(ledger.path).dataset("views").epsilon == 1


TINY = Fraction(497, 1000)


def fill(ledger, dataset, losses):
    """Charges straight into the file, as charging each of them durably would take minutes."""
    with sqlite3.connect(ledger.path) as file:
        file.executemany(
            "INSERT INTO charge (release_id, dataset, loss, what, stores, charged) "
            "VALUES (?, ?, ?, 'a count', 0, 'now')",
            [
                (f"{dataset} {place}", dataset, json.dumps(loss.to_dict(), sort_keys=True))
                for place, loss in enumerate(losses)
            ],
        )


# Each data set with a thousand charges, and a budget that only the tightest bound finds enough.
MANY = {
    "sum": (16, 0, [Pure(0.01 + 1e-5 * k) for k in range(1000)]),
    "equal": (2.2, 1e-6, [LaplaceNoise(Fraction(65)) for k in range(1000)]),
    "three kinds": (2.2, 1e-6, [LaplaceNoise(Fraction(60)), Pure(0.015), Flips(TINY)] * 333),
    "all different": (2.2, 1e-6, [Pure(0.01 + 1e-5 * k) for k in range(1000)]),
}


@pytest.mark.parametrize("name", MANY)
def test_a_thousand_charges_compose_tightly(ledger, name):
    epsilon, delta, losses = MANY[name]
    ledger.create(name, epsilon=epsilon, delta=delta)
    fill(ledger, name, losses)
    ledger.charge(name, 0.0123, "the next one")
    assert 0 < ledger.spent(name).epsilon <= epsilon
    if delta:
        simple = Accountant("rdp")
        for loss in losses:
            simple.compose(loss)
        assert simple.delta(epsilon) > delta


def test_names_that_look_alike_are_one_data_set(ledger):
    ledger.create("cafe\u0301", epsilon=1)
    assert ledger.dataset("caf\u00e9").epsilon == 1
    ledger.charge("cafe\u0301", 0.25, "a count")
    assert ledger.spent("cafe\u0301") == ledger.spent("caf\u00e9")
    assert ledger.spent("caf\u00e9").epsilon == 0.25
    for name in (" views", "views ", ""):
        with pytest.raises(ValueError, match="dataset must be a printable line without spaces"):
            ledger.create(name, epsilon=1)


def test_a_ledger_whose_name_no_statement_could_tell_is_refused(tmp_path):
    with pytest.raises(ValueError, match="path must have a printable name"):
        Ledger(tmp_path / "two\nlines")
    assert list(tmp_path.iterdir()) == []
