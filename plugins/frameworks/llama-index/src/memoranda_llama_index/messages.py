"""LlamaIndex's chat messages as items, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ToolCallBlock,
    VideoBlock,
)

from memoranda.items import MemoryItem
from memoranda.tool_calls import call_arguments, call_name
from memoranda_messages.sessions import Fields, JsonObject, MessageFormat, Outgoing, Part, Result, Template

_TYPES = {
    "system": "system",
    "developer": "system",
    "user": "human",
    "assistant": "ai",
    "chatbot": "ai",
    "model": "ai",
    "tool": "tool",
    "function": "tool",
}
_ROLES = {
    "human": MessageRole.USER,
    "ai": MessageRole.ASSISTANT,
    "tool": MessageRole.TOOL,
    "system": MessageRole.SYSTEM,
}
_DATA = {"image": "image", "audio": "audio", "video": "video", "document": "data"}
"""The blocks that have data, and under which key."""

_KNOWN = {"text", "thinking", "tool_call", "cache", *_DATA}
_SAID = {"tool_call_id", "name", "session_id", "reasoning_content"}
"""The keys beside a message's blocks that its fields or parts have, or that no model is sent."""

_MESSAGE = Template(ChatMessage())
_TEXT: Template[Any] = Template(TextBlock(text=""))
_TOOL_CALL: Template[Any] = Template(ToolCallBlock(tool_name="", tool_kwargs={}))
_MADE_ROLES = {role.value: role for role in _ROLES.values()}
_MADE_TYPES = {role: kind for kind, role in _ROLES.items()}
_CALL_FIELDS = {"id", "name", "arguments"}
_SCALARS = frozenset({str, int, bool, type(None)})


class LlamaIndexFormat(MessageFormat[ChatMessage]):
    """``ChatMessage``, with blocks of every kind."""

    name = "llama-index"
    holds = frozenset({"name"})

    def dump(self, message: ChatMessage) -> JsonObject:
        """Return all fields of a message, its data in base64."""
        return message.model_dump(mode="json")

    def load(self, given: JsonObject) -> ChatMessage:
        """Return the message. Raises ValueError for blocks that this release does not know, or whose file is gone."""
        return ChatMessage.model_validate(given)

    def from_fields(self, item: MemoryItem) -> JsonObject | None:
        """Return the object of a message of one text and calls, or of a result."""
        held = item.__dict__
        kind, content, call_id = held["memory_type"], held["content"], held.get("tool_call_id")
        if kind not in _ROLES or held["name"] is not None or item.__pydantic_extra__:
            return None
        if held.get("is_error") or held.get("also_answers") or (kind == "tool" and not call_id):
            return None
        blocks: list[JsonObject] = [{"block_type": "text", "text": content}] if content else []
        for call in held.get("tool_calls") or ():
            if call.keys() != _CALL_FIELDS or type(call["name"]) is not str or type(call["arguments"]) is not dict:
                return None
            named = {"block_type": "tool_call", "tool_call_id": call["id"], "tool_name": call["name"]}
            blocks.append({**named, "tool_kwargs": call["arguments"]})
        if not blocks and kind != "tool":
            return None  # Without a payload, other frameworks would take it for an empty message.
        beside = {"tool_call_id": call_id} if kind == "tool" else {}
        return {"role": _ROLES[kind].value, "additional_kwargs": beside, "blocks": blocks}

    def plain_fields(self, message: ChatMessage) -> Fields | None:
        """Return the fields of a message of one text and calls, or of a result, with plain values alone."""
        held = message.__dict__
        kind, blocks, beside = _MADE_TYPES.get(held["role"]), held["blocks"], held["additional_kwargs"]
        if kind is None or type(message) is not ChatMessage or type(blocks) is not list:
            return None
        fields: Fields = {"memory_type": kind, "content": ""}
        calls = []
        for place, block in enumerate(blocks):
            if type(block) is TextBlock and not place and type(block.text) is str and block.text:
                fields["content"] = block.text
            elif type(block) is ToolCallBlock and kind == "ai" and (call := _plain_call(block)):
                calls.append(call)
            else:
                return None
        if kind == "tool":
            if type(beside) is not dict or beside.keys() != {"tool_call_id"}:
                return None
            fields["tool_call_id"] = call_id = beside["tool_call_id"]
            return fields if type(call_id) is str and call_id else None
        if beside != {} or not blocks:
            return None
        return fields | {"tool_calls": calls} if calls else fields

    def made(self, given: JsonObject) -> ChatMessage:
        """Return the message of an object that :meth:`from_fields` returned."""
        blocks = [_TEXT(**each) if each["block_type"] == "text" else _TOOL_CALL(**each) for each in given["blocks"]]
        return _MESSAGE(role=_MADE_ROLES[given["role"]], additional_kwargs=given["additional_kwargs"], blocks=blocks)

    def read(self, given: JsonObject) -> list[Fields]:
        """Return the fields of a message."""
        kind, blocks, beside = _TYPES[given["role"]], given.get("blocks") or [], given.get("additional_kwargs") or {}
        name = beside["name"] if isinstance(beside.get("name"), str) else None
        texts = [text for block in blocks for text in _texts(block)]
        fields: Fields = {"memory_type": kind, "content": "\n".join(texts), "parts": list(_parts(blocks, beside))}
        unknown = {block["block_type"] for block in blocks if block["block_type"] not in _KNOWN or _is_elsewhere(block)}
        unknown |= {key for key, value in beside.items() if value and key not in _SAID}
        if kind == "tool":
            fields |= {"tool_call_id": str(beside.get("tool_call_id") or ""), "tool_name": name or ""}
        else:
            fields["name"] = name
            fields["tool_call_id"] = beside.get("tool_call_id")
        fields["tool_calls"] = _calls(blocks, beside)
        if isinstance(beside.get("tool_calls"), list):
            unknown.discard("tool_calls")
        return [fields | {"provider_parts": sorted(unknown)}]

    def roles(self, given: JsonObject) -> list[str]:
        """Return the role of a message."""
        return [given["role"]]

    def write(self, outgoing: Outgoing) -> ChatMessage:
        """Return a message. Images, audio and files go along with a person's message or a result, not with others."""
        beside: dict[str, Any] = {}
        if outgoing.role == "tool":
            (result,) = outgoing.results
            blocks = _blocks(result.text, result)
            beside = {"tool_call_id": result.call_id} | ({"name": result.name} if result.name else {})
        else:
            blocks = _blocks(outgoing.text, outgoing if outgoing.role == "human" else None)
            if name := outgoing.legal_name():
                beside["name"] = name
        blocks += [
            ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=call.values) for call in outgoing.calls
        ]
        return ChatMessage(role=_ROLES[outgoing.role], blocks=blocks, additional_kwargs=beside)


