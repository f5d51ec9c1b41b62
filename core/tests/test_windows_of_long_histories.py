"""A window reads no more of a long history than it takes, and shows what all of it would have shown."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from noted_reads import NotesReads, NotesSingleReads

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, SystemMemory, ToolMemory
from memoranda.integrity import whole_groups
from memoranda.store import InMemoryStore
from memoranda.store.layers import add_layer
from memoranda.windowing import as_said, last_rounds, newest, rounds_within


def one_token(_: MemoryItem) -> int:
    return 1


def history(chance: Random, sessions: int) -> list[MemoryItem]:
    """Conversations that take turns, some begun by a greeting; answers, calls and groups may go on for long."""
    scopes = [MemoryMetadata(user_id="ada", session_id=f"s{number}") for number in range(sessions)]
    items: list[MemoryItem] = []
    talkative = chance.random() * 0.4
    for turn in range(chance.randrange(60, 320)):
        scope = chance.choice(scopes[: chance.randrange(1, sessions + 1)])
        group = chance.choice((None, None, f"g{turn // chance.choice((2, 4, 90))}"))
        drawn = chance.random()
        if drawn < talkative:
            items.append(HumanMemory(content=f"q{turn}", metadata=scope, group=group))
        elif drawn < 0.9:
            items.append(AIMemory(content=f"a{turn}", metadata=scope, group=group))
        elif drawn < 0.97:
            call = f"c{turn % 7}"
            items.append(AIMemory(content=f"c{turn}", metadata=scope, tool_calls=[{"id": call, "name": "look"}]))
            items.append(ToolMemory(content=f"r{turn}", metadata=scope, tool_call_id=call))
        elif drawn < 0.98:
            items.append(SummaryMemory(content=f"s{turn}", metadata=scope, group=group))
        else:
            items.append(SystemMemory(content=f"i{turn}", metadata=scope))
    return sized(items, chance)


def sized(items: list[MemoryItem], chance: Random) -> list[MemoryItem]:
    """Return the items; those of half of the groups say how many they are."""
    sizes = Counter((item.metadata.session_id, item.group) for item in items)
    chosen = {each for each in sorted(sizes, key=str) if chance.random() < 0.5}
    for item in items:
        where = item.metadata.session_id, item.group
        if item.group is not None and where in chosen:
            item.group_size = sizes[where]
    return items


def shown_of_all(items: list[MemoryItem], bounds: dict[str, int]) -> list[str]:
    said = found = as_said(items)
    if "rounds" in bounds:
        found = last_rounds(found, bounds["rounds"])
    if "tokens" in bounds:
        found = rounds_within(found, bounds["tokens"], one_token)
    if "limit" in bounds:
        found = newest(found, bounds["limit"])
    return [item.content for item in as_said(whole_groups(found, said))]


@pytest.mark.parametrize("sessions", [1, 2, 5])
async def test_a_window_is_that_of_the_whole_history(sessions: int) -> None:
    chance = Random(sessions)
    for _ in range(40):
        items = history(chance, sessions)
        store = InMemoryStore()
        await store.add_many(items)
        named = chance.choice((MemoryMetadata(user_id="ada"), MemoryMetadata(user_id="ada", session_id="s0")))
        read = [item for item in items if named.session_id in (None, item.metadata.session_id)]
        for _ in range(6):
            most = {"rounds": 12, "tokens": 150, "limit": 100}
            bounds: dict[str, Any] = {
                name: chance.randrange(top) for name, top in most.items() if chance.random() < 0.5
            }
            shown = await store.window(metadata=named, counter=one_token, **bounds)
            assert [item.content for item in shown] == shown_of_all(read, bounds), bounds


def shuffled_times(items: list[MemoryItem], chance: Random) -> list[MemoryItem]:
    """Return the items as after a clock was set back, some of them archived or another user's."""
    for item in items:
        if chance.random() < 0.1:
            item.created_at = f"2020-01-01T00:00:{chance.randrange(60):02d}"
        if chance.random() < 0.05:
            item.archived_by = "a summary"
        if chance.random() < 0.05:
            item.metadata = item.metadata.model_copy(update={"user_id": "bob"})
    return items


@pytest.mark.parametrize("sets_back", [False, True])
async def test_what_stays_is_the_same_in_one_read_or_in_two(sets_back: bool) -> None:
    chance = Random(7)
    for _ in range(20):
        items = history(chance, 2)
        if sets_back:
            items = shuffled_times(items, chance)
        at_once, apart = InMemoryStore(), InMemoryStore()
        layer = add_layer(apart, NotesReads)
        await at_once.add_many(items)
        await apart.add_many(items)
        for named in (MemoryMetadata(user_id="ada", session_id="s0"), MemoryMetadata(session_id="s1"), None):
            bounds: dict[str, Any] = {
                "rounds": chance.randrange(6),
                "limit": chance.choice((None, chance.randrange(40))),
            }
            shown = await at_once.window(metadata=named, **bounds)
            assert [item.id for item in shown] == [item.id for item in await apart.window(metadata=named, **bounds)]
        assert not any(query.staying for query in layer.queries)


async def test_the_last_rounds_of_a_long_conversation_are_one_read() -> None:
    store, owner = InMemoryStore(), MemoryMetadata(user_id="ada", session_id="s")
    layer = add_layer(store, NotesSingleReads)
    await store.add(SystemMemory(content="be kind", metadata=owner))
    for turn in range(50):
        await store.add(HumanMemory(content=f"q{turn}", metadata=owner))
        await store.add(AIMemory(content=f"a{turn}", metadata=owner))

    shown = await store.window(metadata=owner, rounds=2)

    assert [item.content for item in shown] == ["be kind", "q48", "a48", "q49", "a49"]
    assert len(layer.queries) == 1


async def test_what_a_window_returns_or_counts_can_be_changed_without_changing_the_store() -> None:
    store = InMemoryStore()
    scope = MemoryMetadata(user_id="ada", session_id="s", extra={"tags": ["new"]})
    calls = [{"id": "c", "name": "look", "arguments": {}}]
    await store.add(AIMemory(id="call", content="hello", metadata=scope, tool_calls=calls))
    await store.add(ToolMemory(id="result", content="hello", metadata=scope, tool_call_id="c"))

    def change(item: MemoryItem) -> int:
        item.content = "changed"
        item.metadata.extra["tags"].append("changed")
        return 1

    for bounds in ({"rounds": 5}, {"limit": 5}, {"tokens": 99, "counter": change}):
        for shown in await store.window(metadata=scope, **bounds):
            change(shown)
            shown.__dict__.get("tool_calls", []).clear()
    assert [item.content for item in await store.get_many(["call", "result"])] == ["hello", "hello"]
    assert [item.metadata.extra for item in await store.search()] == [{"tags": ["new"]}] * 2
    assert [item.id for item in await store.window(metadata=scope)] == ["call", "result"]
