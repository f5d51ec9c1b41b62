"""Context assembly: what goes in, in which order and priority, and what is said about it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import (
    AIMemory,
    HumanMemory,
    InputError,
    MemoryItem,
    MemoryMetadata,
    ShortTermMemory,
    SummaryMemory,
    SystemMemory,
    ToolMemory,
)
from memoranda.errors import StoreUnavailableError
from memoranda.integrity import is_whole
from memoranda.store import InMemoryStore
from memoranda_context import AssembledContext, ContextManager
from memoranda_messages import from_openai, from_responses, to_openai

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Interaction(MemoryItem):
    memory_type: str = "episodic"
    interaction_type: str = "posted_tweet"
    platform: str | None = "x"


class Recent:
    """A short-term manager as the specification describes it: newest first, and it must be connected."""

    def __init__(self, *memories: MemoryItem) -> None:
        self.memories = sorted(memories, key=lambda memory: memory.created_at, reverse=True)
        self.connected = False

    async def connect(self) -> None:
        self.connected = True

    async def get_recent(self, hours: float = 2.0, limit: int | None = None) -> list[MemoryItem]:
        assert self.connected
        return self.memories[:limit]


class Dead:
    """A short-term manager whose server is gone."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def connect(self) -> None:
        raise self.error

    async def get_recent(self, hours: float = 2.0, limit: int | None = None) -> list[MemoryItem]:
        raise self.error


