"""The same random history here and in Pydantic AI's own in-memory store gives the same answers."""

from __future__ import annotations

import asyncio
import copy
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationEntry, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.usage import RunUsage

from memoranda.store import InMemoryStore, Store
from memoranda_pydantic_ai import MemorandaConversationStore

NAMES = st.sampled_from(["a", "b", "c"])
SCOPES = st.sampled_from([None, None, "x", "y"])
NUMBERS = st.none() | st.integers(0, 4)
TEXTS = st.lists(st.sampled_from(["one", "two", "three", "Ünï\x00 \U0001f600", ""]), max_size=3)

STEPS = st.one_of(
    st.tuples(st.just("begin"), NAMES, TEXTS, SCOPES),
    st.tuples(st.just("load"), NAMES, st.none() | st.integers(-1, 4), SCOPES),
    *[st.tuples(st.just("say"), st.integers(0, 9), TEXTS, SCOPES)] * 3,
    st.tuples(st.just("rewrite"), st.integers(0, 9), st.integers(0, 4), TEXTS),
    st.tuples(st.just("branch"), NAMES, NUMBERS, st.none() | st.integers(0, 30), st.booleans()),
    st.tuples(st.just("fork"), NAMES, NAMES, NUMBERS, st.none() | st.integers(0, 30), SCOPES),
    st.tuples(st.just("delete"), NAMES, SCOPES),
)


def messages(texts: list[str]) -> list[ModelMessage]:
    said: list[ModelMessage] = []
    for number, text in enumerate(texts):
        moment = {"timestamp": MOMENT}
        said.append(
            ModelResponse(parts=[TextPart(content=text)], **moment)  # type: ignore[arg-type]
            if number % 2
            else ModelRequest(parts=[UserPromptPart(content=text, **moment)], **moment)  # type: ignore[arg-type]
        )
    return said


MOMENT = UserPromptPart(content="").timestamp


class Side:
    """One of the two stores, with the conversations that were loaded from it and the entries that it gave out."""

    def __init__(self, store: ConversationStore) -> None:
        self.store = store
        self.held: list[Conversation] = []
        self.entries: list[ConversationEntry] = []

    async def take(self, step: tuple[Any, ...]) -> Any:
        """Take a step and return what it answers, in words that both sides have in common."""
        try:
            return await getattr(self, step[0])(*step[1:])
        except UserError as error:
            return type(error).__name__

    async def begin(self, name: str, texts: list[str], scope: str | None) -> Any:
        conversation = Conversation(conversation_id=name, messages=messages(texts), usage=RunUsage(requests=1))
        self.held.append(conversation)
        return await self._saved(conversation, scope)

    async def load(self, name: str, limit: int | None, scope: str | None) -> Any:
        conversation = await self.store.load(name, limit=limit, scope=scope)
        return self._held(conversation)

    async def say(self, number: int, texts: list[str], scope: str | None) -> Any:
        if not self.held:
            return None
        conversation = self.held[-1 - number % len(self.held)]
        conversation.messages += messages(texts)
        conversation.usage.requests += 1
        return await self._saved(conversation, scope)

    async def rewrite(self, number: int, kept: int, texts: list[str]) -> Any:
        if not self.held:
            return None
        conversation = copy.deepcopy(self.held[-1 - number % len(self.held)])
        conversation.messages = conversation.messages[:kept] + messages(texts)
        self.held.append(conversation)
        return await self._saved(conversation, None)

    async def branch(self, name: str, at: int | None, entry: int | None, is_current: bool) -> Any:
        record = await self.store.read_record(name)
        revision = record.revision if record is not None and is_current else "another"
        return self._held(
            await self.store.branch(name, at=at, from_entry=self._entry(entry), expected_revision=revision)
        )

    async def fork(self, name: str, to: str, at: int | None, entry: int | None, scope: str | None) -> Any:
        fork = await self.store.fork(name, at=at, from_entry=self._entry(entry), new_conversation_id=to, scope=scope)
        return self._held(fork)

    async def delete(self, name: str, scope: str | None) -> None:
        await self.store.delete(name, scope=scope)

    async def look(self) -> Any:
        """Return all that can be seen."""
        numbers = {entry.id: number for number, entry in enumerate(self.entries)}

        def shown(entry: str | None) -> Any:
            return None if entry is None else numbers[entry]

        found: list[Any] = []
        for record in await self.store.list_conversations():
            history = await self.store.load_entries(record.conversation_id) or []
            ends = [shown(record.head_id), shown(record.forked_at), *map(shown, record.branches)]
            told = (record.conversation_id, record.scope, record.forked_from, record.usage)
            found.append((told, ends, [(shown(entry.id), shown(entry.parent_id), entry.message) for entry in history]))
        there = []
        for entry in self.entries:
            try:
                there.append((await self.store.read_entry(entry.id)).message)
            except LookupError:
                there.append(None)
        return found, there

    def _entry(self, number: int | None) -> str | None:
        return None if number is None or not self.entries else self.entries[number % len(self.entries)].id

    def _held(self, conversation: Conversation | None) -> Any:
        if conversation is None:
            return None
        self.held.append(conversation)
        return conversation.messages, conversation.usage, conversation.conversation_id

    async def _saved(self, conversation: Conversation, scope: str | None) -> Any:
        stored = await self.store.save(conversation, scope=scope)
        self.entries += stored
        return [entry.message for entry in stored]


