"""The options that say whose memories a command is for."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from memoranda import MemoryMetadata
from memoranda.plugins import default_registry
from memoranda_cli.plugin import COMMANDS
from memoranda_commands import options

SCOPE = ["user", "session", "task", "agent", "extra"]


def app_of(received: list[Any]) -> typer.Typer:
    """Return a command that notes what it gets."""
    app = typer.Typer()

    @app.command()
    @options.scoped
    def note(word: Annotated[str, typer.Argument()], metadata: options.Owner = None, loud: bool = False) -> None:
        """Note it."""
        received.append((word, metadata, loud))

    return app


@pytest.mark.parametrize(
    ("line", "owner"),
    [
        ([], None),
        (["-u", "ada"], MemoryMetadata(user_id="ada")),
        (["--user", "", "--task", "t"], MemoryMetadata(user_id="", task_id="t")),
        (
            ["--session", "s", "--agent", "a", "--extra", "n=1", "--extra", "k=v"],
            MemoryMetadata(session_id="s", agent_id="a", extra={"n": 1, "k": "v"}),
        ),
    ],
)
def test_a_command_gets_the_owner_that_the_options_name(line: list[str], owner: MemoryMetadata | None) -> None:
    received: list[Any] = []

    done = CliRunner().invoke(app_of(received), ["hello", *line, "--loud"])

    assert done.exit_code == 0, done.output
    assert received == [("hello", owner, True)]


# What these are for is named by nature: forget takes one person, fork a session, which may be of one person, and import
# says whose conversation a file holds.
OWN = {"forget": ["user"], "fork": ["session", "user"], "import": ["user", "session"]}


@pytest.mark.parametrize("spec", COMMANDS, ids=lambda spec: spec.name)
def test_a_command_has_all_of_the_options_or_none(spec: Any) -> None:
    parameters = list(inspect.signature(default_registry().load(spec)).parameters)
    found = [name for name in parameters if name in SCOPE]

    assert found in ([OWN[spec.name]] if spec.name in OWN else [SCOPE, []])
    assert "metadata" not in parameters
