"""ADK's events as items, and back.

An event is one item for each function response, and one for all else that it says. Events without content, such as a
change of state, are stored and returned, and no other framework sees them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from google.adk.events.event import Event
from google.genai import types
from pydantic_core import to_json

from memoranda.items import utc_text
from memoranda_sessions import Fields, JsonObject, MessageFormat, Outgoing, Part, Result

FORMAT = "adk"
USER = "user"
"""The author of what people say; any other author is an agent."""

_GOOGLE = frozenset({"google", "gemini", "google-gla", "google-vertex"})
_MEDIA = ("image", "audio", "video", "file")
_KNOWN = frozenset({"text", "thought", "thought_signature", "inline_data", "file_data", "function_call"})
_BESIDE = frozenset({"video_metadata", "media_resolution", "part_metadata", "speech_metadata", "media_processing"})


class EventFormat(MessageFormat[Event]):
    """How events are stored. ``agent`` is the author of what the models of other frameworks said.

    ``session`` are the names of the app, the user and the session. With them, an item's id is derived from its event's
    id, so that an event that is delivered twice is stored once.
    """

    name = FORMAT
    holds = frozenset({"name", "is_error"})
    joins_results = True

    def __init__(self, agent: str, session: tuple[str, ...] | None = None) -> None:
        self._agent = agent
        self._session = session

    def dump(self, message: Event) -> JsonObject:
        """Return an event as a JSON object."""
        dumped: JsonObject = message.model_dump(mode="json", exclude_none=True)
        return dumped

    def load(self, given: JsonObject) -> Event:
        """Return the event of an object."""
        return Event.model_validate_json(to_json(given))  # Only from JSON does pydantic decode base64.

    def read(self, given: JsonObject) -> list[Fields]:
        """Return the fields of the items of an event: its function responses, then what its author says."""
        said = [part for part in (given.get("content") or {}).get("parts") or () if part]
        calls = _identified(part["function_call"] for part in said if "function_call" in part)
        answers = _identified(part["function_response"] for part in said if "function_response" in part)
        found = [_result_fields(call_id, answer) for call_id, answer in answers]
        rest = [part for part in said if "function_response" not in part]
        if rest:
            found.append(_spoken_fields(given.get("author") or "", rest, calls))
        found = found or [{"memory_type": "item", "content": "", "provider_parts": [FORMAT]}]
        moment = moment_of(given.get("timestamp"))
        for position, fields in enumerate(found):
            fields |= {"created_at": moment} if moment else {}
            fields |= {} if self._session is None else {"id": self.item_id(given["id"], position)}
        return found

    def item_id(self, event_id: str, position: int = 0) -> str:
        """Return the id of an item of an event of this session."""
        key = json.dumps([FORMAT, *(self._session or ()), event_id, position])
        return hashlib.sha256(key.encode()).hexdigest()

    def write(self, outgoing: Outgoing) -> Event | None:
        """Return an event that says what the items say. ADK has no place for system messages: agents have those."""
        if outgoing.role == "system":
            return None
        first = outgoing.items[0]
        author = USER if outgoing.role == "human" else outgoing.name or self._agent
        if outgoing.role == "human" and outgoing.name:
            outgoing.lose("name")
        parts = [*_thoughts(outgoing), *([types.Part(text=outgoing.text)] if outgoing.text else [])]
        parts += [_media(part) for part in outgoing.take(*_MEDIA) if _has_place(outgoing, part)]
        parts += [
            types.Part(function_call=types.FunctionCall(id=call.id, name=call.name, args=call.values))
            for call in outgoing.calls
        ]
        parts += [_response(result) for result in outgoing.results]
        content = types.Content(role="model" if outgoing.role == "ai" else "user", parts=parts)
        moment = datetime.fromisoformat(first.created_at).timestamp()
        return Event(id=first.id, invocation_id=first.id, author=author, content=content, timestamp=moment)


def _identified(given: Iterable[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return calls or responses with their ids; those that have none are told apart by name and order."""
    seen: dict[str, int] = {}
    found = []
    for one in given:
        name = str(one.get("name") or "function")
        seen[name] = seen.get(name, 0) + 1
        found.append((one.get("id") or (name if seen[name] == 1 else f"{name}-{seen[name]}"), one))
    return found


