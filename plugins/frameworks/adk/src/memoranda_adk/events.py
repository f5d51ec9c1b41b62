"""ADK's events as items, and back.

An event is one item for each function response, and one for all else that it says. Events without content, such as a
change of state, are stored and returned, and no other framework sees them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from google.adk.events.event import Event, NodeInfo
from google.adk.events.event_actions import EventActions
from google.genai import types
from pydantic_core import to_json

from memoranda.items import MemoryItem, utc_text
from memoranda.shapes import json_text
from memoranda.speakers import may_speak_as, type_of_role
from memoranda.store import Store
from memoranda_messages.sessions import Fields, JsonObject, MessageFormat, Outgoing, Part, Result, Template

FORMAT = "adk"
USER = "user"
"""The author of what people say; any other author is an agent."""

COMPACTION = "compaction"
"""Among ``provider_parts``: the item stands for older events, which ADK no longer shows a model."""

_SERVER = {"tool_call": "server_tool_call", "tool_response": "server_tool_response"}
"""The parts for tools that the provider ran itself, by names that no call of the program's has."""

_GOOGLE = frozenset({"google", "gemini", "google-gla", "google-vertex"})
_KNOWN = frozenset({"text", "thought", "thought_signature", "inline_data", "file_data", "function_call"})
_BESIDE = frozenset({"video_metadata", "media_resolution", "part_metadata", "speech_metadata", "media_processing"})


_PART, _CONTENT = Template(types.Part()), Template(types.Content())
_EVENT, _ACTIONS, _NODE_INFO = Template(Event()), Template(EventActions()), Template(NodeInfo())
_DUMPED = Event().model_dump(mode="json", exclude_none=True)
_PLAIN = _DUMPED.keys() | {"content"}
"""What an event has that says something and does nothing else."""

_STRUCTS: dict[str, Template[Any]] = {
    "function_call": Template(types.FunctionCall()),
    "function_response": Template(types.FunctionResponse()),
}
_STRUCT_KEYS = {
    "function_call": dict.fromkeys(("id", "name", "args")).keys(),
    "function_response": dict.fromkeys(("id", "name", "response")).keys(),
}
"""What a usual call or response has; the last one is a dict, and the others are texts."""


class EventFormat(MessageFormat[Event]):
    """How events are stored. ``agent`` is the author of what the models of other frameworks said."""

    name = FORMAT
    holds = frozenset({"name", "is_error"})
    joins_results = True

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def dump(self, message: Event) -> JsonObject:
        """Return an event as a JSON object."""
        dumped: JsonObject = message.model_dump(mode="json", exclude_none=True)
        return dumped

    def load(self, given: JsonObject) -> Event:
        """Return the event of an object."""
        return Event.model_validate_json(to_json(given))  # Only from JSON does pydantic decode base64.

    def just(self, item: MemoryItem, given: JsonObject) -> Event | None:
        """Return an event that says the same text, call or response as its item, and nothing else."""
        found, held = _only_part(given), item.__dict__
        if found is None or item.__pydantic_extra__:
            return None
        kind, said = found
        role = given["content"].get("role")
        if not may_speak_as(role or "", [held["memory_type"]]) or not _says(held, given["author"], kind, said):
            return None
        part = _PART(**{kind: said if kind == "text" else _STRUCTS[kind](**said)})
        content = _CONTENT(role=role, parts=[part])
        return _EVENT(**{**given, "content": content, "actions": _ACTIONS(), "node_info": _NODE_INFO()})

    def read(self, given: JsonObject) -> list[Fields]:
        """Return the fields of the items of an event: its function responses, then what its author says.

        What was said in a call comes as a transcription, and what stands for older events as their compaction.
        """
        author = given.get("author") or ""
        found = _content_fields(given.get("content"), author) or _transcribed_fields(given)
        if compacted := _compacted(given):
            by = USER if type_of_role(compacted.get("role") or "") == "human" else ""
            summary = _content_fields(compacted, by)
            found += [
                each | {"provider_parts": sorted({*each.get("provider_parts", ()), COMPACTION})} for each in summary
            ]
        found = found or [{"memory_type": "item", "content": "", "provider_parts": [FORMAT]}]
        moment = moment_of(given.get("timestamp"))
        return [fields | ({"created_at": moment} if moment else {}) for fields in found]

    def roles(self, given: JsonObject) -> list[str]:
        """Return the roles of what an event says and of what it was compacted to."""
        contents = [given.get("content"), _compacted(given)]
        speaking = [content for content in contents if content and any(content.get("parts") or ())]
        return [content["role"] for content in speaking if content.get("role")]

    def write(self, outgoing: Outgoing) -> Event | None:
        """Return an event that says what the items say. ADK has no place for system messages: agents have those."""
        if outgoing.role == "system":
            return None
        first = outgoing.items[0]
        author = USER if outgoing.role == "human" else outgoing.name or self._agent
        if outgoing.role == "human" and outgoing.name:
            outgoing.lose("name")
        parts = [*_thoughts(outgoing), *([types.Part(text=outgoing.text)] if outgoing.text else [])]
        parts += outgoing.media(_media)
        parts += [
            types.Part(function_call=types.FunctionCall(id=call.id, name=call.name, args=call.values))
            for call in outgoing.calls
        ]
        parts += [_response(result) for result in outgoing.results]
        content = types.Content(role="model" if outgoing.role == "ai" else "user", parts=parts)
        moment = datetime.fromisoformat(first.created_at).timestamp()
        return Event(id=first.id, invocation_id=first.id, author=author, content=content, timestamp=moment)


