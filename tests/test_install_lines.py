"""Every line that tells people to install something installs it, in an empty environment, and all that a page uses.

pip finds our packages nowhere but in this clone: a line names their folders, or ``constraints.txt`` does. uv resolves
them as pip would, without the workspace that shows it every package of the clone: a sample of the lines by default, and
all with ``--everything``, when pip installs some as well. What ``memoranda new-plugin`` prints is executed by
``test_new_plugin.py``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from memoranda.plugins import CommandSpec, default_registry, how_to_install
from memoranda.plugins.installing import OURS

ROOT = Path(__file__).parents[1]
STANDARD = "-r requirements.txt"
CONSTRAINTS = "-c constraints.txt"
TEXTS = [
    *(path for pattern in ("*.md", "docs/**/*.md", "core/*.md", "plugins/*/*/*.md") for path in ROOT.glob(pattern)),
    *(path for path in (ROOT / "examples").rglob("*") if path.suffix in (".md", ".py") or path.name == "Dockerfile"),
]
PAGES = [path for path in sorted(TEXTS) if path.suffix in (".md", ".py") and path.name != "CHANGELOG.md"]
INSTALLATION = re.compile(r"(?<![\w\"'{])pip install ((?:[^`|\n&\\]|\\\n)+?(?:\n[^`|\n&]+(?=`))?)(?=[`|\n&]|$)")
BLOCKS = re.compile(r"^ *```(?:python|console)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
EXTRAS = {"memoranda-vector": ["ann"], "memoranda-embed-static": ["minilm"]}
"""The extras that error messages name."""
OLD_PIP = "pip==23.2.1"
"""What a new environment of Python 3.11.7 and 3.12.0 has."""
GROUPS = ("--group", "test", "--group", "lint", "--group", "types")
ADDED_LATER = ("memoranda-inspector", "memoranda-postgres", "memoranda-summary-facts")
FOLDERS = {
    tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"]: path.parent.relative_to(ROOT).as_posix()
    for path in (ROOT / "core" / "pyproject.toml", *ROOT.glob("plugins/*/*/pyproject.toml"))
}
"""The folder of each distribution of ours."""


def lines_of(path: Path) -> list[str]:
    """Return what the page says to install, after ``pip install``; a line that is wrapped or continued is one line."""
    found = INSTALLATION.findall(path.read_text(encoding="utf-8"))
    return [" ".join(line.replace("\\\n", " ").split()) for line in found]


def folders(line: str) -> dict[str, set[str]]:
    """Return the folders of the clone that a line installs, by folder or by name, with their extras."""
    words = [word for word in shlex.split(line) if (ROOT / word.partition("[")[0] / "pyproject.toml").is_file()]
    for word in shlex.split(line):
        name, bracket, extras = word.partition("[")
        if name in FOLDERS:
            words.append(f"{FOLDERS[name]}{bracket}{extras}")
    if STANDARD in line:
        words += [word for word in (ROOT / "requirements.txt").read_text().splitlines() if word.startswith("./")]
    found: dict[str, set[str]] = {}
    for word in words:
        folder, _, extras = word.removeprefix("./").rstrip("]").partition("[")
        found.setdefault(folder, set()).update(filter(None, extras.split(",")))
    return found


def needed(folder: str, extras: set[str]) -> dict[str, set[str]]:
    """Return the folders that one of the clone asks for by itself, with the extras that it asks for."""
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project.get("optional-dependencies", {})
    assert extras <= set(optional), f"{folder} has no extra {extras - set(optional)}"
    asked = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    ours = [requirement for requirement in map(Requirement, asked) if requirement.name in OURS]
    return {FOLDERS[requirement.name]: requirement.extras for requirement in ours}


def installed(line: str) -> set[str]:
    """Return the folders of the clone that a line brings, with all that they need."""
    found: dict[str, set[str]] = {}
    waiting = list(folders(line).items())
    while waiting:
        folder, extras = waiting.pop()
        if folder not in found or not extras <= found[folder]:
            found.setdefault(folder, set()).update(extras)
            waiting += needed(folder, extras).items()
    return set(found)


def told() -> dict[str, str]:
    """Return every line of the pages with where it stands."""
    return {line: str(path.relative_to(ROOT)) for path in sorted(TEXTS) for line in lines_of(path)}


LINES = told()


def run(*arguments: str | Path, **settings: str) -> str:
    """Run a program in the clone to its end, without the settings of the environment that runs these tests."""
    inherited = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    clean = {key: value for key, value in inherited.items() if not key.startswith("MEMORANDA")}
    command = [str(argument) for argument in arguments]
    done = subprocess.run(command, cwd=ROOT, env=clean | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of uv; where there is none, it is installed for these tests."""
    found = shutil.which("uv")
    if found is None:
        folder = tmp_path_factory.mktemp("uv")
        run(sys.executable, "-m", "venv", folder)
        run(programs(folder) / "python", "-m", "pip", "install", "--quiet", "uv")
        found = str(programs(folder) / "uv")
    return found


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment without any package."""
    folder = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    return programs(folder) / "python"


def programs(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin")


NAMES = [f"{place}: {line}" for line, place in LINES.items()]


def section(place: str) -> str:
    """Return the part of the documentation where a line stands: a folder of pages, the READMEs, the messages."""
    return str(Path(place).parent) if place.startswith("docs") else place.partition("/")[0].partition(" memoranda")[0]


def test_lines_are_found_wherever_they_stand() -> None:
    """In blocks, in sentences, wrapped, continued and in the first lines of programs."""
    assert {"docs", "examples", "plugins", "README.md"} <= {place.partition("/")[0] for place in LINES.values()}
    tutorial = ROOT / "docs" / "pages" / "tutorials" / "write-a-backend.md"
    assert f"{CONSTRAINTS} './core[testing]'" in lines_of(tutorial)
    assert any("'plugins/backends/redis[test]'" in line for line in lines_of(ROOT / "CONTRIBUTING.md"))


@pytest.mark.parametrize("line", LINES, ids=NAMES)
def test_a_line_finds_all_that_it_needs_in_the_clone(line: str) -> None:
    """Whatever it names or needs of ours is a folder on the line, or the constraints say where that is."""
    if CONSTRAINTS not in line:
        assert not {word.partition("[")[0] for word in shlex.split(line)} & OURS, "No release is on the package index."
        assert installed(line) == set(folders(line))


def test_the_constraints_name_every_distribution_of_the_clone() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    named = [Requirement(line) for line in lines if not line.startswith("#")]

    assert {each.name: each.url for each in named} == {
        name: f"file://${{PWD}}/{folder}" for name, folder in sorted(FOLDERS.items())
    }
    assert set(FOLDERS) == OURS


@pytest.mark.parametrize("distribution", sorted(OURS - {"memoranda"}))
def test_what_a_message_says_to_install_is_an_extra_of_the_core(distribution: str) -> None:
    settings = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text(encoding="utf-8"))
    (said,) = re.findall(r"^pip install 'memoranda\[(.+)\]'$", how_to_install(distribution))

    assert [Requirement(line).name for line in settings["project"]["optional-dependencies"][said]] == [distribution]


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in sorted(TEXTS)])
def test_a_page_says_what_a_message_says(path: Path) -> None:
    """``pip install 'memoranda[postgres]'``, or the same extra of ``./core`` in a clone. No package is named alone."""
    lines = lines_of(path)

    assert not {word for line in lines for word in shlex.split(line) if word in OURS}, "Name them as extras."
    assert not [line for line in lines if CONSTRAINTS in line and "memoranda[" in line], "pip before 23.3 refuses it."


@pytest.mark.parametrize(("distribution", "extra"), [(name, extra) for name in EXTRAS for extra in EXTRAS[name]])
def test_an_extra_that_a_message_names_is_there(distribution: str, extra: str) -> None:
    assert how_to_install(distribution, extra) == f"pip install '{distribution}[{extra}]'"
    assert needed(FOLDERS[distribution], {extra})


def used_in(path: Path) -> set[str]:
    """Return the distributions of ours that a page or a program imports, or whose commands a page runs."""
    text = path.read_text(encoding="utf-8")
    blocks = "\n".join(BLOCKS.findall(text)) if path.suffix == ".md" else text
    imported = re.findall(r"^ *(?:from|import) (memoranda\w*)", blocks, re.MULTILINE)
    offered = {
        spec.name: plugin.distribution
        for plugin in default_registry().plugins
        for spec in plugin.specs
        if isinstance(spec, CommandSpec)
    }
    run = {offered.get(name, "") for name in re.findall(r"^\$ memoranda ([a-z-]+)", blocks, re.MULTILINE)}
    return ({name.replace("_", "-") for name in imported} | run) & OURS


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in PAGES])
def test_a_page_installs_all_that_it_uses(path: Path) -> None:
    """Beyond the standard set, which readers have from the README."""
    brought = installed(" ".join([STANDARD, *lines_of(path)]))

    assert {FOLDERS[name] for name in used_in(path)} <= brought


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=pytest.mark.rare(f"lines of {section(place)}")) for line, place in LINES.items()],
    ids=NAMES,
)
def test_a_line_can_be_installed(line: str, uv: str, empty: Path) -> None:
    words = [word for word in shlex.split(line) if word != "--no-cache-dir"]

    planned = run(uv, "pip", "install", "--dry-run", "--no-sources", "--python", empty, *words, PWD=str(ROOT))

    assert "Would install" in planned


@pytest.mark.slow
def test_the_clone_is_one_workspace(uv: str, tmp_path: Path) -> None:
    """``uv sync`` installs every package of the clone, with the groups that the page for contributors names."""
    planned = run(uv, "sync", "--dry-run", *GROUPS, UV_PROJECT_ENVIRONMENT=str(tmp_path / "environment"))

    assert set(re.findall(r"^ \+ (memoranda[\w-]*)(?:==| @ )", planned, re.MULTILINE)) == OURS


def test_the_standard_set_is_complete_and_quickly_built() -> None:
    """pip makes an environment for each folder that it builds, which takes seconds."""
    assert installed(STANDARD) == set(folders(STANDARD))
    assert len(folders(STANDARD)) <= 8


def test_a_release_has_the_same_standard_set() -> None:
    settings = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text(encoding="utf-8"))
    extra = {Requirement(line).name for line in settings["project"]["optional-dependencies"]["standard"]}

    assert {FOLDERS[name] for name in extra} | {"core"} == set(folders(STANDARD))


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_pip_adds_plugins_to_the_standard_set(tmp_path: Path) -> None:
    """pip installs for real, one page after the other, and the command finds all of them."""
    run(sys.executable, "-m", "venv", tmp_path)
    pip = programs(tmp_path) / "pip"
    run(programs(tmp_path) / "python", "-m", "pip", "install", "--quiet", OLD_PIP)

    run(pip, "install", "--quiet", *shlex.split(STANDARD))
    run(programs(tmp_path) / "memoranda", "demo", "--store", "memory://")
    for name in ADDED_LATER:
        said = shlex.split(how_to_install(name).removeprefix("pip install ").replace("memoranda[", "./core["))
        run(pip, "install", "--quiet", *shlex.split(CONSTRAINTS), *said, PWD=str(ROOT))

    listed = run(programs(tmp_path) / "memoranda", "plugins")
    assert all(name.removeprefix("memoranda-") in listed for name in ADDED_LATER)
