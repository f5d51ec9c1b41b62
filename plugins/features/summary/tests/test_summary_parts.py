"""Summaries of what is longer than one prompt may be: in parts, and then of the parts."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, SummaryMemory, ToolMemory
from memoranda.errors import InputError, SummaryError
from memoranda.store import InMemoryStore
from memoranda.tokens import estimate_tokens
from memoranda_summary import SummaryConfig, Template, Transcript, compact, entries, generate_summary, normalised

LIMIT = 600


class Model:
    """Keeps the prompts and answers each with what a function makes of it."""

    def __init__(self, answer: Callable[[str], str] = lambda prompt: "In short.") -> None:
        self.answer = answer
        self.prompts: list[str] = []

    async def summarize(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.answer(prompt)


class Failing(Model):
    """Fails on one of its prompts, counted from 1."""

    def __init__(self, at: int, error: Exception) -> None:
        super().__init__()
        self.at, self.error = at, error

    async def summarize(self, prompt: str) -> str:
        await super().summarize(prompt)
        if len(self.prompts) == self.at:
            raise self.error
        return "In short."


def config(**fields: Any) -> SummaryConfig:
    wanted = {"templates": ("brief",), "prompts": {"brief": "Sum it up."}, "keep_recent": 0, "max_prompt_tokens": LIMIT}
    return SummaryConfig(**{**wanted, **fields})


def said(count: int, length: int = 40) -> list[MemoryItem]:
    return [HumanMemory(content=f"word{number} " * length, id=f"h{number}") for number in range(count)]


def tokens(prompt: str) -> int:
    return estimate_tokens(HumanMemory(content=prompt))


def summarised(items: list[MemoryItem], model: Model, **fields: Any) -> str:
    result = asyncio.run(generate_summary(items, config(**fields), model))
    return result.summaries["brief"]


def test_without_a_limit_there_is_one_prompt() -> None:
    model = Model()
    summarised(said(50), model, max_prompt_tokens=None)
    assert len(model.prompts) == 1


def test_what_fits_one_prompt_is_asked_for_once() -> None:
    model = Model()
    summarised(said(2, length=3), model)
    assert len(model.prompts) == 1


def test_a_long_history_is_summarised_in_parts_and_then_the_parts() -> None:
    model = Model(lambda prompt: "The whole." if "summary: In short." in prompt else "In short.")

    assert summarised(said(12), model) == "The whole."

    *parts, last = model.prompts
    assert len(parts) > 1
    assert last.count("summary: In short.") == len(parts)
    for number in range(12):
        assert sum(f"word{number} " in part for part in parts) == 1
        assert f"word{number} " not in last


def test_no_prompt_is_longer_than_the_limit() -> None:
    model = Model()
    summarised(said(40), model)
    assert max(map(tokens, model.prompts)) <= LIMIT


def test_a_counter_of_the_callers_says_what_fits() -> None:
    def words(item: MemoryItem) -> int:
        return len(item.content.split())

    model = Model()
    asyncio.run(generate_summary(said(12), config(max_prompt_tokens=300), model, counter=words))

    assert len(model.prompts) > 1
    assert max(len(prompt.split()) for prompt in model.prompts) <= 300


def test_parts_of_parts_are_summarised_until_one_is_left() -> None:
    model = Model(lambda prompt: "short " * 90)

    summarised(said(40), model)

    levels = ["word" not in prompt for prompt in model.prompts]
    assert levels.count(True) > 2
    assert levels == sorted(levels)


def test_summaries_that_do_not_get_shorter_are_an_error_and_end() -> None:
    model = Model(lambda prompt: "long " * 2000)
    with pytest.raises(SummaryError, match="as long as the parts"):
        summarised(said(12), model)


def test_a_limit_that_the_instructions_fill_is_refused_by_name() -> None:
    model = Model()
    with pytest.raises(InputError, match="at least") as refused:
        summarised(said(12), model, max_prompt_tokens=100)
    assert refused.value.field == "max_prompt_tokens"
    assert model.prompts == []


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "600"])
def test_a_limit_that_makes_no_sense_is_refused(value: Any) -> None:
    with pytest.raises(InputError) as refused:
        config(max_prompt_tokens=value)
    assert refused.value.field == "max_prompt_tokens"


def test_one_message_longer_than_a_prompt_is_cut_and_nothing_of_it_is_lost() -> None:
    text = " ".join(f"w{number}" for number in range(2000))
    model = Model()

    summarised([HumanMemory(content=text)], model)

    assert max(map(tokens, model.prompts)) <= LIMIT
    assert {word for prompt in model.prompts for word in re.findall(r"\bw\d+\b", prompt)} == set(text.split())


def test_every_piece_of_a_long_result_comes_with_its_call() -> None:
    items: list[MemoryItem] = [
        AIMemory(content="", tool_calls=[{"id": "c1", "name": "fetch", "arguments": {"page": 7}}]),
        ToolMemory(content="word " * 3000, tool_call_id="c1", tool_name="fetch"),
    ]
    model = Model()

    summarised(items, model)

    of_result = [prompt for prompt in model.prompts if "word" in prompt]
    assert len(of_result) > 1
    assert all("(calls fetch" in prompt for prompt in of_result)


def test_a_call_that_fits_no_prompt_is_an_error_that_names_it() -> None:
    calls = [{"id": "c1", "name": "write", "arguments": {"text": "x" * 9000}}]
    items: list[MemoryItem] = [AIMemory(content="", tool_calls=calls, id="big"), *said(3)]
    model = Model()
    with pytest.raises(SummaryError, match="'big'"):
        summarised(items, model)
    assert model.prompts == []


def test_a_call_that_leaves_little_room_for_its_result_is_refused_before_it_is_paid_for_in_crumbs() -> None:
    calls = [{"id": "c1", "name": "write", "arguments": {"text": "x" * 1500}}]
    items: list[MemoryItem] = [
        AIMemory(content="", tool_calls=calls, id="big"),
        ToolMemory(content="word " * 3000, tool_call_id="c1"),
    ]
    model = Model()
    with pytest.raises(SummaryError, match="'big'"):
        summarised(items, model)
    assert model.prompts == []


def test_many_small_results_of_one_call_share_prompts() -> None:
    calls = [{"id": f"c{number}", "name": "look"} for number in range(60)]
    results = [ToolMemory(content=f"word{number} " * 12, tool_call_id=f"c{number}") for number in range(60)]
    model = Model()

    summarised([AIMemory(content="", tool_calls=calls), *results], model, max_prompt_tokens=1500)

    of_results = [prompt for prompt in model.prompts if "word" in prompt]
    assert 1 < len(of_results) < 10
    assert all("(calls look" in prompt for prompt in of_results)


_KINDS = st.sampled_from(["human", "call", "result"])


@given(st.lists(st.tuples(_KINDS, st.integers(1, 400)), min_size=1, max_size=25), st.integers(400, 1200))
def test_whatever_the_history_prompts_fit_and_no_group_is_split(kinds: list[tuple[str, int]], limit: int) -> None:
    items: list[MemoryItem] = []
    for number, (kind, length) in enumerate(kinds):
        text = f"<{number}>" + "x y " * length
        if kind == "human":
            items.append(HumanMemory(content=text))
        elif kind == "call":
            items.append(AIMemory(content="", tool_calls=[{"id": "c", "name": "look", "arguments": {"at": number}}]))
        else:
            items.append(ToolMemory(content=text, tool_call_id="c"))
    items.append(HumanMemory(content="Thanks."))  # A call of the last round would be kept until it is answered.
    model = Model()

    summarised(items, model, max_prompt_tokens=limit)

    assert all(tokens(prompt) <= limit for prompt in model.prompts)
    for number, (kind, _) in enumerate(kinds):
        if kind == "result" and number and kinds[number - 1][0] == "call":
            holding = [prompt for prompt in model.prompts if f"<{number}>" in prompt]
            assert len(holding) == 1
            assert f'{{"at":{number - 1}}}' in holding[0]


async def _filled(*items: MemoryItem) -> InMemoryStore:
    store = InMemoryStore()
    await store.add_many(items)
    return store


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_nothing_is_archived_when_one_part_fails(at: int) -> None:
    store = await _filled(*said(30))
    before = await store.search(limit=100)

    with pytest.raises(SummaryError, match=rf"part {at} of \d+ of the template 'brief'"):
        await compact(store, None, config(), Failing(at, RuntimeError("no")), force=True)

    assert await store.search(limit=100) == before


async def test_nothing_is_archived_when_the_summary_of_the_parts_fails() -> None:
    store = await _filled(*said(12))
    model = Model()
    await generate_summary(said(12), config(), model)
    before = await store.search(limit=100)

    with pytest.raises(SummaryError):
        await compact(store, None, config(), Failing(len(model.prompts), RuntimeError("no")), force=True)

    assert await store.search(limit=100) == before


async def test_a_part_that_is_late_is_named() -> None:
    class Slow(Model):
        async def summarize(self, prompt: str) -> str:
            if "word0 " not in prompt:
                await asyncio.Event().wait()
            return "In short."

    with pytest.raises(TimeoutError, match=r"part 2 of \d+"):
        await generate_summary(said(12), config(), Slow(), timeout=0.05)


async def test_a_failing_part_is_the_last_that_is_asked_for() -> None:
    model = Failing(2, RuntimeError("no"))
    with pytest.raises(SummaryError):
        await generate_summary(said(12), config(), model)
    assert len(model.prompts) == 2


async def test_a_compaction_in_parts_stands_for_all_that_was_said() -> None:
    store = await _filled(*said(12))

    result = await compact(store, None, config(), Model(), force=True)

    (summary,) = result.summaries
    assert summary.sources == [f"h{number}" for number in range(12)]
    assert sorted(result.archived) == sorted(summary.sources)
    assert [item.id for item in await store.search(limit=100)] == [summary.id]


async def test_parts_are_logged_without_what_they_say(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="memoranda_summary"):
        await generate_summary(said(12), config(), Model())

    assert "part 2 of" in caplog.text
    assert "word" not in caplog.text


class NotesTemplate(Template):
    """One lasting item a line."""

    name = "brief"
    instructions = "Take notes."
    contract = "Answer with - [label] The note."
    lasting = True

    def parse(self, answer: str, transcript: Transcript) -> list[SummaryMemory]:
        return [self.item(entry.text, entry.sources) for entry in entries(answer, transcript)]

    def identity(self, item: SummaryMemory) -> str:
        return normalised(item.content)


class TestLastingThings:
    """Facts and traits stand by themselves, so that those of the parts are put together."""

    @pytest.fixture(autouse=True)
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("memoranda_summary.generation.installed_template", lambda *_: NotesTemplate())

    @staticmethod
    def notes(prompt: str) -> str:
        first = re.search(r"\[(msg\d+) [^\]]*\] human: (word\d+)", prompt)
        assert first is not None
        return f"- [{first[1]}] They said {first[2]}.\n- [{first[1]}] They spoke."

    async def test_those_of_all_parts_are_kept_with_their_own_sources(self) -> None:
        store = await _filled(*said(12))
        model = Model(self.notes)

        result = await compact(store, None, config(prompts={}), model, force=True)

        told = {summary.content: summary.sources for summary in result.summaries}
        assert len(model.prompts) == len(told) - 1 > 1
        assert told.pop("They spoke.") == [source for sources in told.values() for source in sources]
        assert all(sources == [f"h{content[len('They said word') : -1]}"] for content, sources in told.items())

    async def test_a_part_in_which_there_is_nothing_adds_nothing(self) -> None:
        store = await _filled(*said(12))
        model = Model(lambda prompt: self.notes(prompt) if "word0 " in prompt else "NONE")

        result = await compact(store, None, config(prompts={}), model, force=True)

        assert [summary.content for summary in result.summaries] == ["They said word0.", "They spoke."]
        assert len(result.archived) == 12


def test_a_summary_that_failed_leaves_the_callers_task_as_it_was() -> None:
    """Timeouts and cancel scopes around it count how often their task was told to stop."""

    async def work() -> int:
        with pytest.raises(SummaryError):
            await generate_summary(said(10), config(), Failing(1, RuntimeError("no")))
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(work()) == 0
