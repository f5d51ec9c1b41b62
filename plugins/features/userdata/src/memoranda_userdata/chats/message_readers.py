"""Readers of messages: from those of an API or of ShareGPT to items, and from each item to its message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda_messages import from_anthropic, from_openai, from_responses
from memoranda_userdata.chats.chat_formats import FileFormat
from memoranda_userdata.chats.sharegpt import messages_of

Read = tuple[list[MemoryItem], list[int | None]]
"""Items, and for each the position of its message; None if it stands beside the messages."""

Reader = Callable[[list[Any], Any, MemoryMetadata], Read]
"""Reads messages, a system text that stands beside them, and whose they are."""


def read_openai(messages: list[Any], system: Any, metadata: MemoryMetadata) -> Read:
    """Read messages of the chat API."""
    return from_openai(messages, metadata=metadata), list(range(len(messages)))


def read_responses(messages: list[Any], system: Any, metadata: MemoryMetadata) -> Read:
    """Read items of the Responses API."""
    return from_responses(messages, metadata=metadata), list(range(len(messages)))


def read_sharegpt(messages: list[Any], system: Any, metadata: MemoryMetadata) -> Read:
    """Read ShareGPT's turns."""
    turns = messages_of(messages)
    shares: list[int | None] = [at for at, turn in enumerate(turns) for _ in turn]
    flat = [message for turn in turns for message in turn]
    if system is not None and not isinstance(system, str):
        raise InputError("system: text is needed here.", field="system")
    first = [{"role": "system", "content": system}] if system else []
    return from_openai([*first, *flat], metadata=metadata), [*([None] * len(first)), *shares]


def read_anthropic(messages: list[Any], system: Any, metadata: MemoryMetadata) -> Read:
    """Read messages of Anthropic's API."""
    items = from_anthropic(messages, system=system, metadata=metadata)
    before = len(from_anthropic([], system=system))
    shares: list[int | None] = [at for at, message in enumerate(messages) for _ in range(_parts(message))]
    if len(shares) > len(items) - before:
        # The opening that to_anthropic() puts before an assistant's first words is not a message.
        shares.remove(next(at for at, message in enumerate(messages) if message["role"] != "system"))
    return items, [*([None] * before), *shares]


def _parts(message: Mapping[str, Any]) -> int:
    """Return how many items an Anthropic message becomes: each result is one, and all other content is one."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    results = sum(block.get("type") == "tool_result" for block in blocks)
    return results + (len(blocks) > results) if results else 1


READERS: Mapping[FileFormat, Reader] = {
    FileFormat.OPENAI: read_openai,
    FileFormat.ANTHROPIC: read_anthropic,
    FileFormat.SHAREGPT: read_sharegpt,
}
