"""Ordinary reads go on as if there were no receipts and no revisions, to the last digit of a score."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from receipt_stores import opened

from memoranda import AIMemory, HumanMemory, MemoryItem, SystemMemory
from memoranda.store import Capability, Store, dump_item
from memoranda_context import assemble
from memoranda_facts import Facts
from memoranda_facts.extraction import ExtractionRun, installed_extractor
from memoranda_receipts import Receipts, Recording
from memoranda_summary import SummaryConfig, compact

SERVERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("postgres", "redis")]
ENGINES = ["memory", "sqlite", "vector", *SERVERS]
QUERY = "green bicycle in shed 3"
TYPES = (None, "human", ("human", "ai"))


@pytest.fixture(scope="module")
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def talk(handle: Store) -> None:
    await handle.add(SystemMemory(id="system", content="Be brief."))
    for number in range(12):
        said = f"The bicycle number {number} is {'red' if number % 3 else 'green'} and stands in shed {number // 4}."
        item = (HumanMemory, AIMemory)[number % 2](id=f"item-{number}", content=said, name="Ada")
        await handle.add(item.model_copy(update={"archived_by": "gone"}) if number in (2, 3) else item)


async def read(store: Store, handle: Store) -> dict[str, Any]:
    """Return everything that the reads of a conversation show, with scores."""
    found: dict[str, Any] = {"head": await handle.head(), "window": await handle.window(), "tail": {}}
    for place in (store, store.scoped(user_id="ada"), handle):
        name = f"{place.bounds}"
        found[f"recall {name}"] = await place.recall(QUERY, limit=20)
        for archived in (False, True, None):
            for kinds in TYPES:
                asked: dict[str, Any] = {"archived": archived, "memory_type": kinds, "limit": 100}
                found[f"search {name} {asked}"] = await place.search(mode="substring", **asked)
                found[f"words {name} {asked}"] = await place.search(query="bicycle", mode="substring", **asked)
                for mode in ("text", "semantic", "hybrid"):
                    if Capability(mode) in store.capabilities:
                        ranked = await place.search_ranked(query=QUERY, mode=mode, **asked)  # type: ignore[arg-type]
                        found[f"{mode} {name} {asked}"] = [(each.item.id, each.score) for each in ranked]
                del asked["limit"]
                payloads = await place.payloads(**asked)
                found[f"payloads {name} {asked}"] = [each.item_id for each in payloads]
    return {
        name: [_plain(each) for each in shown] if isinstance(shown, list) else shown for name, shown in found.items()
    }


def _plain(shown: Any) -> Any:
    return dump_item(shown) | {"version": 0} if isinstance(shown, MemoryItem) else shown


@pytest.mark.parametrize("engine", ENGINES)
async def test_receipts_change_nothing_that_reads_show(engine: str, servers: ExitStack, tmp_path: Path) -> None:
    async with opened(engine, servers, tmp_path) as store:
        handle = store.scoped(user_id="ada", session_id="trip")
        await talk(handle)
        before = await read(store, handle)
        for number in range(9):
            await handle.window(receipt=Recording(payload=True, model="green bicycle"))
            await assemble(handle, f"Is bicycle {number} in shed 3?", receipt=True)
        assert await read(store, handle) == before
        assert len(await Receipts(handle).list()) == 18


@pytest.mark.parametrize("engine", ENGINES)
async def test_revisions_change_nothing_that_reads_show(engine: str, servers: ExitStack, tmp_path: Path) -> None:
    async with opened(engine, servers, tmp_path, revisions=True) as store:
        handle: Any = store.scoped(user_id="ada", session_id="trip")
        await talk(handle)
        before, counted = await read(store, handle), await handle.count(include_deleted=True)
        listed = [(owner.value, owner.count) async for owner in store.owners("session_id")]
        for number in range(3):
            for name in ("item-0", "item-2", "item-5"):
                item = await handle.get(name)
                await handle.update(item.model_copy(update={"content": f"A green bicycle, {number}."}))
                await handle.update((await handle.get(name)).model_copy(update={"content": item.content}))
        assert len(await handle.versions("item-5")) == 6
        after = await read(store, handle)
        for name in ("recall", "search", "words", "window"):  # Only the times of the last change differ.
            for key in [key for key in after if key.startswith(name)]:
                after[key], before[key] = (
                    [{**each, "updated_at": ""} for each in shown[key]] for shown in (after, before)
                )
        assert after == before
        assert await handle.count(include_deleted=True) == counted
        assert [(owner.value, owner.count) async for owner in store.owners("session_id")] == listed
        assert len([item async for item in handle.scan(include_deleted=True)]) == counted


class Notes:
    """A model that notes what it is asked."""

    def __init__(self) -> None:
        self.asked = ""

    async def summarize(self, prompt: str) -> str:
        self.asked += prompt
        return "They talked about bicycles."


@pytest.mark.parametrize("options", [{}, {"revisions": True}], ids=["receipts", "revisions"])
async def test_no_summary_and_no_fact_is_made_of_a_record(
    options: dict[str, Any], servers: ExitStack, tmp_path: Path
) -> None:
    async with opened("memory", servers, tmp_path, **options) as store:
        handle = store.scoped(user_id="ada", session_id="trip")
        await handle.add(HumanMemory(id="home", content="I live in Canaryville."))
        await handle.window(receipt=Recording(payload=True, model="Canaryville"))
        await handle.add(HumanMemory(id="home", content="I live in Oslo."))
        await talk(handle)
        model = Notes()
        await compact(handle, None, SummaryConfig(keep_recent=2), model, force=True)
        facts = Facts(store.scoped(user_id="ada"))
        await ExtractionRun(facts, installed_extractor("rules")).run()
        told = [str(each) for each in await facts.search("Where does Ada live?", history=True)]
        assert "Canary" not in f"{model.asked}{told}"
        assert "bicycle" in model.asked
        assert "Oslo" in f"{told}"
