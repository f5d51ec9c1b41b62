"""Strands' messages as items, and back.

A message is one item for each tool result, and one for all else that it says. If a message was redacted, its items say
what it was redacted to.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from strands.types.content import ContentBlock, Message
from strands.types.session import SessionMessage

from memoranda.errors import InputError
from memoranda_messages.sessions import Fields, JsonObject, MessageFormat, Outgoing, Part, Result

FORMAT = "strands"
UNNUMBERED = -1
"""The number of a message that another framework wrote."""

_DOCUMENTS = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
_FORMATS = {media_type: name for name, media_type in _DOCUMENTS.items()}
_IMAGES = frozenset({"png", "jpeg", "gif", "webp"})
_KNOWN = frozenset({"text", "type", "image", "document", "video", "audio", "reasoningContent", "toolUse", "toolResult"})
_BESIDE = frozenset({"cachePoint"})


class SessionMessageFormat(MessageFormat[SessionMessage]):
    """How messages are stored. ``owner`` are the session and the agent, from which ids of items are derived.

    ``derived_id`` is that of the store. Without it, every item has a new id.
    """

    name = FORMAT
    holds = frozenset({"is_error"})
    joins_results = True

    def __init__(self, *owner: str | None, derived_id: Callable[[str], str] | None = None) -> None:
        self._owner = owner
        self._derived_id = derived_id

    def dump(self, message: SessionMessage) -> JsonObject:
        """Return a message as a JSON object."""
        return message.to_dict()

    def load(self, given: JsonObject) -> SessionMessage:
        """Return the message of an object."""
        return SessionMessage.from_dict(given)

    def read(self, given: JsonObject) -> list[Fields]:
        """Return the fields of the items of a message: its tool results, then the rest."""
        message = given.get("redact_message") or given["message"]
        blocks = message["content"]
        found = [_result_fields(block["toolResult"]) for block in blocks if "toolResult" in block]
        rest = [block for block in blocks if "toolResult" not in block]
        if rest:
            found.append(_spoken_fields(message["role"], rest))
        for position, fields in enumerate(found):
            fields["created_at"] = given["created_at"]
            if self._derived_id is not None:
                fields["id"] = self.item_id(given["message_id"], position)
        return found

    def roles(self, given: JsonObject) -> list[str]:
        """Return the role of a message, and of what it was redacted to."""
        return [message["role"] for message in (given["message"], given.get("redact_message")) if message]

    def item_id(self, number: int, position: int = 0) -> str:
        """Return the id of an item of a message of this session and agent."""
        if self._derived_id is None:
            raise InputError("Ids of items are derived by a store: give its derived_id.", field="derived_id")
        return self._derived_id(json.dumps([FORMAT, *self._owner, number, position]))

    def write(self, outgoing: Outgoing) -> SessionMessage | None:
        """Return a message that says what the items say. System messages have no place in Strands."""
        if outgoing.role == "system":
            return None
        content: list[ContentBlock] = [*_results(outgoing.results)]
        content += [{"text": outgoing.text}] if outgoing.text else []
        content += outgoing.media(_block)
        content += [
            {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.values}} for call in outgoing.calls
        ]
        if not content:
            return None
        message: Message = {"role": "assistant" if outgoing.role == "ai" else "user", "content": content}
        first = outgoing.items[0]
        return SessionMessage(message, UNNUMBERED, created_at=first.created_at, updated_at=first.updated_at)


def _result_fields(result: Mapping[str, Any]) -> Fields:
    content = result.get("content") or ()
    return {
        "memory_type": "tool",
        "content": "\n".join(_texts(content)),
        "tool_call_id": result["toolUseId"],
        "is_error": result.get("status") == "error",
        "parts": [part for block in content for part in _parts(block)],
    }


def _texts(content: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for block in content:
        if "text" in block:
            yield block["text"]
        elif "json" in block:
            yield json.dumps(block["json"], ensure_ascii=False)


def _spoken_texts(blocks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what blocks say: their own texts, and those that citations and guards are wrapped around."""
    for block in blocks:
        wrapped = [*((block.get("citationsContent") or {}).get("content") or ()), block.get("guardContent") or {}]
        texts = [block.get("text"), *(held.get("text") for held in wrapped)]
        yield from (text["text"] if isinstance(text, Mapping) else text for text in texts if text)


def _spoken_fields(role: str, blocks: list[JsonObject]) -> Fields:
    fields: Fields = {
        "memory_type": "ai" if role == "assistant" else "human",
        "content": "\n".join(_spoken_texts(blocks)),
        "parts": [part for block in blocks for part in _parts(block)],
        "provider_parts": sorted({name for block in blocks for name in block} - _KNOWN - _BESIDE),
    }
    calls = [block["toolUse"] for block in blocks if "toolUse" in block]
    if calls:
        fields["tool_calls"] = [
            {"id": call["toolUseId"], "name": call["name"], "arguments": call.get("input")} for call in calls
        ]
    return fields


def _parts(block: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the parts of a block; its bytes are as Strands writes them in JSON."""
    if reasoning := block.get("reasoningContent"):
        said = reasoning.get("reasoningText") or {}
        hidden = (reasoning.get("redactedContent") or {}).get("data")
        yield Part("reasoning", text=said.get("text"), signature=said.get("signature") or hidden)
    for kind in ("image", "audio", "video", "document"):
        if held := block.get(kind):
            source, made = held.get("source") or {}, held.get("format") or ""
            media_type = _DOCUMENTS.get(made, "application/octet-stream") if kind == "document" else f"{kind}/{made}"
            data = (source.get("bytes") or {}).get("data")
            url = (source.get("location") or {}).get("uri")
            if data or url:
                yield Part.of_media(media_type, data=data, url=url, name=held.get("name"))
            # Bedrock reads these, too, whatever Strands' own types say.
            written = [source, *(source.get("content") or ()), {"text": held.get("context")}]
            for text in filter(None, [each.get("text") for each in written]):
                yield Part("file", media_type="text/plain", text=text, name=held.get("name"))


def _block(part: Part) -> Any:
    """Return an image, a recording or a document as a block; None if it has no data and does not lie in S3."""
    kind = "document" if part.kind == "file" else part.kind
    made = _FORMATS.get(part.media_type, "") if kind == "document" else part.media_type.partition("/")[2]
    source: dict[str, Any] = {}
    if part.data is not None:
        source = {"bytes": base64.b64decode(part.data)}
    elif part.text is not None:
        source = {"bytes": part.text.encode()}
    elif part.url is not None and part.url.startswith("s3://"):
        source = {"location": {"type": "s3", "uri": part.url}}
    if not source or not made or (kind == "image" and made not in _IMAGES):
        return None
    named = {"name": part.name or "document"} if kind == "document" else {}
    return {kind: {"format": made, "source": source, **named}}


def _results(results: Iterable[Result]) -> Iterator[ContentBlock]:
    for result in results:
        content: list[Any] = [{"text": result.text}] if result.text else []
        content += result.media(_block)
        status: Any = "error" if result.is_error else "success"
        held: Any = {"toolUseId": result.call_id, "status": status, "content": content or [{"text": ""}]}
        yield {"toolResult": held}
