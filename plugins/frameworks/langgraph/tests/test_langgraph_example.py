"""The example program runs, on every engine that keeps what it is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from servers import Engines

SERVERS = ("postgres", "redis")
PROGRAM = Path(__file__).parents[4] / "examples" / "langgraph_assistant.py"


@pytest.mark.parametrize("engine", ["sqlite", *(pytest.param(name, marks=pytest.mark.slow) for name in SERVERS)])
def test_the_assistant_remembers_across_threads_and_openings(engine: str, engines: Engines, tmp_path: Path) -> None:
    with engines.empty_store(engine, tmp_path) as url:
        done = subprocess.run([sys.executable, str(PROGRAM), url], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    tuesday, monday, bob = done.stdout.split("What do you know?")[1:]
    assert "You told me: I like tea; I live in Turin." in tuesday
    assert "(2 messages in this thread)" in tuesday
    assert "(6 messages in this thread)" in monday
    assert "You have not told me anything yet." in bob
    assert "(2 messages in this thread)" in bob
