"""What others store, live or cleared, changes nothing in an answer: neither items nor order nor scores."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.store import InMemoryStore, RankedItem, Store
from memoranda_backend.sql import candidates
from memoranda_sqlite import SQLiteMemoryStore, scope_cache
from memoranda_sqlite import candidates as of_large_scopes

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("sqlite scopes")

MINE = MemoryMetadata(user_id="ada", session_id="mine", task_id="mine", agent_id="mine", extra={"team": "mine"})
THEIRS = MemoryMetadata(user_id="ada", session_id="s", task_id="t", agent_id="a", extra={"team": "theirs"})
"""Only the user is the same: every other field tells them apart, each by itself."""

ANOTHER = MemoryMetadata(user_id="bea")
ADA = MemoryMetadata(user_id="ada")

FILTERS: dict[str, dict[str, Any]] = {
    "user and session": {"metadata": MemoryMetadata(user_id="ada", session_id="mine")},
    "session": {"metadata": MemoryMetadata(session_id="mine")},
    "task": {"metadata": MemoryMetadata(task_id="mine")},
    "agent": {"metadata": MemoryMetadata(agent_id="mine")},
    "user and agent": {"metadata": MemoryMetadata(user_id="ada", agent_id="mine")},
    "extra": {"metadata": MemoryMetadata(extra={"team": "mine"})},
    "type": {"metadata": MemoryMetadata(session_id="mine"), "memory_type": "ai"},
    "status": {"metadata": MemoryMetadata(agent_id="mine"), "status": MemoryStatus.DRAFT},
    "another user": {"metadata": ANOTHER},
}
QUERIES = ("saffron", "word7 word8", "usual saffron", "usual on 2024-01-02")
CLOSE = 0.02
"""How near the scores are to those of the whole scope: lengths are compared with those around the hits alone."""


def clock(second: int) -> str:
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def conversation(metadata: MemoryMetadata, many: int, seed: int = 1) -> list[MemoryItem]:
    """Return turns over three days, of which one in forty has a rare word and every third a common one."""
    chance = random.Random(seed)
    words = [f"word{number}" for number in range(400)]
    items: list[MemoryItem] = []
    for number in range(many):
        text = " ".join(chance.choices(words, k=chance.randint(2, 25)))
        text += (" saffron" if number % 40 == 0 else "") + (" usual" if number % 3 == 0 else "")
        items.append(
            (AIMemory if number % 2 else HumanMemory)(
                id=f"{metadata.user_id}-{metadata.session_id}-{number:05}",
                content=text + ("?" if number % 5 == 0 else ""),
                metadata=metadata,
                status=MemoryStatus.DRAFT if number % 7 == 0 else MemoryStatus.ACCEPTED,
                created_at=f"2024-01-{1 + 3 * number // many:02}T{clock(number)}",
            )
        )
    return items


def neighbours(many: int) -> list[MemoryItem]:
    return [
        HumanMemory(
            content=f"saffron usual word7 {number}",
            metadata=THEIRS,
            created_at=f"2024-01-02T{clock(number)}",
        )
        for number in range(many)
    ]


def seen(ranked: Sequence[RankedItem]) -> list[tuple[str, float, dict[str, float]]]:
    return [(found.item.id, found.score, dict(found.parts)) for found in ranked]


async def answers(store: Store, names: Iterable[str]) -> dict[str, Any]:
    """Return what each of these filters finds, by words and as a substring."""
    found: dict[str, Any] = {}
    for name in names:
        filters = FILTERS[name]
        ranked = {query: await store.search_ranked(query=query, mode="text", limit=20, **filters) for query in QUERIES}
        substring = await store.search(query="SAFFRON", mode="substring", limit=1_000, **filters)
        found[name] = {
            "text": ranked,
            "seen": {query: seen(results) for query, results in ranked.items()},
            "substring": [item.id for item in substring],
        }
    return found


@dataclass
class States:
    """The same questions with nobody else in the file, with neighbours, and after these were cleared."""

    alone: dict[str, Any] = field(default_factory=dict)
    crowded: dict[str, Any] = field(default_factory=dict)
    cleared: dict[str, Any] = field(default_factory=dict)
    reference: dict[str, Any] = field(default_factory=dict)

    async def fill(self, path: Path, many: int, names: Iterable[str]) -> States:
        own = [*conversation(MINE, 1_200), *conversation(ANOTHER, 1_200, seed=2)]
        reference = InMemoryStore()
        await reference.add_many(own)
        self.reference = await answers(reference, names)
        async with SQLiteMemoryStore(path) as store:
            await store.add_many(own[:1_700])
            await store.fill_indexes()
            await store.add_many(own[1_700:])
            self.alone = await answers(store, names)
            await store.add_many(neighbours(many))
            await store.fill_indexes()
            self.crowded = await answers(store, names)
            await store.clear(metadata=THEIRS)
            self.cleared = await answers(store, names)
        return self


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> States:
    return asyncio.run(States().fill(tmp_path_factory.mktemp("scopes") / "a.db", 20_001, FILTERS))


@pytest.mark.slow
@pytest.mark.parametrize("name", FILTERS)
def test_what_twenty_thousand_neighbours_store_changes_no_answer(states: States, name: str) -> None:
    assert states.crowded[name]["seen"] == states.alone[name]["seen"]
    assert states.crowded[name]["substring"] == states.alone[name]["substring"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILTERS)
def test_what_neighbours_cleared_changes_no_answer(states: States, name: str) -> None:
    assert states.cleared[name]["seen"] == states.alone[name]["seen"]
    assert states.cleared[name]["substring"] == states.alone[name]["substring"]


@pytest.mark.slow
@pytest.mark.parametrize("query", ["saffron", "word7 word8", "usual saffron"])
@pytest.mark.parametrize("name", FILTERS)
def test_a_large_scope_is_ranked_as_the_memory_store_ranks_it(states: States, name: str, query: str) -> None:
    close_to(states.reference[name]["text"][query], states.crowded[name]["text"][query])


def close_to(wanted: Sequence[RankedItem], found: Sequence[RankedItem]) -> None:
    """Check for the same items, nearly the same scores, and the same order wherever scores tell one."""
    scores = {each.item.id: each.score for each in wanted}
    least = min(scores.values())
    for each in found:
        if each.item.id in scores:
            assert each.score == pytest.approx(scores[each.item.id], abs=CLOSE)
        else:
            assert each.score <= least + CLOSE, "an item that should not be among the best"
    missing = scores.keys() - {each.item.id for each in found}
    assert all(scores[key] <= least + CLOSE for key in missing), "an item that should be among the best"
    order = [scores[each.item.id] for each in found if each.item.id in scores]
    assert all(later <= earlier + 2 * CLOSE for earlier, later in pairwise(order))


@pytest.mark.rare
async def test_others_change_no_answer_in_a_scope_of_which_candidates_are_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let a small file take the ways of a very large one."""
    monkeypatch.setattr(scope_cache, "WHOLE_SCOPE", 1_100)
    monkeypatch.setattr(of_large_scopes, "WHOLE_SCOPE", 1_200)
    monkeypatch.setattr(of_large_scopes, "MOST_OF_A_TERM", 600)
    monkeypatch.setattr(candidates, "WHOLE_SCOPE", 1_200)
    names = ("user and session", "session", "user and agent", "type", "another user")
    states = await States().fill(tmp_path / "a.db", 1_500, names)
    for name in names:
        assert states.crowded[name]["seen"] == states.alone[name]["seen"], name
        assert states.cleared[name]["seen"] == states.alone[name]["seen"], name
        for query in ("saffron", "word7 word8"):
            close_to(states.reference[name]["text"][query], states.crowded[name]["text"][query])


