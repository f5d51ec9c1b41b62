"""Whatever is said, compacted and taken back: rounds stay whole, calls keep their results, and nothing is lost."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.integrity import is_whole
from memoranda.store import Store
from memoranda.windowing import as_said, rounds_of, stays
from memoranda_summary import CompactionResult, SummaryConfig, compact, expand, undo

USER = MemoryMetadata(user_id="ada")
STEPS = st.one_of(
    st.tuples(st.just("say"), st.lists(st.sampled_from(["human", "human", "ai", "loop", "system"]), max_size=6)),
    st.tuples(st.just("compact"), st.integers(0, 12)),
    st.tuples(st.just("undo"), st.none()),
)


class Talked:
    async def summarize(self, prompt: str) -> str:
        return "They talked."


class Told:
    """A conversation that is added to, compacted and brought back, and what must be true of it after each step."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.said: list[MemoryItem] = []
        self.done: list[tuple[CompactionResult, list[str]]] = []

    async def say(self, kinds: list[str], session: str) -> None:
        new: list[MemoryItem] = []
        for kind in kinds:
            number = len(self.said) + len(new)
            shared: dict[str, Any] = {"metadata": MemoryMetadata(user_id="ada", session_id=session)}
            if kind == "loop":
                calls = [{"id": f"{number}-{part}", "name": "look"} for part in range(2)]
                new.append(AIMemory(content=f"{number}", tool_calls=calls, **shared))
                new += [ToolMemory(content=call["id"], tool_call_id=call["id"], **shared) for call in calls]
            else:
                made = {"human": HumanMemory, "ai": AIMemory, "system": SystemMemory}[kind]
                new.append(made(content=f"{number}", **shared))
        self.said += new
        await self.store.add_many(new)

    async def live(self) -> list[MemoryItem]:
        return as_said([item async for item in self.store.scan(metadata=USER, archived=False, order="added")])

    async def compact(self, keep_recent: int) -> None:
        before = await self.live()
        config = SummaryConfig(templates=("brief",), prompts={"brief": "Sum up."}, keep_recent=keep_recent)
        result = await compact(self.store, USER, config, Talked(), force=True)
        archived = set(result.archived)
        for places in rounds_of(before):
            items = [before[place] for place in places]
            if any(item.memory_type == "human" for item in items):
                assert len({item.id in archived for item in items}) == 1, "a round is archived whole or not at all"
        recent = before[max(len(before) - keep_recent, 0) :]
        assert archived.isdisjoint(item.id for item in recent if not stays(item))
        if result.compacted:
            self.done.append((result, [item.id for item in before]))

    async def undo(self) -> None:
        if self.done:
            result, before = self.done.pop()
            known = {item.id for item in self.said}
            came_back = await undo(self.store, result.summary_id or "")
            assert [item.id for item in came_back] == list(result.archived)
            assert set(before) <= {item.id for item in await self.live()}
            assert known >= {item.id for item in await self.live() if item.memory_type != "summary"}

    async def check(self) -> None:
        window = await self.store.window(metadata=USER)
        assert is_whole(window)
        shown = [item.id for item in window if item.memory_type != "summary"]
        assert shown == [item.id for item in self.said if item.id in set(shown)], "the order of adding"
        summed_up: list[str] = []
        for item in await self.live():
            if item.memory_type == "summary":
                summed_up += [source.id for source in await expand(self.store, item.id)]
        assert summed_up == [item.id for item in self.said if item.id in set(summed_up)], "the order of adding"
        assert sorted([*summed_up, *shown]) == sorted(item.id for item in self.said), "nothing is lost or doubled"


async def _told(url: str, steps: list[tuple[str, Any]], sessions: list[str]) -> None:
    async with memoranda.open(url) as store:
        told = Told(store)
        for number, (step, value) in enumerate(steps):
            if step == "say":
                await told.say(value, sessions[number % len(sessions)])
            elif step == "compact":
                await told.compact(value)
            else:
                await told.undo()
            await told.check()


@given(steps=st.lists(STEPS, max_size=12), sessions=st.sampled_from([["s"], ["s", "t"]]))
@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_rounds_stay_whole_and_nothing_is_lost(backend: str, steps: list[tuple[str, Any]], sessions: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = "memory://" if backend == "memory" else f"sqlite:///{Path(folder) / 'agent.db'}"
        asyncio.run(_told(url, steps, sessions))
