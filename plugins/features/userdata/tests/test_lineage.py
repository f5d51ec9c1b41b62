"""What was made from what: taken back with an undo, and erased."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self

import pytest
from pydantic import Field

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, ToolMemory
from memoranda.errors import InputError
from memoranda.store import Store
from memoranda_userdata import Revocation, descendants, erase, revoke, undo_revocation

ADA = MemoryMetadata(user_id="ada", session_id="s")


class Note(MemoryItem):
    """A derived item that stands as long as one of its sources does."""

    memory_type: str = "note"
    sources: list[str] = Field(default_factory=list)

    def without_sources(self, gone: set[str]) -> Self | None:
        left = [source for source in self.sources if source not in gone]
        return self.model_copy(update={"sources": left}) if left else None


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memoranda.open("memory://") as store:
        store.item_types = {**store.item_types, "note": Note}
        yield store


async def conversation(store: Store) -> None:
    """A planted tool result, a summary of it, and a summary of that summary."""
    said = {"metadata": ADA, "archived_by": "first"}
    await store.add_many(
        [
            HumanMemory(id="asked", content="What is new?", **said),
            AIMemory(id="called", content="", tool_calls=[{"id": "c"}], **said),
            ToolMemory(id="page", content="planted canary", tool_call_id="c", tool_name="web", **said),
            SummaryMemory(
                id="first", content="canary", metadata=ADA, sources=["asked", "called", "page"], archived_by="second"
            ),
            SummaryMemory(id="second", content="canary again", metadata=ADA, sources=["first"]),
            HumanMemory(id="other", content="Thanks", metadata=ADA),
            Note(id="note", content="both", metadata=ADA, sources=["page", "other"]),
            Note(id="alone", content="canary alone", metadata=ADA, sources=["page"]),
        ]
    )


async def shown(store: Store) -> list[str]:
    return [item.id for item in reversed(await store.search(limit=100, order="added"))]


async def test_descendants_are_found_at_any_remove(store: Store) -> None:
    await conversation(store)
    found = await descendants(store, "page")
    assert [item.id for item in found] == ["first", "second", "note", "alone"]
    assert await descendants(store, "second") == []


async def test_the_descendants_of_a_purged_item_are_found_by_its_id(store: Store) -> None:
    await conversation(store)
    await store.purge("page")
    assert {item.id for item in await descendants(store, "page")} == {"first", "second", "note", "alone"}


async def test_revoking_an_origin_takes_all_that_was_made_from_it_and_shows_what_it_stood_for(store: Store) -> None:
    await conversation(store)
    receipt = await revoke(store, origin="web", by="Grace")
    assert set(receipt.taken) == {"page", "first", "second", "note", "alone"}
    assert (receipt.roots, receipt.by) == (("page",), "Grace")
    assert await shown(store) == ["asked", "called", "other"]


async def test_a_revocation_is_undone_by_its_receipt_from_a_file(store: Store) -> None:
    await conversation(store)
    before = [item async for item in store.scan()]
    receipt = await revoke(store, item="page")
    await undo_revocation(store, Revocation.from_json(receipt.as_json()))
    after = [item async for item in store.scan()]
    ignored = {"version", "updated_at"}
    assert [item.model_dump(exclude=ignored) for item in after] == [item.model_dump(exclude=ignored) for item in before]


async def test_revoking_since_a_time_leaves_what_was_there_before(store: Store) -> None:
    await store.add(HumanMemory(id="old", content="a", metadata=ADA, created_at="2026-01-01"))
    await store.add(HumanMemory(id="new", content="b", metadata=ADA, created_at="2026-03-01"))
    receipt = await revoke(store, since="2026-02-01")
    assert receipt.taken == ("new",)
    assert await shown(store) == ["old"]


async def test_revoking_nothing_in_particular_is_an_error(store: Store) -> None:
    with pytest.raises(InputError, match="needs an origin, an item or a time"):
        await revoke(store)


async def test_a_handle_revokes_in_its_scope_alone(store: Store) -> None:
    for user in ("ada", "bob"):
        owner = MemoryMetadata(user_id=user)
        await store.add(ToolMemory(id=user, content="x", tool_call_id="c", tool_name="web", metadata=owner))
    receipt = await revoke(store.scoped(user_id="ada"), origin="web")
    assert receipt.taken == ("ada",)
    assert await shown(store) == ["bob"]


async def test_erasing_purges_what_has_no_other_support_and_keeps_the_rest_without_the_source(store: Store) -> None:
    await conversation(store)
    erasure = await erase(store, ["page"])
    assert set(erasure.purged) == {"page", "first", "second", "alone"}
    assert erasure.kept == ("note",)
    kept = await store.get("note")
    assert isinstance(kept, Note)
    assert kept.sources == ["other"]
    assert await shown(store) == ["asked", "called", "other", "note"]
    assert await store.count(include_deleted=True) == 4
    assert not [item async for item in store.scan(include_deleted=True) if "canary" in item.content]


async def test_what_is_kept_without_a_source_keeps_what_was_changed_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await conversation(store)
    scan = store.scan

    async def scan_and_change(**asked: Any) -> AsyncIterator[MemoryItem]:
        async for item in scan(**asked):
            yield item
        note = await store.get("note")
        assert note is not None
        await store.update(note.model_copy(update={"content": "newer"}))

    monkeypatch.setattr(store, "scan", scan_and_change)
    await erase(store, ["page"])

    kept = await store.get("note")
    assert isinstance(kept, Note)
    assert (kept.content, kept.sources) == ("newer", ["other"])


async def test_erasing_takes_derived_items_that_are_deleted(store: Store) -> None:
    await conversation(store)
    for name in ("first", "second", "alone", "note"):
        await store.delete(name)
    erasure = await erase(store, ["page"])
    assert set(erasure.purged) == {"page", "first", "second", "alone"}
    assert await store.restore("first") == 0
    assert not [item async for item in store.scan(include_deleted=True) if "canary" in item.content]


async def test_what_is_deleted_and_has_other_support_stays_deleted_without_the_source(store: Store) -> None:
    await conversation(store)
    await store.delete("note")
    assert (await erase(store, ["page"])).kept == ("note",)
    assert await store.get("note") is None
    await store.restore("note")
    kept = await store.get("note")
    assert isinstance(kept, Note)
    assert kept.sources == ["other"]


async def test_a_receipt_of_an_erasure_names_what_was_purged_alone(store: Store) -> None:
    await conversation(store)
    await store.add(HumanMemory(id="of-bob", content="x", metadata=MemoryMetadata(user_id="bob")))
    ada = store.scoped(user_id="ada")
    await ada.delete("asked")
    erasure = await erase(ada, ["other", "asked", "of-bob", "nothing"])
    assert erasure.purged == ("asked", "first", "other", "second")
    assert erasure.kept == ("note",)
    assert await store.get("of-bob") is not None


async def test_erasing_what_was_purged_before_takes_what_was_made_from_it(store: Store) -> None:
    await conversation(store)
    await store.purge("page")
    erasure = await erase(store, ["page"])
    assert set(erasure.purged) == {"first", "second", "alone"}


@pytest.mark.parametrize("remove", ["purge", "delete"])
async def test_a_summary_of_a_summary_that_went_alone_goes_with_what_both_were_made_from(
    store: Store, remove: str
) -> None:
    await conversation(store)
    await getattr(store, remove)("first")

    assert {item.id for item in await descendants(store, "page")} == {"second", "note", "alone"}
    erased = await erase(store, ["page"])

    assert {"page", "second", "alone"} <= set(erased.purged)
    assert [item.id async for item in store.scan(include_deleted=True) if "canary" in item.content] == []
