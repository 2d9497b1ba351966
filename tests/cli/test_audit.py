"""`sfumato audit mechanism`: its table, its exit code, its refusals; its help stays light."""

import inspect
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sfumato.attack.mechanism_audit import cases
from sfumato.cli import app
from sfumato.cli import audit as command
from sfumato.privacy import mechanisms


def run(*arguments):
    return CliRunner().invoke(app, ["audit", "mechanism", *map(str, arguments)])


@pytest.mark.parametrize("name", cases.CASES)
def test_shipped_mechanisms_pass(name):
    # Seeded; a true claim fails by chance with p <= 1e-8. 0.56 and more is measured of each.
    result = run(name, "--seed", 1, "--trials", 50_000, "--confidence", 1 - 1e-8, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["mechanism"] == name
    assert document["passed"] is True
    assert 0.4 < document["epsilon"] <= document["claimed"] <= 1.0000001
    assert document["trials"] == 50_000
    assert document["delta"] == (1e-6 if name == "gaussian" else 0)


def test_the_table_names_what_was_claimed_and_measured():
    out = run("laplace", "--seed", 1, "--trials", 2000, "--epsilon", 0.5).stdout
    for words in ("claimed epsilon", "measured lower bound", "certifiable ceiling", "verdict"):
        assert words in out
    assert "passed" in out
    assert "2,000" in out


def test_a_broken_mechanism_gives_exit_code_1(monkeypatch):
    class Broken(mechanisms.Laplace):
        def sample(self, value, trials, *, source=None):
            return mechanisms.Laplace(1, 4).sample(value, trials, source=source)

    monkeypatch.setitem(cases.CASES, "laplace", lambda epsilon, delta: (Broken(1, 1), (0, 1)))
    result = run("laplace", "--seed", 1, "--trials", 20_000)
    assert result.exit_code == 1
    assert "FAILED: the measured bound exceeds the claim" in result.stdout
    assert json.loads(run("laplace", "--seed", 1, "--json").stdout)["passed"] is False


def test_one_seed_gives_one_answer_and_none_gives_fresh_runs():
    same = [run("laplace", "--seed", 7, "--trials", 1000, "--json").stdout for _ in range(2)]
    assert same[0] == same[1]
    # The counts of six runs are all alike with p < 1e-6: each varies by about 20 of 500.
    fresh = {run("laplace", "--trials", 1000, "--json").stdout for _ in range(6)}
    assert len(fresh) > 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no-such"], "audit: mechanism must be one of 'binary-response'"),
        (["laplace", "--epsilon", 0], "audit: --epsilon must be a finite number above 0, not 0.0"),
        (["laplace", "--epsilon", "nan"], "audit: --epsilon"),
        (["laplace", "--trials", 3], "audit: --trials must be an integer from 16 up, not 3"),
        (["laplace", "--confidence", 1], "audit: --confidence"),
        (["laplace", "--delta", 1], "audit: --delta"),
        (["gaussian", "--delta", 0], "delta"),
        (["laplace", "--seed", -1], "InsecureSeededSource: --seed"),
    ],
)
def test_bad_values_are_one_line_and_exit_code_2(arguments, sentence):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("sfumato: ")
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr


def test_every_public_mechanism_can_be_named_and_help_names_them():
    assert ", ".join(sorted(cases.CASES)) == command.NAMES
    public = {getattr(mechanisms, name) for name in mechanisms.__all__}
    wanted = {
        kind
        for kind in public
        if inspect.isclass(kind)
        and issubclass(kind, mechanisms.Mechanism)
        and kind is not mechanisms.Mechanism
    }
    assert wanted == {type(cases.named(name, 1)[0]) for name in cases.CASES}
    assert "permute-and-flip" in run("--help").stdout


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from sfumato.cli import audit; "
        "print([m for m in ('numpy', 'scipy', 'numba', 'rich') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
