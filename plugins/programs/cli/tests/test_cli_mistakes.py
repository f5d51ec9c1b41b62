"""A mistake on the line is answered with what was probably meant, and a narrow terminal shows every word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda.plugins.installing import COMMAND_OFFERED_BY

Command = Callable[..., Any]


@pytest.fixture
def url(command: Command, tmp_path: Path) -> str:
    url = f"shelf:///{tmp_path / 'memories'}"
    command("add", "I like a window seat.", "--user", "ada", "--id", "seat", "--store", url)
    return url


@pytest.mark.parametrize("value", ["true", "False"])
def test_a_flag_takes_no_value(command: Command, url: str, value: str) -> None:
    result = command("purge", "--user", "ada", "--yes", value, "--dry-run", "--store", url)

    assert result.exit_code == 2
    assert f"--yes takes no value. Leave '{value}' out" in " ".join(result.stderr.replace("│", " ").split())


def test_a_query_that_looks_like_a_value_comes_first_or_after_two_dashes(command: Command, url: str) -> None:
    assert command("search", "true", "--json", "--store", url).exit_code == 0
    assert command("search", "--store", url, "--json", "--", "true").exit_code == 0


def test_help_shows_flags_as_flags(command: Command) -> None:
    shown = command("purge", "--help").stdout

    assert "<bool>" not in shown
    assert "  -y, --yes " in shown
    assert "-s, --store URL" in shown


@pytest.mark.parametrize("name", sorted(COMMAND_OFFERED_BY))
def test_a_command_of_another_package_says_how_to_get_it(
    command: Command, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memoranda.plugins import Registry

    monkeypatch.setattr("memoranda.plugins.default_registry", lambda: Registry([]))

    result = command(name)

    assert result.exit_code == 3
    extra = COMMAND_OFFERED_BY[name].removeprefix("memoranda-")
    assert f"The command '{name}' is not available. Try: pip install 'memoranda[{extra}]'" in result.stderr


def test_a_mistyped_scheme_offers_the_right_one(command: Command, tmp_path: Path) -> None:
    result = command("stats", "--store", f"shelff:///{tmp_path / 'memories'}")

    assert result.exit_code == 3
    assert "Did you mean 'shelf'?" in result.stderr


@pytest.mark.parametrize("line", [("search", "seat"), ("history",)])
def test_a_mistyped_user_offers_the_one_that_is_there(command: Command, url: str, line: tuple[str, ...]) -> None:
    mistyped = command(*line, "--user", "adda", "--store", url)
    unfound = command("search", "zebra", "--user", "ada", "--store", url)

    assert mistyped.exit_code == 0
    assert "The store knows no user 'adda'. Did you mean 'ada'?" in mistyped.stderr
    assert "knows no user" not in unfound.stderr


@pytest.mark.parametrize("kind", ["embedder", "embedders", "embeddings", "Embedder"])
def test_a_kind_of_plugin_has_several_words(command: Command, kind: str) -> None:
    assert json.loads(command("new-plugin", "paper", "--kind", kind, "--json").stdout)["kind"] == "embeddings"


def test_an_unknown_kind_of_plugin_offers_a_similar_one(command: Command) -> None:
    result = command("new-plugin", "paper", "--kind", "ranter")

    assert result.exit_code == 2
    assert "Did you mean 'ranker'?" in " ".join(result.stderr.replace("│", " ").split())


def test_a_missing_store_is_named_by_its_url(command: Command, tmp_path: Path) -> None:
    url = f"shelf:///{tmp_path / 'none'}"

    result = command("stats", "--store", url)

    assert result.exit_code == 3
    assert f"{url} does not exist." in result.stderr


def test_the_demo_keeps_its_file_on_request(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("memoranda_sqlite")

    shown = command("demo", "--keep", "demo.db").stdout
    again = command("demo", "--keep", "demo.db")
    both = command("demo", "--keep", "other.db", "--store", "memory://")

    assert "Kept in demo.db." in shown
    assert command("search", "seat", "--user", "ada", "--store", "sqlite:///demo.db").exit_code == 0
    assert (again.exit_code, both.exit_code) == (4, 2)
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize(
    "line", [("search", "seat"), ("search", "seat", "--mode", "text"), ("history",), ("get", "seat")]
)
def test_a_narrow_terminal_shows_the_content(
    command: Command, url: str, line: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # It makes the output a terminal's.
    monkeypatch.setenv("COLUMNS", "40")

    shown = command(*line, "--store", url).stdout

    assert all(word in shown for word in ("like", "window", "seat."))
    assert "…" not in shown
