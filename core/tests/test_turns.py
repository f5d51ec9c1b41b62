"""What works on many items leaves the event loop its turns, and what changes meanwhile harms nobody."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ShortTermMemory, SummaryMemory, SystemMemory
from memoranda.errors import InputError, StoreClosedError, VersionConflictError
from memoranda.loops import in_short_steps
from memoranda.store import BaseStore, InMemoryStore, Owner
from memoranda.store.backend import BASE_CAPABILITIES, Filter, Page
from memoranda.store.ranked import installed_ranker
from memoranda_backend.ranking import HashingEmbeddings, Passage, rank_text
from memoranda_backend.text import index_words
from memoranda_testing.event_loop import longest_block

ADA = MemoryMetadata(user_id="ada")
SOME = MemoryMetadata(user_id="ada", extra={"kept": True})
WORDS = ("saffron", "telescope", "radiator", "bicycle", "lemon", "winter", "revenue", "region", "garden", "violin")


def notes(count: int, owner: str = "ada") -> list[MemoryItem]:
    return [
        HumanMemory(
            id=f"{owner}{number}",
            content=f"{WORDS[number % 10]} and the {WORDS[number // 10 % 10]} of number {number}",
            metadata=MemoryMetadata(user_id=owner, session_id=f"s{number % 7}", task_id="t", extra={"kept": True}),
            created_at=f"2024-05-{1 + number * 28 // count:02d}T10:{number % 60:02d}:00",
        )
        for number in range(count)
    ]


class FourMethods(BaseStore):
    """The least that a backend can be: what it does not bring is the base class's."""

    capabilities = BASE_CAPABILITIES
    needs_init = False

    def __init__(self) -> None:
        super().__init__()
        self.items: list[MemoryItem] = []

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        self.items.append(item)

    async def _get(self, item_id: str) -> MemoryItem | None:
        return None

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return self.items[::-1][page.offset : page.end]

    async def _clear(self, wanted: Filter) -> int:
        return 0


async def filled(count: int, kind: type[BaseStore] = InMemoryStore) -> BaseStore:
    store, items = kind(), notes(count)
    for start in range(0, count, 500):  # So few that no thread is needed, which may be held up.
        await store.add_many(items[start : start + 500])
    return store


async def read_all(items: AsyncGenerator[MemoryItem, None]) -> None:
    async for _ in items:
        pass


async def read_owners(owners: AsyncGenerator[Owner, None]) -> None:
    async for _ in owners:
        pass


Work = Callable[[BaseStore], Awaitable[object]]
WORK: dict[str, Work] = {
    "the first text search": lambda store: store.search(query="saffron telescope", metadata=ADA, mode="text"),
    "a text search of all": lambda store: store.search(query="saffron number", metadata=ADA, mode="text", limit=10**6),
    "a listing of all": lambda store: store.search(metadata=ADA, limit=10**6),
    "a substring that is rare": lambda store: store.search(query="number 17", metadata=ADA),
    "a substring that is nowhere": lambda store: store.search(query="nowhere", metadata=ADA),
    "a count": lambda store: store.count(metadata=SOME),
    "a count of two fields": lambda store: store.count(metadata=MemoryMetadata(user_id="ada", task_id="t")),
    "a count of everything": lambda store: store.count(include_deleted=True),
    "a scan": lambda store: read_all(store.scan(metadata=ADA)),
    "a scan with deleted items": lambda store: read_all(store.scan(metadata=ADA, include_deleted=True)),
    "a scan for what is nowhere": lambda store: read_all(store.scan(metadata=ADA, memory_type="other")),
    "a window of all": lambda store: store.window(metadata=ADA),
    "a window of many tokens": lambda store: store.window(metadata=ADA, tokens=10**6),
    "items by their ids": lambda store: store.get_many([f"ada{number}" for number in range(1_000)]),
    "owners": lambda store: read_owners(store.owners("session_id")),
    "a clear": lambda store: store.clear(metadata=ADA),
    "a clear of everything": lambda store: store.clear(),
    "a clear by extra": lambda store: store.clear(metadata=SOME),
    "a purge": lambda store: store.purge(metadata=ADA),
}


@pytest.mark.rare
@pytest.mark.parametrize("work", WORK)
async def test_the_turns_of_the_loop_do_not_grow_with_the_scope(work: str) -> None:
    few, many = [await longest_block(WORK[work](await filled(count))) for count in (1_500, 4_500)]
    assert many < 2 * few


