"""Scoped handles: what the kit does not ask of every store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.errors import IdConflictError, InputError, StoreClosedError
from memoranda.store import InMemoryStore, Observer, RankedItem, ScopedStore
from memoranda.store.scope_layer import scope_metadata


@pytest.mark.parametrize("name", ["user_id", "session_id", "task_id", "agent_id"])
def test_a_scope_binds_any_field(name: str) -> None:
    assert scope_metadata(**{name: "x"}) == MemoryMetadata(**{name: "x"})
    assert scope_metadata(**{name: ""}) == MemoryMetadata(**{name: ""})
    with pytest.raises(InputError) as raised:
        scope_metadata(**{name: None})
    assert raised.value.field == name


def test_a_scope_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        InMemoryStore().scoped()


@pytest.mark.parametrize("value", ["a\0b", 3, ["u"]])
def test_a_scope_that_nothing_can_match_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="user_id"):
        InMemoryStore().scoped(user_id=value)


def test_the_repr_says_what_is_bound_but_not_to_whom() -> None:
    handle = InMemoryStore().scoped(user_id="ada", session_id="secret")
    assert repr(handle) == "InMemoryStore().scoped(user_id=…, session_id=…)"


async def test_a_handle_of_a_closed_store_is_closed() -> None:
    store = InMemoryStore()
    handle = store.scoped(user_id="u")
    await store.close()
    with pytest.raises(StoreClosedError):
        await handle.search()


async def test_a_handle_refuses_what_its_store_would_take_over_in_a_batch() -> None:
    store = InMemoryStore()
    theirs = MemoryItem(content="theirs", metadata=MemoryMetadata(user_id="them"))
    await store.add(theirs)
    handle = store.scoped(user_id="me")
    with pytest.raises(IdConflictError):
        await handle.add_many([MemoryItem(content="mine"), MemoryItem(content="taken", id=theirs.id)])
    assert await handle.count() == 0


async def test_a_handle_narrows_within() -> None:
    store = InMemoryStore()
    item = MemoryItem(content="x", metadata=MemoryMetadata(user_id="me", session_id="s1"))
    await store.add(item)
    handle = store.scoped(user_id="me")
    with pytest.raises(IdConflictError):
        await handle.add(MemoryItem(content="y", id=item.id), within=MemoryMetadata(session_id="s2"))
    with pytest.raises(InputError):
        await handle.add(MemoryItem(content="y", id=item.id), within=MemoryMetadata(user_id="them"))


async def test_a_handle_cannot_be_used_to_read_the_bin_of_others() -> None:
    store = InMemoryStore()
    await store.add(MemoryItem(content="theirs", metadata=MemoryMetadata(user_id="them")))
    await store.clear()
    handle = store.scoped(user_id="me")
    assert await handle.count(include_deleted=True) == 0
    assert [item async for item in handle.scan(include_deleted=True)] == []
    assert await handle.restore() == 0
    assert await handle.purge() == 0
    assert await handle.purge(deleted_only=True) == 0
    assert await store.restore() == 1


async def test_a_handle_reads_items_of_the_types_of_its_store() -> None:
    class Note(MemoryItem):
        memory_type: str = "note"

    store = InMemoryStore()
    store.item_types = {"note": Note}
    handle = store.scoped(user_id="me")
    await handle.add(Note(content="x"))
    assert [type(item) for item in await handle.search()] == [Note]


async def test_a_handle_uses_the_reranker_of_its_store() -> None:
    class Backwards:
        async def rerank(self, query: str, ranked: Any) -> list[RankedItem]:
            return list(ranked)[::-1]

    store = InMemoryStore()
    store.reranker = Backwards()
    for number in range(3):
        await store.add(
            MemoryItem(content="tea " * (number + 1), metadata=MemoryMetadata(user_id="me", session_id=str(number)))
        )
    handle = store.scoped(user_id="me")
    wanted = [found.item.id for found in await store.search_ranked(query="tea", mode="text")]
    assert [found.item.id for found in await handle.search_ranked(query="tea", mode="text")] == wanted


def test_a_handle_is_made_by_its_store() -> None:
    assert isinstance(InMemoryStore().scoped(user_id="u"), ScopedStore)


class Listens(Observer):
    """Notes what it is told, and moves what is added into another session."""

    def __init__(self, session_id: str | None = None) -> None:
        self.session_id = session_id
        self.told: list[Any] = []

    def before_add(self, item: MemoryItem) -> MemoryItem:
        if self.session_id is not None:
            item.metadata = item.metadata.model_copy(update={"session_id": self.session_id})
        return item

    def added(self, items: Sequence[MemoryItem]) -> None:
        self.told += [item.content for item in items]

    def searched(self, query: str, items: Sequence[MemoryItem]) -> None:
        self.told += [item.content for item in items]

    def cleared(self, metadata: MemoryMetadata | None, removed: int) -> None:
        self.told.append((metadata, removed))


async def test_an_observer_of_a_handle_hears_of_nothing_else() -> None:
    store, spy, keeper = InMemoryStore(), Listens(), Listens()
    store.observe(keeper)
    ada, eve = store.scoped(user_id="ada"), store.scoped(user_id="eve")
    eve.observe(spy)
    await ada.add(MemoryItem(content="ada's"))
    await store.search()
    await eve.add(MemoryItem(content="eve's"))
    await ada.clear()
    assert spy.told == ["eve's"]
    assert keeper.told == ["ada's", "ada's", "eve's", (MemoryMetadata(user_id="ada"), 1)]


async def test_an_observer_is_told_what_a_handle_cleared() -> None:
    store, keeper = InMemoryStore(), Listens()
    store.observe(keeper)
    handle = store.scoped(user_id="ada").scoped(session_id="s")
    item = MemoryItem(content="x")
    await handle.add(item)
    await handle.delete(item.id)
    await handle.clear()
    await handle.purge()
    scope = MemoryMetadata(user_id="ada", session_id="s")
    assert keeper.told == ["x", (scope, 1), (scope, 0), (scope, 1)]


async def test_no_observer_moves_an_item_out_of_a_scope() -> None:
    store = InMemoryStore()
    store.observe(Listens("elsewhere"))
    with pytest.raises(InputError, match="session_id"):
        await store.scoped(user_id="ada", session_id="here").add(MemoryItem(content="x"))
    assert await store.count() == 0


def test_a_handle_of_a_handle_says_all_that_it_is_bound_to() -> None:
    handle = InMemoryStore().scoped(user_id="ada", namespace=("a",)).scoped(session_id="s", namespace=("a", "b"))

    assert handle.scope == MemoryMetadata(user_id="ada", session_id="s", namespace=("a", "b"))


def test_a_handle_of_a_handle_cannot_be_bound_to_another_scope() -> None:
    handle = InMemoryStore().scoped(user_id="ada")
    with pytest.raises(InputError, match="user_id"):
        handle.scoped(user_id="bob")


async def test_reading_many_refuses_a_filter_of_another_scope_as_reading_one_does() -> None:
    handle, other = InMemoryStore().scoped(user_id="ada"), MemoryMetadata(user_id="bob")
    with pytest.raises(InputError, match="user_id"):
        await handle.get("x", metadata=other)
    with pytest.raises(InputError, match="user_id"):
        await handle.get_many(["x"], metadata=other)


async def test_a_turn_with_the_id_of_another_learns_nothing_of_it() -> None:
    store = InMemoryStore()
    await store.add(MemoryItem(id="x", content="mine", metadata=MemoryMetadata(user_id="ada")))
    with pytest.raises(IdConflictError):
        await store.scoped(user_id="bob").append([MemoryItem(id="x", content="theirs")], after=None)


def test_a_handle_says_what_it_is_bound_to() -> None:
    store = InMemoryStore()
    handle = store.scoped(user_id="ada").scoped(session_id="chat", namespace=("notes",))

    assert store.bounds is None
    assert handle.bounds == MemoryMetadata(user_id="ada", session_id="chat", namespace=("notes",))


async def test_recall_reaches_every_session_of_the_user_and_nothing_else() -> None:
    store = InMemoryStore()
    for user, session, place in (
        ("ada", "sunday", ("home",)),
        ("ada", "sunday", ("work",)),
        ("eve", "monday", ("home",)),
    ):
        said = HumanMemory(content=f"The seat of {user} at {place[0]}")
        await store.scoped(user_id=user, session_id=session, namespace=place).add(said)
    home = store.scoped(namespace=("home",))
    ada = home.scoped(user_id="ada").scoped(session_id="monday", task_id="booking")

    assert [item.content for item in await ada.recall("seat")] == ["The seat of ada at home"]
    assert await home.scoped(session_id="tuesday").recall("seat") == []
    assert await ada.search(query="seat") == []


async def test_observers_and_the_reranker_of_a_handle_see_its_recall() -> None:
    class Heard(Observer):
        def __init__(self) -> None:
            self.queries: list[str] = []

        def searched(self, query: str, items: Sequence[MemoryItem]) -> None:
            self.queries.append(f"{query}: {len(items)}")

    class Backwards:
        async def rerank(self, query: str, ranked: Sequence[RankedItem]) -> Sequence[RankedItem]:
            return [replace(found, score=-1.0) for found in reversed(ranked)]

    store = InMemoryStore()
    await store.scoped(user_id="ada", session_id="sunday").add_many(
        [HumanMemory(content="a window seat"), HumanMemory(content="a seat by the window")]
    )
    ada = store.scoped(user_id="ada", session_id="monday")
    in_order = [item.id for item in await ada.recall("window seat")]
    ada.observe(heard := Heard())
    ada.reranker = Backwards()

    assert [item.id for item in await ada.recall("window seat")] == in_order[::-1]
    assert heard.queries == ["window seat: 2"]


async def test_a_handle_stamps_for_every_scope_around_it_and_has_no_life_of_its_own() -> None:
    store = InMemoryStore()
    async with store.scoped(user_id="u") as outer:
        inner = outer.scoped(session_id="s")
        await outer.add(MemoryItem(content="outer"))
        await inner.add(MemoryItem(content="inner"))
    await outer.close()
    asked = MemoryMetadata(user_id="u", session_id="s")
    for found in (await inner.search(), await store.search(metadata=asked)):
        assert [item.content for item in found] == ["inner"]
    assert outer.capabilities == store.capabilities