async def play(ours: ConversationStore, history: list[tuple[Any, ...]]) -> None:
    one, other = Side(ours), Side(InMemoryConversationStore())
    for step in history:
        assert await one.take(step) == await other.take(step), step
        assert await one.look() == await other.look(), step


@pytest.mark.rare
@settings(max_examples=3 * settings.default.max_examples // 2)
@given(history=st.lists(STEPS, min_size=3, max_size=20))
def test_a_random_history_has_the_same_answers_as_in_memory(history: list[tuple[Any, ...]]) -> None:
    async def check() -> None:
        store = InMemoryStore()
        conversations = MemorandaConversationStore(store)
        await play(conversations, history)
        for record in await conversations.list_conversations():
            await conversations.delete(record.conversation_id)
        assert await store.count(include_deleted=True) == 0

    asyncio.run(check())


STORED = [
    ("begin", "a", ["one", "two", "three"], "x"),
    ("fork", "a", "b", 2, None, None),
    ("say", 0, ["two"], None),
    ("branch", "a", 1, None, True),
    ("say", 0, ["one", "Ünï\x00 \U0001f600"], None),
    ("fork", "a", "c", None, 2, "y"),
    ("rewrite", 0, 1, ["three"]),
    ("delete", "a", None),
    ("begin", "a", ["one"], None),
    ("say", 2, ["two"], None),
    ("delete", "b", "y"),
    ("delete", "b", None),
    ("delete", "c", None),
]


async def test_a_history_has_the_same_answers_on_every_engine(store: Store) -> None:
    await play(MemorandaConversationStore(store), STORED)


@settings(max_examples=2 * settings.default.max_examples)
@given(history=st.lists(st.tuples(st.sampled_from(["ada", "bob"]), STEPS), max_size=20))
def test_users_of_one_store_never_meet(history: list[tuple[str, tuple[Any, ...]]]) -> None:
    """What each user sees in a shared store is what that user's steps alone lead to."""

    async def check() -> None:
        store = InMemoryStore()
        ours = {user: Side(MemorandaConversationStore(store.scoped(user_id=user))) for user in ("ada", "bob")}
        alone = defaultdict(lambda: Side(InMemoryConversationStore()))
        for user, step in history:
            assert await ours[user].take(step) == await alone[user].take(step)
            for each, side in ours.items():
                assert await side.look() == await alone[each].look()

    asyncio.run(check())
