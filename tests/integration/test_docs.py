"""What the documentation says is there, and what is there is in the documentation."""

import importlib.util
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner

import sfumato.attack
import sfumato.data
import sfumato.density
import sfumato.engine.spark
import sfumato.privacy.mechanisms
import sfumato.profile
import sfumato.recommend.metrics
import sfumato.retrieve
import sfumato.sketch
import sfumato.telemetry
from sfumato.sketch import Sketch
from support.benchmarks import benchmark

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "web/README.md")]
PAGES += sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "docs" / "how_to").glob("*.md"))


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_every_public_name_of_engines_is_explained():
    text = (ROOT / "docs" / "engines.md").read_text()
    names = [*sfumato.engine.__all__, *sfumato.engine.spark.__all__]
    assert [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", text)] == []


@pytest.mark.parametrize("room", [sfumato.privacy, sfumato.privacy.mechanisms, sfumato.attack])
def test_every_public_name_of_privacy_is_explained(room):
    text = (ROOT / "docs" / "privacy.md").read_text()
    assert [name for name in room.__all__ if not re.search(rf"`[^`\n]*\b{name}\b", text)] == []


def test_every_public_name_of_profile_is_explained():
    text = (ROOT / "docs" / "profiles.md").read_text()
    names = sfumato.profile.__all__
    assert [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", text)] == []


def test_every_public_name_of_retrieval_is_explained():
    text = (ROOT / "docs" / "retrieval.md").read_text()
    names = sfumato.retrieve.__all__
    assert [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", text)] == []


@pytest.mark.parametrize(
    ("room", "page"),
    [
        ("itemsets", "mining"),
        ("similar", "mining"),
        ("cluster", "clustering"),
        ("decompose", "decomposition"),
    ],
)
def test_every_public_name_of_mining_is_explained(room, page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    names = getattr(sfumato.mine, room).__all__
    assert [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", text)] == []


def test_every_public_name_of_ranking_is_explained():
    pages = ("ranking.md", "ranking_measures.md")
    text = "".join((ROOT / "docs" / page).read_text() for page in pages)
    names = sfumato.mine.rank.__all__
    assert [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", text)] == []


def test_every_public_name_of_clustering_is_explained():
    text = (ROOT / "docs" / "clustering.md").read_text()
    names = sfumato.mine.cluster.__all__
    assert [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", text)] == []


def test_every_public_name_of_telemetry_is_explained():
    text = (ROOT / "docs" / "telemetry.md").read_text()
    names = sfumato.telemetry.__all__
    assert [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", text)] == []


def test_every_public_name_of_density_is_explained():
    text = (ROOT / "docs" / "density.md").read_text()
    names = sfumato.density.__all__
    assert [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", text)] == []


def test_every_release_has_its_row():
    text = (ROOT / "docs" / "privacy.md").read_text()
    released = [name for name in sfumato.sketch.__all__ if name.startswith("Released")]
    assert released
    assert [name for name in released if f"`{name}`" not in text] == []


def test_every_sketch_has_a_row():
    text = (ROOT / "docs" / "sketches.md").read_text()
    for name in sfumato.sketch.__all__:
        kind = getattr(sfumato.sketch, name)
        if isinstance(kind, type) and issubclass(kind, Sketch) and kind is not Sketch:
            assert f"| `{name}` |" in text


def test_commands_page_is_the_help_of_the_commands():
    page = module(ROOT / "docs" / "commands.py").page()
    assert (ROOT / "docs" / "commands.md").read_text() == page, "run make docs"


def test_factorization_page_is_the_measured_figures():
    page = module(ROOT / "docs" / "factorization.py").page()
    assert (ROOT / "docs" / "factorization.md").read_text() == page, "run make docs"


def test_reconstruction_page_is_the_measured_figures():
    page = module(ROOT / "docs" / "reconstruction.py").page()
    assert (ROOT / "docs" / "reconstruction.md").read_text() == page, "run make docs"


def test_codes_page_is_the_measured_figures():
    page = module(ROOT / "docs" / "codes.py").page()
    assert (ROOT / "docs" / "codes.md").read_text() == page, "run make docs"


def test_rappor_page_is_the_measured_figures():
    page = module(ROOT / "docs" / "rappor.py").page()
    assert (ROOT / "docs" / "rappor.md").read_text() == page, "run make docs"


def test_race_page_is_the_measured_figures():
    page = module(ROOT / "docs" / "race.py").page()
    assert (ROOT / "docs" / "race.md").read_text() == page, "run make docs"


def test_the_caption_of_the_home_page_has_the_measured_figures():
    epsilons, found = module(ROOT / "docs" / "home.py").figures()
    at = epsilons.index(8)
    caption = (ROOT / "docs" / "index.md").read_text().split("*Profiles of", 1)[1].split("*\n")[0]
    wanted = [found[name][at] for name in ("single", "popularity", "messages, taste")]
    assert re.findall(r"(\d+) %", caption) == [f"{each:.0f}" for each in wanted]


def test_every_room_has_its_place_on_how_it_works():
    text = (ROOT / "docs" / "how_it_works.md").read_text()
    headings = " ".join(re.findall(r"^## (.*)", text, re.M))
    rooms = [path.parent.name for path in (ROOT / "src" / "sfumato").glob("*/__init__.py")]
    assert [room for room in rooms if f"`{room}`" not in headings] == []


def test_the_drawings_are_those_of_their_script():
    drawings = module(ROOT / "docs" / "drawings.py")
    text = (ROOT / "docs" / "how_it_works.md").read_text()
    files = {path.stem: path.read_text() for path in (ROOT / "docs" / "drawings").glob("*.svg")}
    assert files == {name: drawings.svg(name) for name in drawings.DRAWINGS}
    assert sorted(re.findall(r"drawings/(\w+)\.svg", text)) == sorted(files)
    for drawn in files.values():  # nothing lies outside
        root = ElementTree.fromstring(drawn)
        width, height = map(int, root.attrib["viewBox"].split()[2:])
        for each in root.iter():
            assert 0 <= float(each.attrib.get("x", 0)) <= width
            assert 0 <= float(each.attrib.get("y", 0)) <= height


PAGES_OF_BENCHMARKS = [
    ("figures", "benchmarks"),
    ("calls", "calls"),
    ("spark", "spark"),
    ("how_private", "how_private"),
    ("evidence", "evidence"),
    ("service", "service"),
    ("comparison", "comparison"),
]


@pytest.mark.parametrize(("script", "name"), PAGES_OF_BENCHMARKS)
def test_pages_of_benchmarks_are_the_measured_figures(script, name):
    page = module(ROOT / "docs" / f"{script}.py").page()
    assert (ROOT / "docs" / f"{name}.md").read_text() == page, "run make docs"


def test_a_difference_within_the_ranges_of_the_seeds_is_a_tie():
    outcome = module(ROOT / "docs" / "comparison.py").outcome
    ours, near, far = ({"low": low, "high": low + 2} for low in (5, 7, 8))
    assert [outcome(ours, each, "higher") for each in (ours, near, far)] == ["tie", "tie", "loss"]
    assert [outcome(far, ours, better) for better in ("higher", "lower")] == ["win", "loss"]


def test_the_comparison_names_every_loss():
    comparison = module(ROOT / "docs" / "comparison.py")
    page = comparison.page()
    titles = ("Every loss to a peer", "Every loss to the trivial", "Every row behind a reference")
    for kind, title in zip(comparison.KINDS, titles, strict=True):
        named = page.split(f"## {title}\n")[1].split("\n## ")[0]
        for room, every in comparison.rooms().items():
            rows = comparison.judged(every)
            lost = [row for row in rows if comparison.result(row, kind) == "loss"]
            assert lost == [row for row in rows if comparison.beaten_by(row, kind)]
            if lost:
                table = named.split(f"### {room.capitalize()}: {len(lost)} of {len(rows)}\n")[1]
                found = table.split("### ")[0].splitlines()
                assert len(lost) == sum(line.startswith("| `") for line in found)
                for row in lost:
                    start = f"| `{row['model']}` | {row['data']} | {row['setting']} |"
                    assert any(line.startswith(start) for line in found)


def test_the_readme_is_short_and_has_the_measured_figures():
    text = (ROOT / "README.md").read_text()
    assert module(ROOT / "docs" / "readme.py").page() == text, "run make docs"
    assert len(text.splitlines()) < 120
    recipes = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert len(recipes) == 5  # each of which runs in test_pages.py
    assert max(len(list(filter(None, each.splitlines()))) for each in recipes) <= 6
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert len(pictures) == 1
    assert (ROOT / pictures[0]).exists()


def test_the_table_of_discovery_is_the_measured_figures():
    assert benchmark("discovery").page() in (ROOT / "docs" / "telemetry.md").read_text()


OWN = re.compile(r"`([A-Z][a-z]\w*[A-Z]\w*|[A-Z][a-z]{2,}|[a-z]+_[a-z_]+)(?:\(.*?\))?`")
# Pages that explain to newcomers: what they name must be public. Its plain words are columns.
ENTRANCES = [*(ROOT / "docs" / "how_to").glob("*.md"), *sorted((ROOT / "docs").glob("how_*.md"))]
ENTRANCES += [ROOT / "docs" / "start.md"]


@pytest.mark.parametrize("path", ENTRANCES, ids=lambda path: path.name)
def test_classes_and_functions_that_an_entrance_names_are_public(path):
    listed = (ROOT / "docs" / "api.txt").read_text()
    public = set(re.findall(r"\w+", listed))
    assert [name for name in OWN.findall(path.read_text()) if name not in public] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


GUIDES = ["CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md", "docs/deprecation.md"]


@pytest.mark.parametrize("name", GUIDES)
def test_paths_that_the_guides_name_are_there(name):
    # A path has a slash or a known ending; it starts at the root or, in the journeys, at a room.
    pattern = r"`([\w.-]+/[\w./-]*|[\w.-]+\.(?:py|md|toml|json|yaml|yml|txt))`"
    paths = set(re.findall(pattern, (ROOT / name).read_text())) - {"__init__.py"}
    assert paths
    places = (ROOT, ROOT / "src" / "sfumato")
    assert [path for path in paths if not any((at / path).exists() for at in places)] == []


def test_tables_that_the_guide_names_are_in_their_files():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.findall(r"`(\w+)` (?:of|in) `([\w./]+\.py)`", text)
    found += re.findall(r"`(\w+)` \(`([\w./]+\.py)`\)", text)
    assert len(found) > 10
    for name, path in found:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), (name, path)


def test_rooms_of_the_guide_are_the_rooms():
    drawing = re.search(r"```text\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)[1]
    rooms = [path.parent for path in (ROOT / "src" / "sfumato").glob("*/__init__.py")]
    assert [room.name for room in rooms if not re.search(rf"\b{room.name}\b", drawing)] == []
    below = {path.name for room in rooms for path in room.glob("*/") if path.name[0] != "_"}
    assert set(re.findall(r"(\w+)/", drawing)) <= below


def test_files_of_the_journeys_are_those_that_run():
    journeys = module(ROOT / "docs" / "journeys.py")
    listed = journeys.listed(journeys.PAGE.read_text())
    assert list(listed) == list(journeys.JOURNEYS)
    for name, files in listed.items():
        # Of noise a file may run rarely, so that the list may have more.
        assert set(journeys.traced(name).files) <= set(files), f"{name}: run make docs"


def test_the_version_is_stated_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert "version" not in project["project"]
    source = (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text()
    assert re.findall(r'^__version__ = "(.*?)"', source, re.M) == [sfumato.__version__]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == sfumato.__version__


def test_targets_of_the_makefile_exist():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    for path in PAGES:
        for name in re.findall(r"(?:`|^    )make ([a-z]+)", path.read_text(), re.M):
            assert name in targets, (path.name, name)


def test_every_public_name_of_recommenders_is_explained():
    text = (ROOT / "docs" / "recommend.md").read_text()
    names = [*sfumato.recommend.__all__, *sfumato.recommend.metrics.__all__, *sfumato.data.__all__]
    assert [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", text)] == []


def test_every_command_answers_help():
    from sfumato.cli import app

    commands = module(ROOT / "docs" / "commands.py").commands
    paths = [path for path, _ in commands(typer.main.get_command(app), "")]
    assert len(paths) > 12
    for path in paths:
        assert CliRunner().invoke(app, [*path.split(), "--help"]).exit_code == 0
