"""Short-term memory: the conversation that a model may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import (
    AIMemory,
    HumanMemory,
    MemoryItem,
    MemoryMetadata,
    MemoryStatus,
    MemoryStore,
    ShortTermMemory,
    SummaryMemory,
    SystemMemory,
    ToolMemory,
)
from memoranda.errors import InputError, MemoryError, StoreClosedError
from memoranda.integrity import is_whole, whole_groups
from memoranda.store import Observer
from memoranda.windowing import as_said, last_rounds, newest

META = MemoryMetadata(user_id="u1", session_id="s1")


def said(items: Sequence[MemoryItem]) -> list[str]:
    return [item.content for item in items]


async def filled(memory: ShortTermMemory, *items: MemoryItem) -> ShortTermMemory:
    await memory.add_many(items)
    return memory


def turns(*contents: str, metadata: MemoryMetadata = META) -> list[MemoryItem]:
    """Return human and AI items in turn; a content that starts with "system" is a system item."""
    items: list[MemoryItem] = []
    for content in contents:
        kind = SystemMemory if content.startswith("system") else HumanMemory if content[0] == "h" else AIMemory
        items.append(kind(content=content, metadata=metadata))
    return items


async def test_the_documented_example() -> None:
    memory = ShortTermMemory(scope="session", max_rounds=5)
    meta = MemoryMetadata(user_id="u1", session_id="s1")
    await memory.add(SystemMemory(content="You are helpful.", metadata=meta))
    await memory.add(HumanMemory(content="Hello!", metadata=meta))
    await memory.add(AIMemory(content="Hi there!", metadata=meta))
    await memory.add(HumanMemory(content="What is Python?", metadata=meta))
    await memory.add(AIMemory(content="Python is a language.", metadata=meta))
    assert len(await memory.search(metadata=meta)) == 5
    assert len(await memory.search(query="Python", metadata=meta)) == 2
    assert await memory.clear(metadata=meta) == 5
    assert len(memory) == 0


def test_the_defaults_are_the_documented_ones() -> None:
    memory = ShortTermMemory()
    assert (memory.scope, memory.max_rounds) == ("task", 0)
    assert isinstance(memory, MemoryStore)


async def test_the_repr_is_the_documented_one() -> None:
    memory = await filled(ShortTermMemory(scope="task", max_rounds=10), *turns("h1", "a1", "h2", "a2", "h3"))
    assert repr(memory) == "ShortTermMemory(scope='task', max_rounds=10, items=5)"
    assert len(memory) == 5


@pytest.mark.parametrize("scope", ["", "agent", "User", None, 3, ["user"]])
def test_a_wrong_scope_is_a_memory_error(scope: Any) -> None:
    with pytest.raises(MemoryError, match="user, session, task"):
        ShortTermMemory(scope=scope)


@pytest.mark.parametrize("rounds", [-1, 1.5, "2", None])
def test_a_wrong_number_of_rounds_is_an_input_error(rounds: Any) -> None:
    with pytest.raises(InputError) as raised:
        ShortTermMemory(max_rounds=rounds)
    assert raised.value.field == "max_rounds"


async def test_get_returns_an_item_or_none() -> None:
    memory = ShortTermMemory()
    (item,) = turns("h1")
    await memory.add(item)
    found = await memory.get(item.id)
    assert found is not None
    assert found.content == "h1"
    assert await memory.get("unknown") is None


async def test_search_returns_the_oldest_first() -> None:
    memory = await filled(ShortTermMemory(), *turns("h1", "a1", "h2", "a2"))
    assert said(await memory.search(metadata=META)) == ["h1", "a1", "h2", "a2"]


async def test_items_of_equal_time_keep_the_order_of_adding() -> None:
    memory = ShortTermMemory()
    for number in range(5):
        await memory.add(HumanMemory(content=str(number), created_at="2024-03-01", metadata=META))
    assert said(await memory.search()) == ["0", "1", "2", "3", "4"]


FIELDS: dict[str, tuple[str, ...]] = {
    "user": ("user_id", "agent_id"),
    "session": ("user_id", "session_id", "agent_id"),
    "task": ("user_id", "session_id", "task_id", "agent_id"),
}


@pytest.mark.parametrize("scope", FIELDS)
@pytest.mark.parametrize("differs", ["user_id", "session_id", "task_id", "agent_id"])
async def test_a_scope_matches_on_its_documented_fields(scope: str, differs: str) -> None:
    full = {"user_id": "u", "session_id": "s", "task_id": "t", "agent_id": "a"}
    memory = await filled(
        ShortTermMemory(scope=scope),
        HumanMemory(content="same", metadata=MemoryMetadata(**full)),
        HumanMemory(content="other", metadata=MemoryMetadata(**{**full, differs: "x"})),
    )
    found = said(await memory.search(metadata=MemoryMetadata(**full)))
    assert found == (["same"] if differs in FIELDS[scope] else ["same", "other"])


async def test_extra_narrows_in_every_scope() -> None:
    memory = await filled(
        ShortTermMemory(scope="user"),
        HumanMemory(content="one", metadata=MemoryMetadata(user_id="u", extra={"k": 1})),
        HumanMemory(content="two", metadata=MemoryMetadata(user_id="u", extra={"k": 2})),
    )
    assert said(await memory.search(metadata=MemoryMetadata(user_id="u", extra={"k": 2}))) == ["two"]


@pytest.mark.parametrize(
    ("scope", "metadata"),
    [
        ("user", MemoryMetadata(session_id="s")),
        ("user", MemoryMetadata(task_id="t", session_id="")),
        ("session", MemoryMetadata(task_id="t")),
    ],
)
async def test_a_filter_that_the_scope_would_ignore_is_refused(scope: str, metadata: MemoryMetadata) -> None:
    memory = await filled(ShortTermMemory(scope=scope), *turns("h1"))
    with pytest.raises(InputError, match="would ignore") as raised:
        await memory.search(metadata=metadata)
    assert raised.value.field == "metadata"
    with pytest.raises(InputError, match="would ignore"):
        await memory.clear(metadata=metadata)
    assert len(memory) == 1


async def test_clear_is_never_broader_than_what_was_named() -> None:
    memory = await filled(
        ShortTermMemory(scope="user"),
        *turns("h1"),
        HumanMemory(content="other session", metadata=MemoryMetadata(user_id="u1", session_id="s2")),
    )
    assert await memory.clear(metadata=META) == 1
    assert said(await memory.search(metadata=MemoryMetadata(user_id="u1"))) == ["other session"]


async def test_an_empty_filter_does_not_clear() -> None:
    memory = await filled(ShortTermMemory(), *turns("h1"))
    with pytest.raises(InputError):
        await memory.clear(metadata=MemoryMetadata())
    assert await memory.clear() == 1


async def test_type_and_status_narrow() -> None:
    memory = await filled(
        ShortTermMemory(), *turns("h1", "a1"), HumanMemory(content="draft", status=MemoryStatus.DRAFT, metadata=META)
    )
    assert said(await memory.search(memory_type="human")) == ["h1", "draft"]
    assert said(await memory.search(status=MemoryStatus.DRAFT)) == ["draft"]


async def test_a_keyword_is_a_literal_substring_whatever_its_case() -> None:
    memory = await filled(ShortTermMemory(), *turns("h 100% Жираф", "a 100 giraffes"))
    assert said(await memory.search(query="жир")) == ["h 100% Жираф"]
    assert said(await memory.search(query="0%")) == ["h 100% Жираф"]


async def test_only_the_last_rounds_are_shown_and_system_items_stay() -> None:
    memory = await filled(ShortTermMemory(max_rounds=1), *turns("system", "h1", "a1", "h2", "a2", "a3"))
    assert said(await memory.search()) == ["system", "h2", "a2", "a3"]


async def test_the_keyword_comes_before_the_window() -> None:
    memory = await filled(ShortTermMemory(max_rounds=1), *turns("h tea", "a tea", "h wine", "a wine"))
    assert said(await memory.search(query="tea")) == ["h tea", "a tea"]


async def test_a_limit_keeps_the_newest_and_system_items() -> None:
    memory = await filled(ShortTermMemory(), *turns("system", "h1", "a1", "h2", "a2"))
    assert said(await memory.search(limit=3)) == ["system", "h2", "a2"]
    assert said(await memory.search(limit=1)) == ["system"]
    assert await memory.search(limit=0) == []


async def test_every_system_item_stays_also_beyond_the_limit() -> None:
    memory = await filled(ShortTermMemory(), *turns("system 1", "system 2", "h1", "system 3", "a1"))
    assert said(await memory.search(limit=2)) == ["system 1", "system 2", "system 3"]
    assert await memory.search(limit=0) == []


async def test_the_default_limit_is_ten() -> None:
    memory = await filled(ShortTermMemory(), *turns(*(f"h{number}" for number in range(12))))
    assert said(await memory.search()) == [f"h{number}" for number in range(2, 12)]


@pytest.mark.parametrize("limit", [-1, 1.5, "2", None, True])
async def test_a_wrong_limit_is_refused(limit: Any) -> None:
    with pytest.raises(InputError):
        await ShortTermMemory().search(limit=limit)


def tool_turns() -> list[MemoryItem]:
    """Return two questions; the second one is answered by two parallel calls."""
    return [
        HumanMemory(content="h1", metadata=META),
        AIMemory(content="a1", metadata=META),
        HumanMemory(content="h2", metadata=META),
        AIMemory(content="calls", tool_calls=[{"id": "x"}, {"id": "y"}], metadata=META),
        ToolMemory(content="result x", tool_call_id="x", metadata=META),
        ToolMemory(content="result y", tool_call_id="y", metadata=META),
        AIMemory(content="a2", metadata=META),
    ]


async def test_a_dangling_call_is_not_shown() -> None:
    memory = await filled(ShortTermMemory(), *tool_turns()[:5])
    assert said(await memory.search()) == ["h1", "a1", "h2"]


async def test_a_result_without_its_call_is_not_shown() -> None:
    memory = await filled(ShortTermMemory(), *tool_turns()[4:])
    assert said(await memory.search()) == ["a2"]


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        (7, ["h1", "a1", "h2", "calls", "result x", "result y", "a2"]),
        (4, ["calls", "result x", "result y", "a2"]),
        (3, ["a2"]),
        (1, ["a2"]),
    ],
)
async def test_a_limit_never_splits_a_call_from_its_results(limit: int, wanted: list[str]) -> None:
    memory = await filled(ShortTermMemory(), *tool_turns())
    assert said(await memory.search(limit=limit)) == wanted


async def test_a_keyword_never_splits_a_call_from_its_results() -> None:
    memory = await filled(ShortTermMemory(), *tool_turns())
    assert await memory.search(query="result") == []
    assert await memory.search(query="calls") == []


async def test_a_filter_by_type_is_a_listing() -> None:
    memory = await filled(ShortTermMemory(), *tool_turns()[:5])
    assert said(await memory.search(memory_type="tool")) == ["result x"]
    assert said(await memory.search(memory_type="ai")) == ["a1", "calls"]
    assert said(await memory.search(memory_type="ai", limit=1)) == ["calls"]
    assert await memory.search(memory_type="ai", limit=0) == []


async def test_a_ranked_mode_without_a_query_is_a_listing_newest_first() -> None:
    memory = ShortTermMemory(scope="session")
    await memory.add_many(
        [HumanMemory(content=text, created_at=f"2024-05-0{day}") for day, text in ((1, "a"), (2, "b"))]
    )

    assert [item.content for item in await memory.search(mode="text")] == ["b", "a"]
    assert [item.content for item in await memory.search()] == ["a", "b"]


async def test_a_ranked_mode_is_a_listing_best_first() -> None:
    memory = await filled(ShortTermMemory(), *turns("h green tea", "a red wine", "h tea"))
    found = said(await memory.search(query="wine", mode="text"))
    assert found[0] == "a red wine"


async def test_archived_items_are_not_shown() -> None:
    memory = await filled(
        ShortTermMemory(), HumanMemory(content="old", metadata=META, archived_by="summary"), *turns("h1")
    )
    assert said(await memory.search()) == ["h1"]


async def test_observers_are_told_of_what_was_shown() -> None:
    class Recorder(Observer):
        def __init__(self) -> None:
            self.told: list[list[str]] = []

        def searched(self, query: str, items: Sequence[MemoryItem]) -> None:
            self.told.append(said(items))

    memory, recorder = await filled(ShortTermMemory(), *tool_turns()), Recorder()
    memory.observe(recorder)
    found = await memory.search(limit=3)
    assert recorder.told == [said(found)]


async def test_a_closed_memory_is_refused() -> None:
    memory = ShortTermMemory()
    await memory.close()
    with pytest.raises(StoreClosedError):
        await memory.search()


async def test_a_handle_shows_a_conversation_too() -> None:
    memory = await filled(
        ShortTermMemory(max_rounds=1),
        *tool_turns(),
        AIMemory(content="dangling", tool_calls=[{"id": "z"}], metadata=META),
        HumanMemory(content="not mine", metadata=MemoryMetadata(user_id="u2")),
    )
    for handle in (memory.scoped(user_id="u1"), memory.scoped(user_id="u1").scoped(session_id="s1")):
        assert said(await handle.search()) == ["h2", "calls", "result x", "result y", "a2"]
        assert said(await handle.search(limit=3)) == ["a2"]
        assert said(await handle.search(memory_type="tool")) == ["result x", "result y"]


async def test_a_handle_binds_fields_that_the_scope_ignores() -> None:
    memory = await filled(
        ShortTermMemory(scope="user"),
        *turns("h1"),
        HumanMemory(content="other session", metadata=MemoryMetadata(user_id="u1", session_id="s2")),
    )
    handle = memory.scoped(user_id="u1", session_id="s1")
    assert said(await handle.search()) == ["h1"]
    assert said(await handle.search(metadata=MemoryMetadata(user_id="u1"))) == ["h1"]
    with pytest.raises(InputError):
        await handle.search(metadata=MemoryMetadata(user_id="u1", session_id="s2"))
    assert await handle.clear() == 1
    assert said(await memory.search()) == ["other session"]


ACTS = st.lists(
    st.one_of(
        st.just("human"),
        st.just("system"),
        st.lists(st.sampled_from("abc"), max_size=2),
        st.sampled_from("abc").map(lambda call_id: ("result", call_id)),
    ),
    max_size=16,
)


@given(ACTS, st.integers(0, 17), st.integers(0, 4))
async def test_any_search_is_a_valid_context(acts: list[Any], limit: int, rounds: int) -> None:
    memory = ShortTermMemory(max_rounds=rounds)
    for act in acts:
        if act in ("human", "system"):
            await memory.add(HumanMemory(content="h") if act == "human" else SystemMemory(content="s"))
        elif isinstance(act, tuple):
            await memory.add(ToolMemory(content="r", tool_call_id=act[1]))
        else:
            await memory.add(AIMemory(content="a", tool_calls=[{"id": call_id} for call_id in act]))
    found = await memory.search(limit=limit)
    assert is_whole(found)
    systems = acts.count("system")
    assert len(found) <= (max(limit, systems) if limit else 0)
    assert sum(item.memory_type == "system" for item in found) == (systems if limit else 0)


PLACES = [
    MemoryMetadata(user_id="u1", session_id="s1", task_id=task, agent_id=agent) for task in "xy" for agent in "mn"
]
SAYINGS = st.builds(
    lambda kind, place, calls, at, group, archived: (kind, place, calls, at, group, archived),
    st.sampled_from(["human", "human", "ai", "ai", "tool", "tool", "system", "summary"]),
    st.sampled_from([PLACES[0], *PLACES, MemoryMetadata(user_id="u2", session_id="s1")]),
    st.lists(st.sampled_from("abc"), max_size=2),
    st.sampled_from([0, 0, 0, 0, 0, -3]),
    st.sampled_from([None] * 9 + ["g"]),
    st.sampled_from([None] * 5 + ["sum"]),
)


def saying(number: int, act: tuple[Any, ...]) -> MemoryItem:
    kind, place, calls, at, group, archived = act
    common: dict[str, Any] = {
        "content": f"{kind}{number}",
        "metadata": place,
        "created_at": f"2025-01-01T00:00:{30 + at + number * (not at) % 30:02}+00:00",
        "group": group,
        "archived_by": archived,
    }
    if kind == "ai":
        return AIMemory(tool_calls=[{"id": call} for call in calls], **common)
    if kind == "tool":
        return ToolMemory(tool_call_id=(calls or [""])[0], also_answers=calls[1:], **common)
    kinds = {"human": HumanMemory, "system": SystemMemory, "summary": SummaryMemory}
    return kinds[kind](**common)


async def shown_of_all(memory: ShortTermMemory, metadata: MemoryMetadata, limit: int) -> list[str]:
    """Return what the documented steps make of the conversation, all of it taken together."""
    everything = as_said([item async for item in memory.scan(metadata=metadata, archived=False, order="added")])
    found = last_rounds(everything, memory.max_rounds) if memory.max_rounds else everything
    return said(as_said(whole_groups(newest(found, limit), everything)))


@given(st.lists(SAYINGS, max_size=24), st.integers(1, 25), st.integers(0, 4), st.booleans())
async def test_a_search_shows_what_the_whole_conversation_gives(
    acts: list[Any], limit: int, rounds: int, of_one_user: bool
) -> None:
    memory = ShortTermMemory(scope="session", max_rounds=rounds)
    items = [saying(number, act) for number, act in enumerate(acts)]
    await memory.add_many(items)
    for item in items[::5]:
        await memory.add(item)  # Replaced, it keeps its place.
    metadata = MemoryMetadata(user_id="u1" if of_one_user else None, session_id="s1")
    assert said(await memory.search(metadata=metadata, limit=limit)) == await shown_of_all(memory, metadata, limit)


@pytest.mark.parametrize("asked", [{}, {"where": {"memory_type": {"$ne": "tool"}}}], ids=["all", "filtered"])
@pytest.mark.parametrize("earlier", [0, 1, 40])
async def test_a_system_item_that_is_left_at_the_beginning_stands_before_the_summary(
    earlier: int, asked: dict[str, Any]
) -> None:
    memory = ShortTermMemory(scope="session")
    await memory.add_many(turns(*["h"] * earlier, metadata=PLACES[0]))
    await memory.add(SystemMemory(content="system", metadata=PLACES[0]))
    await memory.add(SummaryMemory(content="summary", metadata=PLACES[0]))
    assert said(await memory.search(metadata=PLACES[0], limit=2, **asked)) == ["system", "summary"]
    assert said(await memory.window(metadata=PLACES[0], limit=2, **asked)) == ["system", "summary"]


async def test_a_limit_keeps_nothing_of_an_earlier_round_of_another_session() -> None:
    memory = ShortTermMemory(scope="user", max_rounds=1)
    mine, other = (MemoryMetadata(user_id="u1", session_id=session) for session in ("s1", "s2"))
    await memory.add(HumanMemory(content="earlier", metadata=mine))
    await memory.add(HumanMemory(content="last round", metadata=other))
    await memory.add(AIMemory(content="late answer", metadata=mine))
    assert said(await memory.search(metadata=MemoryMetadata(user_id="u1"), limit=1)) == ["last round"]


@pytest.mark.parametrize("between", [3, 700])
async def test_a_result_far_behind_its_call_is_not_taken_for_the_answer_to_another_agents_call(between: int) -> None:
    memory = ShortTermMemory(scope="session", max_rounds=2)
    mine, other = PLACES[0], PLACES[1]
    await memory.add(AIMemory(content="mine", metadata=mine, tool_calls=[{"id": "c"}]))
    await memory.add_many(turns(*["h", "a"] * between, metadata=mine))
    await memory.add_many([HumanMemory(content="h1", metadata=mine), HumanMemory(content="h2", metadata=mine)])
    await memory.add(AIMemory(content="other", metadata=other, tool_calls=[{"id": "c"}]))
    await memory.add(ToolMemory(content="result", metadata=mine, tool_call_id="c"))
    assert said(await memory.search(metadata=META, limit=20)) == ["h1", "h2"]


async def test_a_search_copies_and_shares_nothing_with_what_is_stored() -> None:
    memory = ShortTermMemory(scope="session", max_rounds=2)
    await memory.add_many(turns("h1", "a1", "h2", "a2"))
    first, second, *_ = await memory.search(metadata=META)
    first.metadata.extra["mine"] = True
    first.content = "changed"
    assert second.metadata.extra == {}
    assert "content" not in second.model_fields_set
    again = await memory.search(metadata=META)
    assert said(again) == ["h1", "a1", "h2", "a2"]
    assert all(item.metadata.extra == {} and item.model_fields_set == set() for item in again)
