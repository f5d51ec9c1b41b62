"""Writing facts to stores that fail, that are not atomic, and whose handles are of many kinds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from stepwise import StepwiseStore

import memoranda
from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.errors import CorruptStoreError, InputError, StoreUnavailableError
from memoranda.store import Capability, InMemoryStore, Store
from memoranda_facts import Candidate, FactConflictError, FactMemory, Facts, Predicate, Schema, Source


class Breaking(StepwiseStore):
    """A store without atomic batches, whose connection breaks after the first item of the next one."""

    capabilities = InMemoryStore.capabilities - {Capability.ATOMIC}
    broken = False

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        if self.broken and len(items) > 1:
            self.broken = False
            await super()._update_many(items[:1], within)
            raise StoreUnavailableError("The connection broke.")
        return await super()._update_many(items, within)


async def batch(handle: Store) -> list[Candidate]:
    item = HumanMemory(content="We all like tea.")
    await handle.add(item)
    source = (Source(item.id),)
    return [Candidate(name, "likes", "tea", sources=source, rule="r") for name in ("Ada", "Bob", "Eve")]


async def test_a_batch_that_broke_off_is_finished_by_applying_it_again() -> None:
    store = Breaking()
    handle = store.scoped(user_id="ada")
    facts, candidates = Facts(handle), await batch(handle)
    store.broken = True
    with pytest.raises(StoreUnavailableError):
        await facts.apply(candidates)
    assert len(await facts.current()) == 1
    await facts.apply(candidates)
    assert sorted(fact.subject for fact in await facts.current()) == ["Ada", "Bob", "Eve"]
    assert len([item async for item in handle.scan(memory_type="fact")]) == 3


async def test_an_undo_that_broke_off_is_finished_by_undoing_again() -> None:
    store = Breaking()
    handle = store.scoped(user_id="ada")
    facts = Facts(handle)
    receipt = await facts.apply(await batch(handle))
    store.broken = True
    with pytest.raises(StoreUnavailableError):
        await facts.undo(receipt)
    assert len(await facts.current()) == 2
    await facts.undo(receipt)
    assert await facts.current() == []


async def test_an_alias_that_is_declared_later_joins_the_logs_of_both_names() -> None:
    store = InMemoryStore()
    handle = store.scoped(user_id="ada")
    before = Facts(handle)
    await before.set("Ada", "home", "Paris", valid_from="2020", sources="manual")
    receipt = await before.set("Ada", "lives_in", "Rome", valid_from="2021", sources="manual")
    after = Facts(handle, schema=Schema([Predicate("lives_in", "one", aliases=("home",))]))
    assert [str(fact.object) for fact in await after.current()] == ["Rome"]
    await after.undo(receipt)
    assert [str(fact.object) for fact in await after.current()] == ["Paris"]


async def test_names_that_are_merged_in_a_circle_are_one_subject() -> None:
    facts = Facts(InMemoryStore().scoped(user_id="ada"))
    await facts.set("Ada", "likes", "tea", sources="manual")
    await facts.set("Bob", "likes", "milk", sources="manual")
    await facts.merge("Ada", "Bob", sources="manual")
    await facts.merge("Bob", "Ada", sources="manual")
    assert len(await facts.current("Ada")) == len(await facts.current("Bob")) == 2


async def test_a_deleted_entry_is_not_overwritten_by_the_next_one() -> None:
    handle = InMemoryStore().scoped(user_id="ada")
    first = await Facts(handle).set("Ada", "likes", "tea", sources="manual")
    await handle.delete(first.entries[0])
    second = await Facts(handle).set("Ada", "likes", "milk", sources="manual")
    assert second.entries != first.entries
    await handle.restore(first.entries[0])
    assert sorted(str(fact.object) for fact in await Facts(handle).current()) == ["milk", "tea"]


async def test_an_entry_that_was_deleted_since_all_were_read_is_not_overwritten(tmp_path: Path) -> None:
    async with memoranda.open(f"sqlite:///{tmp_path / 'facts.db'}") as store:
        handle = store.scoped(user_id="ada")
        first = await Facts(handle).set("Ada", "likes", "tea", sources="manual")
        await store.delete(first.entries[0])
        facts = Facts(handle)
        assert await facts.current() == []

        later = await facts.set("Ada", "likes", "coffee", sources="manual")

        assert later.entries != first.entries
        await store.restore(first.entries[0])
        assert {fact.object for fact in await facts.current()} == {"tea", "coffee"}


async def test_a_new_slot_that_others_wrote_since_all_were_read_is_read_again() -> None:
    handle = InMemoryStore().scoped(user_id="ada")
    facts, others = (Facts(handle, schema=Schema([Predicate("lives_in", "one")])) for _ in range(2))
    assert await facts.current() == []
    written = await others.set("Ada", "lives_in", "Rome", sources="manual", key="k")

    with pytest.raises(FactConflictError):
        await facts.set("Ada", "lives_in", "Bari", sources="manual", expect=[])
    again = await facts.set("Ada", "lives_in", "Rome", sources="manual", key="k")
    changed = await facts.set("Ada", "lives_in", "Bari", sources="manual")

    assert (again.id, again.new) == (written.id, False)
    assert changed.replaced == written.entries


async def test_facts_of_an_agent_are_seen_by_the_user_and_not_by_another_agent() -> None:
    store = InMemoryStore()
    await Facts(store.scoped(user_id="ada", agent_id="a")).set("Ada", "likes", "tea", sources="manual")
    assert len(await Facts(store.scoped(user_id="ada")).current()) == 1
    assert await Facts(store.scoped(user_id="ada", agent_id="b")).current() == []


@pytest.mark.parametrize("scope", [{"session_id": "s"}, {"task_id": "t"}])
async def test_a_handle_without_a_user_has_no_facts(scope: dict[str, str]) -> None:
    with pytest.raises(InputError, match="belong to a user"):
        Facts(InMemoryStore().scoped(**scope))  # type: ignore[arg-type]  # of two kinds of fields


async def test_an_entry_that_cannot_be_read_is_passed_over_and_says_which(caplog: pytest.LogCaptureFixture) -> None:
    handle = InMemoryStore().scoped(user_id="ada")
    facts = Facts(handle)
    receipt = await facts.set("Ada", "likes", "tea", sources="manual")
    item = await handle.get(receipt.entries[0])
    assert item is not None
    item.payload = "{}"
    await handle.update(item)
    await facts.set("Ada", "likes", "milk", sources="manual")
    assert [str(fact.object) for fact in await facts.current()] == ["milk"]
    assert receipt.entries[0] in caplog.text
    with pytest.raises(CorruptStoreError, match=receipt.entries[0]):
        _ = FactMemory(**item.model_dump()).record


async def test_an_item_of_a_store_that_was_opened_says_what_it_is_about() -> None:
    async with memoranda.open("memory://") as store:
        handle = store.scoped(user_id="ada")
        receipt = await Facts(handle).set("Ada", "lives_in", "Rome", valid_from="2026-03", sources="manual")
        item = await handle.get(receipt.entries[0])
    assert isinstance(item, FactMemory)
    assert (item.subject, item.predicate, item.object, item.valid_from) == ("Ada", "lives_in", "Rome", "2026-03")
    assert item.content == "Ada lives in: Rome, since 2026-03"
