"""The base class: what it adds to a backend of four methods, and how it guards one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stepwise import StepwiseStore

from memoranda import AIMemory, BaseStore, HumanMemory, MemoryItem, MemoryMetadata, MemoryStore
from memoranda.errors import (
    CorruptStoreError,
    IdConflictError,
    InputError,
    StoreClosedError,
    StoreUnavailableError,
    VersionConflictError,
)
from memoranda.store import InMemoryStore, copy_item
from memoranda.store.backend import BASE_CAPABILITIES, Filter, Page, readable, successor


class FourMethods(BaseStore):
    """A backend that gives up the loop in the middle of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.data: dict[str, MemoryItem] = {}
        self.events: list[str] = []
        self.unreachable = False

    async def _init(self) -> None:
        self.events.append("init")
        await asyncio.sleep(0)
        if self.unreachable:
            raise StoreUnavailableError("The engine does not answer.")

    async def _close(self) -> None:
        self.events.append("close")

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        kept = successor(self.data.get(item.id), item, within)
        await asyncio.sleep(0)
        self.data[item.id] = kept

    async def _get(self, item_id: str) -> MemoryItem | None:
        await asyncio.sleep(0)
        found = self.data.get(item_id)
        return found and copy_item(found)

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return [copy_item(item) for item in page.of(filter(wanted.matches, self.data.values()))]

    async def _clear(self, wanted: Filter) -> int:
        gone = [item.id for item in self.data.values() if wanted.matches(item)]
        for item_id in gone:
            del self.data[item_id]
        return len(gone)


def test_every_store_is_a_memory_store() -> None:
    assert isinstance(FourMethods(), MemoryStore)
    assert FourMethods.capabilities == BASE_CAPABILITIES


async def test_a_store_that_was_never_opened_says_so() -> None:
    with pytest.raises(StoreClosedError, match="not open yet"):
        await FourMethods().search()


async def test_a_store_that_was_closed_says_so() -> None:
    store = FourMethods()
    async with store:
        pass
    with pytest.raises(StoreClosedError, match="is closed"):
        await store.search()


async def test_opening_and_closing_reach_the_engine_once() -> None:
    store = FourMethods()
    await asyncio.gather(store.init(), store.init(), store.init())
    await asyncio.gather(store.close(), store.close())
    assert store.events == ["init", "close"]


async def test_closing_a_store_that_was_never_opened_does_nothing() -> None:
    store = FourMethods()
    await store.close()
    assert store.events == []
    await store.init()
    assert await store.count() == 0


async def test_a_store_that_could_not_be_opened_can_be_opened_later() -> None:
    store = FourMethods()
    store.unreachable = True
    with pytest.raises(ConnectionError):
        await store.init()
    with pytest.raises(StoreClosedError):
        await store.count()
    store.unreachable = False
    await store.init()
    assert await store.count() == 0


async def test_the_default_compare_and_set_loses_no_update() -> None:
    async with FourMethods() as store:
        item = MemoryItem.model_validate({"content": "counter", "count": 0})
        await store.add(item)

        async def count_up() -> None:
            while True:
                read = await store.get(item.id)
                assert read is not None
                fields = read.model_dump()
                try:
                    await store.update(MemoryItem.model_validate({**fields, "count": fields["count"] + 1}))
                except VersionConflictError:
                    continue
                return

        await asyncio.gather(*(count_up() for _ in range(20)))
        found = await store.get(item.id)
        assert found is not None
        assert (found.model_dump()["count"], found.version) == (20, 21)


async def test_an_item_is_stored_as_the_class_it_is_read_as() -> None:
    store = InMemoryStore()
    plain = MemoryItem(content="hi", memory_type="human")
    await store.add(plain)
    assert type(await store.get(plain.id)) is HumanMemory


async def test_an_item_that_its_class_could_not_read_is_refused() -> None:
    store = InMemoryStore()
    spoilt = MemoryItem.model_validate({"content": "", "memory_type": "ai", "tool_calls": "not a list"})
    with pytest.raises(InputError) as raised:
        await store.add(spoilt)
    assert raised.value.field == "tool_calls"
    assert await store.count() == 0


async def test_a_plain_item_with_calls_becomes_an_ai_item() -> None:
    store = InMemoryStore()
    item = MemoryItem.model_validate({"content": "", "memory_type": "ai", "tool_calls": [{"id": "c"}]})
    await store.add(item)
    found = await store.get(item.id)
    assert isinstance(found, AIMemory)
    assert found.tool_calls == [{"id": "c"}]


@pytest.mark.parametrize("scope", [{}, {"user_id": "ada"}])
async def test_changing_an_item_while_it_waits_to_be_added_changes_nothing_stored(scope: dict[str, str]) -> None:
    async with FourMethods() as store:
        handle = store.scoped(user_id="ada") if scope else store
        first, second = (MemoryItem(content=name, metadata=MemoryMetadata(**scope)) for name in ("first", "second"))
        adding = [asyncio.create_task(handle.add(first)), asyncio.create_task(handle.add_many([second]))]
        await asyncio.sleep(0)  # The second waits for the first.
        second.content = "changed\0"
        await asyncio.gather(*adding)
        assert {item.content for item in await store.search()} == {"first", "second"}


