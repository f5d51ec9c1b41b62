"""How a provider's message is kept in an item, so that it goes out as it came in.

An item holds in its own fields what any provider can be sent. Where writing these out does not give the very message
that was read, the message is kept as the item's ``payload``. On the way out a payload is read again: it is sent where
it says what the item's fields say, whatever ids its calls have by now; where an item was changed since, its fields
count, and of the payload only the calls are still used, if those are the same. So no payload can say more than its item
does: neither a role, nor a call, nor a result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from memoranda.errors import InputError
from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata
from memoranda.messages.tool_calls import call_arguments, call_name, calls_of, is_foreign
from memoranda.payloads import decode_payload, encode_payload, plain
from memoranda.shapes import JsonObject, each, json_object, json_text, wrong

Message = dict[str, Any]
Fields = dict[str, Any]
Read = Callable[[Any, str], Fields]
"""A format's reader: from a message and its place to the fields of an item. Raises InputError for what is none."""


class Kept(NamedTuple):
    """What a payload is good for: the message, and whether all of it may be sent or only its calls."""

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
    """Raise InputError for calls and results where there can be none, which would pass for something unknown.

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
    item = BUILTIN_TYPES[fields["memory_type"]](**fields, metadata=owner)
    if json_text(written(item)) != json_text(message):  # As text, since 1 is neither 1.0 nor true.
        item.payload, item.payload_format = encode_payload(message), in_format
    return item


def kept_for(item: MemoryItem, in_format: str, read: Read) -> Kept | None:
    """Return what the item's payload is good for in a format; None if it has none or it says something else."""
    if item.payload is None or item.payload_format != in_format:
        return None
    try:
        message = decode_payload(item.payload)
        fields = read(message, "payload")
        if fields.pop("memory_type") != item.memory_type:
            return None
        theirs, ours = fields.pop("tool_calls", ()), calls_of(item)
        same_calls = _asked(theirs) == _asked(ours)
    except (InputError, AttributeError, RecursionError):
        return None
    said: Fields = ({"is_error": False} if item.memory_type == "tool" else {"name": None}) | fields
    said.pop("tool_call_id", None)
    if said.get("tool_name") == "":
        del said["tool_name"]
    same = same_calls and all(getattr(item, name, None) == value for name, value in said.items())
    return Kept(message, same) if same or (same_calls and ours) else None


def _asked(calls: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return what calls ask for, whatever their ids are and however their arguments are written."""
    found = []
    for call in calls:
        arguments: Any = call_arguments(call)
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
        found.append((call_name(call), is_foreign(call), encode_payload(arguments)))
    return found
