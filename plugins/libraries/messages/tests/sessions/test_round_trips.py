"""Random messages come back equal, whatever is in them, from whatever order of writers."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from toy_framework import ToyFormat, ToyMessage

from memoranda.errors import TurnConflictError
from memoranda.integrity import is_whole
from memoranda.items import MemoryItem
from memoranda.store import InMemoryStore
from memoranda_messages import to_anthropic, to_openai, to_responses
from memoranda_messages.sessions import Conversation, Dropped

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
IDS = st.sampled_from(["c1", "c2", "c3", "", "\x00"])
LONG = st.text(max_size=8) | st.just("x" * 100)
PIECES = st.one_of(
    st.fixed_dictionaries({"text": LONG}),
    st.fixed_dictionaries(
        {"image": st.sampled_from(["https://example.org/a.png", "data:image/png;base64," + "A" * 80])}
    ),
    st.fixed_dictionaries({"thought": LONG}, optional={"signed": JSON}),
    st.fixed_dictionaries({"call": st.fixed_dictionaries({"id": IDS, "name": st.text(max_size=4), "arguments": JSON})}),
    st.fixed_dictionaries(
        {"result": st.fixed_dictionaries({"id": IDS, "text": LONG}, optional={"failed": st.booleans()})}
    ),
    st.dictionaries(st.text(max_size=4), JSON, max_size=2),
)
OF_NOBODY = {"user": {"call"}, "system": {"call", "result"}}
"""The pieces that no item of a role can hold: such a message comes back without them."""

MESSAGES = st.builds(
    ToyMessage, st.sampled_from(["user", "model", "system", "critic"]), st.lists(PIECES, max_size=4), JSON
).filter(lambda message: all(OF_NOBODY.get(message.role, set()).isdisjoint(piece) for piece in message.pieces))
FORMAT = ToyFormat()


def returned(messages: list[ToyMessage]) -> tuple[list[ToyMessage], list[MemoryItem], list[Dropped]]:
    """Return messages that were stored and read again, with their items and losses."""

    async def stored() -> list[MemoryItem]:
        conversation = Conversation(InMemoryStore(), "s", user_id="ada")
        await conversation.append(FORMAT.items(messages))
        return await conversation.read()

    items = asyncio.run(stored())
    dropped: list[Dropped] = []
    return FORMAT.messages(items, dropped=dropped), items, dropped


@settings(max_examples=60)
@given(st.lists(MESSAGES, max_size=5))
def test_nothing_is_lost_and_unknown_kinds_are_kept(messages: list[ToyMessage]) -> None:
    found, items, dropped = returned(messages)

    assert repr(found) == repr(messages)
    assert dropped == []
    assert len({item.id for item in items}) == len(items)


@settings(max_examples=60)
@given(st.lists(MESSAGES, max_size=5))
def test_every_provider_can_be_sent_what_was_stored(messages: list[ToyMessage]) -> None:
    _, items, _ = returned(messages)
    dropped: list[Dropped] = []

    sent: list[Any] = [to_openai(items, dropped=dropped), to_responses(items), to_anthropic(items)]

    lost = {loss.item_id for loss in dropped}
    texts = str(sent[0])
    unsent = [item for item in items if item.content and repr(item.content)[1:-1] not in texts]
    assert all(item.id in lost for item in unsent)


@settings(max_examples=40)
@given(st.lists(MESSAGES, min_size=1, max_size=5), st.data())
def test_whatever_is_removed_a_model_is_shown_only_what_is_whole(
    messages: list[ToyMessage], data: st.DataObject
) -> None:
    async def shown() -> tuple[list[MemoryItem], int]:
        store = InMemoryStore()
        conversation = Conversation(store, "s", user_id="ada")
        await conversation.append(FORMAT.items(messages))
        items = await conversation.read()
        for item in data.draw(st.lists(st.sampled_from(items), unique_by=lambda item: item.id)) if items else []:
            await store.purge(item.id)
        limit = data.draw(st.none() | st.integers(0, 6))
        return await conversation.shown(limit), len(items) if limit is None else limit

    found, most = asyncio.run(shown())

    assert is_whole(found)
    assert len(found) <= most
    FORMAT.messages(found)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.booleans()), max_size=12))
def test_of_two_writers_each_sees_all_turns_in_one_order(events: list[tuple[int, bool, bool]]) -> None:
    """A writer reads the head and appends, sometimes late, and sometimes its call is cancelled."""

    async def written() -> tuple[list[str], list[str]]:
        store = InMemoryStore()
        sides = [Conversation(store, "s", user_id="ada") for _ in range(2)]
        heads: list[str | None] = [None, None]
        acknowledged: list[str] = []
        for number, (side, reads, cancelled) in enumerate(events):
            if reads:
                heads[side] = await sides[side].head()
            turn = FORMAT.items([ToyMessage("user", [{"text": f"{number}"}]), ToyMessage("model", [{"text": "yes"}])])
            task = asyncio.ensure_future(sides[side].append(turn, after=heads[side]))
            if cancelled:
                await asyncio.sleep(0)
                task.cancel()
            try:
                await task
            except (TurnConflictError, asyncio.CancelledError):
                continue
            acknowledged.append(f"{number}")
        return [item.content for item in await sides[0].read()], acknowledged

    found, acknowledged = asyncio.run(written())

    assert found[1::2] == ["yes"] * (len(found) // 2)
    assert [text for text in found[::2] if text in acknowledged] == acknowledged
