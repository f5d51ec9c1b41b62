"""When a summary is due, where the cut falls, and what happens when the model fails."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryStatus, SystemMemory, ToolMemory
from memoranda.errors import InputError, MemoryError, PluginNotFoundError, SummaryError
from memoranda.integrity import whole_groups
from memoranda.items import SummaryMemory
from memoranda_summary import (
    Summarizer,
    SummaryConfig,
    SummaryResult,
    SummaryTemplate,
    TriggerResult,
    check_trigger,
    generate_summary,
)

PROMPTS = {SummaryTemplate.CONVERSATION: "Sum it up."}


class Recorder:
    """Answers every prompt with the same text and keeps the prompts."""

    def __init__(self, answer: Any = "In short.") -> None:
        self.answer = answer
        self.prompts: list[str] = []

    async def summarize(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


def said(count: int) -> list[MemoryItem]:
    return [HumanMemory(content=f"Message {number}") for number in range(count)]


def config(**fields: Any) -> SummaryConfig:
    return SummaryConfig(**{"prompts": PROMPTS, **fields})


class TestConfig:
    def test_the_defaults_are_the_documented_ones(self) -> None:
        made = SummaryConfig()
        assert (made.message_threshold, made.token_threshold, made.keep_recent) == (20, 4000, 4)
        assert made.templates == (SummaryTemplate.CONVERSATION,)
        assert made.prompts == {}
        assert made.token_estimate_ratio == 4.0

    def test_it_is_frozen_and_has_slots(self) -> None:
        made = SummaryConfig()
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.keep_recent = 1  # type: ignore[misc]
        assert not hasattr(made, "__dict__")
        assert hash(made) == hash(SummaryConfig())

    def test_no_two_configurations_share_their_prompts(self) -> None:
        first, given_prompts = SummaryConfig(), {"facts": "F"}
        first.prompts["facts"] = "changed"  # type: ignore[index]
        second = SummaryConfig(prompts=given_prompts)
        given_prompts["facts"] = "changed later"
        assert SummaryConfig().prompts == {}
        assert second.get_prompt("facts") == "F"

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("keep_recent", -1),
            ("keep_recent", 1.5),
            ("message_threshold", -1),
            ("token_threshold", True),
            ("token_estimate_ratio", 0),
            ("token_estimate_ratio", float("nan")),
            ("token_estimate_ratio", float("inf")),
            ("templates", ()),
            ("templates", "facts"),
            ("templates", (None,)),
            ("templates", ("",)),
            ("prompts", {"facts": ""}),
            ("prompts", [("facts", "x")]),
        ],
    )
    def test_values_that_make_no_sense_are_refused_by_name(self, field: str, value: Any) -> None:
        with pytest.raises(ValueError) as refused:
            SummaryConfig(**{field: value})
        assert isinstance(refused.value, InputError)
        assert refused.value.field == field

    def test_a_custom_prompt_is_returned_for_its_template(self) -> None:
        assert config().get_prompt(SummaryTemplate.CONVERSATION) == "Sum it up."
        assert config(prompts={"mood": "How do they feel?"}).get_prompt("mood") == "How do they feel?"

    def test_a_template_that_is_not_installed_and_has_no_prompt_is_an_error(self) -> None:
        with pytest.raises(PluginNotFoundError, match="no-such-template"):
            SummaryConfig().get_prompt("no-such-template")

    def test_there_are_three_template_names(self) -> None:
        assert [str(template) for template in SummaryTemplate] == ["conversation", "facts", "profiles"]


class TestTrigger:
    def test_thresholds_trigger_when_they_are_exceeded_not_when_they_are_met(self) -> None:
        assert not check_trigger(said(20), SummaryConfig()).triggered
        assert check_trigger(said(21), SummaryConfig()).triggered
        limits = SummaryConfig(token_threshold=100)
        assert not check_trigger([HumanMemory(content="x" * 400)], limits).triggered
        assert check_trigger([HumanMemory(content="x" * 401)], limits).triggered

    def test_the_result_says_why_and_how_much(self) -> None:
        result = check_trigger([HumanMemory(content="x" * 40)] * 21, SummaryConfig(token_threshold=100))
        assert (result.triggered, result.message_count, result.estimated_tokens) == (True, 21, 210)
        assert "21 messages" in result.reason
        assert "210 tokens" in result.reason
        assert check_trigger([], SummaryConfig()) == TriggerResult(False, "", 0, 0)

    def test_the_ratio_is_characters_per_token(self) -> None:
        items = [HumanMemory(content="x" * 90)]
        assert check_trigger(items, SummaryConfig(token_estimate_ratio=3.0)).estimated_tokens == 30

    def test_tool_names_and_arguments_count(self) -> None:
        call = {"id": "c", "name": "search", "arguments": {"query": "x" * 1000}}
        assert check_trigger([AIMemory(content="", tool_calls=[call])], SummaryConfig()).estimated_tokens > 250

    def test_a_token_counter_replaces_the_estimate(self) -> None:
        result = check_trigger(said(3), SummaryConfig(token_threshold=20), counter=lambda item: 7)
        assert (result.triggered, result.estimated_tokens) == (True, 21)


class TestGeneration:
    async def test_the_tail_is_kept_and_the_rest_is_summarised_once_per_template(self) -> None:
        model, items = Recorder(), said(25)
        result = await generate_summary(
            items, config(templates=("conversation", "b"), prompts={**PROMPTS, "b": "B"}), model
        )
        assert result == SummaryResult(
            {"conversation": "In short.", "b": "In short."}, compressed_items=items[-4:], original_count=25
        )
        assert len(model.prompts) == 2
        assert "Message 20" in model.prompts[0]
        assert "Message 21" not in model.prompts[0]

    @pytest.mark.parametrize("count", [0, 1, 4])
    async def test_with_nothing_to_compress_the_model_is_not_asked(self, count: int) -> None:
        model, items = Recorder(), said(count)
        result = await generate_summary(items, config(), model)
        assert (result.summaries, result.compressed_items, result.original_count) == ({}, items, count)
        assert model.prompts == []

    async def test_keeping_nothing_summarises_everything(self) -> None:
        result = await generate_summary(said(3), config(keep_recent=0), Recorder())
        assert result.compressed_items == []
        assert result.summaries == {"conversation": "In short."}

    async def test_system_items_and_lasting_summaries_are_kept_not_summarised(self) -> None:
        model = Recorder()
        system, fact = SystemMemory(content="Be kind."), SummaryMemory(content="Ada likes tea.", lasting=True)
        items = [system, *said(3), fact, *said(3)]
        result = await generate_summary(items, config(keep_recent=1), model)
        assert result.compressed_items == [system, fact, items[-1]]
        assert "Be kind." not in model.prompts[0]
        assert "Ada likes tea." not in model.prompts[0]

    async def test_what_was_discarded_or_is_a_draft_never_reaches_the_model(self) -> None:
        model = Recorder()
        items = [HumanMemory(content=status.value, status=status) for status in MemoryStatus]
        result = await generate_summary(items, config(keep_recent=0), model)
        assert [item.content for item in result.compressed_items] == ["draft", "discard"]
        assert "discard" not in model.prompts[0].partition("<transcript")[2]

    async def test_a_call_that_still_waits_for_its_result_is_kept(self) -> None:
        waiting = AIMemory(content="", tool_calls=[{"id": "c", "name": "search"}])
        items = [*said(3), waiting]
        result = await generate_summary(items, config(keep_recent=0), Recorder())
        assert result.compressed_items == [waiting]

    async def test_a_call_of_an_earlier_round_that_was_never_answered_does_not_block_the_cut(self) -> None:
        items = [AIMemory(content="", tool_calls=[{"id": "c", "name": "search"}]), *said(3)]
        result = await generate_summary(items, config(keep_recent=1), Recorder())
        assert result.compressed_items == items[-1:]

    async def test_templates_are_asked_at_the_same_time(self) -> None:
        together = asyncio.Barrier(3)

        class Meeting:
            async def summarize(self, prompt: str) -> str:
                await together.wait()
                return "met"

        prompts = {"a": "A", "b": "B", "c": "C"}
        async with asyncio.timeout(240):
            result = await generate_summary(said(9), config(templates=("a", "b", "c"), prompts=prompts), Meeting())
        assert result.summaries == dict.fromkeys("abc", "met")

    @pytest.mark.parametrize("answer", ["", "  \n", None, 7, RuntimeError("boom"), TimeoutError(), "x" * 300_000])
    async def test_an_answer_that_is_none_is_an_error(self, answer: Any) -> None:
        with pytest.raises(SummaryError) as failed:
            await generate_summary(said(9), config(), Recorder(answer))
        assert isinstance(failed.value, MemoryError)
        assert "conversation" in str(failed.value)

    async def test_a_summarizer_that_never_answers_is_given_up(self) -> None:
        class Silent:
            async def summarize(self, prompt: str) -> str:
                await asyncio.Event().wait()
                return ""

        with pytest.raises(TimeoutError) as failed:
            await generate_summary(said(9), config(), Silent(), timeout=0.02)
        assert isinstance(failed.value, SummaryError)

    async def test_when_one_template_fails_the_others_are_stopped(self) -> None:
        stopped = asyncio.Event()

        class Mixed:
            async def summarize(self, prompt: str) -> str:
                if prompt.startswith("bad"):
                    raise RuntimeError("no")
                try:
                    await asyncio.Event().wait()
                finally:
                    stopped.set()
                return ""

        with pytest.raises(SummaryError, match="'bad'"):
            await generate_summary(
                said(9), config(templates=("slow", "bad"), prompts={"slow": "slow", "bad": "bad"}), Mixed()
            )
        assert stopped.is_set()

    async def test_a_summarizer_that_cancels_itself_cancels_nobody_else(self) -> None:
        class Cancelled:
            async def summarize(self, prompt: str) -> str:
                raise asyncio.CancelledError

        with pytest.raises(SummaryError, match="conversation"):
            await generate_summary(said(9), config(), Cancelled())

    async def test_cancelling_is_not_turned_into_an_error(self) -> None:
        asked = asyncio.Event()

        class Silent:
            async def summarize(self, prompt: str) -> str:
                asked.set()
                await asyncio.Event().wait()
                return ""

        task = asyncio.create_task(generate_summary(said(9), config(), Silent()))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_something_that_cannot_summarise_is_refused(self) -> None:
        with pytest.raises(InputError, match="summarize"):
            await generate_summary(said(9), config(), object())
        assert isinstance(Recorder(), Summarizer)
        assert not isinstance(object(), Summarizer)

    async def test_a_template_that_is_not_installed_is_an_error_that_names_it(self) -> None:
        with pytest.raises(LookupError, match="no-such-template"):
            await generate_summary(said(9), SummaryConfig(templates=("no-such-template",)), Recorder())


@st.composite
def conversations(draw: st.DrawFn) -> list[MemoryItem]:
    """Conversations with parallel, interleaved, reused and unanswered calls, stray results and system items."""
    items: list[MemoryItem] = []
    waiting: list[str] = []
    for _ in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["human", "ai", "calls", "tool", "tool", "tool", "stray", "system", "summary"]))
        if kind == "human":
            items.append(HumanMemory(content="h"))
        elif kind == "ai":
            items.append(AIMemory(content="a"))
        elif kind == "calls":
            ids = draw(st.lists(st.sampled_from("pqrstuvw"), min_size=1, max_size=3))
            items.append(AIMemory(content="", tool_calls=[{"id": call_id, "name": "n"} for call_id in ids]))
            waiting += ids
        elif kind == "tool" and waiting:
            answered = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
            items.append(ToolMemory(content="t", tool_call_id=answered))
        elif kind == "stray":
            items.append(ToolMemory(content="t", tool_call_id="stray"))
        elif kind == "system":
            items.append(SystemMemory(content="s"))
        elif kind == "summary":
            items.append(SummaryMemory(content="earlier"))
    return items


@pytest.mark.rare
@given(items=conversations())
def test_no_cut_parts_a_call_from_its_results_or_loses_anything(items: list[MemoryItem]) -> None:
    shown = {item.id for item in whole_groups(items)}
    for keep_recent in range(len(items) + 2):
        model = Recorder()
        result = asyncio.run(generate_summary(items, config(keep_recent=keep_recent), model))
        kept = result.compressed_items
        kept_ids = [item.id for item in kept]
        assert kept_ids == [item.id for item in items if item.id in set(kept_ids)], "the order of what was said"
        assert [item.id for item in items[max(len(items) - keep_recent, 0) :]] == kept_ids[
            len(kept_ids) - min(keep_recent, len(items)) :
        ], "the recent items are all there"
        assert {item.id for item in items if item.memory_type == "system"} <= set(kept_ids)
        older = [item for item in items if item.id not in set(kept_ids)]
        # What was whole before is whole on the side where it landed.
        for side in (kept, older):
            assert {item.id for item in whole_groups(side)} >= {item.id for item in side if item.id in shown}
        assert bool(model.prompts) == bool(older)
        if older:
            assert model.prompts[0].count("\n[msg") == len(older)