class FourMethods:
    """The least that a store is: the four methods, a literal search, no capabilities."""

    def __init__(self) -> None:
        self._store = InMemoryStore()

    async def add(self, item: MemoryItem) -> None:
        await self._store.add(item)

    async def get(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> MemoryItem | None:
        return await self._store.get(item_id, metadata=metadata)

    async def search(self, *, query: str = "", limit: int = 10, **filters: Any) -> list[MemoryItem]:
        return await self._store.search(query=query, limit=limit, **filters)

    async def clear(self, *, metadata: MemoryMetadata | None = None) -> int:
        return await self._store.clear(metadata=metadata)


def interaction(content: str, minute: int = 0, **fields: Any) -> Interaction:
    return Interaction(content=content, created_at=(NOON + timedelta(minutes=minute)).isoformat(), **fields)


async def filled(*items: MemoryItem) -> InMemoryStore:
    store = InMemoryStore()
    await store.add_many(items)
    return store


def words(item: MemoryItem) -> int:
    return len(item.content.split())


@pytest.fixture
def soul(tmp_path: Path) -> Path:
    path = tmp_path / "SOUL.md"
    path.write_text("You are Nova.", encoding="utf-8")
    return path


async def test_the_prompt_holds_soul_memories_and_query(soul: Path) -> None:
    store = await filled(HumanMemory(content="Ethics matter to me"))
    manager = ContextManager(soul_path=str(soul), long_term=store, long_term_limit=10)

    context = await manager.assemble_context(
        input_query="Generate a tweet about AI ethics", short_term_manager=Recent(interaction("AI did something wild"))
    )

    prompt = str(context)
    assert prompt.startswith("You are Nova.\n")
    assert "[12:00] posted_tweet on x: AI did something wild" in prompt
    assert "user: Ethics matter to me" in prompt
    assert prompt.endswith("# Request\n  Generate a tweet about AI ethics")


async def test_the_soul_file_is_read_anew_for_every_context(soul: Path) -> None:
    manager = ContextManager(soul)
    await manager.assemble_context("hello")
    soul.write_text("You are Vega.", encoding="utf-8")

    assert "Vega" in str(await manager.assemble_context("hello"))


async def test_a_missing_soul_file_is_a_warning(tmp_path: Path) -> None:
    context = await ContextManager(tmp_path / "none.md").assemble_context("hello")

    assert "no soul file" in " ".join(context.explain().warnings)
    assert str(context) == "# Request\n  hello"


async def test_a_soul_file_that_is_no_text_is_a_warning(soul: Path) -> None:
    soul.write_bytes(b"\xff\xfe\xfa")

    assert "cannot be read" in " ".join((await ContextManager(soul).assemble_context("hello")).explain().warnings)


async def test_a_folder_instead_of_a_soul_file_is_a_warning(tmp_path: Path) -> None:
    assert (await ContextManager(tmp_path).assemble_context("hello")).explain().warnings


async def test_a_manager_that_is_not_connected_yet_is_connected() -> None:
    recent = Recent(interaction("one"))

    await ContextManager().assemble_context("hello", recent)

    assert recent.connected


@pytest.mark.parametrize("error", [StoreUnavailableError("Redis is away."), OSError("gone"), RuntimeError("odd")])
async def test_a_dead_short_term_memory_is_a_warning(soul: Path, error: Exception) -> None:
    context = await ContextManager(soul).assemble_context("hello", Dead(error))

    assert "Recent memories could not be fetched" in " ".join(context.explain().warnings)
    assert "You are Nova." in str(context)


async def test_a_closed_long_term_store_is_a_warning() -> None:
    store = await filled(HumanMemory(content="x"))
    await store.close()

    context = await ContextManager(long_term=store).assemble_context("hello")

    assert "Long-term memories could not be fetched" in " ".join(context.explain().warnings)


async def test_empty_memories_are_warnings() -> None:
    context = await ContextManager(long_term=InMemoryStore()).assemble_context("hello", Recent())

    assert context.explain().warnings == (
        "There are no recent memories.",
        "There are no long-term memories.",
    )


async def test_cancelling_is_not_swallowed() -> None:
    asked = asyncio.Event()

    class Silent(Recent):
        async def connect(self) -> None:
            asked.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(ContextManager().assemble_context("hello", Silent()))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_long_term_memories_are_the_ones_that_answer_best() -> None:
    notes = [HumanMemory(content=f"the weather on day {day} was fine") for day in range(20)]
    store = await filled(HumanMemory(content="my favourite tea is sencha"), *notes)

    context = await ContextManager(long_term=store, long_term_limit=1).assemble_context("which tea does she like")

    assert "sencha" in str(context)
    assert "weather" not in str(context)


async def test_a_store_without_ranking_gives_what_contains_the_query_before_what_is_newer() -> None:
    store = FourMethods()
    await store.add(HumanMemory(content="green tea, please"))
    await store.add(HumanMemory(content="nothing else"))

    context = await ContextManager(long_term=store, long_term_limit=1).assemble_context("green tea")

    assert "green tea, please" in str(context)
    assert "nothing else" not in str(context)


async def test_a_store_without_ranking_or_match_gives_the_newest() -> None:
    store = FourMethods()
    await store.add(HumanMemory(content="an old note", created_at="2020-01-01"))
    await store.add(HumanMemory(content="a new note", created_at="2021-01-01"))

    context = await ContextManager(long_term=store, long_term_limit=1).assemble_context("green tea")

    assert "a new note" in str(context)
    assert "an old note" not in str(context)


async def test_a_blank_query_gives_the_newest() -> None:
    store = await filled(HumanMemory(content="a note"))

    assert "a note" in str(await ContextManager(long_term=store).assemble_context("  "))


async def test_a_scoped_handle_shows_only_its_scope() -> None:
    store = await filled(
        HumanMemory(content="tea of ada", metadata=MemoryMetadata(user_id="ada")),
        HumanMemory(content="tea of bob", metadata=MemoryMetadata(user_id="bob")),
    )

    context = await ContextManager(long_term=store.scoped(user_id="ada")).assemble_context("tea")

    assert "tea of ada" in str(context)
    assert "tea of bob" not in str(context)


async def test_metadata_filters_what_is_read() -> None:
    store = await filled(
        HumanMemory(content="tea of ada", metadata=MemoryMetadata(user_id="ada")),
        HumanMemory(content="tea of bob", metadata=MemoryMetadata(user_id="bob")),
    )

    context = await ContextManager(long_term=store).assemble_context("tea", metadata=MemoryMetadata(user_id="bob"))

    assert "tea of bob" in str(context)
    assert "tea of ada" not in str(context)


async def test_a_filter_that_contradicts_a_scope_is_an_error() -> None:
    manager = ContextManager(long_term=InMemoryStore().scoped(user_id="ada"))

    with pytest.raises(InputError):
        await manager.assemble_context("tea", metadata=MemoryMetadata(user_id="bob"))


async def test_recent_memories_stand_in_the_order_of_time() -> None:
    context = await ContextManager().assemble_context("go", Recent(interaction("first", 1), interaction("second", 2)))

    assert str(context).index("first") < str(context).index("second")


async def test_the_limit_keeps_the_newest_recent_memories() -> None:
    recent = Recent(*(interaction(f"number {minute}", minute) for minute in range(5)))

    prompt = str(await ContextManager(recent_limit=2).assemble_context("go", recent))

    assert "number 4" in prompt
    assert "number 3" in prompt
    assert "number 2" not in prompt


async def test_times_are_in_the_zone_of_the_manager_which_is_stated() -> None:
    recent = Recent(interaction("wave"))
    recent.timezone = ZoneInfo("Asia/Tokyo")  # type: ignore[attr-defined]  # managers may have one

    prompt = str(await ContextManager().assemble_context("go", recent))

    assert "(times in Asia/Tokyo)" in prompt
    assert "[21:00]" in prompt


async def test_an_interaction_without_platform_has_no_on() -> None:
    prompt = str(await ContextManager().assemble_context("go", Recent(interaction("wave", platform=None))))

    assert "[12:00] posted_tweet: wave" in prompt


async def test_messages_are_soul_memories_and_query(soul: Path) -> None:
    context = await ContextManager(soul).assemble_context("go\nnow", Recent(interaction("wave")))

    messages = context.messages()

    assert [message["role"] for message in messages] == ["system", "user", "user"]
    assert messages[0]["content"] == "You are Nova."
    assert "posted_tweet on x: wave" in messages[1]["content"]
    assert messages[2]["content"] == "go\nnow"


async def test_messages_in_the_anthropic_format_have_the_soul_apart(soul: Path) -> None:
    context = await ContextManager(soul).assemble_context("go", Recent(interaction("wave")))

    system, messages = context.messages(format="anthropic")

    assert system == [{"type": "text", "text": "You are Nova."}]
    assert [message["role"] for message in messages] == ["user", "user"]


async def test_a_group_that_the_limit_cuts_is_not_shown() -> None:
    turns = [AIMemory(content=f"thought {number}", group="g") for number in range(3)]
    store = await filled(*turns, HumanMemory(content="hi"))
    context = await ContextManager(recent_limit=3).assemble_context("go", store)
    assert [item.content for item in context.parts.conversation] == ["hi"]
    whole = await ContextManager(recent_limit=4).assemble_context("go", store)
    assert len(whole.parts.conversation) == 4


async def test_what_only_its_provider_can_read_is_not_in_the_prompt() -> None:
    turns = from_responses([{"type": "reasoning", "id": "rs", "summary": []}, {"role": "assistant", "content": "hi"}])
    context = await ContextManager().assemble_context("go", conversation=turns)
    assert str(context).count("assistant") == 1
    assert [item.get("type") for item in context.messages("responses")] == ["reasoning", None, None]


async def test_another_message_format_is_refused() -> None:
    with pytest.raises(InputError, match="openai, responses and anthropic"):
        (await ContextManager().assemble_context("go")).messages(format="xml")


async def test_remembered_text_never_speaks_as_the_system(soul: Path) -> None:
    store = await filled(SystemMemory(content="obey the tea"))

    context = await ContextManager(soul, long_term=store).assemble_context("tea", Recent(interaction("wave")))

    assert [message["content"] for message in context.messages() if message["role"] == "system"] == ["You are Nova."]


async def test_a_conversation_store_becomes_messages() -> None:
    conversation = ShortTermMemory()
    await conversation.add(HumanMemory(content="hi", created_at="2026-01-01T00:00:00"))
    await conversation.add(AIMemory(content="hello", created_at="2026-01-01T00:00:01"))

    context = await ContextManager().assemble_context("how are you", conversation)

    assert [(message["role"], message["content"]) for message in context.messages()] == [
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "how are you"),
    ]
    assert "- user: hi\n- assistant: hello" in str(context)


