"""Every line that tells people to install something installs it, in an empty environment.

The lines of the pages, of the examples and of error messages name all that is needed of this clone, since pip finds our
packages nowhere else. uv resolves them as pip would, without the workspace that shows it every package of the clone: a
sample of them by default, and all with ``--everything``, when pip installs some as well. What ``memoranda new-plugin``
prints is executed by ``test_new_plugin.py``.
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

from memoranda.plugins import how_to_install
from memoranda.plugins.installing import NEEDS, OURS

ROOT = Path(__file__).parents[1]
STANDARD = "-r requirements.txt"
TEXTS = [
    *(path for pattern in ("*.md", "docs/**/*.md", "core/*.md", "plugins/*/*/*.md") for path in ROOT.glob(pattern)),
    *(path for path in (ROOT / "examples").rglob("*") if path.suffix in (".md", ".py") or path.name == "Dockerfile"),
]
INSTALLATION = re.compile(r"(?<![\w\"'{])pip install ((?:[^`|\n&\\]|\\\n)+?(?:\n[^`|\n&]+(?=`))?)(?=[`|\n&]|$)")
EXTRAS = {"memoranda-vector": ["ann"], "memoranda-embed-static": ["minilm"]}
"""The extras that error messages name."""
GROUPS = ("--group", "test", "--group", "lint", "--group", "types")
ADDED_LATER = (
    *("encrypt", "inspector", "mcp", "otel", "postgres", "receipts", "redis", "summary-facts", "testing", "vector"),
)
FOLDERS = {
    tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"]: path.parent.relative_to(ROOT).as_posix()
    for path in (ROOT / "core" / "pyproject.toml", *ROOT.glob("plugins/*/*/pyproject.toml"))
}
"""The folder of each distribution of ours."""


def lines_of(path: Path) -> list[str]:
    """Return what the page says to install, after ``pip install``; a line that is wrapped or continued is one line."""
    found = INSTALLATION.findall(path.read_text(encoding="utf-8"))
    return [" ".join(line.replace("\\\n", " ").split()) for line in found]


def is_complete(line: str) -> bool:
    """Whether a line needs no other one before it: it installs the core itself, or nothing of ours."""
    words = shlex.split(line)
    return STANDARD in line or "core" in folders(line) or not any(word.startswith(("./", "-e")) for word in words)


def folders(line: str) -> dict[str, set[str]]:
    """Return the folders of the clone that a line installs, with their extras."""
    words = [word for word in shlex.split(line) if (ROOT / word.partition("[")[0] / "pyproject.toml").is_file()]
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
    return {folder_of(requirement.name): requirement.extras for requirement in ours}


def folder_of(distribution: str) -> str:
    """Return the folder of a distribution of ours."""
    return FOLDERS[distribution]


def told() -> dict[str, str]:
    """Return every line with where it stands. What a page adds later comes after the page's first line."""
    lines: dict[str, str] = {}
    for path in sorted(TEXTS):
        first = ""
        for line in lines_of(path):
            first = first or line
            lines.setdefault(line if is_complete(line) else f"{first} {line}", str(path.relative_to(ROOT)))
    for name in sorted(OURS):
        for extra in (None, *EXTRAS.get(name, ())):
            message = (
                how_to_install(name, extra).removeprefix("pip install ").removesuffix(" (in a clone of memoranda)")
            )
            # Whoever reads the message has the core.
            lines.setdefault(f"./core {message}", f"the message about {name}")
    return lines


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
    assert {"docs", "examples", "plugins", "README.md", "the message about memoranda-mcp"} <= {
        place.partition("/")[0] for place in LINES.values()
    }
    assert f"{STANDARD} ./plugins/programs/testing" in lines_of(
        ROOT / "docs" / "pages" / "tutorials" / "write-a-backend.md"
    )
    assert any("'plugins/backends/redis[test]'" in line for line in lines_of(ROOT / "CONTRIBUTING.md"))


@pytest.mark.parametrize("line", LINES, ids=NAMES)
def test_a_line_names_all_that_is_needed_of_the_clone(line: str) -> None:
    named = folders(line)
    assert not {word.partition("[")[0] for word in shlex.split(line)} & OURS, "No release is on the package index yet."
    waiting = list(named.items())
    while waiting:
        for folder, extras in needed(*waiting.pop()).items():
            assert folder in named
            if not extras <= named[folder]:
                named[folder] |= extras
                waiting.append((folder, extras))


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=pytest.mark.rare(f"lines of {section(place)}")) for line, place in LINES.items()],
    ids=NAMES,
)
def test_a_line_can_be_installed(line: str, uv: str, empty: Path) -> None:
    words = [word for word in shlex.split(line) if word != "--no-cache-dir"]

    planned = run(uv, "pip", "install", "--dry-run", "--no-sources", "--python", empty, *words)

    assert "Would install" in planned


@pytest.mark.slow
def test_the_clone_is_one_workspace(uv: str, tmp_path: Path) -> None:
    """``uv sync`` installs every package of the clone, with the groups that the page for contributors names."""
    planned = run(uv, "sync", "--dry-run", *GROUPS, UV_PROJECT_ENVIRONMENT=str(tmp_path / "environment"))

    assert set(re.findall(r"^ \+ (memoranda[\w-]*)(?:==| @ )", planned, re.MULTILINE)) == OURS


def test_the_standard_set_has_all_that_other_packages_need() -> None:
    """So that a plugin is added by its folder alone."""
    assert {folder_of(f"memoranda-{name}") for group in NEEDS.values() for name in group} <= set(folders(STANDARD))


def test_a_release_has_the_same_standard_set() -> None:
    settings = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text(encoding="utf-8"))
    extra = {Requirement(line).name for line in settings["project"]["optional-dependencies"]["standard"]}

    assert {folder_of(name) for name in extra} | {"core"} == set(folders(STANDARD))


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_pip_adds_plugins_by_their_folders_after_the_standard_set(tmp_path: Path) -> None:
    """pip installs for real, one page after the other, and the command finds all of them."""
    run(sys.executable, "-m", "venv", tmp_path)
    pip = programs(tmp_path) / "pip"

    run(pip, "install", "--quiet", *shlex.split(STANDARD))
    run(programs(tmp_path) / "memoranda", "demo", "--store", "memory://")
    for folder in ADDED_LATER:
        run(pip, "install", "--quiet", f"./{folder_of(f'memoranda-{folder}')}")

    run(programs(tmp_path) / "memoranda", "plugins")
