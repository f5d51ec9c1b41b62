"""Calls, results and reasoning begin and end together, whatever lifetimes their items have."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, Runner
from agents.memory import SessionSettings
from agents.testing import ScriptedModel
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from memoranda import MemoryMetadata
from memoranda.store import InMemoryStore, Store
from memoranda_messages import to_responses
from memoranda_messages.payload_json import decode_payload
from memoranda_openai_agents import MemorandaSession

START = 1_714_557_600.0


def said(text: str) -> Any:
    return {"role": "user", "content": text}


def reasoned(name: str) -> Any:
    return {"id": f"rs_{name}", "type": "reasoning", "summary": []}


def call(name: str) -> Any:
    return {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "look", "arguments": "{}"}


def result(name: str) -> Any:
    return {"type": "function_call_output", "call_id": name, "output": "blue"}


def answer(name: str) -> Any:
    content = [{"type": "output_text", "text": f"It is blue, {name}.", "annotations": []}]
    return {"id": f"msg_{name}", "type": "message", "role": "assistant", "status": "completed", "content": content}


def turn(name: str) -> list[Any]:
    """Return a turn in which reasoning leads to two calls at once, and then to an answer."""
    first, second = f"{name}.1", f"{name}.2"
    asked = [reasoned(first), call(first), call(second), result(first), result(second)]
    return [said(name), *asked, reasoned(name), answer(name)]


def halves(items: list[Any], groups: list[list[Any]]) -> list[Any]:
    """Return the groups that lack some of their items."""
    return [group for group in groups if 0 < sum(item in items for item in group) < len(group)]


def groups_of(name: str) -> list[list[Any]]:
    items = turn(name)
    return [items[1:6], items[6:]]


class Clock:
    def __init__(self, store: Store) -> None:
        self.now = START
        store.clock = lambda: self.now


async def test_a_result_ends_with_its_call() -> None:
    store = InMemoryStore()
    clock = Clock(store)
    session = MemorandaSession("chat", store, ttl=60)
    await session.add_items([said("What colour is the sky?"), reasoned("c"), call("c")])
    clock.now += 30
    await session.add_items([result("c"), answer("c")])
    assert len(await session.get_items()) == 5

    clock.now += 31

    assert await session.get_items() == [answer("c")]
    assert await session.get_items(limit=2) == [answer("c")]
    assert await MemorandaSession("chat", store).get_items() == [answer("c")]


async def test_a_call_ends_with_its_result_once_the_conversation_goes_on() -> None:
    store = InMemoryStore()
    clock = Clock(store)
    lasting, brief = MemorandaSession("chat", store, ttl=600), MemorandaSession("chat", store, ttl=60)
    await lasting.add_items([said("What colour is the sky?"), call("c")])
    assert await lasting.get_items() == [said("What colour is the sky?"), call("c")]  # The result is still to come.
    await brief.add_items([result("c")])
    await lasting.add_items([said("And now?")])

    clock.now += 61

    assert await lasting.get_items() == [said("What colour is the sky?"), said("And now?")]


@pytest.mark.parametrize("position", range(1, 6))
async def test_a_turn_of_which_one_item_was_given_a_lifetime_ends_with_it(store: Store, position: int) -> None:
    clock = Clock(store)
    session = MemorandaSession("chat", store)
    await session.add_items(turn("a"))
    items = await store.search(order="added", limit=20)
    await store.touch([items[::-1][position].id], ttl=5)
    assert await session.get_items() == turn("a")

    clock.now += 5

    assert await session.get_items() == [said("a"), *groups_of("a")[1]]
    await store.sweep()
    assert await session.get_items() == [said("a"), *groups_of("a")[1]]
    window = await store.window(metadata=MemoryMetadata(session_id="chat"))
    assert to_responses(window)[0] == said("a")
    assert not halves(to_responses(window), groups_of("a"))


async def shown_to_a_model(session: MemorandaSession) -> list[Any]:
    model = ScriptedModel()
    content = ResponseOutputText(text="Yes.", type="output_text", annotations=[], logprobs=[])
    model.enqueue(
        [ResponseOutputMessage(id="m", type="message", role="assistant", content=[content], status="completed")]
    )
    await Runner.run(Agent(name="painter", model=model), "And now?", session=session)
    return list(model.calls[-1].input)


@pytest.mark.parametrize("limit", [None, 50])
@pytest.mark.parametrize("ttl", [None, 600])
@pytest.mark.parametrize("further", [[], [said("Are you there?")]], ids=["last", "before another question"])
async def test_reasoning_ends_with_an_outcome_that_came_after_it(
    store: Store, limit: int | None, ttl: float | None, further: list[Any]
) -> None:
    clock = Clock(store)
    lasting = MemorandaSession("chat", store, SessionSettings(limit=limit), ttl)
    brief = MemorandaSession("chat", store, ttl=60)
    await lasting.add_items([said("What colour is the sky?"), reasoned("c")])
    await brief.add_items([answer("c")])
    await lasting.add_items(further)
    whole = [said("What colour is the sky?"), reasoned("c"), answer("c"), *further]
    assert await lasting.get_items() == whole

    clock.now += 61

    assert await shown_to_a_model(lasting) == [said("What colour is the sky?"), *further, said("And now?")]
    if limit is None:
        await lasting.pop_item()
        await lasting.pop_item()
        await lasting.get_items()
        assert [(loss.what, loss.reason) for loss in lasting.dropped] == [("reasoning", "incomplete")]


async def test_what_was_popped_has_not_ended(store: Store) -> None:
    """A runner takes items back one by one, and looks at what is left."""
    session = MemorandaSession("chat", store)
    await session.add_items([said("a"), reasoned("c"), call("c"), result("c")])

    assert await session.pop_item() == result("c")
    assert await session.get_items() == [said("a"), reasoned("c"), call("c")]
    assert await session.pop_item() == call("c")
    assert await session.get_items(limit=9) == [said("a"), reasoned("c")]
    assert await session.get_items() == [said("a")]  # No model takes reasoning without its outcome.


async def test_a_model_is_never_shown_what_has_lost_its_other_half() -> None:
    for limit in (None, 6, 50):
        store = InMemoryStore()
        clock = Clock(store)
        session = MemorandaSession("chat", store, session_settings=SessionSettings(limit=limit), ttl=60)
        await session.add_items(turn("a")[:4])
        clock.now += 30
        await session.add_items(turn("a")[4:])
        clock.now += 31
        model = ScriptedModel()
        content = ResponseOutputText(text="Yes.", type="output_text", annotations=[], logprobs=[])
        model.enqueue(
            [ResponseOutputMessage(id="m", type="message", role="assistant", content=[content], status="completed")]
        )

        await Runner.run(Agent(name="painter", model=model), "And now?", session=session)

        shown = list(model.calls[-1].input)
        assert len(shown) == 3
        assert not halves(shown, groups_of("a"))


LIVES = st.sampled_from([None, None, 1.0, 2.0, 3.0, 5.0, 8.0])


@given(
    lives=st.lists(LIVES, min_size=16, max_size=16),
    waits=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=2),
    looks=st.lists(st.sampled_from([0.25, 0.5, 1.0, 3.0]), min_size=1, max_size=8),
    sweeps=st.booleans(),
    ttl=LIVES,
    limit=st.none() | st.integers(16, 99),
)
def test_no_reader_gets_half_of_what_belongs_together(
    lives: list[float | None],
    waits: list[float],
    looks: list[float],
    sweeps: bool,
    ttl: float | None,
    limit: int | None,
) -> None:
    async def play() -> None:
        store = InMemoryStore()
        clock = Clock(store)
        session = MemorandaSession("chat", store, ttl=ttl)
        for name, wait in zip("ab", waits, strict=True):
            await session.add_items(turn(name))
            clock.now += wait
        items = await store.search(order="added", limit=20)
        for item, life in zip(items, lives, strict=False):
            if life is not None:
                await store.touch([item.id], ttl=life)
        groups = groups_of("a") + groups_of("b")
        for look in looks:
            clock.now += look
            if sweeps:
                await store.sweep()
            window = await store.window(metadata=MemoryMetadata(session_id="chat"), limit=limit)
            readers = {
                "session": await session.get_items(),
                "another": await MemorandaSession("chat", store).get_items(limit=limit),
                "window": [decode_payload(item.payload or "null") for item in window],
                "request": to_responses(window),
            }
            for reader, found in readers.items():
                assert not halves(list(found), groups), reader

    asyncio.run(play())
