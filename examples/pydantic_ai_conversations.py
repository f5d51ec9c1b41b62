"""An agent of Pydantic AI whose conversations are saved, forked and deleted, with a model that needs no key.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[pydantic-ai]'
    python examples/pydantic_ai_conversations.py

It prints:

    Ada has 1 conversation with 4 messages
    another one came first; ours was not saved
    Bob has 0 conversations
    forked, the fork went on: 4 and 6 messages
    deleted, the fork is still there: 6 messages
    found by a search: Where is my flat?
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore
from pydantic_ai.models.test import TestModel

import memoranda
from memoranda_pydantic_ai import MemorandaConversationStore

agent = Agent(TestModel(custom_output_text="In Oslo."))


async def ask(conversations: ConversationStore, name: str, question: str) -> None:
    """Ask the agent something in a conversation, and save the result."""
    conversation = await conversations.load(name) or Conversation(conversation_id=name)
    await conversations.save(await agent.run(question, conversation=conversation))


async def length(conversations: ConversationStore, name: str) -> int:
    """Return how many messages a conversation has."""
    conversation = await conversations.load(name)
    return 0 if conversation is None else len(conversation.messages)


async def main(url: str) -> None:
    """Have conversations with Ada."""
    async with memoranda.open(url) as store:
        ada = store.scoped(user_id="ada")
        conversations = MemorandaConversationStore(ada)
        await ask(conversations, "chat", "Where is my flat?")
        stale = await conversations.load("chat")
        await ask(conversations, "chat", "And my cat?")
        count = len(await conversations.list_conversations())
        print("Ada has", count, "conversation with", await length(conversations, "chat"), "messages")
        try:
            await conversations.save(await agent.run("And my dog?", conversation=stale))
        except ConversationConflict:
            print("another one came first; ours was not saved")
        bobs = MemorandaConversationStore(store.scoped(user_id="bob"))
        print("Bob has", len(await bobs.list_conversations()), "conversations")

        await conversations.fork("chat", new_conversation_id="fork")
        await ask(conversations, "fork", "And my bird?")
        lengths = await length(conversations, "chat"), await length(conversations, "fork")
        print("forked, the fork went on:", lengths[0], "and", lengths[1], "messages")
        await conversations.delete("chat")
        print("deleted, the fork is still there:", await length(conversations, "fork"), "messages")
        (found,) = await ada.search(query="FLAT")
        print("found by a search:", found.content)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{Path(folder) / 'agent.db'}"))
