"""Compaction on the in-memory stores: scopes, lineage, known facts, and whatever the kit's cases leave open."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ShortTermMemory, SystemMemory, ToolMemory
from memoranda.errors import ConflictError, InputError, SummaryError
from memoranda.integrity import is_whole, whole_groups
from memoranda.items import MemoryStatus, SummaryMemory
from memoranda.plugins import Registry, TemplateSpec, hookimpl
from memoranda.store import InMemoryStore
from memoranda_summary import SummaryConfig, Template, Transcript, compact, entries, plan
from memoranda_summary.compaction import expand, undo
from memoranda_summary.transcript import normalised

SCOPE = MemoryMetadata(user_id="ada", session_id="s")


class Notes(Template):
    """A third party's template: one lasting item per line, the same note only once."""

    name = "notes"
    instructions = "Take notes."
    lasting = True

    def parse(self, answer: str, transcript: Transcript) -> list[SummaryMemory]:
        return [self.item(entry.text, entry.sources) for entry in entries(answer, transcript)]

    def identity(self, item: SummaryMemory) -> str:
        return normalised(item.content)


class Careless(Template):
    """A third party's template that does everything wrong."""

    name = "careless"
    instructions = "Whatever."

    def parse(self, answer: str, transcript: Transcript) -> list[SummaryMemory]:
        if answer == "raise":
            raise KeyError("oops")
        if answer == "other":
            return [HumanMemory(content="no summary")]  # type: ignore[list-item]
        return [SummaryMemory(id="mine", content=answer, sources=["forged"], archived_by="x", version=9)]


@pytest.fixture
def registry() -> Iterator[Registry]:
    plugin = ModuleType("third_party_templates")

    @hookimpl
    def memoranda_templates() -> list[TemplateSpec]:
        return [
            TemplateSpec("notes", target="third_party_templates:Notes"),
            TemplateSpec("careless", target="third_party_templates:Careless"),
        ]

    vars(plugin).update(memoranda_templates=memoranda_templates, Notes=Notes, Careless=Careless)
    sys.modules[plugin.__name__] = plugin
    yield Registry([EntryPoint("third-party", plugin.__name__, "memoranda")], allow=None)
    del sys.modules[plugin.__name__]


