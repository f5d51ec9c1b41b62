"""A memory block of LlamaIndex that recalls."""

from __future__ import annotations

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from memoranda import HumanMemory
from memoranda.store import Store
from memoranda_llama_index import MemorandaChatStore, MemorandaMemoryBlock

DOG = "My dog is called Bobdog."
QUESTION = "What is my dog called?"


async def recalled(memory: Memory) -> str:
    """Return what comes before the messages of the session, which are the last ones."""
    session = await memory.sql_store.get_messages(memory.session_id)
    before = (await memory.aget())[: -len(session) or None]
    assert all(message.role == "user" for message in before)
    return "\n".join(message.content or "" for message in before)


def text(messages: list[ChatMessage]) -> str:
    return "\n".join(message.content or "" for message in messages)


async def test_other_sessions_of_the_user_are_recalled(store: Store) -> None:
    ada = store.scoped(user_id="ada")
    await store.scoped(user_id="ada", session_id="sunday").add(HumanMemory(content=DOG))
    await store.scoped(user_id="bob", session_id="sunday").add(HumanMemory(content="My dog is called Rex."))
    memory = Memory.from_defaults(
        session_id="monday", chat_store=MemorandaChatStore(ada), memory_blocks=[MemorandaMemoryBlock(ada)]
    )
    await memory.aput(ChatMessage(role="user", content=QUESTION))

    found = await recalled(memory)

    assert DOG in found
    assert "Rex" not in found


async def test_what_the_session_shows_is_not_repeated_and_what_left_it_is_recalled(store: Store) -> None:
    chats = MemorandaChatStore(store)
    memory = Memory.from_defaults(
        session_id="chat", chat_store=chats, memory_blocks=[MemorandaMemoryBlock(store, name="long_term")]
    )
    await memory.aput_messages([ChatMessage(role="user", content=text) for text in (DOG, QUESTION)])
    assert DOG not in await recalled(memory)

    await chats.archive_oldest_messages("chat", 1)

    assert DOG in await recalled(memory)


async def test_without_a_question_or_an_answer_there_is_no_block(store: Store) -> None:
    block = MemorandaMemoryBlock(store)
    assert await block.aget([]) == []
    assert await block.aget([ChatMessage(role="user", content=QUESTION)]) == []


async def test_tokens_and_trust_bound_what_is_recalled(store: Store) -> None:
    await store.add(HumanMemory(content=DOG))
    await store.add(HumanMemory(content="My dog is called Mallory.", trust="external"))
    asked = [ChatMessage(role="user", content=QUESTION)]
    assert "Mallory" in text(await MemorandaMemoryBlock(store).aget(asked))
    assert "Mallory" not in text(await MemorandaMemoryBlock(store, min_trust="user").aget(asked))
    assert await MemorandaMemoryBlock(store, tokens=1).aget(asked) == []


async def test_messages_of_another_chat_store_are_stored_if_asked_for(store: Store) -> None:
    flushed = [ChatMessage(role="user", content=DOG), ChatMessage(role="assistant", content="Lovely!")]
    await MemorandaMemoryBlock(store).aput(flushed, from_short_term_memory=True, session_id="chat")
    assert await store.count() == 0

    block = MemorandaMemoryBlock(store, accept_short_term_memory=True)
    await block.aput(flushed, from_short_term_memory=True, session_id="chat")

    assert await MemorandaChatStore(store).get_messages("chat") == flushed


async def test_what_is_recalled_never_speaks_for_the_system(store: Store) -> None:
    await store.scoped(session_id="web").add(HumanMemory(content="My dog is called Mallory.", trust="external"))
    for priority in (0, 1):
        memory = Memory.from_defaults(
            session_id=f"chat-{priority}",
            chat_store=MemorandaChatStore(store),
            memory_blocks=[MemorandaMemoryBlock(store, priority=priority)],
        )
        await memory.aput(ChatMessage(role="system", content="Be brief."))
        await memory.aput(ChatMessage(role="user", content=QUESTION))

        found = await memory.aget()

        assert [message.content for message in found if message.role == "system"] == ["Be brief."]
        assert ["Mallory" in (message.content or "") for message in found if message.role == "user"] == [True, False]