@pytest.mark.rare
async def test_a_rare_word_is_found_in_a_scope_of_twenty_thousand_that_all_have_the_other(tmp_path: Path) -> None:
    items = neighbours(20_500)
    for number in (3, 700, 20_400):
        items[number].content += " telescope"
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many(items)
        for metadata in (MemoryMetadata(user_id="ada", session_id="s"), MemoryMetadata(agent_id="a"), None):
            found = await store.search_ranked(query="saffron telescope", metadata=metadata, mode="text", limit=3)
            assert {each.item.id for each in found} == {items[number].id for number in (3, 700, 20_400)}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.rare) for seed in range(1, 20))])
async def test_common_words_find_what_was_added_long_ago_where_times_are_not_in_the_order_of_adding(
    tmp_path: Path, seed: int
) -> None:
    drawn = random.Random(seed)
    words = ("amber", "birch", "cedar", "delta", "ember", "fjord")
    items: list[MemoryItem] = [
        drawn.choice((HumanMemory, AIMemory))(
            content=" ".join(drawn.sample(words, 3)),
            metadata=MemoryMetadata(user_id="ada", session_id=f"s{number % 40}"),
            created_at=f"2024-{drawn.randint(1, 12):02}-{drawn.randint(1, 28):02}T10:00:00.{number:06}+00:00",
        )
        for number in range(200)
    ]
    reference = InMemoryStore()
    await reference.add_many(items)
    async with SQLiteMemoryStore(tmp_path / "a.db", durability="normal") as store:
        await store.add_many(items)
        for _ in range(5):
            query, kind = " ".join(drawn.sample(words, drawn.choice((2, 3)))), drawn.choice((None, "ai"))
            wanted: dict[str, Any] = {"query": query, "metadata": ADA, "memory_type": kind, "mode": "text"}
            expected = await reference.search_ranked(**wanted, limit=10)
            found = await store.search_ranked(**wanted, limit=10)
            assert [(each.item.id, each.score) for each in found] == [(each.item.id, each.score) for each in expected]