class Model:
    """Answers by the first words of the prompt."""

    def __init__(self, answer: str = "In short.", **answers: str) -> None:
        self.answer, self.answers = answer, answers
        self.prompts: list[str] = []

    async def summarize(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.answers.get(prompt.split()[0].lower().strip("."), self.answer)


def config(**fields: Any) -> SummaryConfig:
    return SummaryConfig(**{"message_threshold": 5, "keep_recent": 2, "prompts": {"conversation": "Sum up."}, **fields})


def said(count: int, start: int = 0, scope: MemoryMetadata = SCOPE) -> list[MemoryItem]:
    return [
        (HumanMemory if number % 2 == 0 else AIMemory)(
            content=f"turn {number}", metadata=scope, created_at=f"2024-03-01T10:{number // 60:02}:{number % 60:02}"
        )
        for number in range(start, start + count)
    ]


def loop(steps: int) -> list[MemoryItem]:
    """Return so many calls, each with its result."""
    items: list[MemoryItem] = []
    for step in range(steps):
        items.append(AIMemory(content=f"call {step}", tool_calls=[{"id": f"c{step}", "name": "look"}], metadata=SCOPE))
        items.append(ToolMemory(content=f"result {step}", tool_call_id=f"c{step}", metadata=SCOPE))
    return items


async def filled(items: list[MemoryItem]) -> InMemoryStore:
    store = InMemoryStore()
    await store.add_many(items)
    return store


async def shown(store: InMemoryStore, scope: MemoryMetadata | None = SCOPE) -> list[str]:
    return [item.content async for item in store.scan(metadata=scope, archived=False)]


class TestWhatIsCompacted:
    async def test_below_the_thresholds_nothing_happens_unless_it_is_forced(self) -> None:
        store, model = await filled(said(5)), Model()
        result = await compact(store, SCOPE, config(), model)
        assert (result.compacted, result.summary_id, result.trigger.triggered) == (False, None, False)
        assert model.prompts == []
        assert (await compact(store, SCOPE, config(), model, force=True)).compacted

    async def test_a_plan_says_what_would_be_done_and_does_nothing(self) -> None:
        store = await filled(said(8))
        planned = await plan(store, SCOPE, config())
        assert await shown(store) == [f"turn {number}" for number in range(8)]
        result = await compact(store, SCOPE, config(), Model())
        assert result.archived == tuple(item.id for item in planned.older)
        assert planned.trigger == result.trigger
        assert (await plan(store, SCOPE, config(), force=True)).older == []

    async def test_what_is_no_store_is_refused(self) -> None:
        store: Any = object()
        for work in (
            compact(store, SCOPE, config(), Model()),
            plan(store, SCOPE, config()),
            expand(store, "x"),
            undo(store, "x"),
        ):
            with pytest.raises(InputError, match="Store"):
                await work

    async def test_other_sessions_are_left_alone(self) -> None:
        other = MemoryMetadata(user_id="ada", session_id="other")
        store = await filled([*said(8), *said(8, scope=other)])
        await compact(store, SCOPE, config(), Model())
        assert await shown(store) == ["In short.", "turn 6", "turn 7"]
        assert len(await shown(store, other)) == 8

    async def test_a_scope_that_mixes_users_is_refused(self) -> None:
        store = await filled([*said(4), *said(4, scope=MemoryMetadata(user_id="bob", session_id="s"))])
        model = Model()
        for scope in (None, MemoryMetadata(session_id="s")):
            with pytest.raises(InputError, match="several users"):
                await compact(store, scope, config(), model)
        assert model.prompts == []
        assert len(await shown(store, None)) == 8

    async def test_the_summary_belongs_to_what_its_sources_have_in_common(self) -> None:
        first = MemoryMetadata(user_id="ada", session_id="s", agent_id="x", extra={"team": 1, "mood": "calm"})
        second = MemoryMetadata(user_id="ada", session_id="s", agent_id="y", extra={"team": 1, "mood": "keen"})
        store = await filled([*said(4, scope=first), *said(4, start=4, scope=second)])
        (summary,) = (await compact(store, SCOPE, config(), Model())).summaries
        assert summary.metadata == MemoryMetadata(user_id="ada", session_id="s", extra={"team": 1})

    async def test_the_summary_stands_between_its_sources_and_the_tail(self) -> None:
        items = said(8)
        store = await filled(items)
        (summary,) = (await compact(store, SCOPE, config(), Model())).summaries
        assert items[5].created_at <= summary.created_at < items[6].created_at

    async def test_discarded_items_stay_where_they_are_and_drafts_with_their_round(self) -> None:
        items = said(8)
        items[1].status, items[3].status = MemoryStatus.DISCARD, MemoryStatus.DRAFT
        store, model = await filled(items), Model()
        await compact(store, SCOPE, config(), model)
        assert await shown(store) == ["turn 1", "turn 2", "turn 3", "In short.", "turn 6", "turn 7"]
        assert "turn 1" not in model.prompts[0]

    @pytest.mark.parametrize("keep", range(7))
    async def test_a_round_is_summarised_whole_or_not_at_all(self, keep: int) -> None:
        items = [*said(2), HumanMemory(content="question", metadata=SCOPE), *loop(2)]
        store = await filled(items)
        await compact(store, SCOPE, config(keep_recent=keep), Model(), force=True)
        contents = [item.content for item in items]
        kept = [] if not keep else contents[2:] if keep <= 5 else contents
        summary = [] if kept == contents else ["In short."]
        assert [item.content for item in await store.window(metadata=SCOPE)] == [*summary, *kept]

    async def test_one_round_without_end_is_kept(self) -> None:
        items = [HumanMemory(content="question", metadata=SCOPE), *loop(200)]
        store, model = await filled(items), Model()
        result = await compact(store, SCOPE, config(), model)
        assert (result.trigger.triggered, result.compacted, model.prompts) == (True, False, [])
        await store.add_many(said(2))
        assert len((await compact(store, SCOPE, config(), model)).archived) == len(items)

    async def test_a_round_with_a_call_that_waits_is_kept(self) -> None:
        waiting = AIMemory(content="call", tool_calls=[{"id": "w", "name": "look"}], metadata=SCOPE)
        store = await filled([*said(4), HumanMemory(content="question", metadata=SCOPE), waiting])
        await compact(store, SCOPE, config(keep_recent=0), Model())
        await store.add(ToolMemory(content="result", tool_call_id="w", metadata=SCOPE))
        shown = [item.content for item in await store.window(metadata=SCOPE)]
        assert shown == ["In short.", "question", "call", "result"]

    async def test_what_no_human_takes_part_in_is_cut_between_calls(self) -> None:
        items = loop(6)
        store = await filled(items)
        await compact(store, SCOPE, config(keep_recent=3), Model())
        contents = [item.content for item in await store.window(metadata=SCOPE)]
        assert contents == ["In short.", *(item.content for item in items[8:])]

    async def test_rounds_of_one_session_do_not_hold_back_those_of_another(self) -> None:
        one, other = (MemoryMetadata(user_id="ada", session_id=name) for name in ("one", "other"))
        first, last = HumanMemory(content="other", metadata=other), AIMemory(content="late", metadata=other)
        items = [first, *said(8, scope=one), last]
        store = await filled(items)
        await compact(store, MemoryMetadata(user_id="ada"), config(), Model())
        shown = [item.content for item in await store.window(metadata=MemoryMetadata(user_id="ada"))]
        assert shown == ["In short.", "other", "turn 6", "turn 7", "late"]

    async def test_a_token_counter_decides_when_one_is_given(self) -> None:
        store = await filled(said(4))
        limits = config(token_threshold=100)
        assert not (await compact(store, SCOPE, limits, Model(), counter=lambda item: 25)).compacted
        assert (await compact(store, SCOPE, limits, Model(), counter=lambda item: 26)).compacted

    async def test_compacting_over_and_over_asks_only_about_what_is_new(self) -> None:
        store, model = InMemoryStore(), Model()
        for number in range(40):
            await store.add_many(said(1, start=number))
            await compact(store, SCOPE, config(), model)
        # Six turns trigger and leave two, then nine leave three, since a round stays whole; the summary counts as one,
        # so that two more are enough from then on.
        assert len(model.prompts) == 2 + (40 - 9) // 2
        everything = await expand(store, next(iter(await store.search(memory_type="summary"))).id)
        tail = [content for content in await shown(store) if content.startswith("turn")]
        assert [item.content for item in everything] + tail == [f"turn {number}" for number in range(40)]


class TestKnownFacts:
    async def test_lasting_items_are_kept_and_known_ones_are_not_stored_twice(self, registry: Registry) -> None:
        store, notes = await filled(said(8)), config(templates=("conversation", "notes"))
        await compact(
            store, SCOPE, notes, Model(take="- [msg1] Ada likes tea.\n- [msg2] Bob sails."), registry=registry
        )
        await store.add_many(said(8, start=8))
        again = Model(take="- [msg2] ada  likes TEA\n- [msg3] Ada moved to Paris.")
        result = await compact(store, SCOPE, notes, again, registry=registry)
        assert [item.content for item in result.summaries] == ["In short.", "Ada moved to Paris."]
        facts = [content for content in await shown(store) if not content.startswith(("turn", "In short"))]
        assert facts == ["Ada likes tea.", "Bob sails.", "Ada moved to Paris."]
        assert "Ada likes tea." not in again.prompts[0]

    async def test_a_fact_stands_for_the_messages_it_names(self, registry: Registry) -> None:
        store, notes = await filled(said(8)), config(templates=("conversation", "notes"))
        result = await compact(store, SCOPE, notes, Model(take="- [msg2, msg4] Ada likes tea."), registry=registry)
        fact = result.summaries[1]
        assert [item.content for item in await expand(store, fact.id)] == ["turn 1", "turn 3"]
        assert len(await undo(store, fact.id)) == 6
        assert await shown(store) == [f"turn {number}" for number in range(8)]

    async def test_lasting_items_do_not_count_towards_the_thresholds(self, registry: Registry) -> None:
        store, notes = await filled(said(8)), config(templates=("notes",))
        facts = "\n".join(f"- [msg1] Fact number {number}." for number in range(30))
        await compact(store, SCOPE, notes, Model(facts), registry=registry)
        await store.add_many(said(1, start=8))
        assert not (await compact(store, SCOPE, notes, Model(facts), registry=registry)).compacted

    async def test_sources_without_anything_new_are_archived_behind_a_placeholder(self, registry: Registry) -> None:
        store, notes = await filled(said(8)), config(templates=("notes",))
        result = await compact(store, SCOPE, notes, Model("NONE"), registry=registry)
        assert await shown(store) == ["Nothing new was found in 6 earlier messages.", "turn 6", "turn 7"]
        assert len(await expand(store, result.summary_id or "")) == 6

    async def test_a_discarded_compaction_is_no_longer_known(self, registry: Registry) -> None:
        store, notes = await filled(said(8)), config(templates=("notes",))
        model = Model("- [msg1] Ada likes tea.")
        result = await compact(store, SCOPE, notes, model, registry=registry)
        await undo(store, result.summary_id or "")
        result = await compact(store, SCOPE, notes, model, registry=registry)
        assert [item.content for item in result.summaries] == ["Ada likes tea."]

    async def test_a_careless_template_cannot_forge_sources_ids_or_versions(self, registry: Registry) -> None:
        items = said(8)
        store = await filled(items)
        (summary,) = (
            await compact(store, SCOPE, config(templates=("careless",)), Model("x"), registry=registry)
        ).summaries
        assert summary.sources == [item.id for item in items[:6]]
        assert (summary.archived_by, summary.version, summary.template) == (None, 1, "careless")
        assert summary.id != "mine"

    @pytest.mark.parametrize("answer", ["raise", "other"])
    async def test_a_template_that_fails_changes_nothing(self, registry: Registry, answer: str) -> None:
        store = await filled(said(8))
        with pytest.raises(SummaryError, match="careless"):
            await compact(store, SCOPE, config(templates=("careless",)), Model(answer), registry=registry)
        assert len(await shown(store)) == 8


class TestGoingBack:
    async def test_a_summary_that_was_summarised_must_wait_for_the_later_one(self) -> None:
        store = await filled(said(8))
        first = await compact(store, SCOPE, config(), Model("First."))
        await store.add_many(said(8, start=8))
        second = await compact(store, SCOPE, config(), Model("Second."))
        with pytest.raises(ConflictError, match=second.summary_id or ""):
            await undo(store, first.summary_id or "")
        await undo(store, second.summary_id or "")
        await undo(store, first.summary_id or "")
        assert await shown(store) == [f"turn {number}" for number in range(16)]

    async def test_a_compaction_can_be_undone_after_its_summary_was_deleted(self) -> None:
        store = await filled(said(8))
        result = await compact(store, SCOPE, config(), Model())
        await store.delete(result.summary_id or "")
        assert len(await undo(store, result.summary_id or "", metadata=SCOPE)) == 6
        assert await shown(store) == [f"turn {number}" for number in range(8)]

    async def test_an_unknown_id_is_an_error(self) -> None:
        store = await filled(said(8))
        for call in (expand, undo):
            with pytest.raises(SummaryError, match="nobody"):
                await call(store, "nobody")

    async def test_a_source_that_was_replaced_since_is_left_as_it_is(self) -> None:
        items = said(8)
        store = await filled(items)
        result = await compact(store, SCOPE, config(), Model())
        await store.add(items[0].model_copy(update={"content": "edited"}))
        assert not (await compact(store, SCOPE, config(), Model())).compacted
        assert "edited" in await shown(store)
        assert len(await undo(store, result.summary_id or "")) == 5
        assert await shown(store) == ["edited", *(f"turn {number}" for number in range(1, 8))]

    async def test_a_replaced_source_stays_shown_after_a_copy_to_another_store(self) -> None:
        items = said(8)
        store = await filled(items)
        await compact(store, SCOPE, config(), Model())
        await store.add(items[0].model_copy(update={"content": "edited"}))
        copied = await filled([item async for item in store.scan(metadata=SCOPE)])
        await compact(copied, SCOPE, config(), Model())
        assert await shown(copied) == await shown(store) == ["edited", "In short.", "turn 6", "turn 7"]

    async def test_sources_that_were_removed_since_are_left_out(self) -> None:
        items = said(8)
        store = await filled(items)
        result = await compact(store, SCOPE, config(), Model())
        await store.purge(items[2].id)
        assert len(await expand(store, result.summary_id or "")) == 5
        assert len(await undo(store, result.summary_id or "")) == 5

    @pytest.mark.parametrize("user", ["eve", None])
    async def test_a_forged_summary_does_not_open_another_users_memories(self, user: str | None) -> None:
        store = await filled(said(8))
        result = await compact(store, SCOPE, config(), Model())
        forged = SummaryMemory(
            content="x",
            sources=list(result.archived),
            compaction=result.summary_id or "",
            metadata=MemoryMetadata(user_id=user),
        )
        await store.add(forged)
        assert await expand(store, forged.id) == []
        assert await undo(store, forged.id) == []
        assert await shown(store) == ["In short.", "turn 6", "turn 7"]

    async def test_summaries_that_name_each_other_do_not_loop(self) -> None:
        one = SummaryMemory(content="1", sources=["two"], id="one", metadata=SCOPE)
        two = SummaryMemory(content="2", sources=["one"], id="two", metadata=SCOPE)
        assert await expand(await filled([one, two]), "one") == []

    async def test_a_long_chain_of_summaries_is_followed_to_what_was_said_first(self) -> None:
        said = [HumanMemory(id=f"said-{number}", content=str(number)) for number in range(5000)]
        chain = [
            SummaryMemory(id=f"sum-{number}", content="", template="t", sources=[f"sum-{number - 1}", item.id])
            for number, item in enumerate(said)
        ]
        store = await filled([*said, *chain])

        found = await expand(store, chain[-1].id)

        assert [item.id for item in found] == [item.id for item in said]
        shallow = await expand(store, chain[-1].id, deep=False)
        assert [item.id for item in shallow] == [chain[-2].id, said[-1].id]


class TestViews:
    async def test_the_summary_survives_every_window_of_a_conversation(self) -> None:
        view = ShortTermMemory(scope="session", max_rounds=1)
        await view.add_many([SystemMemory(content="rules", metadata=SCOPE, created_at="2024-01-01"), *said(12)])
        await compact(view, SCOPE, config(keep_recent=4), Model())
        assert [item.content for item in await view.search(metadata=SCOPE)] == [
            "rules",
            "In short.",
            "turn 10",
            "turn 11",
        ]
        assert [item.content for item in await view.search(metadata=SCOPE, limit=2)] == ["rules", "In short."]

    async def test_many_facts_leave_room_for_what_was_said(self, registry: Registry) -> None:
        view = ShortTermMemory(scope="session")
        await view.add_many(said(12))
        facts = "\n".join(f"- [msg1] Fact number {number}." for number in range(30))
        await compact(view, SCOPE, config(templates=("conversation", "notes")), Model(take=facts), registry=registry)
        found = [item.content for item in await view.search(metadata=SCOPE, limit=5)]
        assert found == ["Fact number 28.", "Fact number 29.", "In short.", "turn 10", "turn 11"]


@st.composite
def tool_conversations(draw: st.DrawFn) -> list[MemoryItem]:
    """Conversations with parallel and interleaved calls, some unanswered, many at the same time."""
    items: list[MemoryItem] = []
    waiting: list[str] = []
    second = 0
    for number in range(draw(st.integers(1, 18))):
        second += draw(st.integers(0, 1))
        shared: dict[str, Any] = {"metadata": SCOPE, "created_at": f"2024-03-01T10:00:{second:02}"}
        kind = draw(st.sampled_from(["human", "ai", "calls", "tool", "tool", "tool", "system"]))
        if kind == "calls":
            ids = [f"c{number}-{part}" for part in range(draw(st.integers(1, 3)))]
            items.append(
                AIMemory(content=f"{number}", tool_calls=[{"id": each, "name": "n"} for each in ids], **shared)
            )
            waiting += ids
        elif kind == "tool" and waiting:
            answered = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
            items.append(ToolMemory(content=f"{number}", tool_call_id=answered, **shared))
        elif kind == "system":
            items.append(SystemMemory(content=f"{number}", **shared))
        elif kind in ("human", "ai"):
            items.append((HumanMemory if kind == "human" else AIMemory)(content=f"{number}", **shared))
    return items


@settings(max_examples=2 * settings.default.max_examples)
@given(items=tool_conversations())
def test_at_every_cut_the_view_is_valid_and_undo_restores_it(items: list[MemoryItem]) -> None:
    asyncio.run(_compact_at_every_cut(items))


async def _compact_at_every_cut(items: list[MemoryItem]) -> None:
    for keep_recent in range(len(items) + 1):
        view = ShortTermMemory(scope="session")
        await view.add_many(items)
        before = await view.search(metadata=SCOPE, limit=100)
        result = await compact(view, SCOPE, config(keep_recent=keep_recent), Model(), force=True)
        after = await view.search(metadata=SCOPE, limit=100)
        assert is_whole(after)
        archived = set(result.archived)
        left = [item.content for item in before if item.id not in archived]
        assert [item.content for item in after if item.memory_type != "summary"] == left
        assert len(after) == len(left) + result.compacted
        if result.compacted:
            position = [item.memory_type for item in after].index("summary")
            following = {item.id for item in after[position + 1 :]}
            # Instructions at the beginning stay there, before the summary.
            recent = {item.id for item in items[len(items) - keep_recent :] if item.memory_type != "system"}
            assert {item.id for item in whole_groups(items) if item.id in recent} <= following
            assert [item.id for item in await expand(view, result.summary_id or "")] == list(result.archived)
            await undo(view, result.summary_id or "")
        assert [item.content for item in await view.search(metadata=SCOPE, limit=100)] == [
            item.content for item in before
        ]


async def test_a_summary_that_was_made_up_archives_nothing_of_another_user() -> None:
    ada = MemoryMetadata(user_id="ada", session_id="shared")
    items = said(8, scope=ada)
    marks = (await compact(await filled(items), ada, config(), Model())).summaries[0].archives
    store = await filled(items)
    eve = MemoryMetadata(user_id="eve", session_id="shared")
    await store.add(SummaryMemory(content="mine", metadata=eve, archives=marks, created_at="2020-01-01"))

    with pytest.raises(InputError, match="several users"):
        await compact(store, MemoryMetadata(session_id="shared"), config(), Model())
    assert len(await shown(store, ada)) == 8
