"""What ``memoranda new-plugin`` prints and writes works in a fresh environment with the standard set alone."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from memoranda.plugins import HOOKS
from memoranda.plugins.installing import OURS
from memoranda_cli.authors import Kind

ROOT = Path(__file__).parents[1]


def run(*arguments: str | Path, cwd: Path, **settings: str) -> str:
    """Run a program to its end and return what it wrote; its whole output is in the failure."""
    # Settings of the environment that runs these tests must not reach into the fresh one.
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    clean = {key: value for key, value in environment.items() if not key.startswith(("PYTEST", "MEMORANDA", "COV"))}
    done = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        env=clean | settings,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


class Environment:
    """A new virtual environment, made with uv where there is one."""

    def __init__(self, folder: Path) -> None:
        self._uv = shutil.which("uv")
        if self._uv:
            run(self._uv, "venv", "--quiet", "--python", sys.executable, folder, cwd=folder.parent)
        else:
            run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
        self.programs = folder / ("Scripts" if os.name == "nt" else "bin")

        if self._uv:
            # People have pip; uv does the same faster. Without its sources it finds what pip finds, and without what it
            # built earlier it installs the code of today.
            pip = self.programs / "pip"
            options = " ".join(f"--refresh-package {name}" for name in sorted(OURS))
            python = self.programs / "python"
            pip.write_text(f'#!/bin/sh\nexec {self._uv} pip "$@" --no-sources {options} --python {python}\n')
            pip.chmod(0o755)

    def shell(self, line: str, cwd: Path, **settings: str) -> str:
        """Run a line as people do who have activated the environment."""
        return run("sh", "-c", line, cwd=cwd, PATH=f"{self.programs}{os.pathsep}{os.environ['PATH']}", **settings)


# One process for all kinds: to start the command costs more than to write a plugin.
WRITE = """
import sys
from memoranda_cli.app import app

for kind in sys.argv[1:]:
    app(["new-plugin", f"my-{kind}", "--kind", kind], standalone_mode=False)
app(["new-plugin", "paper"], standalone_mode=False)
"""


class NewPlugins:
    """A plugin of every kind and a backend called paper, as the command writes them, installed side by side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = Environment(folder / "environment")
        self.environment.shell("pip install -r requirements.txt", ROOT)
        self.said = run(self.environment.programs / "python", "-c", WRITE, *Kind, cwd=folder)
        self.environment.shell("pip install -c constraints.txt memoranda-summary", ROOT)  # Templates stand on it.
        self.environment.shell("pip install ./memoranda-*", folder)
        listed = json.loads(run(self.environment.programs / "memoranda", "plugins", "--json", cwd=folder))
        self.rows: dict[str, dict[str, Any]] = {row["name"]: row for row in listed}

    def beside_ours(self, plugin: str) -> str:
        """Return the names of a plugin and of ours: another author's ranker would rank its stores."""
        return ",".join(name for name in self.rows if name in (plugin, "paper") or not name.startswith("my-"))

    def next_of(self, name: str) -> str:
        """Return the line that the command printed as the next to run for a plugin."""
        return next(
            line for line in re.findall(r"^Next: (.*)$", self.said, re.MULTILINE) if f"memoranda-{name} " in line
        )


@pytest.fixture(scope="module")
def new_plugins(tmp_path_factory: pytest.TempPathFactory) -> NewPlugins:
    return NewPlugins(tmp_path_factory.mktemp("new"))


# What of the kit takes seconds on a file that is written anew with every change.
LONGEST = "random or sizes or cancelled or megabytes or large"


@pytest.mark.parametrize(
    "kind", [kind if kind is Kind.RANKER else pytest.param(kind, marks=pytest.mark.slow) for kind in Kind]
)
def test_the_line_that_is_next_installs_and_tests_the_plugin(
    new_plugins: NewPlugins, kind: str, request: pytest.FixtureRequest
) -> None:
    chosen = "" if request.config.getoption("everything", default=False) else f"-k 'not ({LONGEST})'"
    allowed = new_plugins.beside_ours(f"my-{kind}")

    report = new_plugins.environment.shell(
        new_plugins.next_of(f"my-{kind}"), new_plugins.folder, MEMORANDA_PLUGINS=allowed, PYTEST_ADDOPTS=chosen
    )

    assert " passed" in report
    assert f"my-{kind}" in report.rpartition(" passed")[2]


def test_the_readme_of_a_new_plugin_says_how_to_install_it(new_plugins: NewPlugins, tmp_path: Path) -> None:
    (line,) = {
        line
        for page in new_plugins.folder.glob("memoranda-my-*/README.md")
        for line in re.findall(r"`(pip install .*)`", page.read_text())
    }

    planned = Environment(tmp_path / "empty").shell(
        line.replace("PLUGIN", str(new_plugins.folder / "memoranda-paper")) + " --dry-run", ROOT
    )

    assert "ould install" in planned
    assert "memoranda-paper" in planned


@pytest.mark.parametrize("kind", list(Kind))
def test_a_new_plugin_is_listed_with_what_it_offers(new_plugins: NewPlugins, kind: str) -> None:
    row = new_plugins.rows[f"my-{kind}"]

    assert (row["distribution"], row["status"]) == (f"memoranda-my-{kind}", "ok")
    assert [offer["name"] for offer in row["offers"]] == [f"my-{kind}"]


def names_used(source: str) -> Iterator[tuple[str, str]]:
    """Yield what a program imports from memoranda's packages, or reads from the core: the module and the name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split("_")[0].split(".")[0] == "memoranda":
            yield from ((str(node.module), name.name) for name in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "memoranda":
            yield "memoranda", node.attr


@pytest.mark.parametrize("kind", list(Kind))
def test_what_a_new_plugin_uses_of_memoranda_is_there(new_plugins: NewPlugins, kind: str) -> None:
    folder = new_plugins.folder / f"memoranda-my-{kind}"
    blocks = re.findall(r"^```python\n(.*?)^```", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    sources = [path.read_text() for path in folder.rglob("*.py")] + blocks
    package = f"memoranda_my_{kind.replace('-', '_')}"

    names = {each for source in sources for each in names_used(source) if not each[0].startswith(package)}
    missing = [(module, name) for module, name in names if not hasattr(import_module(module), name)]

    assert names
    assert not missing


def test_there_is_a_scaffold_for_every_kind_of_plugin(new_plugins: NewPlugins) -> None:
    sources = [path.read_text() for path in new_plugins.folder.glob("memoranda-my-*/src/*/plugin.py")]

    written = {hook for hook in HOOKS for source in sources if f"def {hook}()" in source}
    assert written == set(HOOKS) - {"memoranda_integrations", "memoranda_wrappers"}


@pytest.mark.slow
def test_a_new_backend_conforms_at_its_url(new_plugins: NewPlugins, tmp_path: Path) -> None:
    new_plugins.environment.shell("pip install -c constraints.txt memoranda-testing", ROOT)
    conform = (new_plugins.environment.programs / "memoranda", "conform", "paper:///test.json", "--json")
    said = run(*conform, cwd=tmp_path, MEMORANDA_PLUGINS=new_plugins.beside_ours("paper"))
    report = json.loads(said[said.index("{") :])  # Before it, on standard error, stands that the store is new.

    assert report["conforms"]
    assert report["passed"] > 100
