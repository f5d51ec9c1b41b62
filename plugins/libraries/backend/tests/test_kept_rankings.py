"""What a ranking in memory keeps for the next one follows every change, and holds nothing that was purged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import InMemoryStore
from memoranda.store.backend import Engine, Entry, Layer, Query
from memoranda.store.layers import add_layer
from memoranda.store.lifetimes import Lifetimes
from memoranda_backend.ranking import RankedScopes, TextRanker
from memoranda_backend.ranking.scope_index import ScopeIndex

ADA = MemoryMetadata(user_id="ada")
QUERIES = (
    "where is the violin",
    "lemon radiator",
    "what did Zoe say",
    "tea on 7 May 2024",
    "telescopic viol",
    "number",
)
WORDS = (
    "saffron",
    "telescope",
    "radiator",
    "bicycle",
    "lemon",
    "winter",
    "revenue",
    "region",
    "garden",
    "violin",
    "tea",
)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def note(chance: random.Random, number: int) -> MemoryItem:
    """Return an item of one of a few conversations, at a time in no order, of which some expire and some have names."""
    return HumanMemory(
        id=f"item{number}",
        content=" ".join(chance.choices(WORDS, range(1, len(WORDS) + 1), k=5)) + f" number {number % 50}",
        metadata=MemoryMetadata(user_id="ada", session_id=f"s{chance.randrange(9)}", agent_id=chance.choice("xy")),
        created_at=f"2024-05-{chance.randrange(1, 28):02d}T10:{chance.randrange(60):02d}:00",
        name=chance.choice([None, None, "Zoe", "Max"]),
        ttl=chance.choice([None, None, 10.0, 1_000.0]),
    )


async def changed(store: InMemoryStore, chance: random.Random, round_: int) -> None:
    """Change a few items, in one of all the ways that there are."""
    shown = await store.search(metadata=ADA, limit=10**6)
    some = [item.id for item in chance.sample(shown, 20)]
    ways: dict[str, Any] = {
        "added": lambda: store.add_many([note(chance, 10_000 + 100 * round_ + number) for number in range(20)]),
        "replaced": lambda: store.add(note(chance, int(some[0][4:]))),
        "updated": lambda: store.update(
            next(item for item in shown if item.id == some[0]).model_copy(update={"content": "a violin, and tea"})
        ),
        "deleted": lambda: store.apply(deletes=some),
        "purged": lambda: store.purge(some[0]),
        "restored": store.restore,
        "touched": lambda: store.touch(some, ttl=chance.choice([5.0, 2_000.0])),
        "cleared": lambda: store.clear(metadata=MemoryMetadata(user_id="ada", session_id=f"s{round_ % 9}")),
        "archived": lambda: store.update_many(
            [item.model_copy(update={"archived_by": "summary"}) for item in shown if item.id in some]
        ),
    }
    await ways[list(ways)[round_ % len(ways)]]()
    store.clock.now += chance.choice((3.0, 6.0, -8.0))  # type: ignore[attr-defined]


async def afresh(store: InMemoryStore) -> InMemoryStore:
    """Return a store with the same items, which has ranked nothing yet."""
    other = InMemoryStore()
    other.clock = Clock()  # type: ignore[method-assign]
    other.clock.now = store.clock.now  # type: ignore[attr-defined]
    await other.add_many([item async for item in store.scan(order="added")])
    return other


class ThroughChanges(Layer):
    """Ranks with the cache of memoranda-backend, from what an engine says of its changes."""

    name = "ranked scopes"

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)

        async def ranker() -> TextRanker:
            return TextRanker()

        self.scopes = RankedScopes(inner, ranker)

    async def read(self, query: Query[Any]) -> list[Any]:
        """Rank here, and leave other queries to the engine."""
        return await (self.inner.read(query) if query.ranking is None else self.scopes.rank(query))


@pytest.mark.parametrize("is_shared_cache", [False, True])
async def test_a_scope_is_ranked_after_many_changes_as_if_it_had_never_been_ranked_before(
    monkeypatch: pytest.MonkeyPatch, is_shared_cache: bool
) -> None:
    monkeypatch.setattr(Lifetimes, "is_to_sweep", lambda *_: False)  # A clock that is set back shows it all again.
    chance = random.Random(7)
    store = InMemoryStore()
    store.clock = Clock()  # type: ignore[method-assign]
    if is_shared_cache:
        add_layer(store, ThroughChanges)
    await store.add_many([note(chance, number) for number in range(1_300)])
    for round_ in range(9):
        await changed(store, chance, round_)
        other = await afresh(store)
        metadata = MemoryMetadata(user_id="ada", agent_id=chance.choice([None, None, "x"]))
        asked: dict[str, Any] = {"query": chance.choice(QUERIES), "metadata": metadata, "mode": "text", "limit": 50}
        asked["until"] = chance.choice([None, "2024-05-20"])
        found = [(each.item.id, each.score, each.item.content) for each in await store.search_ranked(**asked)]
        wanted = [(each.item.id, each.score, each.item.content) for each in await other.search_ranked(**asked)]
        assert found == wanted
        assert wanted


async def test_a_search_that_is_broken_off_leaves_nothing_half_known() -> None:
    store = InMemoryStore()
    store.clock = Clock()  # type: ignore[method-assign]  # Nothing expires while the searches last.
    add_layer(store, ThroughChanges)
    await store.add_many([note(random.Random(number), number) for number in range(1_200)])
    for delay in (0.0, 0.001, 0.01, 0.03):
        search = asyncio.create_task(store.search_ranked(query="tea violin", metadata=ADA, mode="text", limit=50))
        await asyncio.sleep(delay)
        search.cancel()
        await asyncio.wait([search])
        found = await store.search_ranked(query="tea violin", metadata=ADA, mode="text", limit=50)
        wanted = await (await afresh(store)).search_ranked(query="tea violin", metadata=ADA, mode="text", limit=50)
        assert [each.item.id for each in found] == [each.item.id for each in wanted]


async def test_texts_that_are_left_out_are_left_out_of_this_search_alone() -> None:
    store = InMemoryStore()
    teas = ("green tea", "black tea", "white tea")
    await store.add_many([HumanMemory(content=text, metadata=ADA) for text in (*teas, "green tea")])
    for left_out in ([], ["green tea"], ["black tea"], ["red tea"], []):
        where = {"content": {"$ne": left_out[0]}} if left_out else None
        found = await store.search_ranked(query="tea", metadata=ADA, mode="text", where=where)
        assert {each.item.content for each in found} == {*teas}.difference(left_out)


async def test_what_came_before_a_time_is_not_read_anew_for_every_prompt() -> None:
    """A prompt recalls what lies before its conversation, whose beginning moves on only now and then."""
    made = []

    class Counting(TextRanker):
        def index(self) -> ScopeIndex:
            made.append(super().index())
            return made[-1]

    store = InMemoryStore()
    store.ranker = Counting()
    await store.add_many([note(random.Random(number), number) for number in range(100)])
    for until in ("2024-05-14", "2024-05-14", "2024-05-20", "2024-05-14", "2024-05-20"):
        await store.search_ranked(query="tea violin", metadata=ADA, mode="text", until=until)

    assert len(made) == 2


async def test_rankings_of_a_scope_at_once_each_see_it_whole() -> None:
    """They share what is kept, and the scope changes between them."""
    store = InMemoryStore()
    for start in range(0, 1_200, 400):
        await store.add_many([note(random.Random(number), number) for number in range(start, start + 400)])
    await store.search_ranked(query="tea", metadata=ADA, mode="text")  # The first one waits for the ranker's import.
    searches = []
    for number in range(4):
        searches.append(asyncio.create_task(store.search_ranked(query="cinnamon", metadata=ADA, mode="text")))
        await asyncio.sleep(0)
        await store.apply(
            adds=[HumanMemory(id=f"new{number}", content="cinnamon", metadata=ADA)],
            deletes=[f"new{number - 1}"] if number else [],
        )
    found = [[each.item.id for each in ranked] for ranked in await asyncio.gather(*searches)]
    assert found == [[], ["new0"], ["new1"], ["new2"]]


def test_a_look_that_fails_halfway_leaves_nothing_half_known() -> None:
    row = [Entry("2024-05-01", number, HumanMemory(content="tea"), []) for number in range(10)]
    calls = iter([True, True, False])
    scope = ScopeIndex()

    def found(belongs: Callable[[MemoryItem], bool]) -> set[str]:
        ranked = scope.rank("tea", row, belongs=belongs, wanted=None, limit=20)
        return {each.item.id for each in ranked}

    with pytest.raises(StopIteration):
        found(lambda _: next(calls))
    assert found(lambda _: True) == {entry.item.id for entry in row}


async def test_a_word_without_letters_to_compare_troubles_no_search() -> None:
    """Of tatweel alone, folding leaves nothing."""
    store = InMemoryStore()
    await store.add_many([note(random.Random(number), number) for number in range(1_100)])
    await store.add(HumanMemory(id="stroke", content="ـــ", metadata=ADA))
    assert await store.search_ranked(query="zymurgical", metadata=ADA, mode="text") == []
    (found,) = await store.search_ranked(query="viollin", metadata=ADA, mode="text", limit=1)
    assert "violin" in found.item.content