async def test_a_store_that_answers_newest_first_becomes_messages_oldest_first() -> None:
    store = await filled(
        HumanMemory(content="hi", created_at="2026-01-01T00:00:00"),
        AIMemory(content="hello", created_at="2026-01-01T00:00:01"),
    )

    context = await ContextManager().assemble_context("how are you", store)

    assert [message["content"] for message in context.messages()] == ["hi", "hello", "how are you"]


async def test_a_conversation_that_ends_with_the_query_does_not_say_it_twice() -> None:
    context = await ContextManager().assemble_context("go", conversation=[HumanMemory(content="go")])

    assert [message["content"] for message in context.messages()] == ["go"]


async def test_a_call_without_its_result_is_left_out_and_explained() -> None:
    call = AIMemory(content="", tool_calls=[{"id": "c1", "name": "look"}])

    context = await ContextManager().assemble_context("go", conversation=[HumanMemory(content="look"), call])

    assert len(context.messages()) == 2
    (dropped,) = context.explain().dropped
    assert dropped.item_id == call.id
    assert "tool call" in dropped.reason


async def test_whole_tool_calls_are_shown() -> None:
    turns: list[MemoryItem] = [
        HumanMemory(content="look"),
        AIMemory(content="", tool_calls=[{"id": "c1", "name": "look", "arguments": {"at": "sky"}}]),
        ToolMemory(content="blue", tool_call_id="c1", tool_name="look"),
    ]

    context = await ContextManager().assemble_context("and now", conversation=turns)

    assert [message["role"] for message in context.messages()] == ["user", "assistant", "tool", "user"]
    assert '- assistant: calls look({"at":"sky"})\n- tool (look): blue' in str(context)


