"""What an empty query finds: the statements that tell the most, whatever is asked."""

from __future__ import annotations

import pytest

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import Store

LIFE = ["I moved to Porto with my sister Ana", "I'm allergic to peanuts", "Miso died last week"]


async def told(store: Store, **wanted: object) -> list[str]:
    found = await store.recall("", limit=50, verdict=True, **wanted)  # type: ignore[call-overload]
    return [each.item.content for each in found]


async def test_what_is_said_once_tells_more_than_what_keeps_coming_back() -> None:
    async with memoranda.open("memory://") as store:
        work = [HumanMemory(content=f"I renamed branch {number} and the test passes now") for number in range(40)]
        await store.add_many([*work[:20], *(HumanMemory(content=text) for text in LIFE), *work[20:]])
        assert set((await told(store))[: len(LIFE)]) == set(LIFE)


async def test_what_tells_nothing_comes_last_and_of_equal_ones_the_newest_first() -> None:
    async with memoranda.open("memory://") as store:
        await store.add_many([HumanMemory(content=text) for text in ("ok", "How warm is it?", LIFE[0])])
        await store.add(AIMemory(content="You live in Porto with your sister Ana now."))
        found = await told(store)
        assert found[0] == LIFE[0]
        assert sorted(found[1:]) == sorted(["ok", "How warm is it?", "You live in Porto with your sister Ana now."])
        assert await told(store, memory_type="ai") == ["You live in Porto with your sister Ana now."]


async def test_only_what_is_wanted_counts() -> None:
    async with memoranda.open("memory://") as store:
        early = [HumanMemory(content=text, created_at=f"2026-01-0{day}") for day, text in enumerate(LIFE, 1)]
        await store.add_many(early)
        before = await store.recall("", until="2026-02-01", verdict=True)
        await store.add_many([HumanMemory(content=text, created_at="2026-03-01") for text in LIFE * 5])
        after = await store.recall("", until="2026-02-01", verdict=True)
        assert [(each.item.id, each.score) for each in before] == [(each.item.id, each.score) for each in after]


async def test_the_order_that_is_kept_follows_every_change_and_every_filter() -> None:
    """A store that is asked between changes answers as a new one that holds the same."""
    async with memoranda.open("memory://") as store:
        items: list[MemoryItem] = []
        for number, text in enumerate((*LIFE, "I renamed a branch", "Anna has a loom", "My rent is 890 now") * 3):
            metadata = MemoryMetadata(user_id="ada", session_id=f"s{number % 4}")
            items.append(HumanMemory(content=text, created_at=f"2026-01-{number + 1:02}", metadata=metadata))
            await store.add(items[-1])
            if number % 5 == 4:
                await store.delete(items.pop(number // 3).id)
            async with memoranda.open("memory://") as other:
                await other.add_many(items)
                for where in ({}, {"session_id": {"$ne": "s1"}}, {"session_id": "s2"}, {"content": {"$ne": LIFE[0]}}):
                    found = [await each.recall("", where=where, limit=50, verdict=True) for each in (store, other)]
                    ranked = [[(each.item.id, each.score, each.evidence) for each in recalled] for recalled in found]
                    assert ranked[0] == ranked[1]


@pytest.mark.parametrize(("number", "evidence"), [(40, 0.25), (200, 1.0)])
async def test_the_evidence_is_how_much_there_is_to_know(number: int, evidence: float) -> None:
    async with memoranda.open("memory://") as store:
        await store.add_many([HumanMemory(content=f"I met {name(each)} in Porto in 1990") for each in range(number)])
        await store.add_many([HumanMemory(content=f"ok {each}") for each in range(10)])
        found = await store.recall("", limit=3, verdict=True)
        assert [each.evidence for each in found] == [evidence] * 3


def name(number: int) -> str:
    return "".join("ABCDEFGHIJ"[int(digit)] + "ara" for digit in f"{number:03}")
