"""The list of mutants fits the source, and the runner tells a mutant that lives from one that dies.

That each of them dies is checked by `make mutants`, which takes minutes.
"""

from collections import Counter

from support.mutants import ROOT, SOURCE, Mutant, listed, outcome

MUTANTS = listed()


def test_the_list_is_long_and_names_nothing_twice():
    assert len(MUTANTS) >= 60
    assert not [str(each) for each, times in Counter(MUTANTS).items() if times > 1]


def test_no_mutant_is_stale():
    for mutant in MUTANTS:
        assert mutant.stale() == "", str(mutant)
        assert mutant.old != mutant.new, str(mutant)
        source = (ROOT / SOURCE / mutant.file).read_text().replace(mutant.old, mutant.new)
        compile(source, mutant.file, "exec")


def test_a_stale_mutant_is_noticed():
    test = "integration/test_mutants.py::test_a_stale_mutant_is_noticed"
    assert Mutant("privacy/noise/discrete.py", "DIGITS = 128", "", (test,)).stale() == ""
    for file, old, tests in [
        ("privacy/no.py", "DIGITS = 128", (test,)),
        ("privacy/noise/discrete.py", "DIGITS = 127", (test,)),
        ("privacy/noise/discrete.py", "DIGITS", (test,)),
        ("privacy/noise/discrete.py", "DIGITS = 128", ("test_no.py",)),
        ("privacy/noise/discrete.py", "DIGITS = 128", ("integration/test_mutants.py::test_no",)),
    ]:
        assert Mutant(file, old, "", tests).stale()


def test_mutants_that_live_die_and_break_are_told_apart(tmp_path):
    # A package of its own, so that one test of it takes no time; what it says comes from the copy.
    for name in ("original", "copy"):
        (tmp_path / name / SOURCE).mkdir(parents=True)
        (tmp_path / name / SOURCE / "__init__.py").write_text("ONE, TWO = 1, 2\n")
    (tmp_path / "test_tiny.py").write_text("import sfumato\ndef test(): assert sfumato.ONE == 1\n")
    tests = (str(tmp_path / "test_tiny.py"),)
    for old, new, word, seconds in [
        ("1, 2", "1, 3", "SURVIVED", 60),
        ("1, 2", "2, 2", "killed", 60),
        ("1, 2", "1 +", "broken", 60),
        ("ONE, TWO = 1, 2", "while True: pass", "killed by time", 3),
    ]:
        mutant = Mutant("__init__.py", old, new, tests)
        assert outcome(mutant, tmp_path / "original", tmp_path / "copy", seconds)[0] == word
        assert (tmp_path / "copy" / SOURCE / "__init__.py").read_text() == "ONE, TWO = 1, 2\n"