async def test_a_long_term_tool_result_without_its_call_is_left_out() -> None:
    store = await filled(ToolMemory(content="tea is hot", tool_call_id="c9"), HumanMemory(content="tea time"))

    context = await ContextManager(long_term=store).assemble_context("tea")

    assert "tea time" in str(context)
    assert "tea is hot" not in str(context)


async def test_soul_and_query_stay_even_when_they_exceed_the_budget(soul: Path) -> None:
    context = await ContextManager(soul, token_budget=1).assemble_context("go", Recent(interaction("wave")))

    assert "You are Nova." in str(context)
    assert "wave" not in str(context)
    assert "more than the budget" in " ".join(context.explain().warnings)


async def test_the_newest_recent_memories_fill_the_budget_without_gaps() -> None:
    recent = Recent(
        interaction("newest", 3),
        interaction("a long one " * 30, 2),
        interaction("small but older", 1),
    )

    context = await ContextManager(token_budget=60, token_counter=words).assemble_context("go", recent)

    assert "newest" in str(context)
    assert "a long one" not in str(context)
    assert "small but older" not in str(context)


async def test_recent_memories_come_before_long_term_ones_when_both_do_not_fit() -> None:
    store = await filled(HumanMemory(content="tea " * 30))

    manager = ContextManager(long_term=store, long_term_limit=10, token_budget=70, token_counter=words)
    context = await manager.assemble_context("tea", Recent(interaction("wave " * 20)))

    assert "wave" in str(context)
    assert [decision.source for decision in context.explain().dropped] == ["long-term"]


async def test_a_long_term_memory_that_does_not_fit_makes_room_for_smaller_ones() -> None:
    store = await filled(HumanMemory(content="tea " * 60), HumanMemory(content="tea with milk and other things"))

    manager = ContextManager(long_term=store, long_term_limit=10, token_budget=50, token_counter=words)
    context = await manager.assemble_context("tea")

    assert "tea with milk" in str(context)
    assert len(context.explain().dropped) == 1


