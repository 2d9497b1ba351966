"""Commands that write, killed at any step (make soak): nothing is half done, a rerun is enough."""

import gzip
import os
import shutil
import signal
import sqlite3

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer

from sfumato import density, load, recommend, retrieve, telemetry
from sfumato.cli import app
from sfumato.privacy import Ledger
from support import cli_workspace
from support.kill_points import Killer

ROUNDS = int(os.environ.get("SFUMATO_KILLS", "200"))
# Files that are written, by which command. PAID: with a ledger, as release ID; FIRST: made before.
WRITING = {
    "s.sketch": "sketch build count-min keys.csv --column item --text",
    "m.sketch": "sketch merge a.sketch b.sketch",
    "s.release": "sketch release a.sketch --epsilon 0.001 PAID",
    "large.release": "sketch release large.sketch --epsilon 0.001 PAID",
    "d.sfu": "fit train.csv --dense --epochs 1",
    "p.sfu": "fit train.csv --epsilon 0.01 --delta 1e-9 --bounds 1 5 "
    "--catalogue items.txt --accounts users.txt --report r.json PAID",
    "learn.csv held.csv": "split few.csv",
    "shop.csv": "generate --users 40 --items 60 --rows 900",
    "c.html": "compare few.csv --models item-neighbours",
    "t.sfu": "tune few.csv --dense --epochs 1 --factors 2 --log t.log",
    "b.profiles": "profiles release train.csv --mechanism blip --epsilon 0.001 "
    "--users users.txt --report r.json PAID",
    "i.index": "index build base.npy --bits 64",
    "j.index": "index add a.index more.npy",
    "k.index": "index remove a.index 3",
    "p.json": "telemetry params --bits 32 --hashes 2 --cohorts 8 -f 0.5",
    "q.json": "telemetry plan --reports 100000 --dictionary 20 --epsilon 2",
    "r.ndjson": "telemetry encode words.txt --params t.json",
    "r.ndjson.gz": "telemetry encode words.txt --params t.json",
    "r.counts": "telemetry aggregate t.ndjson --params t.json",
    "t.csv": "telemetry decode t.ndjson --params t.json --candidates list.txt --plot t.png",
    "u.csv": "telemetry associate o.ndjson u.ndjson --params-first o.json --params-second u.json",
    "found.csv": "telemetry discover d.ndjson --params d.json",
    "d.density": "density build points.csv --columns a,b --bounds 0,100 --bandwidth 10",
    "q.density": "density build points.csv --columns a,b --bounds 0,100 --bandwidth 10 "
    "--epsilon 0.01 PAID",
    "rows.parquet": "density sample a.density -n 50",
    "f.csv": "density query a.density points.csv --plot f.png",
    "c.csv": "density classify c.density points.csv",
    "v.csv": "density regress v.density points.csv",
    "o.csv": "density anomalies o.density points.csv",
    "i.parquet": "mine itemsets baskets.dat --min-support 3",
    "i.itemsets": "mine itemsets baskets.dat --epsilon 0.01 --max-items 4 --vocabulary ids.txt "
    "PAID",
    "k.csv": "mine rules baskets.dat --min-support 3 --figure k.png",
    "l.csv": "mine similar few.txt --figure l.svg",
    "w.csv": "mine rank links.txt --figure w.png",
    "x.csv": "mine cluster points.csv -k 3 --figure x.png",
    "x.centres": "mine cluster points.csv -k 3 --epsilon 0.01 --bounds 0,100 PAID",
    "y.parquet": "mine svd few.csv --rank 2 --figure y.png",
    "y.csv": "mine cur few.csv --columns 5 --rows 5",
    "m": "audit model a.sfu --train few.csv --test test.csv",
    "n": "audit profiles tiny.csv --mechanism blip --epsilon 1 --attacked 2",
    "z.release": "budget resume shop.ledger FIRST",
}


def writing_commands():
    """Every command that takes --force; `budget create` is tested apart."""
    waiting = [((), typer.main.get_command(app))]
    while waiting:
        path, command = waiting.pop()
        inner = getattr(command, "commands", {})
        waiting += [((*path, name), each) for name, each in inner.items()]
        if any("--force" in each.opts for each in command.params):
            yield " ".join(path)


