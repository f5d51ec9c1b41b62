"""How a provider's message is kept in an item, and when it may be sent instead of the item's fields.

An item's own fields are the truth. Where writing them out does not give the very message that was read, the message is
kept as the item's ``payload``. Anyone who may add an item may put anything there, and an item may be changed later, so
a payload is read again on the way out, and :func:`agrees` decides:

- It is sent only if its role, text, calls, result and name are exactly those of the fields; ids of calls are written
  into it again. Where only the text or the name differs, the fields are sent, with the calls of the payload.
- It may add images, files, a model's reasoning and annotations. Anything else, such as a search that the provider ran
  or a document of plain text, must be named by the item's ``provider_parts``, which the readers of
  :mod:`memoranda_messages` fill in. What a stranger wrote (``external`` trust) vouches for nothing of that kind.
- In every other case the message is written from the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from memoranda.errors import InputError
from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata
from memoranda.shapes import each, json_text, wrong
from memoranda.tool_calls import call_arguments, call_name
from memoranda.trust import Trust, trust_of
from memoranda_messages.payload_json import decode_payload, encode_payload, plain
from memoranda_messages.shapes import JsonObject, calls_of, is_foreign, json_object

Message = dict[str, Any]
Fields = dict[str, Any]
_UNSAID: Fields = {"name": None, "is_error": False, "tool_calls": (), "provider_parts": []}
Read = Callable[[Any, str], Fields]
"""A format's reader: from a message and its place to the fields of an item. Raises InputError for anything else."""

READERS: dict[str, Read] = {}
"""The readers of this package's formats by their names. Each format puts its own here."""


class UsablePayload(NamedTuple):
    """A payload that agrees with its item: the message, and if all of it may be sent or only its calls."""

    message: Any
    whole: bool


def messages_of(given: Any, place: str = "messages") -> list[JsonObject]:
    """Return messages, dicts or objects of an SDK, as plain dicts that could be stored."""
    messages = []
    for position, message in enumerate(each(given, place, "messages")):
        at = f"{place}[{position}]"
        if isinstance(message, MemoryItem):
            raise wrong(at, "a message", message)
        messages.append(json_object(plain(message), at))
    return messages


def refuse_calls_of_others(message: JsonObject, blocks: Iterable[JsonObject], place: str, *kinds: str) -> None:
    """Raise InputError for calls and results in a message that cannot have any.

    ``kinds`` are the keys and the types of blocks that make them.
    """
    for kind in kinds:
        if message.get(kind) or any(block.get("type") == kind for block in blocks):
            raise InputError(f"{place}: {kind} has no place in such a message.", field=f"{place}.{kind}")


def item_from(
    fields: Fields,
    owner: MemoryMetadata,
    names: dict[str, str],
    written: Callable[[MemoryItem], Any],
    message: Any,
    in_format: str,
) -> MemoryItem:
    """Return the item of a message that was read, with its payload where the fields alone would not give it back.

    ``names`` are those of the tools that were called so far, by the id of the call.
    """
    if fields["memory_type"] == "tool" and not fields.get("tool_name"):
        fields["tool_name"] = names.get(fields["tool_call_id"], "")
    names |= {call["id"]: call_name(call) for call in fields.get("tool_calls", ())}
    parts = unvouched_parts(message, in_format)
    further = {"provider_parts": parts} if parts else {}
    item = BUILTIN_TYPES[fields["memory_type"]](**fields, **further, metadata=owner)
    if json_text(written(item)) != json_text(message):
        item.payload, item.payload_format = encode_payload(message), in_format
    return item


def agrees(item: MemoryItem, fields: Fields) -> bool:
    """Return True if the fields of a payload are exactly those of its item.

    ``fields`` are those that were read from the payload, ``memory_type`` and ``content`` among them. A name, an
    error, calls or ``provider_parts`` that it leaves out must be missing in the item, too. Calls are compared by their
    id, name and arguments, whichever of the usual forms they have. An item of a stranger's vouches for no
    ``provider_parts``.
    """
    expected = _UNSAID | fields
    if expected["provider_parts"] and trust_of(item) is Trust.EXTERNAL:
        return False
    held = {name: getattr(item, name, _UNSAID.get(name)) for name in expected}
    try:
        held["tool_calls"], expected["tool_calls"] = _asked(calls_of(item)), _asked(expected["tool_calls"])
        return json_text(held) == json_text(expected)  # As text, since 1 is neither 1.0 nor true.
    except (InputError, AttributeError, TypeError, ValueError, RecursionError):
        return False


