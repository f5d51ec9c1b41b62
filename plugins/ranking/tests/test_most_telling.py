"""What an empty query finds: the statements that tell the most, whatever is asked."""

from __future__ import annotations

import memoranda
from memoranda import AIMemory, HumanMemory
from memoranda.store import BaseStore

LIFE = ["I moved to Porto with my sister Ana", "I'm allergic to peanuts", "Miso died last week"]


async def told(store: BaseStore, **wanted: object) -> list[str]:
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
