"""What the commands of features stand on: exit codes, signs for what cannot be seen, files, and users meant."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

import memoranda
from memoranda import HumanMemory, MemoryMetadata, errors
from memoranda_commands import options
from memoranda_commands.exits import MEANINGS, CommandError, ExitCode, code_of, not_found
from memoranda_commands.files import whole_file
from memoranda_commands.stores import similar_users
from memoranda_commands.terminal import counted, report, visible


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InputError("No.", field="limit"), ExitCode.USAGE),
        (FileNotFoundError("there.jsonl"), ExitCode.NOT_FOUND),
        (errors.StoreNotFoundError("sqlite:///there.db", ()), ExitCode.NOT_FOUND),
        (errors.VersionConflictError("m", 1, 2), ExitCode.CONFLICT),
        (CommandError("Not confirmed.", ExitCode.REFUSED), ExitCode.REFUSED),
        (RuntimeError("unforeseen"), ExitCode.FAILED),
    ],
)
def test_an_error_has_the_exit_code_of_its_kind(error: Exception, code: ExitCode) -> None:
    assert code_of(error) is code


def test_what_cannot_be_seen_is_shown_by_a_sign() -> None:
    assert visible("a\x1b[31mb\u202ec\n\td") == "a\u241b[31mb\u27e8U+202E\u27e9c\n\td"


def test_a_file_that_is_written_in_part_does_not_replace_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("whole\n")

    def write_half() -> None:
        with whole_file(path) as file:
            file.write("half")
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_half()

    assert path.read_text() == "whole\n"
    assert list(tmp_path.iterdir()) == [path]


async def test_a_mistyped_user_is_told_of_those_who_look_alike() -> None:
    async with memoranda.open("memory://") as store:
        for user in ("maria", "marta", "zoe"):
            await store.add(HumanMemory(content="Hello.", metadata=MemoryMetadata(user_id=user)))

        assert set(await similar_users(store, "mari")) == {"maria", "marta"}
        assert await similar_users(store, "ZOE") == ["zoe"]


def command_line(command: Any) -> typer.Typer:
    """Return an application of one command."""
    app = typer.Typer()
    app.command()(command)
    return app


def test_a_command_works_on_the_store_and_the_owner_that_its_line_names() -> None:
    @options.scoped
    def add(text: str, *, target: options.Target) -> None:
        async def work(store: memoranda.store.Store) -> int:
            await store.add(HumanMemory(content=text, metadata=target.metadata or MemoryMetadata()))
            return await store.count(metadata=MemoryMetadata(user_id="ada"))

        number = target.run(work, "create")
        target.report({"items": number}, f"{number} items")

    line = ["Hello.", "--user", "ada", "--store", "memory://"]
    told = CliRunner().invoke(command_line(add), line)
    document = CliRunner().invoke(command_line(add), [*line, "--json"])

    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr.splitlines()[-1] == "1 items"
    assert json.loads(document.stdout) == {"items": 1}


def test_a_command_without_an_owner_has_only_the_options_of_its_store() -> None:
    seen: list[options.Target] = []

    @options.on_store
    def look(*, target: options.Target) -> None:
        seen.append(target)

    done = CliRunner().invoke(command_line(look), ["--store", "memory://", "--option", "a=1"])
    refused = CliRunner().invoke(command_line(look), ["--user", "ada"])

    assert done.exit_code == 0
    assert seen == [options.Target("memory://", ["a=1"], as_json=False)]
    assert refused.exit_code == 2


@dataclasses.dataclass(frozen=True)
class Limits:
    """Options that two commands share."""

    most: Annotated[int, typer.Option("--most", help="How many at the most.")] = 10
    model: options.Model = None


def test_a_dataclass_is_given_as_options_and_arrives_as_one_value() -> None:
    seen: list[object] = []

    @options.grouped("limits", Limits)
    @options.on_store
    def look(limits: Limits, *, target: options.Target) -> None:
        seen.append((limits, target.url))

    app = command_line(look)

    assert CliRunner().invoke(app, ["--store", "memory://"]).exit_code == 0
    assert CliRunner().invoke(app, ["--most", "3", "--model", "small", "--store", "memory://"]).exit_code == 0
    assert CliRunner().invoke(app, ["--most", "many"]).exit_code == 2
    assert seen == [(Limits(), "memory://"), (Limits(3, "small"), "memory://")]


@pytest.mark.parametrize("rows", [[], [("ada", "2")]])
def test_a_report_is_a_document_or_a_table_and_sentences(
    rows: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    columns = ("user", "items")

    report({"users": len(rows)}, "", f"{counted(len(rows), 'user')}.", as_json=False, columns=columns, rows=rows)
    told = capsys.readouterr()
    report({"users": len(rows)}, "Never said.", as_json=True, columns=columns, rows=rows)
    document = capsys.readouterr()

    assert told.err == ("1 user.\n" if rows else "0 users.\n")
    assert [word for word in told.out.split() if word.isalnum()] == (["user", "items", "ada", "2"] if rows else [])
    assert (json.loads(document.out), document.err) == ({"users": len(rows)}, "")


def test_what_was_not_found_has_its_exit_code_and_a_hint() -> None:
    with (
        pytest.raises(CommandError, match=r"^No such thing\. Try another\.$") as raised,
        not_found(errors.SummaryError, hint=" Try another."),
    ):
        raise errors.SummaryError("No such thing.")

    assert code_of(raised.value) is ExitCode.NOT_FOUND
