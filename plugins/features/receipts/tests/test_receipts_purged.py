"""What is purged leaves receipts as well: contents that they were asked to keep, and questions that were items."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from receipt_stores import opened, traces, url_of

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryMetadata
from memoranda.store import InMemoryStore, ScopedStore, Store
from memoranda_context import ContextManager, assemble
from memoranda_guard import Fence
from memoranda_receipts import Receipts, Recording
from memoranda_userdata import erase, forget

CANARY = "zyzzogeton"
SAID = f"My {CANARY} sings.\nLoudly."
SERVERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("postgres", "redis")]
WAYS = ("purge", "by session", "by filter", "apply", "pop", "erase", "bin", "forget")


@pytest.fixture(scope="module")
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def plant(store: Store, question: str = SAID) -> ScopedStore:
    """Record contexts of another session that hold the canary in every way that there is."""
    ada = store.scoped(user_id="ada", session_id="trip")
    await store.scoped(user_id="ada", session_id="pets").add(HumanMemory(id="pet", content=SAID, trust="external"))
    await ada.add(HumanMemory(id="hello", content="Hello."))
    for payload in (False, True):
        await assemble(ada, "Who sings?", fence=Fence(), receipt=Recording(payload=payload))
        await assemble(ada, question, receipt=Recording(payload=payload))
        await ContextManager(long_term=ada, receipt=Recording(payload=payload)).assemble_context("Who sings?", ada)
    await Receipts(ada).answered((await Receipts(ada).list())[0], answer="answer")
    return ada


async def remove(store: Any, way: str) -> None:
    pets = store.scoped(user_id="ada", session_id="pets")
    if way == "purge":
        await store.purge("pet")
    elif way == "by session":
        await store.purge(metadata=MemoryMetadata(session_id="pets"))
    elif way == "by filter":
        await store.scoped(user_id="ada").purge(where={"id": "pet"})
    elif way == "apply":
        await pets.apply(deletes=["pet"], purge=True)
    elif way == "pop":
        await pets.pop(purge=True)
    elif way == "erase":
        await erase(store, ["pet"])
    elif way == "bin":
        await store.delete("pet")
        await store.purge(deleted_only=True)
    else:
        assert (await forget(store, "ada")).complete


@pytest.mark.parametrize("options", [{}, {"revisions": True}], ids=["plain", "revisions"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ["sqlite", *SERVERS])
async def test_a_purged_word_is_in_no_receipt(
    engine: str, way: str, options: dict[str, Any], servers: ExitStack, tmp_path: Path
) -> None:
    url = url_of(engine, servers, tmp_path)
    async with memoranda.open(url, **options) as store:
        ada = await plant(store, "Who sings?" if way == "pop" else SAID)  # What was popped is not known by its text.
        await remove(store, way)
        receipts = await Receipts(ada).list()
        assert len(receipts) == (0 if way == "forget" else 6)
        for receipt in receipts:
            replay = await Receipts(ada).replay(receipt)
            assert [(change.id, change.change) for change in replay.changes] == [("pet", "purged")]
            assert not replay.exact
        assert engine == "sqlite" or await traces(url, CANARY) == []
    assert await traces(url, CANARY) == []


@pytest.mark.parametrize("how", ["purge", "pop", "apply"])
async def test_a_question_that_was_asked_before_it_was_an_item_goes_with_the_item(how: str) -> None:
    async with memoranda.open("memory://") as store:
        ada = store.scoped(user_id="ada", session_id="trip")
        await ada.add(AIMemory(id="hello", content="Hello."))
        await assemble(ada, SAID, system="Be brief.", receipt=Recording(id="first"))
        await ada.add(HumanMemory(id="question", content=SAID))
        await assemble(ada, "Another question.", receipt=Recording(id="second"))
        if how == "purge":
            await store.purge("question")
        elif how == "pop":
            await ada.pop(purge=True)
        else:
            await store.apply(deletes=["question"], purge=True)
        receipts = Receipts(ada)
        first, second = [await receipts.replay(name) for name in ("first", "second")]
        assert [str(change) for change in first.changes] == ["question was purged since"]
        assert [item.content for item in first.items] == ["Be brief.", "Hello.", "[question: purged]"]
        assert [item.content for item in second.items] == ["Hello.", "Another question."]
        assert [each.rule for each in (await receipts.diff("first", "second")).entered] == ["removed"]
        assert (await receipts.get("first")).parameters["tokens"] == 4_000


@pytest.mark.parametrize("way", WAYS)
async def test_what_was_known_from_a_purged_item_is_in_no_receipt(way: str, tmp_path: Path) -> None:
    async with memoranda.open(f"sqlite:///{tmp_path / 'agent.db'}", facts="rules") as store:
        pets = store.scoped(user_id="ada", session_id="pets")
        await pets.add(HumanMemory(id="pet", content="I live in Zyzzogeton."))
        ada = store.scoped(user_id="ada", session_id="trip")
        await assemble(ada, "Where do I live?", receipt=Recording(id="known", payload=True))
        assert "profile" in ((await Receipts(ada).get("known")).contents or {})

        await remove(store, way)
        assert await store.known(tokens=100, metadata=MemoryMetadata(user_id="ada")) == []

        held = [item async for item in store.scan(include_deleted=True)]
        assert not [item.id for item in held if CANARY in item.model_dump_json().casefold()]


async def test_other_items_and_other_users_keep_what_they_have() -> None:
    async with memoranda.open("memory://") as store:
        for user in ("ada", "bob"):
            handle = store.scoped(user_id=user, session_id="trip")
            for name in "ab":
                await handle.add(HumanMemory(id=f"{user}-{name}", content=f"I am {name}."))
            await assemble(handle, "I am a.", receipt=Recording(payload=True, id=f"of-{user}"))
        await store.scoped(user_id="ada").purge("ada-b")
        ada, bob = Receipts(store.scoped(user_id="ada")), Receipts(store.scoped(user_id="bob"))
        assert (await bob.replay("of-bob")).exact
        found = await ada.get("of-ada")
        assert list(found.contents or ()) == ["ada-a"]
        assert "I am a." in found.texts
        await store.delete("ada-a")
        await store.scoped(user_id="ada").purge(deleted_only=True)
        assert (await ada.get("of-ada")).contents is None
        assert "I am a." in (await bob.get("of-bob")).texts


async def test_a_deleted_receipt_that_holds_a_purged_item_goes_with_it() -> None:
    async with memoranda.open("memory://") as store:
        await store.add(HumanMemory(id="pet", content=SAID))
        await store.window(receipt=Recording(payload=True, id="kept"))
        await store.delete("kept")
        await store.purge("pet")
        assert await store.count(include_deleted=True) == 0


async def test_a_store_that_was_not_opened_by_its_url_is_watched_once_it_has_a_receipt() -> None:
    async with InMemoryStore() as store:
        await store.add(HumanMemory(id="pet", content=SAID))
        for _ in range(3):
            await store.window(receipt=Recording(payload=True))
        await store.purge("pet")
        assert CANARY not in "".join([item.model_dump_json() async for item in store.scan()])


async def test_what_is_deleted_and_can_be_restored_stays_in_receipts(servers: ExitStack, tmp_path: Path) -> None:
    async with opened("sqlite", servers, tmp_path) as store:
        await store.add(HumanMemory(id="pet", content=SAID))
        await store.window(receipt=Recording(payload=True, id="kept"))
        await store.delete("pet")
        replay = await Receipts(store).replay("kept")
        assert replay.exact
        assert [change.change for change in replay.changes] == ["deleted"]