@pytest.mark.rare
@pytest.mark.parametrize("work", ["a restore", "a purge of the bin", "a second text search"])
async def test_the_turns_of_the_loop_do_not_grow_with_what_was_done_before(work: str) -> None:
    turns = []
    for count in (1_500, 4_500):
        store = await filled(count)
        if work == "a second text search":
            await store.search(query="saffron", metadata=ADA, mode="text")
            turns.append(await longest_block(store.search(query="saffron number", metadata=ADA, mode="text")))
        else:
            await store.clear(metadata=ADA)
            again = store.restore(metadata=ADA) if work == "a restore" else store.purge(deleted_only=True)
            turns.append(await longest_block(again))
    assert turns[1] < 2 * turns[0]


async def test_the_turns_do_not_grow_on_a_store_that_leaves_ranking_to_the_base() -> None:
    few, many = [
        await longest_block((await filled(count, FourMethods)).search(query="saffron", mode="text"))
        for count in (1_500, 4_500)
    ]
    assert many < 2 * few


@pytest.mark.rare
async def test_a_few_long_items_do_not_hold_the_loop_either() -> None:
    turns = []
    for words in (2_000, 50_000):
        store = InMemoryStore()
        text = " ".join(f"ßword{number}" for number in range(words))
        await store.add_many([HumanMemory(content=text, metadata=ADA) for _ in range(20)])
        turns.append(await longest_block(store.search(query="word7", metadata=ADA, mode="text")))
    assert turns[1] < 2 * turns[0]


async def test_embedding_many_texts_in_the_process_leaves_the_loop_its_turns() -> None:
    texts = [note.content for note in notes(3_000)]
    few, many = [await longest_block(HashingEmbeddings().aembed_many(texts[:count])) for count in (1_000, 3_000)]
    assert many < 2 * few


@pytest.mark.rare
async def test_a_conversation_without_rounds_leaves_the_loop_its_turns() -> None:
    turns = []
    for count in (2_500, 7_500):
        memory = ShortTermMemory(scope="user")
        await memory.add_many(notes(count))
        turns.append(await longest_block(memory.search(metadata=ADA, limit=10**6)))
    assert turns[1] < 2 * turns[0]


@pytest.mark.parametrize("before", [0, 65_530, 65_536, 131_070])
async def test_a_long_text_is_searched_as_a_short_one_is(before: int) -> None:
    store = InMemoryStore()
    await store.add(HumanMemory(content="ß" * before + "Straßenbahn" + "x" * 70_000, metadata=ADA))
    assert len(await store.search(query="STRASSENBAHN", metadata=ADA)) == 1
    assert await store.search(query="strassenbahnen", metadata=ADA) == []


async def test_half_a_character_is_refused_wherever_it_stands_in_a_long_text() -> None:
    with pytest.raises(InputError):
        await InMemoryStore().add(
            HumanMemory(content="é" * 70_000).model_copy(update={"content": "é" * 70_000 + "\ud800"})
        )


def test_the_terms_of_a_long_text_are_those_of_its_words() -> None:
    words = "Zoë's children on 2023-05-08 in 東京 were naïvely running; they "
    assert index_words(words * 3_000) == index_words(words) * 3_000


BATCHES: dict[str, Callable[[BaseStore, list[MemoryItem]], Awaitable[object]]] = {
    "adding": lambda store, batch: store.add_many(notes(len(batch), "bob")),
    "applying": lambda store, batch: store.apply(adds=notes(len(batch), "bob"), deletes=["ada7"]),
    "updating": lambda store, batch: store.update_many(batch),
    "replacing": lambda store, batch: store.add_many(batch, ttl=100),
}


@pytest.mark.rare
@pytest.mark.parametrize("work", BATCHES)
async def test_a_batch_is_put_in_place_with_a_few_steps_an_item(work: str) -> None:
    """All else is done aside: only what nobody may come in between of is one turn."""
    store = await filled(6_000)
    batch = await store.search(metadata=ADA, limit=6_000)
    assert await longest_block(BATCHES[work](store, batch)) < 10 * len(batch)


async def test_one_item_that_holds_much_is_checked_aside_in_a_large_batch() -> None:
    """Such as a summary of thousands, which knows each of its sources."""
    turns = []
    for count in (1_000, 10_000):
        ids = [f"source{number}" for number in range(count)]
        summary = SummaryMemory(content="all", template="t", archives=dict.fromkeys(ids, "mark"), sources=ids)
        turns.append(await longest_block(InMemoryStore().add_many([*notes(600), summary])))
    assert turns[1] < 2 * turns[0]