def _plain_call(block: ToolCallBlock) -> JsonObject | None:
    """Return the call that a block asks for; None if it has no id, or any value but texts and whole numbers."""
    call_id, name, values = block.tool_call_id, block.tool_name, block.tool_kwargs
    if type(call_id) is not str or not call_id or type(name) is not str or type(values) is not dict:
        return None
    if {*map(type, values)} - {str} or {*map(type, values.values())} - _SCALARS:
        return None
    return {"id": call_id, "name": name, "arguments": values.copy()}


def _calls(blocks: list[JsonObject], beside: Mapping[str, Any]) -> list[JsonObject]:
    """Return the calls of a message: those in blocks, and those that older integrations keep beside them, each once."""
    found = [_call(block) for block in blocks if block["block_type"] == "tool_call"]
    in_blocks = [(call["id"], call["name"], call_arguments(call)) for call in found]
    old = beside.get("tool_calls")
    older = old if isinstance(old, list) else []
    asked = [(call.get("id"), call_name(call), call_arguments(call)) for call in older]
    found += [dict(zip(("id", "name", "arguments"), call, strict=True)) for call in asked if call not in in_blocks]
    return [call | {"id": call["id"] or f"call_{position}"} for position, call in enumerate(found)]


def _call(block: JsonObject) -> JsonObject:
    """Return the call that a block asks for."""
    return {"id": block.get("tool_call_id"), "name": block["tool_name"], "arguments": block["tool_kwargs"]}


def _texts(block: JsonObject) -> Iterator[str]:
    """Yield what a block says: a text, or the texts that a source to cite is made of."""
    if block["block_type"] == "text":
        yield block["text"]
    elif block["block_type"] == "citable":
        for inner in block.get("content") or ():
            yield from _texts(inner)


def _is_elsewhere(block: JsonObject) -> bool:
    """Return True for an image, a recording or a document that is only named, by the path of a file."""
    kind = block["block_type"]
    return kind in _DATA and not block.get("url") and not block.get(_DATA[kind])


def _parts(blocks: list[JsonObject], beside: Mapping[str, Any]) -> Iterator[Part]:
    for block in blocks:
        kind = block["block_type"]
        if kind == "thinking":
            known = block.get("additional_information") or {}
            yield Part("reasoning", text=block.get("content"), signature=known.get("signature"))
        elif kind in _DATA and not _is_elsewhere(block):
            media_type = block.get(f"{kind}_mimetype") or ""
            if kind == "audio":
                media_type = f"audio/{block.get('format') or 'wav'}".replace("/mp3", "/mpeg")
            family: Any = "file" if kind == "document" else kind
            if block.get("url"):
                yield Part.from_url(family, block["url"], name=block.get("title"), media_type=media_type)
            else:
                yield Part(family, media_type=media_type, data=block[_DATA[kind]], name=block.get("title"))
    if isinstance(thought := beside.get("reasoning_content"), str):
        yield Part("reasoning", text=thought)


def _blocks(text: str, holder: Outgoing | Result | None) -> list[ContentBlock]:
    """Return a text and the images, recordings and files of an item as blocks."""
    blocks: list[ContentBlock] = [TextBlock(text=text)] if text else []
    return blocks + (holder.media(_block, lambda said: TextBlock(text=said)) if holder else [])


def _block(part: Part) -> ContentBlock | None:
    if part.as_url is None:
        return None
    held: dict[str, Any] = {"url": part.url}
    data, media_type = part.data.encode() if part.data is not None else None, part.media_type or None
    if part.kind == "image":
        return ImageBlock(image=data, image_mimetype=media_type, **held)
    if part.kind == "audio":
        made = (part.media_type.partition("/")[2] or "wav").replace("mpeg", "mp3")
        return AudioBlock(audio=data, format=made, **held)
    if part.kind == "video":
        return VideoBlock(video=data, video_mimetype=media_type, **held)
    return DocumentBlock(data=data, title=part.name, document_mimetype=media_type, **held)