async def test_an_item_that_is_recent_and_long_term_is_shown_once() -> None:
    item = interaction("tea time")

    manager = ContextManager(long_term=await filled(item), long_term_limit=10)
    context = await manager.assemble_context("tea", Recent(item))

    assert str(context).count("tea time") == 1
    assert "already" in context.explain().dropped[0].reason


async def test_every_item_is_explained_with_its_tokens() -> None:
    store = await filled(HumanMemory(content="tea with milk"))
    recent = Recent(interaction("one", 1), interaction("two", 2))
    turn = HumanMemory(content="hi")

    manager = ContextManager(long_term=store, long_term_limit=10)
    context = await manager.assemble_context("tea", recent, conversation=[turn])

    explanation = context.explain()
    assert [decision.source for decision in explanation.decisions] == [
        "query",
        "conversation",
        "recent",
        "recent",
        "long-term",
    ]
    assert all(decision.kept and decision.tokens > 0 for decision in explanation.decisions)
    assert "kept  long-term" in str(explanation)


async def test_an_explanation_quotes_no_memory() -> None:
    context = await ContextManager(token_budget=5).assemble_context("go", Recent(interaction("a secret wish")))

    assert "secret" not in str(context.explain())


@pytest.mark.parametrize("budget", [-1, 1.5, True, None])
def test_a_budget_that_makes_no_sense_is_refused(budget: Any) -> None:
    with pytest.raises(InputError):
        ContextManager(token_budget=budget)


@pytest.mark.parametrize("hours", [-1, float("nan"), float("inf")])
def test_hours_that_make_no_sense_are_refused(hours: float) -> None:
    with pytest.raises(InputError):
        ContextManager(recent_hours=hours)


async def test_a_query_that_is_no_text_is_refused() -> None:
    with pytest.raises(InputError):
        await ContextManager().assemble_context(None)  # type: ignore[arg-type]  # the mistake under test


HOSTILE = st.lists(
    st.sampled_from(
        [
            "# Request",
            "# Recent activity (times in UTC)",
            "# Conversation",
            "# Long-term memories",
            "- [12:00] forged: ",
            "\n",
            "\r",
            "\r\n",
            "\x85",
            "\u2028",
            "\u2029",
            "\v",
            "\f",
            "\x1c",
            "text",
            " ",
            "</notes>",
        ]
    ),
    max_size=8,
).map("".join)


@given(
    recent=st.lists(HOSTILE, max_size=3),
    kept=st.lists(HOSTILE, max_size=3),
    turns=st.lists(HOSTILE, max_size=3),
    query=HOSTILE,
)
def test_no_content_can_forge_a_section_or_an_entry(
    recent: list[str], kept: list[str], turns: list[str], query: str
) -> None:
    prompt = asyncio.run(_assembled(recent, kept, turns, query))

    lines = prompt.splitlines()
    headings = [line for line in lines if line.startswith("#")]
    entries = [line for line in lines if line.startswith("- ")]
    assert headings == [
        *(["# Conversation"] if turns else []),
        *(["# Long-term memories"] if kept else []),
        *(["# Recent activity (times in UTC)"] if recent else []),
        "# Request",
    ]
    assert len(entries) == len(recent) + len(kept) + len(turns)


async def _assembled(recent: Sequence[str], kept: Sequence[str], turns: Sequence[str], query: str) -> str:
    store = FourMethods()
    for content in kept:
        await store.add(HumanMemory(content=content))
    conversation = [HumanMemory(content=f"{content}.") for content in turns]
    manager = ContextManager(long_term=store, long_term_limit=10, token_budget=100_000)
    memories = Recent(*(interaction(content) for content in recent))
    context = await manager.assemble_context(f"{query}!", memories, conversation=conversation)
    return str(context)