@pytest.mark.parametrize("purge", [False, True])
async def test_of_what_a_batch_deletes_only_the_ids_are_looked_at_in_one_turn(purge: bool) -> None:
    ids = [f"ada{number}" for number in range(1_500)]
    assert await longest_block((await filled(1_500)).apply(deletes=ids, purge=purge)) < 12 * len(ids)


async def seen(store: BaseStore) -> list[object]:
    """Return what anybody can see of a store, in every order."""
    shown: list[object] = [await store.search(limit=10**6, order=order) for order in ("created", "updated", "added")]
    for session in ("s0", "s1", "s2"):
        mine = MemoryMetadata(user_id="ada", session_id=session)
        shown += [await store.window(metadata=mine, rounds=3), await store.search(metadata=mine, limit=9, offset=1)]
    place = MemoryMetadata(namespace=("a",))
    return [*shown, await store.search(metadata=place, limit=10**6), await store.count(metadata=place)]


def mixed(chance: random.Random, first: int, count: int) -> list[MemoryItem]:
    """Return items of several sessions and places, of times in no order, some of which stay in every window."""
    kinds = [HumanMemory, HumanMemory, AIMemory, SystemMemory]
    return [
        chance.choice(kinds)(
            id=f"item{number}",
            content=f"number {number}",
            metadata=MemoryMetadata(
                user_id="ada", session_id=f"s{chance.randrange(3)}", namespace=chance.choice([(), ("a",), ("a", "b")])
            ),
            created_at=f"2024-05-{chance.randrange(1, 28):02d}T10:00:00",
            updated_at=f"2024-06-{chance.randrange(1, 28):02d}T10:00:00",
        )
        for number in range(first, first + count)
    ]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.rare("seeds")) for seed in (1, 2, 3))])
async def test_a_large_batch_is_stored_as_its_items_are_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    before, batch = mixed(chance, 0, 40), mixed(chance, 40, 600)
    at_once, one_by_one = ShortTermMemory(scope="user"), ShortTermMemory(scope="user")
    for store in (at_once, one_by_one):
        await store.add_many(before)
    await at_once.add_many(batch)
    for item in batch:
        await one_by_one.add(item)
    assert await seen(at_once) == await seen(one_by_one)

    chosen = chance.sample(await at_once.search(limit=10**6), 560)
    changed = [item.model_copy(update={"content": "changed"}) for item in chosen]
    changed[7] = changed[7].model_copy(update={"created_at": "2024-05-03T10:00:00.000000+00:00"})
    changed += mixed(chance, 700, 2)
    changed[-1].version = changed[-2].version = 0
    updated = await at_once.update_many(changed)
    assert updated == [await one_by_one.update(item) for item in changed]
    assert await seen(at_once) == await seen(one_by_one)

    gone = [item.id for item in chance.sample(updated, 300)]
    assert await at_once.apply(deletes=gone) == 300
    for item_id in gone:
        await one_by_one.delete(item_id)
    assert await seen(at_once) == await seen(one_by_one)
    assert await at_once.restore() == 300
    await one_by_one.restore()
    assert await seen(at_once) == await seen(one_by_one)


@pytest.mark.rare("batches")
@pytest.mark.parametrize("work", ["adding", "updating"])
async def test_what_is_written_while_a_batch_is_made_ready_is_not_lost(work: str) -> None:
    """At whichever turn it comes: the batch is stored over it, or refused as a whole."""
    for turns in range(10):
        store = await filled(1_000)
        batch = notes(1_600)[800:] if work == "adding" else (await store.search(metadata=ADA, limit=10**6))[:600]
        writing = asyncio.ensure_future(store.add_many(batch) if work == "adding" else store.update_many(batch))
        for _ in range(turns):
            await asyncio.sleep(0)
        await store.add_many([HumanMemory(id=name, content="late", metadata=ADA) for name in ("late", "ada900")])
        (result,) = await asyncio.gather(writing, return_exceptions=True)

        assert await store.get("late") is not None
        late = await store.get("ada900")
        assert late is not None
        if work == "adding":
            assert await store.count() == 1_601
            assert late.version == 3
        else:
            refused = isinstance(result, VersionConflictError)
            assert [item.version for item in await store.get_many(["ada999", "ada901"])] == [2 - refused] * 2
            assert late.version == 3 - refused