def item_id(store: Store, *names: str) -> str:
    """Return the id of the first item of an event, by the names of its app, user and session and its own id."""
    return store.derived_id(json.dumps([FORMAT, *names]))


def _only_part(given: JsonObject) -> tuple[str, Any] | None:
    """Return what an event says that says one text, call or response and does nothing else; None for any other event.

    It comes behind the name of its kind.
    """
    parts = (given.get("content") or {}).get("parts")
    if given.keys() != _PLAIN or not parts or len(parts) > 1 or len(parts[0]) != 1:
        return None
    ((kind, said),) = parts[0].items()
    texts = [given["author"], given["id"], given["invocation_id"], given["content"].get("role") or ""]
    if kind == "text":
        texts.append(said)
    elif kind not in _STRUCTS or said.keys() != _STRUCT_KEYS[kind] or not said["id"]:
        return None
    else:
        *names, values = (said[key] for key in _STRUCT_KEYS[kind])
        if type(values) is not dict:
            return None
        texts += names
    plain = given["actions"] == _DUMPED["actions"] and given["node_info"] == _DUMPED["node_info"]
    if not plain or type(given["timestamp"]) is not float or not all(type(text) is str for text in texts):
        return None
    return kind, said


def _says(held: Mapping[str, Any], author: str, kind: str, said: Any) -> bool:
    """Return True if the fields of an item say what the only part of an author's event says."""
    if kind == "function_response":
        names = ("memory_type", "content", "tool_call_id", "tool_name", "is_error")
        fields = _result_fields(said["id"], said)
        return held["name"] is None and all(held.get(name) == fields[name] for name in names)
    calls = [_call_fields(said["id"], said)] if kind == "function_call" else []
    asked = held.get("tool_calls") or []
    return (
        held["memory_type"] == ("human" if author == USER else "ai")
        and held["content"] == ("" if calls else said)
        and held["name"] == (None if author == USER else author or None)
        and (not (calls or asked) or json_text(calls) == json_text(asked))
    )


def _identified(given: Iterable[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return calls or responses with their ids; those that have none are told apart by name and order."""
    seen: dict[str, int] = {}
    found = []
    for one in given:
        name = str(one.get("name") or "function")
        seen[name] = seen.get(name, 0) + 1
        found.append((one.get("id") or (name if seen[name] == 1 else f"{name}-{seen[name]}"), one))
    return found


def _content_fields(content: Mapping[str, Any] | None, author: str) -> list[Fields]:
    """Return the fields of the items of a content."""
    said = [part for part in (content or {}).get("parts") or () if part]
    calls = _identified(part["function_call"] for part in said if "function_call" in part)
    answers = _identified(part["function_response"] for part in said if "function_response" in part)
    found = [_result_fields(call_id, answer) for call_id, answer in answers]
    rest = [part for part in said if "function_response" not in part]
    return [*found, _spoken_fields(author, rest, calls)] if rest else found


def _transcribed_fields(given: JsonObject) -> list[Fields]:
    """Return the fields of what was said aloud, which ADK shows a model if an event says nothing else."""
    author = given.get("author") or ""
    heard = [
        (USER, given.get("input_transcription")),
        ("" if author == USER else author, given.get("output_transcription")),
    ]
    return [_spoken_fields(by, [{"text": said["text"]}], []) for by, said in heard if said and said.get("text")]


def _compacted(given: JsonObject) -> Mapping[str, Any] | None:
    """Return the content that an event shows instead of older events."""
    compaction = (given.get("actions") or {}).get("compaction") or {}
    content: Mapping[str, Any] | None = compaction.get("compacted_content")
    return content


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
    others = {_SERVER.get(name, name) for part in said for name in part if name not in _KNOWN and name not in _BESIDE}
    fields: Fields = {
        "memory_type": "human" if author == USER else "ai",
        "content": "\n".join(texts),
        "name": None if author == USER else author or None,
        "parts": [found for part in said for found in (*_reasoning(part), *_media_parts(part))],
        "provider_parts": sorted(others),
    }
    if calls:
        fields["tool_calls"] = [_call_fields(call_id, call) for call_id, call in calls]
    return fields


def _call_fields(call_id: str, call: Mapping[str, Any]) -> JsonObject:
    return {"id": call_id, "name": call.get("name") or "", "arguments": call.get("args") or {}}


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


def _media(part: Part) -> types.Part | None:
    if part.data is None and part.url is None:
        return None
    media_type = part.media_type or ("image/png" if part.kind == "image" else "application/octet-stream")
    if part.data is not None:
        data = base64.urlsafe_b64decode(_url_safe(part.data))
        return types.Part(inline_data=types.Blob(data=data, mime_type=media_type, display_name=part.name))
    return types.Part(file_data=types.FileData(file_uri=part.url, mime_type=media_type, display_name=part.name))


def _response(result: Result) -> types.Part:
    """Return the result of a call; what came with it, such as an image, if ADK has its data."""
    held = [part.model_dump(exclude_none=True) for part in result.media(_media)]
    blobs = [types.FunctionResponsePart.model_validate(part) for part in held]
    answer = types.FunctionResponse(
        id=result.call_id,
        name=result.name or "tool",
        response={"error" if result.is_error else "result": result.text},
        parts=blobs or None,
    )
    return types.Part(function_response=answer)


def _url_safe(text: str) -> str:
    return text.replace("+", "-").replace("/", "_")