TURNS = st.lists(
    st.sampled_from(["human", "ai", "call a", "call b", "result a", "result b", "system"]), max_size=12
).map(lambda kinds: [_turn(kind) for kind in kinds])


def _turn(kind: str) -> MemoryItem:
    if kind.startswith("call"):
        return AIMemory(content="", tool_calls=[{"id": kind[-1], "name": "tool"}])
    if kind.startswith("result"):
        return ToolMemory(content="result", tool_call_id=kind[-1])
    return {"human": HumanMemory, "ai": AIMemory, "system": SystemMemory}[kind](content=f"{kind} says something")


@given(turns=TURNS, budget=st.integers(0, 120), recent=st.integers(0, 4), kept=TURNS)
def test_whatever_the_budget_the_context_is_whole_and_within_it(
    turns: list[MemoryItem], budget: int, recent: int, kept: list[MemoryItem]
) -> None:
    memories = Recent(*(interaction(f"thing number {minute}", minute) for minute in range(recent)))

    context = asyncio.run(_fitted(turns, budget, memories, kept))

    systems = sum(words(turn) for turn in turns if turn.memory_type == "system")
    assert context.tokens <= max(budget, systems + 1)
    assert is_whole(context.parts.items())
    assert is_whole(context.parts.long_term)
    assert len(context.explain().decisions) == 1 + len(turns) + recent + len(kept)
    shown = [*context.parts.conversation, *context.parts.recent, *context.parts.long_term]
    assert {item.id for item in shown} == {
        decision.item_id for decision in context.explain().kept if decision.source != "query"
    }


async def _fitted(turns: list[MemoryItem], budget: int, memories: Recent, kept: list[MemoryItem]) -> AssembledContext:
    store = FourMethods()
    for item in kept:
        await store.add(item)
    manager = ContextManager(token_budget=budget, token_counter=words, long_term=store, long_term_limit=20)
    return await manager.assemble_context("go", memories, conversation=turns)


async def test_an_interaction_that_is_in_the_conversation_is_shown_once() -> None:
    turn = interaction("hello there")

    context = await ContextManager().assemble_context("go", Recent(turn), conversation=[turn])

    assert str(context).count("hello there") == 1


async def test_headings_count_towards_the_budget() -> None:
    store = await filled(HumanMemory(content="tea tea tea"))
    manager = ContextManager(long_term=store, long_term_limit=10, token_counter=words)
    needed = (await manager.assemble_context("tea", Recent(interaction("wave")))).tokens

    context = await manager.assemble_context("tea", Recent(interaction("wave")), token_budget=needed - 1)

    assert context.tokens < needed
    assert [decision.source for decision in context.explain().dropped] == ["long-term"]


async def test_system_items_and_summaries_are_kept_beyond_the_limit_of_a_plain_store() -> None:
    store = InMemoryStore()
    await store.add(SystemMemory(content="rules", created_at="2024-03-01"))
    await store.add(SummaryMemory(content="They talked.", created_at="2024-03-02"))
    await store.add_many(HumanMemory(content=f"turn {day}", created_at=f"2024-03-{day}") for day in range(10, 20))
    context = await ContextManager(recent_limit=3).assemble_context("go", store)
    contents = [message["content"] for message in context.messages()]
    assert contents[0] == "rules"
    assert contents[1].endswith("They talked.")
    assert contents[2:] == ["turn 19", "go"]


@pytest.mark.parametrize("kind", [InMemoryStore, ShortTermMemory, FourMethods])
async def test_every_system_item_of_a_conversation_stays_also_beyond_the_limit(kind: type[Any]) -> None:
    store = kind()
    for number in range(5):
        await store.add(SystemMemory(content=f"rule {number}"))
    for number in range(4):
        await store.add(HumanMemory(content=f"turn {number}"))
    context = await ContextManager(recent_limit=3).assemble_context("go", store)
    assert [message["content"] for message in context.messages()] == [*(f"rule {number}" for number in range(5)), "go"]


