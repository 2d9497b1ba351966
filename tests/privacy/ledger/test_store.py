"""The file of a ledger: durable, append-only, ours or refused, verified, and quick."""

import hashlib
import json
import os
import random
import shutil
import sqlite3
from collections import Counter
from fractions import Fraction

import pytest

from sfumato.privacy import Accountant, Ledger, LedgerDamaged
from sfumato.privacy.accounting.losses import Concentrated, Flips, GaussianNoise, LaplaceNoise, Pure
from sfumato.privacy.ledger import budget, entries, store
from support.ledger_files import flipped, old_ledger


def test_the_file_is_durable_and_append_only(ledger):
    ledger.release("views", 0.1, "a count", lambda release_id: b"x", release_id="one")
    with sqlite3.connect(ledger.path) as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        for change in (
            "DELETE FROM charge",
            "UPDATE charge SET what = 'other'",
            "REPLACE INTO charge SELECT * FROM charge",
            "DELETE FROM stored",
            "UPDATE stored SET bytes = x'00'",
            "REPLACE INTO stored SELECT * FROM stored",
            "DELETE FROM dataset",
            "UPDATE dataset SET epsilon = 100",
            "REPLACE INTO dataset SELECT * FROM dataset",
            "REPLACE INTO dataset VALUES (1, 'new', 9, 0, 'event', 'add/remove', '', '', '')",
            "UPDATE head SET entries = 1",
            "UPDATE running SET epsilon = 0 WHERE dataset = 'views'",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                file.execute(change)
    with ledger._writing() as (file, _):
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
    ledger.close()
    with sqlite3.connect(ledger.path) as file:
        file.execute("PRAGMA user_version = 3")
    for use in (lambda: Ledger(ledger.path), lambda: ledger.charge("views", 0.1, "x")):
        with pytest.raises(ValueError, match="has version 3, and this program reads 1 and 2"):
            use()


CALLS = {
    "charge": lambda ledger: ledger.charge("views", 0.1, "x"),
    "release": lambda ledger: ledger.release("views", 0.1, "x", lambda release_id: b"x"),
    "spent": lambda ledger: ledger.spent("views"),
    "remaining": lambda ledger: ledger.remaining("views"),
    "history": lambda ledger: ledger.history("views"),
    "datasets": lambda ledger: ledger.datasets(),
    "verify": lambda ledger: ledger.verify(),
}


@pytest.mark.parametrize("call", CALLS)
def test_only_create_makes_a_file(tmp_path, call):
    ledger = Ledger(tmp_path / "shop.ledger")
    with pytest.raises(FileNotFoundError, match="is not there; restore it, or create a data set"):
        CALLS[call](ledger)
    for invalid in (dict(epsilon=0), dict(delta=2), dict(unit="x"), dict(parent="other")):
        with pytest.raises(ValueError, match="Ledger: "):
            ledger.create(**{"dataset": "views", "epsilon": 1, **invalid})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", CALLS)
def test_a_ledger_that_is_gone_is_not_made_anew(ledger, tmp_path, call):
    shutil.move(ledger.path, tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="is gone"):
        CALLS[call](ledger)
    with pytest.raises(FileNotFoundError, match="or what was spent is forgotten"):
        ledger.create("views", epsilon=1)
    assert not (tmp_path / "shop.ledger").exists()
    ledger.create("views", epsilon=2, new_file=True)
    assert ledger.dataset("views").epsilon == 2


@pytest.mark.parametrize("end", ["-wal", ".blobs"])
def test_what_is_left_of_a_ledger_tells_that_there_was_one(tmp_path, end):
    path = tmp_path / "shop.ledger"
    (tmp_path / f"shop.ledger{end}").mkdir() if end == ".blobs" else (
        tmp_path / f"shop.ledger{end}"
    ).write_bytes(b"old")
    with pytest.raises(FileNotFoundError, match=f"shop.ledger{end} is left of it"):
        Ledger(path).create("views", epsilon=1)
    Ledger(path).create("views", epsilon=1, new_file=True)
    assert Ledger(path).remaining("views").epsilon == 1


def test_an_empty_file_is_no_ledger(tmp_path):
    path = tmp_path / "shop.ledger"
    path.touch()
    with pytest.raises(LedgerDamaged, match="is empty, and no ledger"):
        Ledger(path)
    assert path.stat().st_size == 0


def test_it_is_a_context_manager_and_has_a_name(tmp_path):
    with Ledger(tmp_path / "shop.ledger") as ledger:
        ledger.create("views", 1)
    assert ledger.name == "shop.ledger"
    assert repr(ledger) == "Ledger('shop.ledger')"
    assert Ledger(ledger.path).dataset("views").epsilon == 1


TINY = Fraction(497, 1000)


def fill(ledger, dataset, losses):
    """Charges in one transaction, as charging each of them durably would take minutes."""
    with ledger._writing() as (file, book):
        writer = entries.Writer(file, book.position, book.chain)
        for place, loss in enumerate(losses):
            line = json.dumps(loss.to_dict(), sort_keys=True)
            writer.add("charge", f"{dataset} {place}", dataset, line, "a count", 0, "now")
        spent = budget.total_cost(Counter(losses), book.dataset(dataset).delta)
        writer.spend(dataset, spent, writer.position)
        writer.close()


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
    ledger.verify()


def test_names_of_combined_letters_are_one_data_set(ledger):
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


def test_an_old_ledger_is_read_as_it_is_and_upgraded_by_the_first_write(tmp_path):
    path = old_ledger(tmp_path / "old.ledger")
    before = path.read_bytes()
    old = Ledger(path)
    assert [each.name for each in old.datasets()] == ["orders", "Orders", "train", "rough"]
    assert old.spent("orders").epsilon == 0.75
    assert old.remaining("train").epsilon == 0.25
    want = Accountant().compose(GaussianNoise(Fraction(100)), 2).epsilon(1e-6)
    assert want * (1 - 1e-9) <= old.spent("rough").epsilon <= want * 1.01
    assert [each.release_id for each in old.history("orders")] == ["one", "two", "three"]
    assert [each.unfinished for each in old.history("orders")] == [False, True, False]
    with pytest.raises(ValueError, match="may be any of 'orders', 'Orders'"):
        old.dataset("ORDERS")
    chain = old.chain
    assert old.verify().entries == 10
    old.close()
    assert path.read_bytes() == before
    assert Ledger(path).release("orders", 0.25, "a count", never, release_id="one") == b"stored"
    again = Ledger(path)
    with sqlite3.connect(path) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (2,)
    assert (again.chain, again.verify(expect=chain).since) == (chain, 0)
    assert again.spent("orders").epsilon == 0.75
    done = again.release("train", 0.25, "a sum", lambda release_id: b"late", release_id="two")
    assert (done, again.spent("orders").epsilon) == (b"late", 0.75)
    again.charge("Orders", 0.5, "its own budget")
    assert (again.spent("Orders").epsilon, again.spent("orders").epsilon) == (0.5, 0.75)
    assert again.verify(expect=chain).since == 2


def never(release_id):
    raise AssertionError("made again")


def full(folder):
    """A ledger with all kinds of entries, closed; its path and what is left of each budget."""
    ledger = Ledger(folder / "whole.ledger")
    ledger.create("views", epsilon=10)
    ledger.create("rough", epsilon=10, delta=1e-6)
    ledger.create("part", epsilon=5, parent="views")
    for k in range(4):
        ledger.charge("views", 0.1 + k / 64, "a count")
        ledger.charge("rough", 0.2 + k / 64, "a count")
    ledger.charge("part", 0.3, "a sum")
    ledger.release("rough", GaussianNoise(Fraction(100)), "noise", lambda _: b"x" * 99, "one")
    left = {each.name: ledger.remaining(each.name).epsilon for each in ledger.datasets()}
    ledger.close()
    return folder / "whole.ledger", left


def test_a_flipped_bit_never_gives_budget_back_and_is_reported_in_a_sentence(tmp_path):
    path, left = full(tmp_path)
    data = path.read_bytes()
    used = [k for k, byte in enumerate(data) if byte]  # most of the file is empty, and stays so
    bits = random.Random(1).sample([8 * k + bit for k in used for bit in range(8)], 2000)
    noticed = sum(flipped(tmp_path, data, bit, left) for bit in bits)
    # All but bytes of a stored release, of free pages and of SQLite's own counters are covered.
    assert noticed > 1600
    bits = random.Random(2).sample(range(8 * len(data)), 400)
    assert sum(flipped(tmp_path, data, bit, left, charge=k < 20) for k, bit in enumerate(bits)) > 20


def test_a_cut_ledger_grants_nothing(tmp_path):
    path, _ = full(tmp_path)
    data = path.read_bytes()
    for size in (10, 100, 4096, len(data) // 2, len(data) - 4096):
        (tmp_path / f"{size}.ledger").write_bytes(data[:size])
        with pytest.raises(LedgerDamaged, match="Ledger: "):
            Ledger(tmp_path / f"{size}.ledger")


def change(path, *statements):
    """Edit a ledger as someone could who knows SQLite."""
    with sqlite3.connect(path) as file:
        made = file.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in made:
            file.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            file.execute(*statement)
        for _, sql in made:
            file.execute(sql)


@pytest.mark.parametrize(
    ("statements", "sentence"),
    [
        (["UPDATE dataset SET epsilon = 99 WHERE name = 'views'"], "entry 1 does not follow"),
        (["UPDATE charge SET loss = replace(loss, '0.1', '0.01') WHERE place = 4"], "entry 4"),
        (["DELETE FROM charge WHERE place = 7"], "entry 7 is missing"),
        (["DELETE FROM stored"], "says that it ends at entry 14, and 13 are there"),
        (["UPDATE head SET entries = 12"], "says that it ends at entry 12, and 14 are there"),
        (["DELETE FROM head"], "its head is missing"),
        (["UPDATE running SET epsilon = 0"], "what 'part' has spent was altered"),
        (["DELETE FROM running"], "has spent is missing"),
        (["DROP TRIGGER IF EXISTS x", "CREATE TABLE more (x)"], "tables are not as they were made"),
    ],
)
def test_a_change_of_an_entry_is_noticed_before_anything_is_granted(tmp_path, statements, sentence):
    path, _ = full(tmp_path)
    change(path, *((each,) for each in statements))
    with pytest.raises(LedgerDamaged, match=sentence):
        Ledger(path).charge("part", 0.1, "a count")
    with pytest.raises(LedgerDamaged, match="Ledger: "):
        Ledger(path).verify()


def test_an_open_ledger_verifies_what_others_write(tmp_path):
    path, _ = full(tmp_path)
    one, two = Ledger(path), Ledger(path)
    assert one.charge("views", 0.1, "a count")
    assert two.spent("views").epsilon == one.spent("views").epsilon
    with sqlite3.connect(path) as file:
        file.execute("INSERT INTO charge VALUES (16, 'x', 'views', '', '', 0, '', 'y')")
        file.execute("UPDATE head SET entries = 16, chain = 'y'")
    for each in (one, two):
        with pytest.raises(LedgerDamaged, match="entry 16 does not follow"):
            each.charge("views", 0.1, "a count")


def test_verify_composes_the_charges_anew(tmp_path):
    path, _ = full(tmp_path)
    for name, epsilon, pure, sentence in (
        ("rough", 0.1, "none", "cost more than it has spent"),
        ("views", 0.5, "1/2", "do not add up"),
    ):
        with sqlite3.connect(path) as file:
            place = file.execute("SELECT place FROM running WHERE dataset = ?", (name,)).fetchone()[
                0
            ]
        row = (name, place, epsilon, pure)
        seal = entries.sealed("running", row)  # as if a program composed incorrectly
        text = "UPDATE running SET epsilon = ?, sums = ?, seal = ? WHERE dataset = ?"
        other = tmp_path / f"{name}.ledger"
        shutil.copy(path, other)
        change(other, (text, (epsilon, pure, seal, name)))
        assert Ledger(other).spent(name).epsilon == epsilon
        with pytest.raises(LedgerDamaged, match=sentence):
            Ledger(other).verify()


def test_a_sum_that_is_not_up_to_date_is_noticed(tmp_path):
    path, _ = full(tmp_path)
    row = ("views", 4, 0.1, str(Fraction(0.1)))
    text = "UPDATE running SET place = ?, epsilon = ?, sums = ?, seal = ? WHERE dataset = 'views'"
    change(path, (text, (*row[1:], entries.sealed("running", row))))
    for use in (
        lambda: Ledger(path).remaining("part"),
        lambda: Ledger(path).charge("part", 1, "x"),
    ):
        with pytest.raises(LedgerDamaged, match="is missing or not up to date"):
            use()


def test_an_older_copy_is_detected_by_a_chain_noted_elsewhere(tmp_path):
    path, _ = full(tmp_path)
    shutil.copy(path, tmp_path / "copy")
    ledger = Ledger(path)
    early = ledger.chain
    ledger.charge("views", 0.5, "a count")
    late = ledger.chain
    assert (ledger.verify(early).since, ledger.verify(late).since) == (1, 0)
    assert ledger.verify().since is None
    older = Ledger(tmp_path / "copy")
    assert older.verify(early).since == 0
    with pytest.raises(LedgerDamaged, match="never reached the chain"):
        older.verify(expect=late)
    ledger.close()
    shutil.copy(tmp_path / "copy", path)  # the same file, as it was before
    with pytest.raises(LedgerDamaged, match="it ends at entry 14, and 15 were there before"):
        ledger.charge("views", 0.1, "a count")
    os.replace(tmp_path / "copy", path)  # another file in its place
    with pytest.raises(LedgerDamaged, match="it ends at entry 14, and 15 were there before"):
        ledger.remaining("views")


def test_large_releases_lie_beside_the_ledger(ledger, tmp_path):
    large, small = os.urandom(300_000), os.urandom(1000)
    made = ledger.release("views", 0.1, "a model", lambda release_id: large, release_id="large")
    assert made == large
    assert ledger.release("views", 0.1, "a count", lambda release_id: small, "small") == small
    assert ledger.release("views", 0.1, "a model", never, release_id="large") == large
    assert ledger.fetch("large") == large
    assert [each.nbytes for each in ledger.history("views")] == [300_000, 1000]
    name = hashlib.sha256(large).hexdigest()
    assert os.listdir(tmp_path / "shop.ledger.blobs") == [name]
    ledger.close()
    assert os.path.getsize(ledger.path) < 100_000
    blob = tmp_path / "shop.ledger.blobs" / name
    blob.write_bytes(large[:-1])
    for use in (lambda: ledger.fetch("large"), ledger.verify):
        with pytest.raises(LedgerDamaged, match=r"'large' in shop.ledger.blobs/.* were altered"):
            use()
    blob.unlink()
    os.mkfifo(blob)  # nobody writes to it: a reader that opens it would wait for ever
    with pytest.raises(LedgerDamaged, match=r"'large' in shop.ledger.blobs/.* were altered"):
        ledger.fetch("large")
    blob.unlink()
    blob.symlink_to("/dev/zero")  # no end
    with pytest.raises(LedgerDamaged, match=r"'large' in shop.ledger.blobs/.* were altered"):
        ledger.fetch("large")
    blob.unlink()
    with pytest.raises(LedgerDamaged, match="which is missing; restore that file"):
        ledger.release("views", 0.1, "a model", never, release_id="large")
    assert ledger.spent("views").epsilon == 0.2
    blob.with_suffix(".part").write_bytes(large)  # killed before it got its name
    assert ledger.fetch("large") == large


def test_what_a_killed_process_left_beside_the_ledger_goes(ledger, tmp_path):
    folder = tmp_path / "shop.ledger.blobs"
    folder.mkdir()
    (folder / f"{'0' * 64}.part").write_bytes(b"noise that was never let out")
    (folder / "theirs").write_bytes(b"not ours")
    ledger.release("views", 0.1, "a model", lambda release_id: bytes(2**17))
    names = {hashlib.sha256(bytes(2**17)).hexdigest(), "theirs"}
    assert set(os.listdir(folder)) == names


def test_a_composition_goes_on_from_the_file_and_is_near_the_exact_one(ledger):
    ledger.create("long", epsilon=100, delta=1e-6)
    losses = [(Pure(0.01 + 1e-5 * k), LaplaceNoise(90 + Fraction(k)))[k % 2] for k in range(150)]
    with ledger:
        for loss in losses:
            ledger.charge("long", loss, "a count")
    with sqlite3.connect(ledger.path) as file:  # after the 64th and the 128th charge
        assert file.execute("SELECT dataset, place FROM product").fetchall() == [("long", 131)]
    exact = Accountant()
    for loss in losses:
        exact.compose(loss)
    want = exact.epsilon(1e-6) / 1.0079  # of many kinds it takes each for one that costs more
    assert want < ledger.spent("long").epsilon < 1.01 * exact.epsilon(1e-6)
    again = Ledger(ledger.path)
    again.charge("long", 0.02, "a count")
    ledger.charge("long", 0.02, "a count")
    assert again.verify().entries == 155
    ledger.charge("long", Concentrated(1e-4), "of which no distribution is known")
    assert ledger.spent("long").epsilon > again.verify().entries / 1000
    again.charge("long", 0.02, "a count")


def test_a_definition_that_is_no_text_is_damage(ledger):
    ledger.close()
    file = sqlite3.connect(ledger.path)
    file.execute("PRAGMA writable_schema = ON")
    file.execute("UPDATE sqlite_master SET sql = CAST(sql AS BLOB) WHERE name = 'head_grows'")
    file.commit()
    file.close()
    with pytest.raises(LedgerDamaged, match="its tables are not as they were made"):
        Ledger(ledger.path)


def test_a_blob_without_its_name_is_never_written_over(ledger, tmp_path, monkeypatch):
    # A process was killed after the entry and before the name; then the disk is full.
    same, folder = bytes(2**17), tmp_path / "shop.ledger.blobs"
    with monkeypatch.context() as killed:
        killed.setattr(store, "settle_blob", lambda folder, digest: None)
        ledger.release("views", 0.1, "a model", lambda release_id: same, release_id="one")
    assert [path.suffix for path in folder.iterdir()] == [".part"]
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", _full)
        with pytest.raises(OSError, match="'two' of 'views' was charged"):
            ledger.release("views", 0.1, "a model", lambda release_id: same, release_id="two")
    assert ledger.fetch("one") == same


def _full(_):
    raise OSError(28, "No space left on device")
