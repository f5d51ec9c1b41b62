"""Conversations are saved whole or not at all, forks share what they have in common, and other users see none of it."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from memoranda.errors import CorruptStoreError, UnsupportedError
from memoranda.store import InMemoryStore, Store
from memoranda_pydantic_ai import MemorandaConversationStore


def asked(text: str) -> ModelMessage:
    return ModelRequest(parts=[UserPromptPart(content=text)])


def answered(text: str) -> ModelMessage:
    return ModelResponse(parts=[TextPart(content=text)])


def talk(*texts: str, name: str = "chat") -> Conversation:
    return Conversation(conversation_id=name, messages=[asked(text) for text in texts])


def texts(messages: Any) -> list[str]:
    return [message.parts[0].content for message in messages]


async def loaded(conversations: MemorandaConversationStore, name: str = "chat") -> Conversation:
    conversation = await conversations.load(name)
    assert conversation is not None
    return conversation


async def test_a_conversation_comes_back_as_it_was(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    said: list[ModelMessage] = [
        ModelRequest(
            parts=[UserPromptPart(content=["What is this?", BinaryContent(b"\x00\xff", media_type="application/pdf")])]
        ),
        ModelResponse(parts=[ThinkingPart(content="Hm.", signature="s"), ToolCallPart("look", {"x": [1, None]}, "c1")]),
        ModelRequest(parts=[ToolReturnPart("look", {"seen": "\x00 sky"}, "c1")]),
        answered("The sky."),
    ]
    paused = DeferredToolRequests(approvals=[ToolCallPart("buy", {"what": "it"}, "c2")])
    kept = Conversation(
        conversation_id="chat", messages=said, usage=RunUsage(requests=2), deferred_tool_requests=paused
    )

    await conversations.save(kept, scope="ada")

    found = await loaded(conversations)
    assert found.messages == said
    assert (found.usage, found.deferred_tool_requests) == (RunUsage(requests=2), paused)
    assert [record.scope for record in await conversations.list_conversations()] == ["ada"]


async def test_a_run_goes_on_where_the_last_one_ended(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    agent = Agent(TestModel(custom_output_text="Yes."))
    for question in ("Do I live in Oslo?", "Still?"):
        conversation = await conversations.load("chat") or Conversation(conversation_id="chat")
        await conversations.save(await agent.run(question, conversation=conversation))

    assert len((await loaded(conversations)).messages) == 4


async def test_the_last_of_a_history_is_read(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    await conversations.save(talk(*map(str, range(50))))

    for limit in (0, 1, 17, 50, 60):
        found = await conversations.load("chat", limit=limit)
        assert found is not None
        assert texts(found.messages) == [str(number) for number in range(50)][50 - min(limit, 50) :]


async def test_a_conflict_leaves_neither_record_nor_entries(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    await conversations.save(talk("one"))
    mine, theirs = await loaded(conversations), await loaded(conversations)
    theirs.messages.append(asked("theirs"))
    await conversations.save(theirs)
    before = await store.count(include_deleted=True)

    mine.messages.append(asked("mine"))
    with pytest.raises(ConversationConflict):
        await conversations.save(mine)

    assert await store.count(include_deleted=True) == before
    assert texts((await loaded(conversations)).messages) == ["one", "theirs"]


async def test_of_many_writers_of_a_revision_one_is_heard(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    await conversations.save(talk("one"))

    async def answer(number: int) -> bool:
        conversation = await loaded(conversations)
        await waiting.wait()
        conversation.messages.append(asked(str(number)))
        try:
            await conversations.save(conversation)
        except ConversationConflict:
            return False
        return True

    waiting = asyncio.Barrier(8)
    heard = await asyncio.gather(*(answer(number) for number in range(8)))

    assert sum(heard) == 1
    assert texts((await loaded(conversations)).messages) == ["one", str(heard.index(True))]


async def test_of_many_who_begin_a_conversation_one_does(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    begun = await asyncio.gather(
        *(conversations.save(talk(str(number))) for number in range(6)), return_exceptions=True
    )

    assert sum(isinstance(outcome, ConversationConflict) for outcome in begun) == 5
    assert sum(isinstance(outcome, list) for outcome in begun) == 1


async def test_forks_share_their_entries_and_go_their_own_ways(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    await conversations.save(talk("one", "two", "three"))
    before = await store.count()
    fork = await conversations.fork("chat", at=2, new_conversation_id="fork")
    assert await store.count() == before + 1

    fork.messages.append(asked("other"))
    await conversations.save(fork)

    assert texts((await loaded(conversations)).messages) == ["one", "two", "three"]
    assert texts((await loaded(conversations, "fork")).messages) == ["one", "two", "other"]


@pytest.mark.parametrize("first", ["chat", "fork"])
async def test_deleting_one_side_of_a_fork_keeps_the_other(store: Store, first: str) -> None:
    conversations = MemorandaConversationStore(store)
    await conversations.save(talk("one", "two", "three"))
    fork = await conversations.fork("chat", at=2, new_conversation_id="fork")
    fork.messages.append(asked("other"))
    await conversations.save(fork)
    (second,) = {"chat", "fork"} - {first}
    kept = texts((await loaded(conversations, second)).messages)

    await conversations.delete(first)
    assert await conversations.load(first) is None
    assert texts((await loaded(conversations, second)).messages) == kept
    assert not [item for item in await store.search(mode="substring", limit=99) if item.content not in ("", *kept)]

    await conversations.delete(second)
    assert await store.count(include_deleted=True) == 0


async def test_a_deleted_conversation_can_begin_again_and_no_old_copy_is_saved_over_it(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    await conversations.save(talk("one"))
    old = await loaded(conversations)
    await conversations.delete("chat")
    await conversations.save(talk("new"))

    old.messages.append(asked("old"))
    with pytest.raises(ConversationConflict):
        await conversations.save(old)

    assert texts((await loaded(conversations)).messages) == ["new"]


async def test_a_fork_of_what_is_deleted_meanwhile_is_refused_or_whole(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    for number in range(10):
        await conversations.save(talk("one", "two", name=f"chat {number}"))
    outcomes = await asyncio.gather(
        *(
            work
            for number in range(10)
            for work in (
                conversations.delete(f"chat {number}"),
                conversations.fork(f"chat {number}", new_conversation_id=f"fork {number}"),
            )
        ),
        return_exceptions=True,
    )

    for number, outcome in enumerate(outcomes[1::2]):
        fork = await conversations.load(f"fork {number}")
        assert (fork is None) == isinstance(outcome, Exception), outcome
        assert fork is None or texts(fork.messages) == ["one", "two"]


async def test_siblings_write_at_the_same_time(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    await conversations.save(talk("one"))
    forks = [await conversations.fork("chat", new_conversation_id=str(number)) for number in range(5)]
    for number, fork in enumerate(forks):
        fork.messages.append(asked(f"of {number}"))

    await asyncio.gather(*map(conversations.save, forks))

    for number in range(5):
        assert texts((await loaded(conversations, str(number))).messages) == ["one", f"of {number}"]


async def test_a_branch_keeps_what_it_left(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    await conversations.save(talk("one", "two"))
    current = await loaded(conversations)
    again = await conversations.branch("chat", at=1, expected_revision=current.revision)
    again.messages.append(asked("other"))
    await conversations.save(again)
    (record,) = await conversations.list_conversations()

    back = await conversations.branch("chat", from_entry=record.branches[0], expected_revision=again.revision)

    assert texts(back.messages) == ["one", "two"]


async def test_the_revision_is_opaque(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    record = ConversationRecord(conversation_id="chat", head_id=None, revision="any text, É")
    await conversations.write_record(record, expected_revision=None)

    following = dataclasses.replace(record, revision="")
    with pytest.raises(ConversationConflict):
        await conversations.write_record(following, expected_revision="")
    await conversations.write_record(following, expected_revision="any text, É")

    assert await conversations.read_record("chat") == following


async def test_a_record_that_follows_an_entry_that_is_not_there_is_refused(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    record = ConversationRecord(conversation_id="chat", head_id="nowhere")

    with pytest.raises(ConversationConflict):
        await conversations.write_record(record, expected_revision=None)
    with pytest.raises(LookupError):
        await conversations.read_entry("nowhere")

    assert await store.count(include_deleted=True) == 0


async def test_an_entry_that_is_stored_already_is_refused(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    entry = ConversationEntry(parent_id=None, message=asked("one"))
    record = ConversationRecord(conversation_id="chat", head_id=entry.id)
    await conversations.write_record(record, new_entries=[entry], expected_revision=None)

    other = ConversationRecord(conversation_id="other", head_id=entry.id)
    with pytest.raises(ConversationConflict):
        await conversations.write_record(other, new_entries=[entry], expected_revision=None)


@pytest.mark.parametrize("parents", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}])
async def test_a_history_that_leads_in_a_circle_is_reported_and_can_be_deleted(
    store: Store, parents: dict[str, str]
) -> None:
    conversations = MemorandaConversationStore(store)
    entries = [ConversationEntry(id=name, parent_id=parent, message=asked(name)) for name, parent in parents.items()]
    record = ConversationRecord(conversation_id="chat", head_id="a")
    await conversations.write_record(record, new_entries=entries, expected_revision=None)

    with pytest.raises(CorruptStoreError, match="before itself"):
        await conversations.read_history("a")

    assert [entry.id for entry in await conversations.read_history("a", limit=1)] == ["a"]
    await conversations.delete("chat")
    assert await store.count(include_deleted=True) == 0


async def test_a_long_history_is_read_to_its_beginning() -> None:
    conversations = MemorandaConversationStore(InMemoryStore())
    await conversations.save(talk(*map(str, range(10_000))))

    assert texts((await loaded(conversations)).messages) == list(map(str, range(10_000)))


async def test_conversations_are_listed_by_scope_the_latest_first(store: Store) -> None:
    conversations = MemorandaConversationStore(store)
    for number, scope in enumerate(["ada", "bob", "ada", "ada"]):
        await conversations.save(talk("one", name=str(number)), scope=scope)
    first = await loaded(conversations, "0")
    first.messages.append(asked("two"))
    await conversations.save(first)

    async def listed(**wanted: Any) -> list[str]:
        return [record.conversation_id for record in await conversations.list_conversations(**wanted)]

    assert await listed() == ["0", "3", "2", "1"]
    assert await listed(scope="ada") == ["0", "3", "2"]
    assert await listed(scope="ada", limit=2) == ["0", "3"]
    assert await listed(limit=0) == []


async def test_two_users_give_their_conversations_the_same_id(store: Store) -> None:
    for user in ("ada", "bob"):
        await MemorandaConversationStore(store.scoped(user_id=user)).save(talk(user))
    ada, bob = (MemorandaConversationStore(store.scoped(user_id=user)) for user in ("ada", "bob"))
    (entry,) = await ada.load_entries("chat") or []

    with pytest.raises(LookupError):
        await bob.read_entry(entry.id)
    await bob.delete("chat")

    assert texts((await loaded(ada)).messages) == ["ada"]
    assert await MemorandaConversationStore(store).load("chat") is None


async def test_what_was_said_can_be_searched_like_any_memory(store: Store) -> None:
    ada = store.scoped(user_id="ada")
    await MemorandaConversationStore(ada).save(talk("My flat is in Oslo."))

    assert [item.content for item in await ada.search(query="oslo")] == ["My flat is in Oslo."]


def test_a_store_that_writes_in_parts_is_refused() -> None:
    class Partly(InMemoryStore):
        capabilities = InMemoryStore.capabilities - {"atomic"}

    with pytest.raises(UnsupportedError, match="atomic"):
        MemorandaConversationStore(Partly())
