"""What is erased goes with all that was made from it: deleted summaries, earlier versions and receipts as well."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest
from pydantic import Field
from receipt_stores import traces, url_of

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store.records import copying_records
from memoranda_receipts import Receipts, Recording
from memoranda_summary import SummaryConfig, compact, undo
from memoranda_userdata import erase

CANARY = "zyzzogeton"
OWNER = MemoryMetadata(user_id="ada", session_id="trip")
ENGINES = ["sqlite", *[pytest.param(name, marks=pytest.mark.slow) for name in ("postgres", "redis")]]


@pytest.fixture(scope="module")
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Note(MemoryItem):
    """A derived item that quotes its sources, and stands as long as it has one."""

    memory_type: str = "note"
    sources: list[str] = Field(default_factory=list)
    quotes: dict[str, str] = Field(default_factory=dict)

    def without_sources(self, gone: Collection[str]) -> Self | None:
        left = {name: text for name, text in self.quotes.items() if name not in gone}
        return self.model_copy(update={"sources": list(left), "quotes": left}) if left else None


class Repeating:
    """A model whose summary repeats the canary."""

    async def summarize(self, prompt: str) -> str:
        return f"They spoke of a {CANARY}."


@pytest.mark.parametrize("options", [{}, {"revisions": True}], ids=["plain", "revisions"])
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_summary_that_was_withdrawn_goes_with_its_source(
    engine: str, options: dict[str, Any], servers: ExitStack, tmp_path: Path
) -> None:
    url = url_of(engine, servers, tmp_path)
    async with memoranda.open(url, **options) as store:
        handle = store.scoped(user_id="ada", session_id="trip")
        await handle.add(HumanMemory(id="pet", content=f"My {CANARY} sings."))
        for number in range(4):
            await handle.add(AIMemory(content=f"Answer {number}."))
            await handle.add(HumanMemory(content=f"Question {number}."))
        made = await compact(handle, OWNER, SummaryConfig(message_threshold=4, keep_recent=2), Repeating())
        assert made is not None
        summaries = [item.id async for item in handle.scan(memory_type="summary")]
        await undo(handle, summaries[0])
        erasure = await erase(handle, ["pet"])
        assert set(erasure.purged) == {"pet", *summaries}
        assert [await handle.restore(name) for name in summaries] == [0]
        assert engine == "sqlite" or await traces(url, CANARY) == []
    assert await traces(url, CANARY) == []


async def test_earlier_versions_of_what_is_kept_do_not_repeat_what_was_erased(
    servers: ExitStack, tmp_path: Path
) -> None:
    url = url_of("sqlite", servers, tmp_path)
    async with memoranda.open(url, revisions=True) as store:
        store.item_types = {**store.item_types, "note": Note}
        handle = store.scoped(user_id="ada", session_id="trip")
        await handle.add(HumanMemory(id="pet", content=f"My {CANARY} sings."))
        await handle.add(HumanMemory(id="other", content="It sings."))
        await handle.add(Note(id="note", content="", sources=["other"], quotes={"other": "It sings."}))
        quotes = {"pet": f"My {CANARY} sings.", "other": "It sings."}
        await handle.add(Note(id="note", content="It sings.", sources=list(quotes), quotes=quotes))
        assert (await erase(handle, ["pet"])).kept == ("note",)
        kept = await handle.get("note")
        assert isinstance(kept, Note)
        assert kept.sources == ["other"]
        assert await handle.versions("note") == []  # type: ignore[attr-defined]
    assert await traces(url, CANARY) == []


@pytest.mark.parametrize("way", ["purge", "erase", "apply", "session", "bin"])
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_store_opened_without_revisions_purges_those_that_it_kept_before(
    engine: str, way: str, servers: ExitStack, tmp_path: Path
) -> None:
    url = url_of(engine, servers, tmp_path)
    async with memoranda.open(url, revisions=True) as store:
        handle = store.scoped(user_id="ada", session_id="trip")
        await handle.add(HumanMemory(id="pet", content=f"My {CANARY} sings."))
        await handle.add(HumanMemory(id="pet", content="Nothing."))
    async with memoranda.open(url) as store:
        if way == "purge":
            await store.purge("pet")
        elif way == "erase":
            await erase(store, ["pet"])
        elif way == "apply":
            await store.scoped(user_id="ada").apply(deletes=["pet"], purge=True)
        elif way == "session":
            await store.purge(metadata=OWNER)
        else:
            await store.delete("pet")
            await store.purge(deleted_only=True)
        assert engine == "sqlite" or await traces(url, CANARY) == []
    assert await traces(url, CANARY) == []


async def test_purging_deleted_items_of_one_user_with_those_of_another_cleans_the_receipts_of_both() -> None:
    async with memoranda.open("memory://") as store:
        for user in ("ada", "bob"):
            handle = store.scoped(user_id=user, session_id="trip")
            await handle.add(HumanMemory(id=f"of-{user}", content=f"The {CANARY} of {user}."))
            await handle.window(receipt=Recording(payload=True, id=f"shown-{user}"))
        await store.delete("of-bob")
        await store.apply(deletes=["of-ada", "of-bob"], purge=True)
        assert [receipt.contents for receipt in await Receipts(store).list()] == [None, None]


async def test_no_field_of_an_item_is_taken_for_what_its_class_can_do() -> None:
    async with memoranda.open("memory://") as store:
        ada = store.scoped(user_id="ada")
        await ada.add(HumanMemory(id="said", content=CANARY))
        fields: dict[str, Any] = {"sources": ["said"], "without_sources": "nothing"}
        await ada.add(MemoryItem(id="derived", content=CANARY, **fields))

        assert set((await erase(ada, ["said"])).purged) == {"said", "derived"}


@pytest.mark.parametrize("kind", ["fact", "receipt"])
async def test_what_says_that_it_was_made_from_it_and_cannot_be_read_goes_too(kind: str) -> None:
    """Anybody may add such a fact; it must not keep what it names."""
    async with memoranda.open("memory://") as store:
        ada = store.scoped(user_id="ada")
        await ada.add(HumanMemory(id="said", content=CANARY))
        with copying_records(store):
            spoilt: dict[str, Any] = {"memory_type": kind, "payload": "nonsense", "sources": ["said"]}
            await ada.scoped(user_id="ada").add(MemoryItem(id="spoilt", content=CANARY, **spoilt))

        erased = await erase(ada, ["said"])

        assert set(erased.purged) == {"said", "spoilt"}
        assert await ada.count(include_deleted=True) == 0
