"""Records are kept beside messages: changed one after the other, never shown, and forgotten with their owner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import memoranda
from memoranda.errors import VersionConflictError
from memoranda.store import Store
from memoranda_messages.sessions import Records
from memoranda_userdata import forget

ODD: list[Any] = [None, 1, "text", {"a": [1, None, {"b": "\x00\ud800"}]}, []]


@pytest.mark.parametrize("value", ODD, ids=repr)
async def test_a_record_comes_back_as_it_was(store: Store, value: Any) -> None:
    records = Records(store.scoped(user_id="ada"), "toy")
    name = "a/b \x00 ü \ud800 " + "x" * 5000

    await records.put("state", name, value, extra={"app": "shop"})
    record = await records.get("state", name)

    assert record is not None
    assert (record.kind, record.name, record.value, record.extra) == ("state", name, value, {"app": "shop"})


async def test_records_of_owners_frameworks_and_kinds_never_meet(store: Store) -> None:
    ada, bob = (store.scoped(user_id=name) for name in ("ada", "bob"))
    await Records(ada, "toy").put("state", "s", 1)

    assert await Records(bob, "toy").get("state", "s") is None
    assert await Records(ada, "other").get("state", "s") is None
    assert await Records(ada, "toy").get("session", "s") is None
    assert await Records(bob, "toy").list("state") == []


async def test_of_two_who_write_the_same_version_one_is_refused(store: Store) -> None:
    records = Records(store, "toy")
    first = await records.put("state", "s", 1)

    with pytest.raises(VersionConflictError):
        await records.put("state", "s", 2)
    second = await records.put("state", "s", 2, version=first.version)
    with pytest.raises(VersionConflictError):
        await records.put("state", "s", 3, version=first.version)

    assert second.version > first.version
    found = await records.get("state", "s")
    assert found is not None
    assert found.value == 2


async def test_changes_at_once_all_count(store: Store) -> None:
    records = Records(store, "toy")

    await asyncio.gather(*[records.change("state", "n", lambda value: (value or 0) + 1) for _ in range(12)])

    found = await records.get("state", "n")
    assert found is not None
    assert found.value == 12


async def test_records_are_listed_the_latest_change_first(store: Store) -> None:
    records = Records(store, "toy")
    for name in ("a", "b", "c"):
        await records.put("state", name, name, extra={"odd": name != "b"})
    await records.change("state", "a", lambda value: value)

    assert [record.name for record in await records.list("state")] == ["a", "c", "b"]
    assert [record.name for record in await records.list("state", where={"odd": True})] == ["a", "c"]
    assert [record.name for record in await records.list("state", limit=1, offset=1)] == ["c"]


async def test_a_removed_record_can_be_made_again(store: Store) -> None:
    records = Records(store, "toy")
    await records.put("state", "s", 1)

    assert await records.remove("state", "s") is True
    assert await records.remove("state", "s") is False
    assert await records.get("state", "s") is None
    await records.put("state", "s", 2)


async def test_records_are_in_no_window_search_or_recall_and_are_forgotten(store: Store) -> None:
    handle = store.scoped(user_id="ada")
    await Records(handle, "toy").put("state", "secret garden", {"secret": "garden"})

    assert await handle.search(limit=10) == []
    assert await handle.window(rounds=5) == []
    assert await handle.recall("secret garden", min_score=0) == []
    receipt = await forget(store, "ada")
    assert (receipt.found, receipt.complete) == (1, True)


async def test_a_record_is_not_recalled_by_meaning_either() -> None:
    from memoranda_backend.ranking import HashingEmbeddings

    async with memoranda.open("vector://", embeddings=HashingEmbeddings()) as store:
        await Records(store.scoped(user_id="ada"), "toy").put("state", "s", 1)

        assert await store.scoped(user_id="ada").recall("anything at all", min_score=0) == []
