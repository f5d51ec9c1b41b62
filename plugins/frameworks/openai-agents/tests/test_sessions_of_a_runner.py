"""What a model is shown by the SDK's runner, in every way to run one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner
from agents.memory import SessionSettings
from agents.testing import ScriptedModel
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

import memoranda
from memoranda.store import InMemoryStore, Store
from memoranda_openai_agents import MemorandaSession

QUESTION = {"role": "user", "content": "What colour is the sky?"}
ANSWER = {"role": "assistant", "content": "It is blue."}


def turn(*calls: str) -> list[Any]:
    """Return a turn in which reasoning leads to calls at once."""
    reasoning = {"id": "rs_" + calls[0], "type": "reasoning", "summary": []}
    asked = [{"type": "function_call", "call_id": call, "name": "look", "arguments": "{}"} for call in calls]
    found = [{"type": "function_call_output", "call_id": call, "output": "blue"} for call in calls]
    return [QUESTION, reasoning, *asked, *found, ANSWER]


def reply(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", content=[content], status="completed")


async def shown(session: MemorandaSession, config: RunConfig | None = None) -> list[Any]:
    """Return of the history what a model is shown in the next turn."""
    model = ScriptedModel()
    model.enqueue([reply("Yes.")])
    await Runner.run(Agent(name="painter", model=model), "And now?", session=session, run_config=config)
    return list(model.calls[-1].input)[:-1]


@pytest.mark.parametrize("limit", range(1, 9))
@pytest.mark.parametrize("calls", [("c1",), ("c1", "c2")])
async def test_a_model_is_never_shown_half_of_what_belongs_together(calls: tuple[str, ...], limit: int) -> None:
    history = turn(*calls)
    own = MemorandaSession("own", InMemoryStore(), session_settings=SessionSettings(limit=limit))
    of_the_run = MemorandaSession("of the run", InMemoryStore())
    await own.add_items(history)
    await of_the_run.add_items(history)

    config = RunConfig(session_settings=SessionSettings(limit=limit))

    whole = limit >= len(history) - 1
    expected = history[-limit:] if whole else [ANSWER]
    assert await shown(own) == expected
    assert await shown(of_the_run, config) == expected


async def test_results_whose_calls_lie_far_back_are_not_shown() -> None:
    session = MemorandaSession("chat", InMemoryStore(), session_settings=SessionSettings(limit=20))
    await session.add_items(turn(*(f"c{number}" for number in range(200))))

    assert await shown(session) == [ANSWER]


async def test_the_end_is_read_to_the_item_where_a_runner_looks_at_it() -> None:
    """A runner that was interrupted compares the end of a session with what it wrote."""
    session = MemorandaSession("chat", InMemoryStore(), session_settings=SessionSettings(limit=1))
    history = turn("c1")[:-1]
    await session.add_items(history)

    assert await session.get_items(limit=1) == history[-1:]
    assert await session.get_items() == history[-1:]


async def test_a_run_and_a_stream_remember(store: Store) -> None:
    session = MemorandaSession("chat", store.scoped(user_id="ada"))
    model = ScriptedModel()
    model.enqueue([reply("Blue.")])
    model.enqueue([reply("At noon.")])
    agent = Agent(name="painter", model=model)

    await Runner.run(agent, "What colour is the sky?", session=session)
    stream = Runner.run_streamed(agent, "When?", session=session)
    async for _ in stream.stream_events():
        pass

    texts = [dict(item) for item in model.calls[-1].input]  # type: ignore[arg-type]
    assert [item["role"] for item in texts] == ["user", "assistant", "user"]
    assert len(await session.get_items()) == 4


def test_run_sync_remembers_from_call_to_call(url: str) -> None:
    store = memoranda.open(url)
    asyncio.run(store.init())
    session = MemorandaSession("chat", store.scoped(user_id="ada"))
    model = ScriptedModel()
    agent = Agent(name="painter", model=model)

    for number in range(3):
        model.enqueue([reply(str(number))])
        # A loop of its own for each, as in a web server's threads.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            Runner.run_sync(agent, f"question {number}", session=session)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
            asyncio.set_event_loop(None)

    assert len(model.calls[-1].input) == 5
    assert len(asyncio.run(session.get_items())) == 6
    asyncio.run(store.close())
