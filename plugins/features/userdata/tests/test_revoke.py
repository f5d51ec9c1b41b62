"""``memoranda revoke``: what an origin wrote goes with what was made from it, and comes back by its receipt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryMetadata, SummaryMemory
from memoranda.sync import open as open_store

Command = Callable[..., Any]


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"shelf:///{tmp_path / 'store'}"
    ada = MemoryMetadata(user_id="ada")
    with open_store(url) as opened:
        opened.add(HumanMemory(id="page", content="planted", origin="evil.example", metadata=ada))
        opened.add(HumanMemory(id="said", content="hello", metadata=ada, archived_by="summary"))
        opened.add(SummaryMemory(id="summary", content="planted", sources=["page", "said"], metadata=ada))
        opened.add(HumanMemory(id="other", content="hi", origin="evil.example", metadata=MemoryMetadata(user_id="bob")))
    return url


def shown(url: str) -> set[str]:
    with open_store(url) as opened:
        return {item.id for item in opened.search(limit=100)}


def test_an_origin_is_taken_back_and_its_receipt_brings_it_again(command: Command, store: str) -> None:
    taken = command("revoke", "--origin", "evil.example", "--receipt", "r.json", "--yes", "--store", store)
    assert taken.exit_code == 0
    assert "3 items taken back, 1 of them made from others" in taken.output
    assert shown(store) == {"said"}

    assert command("revoke", "--undo", "r.json", "--store", store).exit_code == 0
    assert shown(store) == {"page", "summary", "other"}


def test_a_user_bounds_what_is_taken_back(command: Command, store: str) -> None:
    done = command("revoke", "--origin", "evil.example", "--user", "ada", "--yes", "--json", "--store", store)
    assert set(json.loads(done.output)["taken"]) == {"page", "summary"}
    assert shown(store) == {"said", "other"}


def test_a_dry_run_changes_nothing(command: Command, store: str) -> None:
    found = command("revoke", "--item", "page", "--dry-run", "--store", store)
    assert "2 items would be taken back" in found.output
    assert shown(store) == {"page", "summary", "other"}


def test_what_is_to_be_taken_back_has_to_be_named(command: Command, store: str) -> None:
    assert command("revoke", "--yes", "--store", store).exit_code == 2


def test_a_file_without_a_receipt_is_an_error(command: Command, store: str) -> None:
    Path("r.json").write_text("{}")
    refused = command("revoke", "--undo", "r.json", "--store", store)
    assert refused.exit_code == 2
    assert "no receipt" in refused.output


def test_an_item_is_purged_with_what_was_made_from_it(command: Command, store: str) -> None:
    done = command("purge", "page", "--derived", "--yes", "--store", store)
    assert "2 items removed for good" in done.output
    assert shown(store) == {"said", "other"}
    assert command("purge", "--derived", "--user", "ada", "--yes", "--store", store).exit_code == 2


@pytest.mark.parametrize("more", [("--yes",), ("--dry-run",)])
def test_an_origin_that_wrote_nothing_is_told_so(command: Command, store: str, more: tuple[str, ...]) -> None:
    done = command("revoke", "--origin", "nobody.example", *more, "--store", store)

    assert done.exit_code == 0
    assert done.stderr.splitlines()[-1] == "No item matches: there is nothing to take back."


def test_an_item_that_nothing_was_made_from_is_counted_alone(command: Command, store: str) -> None:
    done = command("revoke", "--item", "other", "--yes", "--store", store)

    assert done.stderr.splitlines()[-1] == "1 item taken back."
