"""A plugin that ``memoranda new-plugin`` writes installs into a fresh environment and passes its tests there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memoranda.plugins import HOOKS
from memoranda_cli.new_plugin import Kind

CORE = Path(__file__).parents[1] / "core"


def run(*arguments: str | Path, cwd: Path) -> str:
    """Run a program to its end and return what it wrote; its whole output is in the failure."""
    # Settings of the environment that runs these tests must not reach into the fresh one.
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        env={key: value for key, value in environment.items() if not key.startswith(("PYTEST", "MEMORANDA", "COV"))},
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


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("fresh") / "environment")
    made.install(f"{CORE}[testing]")
    return made


@pytest.mark.parametrize("kind", list(Kind))
def test_a_new_plugin_passes_its_own_tests(environment: Environment, tmp_path: Path, kind: str) -> None:
    name = f"my-{kind}"
    run(environment.programs / "memoranda", "new-plugin", name, "--kind", kind, cwd=tmp_path)
    plugin = tmp_path / f"memoranda-{name}"

    environment.install(str(plugin))
    report = run(environment.programs / "python", "-m", "pytest", "-q", "tests", cwd=plugin)

    assert " passed" in report
    listed = json.loads(run(environment.programs / "memoranda", "plugins", "--json", cwd=tmp_path))
    (row,) = (row for row in listed if row["name"] == name)
    assert (row["distribution"], row["status"]) == (f"memoranda-{name}", "ok")
    assert [offer["name"] for offer in row["offers"]] == [name]


def test_there_is_a_scaffold_for_every_kind_of_plugin(environment: Environment, tmp_path: Path) -> None:
    offered = set()
    for kind in Kind:
        run(environment.programs / "memoranda", "new-plugin", f"a-{kind}", "--kind", kind, cwd=tmp_path)
        source = tmp_path / f"memoranda-a-{kind}" / "src" / f"memoranda_a_{kind.replace('-', '_')}" / "plugin.py"
        offered |= {hook for hook in HOOKS if f"def {hook}()" in source.read_text()}

    assert offered == set(HOOKS)


def test_a_new_backend_conforms_at_its_url(environment: Environment, tmp_path: Path) -> None:
    run(environment.programs / "memoranda", "new-plugin", "paper", cwd=tmp_path)
    environment.install(str(tmp_path / "memoranda-paper"))

    report = json.loads(
        run(environment.programs / "memoranda", "conform", "paper:///test.json", "--json", cwd=tmp_path)
    )

    assert report["conforms"]
    assert report["passed"] > 100
