"""The overview, the list of plugins, commands of plugins, the demo, the kit and new plugins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda import __version__
from memoranda_cli.authors import Kind
from memoranda_cli.plugin import COMMANDS
from memoranda_commands.exits import MEANINGS

Command = Callable[..., Any]


def test_the_overview_names_every_command_with_what_it_does(command: Command) -> None:
    shown = command("--help").stdout

    for spec in COMMANDS:
        assert re.search(rf"^  {re.escape(spec.name)} +{re.escape(spec.summary)}$", shown, re.MULTILINE), spec.name
    for code, meaning in MEANINGS.items():
        assert re.search(rf"^  {code.value} +{re.escape(meaning)}$", shown, re.MULTILINE)


def test_no_arguments_show_the_overview(command: Command) -> None:
    result = command()

    assert result.exit_code == 0
    assert "Start here" in result.stdout


def test_the_version_is_shown(command: Command) -> None:
    assert command("--version").stdout.strip() == f"memoranda {__version__}"


@pytest.mark.parametrize("name", [spec.name for spec in COMMANDS])
def test_every_command_explains_itself(command: Command, name: str) -> None:
    result = command(name, "--help")

    assert result.exit_code == 0, result.output
    assert "Usage" in result.stdout


@pytest.mark.parametrize(
    "name", ["get", "search", "history", "context", "stats", "plugins", "conform", "doctor", "bench"]
)
def test_every_reading_command_speaks_json(command: Command, name: str) -> None:
    assert "--json" in command(name, "--help", env={"COLUMNS": "200"}).stdout


@pytest.mark.parametrize("line", [("frobnicate",), ("search", "--frobnicate"), ("get",), ("search", "--limit", "-1")])
def test_wrong_usage_is_exit_code_2(command: Command, line: tuple[str, ...]) -> None:
    assert command(*line).exit_code == 2


def test_plugins_are_listed_with_what_they_offer_and_why_not(command: Command) -> None:
    shown = command("plugins")
    rows = {row["name"]: row for row in json.loads(command("plugins", "--json").stdout)}

    assert shown.exit_code == 0
    assert "memory:" in shown.stdout
    assert rows["memoranda"]["status"] == "ok"
    assert rows["shelf"]["version"] == "1.0"
    assert [offer["kind"] for offer in rows["shelf"]["offers"]][:2] == ["backend", "backend"]


def test_a_plugin_cannot_take_a_command_of_ours(command: Command) -> None:
    rows = {row["name"]: row for row in json.loads(command("plugins", "--json").stdout)}

    assert rows["shelf"]["status"] == "conflict"
    assert "The command 'demo' is memoranda's own." in rows["shelf"]["reason"]
    assert "Stored" in command("demo", "--store", "memory://").stdout


def test_plugins_add_commands(command: Command) -> None:
    assert "Greet somebody." in command("--help").stdout
    assert command("greet", "Ada").stdout == "Hello, Ada!\n"


@pytest.mark.parametrize("line", [("boards",), ("boards", "screws")])
def test_a_group_of_commands_alone_shows_its_help(command: Command, line: tuple[str, ...]) -> None:
    alone = command(*line)

    assert alone.exit_code == 0
    assert alone.stdout == command(*line, "--help").stdout
    assert "  tighten  Turn it once more." in alone.stdout


def test_a_broken_command_of_a_plugin_breaks_nothing_else(command: Command) -> None:
    broken = command("broken")
    crashed = command("crash")

    assert broken.exit_code == 1
    assert "'broken' could not be loaded: AttributeError" in broken.stderr
    assert crashed.exit_code == 1
    assert "RuntimeError: the wheel came off" in crashed.stderr
    assert "--debug" in crashed.stderr
    assert command("plugins").exit_code == 0


def test_debug_shows_where_it_happened(command: Command) -> None:
    result = command("crash", "--debug")

    assert isinstance(result.exception, RuntimeError)


@pytest.mark.usefixtures("plugins_found_anew")
def test_an_unknown_scheme_says_what_to_install(command: Command) -> None:
    result = command("search", "--store", "postgresql://ada:secret@host/db", env={"MEMORANDA_PLUGINS": "shelf"})

    assert result.exit_code == 3
    assert "memory" in result.stderr
    assert "secret" not in result.output


def test_the_store_of_the_environment_is_used_and_said(command: Command, tmp_path: Path) -> None:
    url = f"shelf:///{tmp_path / 'memories'}"

    result = command("add", "one", env={"MEMORANDA_URL": url})

    assert f"store: {url} (from MEMORANDA_URL)" in result.stderr
    assert "one" in command("search", "--store", url).stdout


def test_the_demo_shows_a_valid_window_and_what_was_left_out(command: Command, tmp_path: Path) -> None:
    result = command("demo", "--store", f"shelf:///{tmp_path / 'memories'}")

    assert result.exit_code == 0, result.output
    for shown in (
        "opened again: all 16",
        "before the last 4 rounds",
        "a call without all its results",
        "A new session",
    ):
        assert shown in result.stdout
    assert json.loads((tmp_path / "memories").read_text())["items"] == []


def test_the_demo_ends_with_a_prompt_that_knows_what_changed_and_what_the_question_does_not_name(
    command: Command,
) -> None:
    seen = json.loads(command("demo", "--json").stdout)

    *before, question = [item["content"] for item in seen["prompt"]]
    remembered = "\n".join(before)
    assert "allergic to peanuts" in remembered
    assert not {word.strip("?").lower() for word in question.split() if len(word) > 4} & set(remembered.split())
    shown = command("demo").stdout
    assert "lives in Bergen" in shown
    assert "I live in Oslo. (no longer true: Bergen since" in shown


@pytest.mark.usefixtures("plugins_found_anew")
def test_the_demo_runs_without_any_plugin(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_PLUGINS", "")

    result = command("demo")

    assert result.exit_code == 0, result.output
    assert "pip install 'memoranda[sqlite]'" in result.stdout
    assert "without a ranker" in result.stdout


def test_conform_reports_every_case(command: Command) -> None:
    report = json.loads(command("conform", "memory://", "--only", "limit", "--json").stdout)

    assert report["conforms"]
    assert report["passed"] == len(report["cases"]) >= 2
    assert all("limit" in case["name"] for case in report["cases"])


def test_conform_shows_what_failed_and_why(command: Command, tmp_path: Path) -> None:
    # The shelf forgets versions when it is closed and opened again, but it says nothing of being persistent.
    result = command("conform", f"shelf:///{tmp_path / 'memories'}", "--only", "limit", "--all")

    assert result.exit_code == 0, result.output
    assert "conforms" in result.stdout


def test_conform_without_cases_does_not_pass(command: Command) -> None:
    assert command("conform", "memory://", "--only", "no such case").exit_code == 1


def test_a_new_plugin_is_written_whole_or_not_at_all(command: Command, tmp_path: Path) -> None:
    result = command("new-plugin", "my-paper")

    assert result.exit_code == 0
    written = {
        str(path.relative_to(tmp_path)) for path in (tmp_path / "memoranda-my-paper").rglob("*") if path.is_file()
    }
    assert set(result.stdout.split()) == written
    assert "memoranda-my-paper/src/memoranda_my_paper/store.py" in written
    assert not [path for path in tmp_path.rglob("*.py") if "{{" in path.read_text()]
    assert command("new-plugin", "my-paper").exit_code == 4
    assert command("new-plugin", "My Paper").exit_code == 2
    assert command("new-plugin", "x", "--folder", "no/such/folder").exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["memoranda-my-paper"]


def test_new_plugins_compile(command: Command, tmp_path: Path) -> None:
    for kind in Kind:
        command("new-plugin", f"my-{kind}", "--kind", kind)

    sources = list(tmp_path.rglob("*.py"))

    assert len(sources) == 5 * len(Kind)
    for path in sources:
        compile(path.read_text(), str(path), "exec")
