"""A part of a message, and how each format of this package writes one: the blocks of its content, read and written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

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