def usable_payload(item: MemoryItem, in_format: str, read: Read) -> UsablePayload | None:
    """Return the item's payload if it may be sent in a format; None if there is none, or it differs from the fields."""
    if item.payload is None or item.payload_format != in_format:
        return None
    try:
        message = decode_payload(item.payload)
        fields = read(message, "payload") | {"provider_parts": unvouched_parts(message, in_format)}
        ours = calls_of(item)
        calls = zip(fields.get("tool_calls", ()), ours, strict=True)
        fields["tool_calls"] = [
            call | {"id": own["id"]} for call, own in calls
        ]  # Ids are written again on the way out.
    except (InputError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None
    fields.pop("tool_call_id", None)
    if not fields.get("tool_name"):
        fields.pop("tool_name", None)
    whole = agrees(item, fields)
    usable = whole or (bool(ours) and agrees(item, fields | {"content": item.content, "name": item.name}))
    return UsablePayload(message, whole) if usable else None


def _asked(calls: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return what identifies calls: id, name and arguments, or all fields of a call that is not a function call."""
    return [[call.get("id"), call if is_foreign(call) else (call_name(call), call_arguments(call))] for call in calls]


OUTPUTS: Mapping[str, str] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
    "mcp_approval_request": "mcp_approval_response",
    "program": "program_output",
}
"""What answers each kind of call of the Responses API. The first two can be written from an item's fields."""

_CHAT = {"assistant": {"name", "refusal", "tool_calls"}, "tool": {"name", "tool_call_id"}}
_HELD: Mapping[str, AbstractSet[str]] = {
    "text": {"text"},
    "input_text": {"text"},
    "output_text": {"text"},
    "refusal": {"refusal"},
    "tool_use": {"name", "input"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "function": {"function"},
    "function_call": {"call_id", "name", "arguments"},
    "custom": {"custom"},
    "custom_tool_call": {"call_id", "name", "input"},
    "function_call_output": {"call_id", "name", "output"},
    "custom_tool_call_output": {"call_id", "name", "output"},
}
"""The keys of each kind of part that a format's reader compares with the fields of the item."""

_RARE = (OUTPUTS.keys() | set(OUTPUTS.values())) - _HELD.keys()
_HELD_IF_RARE = frozenset(
    {"call_id", "name", "arguments", "action", "actions", "operation", "code", "output", "result", "approve", "reason"}
    | {"approval_request_id", "caller", "fingerprint", "execution", "namespace", "server_label"}
)
_MARKS = {"type", "id", "status", "index", "model", "usage", "stop_reason", "stop_sequence"}
_DOCUMENT_TEXT = "document_text"
_HARMLESS = (
    {"image", "image_url", "input_image", "computer_screenshot", "document", "file", "input_file"}
    | {"container_upload", "audio", "input_audio", "thinking", "redacted_thinking", "reasoning", "reasoning_content"}
    | {"annotations", "citations", "logprobs", "cache_control", "prompt_cache_breakpoint", "extra_content", "phase"}
)
"""What any payload may add: it brings in no role, no call and no result."""


def unvouched_parts(message: Any, in_format: str) -> list[str]:
    """Return the names, sorted, of what a payload may hold only if its item's ``provider_parts`` name it.

    Whatever is not known to be harmless is among them: calls that the provider ran itself, their results, all that is
    new.
    """
    harmless = _HARMLESS
    if isinstance(message, dict) and message.get("role") not in (None, "assistant"):
        harmless = _HARMLESS - _KINDS["reasoning"]  # Only a model reasons.
    return sorted(set(_parts(message, in_format)) - harmless)


_KINDS: Mapping[str, AbstractSet[str]] = {
    "image": {"image", "image_url", "input_image"},
    "audio": {"audio", "input_audio"},
    "file": {"document", _DOCUMENT_TEXT, "file", "input_file"},
    "reasoning": {"thinking", "redacted_thinking", "reasoning", "reasoning_content"},
}
"""The names of parts of this package's formats, by the kind of :class:`memoranda_messages.parts.Part`."""


def lost_parts(item: MemoryItem, in_format: str, carried: AbstractSet[str] = frozenset()) -> list[str]:
    """Return the names of what would be lost if an item went out in a format; empty for the format it came in.

    ``carried`` are the kinds of parts that the format has a place for.
    """
    if item.payload_format == in_format and item.payload is not None:
        return []
    lost = []
    if in_format != "anthropic" and getattr(item, "is_error", False) is True:
        lost.append("is_error")
    if in_format != "openai" and item.name and item.memory_type != "tool":
        lost.append("name")
    if item.payload is not None and item.payload_format is not None:
        kept = set[str]().union(*[_KINDS.get(kind, {kind}) for kind in carried])
        try:
            parts = _foreign_parts(item, decode_payload(item.payload))
            lost += [name for name in parts if name not in _RARE and name not in kept and name != "function_call"]
        except (InputError, RecursionError):
            lost.append("payload")
    return list(dict.fromkeys(lost))


def _foreign_parts(item: MemoryItem, payload: Any) -> Iterable[str]:
    """Return the names of what a payload holds beside the fields of its item; a framework's names them itself."""
    if item.payload_format in READERS or not isinstance(payload, dict) or not {"message", "of"} & payload.keys():
        return _parts(payload, str(item.payload_format))
    parts = payload.get("parts") if isinstance(payload.get("parts"), list) else []
    kinds = [str(part.get("kind")) for part in parts or () if isinstance(part, dict)]
    return [*kinds, *map(str, getattr(item, "provider_parts", None) or ())]


def _is_text(document: JsonObject) -> bool:
    """Return True if a document is nothing but text, or has a text beside it: a model reads that as it stands."""
    source = document.get("source")
    return bool(document.get("context")) or (isinstance(source, dict) and source.get("type") in ("text", "content"))


def _parts(given: Any, in_format: str) -> Iterator[str]:
    """Yield the names of what a message, a block or a list of them holds beside the fields of an item."""
    if isinstance(given, list):
        for part in given:
            yield from _parts(part, in_format)
    if not isinstance(given, dict):
        return
    untyped = "message" if "role" in given else "function" if "function" in given else "an object without a type"
    kind = str(given.get("type") or untyped)
    held = _HELD.get(kind, _HELD_IF_RARE)
    if kind == "message":
        chat = _CHAT.get(str(given.get("role")), {"name"}) if in_format == "openai" else set()
        held = {"role", "content"} | chat
    elif kind not in _HELD:
        yield _DOCUMENT_TEXT if kind == "document" and _is_text(given) else kind
        if kind not in _RARE:
            return
    for key, value in given.items():
        if key in ("content", "output", "tool_calls") and key in held:
            yield from _parts(value, in_format)
        elif key in ("function", "custom") and key in held and isinstance(value, dict):
            yield from value.keys() - {"name", "arguments", "input"}
        elif key not in held and key not in _MARKS and value not in (None, [], {}, "", False):
            yield key
