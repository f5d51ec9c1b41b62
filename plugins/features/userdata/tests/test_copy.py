"""``memoranda copy``: order, lifetimes, and what it says that it compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryMetadata, SystemMemory
from memoranda.sync import open as open_store

Command = Callable[..., Any]


@pytest.fixture
def urls(tmp_path: Path) -> tuple[str, str]:
    return f"shelf:///{tmp_path / 'source'}", f"shelf:///{tmp_path / 'target'}"


def test_lines_that_were_added_in_another_order_than_their_times_are_copied(
    command: Command, urls: tuple[str, str]
) -> None:
    source, target = urls
    for day in ("2024-01-02", "2024-01-03", "2024-01-01"):
        command("add", day, "--at", day, "--user", "ada", "--store", source)

    result = command("copy", source, target)

    assert result.exit_code == 0, result.stderr
    with open_store(target) as store:
        assert [item.content for item in store.scan(order="added")] == ["2024-01-02", "2024-01-03", "2024-01-01"]
        assert [item.content for item in store.scan()] == ["2024-01-01", "2024-01-02", "2024-01-03"]


def test_a_copy_says_that_versions_are_not_compared(command: Command, urls: tuple[str, str]) -> None:
    command("add", "hello", "--store", urls[0])

    assert "1 read back, equal in every field but the version" in command("copy", *urls).stderr
    assert "start anew in the copy" in " ".join(command("copy", "--help").stdout.split())


def test_a_store_that_cannot_let_items_expire_gets_none_of_a_copy_or_an_import(
    command: Command, urls: tuple[str, str], tmp_path: Path
) -> None:
    plain = f"plain:///{tmp_path / 'plain'}"
    with open_store(urls[0]) as store:
        store.add_many(HumanMemory(content=str(number)) for number in range(600))
        store.add(SystemMemory(content="for an hour"), ttl=3_600)
    command("export", "all.jsonl", "--store", urls[0])

    copied = command("copy", urls[0], plain)
    imported = command("import", "all.jsonl", "--store", plain)

    assert (copied.exit_code, imported.exit_code) == (6, 6)
    assert "1 items of the source expire" in copied.stderr
    assert "line 602 is one" in imported.stderr
    assert not (tmp_path / "plain").exists()


def test_what_has_expired_since_it_was_exported_is_left_out_and_told(
    command: Command, urls: tuple[str, str], tmp_path: Path
) -> None:
    target = urls[1]
    over = HumanMemory(content="over", expires_at="2024-01-01", metadata=MemoryMetadata(user_id="ada"))
    lines = [over.model_dump(mode="json"), {"memory_type": "human", "content": "stays"}]
    (tmp_path / "old.jsonl").write_text("\n".join(map(json.dumps, lines)))

    result = command("import", "old.jsonl", "--store", target)

    assert result.exit_code == 0, result.stderr
    assert "1 added, 1 expired" in result.stderr
    with open_store(target) as store:
        assert [item.content for item in store.scan()] == ["stays"]


def test_a_source_that_cannot_delete_is_copied_with_deleted_as_well(command: Command, tmp_path: Path) -> None:
    source, target = f"plain:///{tmp_path / 'plain'}", f"shelf:///{tmp_path / 'target'}"
    command("add", "hello", "--store", source)

    result = command("copy", source, target, "--deleted")

    assert result.exit_code == 0, result.stderr
    assert "1 added" in result.stderr