# Meanwhile


async def test_a_batch_is_stored_as_it_was_checked_whatever_its_owner_does_meanwhile() -> None:
    store, items = InMemoryStore(), notes(3_000)
    adding = asyncio.create_task(store.add_many(items))
    await asyncio.sleep(0)
    items[0].content = "changed"
    items[-1].content = "changed too"
    await adding
    first, last = await store.get_many([items[0].id, items[-1].id])
    assert (first.content, last.content) == (notes(3_000)[0].content, "changed too")


async def test_nothing_of_a_batch_is_seen_before_all_of_it_is_stored() -> None:
    store = InMemoryStore()
    adding, seen = asyncio.create_task(store.add_many(notes(3_000))), set()
    while not adding.done():
        seen.add(await store.count())
        await asyncio.sleep(0)
    assert seen <= {0, 3_000}


async def test_of_a_batch_that_deletes_nothing_is_gone_before_all_of_it_is() -> None:
    store = await filled(3_000)
    new, seen = HumanMemory(id="new", content="as it was given", metadata=ADA), set()
    writing = asyncio.create_task(store.apply(adds=[new], deletes=[f"ada{number}" for number in range(3_000)]))
    await asyncio.sleep(0)
    new.content = "changed while it was made ready"
    while not writing.done():
        seen.add(await store.count())
        await store.add(HumanMemory(id="other", content="in between", metadata=MemoryMetadata(user_id="bob")))
        await store.delete("other")
        await asyncio.sleep(0)
    assert (await writing, seen | {1}) == (3_000, {3_000, 1})
    assert [item.content for item in await store.search(metadata=ADA)] == ["as it was given"]
    assert await store.restore(metadata=ADA) == 3_000


async def test_what_is_said_while_a_large_turn_is_made_ready_comes_before_it() -> None:
    store, mine = await filled(10), MemoryMetadata(user_id="ada", session_id="s0")
    adding = asyncio.create_task(store.add_many(notes(2_000)[10:]))
    late = 0
    while not adding.done():
        await store.add(HumanMemory(id=f"late{late}", content="said meanwhile", metadata=mine))
        late += 1
        await asyncio.sleep(0)
    await adding
    order = [item.id async for item in store.scan(metadata=ADA, order="added")]
    at = order.index("ada10")
    assert order[at : at + 1_990] == [f"ada{number}" for number in range(10, 2_000)]
    assert len(order) == 2_000 + late


async def test_a_batch_is_refused_by_a_store_that_is_closed_meanwhile() -> None:
    store = InMemoryStore()
    adding = asyncio.create_task(store.add_many(notes(3_000)))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreClosedError):
        await adding


@pytest.fixture
async def gate() -> AsyncIterator[threading.Event]:
    """What must be set before anything goes on in a thread."""
    await (await filled(1)).search(query="saffron", metadata=ADA, mode="text")  # What is imported on use is there now.
    gate = threading.Event()
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as threads:
        loop.set_default_executor(threads)
        threads.submit(gate.wait)
        yield gate
        gate.set()


async def begun(store: BaseStore) -> asyncio.Task[list[MemoryItem]]:
    """Return a search that has begun, and waits at the gate."""
    search = asyncio.create_task(store.search(query="saffron", metadata=ADA, mode="text", limit=10**6))
    await asyncio.sleep(0)
    assert not search.done()
    return search


async def partly_cleared(store: InMemoryStore) -> asyncio.Task[int]:
    """Return a clear that has removed some items and not all."""
    before = len(store)
    clear = asyncio.create_task(store.clear(metadata=ADA))
    while len(store) == before:
        await asyncio.sleep(0)
    assert 0 < len(store) < before
    return clear


async def test_a_search_shows_what_was_there_when_it_began(gate: threading.Event) -> None:
    store = await filled(3_000)
    store.ranker = installed_ranker()  # Which the first search of a process has to import.
    search = await begun(store)
    await store.add(HumanMemory(id="ada0", content="entirely other words", metadata=ADA))
    await store.purge("ada10")
    await store.add_many(notes(50, "bob"))
    gate.set()

    found = {item.id: item.content for item in await search}

    before = {item.id: item.content for item in notes(3_000)}
    assert found.items() <= before.items()
    assert {"ada0", "ada10"} <= found.keys()
    again = await store.search(query="saffron", metadata=ADA, mode="text", limit=10**6)
    assert {"ada0", "ada10"}.isdisjoint(item.id for item in again)


