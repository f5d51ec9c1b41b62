"""What a message holds beside text, calls and results, in a form that any format can read: images, files, reasoning.

The formats of this package are read from the payload itself. A framework's own message is stored in a frame: the
message, and a list of its parts, whose long texts point into the message, so that an image is stored once and can be
read without the framework. If a message consists of several items, the first one has the message; the others name it.
A frame also has a digest of the item's fields. If an item was changed since, its parts may repeat what was removed from
it, and they no longer count.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self, get_args

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.shapes import json_text
from memoranda_messages.payload_json import decode_payload
from memoranda_messages.payloads import READERS, usable_payload

Block = dict[str, Any]
Kind = Literal["image", "audio", "video", "file", "reasoning"]
KINDS: frozenset[str] = frozenset(get_args(Kind))

_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*?)(;base64)?,", re.IGNORECASE)
_ANTHROPIC_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_CHAT_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


@dataclass(frozen=True, slots=True)
class Part:
    """An image, a recording, a file or the reasoning of a model.

    ``data`` is base64; a part has either that or a ``url``. ``text`` is what reasoning says, or what a file or a
    recording says in words. ``signature`` vouches for reasoning to the ``provider`` that gave it, and to no other.
    """

    kind: Kind
    media_type: str = ""
    data: str | None = None
    url: str | None = None
    name: str | None = None
    text: str | None = None
    signature: str | None = None
    provider: str | None = None

    @classmethod
    def from_url(cls, kind: Kind, url: str, *, name: str | None = None, media_type: str = "") -> Self:
        """Return the part at a URL. A ``data:`` URL in base64 becomes data."""
        found = _DATA_URL.match(url)
        if found and found[3]:
            return cls(kind, media_type=media_type or found[1], data=url[found.end() :], name=name)
        return cls(kind, media_type=media_type, url=url, name=name)

    @classmethod
    def of_media(
        cls, media_type: str, *, data: str | None = None, url: str | None = None, name: str | None = None
    ) -> Self:
        """Return a part whose kind is that of a media type, such as ``image/png``."""
        family = media_type.partition("/")[0]
        kind: Any = family if family in ("image", "audio", "video") else "file"
        return cls(kind, media_type=media_type, data=data, url=url, name=name)

    @property
    def as_url(self) -> str | None:
        """The URL, or the data as a ``data:`` URL; None if there is neither."""
        if self.data is None:
            return self.url
        return f"data:{self.media_type or 'application/octet-stream'};base64,{self.data}"

    def __repr__(self) -> str:
        return f"Part({self.kind!r}, media_type={self.media_type!r}, provider={self.provider!r})"


def _blocks(message: Any, *keys: str) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a message, of a list of blocks, or of the content of such a block."""
    if isinstance(message, list):
        for block in message:
            if isinstance(block, dict):
                yield block
                yield from _blocks(block, *keys)
    elif isinstance(message, dict):
        for key in keys:
            yield from _blocks(message.get(key) if isinstance(message.get(key), list) else None, *keys)