def test_every_writing_command_is_killed():
    commands = set(writing_commands())
    assert len(commands) > 20
    killed = {
        each for each in commands for result in WRITING.values() if f"{result} ".startswith(each)
    }
    assert commands == killed


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Inputs of every command that writes."""
    folder = cli_workspace.opened(tmp_path_factory.mktemp("shop"))
    random = np.random.default_rng(0)
    (folder / "keys.csv").write_text("item\n" + "\n".join(f"key {k % 97}" for k in range(2000)))
    few = (folder / "train.csv").read_text().splitlines(keepends=True)[:800]
    (folder / "few.csv").write_text("".join(few))
    (folder / "tiny.csv").write_text("".join(few[:150]))
    for name in ("base", "more"):
        np.save(folder / f"{name}.npy", random.normal(size=(500, 16)).astype(np.float32))
    (folder / "words.txt").write_text("\n".join(f"word{k % 20}" for k in range(3000)))
    (folder / "list.txt").write_text("\n".join(f"word{k}" for k in range(20)))
    (folder / "kinds.txt").write_text("word0\nword1\nword2\n")
    (folder / "few-words.txt").write_text("\n".join(f"word{k % 3}" for k in range(3000)))
    (folder / "baskets.dat").write_text("1 2 3\n2 3\n4\n" * 100)
    (folder / "few.txt").write_text("a rose is a rose\na daisy\nA rose is a rose!\n" * 3)
    (folder / "ids.txt").write_text("1\n2\n3\n4\n")
    (folder / "links.txt").write_text("# links\n1 2\n2 3\n3 1\n4 1\n")
    points = random.uniform(0, 100, (500, 2))
    rows = [f"{a},{b},{'xy'[int(a > 50)]},{a + b}" for a, b in points]
    (folder / "rows.csv").write_text("\n".join(["a,b,label,target", *rows]))
    (folder / "points.csv").write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in points))
    scheme = "telemetry params --scheme subset-selection --categories kinds.txt --epsilon 2"
    build = "density build rows.csv --columns a,b --bounds 0,100"
    for words in (
        "sketch build count-min keys.csv --column item --text --set width=256 -o a.sketch",
        "sketch build count-min keys.csv --column item --text --set width=256 -o b.sketch",
        "sketch build count-min keys.csv --column item --text --set width=8192 -o large.sketch",
        "index build base.npy --bits 64 -o a.index",
        "telemetry params --bits 32 --hashes 2 --cohorts 8 -f 0.5 -o t.json",
        "telemetry encode words.txt --params t.json -o t.ndjson",
        f"{scheme} --metric one -o o.json",
        f"{scheme} --metric two -o u.json",
        "telemetry encode few-words.txt --params o.json -o o.ndjson",
        "telemetry params --scheme prefix-discovery --epsilon 4 --length 4 -o d.json",
        "telemetry encode words.txt --params d.json -o d.ndjson",
        "telemetry encode few-words.txt --params u.json -o u.ndjson",
        "fit train.csv --dense --epochs 1 -o a.sfu",
        f"{build} --bandwidth 10 -o a.density",
        f"{build} --label label -o c.density",
        f"{build} --target target -o v.density",
        f"{build} --kind anomalies -o o.density",
    ):
        cli_workspace.run(folder, *words.split())
    return folder


LOADERS = {
    ".sfu": recommend.load,
    ".density": density.load,
    ".index": retrieve.load,
    ".counts": telemetry.Counts.load,
}


def whole(path):
    """Whether the file is one that a reader takes."""
    data = path.read_bytes()
    if data.startswith((b"SFUM", b"SFIX")):
        LOADERS.get(path.suffix, load)(path)
    elif path.suffix == ".parquet":
        pq.read_table(path)
    elif path.suffix == ".gz":
        assert gzip.decompress(data).endswith(b"}\n")
    elif path.suffix == ".png":
        assert data.endswith(b"IEND\xaeB`\x82")
    elif path.suffix == ".html":
        assert data.rstrip().endswith(b"</html>")
    elif path.suffix != ".log":  # its last line may be cut off
        assert data.endswith(b"\n")


def files(folder):
    """The bytes of all files but the ledger's."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if not path.name.startswith("shop.ledger")
    }


