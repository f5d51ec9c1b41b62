"""Pydantic AI's messages as items, and back: a request is several items, a response one. Plain tools as its tools."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_ai import ModelRetry, Tool
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    VideoUrl,
)

from memoranda.errors import MemoryError
from memoranda_messages import PlainTool
from memoranda_messages.sessions import Fields, JsonObject, MessageFormat, Outgoing, Part, Result
from memoranda_messages.shapes import parsed

FORMAT = "pydantic-ai"

_URLS: Mapping[str, Any] = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl, "file": DocumentUrl}
_URL_KINDS: Mapping[Any, Any] = {
    "image-url": "image",
    "audio-url": "audio",
    "video-url": "video",
    "document-url": "file",
}
_NOTES = ("retry-prompt", "retry-feedback", "compaction")
"""What a program itself tells a model: of an answer that it cannot use, or of what was said before."""

_FAILED = ("failed", "retried")


class PydanticAIFormat(MessageFormat[ModelMessage]):
    """The messages of Pydantic AI. Instructions, and calls that a provider ran, are ``provider_parts``."""

    name = FORMAT
    joins_results = True
    holds = frozenset({"is_error"})

    def dump(self, message: ModelMessage) -> JsonObject:
        """Return a message as the JSON object that Pydantic AI writes."""
        dumped: JsonObject = ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]
        return dumped

    def load(self, given: JsonObject) -> ModelMessage:
        """Return the message of an object."""
        return ModelMessagesTypeAdapter.validate_json(json.dumps([given]))[0]

    def read(self, given: JsonObject) -> list[Fields]:
        """Return the items of a message: one for every prompt and result of a request, and one for a response."""
        return [_response(given["parts"])] if given["kind"] == "response" else _request(given)

    def roles(self, given: JsonObject) -> list[str]:
        """Return the role of a response. Every part of a request has its own, by its kind."""
        return ["assistant"] if given["kind"] == "response" else []

    def write(self, outgoing: Outgoing) -> ModelMessage | None:
        """Return a request or a response that says what the items say."""
        if outgoing.role == "ai":
            thoughts = [_thought(part) for part in outgoing.take("reasoning")]
            calls = [ToolCallPart(call.name, call.arguments, call.id) for call in outgoing.calls]
            return ModelResponse(parts=[*thoughts, *([TextPart(outgoing.text)] if outgoing.text else []), *calls])
        if outgoing.role == "tool":
            return ModelRequest(parts=[_return(result) for result in outgoing.results])
        if outgoing.role == "system":
            return ModelRequest(parts=[SystemPromptPart(outgoing.text)])
        files = outgoing.media(_file)
        return ModelRequest(
            parts=[UserPromptPart([*([outgoing.text] if outgoing.text else []), *files] if files else outgoing.text)]
        )


def _request(given: JsonObject) -> list[Fields]:
    found: list[Fields] = []
    others = ["instructions"] if given.get("instructions") else []
    for part in given["parts"]:
        kind = part["part_kind"]
        if kind == "system-prompt":
            found.append({"memory_type": "system", "content": part["content"]})
        elif kind == "user-prompt":
            found.append({"memory_type": "human", "content": _text(part["content"]), "parts": _parts(part["content"])})
        elif kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
            found.append(_result(part))
        elif kind == "instruction-delta":
            found.append({"memory_type": "system", "content": _text(part.get("content"))})
        elif kind == "speech":
            found.append({"memory_type": "human", "content": part.get("transcript") or "", "provider_parts": [kind]})
        elif kind in _NOTES:
            found.append({"memory_type": "item", "content": _text(part.get("content")), "provider_parts": [kind]})
        else:
            others.append(kind)
    if found and others:
        found[-1]["provider_parts"] = sorted([*found[-1].get("provider_parts", ()), *others])
    return found


def _result(part: JsonObject) -> Fields:
    return {
        "memory_type": "tool",
        "content": _text(part["content"]),
        "tool_call_id": part["tool_call_id"],
        "tool_name": part["tool_name"],
        "is_error": part["part_kind"] == "retry-prompt" or part.get("outcome") in _FAILED,
        "parts": _parts(part["content"]),
    }


def _response(parts: Sequence[JsonObject]) -> Fields:
    found: list[Part] = []
    texts: list[str] = []
    calls: list[JsonObject] = []
    others: list[str] = []
    for part in parts:
        kind = part["part_kind"]
        if kind in ("text", "compaction", "speech"):
            said = part.get("transcript") if kind == "speech" else part["content"]
            texts += [said] if said else []
            others += [] if kind == "text" else [kind]
        elif kind == "tool-call":
            asked = part.get("args")
            arguments = parsed(asked) if isinstance(asked, str) else asked or {}
            calls.append({"id": part["tool_call_id"], "name": part["tool_name"], "arguments": arguments})
        elif kind == "thinking":
            signature, provider = part.get("signature"), part.get("provider_name")
            thought = Part(
                "reasoning", text=part["content"], name=part.get("id"), signature=signature, provider=provider
            )
            found.append(thought)
        elif kind == "file":
            found += _parts([part["content"]])
        else:
            others.append(kind)
    fields: Fields = {"memory_type": "ai", "content": "\n".join(texts), "tool_calls": calls, "parts": found}
    return fields | ({"provider_parts": sorted(others)} if others else {})


def _text(content: Any) -> str:
    """Return what content says: its texts, or the JSON of anything else that is no file."""
    pieces = content if isinstance(content, list) else [content]
    texts = [_piece_text(piece) for piece in pieces if not _is_file(piece)]
    return "\n".join(text for text in texts if text)


def _piece_text(piece: Any) -> str:
    if isinstance(piece, str):
        return piece
    if isinstance(piece, dict) and piece.get("kind") == "text-content" and isinstance(piece.get("content"), str):
        return str(piece["content"])
    if isinstance(piece, dict) and piece.get("kind") == "cache-point":
        return ""
    return "" if piece is None else json.dumps(piece, ensure_ascii=False)


def _is_file(piece: Any) -> bool:
    kind = piece.get("kind") if isinstance(piece, dict) else None
    return kind in _URL_KINDS or (kind == "binary" and "data" in piece)


def _parts(content: Any) -> list[Part]:
    found = []
    for piece in filter(_is_file, content if isinstance(content, list) else [content]):
        if piece["kind"] == "binary":
            found.append(Part.of_media(piece["media_type"], data=piece["data"], name=piece.get("identifier")))
        else:
            media_type = piece.get("media_type") or ""
            found.append(Part.from_url(_URL_KINDS[piece["kind"]], piece["url"], media_type=media_type))
    return found


def _thought(part: Part) -> ThinkingPart:
    if part.provider is None:  # Without it, a signature would be worthless.
        return ThinkingPart(part.text or "")
    return ThinkingPart(part.text or "", id=part.name, signature=part.signature, provider_name=part.provider)


def _file(part: Part) -> Any:
    """Return an image, a recording or a document; None for one without data or URL."""
    if part.data is None:
        return None if part.url is None else _URLS[part.kind](part.url)
    media_type = part.media_type or "application/octet-stream"
    return BinaryContent.narrow_type(BinaryContent(base64.b64decode(part.data), media_type=media_type))


def _return(result: Result) -> ToolReturnPart[Any]:
    files = result.media(_file)
    content: Any = [*([result.text] if result.text else []), *files] if files else result.text
    outcome = "failed" if result.is_error else "success"
    return ToolReturnPart(result.name or "unnamed_tool", content, result.call_id, outcome=outcome)  # type: ignore[arg-type]


def as_tools(tools: Iterable[PlainTool]) -> list[Tool[Any]]:
    """Return tools for ``Agent(tools=…)``. After a mistake, the model is asked to try again."""
    return [Tool.from_schema(_called(tool), tool.name, tool.description, dict(tool.schema)) for tool in tools]


def _called(tool: PlainTool) -> Any:
    async def call(**arguments: Any) -> Any:
        try:
            return await tool(**arguments)
        except MemoryError as error:
            raise ModelRetry(str(error)) from error

    return call
