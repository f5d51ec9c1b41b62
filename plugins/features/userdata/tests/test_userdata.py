"""A user's data is exported, read back and erased through Python, on every kind of store."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import ConflictError, CorruptStoreError, InputError
from memoranda.store import Store
from memoranda_userdata import FileError, export, forget, import_, similar_users
from servers import Engines

ADA = MemoryMetadata(user_id="ada")


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines() as started:
        yield started


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> AsyncIterator[Store]:
    """A store with three items of ada, of which one is deleted, and one of bob."""
    with engines.empty_store(request.param, tmp_path) as url:
        async with memoranda.open(url) as opened:
            ada = opened.scoped(user_id="ada")
            await ada.add_many([HumanMemory(id=name, content=name) for name in ("a1", "a2", "a3")])
            await opened.scoped(user_id="bob").add(HumanMemory(id="b1", content="b1"))
            await opened.delete("a3")
            yield opened


async def contents(store: Store, **wanted: Any) -> list[str]:
    return [item.content async for item in store.scan(order="added", **wanted)]


async def test_forget_erases_a_user_and_returns_a_complete_receipt(store: Store) -> None:
    receipt = await forget(store, "ada")

    assert receipt.complete
    assert (receipt.found, receipt.deleted, receipt.removed) == (2, 1, 3)
    assert receipt.as_json()["complete"] is True
    assert receipt.store == store.label
    assert await contents(store, include_deleted=True) == ["b1"]


async def test_forgetting_an_unknown_user_erases_nothing_and_similar_users_are_found(store: Store) -> None:
    receipt = await forget(store, "adda")

    assert (receipt.found, receipt.deleted, receipt.removed) == (0, 0, 0)
    assert await similar_users(store, "adda") == ["ada"]
    assert await contents(store) == ["a1", "a2", "b1"]


async def test_an_export_is_read_back_with_its_order_and_its_deleted_items(store: Store, tmp_path: Path) -> None:
    exported = await export(store, tmp_path / "all.jsonl", deleted=True)

    async with memoranda.open("memory://") as other:
        counts = await import_(other, tmp_path / "all.jsonl")
        again = await import_(other, tmp_path / "all.jsonl")

        assert exported.count == 4
        assert (counts.added, counts.deleted, again.added, again.unchanged) == (4, 1, 0, 4)
        assert await contents(other) == ["a1", "a2", "b1"]
        assert await contents(other, include_deleted=True) == ["a1", "a2", "a3", "b1"]


async def test_an_export_of_one_user_goes_to_an_open_file(store: Store) -> None:
    file = io.StringIO()
    steps: list[int] = []

    exported = await export(store, file, metadata=ADA, advance=steps.append)

    lines = file.getvalue().splitlines()
    assert exported.count == sum(steps) == 2
    assert len(lines) == 4
    assert exported.digest in lines[-1]
    assert not any('"b1"' in line for line in lines)


async def test_a_damaged_or_foreign_file_stores_nothing(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    await export(store, path)
    whole = path.read_text()
    async with memoranda.open("memory://") as other:
        path.write_text(whole.replace('"content":"a1"', '"content":"xx"'))
        with pytest.raises(CorruptStoreError, match="changed or damaged"):
            await import_(other, path)
        path.write_text('{"content": "x"}\n')
        with pytest.raises(InputError, match="line 1"):
            await import_(other, path)
        assert await other.count() == 0


async def test_a_conflict_is_refused_skipped_or_overwritten(store: Store) -> None:
    file = io.StringIO()
    await export(store, file)
    async with memoranda.open("memory://") as other:
        await other.scoped(user_id="ada").add(HumanMemory(id="a1", content="other"))
        with pytest.raises(ConflictError, match="a1"):
            await import_(other, file)
        assert (await import_(other, file, on_conflict="skip")).skipped == 1
        assert (await import_(other, file, on_conflict="overwrite")).overwritten == 1
        assert sorted(await contents(other)) == ["a1", "a2", "b1"]


async def test_an_unwritable_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/somewhere/.all.jsonl.x8f2")

    async with memoranda.open("memory://") as store:
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            await export(store, tmp_path / "none" / "all.jsonl")
        with pytest.raises(FileError, match="it is a folder"):
            await export(store, tmp_path)
        monkeypatch.setattr("tempfile.mkstemp", refuse)  # Permissions do not bind a test that root runs.
        with pytest.raises(FileError, match="Permission denied") as refused:
            await export(store, tmp_path / "all.jsonl")
    assert str(tmp_path / "all.jsonl") in str(refused.value)
    assert "x8f2" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


async def test_a_user_can_be_named_for_items_that_have_none(store: Store) -> None:
    file = io.StringIO('{"memory_type": "human", "content": "hello"}\n')

    await import_(store, file, user_id="carol", session_id="monday")

    carol = MemoryMetadata(user_id="carol", session_id="monday")
    assert await contents(store, metadata=carol) == ["hello"]