def _result_fields(call_id: str, answer: Mapping[str, Any]) -> Fields:
    response = answer.get("response") or {}
    only = next(iter(response.values())) if len(response) == 1 else None
    known = isinstance(only, str) and response.keys() <= {"result", "output", "error"}
    return {
        "memory_type": "tool",
        "content": only if known else json.dumps(response, ensure_ascii=False),
        "tool_call_id": call_id,
        "tool_name": answer.get("name") or "",
        "is_error": "error" in response,
        "parts": [part for given in answer.get("parts") or () for part in _media_parts(given)],
    }


def _spoken_fields(author: str, said: list[JsonObject], calls: list[tuple[str, Mapping[str, Any]]]) -> Fields:
    texts = [part["text"] for part in said if part.get("text") and not part.get("thought")]
    others = {name for part in said for name in part if name not in _KNOWN and name not in _BESIDE}
    fields: Fields = {
        "memory_type": "human" if author == USER else "ai",
        "content": "\n".join(texts),
        "name": None if author == USER else author or None,
        "parts": [found for part in said for found in (*_reasoning(part), *_media_parts(part))],
        "provider_parts": sorted(others),
    }
    if calls and author != USER:
        fields["tool_calls"] = [
            {"id": call_id, "name": call.get("name") or "", "arguments": call.get("args") or {}}
            for call_id, call in calls
        ]
    return fields


def _reasoning(part: Mapping[str, Any]) -> Iterator[Part]:
    signature = part.get("thought_signature")
    if part.get("thought"):
        yield Part("reasoning", text=part.get("text"), signature=signature, provider="google")
    elif signature:  # It vouches for the thoughts that led to a call or a text.
        yield Part("reasoning", signature=signature, provider="google")


def _media_parts(part: Mapping[str, Any]) -> Iterator[Part]:
    for held in (part.get("inline_data"), part.get("file_data")):
        if held:
            kind, name = held.get("mime_type") or "", held.get("display_name")
            yield Part.of_media(kind, data=held.get("data"), url=held.get("file_uri"), name=name)


def moment_of(timestamp: Any) -> str | None:
    """Return the time of an event as an item has it; None for one that lies outside of the calendar."""
    try:
        return utc_text(datetime.fromtimestamp(timestamp, UTC))
    except (OverflowError, OSError, TypeError, ValueError):
        return None


def _thoughts(outgoing: Outgoing) -> Iterator[types.Part]:
    """Yield the thoughts that Google's models gave; those of others mean nothing to them."""
    for part in outgoing.take("reasoning"):
        if outgoing.role == "ai" and part.provider in _GOOGLE and part.text:
            signature = None if part.signature is None else base64.urlsafe_b64decode(_url_safe(part.signature))
            yield types.Part(text=part.text, thought=True, thought_signature=signature)
        else:
            outgoing.leave(part)


def _has_place(outgoing: Outgoing | Result, part: Part) -> bool:
    if part.data is None and part.url is None:
        outgoing.leave(part)
        return False
    return True


def _media(part: Part) -> types.Part:
    media_type = part.media_type or ("image/png" if part.kind == "image" else "application/octet-stream")
    if part.data is not None:
        data = base64.urlsafe_b64decode(_url_safe(part.data))
        return types.Part(inline_data=types.Blob(data=data, mime_type=media_type, display_name=part.name))
    return types.Part(file_data=types.FileData(file_uri=part.url, mime_type=media_type, display_name=part.name))


def _response(result: Result) -> types.Part:
    """Return the result of a call; what came with it, such as an image, if ADK has its data."""
    media = [part for part in result.take(*_MEDIA) if _has_place(result, part)]
    held = [_media(part) for part in media]
    blobs = [types.FunctionResponsePart.model_validate(part.model_dump(exclude_none=True)) for part in held]
    answer = types.FunctionResponse(
        id=result.call_id,
        name=result.name or "tool",
        response={"error" if result.is_error else "result": result.text},
        parts=blobs or None,
    )
    return types.Part(function_response=answer)


def _url_safe(text: str) -> str:
    return text.replace("+", "-").replace("/", "_")
