"""A process that is killed has lost nothing that it was told is stored, and leaves nothing half."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap

import pytest

import memoranda
from memoranda_pydantic_ai import MemorandaConversationStore

TALKING = textwrap.dedent(
    """
    import asyncio, sys
    import memoranda
    from memoranda_pydantic_ai import MemorandaConversationStore
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    async def main(url):
        async with memoranda.open(url) as store:
            conversations = MemorandaConversationStore(store.scoped(user_id="ada"))
            conversation = Conversation(conversation_id="chat")
            turn = 0
            while True:
                conversation.messages += [
                    ModelRequest(parts=[UserPromptPart(content=f"{turn}.{part}")]) for part in range(2)
                ]
                await conversations.save(conversation)
                await conversations.fork("chat", new_conversation_id="fork")
                await conversations.delete("fork")
                print(turn, flush=True)
                turn += 1

    asyncio.run(main(sys.argv[1]))
    """
)


@pytest.mark.slow
def test_a_killed_process_loses_nothing_and_leaves_nothing_half(lasting_url: str) -> None:
    command = [sys.executable, "-c", TALKING, lasting_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(12)]
        process.send_signal(signal.SIGKILL)
        acknowledged += process.stdout.read().split("\n")[:-1]

    async def look() -> list[str]:
        async with memoranda.open(lasting_url) as store:
            conversations = MemorandaConversationStore(store.scoped(user_id="ada"))
            conversation = await conversations.load("chat")
            assert conversation is not None
            found = [str(message.parts[0].content) for message in conversation.messages]  # type: ignore[union-attr]
            for name in ("fork", "chat"):
                await conversations.delete(name)
            assert await store.count(include_deleted=True) == 0
            return found

    found = asyncio.run(look())
    turns = len(found) // 2
    assert found == [f"{turn}.{part}" for turn in range(turns) for part in range(2)]
    assert turns >= len(acknowledged)