@pytest.mark.soak
@pytest.mark.parametrize("name", WRITING)
def test_a_killed_command_leaves_nothing_half_done(shop, tmp_path, name):
    folder, random = tmp_path / "shop", np.random.default_rng(len(name))
    shutil.copytree(shop, folder)
    result, ledger = WRITING[name], Ledger(folder / "shop.ledger")
    delta = 0.001 if "--delta" in result else 0
    unit = "item of a profile" if "profiles release" in result else "event"
    unit = "basket" if "mine itemsets" in result else unit
    ledger.create("rows", epsilon=1000, delta=delta, unit=unit)
    paid, charged = "PAID" in result, 0

    def words(at):
        with_ledger = f"--ledger shop.ledger --dataset rows --release-id round{at}"
        given = result.replace("PAID", with_ledger).replace("FIRST", "roundfirst")
        return [*given.split(), "-o", *name.split(), "--force"]

    if "FIRST" in result:
        release = WRITING["s.release"].replace("PAID", "--ledger shop.ledger --dataset rows")
        cli_workspace.run(folder, *release.split(), "--release-id", "roundfirst", "-o", name)
        (folder / name).unlink()
        charged += 1
    inputs = files(folder)
    with Killer(folder) as killer:
        assert killer.run(words("warm"))[0] == 0, folder.with_suffix(".errors").read_text()
        outputs = {each for each in files(folder) if each not in inputs}
        assert outputs
        steps, usual = [0, 0], 0.0  # where outputs are there, and where not
        for absent in (False, True):
            for each in outputs if absent else ():
                (folder / each).unlink()
            code, steps[absent], usual = killer.run(words(f"first{absent:d}"))
            assert (code, steps[absent] > 0) == (0, True)
        charged += 3 * paid
        at = killed = 0
        while killed < ROUNDS:
            at += 1
            assert at <= 2 * ROUNDS + 10, "few commands were killed before their end"
            absent = at % 3 == 0
            for each in outputs if absent else ():
                (folder / each).unlink()
            before, spent = files(folder), ledger.spent("rows").epsilon
            step = int(random.integers(1, steps[absent] + 1)) if at % 2 == 0 else 0
            seconds = 0.0 if step else usual * random.random()
            ledger.close()  # so that nobody else has it open
            code, *_ = killer.run(words(at), step, seconds)
            killed += code == -signal.SIGKILL
            assert code in (0, -signal.SIGKILL)
            after = files(folder)
            for each in outputs:
                if after.get(each) != before.get(each):
                    whole(folder / each)
            assert {each: after.get(each) for each in inputs} == inputs
            charges = [charge.release_id for charge in ledger.history("rows")]
            assert len(charges) - charged in ((0, 1) if paid else (0,))
            assert ledger.verify().entries >= len(charges)
            assert spent <= ledger.spent("rows").epsilon <= 1000
            assert killer.run(words(at))[0] == 0
            charged += paid
            found = ledger.find(f"round{at}")
            assert (found is not None and not found.unfinished) == paid
            assert len(ledger.history("rows")) == charged
            made, spent = files(folder), ledger.spent("rows").epsilon
            assert made.keys() == inputs.keys() | outputs
            for each in outputs:
                whole(folder / each)
            if at % 10 == 1 and paid:  # a retry is the same release and costs nothing
                assert killer.run(words(at))[0] == 0
                assert files(folder)[name] == made[name]
                assert ledger.spent("rows").epsilon == spent
    ledger.verify()
    assert not [each for each in folder.glob("*.blobs/*.part") if each.stem not in digests(ledger)]
    print(f"{name}: {killed} of {at} killed, {steps[1]} steps, {usual:.3f} s usual", flush=True)


def digests(ledger):
    """Of the releases that a ledger keeps beside its file."""
    with sqlite3.connect(ledger.path) as file:
        return {each for (each,) in file.execute("SELECT digest FROM stored WHERE bytes IS NULL")}


def killed_at(killer, words, step, seconds=0.0):
    """Whether the command reached that step or time, and was killed there."""
    code, *_ = killer.run(words, step, seconds)
    assert code in (0, -signal.SIGKILL)
    return code != 0


def created(folder, killer, step, seconds=0.0):
    """Kill a `budget create` at a step or a time, then run it again; whether it was killed."""
    for path in folder.glob("a.ledger*"):
        path.unlink()
    words = ["budget", "create", "a.ledger", "rows", "--epsilon", "1"]
    killed = killed_at(killer, words, step, seconds)
    ledger = folder / "a.ledger"
    if ledger.exists():
        with Ledger(ledger) as held:
            assert held.verify().entries in (0, 1)
    code, *_ = killer.run(words)
    assert code in (0, 2)  # 2: it is there already, with its budget
    with Ledger(ledger) as held:
        assert held.verify().entries == 1
        assert held.remaining("rows").epsilon == 1
    assert [path.name for path in folder.iterdir()] == ["a.ledger"]
    return killed


def test_a_budget_create_killed_at_any_step_leaves_a_ledger_or_none(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with Killer(folder) as killer:
        killer.run(["budget", "create", "a.ledger", "rows", "--epsilon", "1"])
        step = 1
        while created(folder, killer, step):
            step += 1
    assert step > 20


def test_a_resume_killed_at_any_step_leaves_the_old_output_or_the_new(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with Ledger(folder / "a.ledger") as ledger:
        ledger.create("rows", epsilon=1)
        ledger.release("rows", 0.1, "a count", lambda release_id: b"new" * 99, release_id="one")
    output, new = folder / "out", b"new" * 99
    words = ["budget", "resume", "a.ledger", "one", "-o", "out", "--force"]
    with Killer(folder) as killer:
        for old in (None, b"old"):
            killed, step = True, 0
            while killed:
                output.unlink(missing_ok=True) if old is None else output.write_bytes(old)
                killed = killed_at(killer, words, step := step + 1)
                assert (output.read_bytes() if output.exists() else None) in (old, new)
                assert killer.run(words)[0] == 0
                assert output.read_bytes() == new
                assert {path.name for path in folder.iterdir()} <= LEFT
            assert step > 20


LEFT = {"a.ledger", "a.ledger-wal", "a.ledger-shm", "out"}


@pytest.mark.soak
def test_a_budget_create_killed_at_any_time_leaves_a_ledger_or_none(tmp_path):
    random, folder, killed = np.random.default_rng(3), tmp_path / "folder", 0
    folder.mkdir()
    words = ["budget", "create", "a.ledger", "rows", "--epsilon", "1"]
    with Killer(folder) as killer:
        killer.run(words)
        while killed < ROUNDS:
            killed += created(folder, killer, 0, 0.02 * random.random() + 1e-3)
    print(f"budget create: {killed} killed", flush=True)