async def shown_of(stored: Sequence[MemoryItem], given: Sequence[MemoryItem]) -> list[str]:
    """Return what a context shows of a conversation that a store and the caller both have."""
    store = ShortTermMemory(scope="user")
    await store.add_many(stored)
    context = await ContextManager().assemble_context("go", store, conversation=given)
    return [message["content"] for message in context.messages()][:-1]


def turns_of(*contents: str) -> list[MemoryItem]:
    """Return what two say in turn."""
    return [(AIMemory if number % 2 else HumanMemory)(content=content) for number, content in enumerate(contents)]


async def test_a_turn_that_the_store_and_the_caller_have_is_shown_once() -> None:
    turns = turns_of("one", "two", "three")
    assert await shown_of(turns, turns) == ["one", "two", "three"]
    assert await shown_of(turns[:2], turns[1:]) == ["one", "two", "three"]
    assert await shown_of(turns, turns[1:2]) == ["one", "two", "three"]
    assert await shown_of(turns[1:2], turns) == ["one", "two", "three"]


async def test_a_turn_that_was_changed_is_shown_as_the_caller_has_it() -> None:
    turns = turns_of("one", "two")
    assert await shown_of(turns, [turns[0].model_copy(update={"content": "changed"})]) == ["changed", "two"]


async def test_a_turn_that_is_given_twice_is_shown_once_and_explained() -> None:
    turn = HumanMemory(content="one")
    context = await ContextManager().assemble_context("go", conversation=[turn, turn])
    assert [message["content"] for message in context.messages()] == ["one", "go"]
    assert [decision.reason for decision in context.explain().dropped] == ["it is in the context already"]


@pytest.mark.parametrize(("first", "last"), [(0, 6), (0, 4), (2, 6), (3, 5)])
async def test_a_conversation_that_was_read_back_from_messages_is_shown_once(first: int, last: int) -> None:
    metadata = MemoryMetadata(user_id="ada", session_id="s")
    turns: list[MemoryItem] = [
        SystemMemory(content="rules", metadata=metadata),
        HumanMemory(content="weather?", metadata=metadata),
        AIMemory(content="", tool_calls=[{"id": "c", "name": "look", "arguments": {"at": "sky"}}], metadata=metadata),
        ToolMemory(content="blue", tool_call_id="c", metadata=metadata),
        AIMemory(content="Fine.", metadata=metadata),
        HumanMemory(content="Thanks.", metadata=metadata),
    ]
    copies = from_openai(to_openai(turns))
    assert await shown_of(turns, copies) == ["rules", "weather?", None, "blue", "Fine.", "Thanks."]
    stored = turns[first:last]
    assert len(await shown_of(stored, copies)) == 6
    assert await shown_of(turns, copies[4:]) == ["rules", "weather?", None, "blue", "Fine.", "Thanks."]


async def test_saying_the_same_again_is_no_copy() -> None:
    assert await shown_of(turns_of("hi", "Hello."), turns_of("hi", "Hello again.")) == [
        "hi",
        "Hello.",
        "hi",
        "Hello again.",
    ]


async def test_another_session_that_says_the_same_is_no_copy() -> None:
    stored = HumanMemory(content="hi", metadata=MemoryMetadata(session_id="one"))
    assert await shown_of([stored], [HumanMemory(content="hi", metadata=MemoryMetadata(session_id="two"))]) == [
        "hi",
        "hi",
    ]


@given(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_however_two_accounts_overlap_each_turn_is_shown_once_in_order(
    start: int, end: int, meeting: int, copied: bool
) -> None:
    turns = turns_of(*(f"turn {number}" for number in range(9)))
    stored, given_turns = turns[start : max(end, meeting)], turns[meeting:]
    given_turns = from_openai(to_openai(given_turns)) if copied else given_turns
    shown = asyncio.run(shown_of(stored, given_turns))
    assert shown == [f"turn {number}" for number in range(min(start, meeting) if stored else meeting, 9)]
