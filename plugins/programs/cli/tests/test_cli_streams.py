"""Whatever the terminal: no encoding stops a command, and eighty columns break no word."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

from memoranda.plugins import how_to_install
from memoranda_cli.app import app
from memoranda_cli.plugin import COMMANDS, EXAMPLES
from memoranda_commands.terminal import say

Process = Callable[..., "subprocess.CompletedProcess[str]"]
Command = Callable[..., Any]

ENCODINGS = ["ascii", "cp1252"]


def inserted(url: str, process: Process) -> None:
    process("add", "naïve → ✓ 日本", "--user", "ada", "--id", "odd", "--store", url)


@pytest.mark.rare("encodings")
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("line", [["demo"], ["--help"], ["context", "--help"], ["plugins"]])
def test_every_encoding_will_do(process: Process, line: list[str], encoding: str) -> None:
    done = process(*line, environment={"PYTHONIOENCODING": encoding}, encoding=encoding)

    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr


def texts_of_help(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the help of every command, which is written as it is, whatever the terminal's encoding."""
    context = typer.Context(group, info_name=" ".join(path) or "memoranda")
    yield path, group.get_help(context)
    for name in group.list_commands(context) if hasattr(group, "list_commands") else ():
        yield from texts_of_help(group.get_command(context, name), (*path, name))


def test_the_help_of_every_command_can_be_read_on_any_terminal() -> None:
    texts = dict(texts_of_help(typer.main.get_command(app)))

    assert len(texts) > 20
    assert [path for path, text in texts.items() if not text.isascii()] == []


@pytest.mark.rare
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_a_stream_cannot_show_is_still_told_apart(process: Process, tmp_path: Path, encoding: str) -> None:
    url = f"shelf:///{tmp_path / 'memories'}"
    inserted(url, process)
    settings = {"environment": {"PYTHONIOENCODING": encoding}, "encoding": encoding}

    shown = process("history", "--store", url, **settings)
    document = process("get", "odd", "--json", "--store", url, **settings)

    assert shown.returncode == 0
    assert r"\u65e5\u672c" in shown.stdout
    assert json.loads(document.stdout)["content"] == "naïve → ✓ 日本"


@pytest.mark.rare
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_export_through_a_pipe_arrives_in_every_encoding(process: Process, tmp_path: Path, encoding: str) -> None:
    source, target = f"shelf:///{tmp_path / 'source'}", f"shelf:///{tmp_path / 'target'}"
    inserted(source, process)
    settings = {"environment": {"PYTHONIOENCODING": encoding}, "encoding": "utf-8"}

    written = process("export", "--store", source, **settings).stdout
    read = process("import", "--store", target, input=written, **settings)

    assert read.returncode == 0, read.stderr
    assert json.loads(process("get", "odd", "--json", "--store", target).stdout)["content"] == "naïve → ✓ 日本"


@pytest.mark.slow
def test_bytes_that_are_not_utf_8_are_called_that(process: Process, tmp_path: Path) -> None:
    url = f"shelf:///{tmp_path / 'memories'}"
    (tmp_path / "latin.txt").write_bytes('{"content": "café"}'.encode("latin-1"))

    for arguments in (("add",), ("import",)):
        with (tmp_path / "latin.txt").open("rb") as latin:
            done = process(*arguments, "--store", url, stdin=latin)
        assert done.returncode == 2
        assert "not UTF-8" in done.stderr
    for further in (["caf\udce9"], ["x", "--user", "caf\udce9"], ["x", "--extra", "place=caf\udce9"]):
        done = process("add", *further, "--store", url)
        assert done.returncode == 2
        assert "not UTF-8" in done.stderr
    assert not (tmp_path / "memories").exists()


@pytest.mark.parametrize("name", ["", *(spec.name for spec in COMMANDS)])
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_help_breaks_no_word(command: Command, name: str, columns: int) -> None:
    line = [name, "--help"] if name else ["--help"]

    wide = command(*line, env={"COLUMNS": "300"}).stdout
    narrow = command(*line, env={"COLUMNS": str(columns)}).stdout

    assert max(map(len, narrow.splitlines())) <= columns
    assert set(narrow.split()) <= set(wide.split())


@pytest.mark.parametrize("name", [spec.name for spec in COMMANDS])
def test_help_ends_with_examples(command: Command, name: str) -> None:
    shown = command(name, "--help").stdout.rstrip().splitlines()

    assert 1 <= len(EXAMPLES[name]) <= 2
    assert shown[-1].strip() == f"$ memoranda {EXAMPLES[name][-1]}"


@pytest.mark.parametrize(
    "line",
    [
        how_to_install("memoranda-mcp"),
        "cd 'my plugins' && pip install -e '.[test]' && pytest tests && memoranda plugins",
    ],
)
def test_a_command_that_installs_is_one_line_even_on_a_narrow_terminal(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shell that gets it in two lines runs each by itself."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    say(f"memoranda: Something is missing that this line installs. Try: {line}")

    assert line.partition(" (")[0] in capsys.readouterr().err.splitlines()
