"""A session that grows too long is summarised after a turn, and all of it can be had back."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, Runner, is_openai_responses_compaction_aware_session
from agents.items import ModelResponse
from agents.memory import OpenAIResponsesCompactionAwareSession
from agents.testing import ScriptedModel
from agents.usage import Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from memoranda.store import InMemoryStore, Store
from memoranda_openai_agents import CompactingSession, MemorandaSession
from memoranda_summary import SummaryConfig, expand, undo

PIXEL = {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}


class Summarizer:
    async def summarize(self, prompt: str) -> str:
        return "Ada asked about colours."


def rounds(*numbers: int) -> list[Any]:
    return [
        item
        for number in numbers
        for item in (
            {"role": "user", "content": f"Question {number}"},
            {"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "blue"},
            {"role": "assistant", "content": f"Answer {number}"},
        )
    ]


def compacting(store: Store, **options: Any) -> CompactingSession:
    config = SummaryConfig(message_threshold=8, keep_recent=4)
    return CompactingSession("chat", store.scoped(user_id="ada"), summarizer=Summarizer(), config=config, **options)


def test_only_a_session_with_a_summarizer_is_aware_of_compaction() -> None:
    session = compacting(InMemoryStore())

    assert isinstance(session, OpenAIResponsesCompactionAwareSession)
    assert is_openai_responses_compaction_aware_session(session)
    assert not is_openai_responses_compaction_aware_session(MemorandaSession("chat", InMemoryStore()))


async def test_the_older_part_is_summarised_and_can_be_put_back(store: Store) -> None:
    session = compacting(store)
    before = [PIXEL, *rounds(1, 2, 3)]
    await session.add_items(before)

    await session.run_compaction({"response_id": "resp_1", "store": False})
    after: list[Any] = await session.get_items()

    assert "Ada asked about colours." in after[0]["content"]
    assert after[0]["role"] == "user"
    assert after[1:] == rounds(3)
    assert session.last_compaction is not None
    summary = session.last_compaction.summary_id
    assert summary is not None
    handle = store.scoped(user_id="ada", session_id="chat")
    assert len(await expand(handle, summary)) == len(before) - 4
    await undo(handle, summary)
    assert await session.get_items() == before


async def test_a_short_session_stays_unless_forced(store: Store) -> None:
    session = compacting(store)
    await session.add_items(rounds(1, 2))

    await session.run_compaction()
    assert await session.get_items() == rounds(1, 2)
    await session.run_compaction({"force": True})

    assert (await session.get_items())[1:] == rounds(2)


async def test_a_limit_keeps_the_summary_for_the_model_and_counts_messages(store: Store) -> None:
    session = compacting(store, session_settings={"limit": 2})
    await session.add_items(rounds(1, 2, 3))
    await session.run_compaction()
    await session.add_items(rounds(*range(4, 30)))

    limit = session.session_settings.limit if session.session_settings else None
    shown: list[Any] = await session.get_items(limit)

    assert "Ada asked" in shown[0]["content"]
    assert [each["content"] for each in shown[1:]] == ["Answer 29"]
    assert await session.get_items(limit=2) == rounds(29)[-2:]


async def test_a_summary_is_never_popped(store: Store) -> None:
    session = compacting(store)
    await session.add_items(rounds(1, 2, 3))
    await session.run_compaction()

    popped = [await session.pop_item() for _ in range(5)]

    assert popped == [*rounds(3)[::-1], None]
    assert len(await session.get_items()) == 1
    await session.clear_session()
    assert await session.get_items() == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_runner_compacts_after_a_turn(streamed: bool) -> None:
    session = compacting(InMemoryStore())
    await session.add_items(rounds(1, 2, 3))
    model = ScriptedModel()
    for text in ("One.", "Two."):
        content = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
        said = ResponseOutputMessage(id=text, type="message", role="assistant", content=[content], status="completed")
        model.enqueue(ModelResponse(output=[said], usage=Usage(), response_id="resp_1"))
    agent = Agent(name="painter", model=model)

    if streamed:
        stream = Runner.run_streamed(agent, "First?", session=session)
        async for _ in stream.stream_events():
            pass
    else:
        await Runner.run(agent, "First?", session=session)
    await Runner.run(agent, "Second?", session=session)

    sent: list[Any] = list(model.calls[-1].input)
    assert "Ada asked about colours." in sent[0]["content"]
    assert sent[-1]["content"] == "Second?"
    assert len(sent) < len(rounds(1, 2, 3))
