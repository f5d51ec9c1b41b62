"""Settings and fixtures that the command's tests share."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from memoranda.plugins import default_registry

# A busy machine makes single examples slow, which says nothing about the code.
settings.register_profile("memoranda", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("memoranda")

SHELF = Path(__file__).parent / "shelf"
"""The folder of a plugin for tests of the command: a store that outlives a process, and commands."""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Run the command in this process, with the test plugin installed, in an empty folder without settings."""
    from typer.testing import CliRunner

    from memoranda_cli.app import app

    for name in ("MEMORANDA_URL", "MEMORANDA_PLUGINS", "MEMORANDA_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.syspath_prepend(str(SHELF))
    monkeypatch.chdir(tmp_path)
    importlib.invalidate_caches()
    default_registry.cache_clear()
    runner = CliRunner()
    yield lambda *arguments, **options: runner.invoke(app, [str(argument) for argument in arguments], **options)
    default_registry.cache_clear()


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command as a process of its own, as :func:`command` does otherwise."""

    def run(*arguments: str, environment: dict[str, str] | None = None, **options: Any) -> Any:
        return subprocess.run(
            [sys.executable, "-m", "memoranda", *arguments],
            env=process_environment(tmp_path) | (environment or {}),
            cwd=tmp_path,
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
            **options,
        )

    return run


def process_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which the test plugin is installed and nothing is set."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MEMORANDA", "OPENAI"))}
    return kept | {"PYTHONPATH": str(SHELF), "XDG_DATA_HOME": str(folder / "data"), "COLUMNS": "120"}
