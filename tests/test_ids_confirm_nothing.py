"""Ids stay readable in an encrypted store, so none is made from what is said without the key of its ring."""

from __future__ import annotations

import asyncio
import io
import re
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda_anthropic import AsyncMemoryTool
from memoranda_encrypt import KeyRing, LocalMasterKey
from memoranda_mcp.graph import Graph
from memoranda_messages.sessions import Records
from memoranda_summary import SummaryConfig, compact
from memoranda_userdata import Stamp, import_
from memoranda_userdata.chats.chat_formats import FileFormat
from memoranda_userdata.chats.chat_items import chat_items

DIGEST = re.compile(r"(^|-)[0-9a-f]{32,64}$")
OWNER = MemoryMetadata(user_id="ada", session_id="trip")


class Summarizer:
    async def summarize(self, prompt: str) -> str:
        return "They spoke of tea."


async def summarised(store: Store, folder: Path) -> None:
    for number in range(4):
        for item in (HumanMemory, AIMemory):
            name = f"{item.__name__}-{number}"
            await store.add(item(id=name, content="Tea.", metadata=OWNER, created_at=f"2026-01-01T00:00:0{number}"))
    await compact(store, OWNER, SummaryConfig(message_threshold=4, keep_recent=2), Summarizer())


async def recorded(store: Store, folder: Path) -> None:
    await Records(store.scoped(user_id="ada"), "framework").put("state", "favourite tea", {"is": "green"})


async def imported(store: Store, folder: Path) -> None:
    file = folder / "said.jsonl"
    file.write_text('{"memory_type": "human", "content": "I like tea.", "metadata": {"user_id": "ada"}}\n')
    await import_(store, file)


async def charted(store: Store, folder: Path) -> None:
    graph = Graph(store.scoped(user_id="ada"))
    await graph.create_entities([{"name": "Oslo", "entityType": "city", "observations": ["It has a tram."]}])


async def filed(store: Store, folder: Path) -> None:
    file = {"command": "create", "path": "/memories/tea.txt", "file_text": "Green tea."}
    await AsyncMemoryTool(store, user_id="ada").call(file)


async def chatted(store: Store, folder: Path) -> None:
    file = io.StringIO('{"messages": [{"role": "user", "content": "I like tea."}]}\n')
    for made in chat_items(file, "chat.jsonl", FileFormat.OPENAI, Stamp("ada", None), store.derived_id):
        await store.add(made.incoming.item)


async def named_sessions(store: Store) -> set[str]:
    """Return the sessions that a chat file's conversations got by what they say."""
    found = {item.metadata.session_id async for item in store.scan()}
    return {f"session {session}" for session in found - {None, OWNER.session_id}}


@pytest.mark.parametrize("write", [summarised, recorded, imported, charted, filed, chatted])
def test_an_id_is_the_same_in_plain_stores_and_another_for_every_ring(write: Any, tmp_path: Path) -> None:
    async def ids(**options: Any) -> set[str]:
        async with memoranda.open("memory://", **options) as store:
            await write(store, tmp_path)
            made = {item.id async for item in store.scan() if DIGEST.search(item.id)}
            return made | await named_sessions(store)

    async def all_ids() -> list[set[str]]:
        rings = [KeyRing(LocalMasterKey.generate()) for _ in range(2)]
        found = [await ids(), await ids(revisions=True)]
        found += [await ids(encrypt=ring) for ring in rings]
        return [*found, await ids(encrypt=rings[0], revisions=True)]

    plain, with_revisions, first, second, first_with_revisions = asyncio.run(all_ids())
    assert len(plain) == len(first) > 0
    assert plain == with_revisions
    assert first == first_with_revisions
    assert not plain & first
    assert not first & second
