"""`sfumato density build` is paid for once; its demo is near the truth; its pictures are drawn."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.cli.demo.density import density
from sfumato.density import SketchDensity
from sfumato.density.base import noise_from
from sfumato.privacy import Ledger
from sfumato.privacy.random_source import InsecureSeededSource
from support.cli_workspace import INTERRUPTIBLE, run

PRIVATE = ["--epsilon", "1", "--bounds", "0,100"]
WIDE = ["--bandwidth", "5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("paid")
    rows = np.random.default_rng(6).normal(50, 10, (500, 2))
    np.savetxt(here / "t.csv", rows, delimiter=",", header="a,b", comments="")
    np.save(here / "t.npy", rows)
    return here


def test_the_budget_pays_once_and_a_retry_is_the_same_release(folder):
    ledger = Ledger(folder / "rows.ledger")
    ledger.create("rows", epsilon=0.5)
    words = ["density", "build", "t.csv", "--columns", "a,b", "--bounds", "0,100", *WIDE]
    paid = ["--ledger", "rows.ledger", "--dataset", "rows"]
    refused = run(folder, *words, *paid, "--epsilon", "1", "-o", "l.d", code=2)
    assert "Nothing was charged" in refused
    assert not (folder / "l.d").exists()
    retry = [*words, *paid, "--epsilon", "0.4", "--release-id", "june", "--json", "-o"]
    first = json.loads(run(folder, *retry, "l.d"))
    again = run(folder, *retry, "m.d")
    assert "was stored before; nothing was drawn" in again
    assert (first["stored_before"], ledger.spent("rows").epsilon) == (False, 0.4)
    assert (folder / "l.d").read_bytes() == (folder / "m.d").read_bytes()
    assert not {"ledger", "dataset", "release_id"} & set(first["parameters"])


def test_a_failure_after_the_charge_tells_the_way_back(folder, monkeypatch):
    ledger = Ledger(folder / "full.ledger")
    ledger.create("rows", epsilon=1)
    words = ["density", "build", "t.csv", "--columns", "a,b", *PRIVATE, "-o", "full.d"]
    paid = ["--ledger", "full.ledger", "--dataset", "rows"]

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(SketchDensity, "save", full)
        output = run(folder, *words, *paid, code=2)
    charge = ledger.history("rows")[0].release_id
    assert f"--release-id {charge} was charged" in " ".join(output.split())
    again = run(folder, *words, *paid, "--release-id", charge, "--json")
    assert json.loads(again.splitlines()[0])["stored_before"]
    assert ledger.spent("rows").epsilon == 1


def test_the_demo_is_near_the_truth():
    found = {row["question"]: row for row in density(Console(file=io.StringIO()), rows=10_000)}
    # Noise has the standard deviation 0.0005 at a place and 0.01 for the slope: ten of them.
    row = found["how crowded is it around (25, 30)"]
    assert row["private"] == pytest.approx(row["truth"], abs=0.005)
    assert found["slope of the number along column 1"]["private"] == pytest.approx(2, abs=0.1)
    assert found["number of modes"]["not_private"] == 3
    right = found["right classes of fresh rows"]
    assert right["private"] > right["not_private"] - 0.05


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks at the files of a process")
def test_ctrl_c_while_reading_charges_and_writes_nothing(tmp_path):
    ledger = Ledger(tmp_path / "rows.ledger")
    ledger.create("rows", epsilon=1)
    code = INTERRUPTIBLE + "from sfumato.cli import main; main()"
    words = ["density", "build", "t.csv", "--columns", "a", *PRIVATE, "-o", "x.d"]
    (tmp_path / "t.csv").write_text("a\n" + "1\n" * 6_000_000)  # tens of seconds of reading
    running = subprocess.Popen(
        [sys.executable, "-c", code, *words, "--ledger", "rows.ledger", "--dataset", "rows"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not opened(running, "t.csv"):
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    columns, stopped = "sfumato: t.csv: column 'a'.\n", "sfumato: stopped; nothing was written.\n"
    assert errors in {columns + stopped, stopped}  # the latter if it came before the columns
    ledger.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.ledger", "t.csv"]
    assert ledger.spent("rows").epsilon == 0


def opened(process, name):
    """Whether a process has a file of this name open."""
    with contextlib.suppress(OSError):
        links = os.scandir(f"/proc/{process.pid}/fd")
        return any(os.path.basename(os.readlink(link.path)) == name for link in links)
    return False


@pytest.mark.parametrize(
    ("place", "begins", "columns", "options"),
    [
        ("m.png", b"\x89PNG", "a", PRIVATE),
        ("m.svg", b"<?xml", "a,b", PRIVATE),
        ("m.PDF", b"%PDF", "a,b", ["--bounds", "0,100"]),
    ],
)
def test_a_heat_map_is_drawn_in_the_form_asked_for(folder, place, begins, columns, options):
    words = ["density", "build", "t.csv", "--columns", columns, *options, *WIDE]
    run(folder, *words, "-o", "map.d", "--force", "--quiet")
    shown = run(folder, "density", "query", "map.d", "--plot", place, "--json")
    assert json.loads(shown) == {"plot": place}
    assert (folder / place).read_bytes().startswith(begins)


def test_a_heat_map_is_confirmed_beside_answers(folder):
    run(folder, "density", "build", "t.csv", *PRIVATE, *WIDE, "-o", "beside.d", "--quiet")
    words = ["density", "query", "beside.d", "--at", "50,50", "--plot", "beside.png", "--force"]
    assert run(folder, *words).splitlines()[-1] == "beside.png: a heat map."
    shown = json.loads(run(folder, *words, "--json"))
    assert (shown["plot"], len(shown["rows"])) == ("beside.png", 1)
    assert (folder / "beside.png").exists()


def test_rows_drawn_are_like_those_learned(folder):
    draw = np.random.default_rng(7)
    np.save(folder / "two.npy", draw.normal([[30], [70]], 3, (2, 2000)).reshape(-1, 1))
    run(folder, "density", "build", "two.npy", *PRIVATE, *WIDE, "-o", "two.d", "--quiet")
    run(folder, "density", "sample", "two.d", "-n", "2000", "--seed", "0", "-o", "two.csv")
    drawn = np.loadtxt(folder / "two.csv", delimiter=",", skiprows=1)
    assert (np.abs(np.abs(drawn - 50) - 20) < 12).mean() > 0.9


def test_a_warning_is_one_line_beside_the_document(folder, monkeypatch):
    monkeypatch.chdir(folder)
    words = ["density", "build", "t.csv", "--epsilon", "0.001", "--bounds", "0,100", *WIDE]
    with noise_from(InsecureSeededSource(3)):  # rare noise makes the count look large
        result = CliRunner().invoke(app, [*words, "-o", "faint.d", "--json"])
    assert json.loads(result.stdout)["private"]
    assert result.stderr.startswith("sfumato: SketchDensity: epsilon 0.001 is too small here")
    assert result.stderr.count("\n") == 1


def drawn(model, monkeypatch):
    """The axis of a picture."""
    from matplotlib.figure import Figure

    from sfumato.cli.density import figure

    retained = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: retained.append(self))
    figure.heat_map(model, figure.Path("x.png"))
    return retained[0].axes[0]


def test_the_first_column_goes_across_and_below_zero_is_dark(monkeypatch):
    rows = np.random.default_rng(1).normal([20, 60], 2, (2000, 2))
    bounds = ([0.0, 50.0], [100.0, 70.0])
    model = SketchDensity(bandwidth=2.0, kernel="gaussian", epsilon=1, bounds=bounds).fit(rows)
    axis = drawn(model, monkeypatch)
    image = axis.images[0]
    assert image.get_extent() == [0, 100, 50, 70]
    up, across = np.unravel_index(image.get_array().argmax(), image.get_array().shape)
    assert (across / 256 * 100, 50 + up / 256 * 20) == pytest.approx((20, 60), abs=2)
    assert image.get_clim()[0] == 0
    assert axis.get_title(loc="left").startswith("private, epsilon 1; noise of a value")
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("x0", "x1")


def test_a_curve_has_a_band_of_noise_only_where_there_is_noise(monkeypatch):
    rows = np.random.default_rng(1).normal(20, 2, (2000, 1))
    for epsilon, bands, title in ((1, 1, "private, epsilon 1"), (None, 0, "not private")):
        model = SketchDensity(bandwidth=2.0, bounds=(0, 100), epsilon=epsilon).fit(rows)
        axis = drawn(model, monkeypatch)
        assert len(axis.collections) == bands
        assert axis.get_title(loc="left").startswith(title)
        assert axis.get_ylabel() == "mean kernel value"