async def test_what_is_cleared_during_an_update_does_not_come_back() -> None:
    async with FourMethods() as store:
        item = MemoryItem(content="x", metadata=MemoryMetadata(user_id="u"))
        await store.add(item)
        read = await store.get(item.id)
        assert read is not None
        updated, cleared = await asyncio.gather(store.update(read), store.clear())
        assert (updated.version, cleared) == (2, 1)
        assert await store.count() == 0


class DefaultCompareAndSet(StepwiseStore):
    """A store that hides what is deleted, with the base class's own compare-and-set."""

    _update_many = BaseStore._update_many


async def test_the_default_compare_and_set_knows_of_hidden_ids_before_it_writes() -> None:
    async with DefaultCompareAndSet() as store:
        mine = MemoryItem(content="mine", metadata=MemoryMetadata(user_id="me"))
        theirs = MemoryItem(content="theirs", metadata=MemoryMetadata(user_id="them"))
        await store.add_many([mine, theirs])
        await store.delete(theirs.id)
        changed = mine.model_copy(update={"content": "changed", "version": 1})
        taken = MemoryItem(id=theirs.id, content="taken", metadata=mine.metadata)
        with pytest.raises(IdConflictError):
            await store.update_many([changed, taken])
        kept = await store.get(mine.id)
        assert kept is not None
        assert (kept.content, kept.version) == ("mine", 1)


def test_what_cannot_be_read_is_left_out_and_named_without_its_content(caplog: pytest.LogCaptureFixture) -> None:
    def read(row: tuple[str, str]) -> str:
        try:
            return row[1].encode("ascii").decode()
        except UnicodeEncodeError as error:
            raise CorruptStoreError(f"The stored item {row[0]!r} cannot be read as a memory item.") from error

    assert readable(read, [("a", "one"), ("b", "ſecret"), ("c", "two")]) == ["one", "two"]
    assert len(caplog.records) == 1
    assert "'b'" in caplog.text
    assert "ecret" not in caplog.text


async def test_the_default_batch_knows_itself() -> None:
    """An id twice in a turn is refused, and nothing of the turn is stored."""
    async with FourMethods() as store:
        twice = [MemoryItem(id="x", content="first"), MemoryItem(id="x", content="second")]
        with pytest.raises(VersionConflictError):
            await store.append(twice, after=None)
        mixed = [
            MemoryItem(id="y", content="hers", metadata=MemoryMetadata(user_id="ada")),
            MemoryItem(id="y", content="his", metadata=MemoryMetadata(user_id="bob")),
        ]
        with pytest.raises(IdConflictError):
            await store.add_many(mixed)
        assert await store.count() == 0


async def test_an_id_that_is_named_twice_is_touched_once() -> None:
    store = InMemoryStore()
    await store.add(MemoryItem(id="x", content="x"), ttl=10)
    assert await store.touch(["x", "x"], ttl=20) == 1


async def test_a_batch_does_not_delete_what_has_expired() -> None:
    store, now = InMemoryStore(), 1_000_000.0
    store.clock = lambda: now
    await store.add(MemoryItem(id="x", content="x"), ttl=10)
    now += 10
    assert await store.apply(deletes=["x"]) == 0
    assert await store.count(include_deleted=True) == 0


@pytest.mark.parametrize(
    "changes",
    [{"payload": "a\0b"}, {"payload": "\ud800"}, {"group_size": "x"}, {"group_size": 2.5}, {"group_size": 10**5000}],
)
async def test_a_payload_or_a_group_that_no_store_can_hold_is_refused(changes: dict[str, Any]) -> None:
    store = InMemoryStore()
    with pytest.raises(InputError, match=next(iter(changes))):
        await store.add(HumanMemory(content="hello").model_copy(update=changes))
    assert await store.count() == 0


async def test_a_batch_comes_from_any_iterable_and_ends_at_one_moment() -> None:
    store, now = InMemoryStore(), 1_000.0

    def running() -> float:
        nonlocal now
        now += 0.001
        return now

    store.clock = running
    await store.add_many((MemoryItem(content=f"{number}") for number in range(1_200)), ttl=60)
    held = await store.search(limit=2_000)
    assert len(held) == 1_200
    assert len({item.expires_at for item in held}) == 1
    assert [item.version for item in await store.update_many(reversed(held))] == [2] * 1_200


async def test_an_id_conflict_says_nothing_of_the_other_item() -> None:
    store = InMemoryStore()
    held = MemoryItem(content="secret", metadata=MemoryMetadata(user_id="secret", session_id="secret"))
    await store.add(held)
    with pytest.raises(IdConflictError, match=held.id) as raised:
        await store.add(MemoryItem(content="x", id=held.id, metadata=MemoryMetadata(user_id="me")))
    assert "secret" not in str(raised.value)


async def test_an_empty_question_recalls_the_most_telling_first() -> None:
    store = InMemoryStore()
    telling = "I moved to Porto with my sister Ana in March"
    for text in ("ok", telling, "How warm is it?"):
        await store.add(HumanMemory(content=text, metadata=MemoryMetadata(user_id="u")))
    found = [item.content for item in await store.scoped(user_id="u").recall("")]
    assert found[0] == telling
    assert len(found) == 3
    assert await store.scoped(user_id="u").recall("", limit=0) == []
