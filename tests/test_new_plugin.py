"""A plugin that ``memoranda new-plugin`` writes installs into a fresh environment and passes its tests there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memoranda.plugins import HOOKS
from memoranda_cli.new_plugin import CLONE_FOLDERS, Kind

ROOT = Path(__file__).parents[1]


def run(*arguments: str | Path, cwd: Path, allowed: str | None = None) -> str:
    """Run a program to its end and return what it wrote; its whole output is in the failure.

    ``allowed`` names the plugins that it may load; None allows all.
    """
    # Settings of the environment that runs these tests must not reach into the fresh one.
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    clean = {key: value for key, value in environment.items() if not key.startswith(("PYTEST", "MEMORANDA", "COV"))}
    done = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        env=clean if allowed is None else clean | {"MEMORANDA_PLUGINS": allowed},
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
        self._folder = folder
        self._uv = shutil.which("uv")
        if self._uv:
            run(self._uv, "venv", "--quiet", "--python", sys.executable, folder, cwd=folder.parent)
        else:
            run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
        self.programs = folder / ("Scripts" if os.name == "nt" else "bin")

    def install(self, *requirements: str) -> None:
        installer = [self._uv, "pip", "install", "--python", self.programs / "python"] if self._uv else None
        command = installer or [self.programs / "python", "-m", "pip", "install"]
        run(*filter(None, command), "--quiet", *requirements, cwd=self._folder)


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
        environment = Environment(folder / "environment")
        self.programs = environment.programs
        environment.install(*(str(ROOT / folder) for folder in CLONE_FOLDERS))
        run(self.programs / "python", "-c", WRITE, *Kind, cwd=folder)
        environment.install(*(str(path) for path in sorted(folder.glob("memoranda-*"))))
        listed = json.loads(run(self.programs / "memoranda", "plugins", "--json", cwd=folder))
        self.rows: dict[str, dict[str, Any]] = {row["name"]: row for row in listed}


@pytest.fixture(scope="module")
def new_plugins(tmp_path_factory: pytest.TempPathFactory) -> NewPlugins:
    return NewPlugins(tmp_path_factory.mktemp("new"))


# What of the kit takes seconds on a file that is written anew with every change.
LONGEST = "random or sizes or cancelled or megabytes or large"


@pytest.mark.parametrize(
    "kind", [kind if kind is Kind.RANKER else pytest.param(kind, marks=pytest.mark.slow) for kind in Kind]
)
def test_a_new_plugin_passes_its_own_tests(new_plugins: NewPlugins, kind: str, request: pytest.FixtureRequest) -> None:
    plugin = new_plugins.folder / f"memoranda-my-{kind}"
    chosen = [] if request.config.getoption("everything", default=False) else ["-k", f"not ({LONGEST})"]

    # Each beside ours alone: a ranker would rank the others' stores.
    allowed = ",".join(name for name in new_plugins.rows if name == f"my-{kind}" or not name.startswith("my-"))

    report = run(new_plugins.programs / "python", "-m", "pytest", "-q", *chosen, "tests", cwd=plugin, allowed=allowed)

    assert " passed" in report


@pytest.mark.parametrize("kind", list(Kind))
def test_a_new_plugin_is_listed_with_what_it_offers(new_plugins: NewPlugins, kind: str) -> None:
    row = new_plugins.rows[f"my-{kind}"]

    assert (row["distribution"], row["status"]) == (f"memoranda-my-{kind}", "ok")
    assert [offer["name"] for offer in row["offers"]] == [f"my-{kind}"]


def test_there_is_a_scaffold_for_every_kind_of_plugin(new_plugins: NewPlugins) -> None:
    sources = [path.read_text() for path in new_plugins.folder.glob("memoranda-my-*/src/*/plugin.py")]

    written = {hook for hook in HOOKS for source in sources if f"def {hook}()" in source}
    assert written == set(HOOKS) - {"memoranda_integrations", "memoranda_wrappers"}


@pytest.mark.slow
def test_a_new_backend_conforms_at_its_url(new_plugins: NewPlugins, tmp_path: Path) -> None:
    said = run(new_plugins.programs / "memoranda", "conform", "paper:///test.json", "--json", cwd=tmp_path)
    report = json.loads(said[said.index("{") :])  # Before it, on standard error, stands that the store is new.

    assert report["conforms"]
    assert report["passed"] > 100