def _inner(block: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = block.get(key)
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _chat_parts(message: Any) -> Iterator[Part]:
    """Yield the parts of a message of chat completions."""
    if isinstance(message, dict):
        thought = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
        if thought:
            yield Part("reasoning", text=thought)
    for block in _blocks(message, "content"):
        kind = block.get("type")
        if kind == "image_url" and (url := _text(_inner(block, "image_url").get("url"))):
            yield Part.from_url("image", url)
        elif kind == "input_audio" and (data := _text(_inner(block, "input_audio").get("data"))):
            made = _text(_inner(block, "input_audio").get("format")) or "wav"
            yield Part("audio", media_type="audio/mpeg" if made == "mp3" else f"audio/{made}", data=data)
        elif kind == "file" and (url := _text(_inner(block, "file").get("file_data"))):
            yield Part.from_url("file", url, name=_text(_inner(block, "file").get("filename")))


def _responses_parts(message: Any) -> Iterator[Part]:
    """Yield the parts of an item of the Responses API."""
    if isinstance(message, dict) and message.get("type") == "reasoning":
        texts = [_text(block.get("text")) for block in _blocks(message, "summary", "content")]
        text = "\n".join(filter(None, texts)) or None
        signature = _text(message.get("encrypted_content"))
        yield Part("reasoning", text=text, signature=signature, name=_text(message.get("id")), provider="openai")
    for block in _blocks(message, "content", "output"):
        kind = block.get("type")
        if kind == "input_image" and (url := _text(block.get("image_url"))):
            yield Part.from_url("image", url)
        elif kind == "input_file":
            url = _text(block.get("file_data")) or _text(block.get("file_url"))
            if url:
                yield Part.from_url("file", url, name=_text(block.get("filename")))


def _anthropic_parts(message: Any) -> Iterator[Part]:
    """Yield the parts of an Anthropic message, or of a piece of one."""
    for block in _blocks(message, "content"):
        kind = block.get("type")
        if kind in ("image", "document"):
            source = _inner(block, "source")
            media_type, name = _text(source.get("media_type")) or "", _text(block.get("title"))
            family: Kind = "image" if kind == "image" else "file"
            if source.get("type") == "base64" and (data := _text(source.get("data"))):
                yield Part(family, media_type=media_type, data=data, name=name)
            elif source.get("type") == "url" and (url := _text(source.get("url"))):
                yield Part.from_url(family, url, name=name, media_type="" if kind == "image" else "application/pdf")
            elif source.get("type") == "text" and (text := _text(source.get("data"))):
                yield Part(family, media_type=media_type or "text/plain", text=text, name=name)
            if kind == "document" and (context := _text(block.get("context"))):
                yield Part(family, media_type="text/plain", text=context, name=name)
        elif kind == "thinking":
            signature = _text(block.get("signature"))
            yield Part("reasoning", text=_text(block.get("thinking")), signature=signature, provider="anthropic")
        elif kind == "redacted_thinking":
            yield Part("reasoning", signature=_text(block.get("data")), name=kind, provider="anthropic")


PART_READERS: Mapping[str, Callable[[Any], Iterator[Part]]] = {
    "openai": _chat_parts,
    "responses": _responses_parts,
    "anthropic": _anthropic_parts,
}
"""What reads the parts of a message, by the name of its format."""


def _chat_block(part: Part, memory_type: str) -> Block | None:
    """Return a part as a block of chat completions, which only a user's message can have."""
    if memory_type != "human" or part.as_url is None:
        return None
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": part.as_url}}
    if part.kind == "audio" and part.data is not None and part.media_type in _CHAT_AUDIO:
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": _CHAT_AUDIO[part.media_type]}}
    if part.kind == "file" and part.data is not None:
        return {"type": "file", "file": {"filename": part.name or "file", "file_data": part.as_url}}
    return None


def _responses_block(part: Part, memory_type: str) -> Block | None:
    """Return a part as a block of the Responses API, which the model's own messages cannot have."""
    if memory_type == "ai" or part.as_url is None:
        return None
    if part.kind == "image":
        return {"type": "input_image", "image_url": part.as_url, "detail": "auto"}
    if part.kind == "file" and part.data is not None:
        return {"type": "input_file", "filename": part.name or "file", "file_data": part.as_url}
    return {"type": "input_file", "file_url": part.url} if part.kind == "file" else None


def _anthropic_block(part: Part, memory_type: str) -> Block | None:
    """Return a part as an Anthropic block: reasoning that this provider signed, or what a user may send."""
    if part.kind == "reasoning":
        if memory_type != "ai" or part.provider != "anthropic" or part.signature is None:
            return None
        if part.name == "redacted_thinking":
            return {"type": "redacted_thinking", "data": part.signature}
        return {"type": "thinking", "thinking": part.text or "", "signature": part.signature}
    if memory_type not in ("human", "tool"):
        return None
    if part.kind == "image":
        if part.data is not None and part.media_type not in _ANTHROPIC_IMAGES:
            return None
        source = _anthropic_source(part)
        return {"type": "image", "source": source} if source else None
    if part.kind != "file":
        return None
    if part.text is not None:
        source = {"type": "text", "media_type": "text/plain", "data": part.text}
    else:
        source = _anthropic_source(part) if part.media_type == "application/pdf" else None
    titled = {"title": part.name} if part.name else {}
    return {"type": "document", "source": source, **titled} if source else None


def _anthropic_source(part: Part) -> Block | None:
    if part.data is not None:
        return {"type": "base64", "media_type": part.media_type, "data": part.data}
    return {"type": "url", "url": part.url} if part.url else None


PART_WRITERS: Mapping[str, Callable[[Part, str], Block | None]] = {
    "openai": _chat_block,
    "responses": _responses_block,
    "anthropic": _anthropic_block,
}
"""What writes a part of an item of a type, by the name of the format; None if the format has no place for it."""


__all__ = ["Part", "frame", "framed", "parts_of"]

_URL_SAFE = str.maketrans("-_", "+/")
_LONG = 64
"""From how many characters on a text is stored as a pointer into the message."""

_COMPARED = ("memory_type", "content", "name", "tool_calls", "tool_call_id", "tool_name", "is_error")


def frame(item: MemoryItem, message: Any, parts: Sequence[Part], first: str | None = None) -> dict[str, Any]:
    """Return what is stored of a framework's message with an item: the message, and its parts with a digest.

    ``first`` is the id of the item that has the message, if it is another one.
    """
    held: dict[str, Any] = {"message": message} if first is None else {"of": first}
    if parts:
        held |= {"parts": [_stored(part, message) for part in parts], "fields": _digest(item)}
    return held


def framed(item: MemoryItem) -> dict[str, Any] | None:
    """Return the frame of an item that a framework wrote; None for any other payload."""
    if item.payload is None or item.payload_format is None or item.payload_format in READERS:
        return None
    try:
        held = decode_payload(item.payload)
    except InputError:
        return None
    return held if isinstance(held, dict) and ("message" in held or "of" in held) else None


def parts_of(item: MemoryItem, among: Mapping[str, MemoryItem] | None = None) -> list[Part]:
    """Return the parts of an item, in their order, whichever framework wrote it; none if the item was changed since.

    ``among`` are the items of the conversation by their id. They are needed if a message consists of several items.
    """
    if item.payload_format in READERS:
        payload = usable_payload(item, item.payload_format, READERS[item.payload_format])
        return list(PART_READERS[item.payload_format](payload.message)) if payload and payload.whole else []
    held = framed(item)
    if held is None or not isinstance(held.get("parts"), list) or held.get("fields") != _digest(item):
        return []
    message = held.get("message")
    first = (among or {}).get(str(held.get("of")))
    if "of" in held and first is not None and first.payload_format == item.payload_format:
        message = (framed(first) or {}).get("message")
    found = [_loaded(part, message) for part in held["parts"]]
    return [part for part in found if part is not None and _may_come(part, item)]


def _may_come(part: Part, item: MemoryItem) -> bool:
    """Return True unless a part is nothing but text: an item says all its texts itself, and only a model reasons."""
    return item.memory_type == "ai" if part.kind == "reasoning" else part.as_url is not None


def _digest(item: MemoryItem) -> str:
    """Return a short digest of the fields that say what an item says; a missing field counts as an empty one."""
    text = json_text([getattr(item, name, None) or None for name in _COMPARED])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _stored(part: Part, message: Any) -> dict[str, Any]:
    stored: dict[str, Any] = {name: value for name, value in asdict(part).items() if value}
    for name in ("data", "url", "text", "signature"):
        value = stored.get(name)
        if value is not None and len(value) >= _LONG and (found := _place_of(value, message)) is not None:
            stored[name] = found
    return stored


def _place_of(text: str, message: Any) -> dict[str, Any] | None:
    """Return where a message has a text, or has it at the end of another, as a ``data:`` URL has."""
    stack: list[tuple[str, Any]] = [("", message)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, str):
            if value.endswith(text):
                start = len(value) - len(text)
                return {"at": place} | ({"from": start} if start else {})
        elif isinstance(value, dict):
            stack += [(f"{place}/{_escaped(key)}", inner) for key, inner in value.items()]
        elif isinstance(value, list):
            stack += [(f"{place}/{position}", inner) for position, inner in enumerate(value)]
    return None


def _escaped(key: Any) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _loaded(stored: Any, message: Any) -> Part | None:
    if not isinstance(stored, dict) or stored.get("kind") not in KINDS:
        return None
    values: dict[str, Any] = {}
    for name in ("kind", "media_type", "data", "url", "name", "text", "signature", "provider"):
        value = stored.get(name)
        if isinstance(value, dict):
            value = _at(value, message)
        if isinstance(value, str):
            values[name] = value
    part = Part(**values)
    if part.kind != "reasoning" and part.data is part.url is part.text is None:
        return None
    if part.data is not None:
        part = replace(part, data=part.data.translate(_URL_SAFE))
    return part


def _at(pointer: Mapping[str, Any], message: Any) -> Any:
    """Return the text that a pointer leads to; None if it leads nowhere."""
    place, start = pointer.get("at"), pointer.get("from", 0)
    if not isinstance(place, str) or not isinstance(start, int):
        return None
    value = message
    for step in place.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value[start:] if isinstance(value, str) else None
