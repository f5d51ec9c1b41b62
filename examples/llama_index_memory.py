"""LlamaIndex's Memory in a store: a queue that survives restarts, an archive, and recall of both. No key.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[llama-index]'
    python examples/llama_index_memory.py

It prints:

    the queue begins with: Tell me about trains.
    archived: 4 messages
    recalled on Monday: My dog is called Bobdog.
"""

from __future__ import annotations

import asyncio

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus

import memoranda
from memoranda.store import Store
from memoranda_llama_index import MemorandaChatStore, MemorandaMemoryBlock


def memory(store: Store, session_id: str) -> Memory:
    """Return a memory as an agent takes it: ``await agent.run(question, memory=memory)``."""
    return Memory.from_defaults(
        session_id=session_id,
        token_limit=60,
        token_flush_size=20,
        chat_store=MemorandaChatStore(store),
        memory_blocks=[MemorandaMemoryBlock(store, name="memories")],
    )


async def main() -> None:
    async with memoranda.open("memory://") as store:
        ada = store.scoped(user_id="ada")
        sunday = memory(ada, "sunday")
        for text in ("My dog is called Bobdog.", "I like a window seat.", "Tell me about trains."):
            await sunday.aput(ChatMessage(role="user", content=text))
            await sunday.aput(ChatMessage(role="assistant", content=f"About {text} there is much to say. " * 2))
        chats = MemorandaChatStore(ada)
        print("the queue begins with:", (await chats.get_messages("sunday"))[0].content)
        print("archived:", await chats.count_messages("sunday", MessageStatus.ARCHIVED), "messages")

        monday = memory(ada, "monday")
        await monday.aput(ChatMessage(role="user", content="What is my dog called?"))
        system, *_ = await monday.aget()
        (line,) = [line for line in (system.content or "").splitlines() if line.startswith("- My dog")]
        print("recalled on Monday:", line.removeprefix("- "))


if __name__ == "__main__":
    asyncio.run(main())