async def test_what_replaces_an_item_during_a_search_is_ranked_by_its_own_words(gate: threading.Event) -> None:
    """The words of an item that is gone are not kept for the one that took its id."""
    store = await filled(3_000)
    alone = MemoryMetadata(user_id="ada", session_id="new")
    search = await begun(store)
    await store.add(HumanMemory(id="ada2999", content="cinnamon", metadata=alone))
    gate.set()
    await search

    (found,) = await store.search_ranked(query="cinnamon", metadata=ADA, mode="text")
    assert (found.item.id, found.terms) == ("ada2999", ("cinnamon",))
    assert await store.search(query="violin number", metadata=alone, mode="text") == []


async def test_a_cancelled_search_leaves_the_store_in_use(gate: threading.Event) -> None:
    store = await filled(3_000)
    search = await begun(store)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    gate.set()

    assert len(await store.search(query="saffron", metadata=ADA, mode="text")) == 10


async def test_a_purge_takes_what_was_deleted_since_it_began(gate: threading.Event) -> None:
    store = await filled(3_000)
    purge = asyncio.create_task(store.purge(metadata=ADA))
    await asyncio.sleep(0)
    await store.delete("ada7")
    gate.set()

    assert await purge == 3_000
    assert await store.count(include_deleted=True) == 0


async def test_what_is_added_during_a_clear_stays() -> None:
    store = InMemoryStore()
    await store.add_many(notes(3_000))
    clear = await partly_cleared(store)
    await store.add_many([HumanMemory(id=name, content="new", metadata=ADA) for name in ("late", "ada2999")])

    assert await clear == 2_999
    assert {item.id for item in await store.search(metadata=ADA, limit=10**6)} == {"late", "ada2999"}
    assert await store.restore(metadata=ADA) == 2_999


async def test_a_reader_in_the_middle_of_a_clear_sees_the_newest_part() -> None:
    store = InMemoryStore()
    await store.add_many(notes(3_000))
    newest = await store.search(metadata=ADA, limit=10)
    clear = await partly_cleared(store)

    assert await store.search(metadata=ADA, limit=10) == newest
    assert await clear == 3_000


async def test_two_clears_at_once_count_each_item_once() -> None:
    store = await filled(3_000)
    assert sum(await asyncio.gather(store.clear(metadata=ADA), store.clear())) == 3_000


@pytest.mark.parametrize("size", [30, 400, 501, 1_000])
async def test_a_scope_that_is_ranked_as_a_whole_is_ranked_alike(size: int) -> None:
    """Whether it is done at once or aside: the same as ranking the whole scope by hand."""
    store = await filled(size)
    scope = await store.search(metadata=ADA, limit=size)
    conversations: dict[str | None, list[Passage]] = {}
    for item in reversed(scope):
        session = item.metadata.session_id
        passage = Passage(item.id, item.content, "human", item.created_at, f"ada\0{session}\0t")
        conversations.setdefault(session, []).append(passage)
    wanted = rank_text("saffron telescope", conversations.values(), total=size)
    found = await store.search_ranked(query="saffron telescope", metadata=ADA, mode="text", limit=size)
    assert [(each.item.id, each.score) for each in found] == [(each.key, each.score) for each in wanted]


@pytest.mark.rare
async def test_clearing_a_small_scope_costs_no_more_in_a_large_store() -> None:
    """Sixteen times as many items of others may not make it four times as dear."""

    async def cost(others: int) -> float:
        store = await filled(others)
        best = float("inf")
        for _ in range(7):
            await store.add_many(notes(20, "bob"))
            started = time.thread_time()
            await store.clear(metadata=MemoryMetadata(user_id="bob"))
            best = min(best, time.thread_time() - started)
        return best

    # Cold caches of a busy processor are granted a millisecond; the leanest walk over all of them takes two.
    assert await cost(32_000) < 4 * await cost(2_000) + 0.001


async def test_what_takes_long_over_a_few_items_lets_others_have_their_turns() -> None:
    turns = 0

    async def ticking() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    ticks = asyncio.create_task(ticking())
    seen: list[int] = []
    async for some in in_short_steps(range(100)):
        seen += some
        time.sleep(0.005)
    ticks.cancel()

    assert seen == list(range(100))
    assert turns > 3
