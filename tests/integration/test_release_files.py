"""What a release carries beside its code: citation, licences of dependencies, the mark of types."""

import importlib.util
import re
import tomllib
from pathlib import Path

import sfumato

ROOT = Path(__file__).parents[2]


def licences():
    spec = importlib.util.spec_from_file_location("licences", ROOT / "docs" / "licences.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_every_package_of_an_installation_has_a_row_with_its_licence():
    page = (ROOT / "docs" / "licences.md").read_text()
    rows = dict(re.findall(r"^\| ([\w.-]+) \| (.+?) \| sfumato", page, re.M))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [project["optional-dependencies"][extra] for extra in licences().EXTRAS]
    lines = [line for each in (project["dependencies"], *extras) for line in each]
    direct = {re.match(r"[\w-]+", line)[0] for line in lines if ";" not in line}
    assert direct <= set(rows)
    assert all(licences().licence(name).strip() for name in direct)


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.+)$", text, re.M)[1] == sfumato.__version__


def test_the_changes_begin_with_this_version_on_the_day_of_the_citation():
    text = (ROOT / "CHANGELOG.md").read_text()
    version, day = re.match(r"# Changes\n\n## (\S+) \((\S+)\)\n", text).groups()
    citation = (ROOT / "CITATION.cff").read_text()
    assert version == sfumato.__version__
    assert day == re.search(r"^date-released: (.+)$", citation, re.M)[1]
    sections = text.split("\n## ")[1]
    assert re.findall(r"^### (.+)$", sections, re.M) == ["Added", "Changed", "Fixed"]


def test_type_checkers_find_the_types_of_the_package():
    assert (Path(sfumato.__file__).parent / "py.typed").exists()
