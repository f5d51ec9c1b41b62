"""Fixtures that run the ``memoranda`` command, for the suites of all plugins that have commands."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoranda.plugins import CommandSpec, default_registry

# What a shell, nox or a CI sets and a terminal's library heeds: no test may look different because of it.
INHERITED = (
    *("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "GITHUB_ACTIONS"),
    *("TTY_COMPATIBLE", "TTY_INTERACTIVE", "TERMINAL_WIDTH", "COLUMNS", "LINES"),
)
OURS = ("MEMORANDA_URL", "MEMORANDA_PLUGINS", "MEMORANDA_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL")

SHELF = Path(__file__).parent / "programs" / "cli" / "tests" / "shelf"
"""The folder of a plugin for tests of the command: a store that outlives a process, and commands."""
STEPWISE = Path(__file__).parents[1] / "core" / "tests"
"""The folder of the store that the plugin's own stores are made from."""


@pytest.fixture(scope="module")
def _shelf() -> Iterator[None]:
    """Install the test plugin for a module's tests: to look for all plugins takes longer than most of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MEMORANDA_PLUGINS", raising=False)
        patch.syspath_prepend(str(SHELF))
        importlib.invalidate_caches()
        default_registry.cache_clear()
        yield
    default_registry.cache_clear()


@pytest.fixture
def command(_shelf: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Run the command in this process, with the test plugin installed, in an empty folder without settings."""
    from typer.testing import CliRunner

    from memoranda_cli.app import app

    for name in (*OURS, *INHERITED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    return lambda *arguments, **options: runner.invoke(app, [str(argument) for argument in arguments], **options)


@pytest.fixture
def plugins_found_anew(command: Callable[..., Any]) -> Iterator[None]:
    """Let a test choose the plugins, and nobody after it have its choice."""
    default_registry.cache_clear()
    yield
    default_registry.cache_clear()


@pytest.fixture(scope="session")
def _kept_folders() -> dict[object, tuple[Path, Any]]:
    """What :func:`made_once` has made so far."""
    return {}


@pytest.fixture
def made_once(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, _kept_folders: dict[object, tuple[Path, Any]]
) -> Callable[[Callable[[], Any]], Any]:
    """Call a function that makes files in the test's folder, or copy what it made for the first test that called it.

    Returns what the function returned. Commands take a while, and most tests only begin with the files.
    """

    def made(make: Callable[[], Any]) -> Any:
        key = make.__qualname__, make.__code__.co_filename
        if key not in _kept_folders:
            assert not any(path.is_file() for path in tmp_path.rglob("*")), "There is something in the folder already."
            returned, folder = make(), tmp_path_factory.mktemp("made") / "files"
            shutil.copytree(tmp_path, folder)
            _kept_folders[key] = folder, returned
        else:
            shutil.copytree(_kept_folders[key][0], tmp_path, dirs_exist_ok=True)
        return _kept_folders[key][1]

    return made


@pytest.fixture
def talk(command: Callable[..., Any], made_once: Callable[..., Any], tmp_path: Path) -> str:
    """A conversation: an instruction, two rounds, one with parallel calls, and a call that nobody answered."""
    url = f"shelf:///{tmp_path / 'memories'}"
    lines: list[tuple[str, ...]] = [
        ("Be brief.", "--type", "system"),
        ("How is the weather in Oslo and Rome?",),
        (
            "",
            "--type",
            "ai",
            "--tool-calls",
            '[{"id": "a", "name": "weather"}, {"id": "b", "name": "weather"}]',
        ),
        ("Oslo: snow", "--type", "tool", "--tool-call-id", "a", "--tool-name", "weather"),
        ("Rome: sun", "--type", "tool", "--tool-call-id", "b", "--tool-name", "weather"),
        ("Thanks. Book a flight.",),
        ("", "--type", "ai", "--tool-calls", '[{"id": "c", "name": "book"}]'),
    ]

    def said() -> None:
        for second, line in enumerate(lines):
            added = command(
                "add", *line, "--user", "ada", "--session", "s", "--at", f"2024-01-01T00:00:{second:02}", "--store", url
            )
            assert added.exit_code == 0, added.output

    made_once(said)
    return url


@pytest.fixture
def our_commands() -> list[str]:
    """The names of the commands that come with the command itself: its own, and those of common features."""
    ours = [plugin for plugin in default_registry().plugins if plugin.name in ("cli", "context", "summary", "userdata")]
    return [spec.name for plugin in ours for spec in plugin.specs if isinstance(spec, CommandSpec)]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which the test plugin is installed and nothing else is set."""
    inherited = {key: value for key, value in os.environ.items() if key not in INHERITED}
    kept = {key: value for key, value in inherited.items() if not key.startswith(("MEMORANDA", "OPENAI"))}
    return kept | {"PYTHONPATH": os.pathsep.join([str(SHELF), str(STEPWISE)]), "XDG_DATA_HOME": str(tmp_path / "data")}


@pytest.fixture
def process(tmp_path: Path, environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command as a process of its own, as :func:`command` does otherwise."""

    base = environment | {"COLUMNS": "120"}

    def run(*arguments: str, environment: dict[str, str] | None = None, **options: Any) -> Any:
        return subprocess.run(
            [sys.executable, "-m", "memoranda", *arguments],
            env=base | (environment or {}),
            cwd=tmp_path,
            text=True,
            capture_output=True,
            timeout=240,
            check=False,
            **options,
        )

    return run