async def test_what_waits_for_the_index_counts_by_what_it_says_now(tmp_path: Path) -> None:
    """Of a word that was in four hundred items, one is left; how soon the index learns of it changes no score."""
    items = conversation(MINE, 1_200)
    for number in range(400):
        items[number].content += " obsolete"
    metadata = MemoryMetadata(user_id="ada", session_id="mine")
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many(items)
        await store.fill_indexes()
        for number in range(1, 400):
            items[number].content = items[number].content.replace(" obsolete", "")
        await store.add_many(items[:400])
        rankings = []
        for _ in range(2):
            ranked = await store.search_ranked(query="obsolete word7", metadata=metadata, mode="text", limit=20)
            rankings.append(seen(ranked))
            await store.fill_indexes()
    assert rankings[0] == rankings[1]


@pytest.mark.parametrize("filters", [{"memory_type": "letter"}, {"status": MemoryStatus.DRAFT}], ids=["type", "status"])
async def test_items_that_do_not_match_take_no_place_in_a_large_scope(tmp_path: Path, filters: dict[str, Any]) -> None:
    """Fifteen hundred newer items have the same word, of another type and status."""
    letter = MemoryItem(
        content="saffron, once", memory_type="letter", status=MemoryStatus.DRAFT, metadata=MINE, created_at="2023-01-01"
    )
    newer = [
        HumanMemory(content="saffron saffron", metadata=MINE, created_at=f"2024-01-01T{clock(n)}") for n in range(1_500)
    ]
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([letter, *newer])
        found = await store.search(query="saffron", metadata=MINE, mode="text", limit=5, **filters)
        assert [item.id for item in found] == [letter.id]


@pytest.mark.rare
async def test_a_limit_above_the_usual_number_of_hits_is_filled(tmp_path: Path) -> None:
    items = [
        HumanMemory(content="saffron", metadata=MemoryMetadata(user_id="ada", session_id=str(number)))
        for number in range(1_500)
    ]
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many(items)
        found = await store.search(query="saffron", metadata=MemoryMetadata(user_id="ada"), mode="text", limit=1_200)
        assert len(found) == 1_200


async def test_changes_leave_the_ranking_of_the_memory_store(tmp_path: Path) -> None:
    """What was removed, replaced or added since the index was filled counts, others' rows in between do not."""
    drawn = random.Random(5)
    items = [
        HumanMemory(
            content=" ".join(drawn.choices(("rain", "garden", "walk", "saffron", f"word{drawn.randrange(400)}"), k=5)),
            metadata=MemoryMetadata(user_id="bo" if number % 90 == 7 else "ada", session_id=f"s{number // 40}"),
            created_at=f"2024-03-{1 + number // 100:02}T10:{number % 60:02}:00+00:00",
            name=drawn.choice((None, None, "Joanna", "Anna Lee" if number % 50 == 0 else None)),
        )
        for number in range(1_400)
    ]
    found = []
    async with SQLiteMemoryStore(tmp_path / "a.db") as sqlite:
        for store in (sqlite, InMemoryStore()):
            await store.add_many(items[:1_300])
            if store is sqlite:
                await sqlite.fill_indexes()
            for number in range(0, 1_300, 37):
                await store.delete(items[number].id)
            await store.add_many([item.model_copy(update={"content": "rain word7"}) for item in items[1:400:11]])
            await store.add_many(items[1_300:])
            for query in ("saffron word7", "rain garden", "word7 word8 word9 walk", "anna"):
                ranked = await store.search_ranked(query=query, metadata=MemoryMetadata(user_id="ada"), mode="text")
                found.append([(each.item.id, round(each.score, 9)) for each in ranked])
    assert found[:4] == found[4:]
