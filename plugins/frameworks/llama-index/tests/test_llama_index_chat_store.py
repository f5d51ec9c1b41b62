"""LlamaIndex's chat store and memory on memoranda's stores."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus

from memoranda import AIMemory, MemoryItem, ToolMemory
from memoranda.store import Store
from memoranda_llama_index import MemorandaChatStore
from memoranda_messages import from_anthropic, to_openai
from memoranda_messages.sessions import parts_of

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def call(name: str) -> ToolCallBlock:
    return ToolCallBlock(tool_call_id=name, tool_name="weather", tool_kwargs={"city": name})


def result(name: str, text: str = "snow") -> ChatMessage:
    return ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": name})


def said(role: str, *blocks: Any, **beside: Any) -> ChatMessage:
    return ChatMessage(role=role, blocks=list(blocks), additional_kwargs=beside)


OLD_CALL = {"id": "o", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MESSAGES: dict[str, ChatMessage] = {
    "text": ChatMessage(role="user", content="My flat is in Oslo."),
    "several texts": said("user", TextBlock(text="a"), TextBlock(text="b")),
    "text with a name and more": said("user", TextBlock(text="Hi"), name="Ada", anything=[1, None]),
    "nothing": ChatMessage(role="assistant"),
    "system": ChatMessage(role="system", content="Be brief."),
    "developer": ChatMessage(role="developer", content="Be brief."),
    "answer of a model by another name": ChatMessage(role="model", content="Yes."),
    "image": said("user", TextBlock(text="Look."), ImageBlock(image=PNG)),
    "image by url": said("user", ImageBlock(url="https://example.org/a.png", detail="low")),
    "audio": said("user", AudioBlock(audio=b"\0\1\2" * 40, format="wav")),
    "video": said("user", VideoBlock(url="https://example.org/a.mp4", fps=2)),
    "document": said("user", DocumentBlock(data=b"%PDF-1.4 \0", title="t.pdf", document_mimetype="application/pdf")),
    "cached": said("user", TextBlock(text="x"), CachePoint(cache_control=CacheControl(type="ephemeral"))),
    "citations": said(
        "assistant",
        CitationBlock(cited_content=TextBlock(text="q"), source="s", title="t", additional_location_info={"a": 1}),
        CitableBlock(title="t", source="s", content=[TextBlock(text="x")]),
    ),
    "thinking": said(
        "assistant", ThinkingBlock(content="Hm.", num_tokens=2, additional_information={"signature": "s"})
    ),
    "calls": said("assistant", TextBlock(text="One moment."), call("a"), call("b")),
    "call without an id": said("assistant", ToolCallBlock(tool_name="f", tool_kwargs="{")),
    "call beside the blocks": said("assistant", tool_calls=[OLD_CALL]),
    "result": result("a"),
    "result without an id": ChatMessage(role="tool", content="snow"),
    "result with an image": said("tool", ImageBlock(image=PNG), tool_call_id="b", name="weather"),
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
async def test_a_message_comes_back_equal(memory_store: Store, message: ChatMessage) -> None:
    chats = MemorandaChatStore(memory_store)
    await chats.add_message("chat", message)
    assert await chats.get_messages("chat") == [message]
    assert chats.dropped == []


async def test_all_messages_come_back_in_their_order(store: Store) -> None:
    chats = MemorandaChatStore(store)
    await chats.add_messages("chat", list(MESSAGES.values()))
    assert await chats.get_messages("chat") == list(MESSAGES.values())


async def test_messages_are_ordinary_items(store: Store) -> None:
    chats = MemorandaChatStore(store.scoped(user_id="ada"))
    await chats.add_messages("chat", [MESSAGES["image"], MESSAGES["calls"], result("a"), result("b", "sun")])

    items = (await store.search(order="added", limit=9))[::-1]

    assert [(item.memory_type, item.content) for item in items] == [
        ("human", "Look."),
        ("ai", "One moment."),
        ("tool", "snow"),
        ("tool", "sun"),
    ]
    assert {(item.metadata.user_id, item.metadata.session_id) for item in items} == {("ada", "chat")}
    assert isinstance(items[1], AIMemory)
    assert [made["id"] for made in items[1].tool_calls] == ["a", "b"]
    assert [item.tool_name for item in items if isinstance(item, ToolMemory)] == ["weather", "weather"]
    (part,) = parts_of(items[0])
    assert (part.kind, part.media_type, part.data) == ("image", "image/png", base64.b64encode(PNG).decode())
    assert len(to_openai(items, strict=True)) == 4


async def test_what_other_formats_wrote_is_read(store: Store) -> None:
    data = base64.b64encode(PNG).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    thought = {"type": "thinking", "thinking": "Two cities.", "signature": "s"}
    uses = [{"type": "tool_use", "id": name, "name": "weather", "input": {"city": name}} for name in "ab"]
    answers = [{"type": "tool_result", "tool_use_id": name, "content": "snow", "is_error": True} for name in "ab"]
    written = [
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}, image]},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "One moment."}, *uses]},
        {"role": "user", "content": answers},
    ]
    await store.scoped(session_id="chat").add_many(from_anthropic(written))
    chats = MemorandaChatStore(store)

    human, ai, *results = await chats.get_messages("chat")

    assert human == said("user", TextBlock(text="Weather?"), ImageBlock(image=PNG))
    assert ai == MESSAGES["calls"]
    assert results == [said("tool", TextBlock(text="snow"), tool_call_id=name, name="weather") for name in "ab"]
    assert sorted(loss.what for loss in chats.dropped) == ["is_error", "is_error", "reasoning"]


async def test_an_image_whose_file_is_gone_costs_the_image_only(store: Store, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(PNG)
    chats = MemorandaChatStore(store)
    await chats.add_message("chat", said("user", TextBlock(text="Look."), ImageBlock(path=picture)))
    picture.unlink()

    assert [message.content for message in await chats.get_messages("chat")] == ["Look."]
    assert "image" in [loss.what for loss in chats.dropped]


def texts(messages: list[ChatMessage]) -> list[str | None]:
    return [message.content for message in messages]


async def numbered(chats: MemorandaChatStore, count: int) -> None:
    await chats.add_messages("chat", [ChatMessage(role="user", content=str(number)) for number in range(count)])


async def test_limits_and_offsets_count_from_the_oldest(store: Store) -> None:
    chats = MemorandaChatStore(store)
    await numbered(chats, 5)
    assert texts(await chats.get_messages("chat", limit=2)) == ["0", "1"]
    assert texts(await chats.get_messages("chat", offset=3)) == ["3", "4"]
    assert texts(await chats.get_messages("chat", limit=2, offset=1)) == ["1", "2"]
    assert await chats.count_messages("chat") == 5
    assert await chats.get_messages("other") == []


async def test_archived_messages_are_kept_apart_and_recalled(store: Store) -> None:
    chats = MemorandaChatStore(store.scoped(user_id="ada"))
    await numbered(chats, 3)
    await chats.add_message("chat", ChatMessage(role="user", content="The old dog"), MessageStatus.ARCHIVED)

    assert texts(await chats.archive_oldest_messages("chat", 2)) == ["0", "1"]

    assert texts(await chats.get_messages("chat")) == ["2"]
    assert texts(await chats.get_messages("chat", MessageStatus.ARCHIVED)) == ["0", "1", "The old dog"]
    assert texts(await chats.get_messages("chat", status=None)) == ["0", "1", "2", "The old dog"]
    assert await chats.count_messages("chat", status=None) == 4
    found = await store.scoped(user_id="ada").recall("What about the old dog?")
    assert found[0].content == "The old dog"
    await chats.delete_messages("chat", MessageStatus.ARCHIVED)
    assert texts(await chats.get_messages("chat", status=None)) == ["2"]


async def test_messages_of_a_status_are_replaced(store: Store) -> None:
    chats = MemorandaChatStore(store)
    await numbered(chats, 3)
    await chats.archive_oldest_messages("chat", 1)
    await chats.set_messages("chat", [ChatMessage(role="user", content="new")])
    assert texts(await chats.get_messages("chat", status=None)) == ["0", "new"]
    await chats.set_messages("chat", [], MessageStatus.ARCHIVED)
    assert texts(await chats.get_messages("chat", status=None)) == ["new"]


async def test_messages_are_removed_for_good(store: Store) -> None:
    chats = MemorandaChatStore(store)
    await numbered(chats, 5)
    removed = await chats.delete_message("chat", 1)
    assert removed is not None
    assert removed.content == "1"
    assert await chats.delete_message("chat", 4) is None
    assert texts(await chats.delete_oldest_messages("chat", 2)) == ["0", "2"]
    assert await store.count() == 2
    await chats.add_message("other", ChatMessage(role="user", content="x"))
    assert sorted(await chats.get_keys()) == ["chat", "other"]
    await chats.delete_messages("chat")
    assert await chats.get_keys() == ["other"]


async def test_users_with_the_same_key_never_meet(store: Store) -> None:
    ada, bob = (MemorandaChatStore(store.scoped(user_id=name)) for name in ("ada", "bob"))
    await numbered(ada, 2)
    await bob.delete_messages("chat")
    assert await bob.get_keys() == []
    assert await ada.count_messages("chat") == 2


async def test_a_turn_that_was_left_half_written_leaves_with_its_neighbours(store: Store) -> None:
    chats = MemorandaChatStore(store)
    asked = ChatMessage(role="user", content="Weather?")
    await chats.add_messages("chat", [asked, MESSAGES["calls"], result("a")])
    assert await chats.count_messages("chat") == 3
    again = [ChatMessage(role="user", content="Never mind."), ChatMessage(role="assistant", content="Fine.")]
    await chats.add_messages("chat", again)

    assert await chats.get_messages("chat") == [asked, *again]
    assert await chats.archive_oldest_messages("chat", 2) == [asked, again[0]]

    assert await chats.get_messages("chat") == again[1:]
    assert len(await store.search(archived=True)) == 4


async def test_two_writers_lose_nothing(store: Store) -> None:
    chats = MemorandaChatStore(store)
    await numbered(chats, 6)
    archived = await asyncio.gather(*(chats.archive_oldest_messages("chat", 2) for _ in range(3)))
    assert sorted(text for part in archived for text in texts(part) if text) == [str(number) for number in range(6)]
    assert await chats.get_messages("chat") == []


async def test_memory_flushes_into_the_archive(store: Store) -> None:
    chats = MemorandaChatStore(store)
    memory = Memory.from_defaults(session_id="chat", token_limit=40, token_flush_size=10, chat_store=chats)
    for number in range(6):
        await memory.aput(ChatMessage(role="user", content=f"question {number} " + "word " * 6))
        await memory.aput(ChatMessage(role="assistant", content=f"answer {number}"))

    active, archived = await memory.aget(), await memory.aget_all(status=MessageStatus.ARCHIVED)

    assert len(active) + len(archived) == 12
    assert archived
    assert active[0].role == "user"
    assert texts([*archived, *active])[1::2] == [f"answer {number}" for number in range(6)]


def test_the_sync_methods_of_memory_use_a_loop_each(lasting_url: str) -> None:
    import memoranda.sync

    with memoranda.sync.open(lasting_url) as store:
        memory = Memory.from_defaults(session_id="chat", chat_store=MemorandaChatStore(store))
        memory.put(ChatMessage(role="user", content="one"))
        memory.put(ChatMessage(role="assistant", content="two"))
        assert texts(memory.get()) == ["one", "two"]
        memory.reset()
        assert memory.get() == []


async def test_a_cancelled_write_is_done_or_not(store: Store) -> None:
    chats = MemorandaChatStore(store)
    task = asyncio.create_task(numbered(chats, 3))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await chats.count_messages("chat") in (0, 3)


async def test_forgetting_reaches_archived_messages(store: Store) -> None:
    chats = MemorandaChatStore(store.scoped(user_id="ada"))
    await numbered(chats, 2)
    await chats.archive_oldest_messages("chat", 1)
    kept: list[MemoryItem] = await store.search(archived=None)
    assert len(kept) == 2
    await store.scoped(user_id="ada").purge()
    assert await store.count() == 0


PLAIN = [
    ChatMessage(role="system", content="Be brief."),
    ChatMessage(role="user", content="Where is it cold?"),
    said("assistant", TextBlock(text="I will look."), call("Oslo"), call("Rome")),
    result("Oslo"),
    result("Rome", "rain"),
    ChatMessage(role="assistant", content="In Oslo."),
]
NOT_PLAIN = [
    ChatMessage(role="user", content=""),
    ChatMessage(role="assistant"),
    said("user", TextBlock(text="Hi"), name="Ada"),
    said("user", TextBlock(text="a"), TextBlock(text="b")),
    said("assistant", ToolCallBlock(tool_call_id="t", tool_name="weather", tool_kwargs="{")),
    said("assistant", ToolCallBlock(tool_name="weather", tool_kwargs={})),
]


async def test_what_the_fields_say_as_it_stands_is_stored_once(store: Store) -> None:
    chat_store = MemorandaChatStore(store)
    messages = [*NOT_PLAIN[:4], *PLAIN, *NOT_PLAIN[4:]]
    await chat_store.add_messages("chat", messages)

    found = await store.search(mode="substring", order="added", limit=99)

    assert [item.payload is None for item in reversed(found)] == [message in PLAIN for message in messages]
    assert await chat_store.get_messages("chat") == messages
    assert chat_store.dropped == []


async def test_a_plain_message_that_was_edited_comes_back_edited(store: Store) -> None:
    chat_store = MemorandaChatStore(store)
    await chat_store.add_messages("chat", PLAIN)
    for item in await store.search(mode="substring", limit=99):
        item.content = item.content.replace("Where", "When")
        if isinstance(item, AIMemory) and item.tool_calls:
            item.tool_calls[0]["arguments"] = {"city": "Bergen"}
        await store.update(item)

    _, asked, called, *rest = await chat_store.get_messages("chat")

    assert asked.content == "When is it cold?"
    assert [block.tool_kwargs for block in called.blocks[1:]] == [{"city": "Bergen"}, {"city": "Rome"}]  # type: ignore[union-attr]
    assert rest == PLAIN[3:]
