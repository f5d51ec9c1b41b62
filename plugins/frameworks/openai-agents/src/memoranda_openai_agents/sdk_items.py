"""The SDK's items as memory items that hold them unchanged, and back.

A message of one text, a call or a result is in the fields as it stands, and needs no payload: its format alone says
that it is the SDK's. Any other is kept as the payload.

The SDK's own dict comes back as it was, as long as it agrees with the memory item: an item that was changed since comes
back changed, and so does one that another framework wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, cast

from memoranda.errors import InputError
from memoranda.items import BUILTIN_TYPES, AIMemory, MemoryItem, MemoryMetadata, ToolMemory, now_text
from memoranda.shapes import check_text
from memoranda.store.codec import new_item
from memoranda.tool_calls import call_arguments, call_name
from memoranda_messages import Dropped, agrees, from_responses, to_responses
from memoranda_messages.payload_json import decode_payload, encode_payload
from memoranda_messages.request import legal_tool_name
from memoranda_messages.responses import MAX_ID, REASONING, lone_reasoning
from memoranda_messages.sessions.outgoing import is_same_unknown, unknown_fields
from memoranda_messages.shapes import parsed

if TYPE_CHECKING:
    from agents import TResponseInputItem

RESPONSES = "responses"
"""The format of a payload that the Responses API knows."""

RAW = "openai-agents"
"""The format of a payload that the Responses API does not know: stored and returned, and used for nothing else."""

_COMPARED = ("memory_type", "content", "name", "tool_calls", "tool_call_id", "tool_name", "is_error", "provider_parts")


def memory_items(given: Sequence[Any], metadata: MemoryMetadata) -> list[MemoryItem]:
    """Return the SDK's items as memory items that hold them unchanged, including those that the API does not know."""
    try:
        return _usual_items(given, metadata)
    except InputError:
        return _checked_items(given, metadata)


def _usual_items(given: Sequence[Any], metadata: MemoryMetadata) -> list[MemoryItem]:
    """Return items of usual shapes, in a fifth of the time. Raises InputError if one of them is of another shape."""
    names: dict[str, str] = {}
    found = []
    now = now_text()
    for one in given:
        said = _usually_said(one)
        if said is None:
            raise InputError("This item is not of a usual shape.")
        check_text("".join(said), "item")
        memory_type, content, call_id, name, arguments = said
        fields: dict[str, Any] = {"memory_type": memory_type, "content": content, "payload_format": RESPONSES}
        if not _is_in_fields(one):
            fields["payload"] = encode_payload(one)
        if memory_type == "tool":
            fields["tool_call_id"], fields["tool_name"] = call_id, names.get(call_id, "")
        elif call_id:
            names[call_id] = name
            fields["tool_calls"] = [{"id": call_id, "name": name, "arguments": parsed(arguments)}]
        found.append(new_item(fields, metadata, now))
    return found


def _checked_items(given: Sequence[Any], metadata: MemoryMetadata) -> list[MemoryItem]:
    try:
        items = from_responses(given, metadata=metadata)
        known = [True] * len(items)
    except InputError:
        known = [_is_known(one) for one in given]
        # All at once, since only together do they show which items form a group.
        read = iter(from_responses(compress(given, known), metadata=metadata))
        items = [next(read) if is_known else _raw(one, metadata) for one, is_known in zip(given, known, strict=True)]
    return [
        _holding(one, item, RESPONSES if is_known else RAW)
        for one, item, is_known in zip(given, items, known, strict=True)
    ]


def _holding(given: Any, item: MemoryItem, in_format: str) -> MemoryItem:
    """Return the memory item with the SDK's dict as its payload, and with the ids of its calls."""
    item.payload, item.payload_format = encode_payload(given), in_format
    if in_format == RESPONSES and _original(item) is None:
        (alone,) = from_responses([given], metadata=item.metadata)
        return alone.model_copy(update={"group": item.group, "payload": item.payload, "payload_format": in_format})
    return item


def _is_known(given: Any) -> bool:
    try:
        from_responses([given])
    except InputError:
        return False
    return True


def _raw(given: Any, metadata: MemoryMetadata) -> MemoryItem:
    fields = unknown_fields(given, RAW, _roles(given))
    return BUILTIN_TYPES.get(fields["memory_type"], MemoryItem)(**fields, metadata=metadata)


def _roles(given: Any) -> list[str]:
    """Return the role of what the API does not know."""
    role = given.get("role") if isinstance(given, dict) else None
    return [role] if isinstance(role, str) else []


def sdk_items(items: Sequence[MemoryItem], dropped: list[Dropped] | None = None) -> list[TResponseInputItem]:
    """Return memory items as the SDK's own dicts.

    If one came another way or was changed since, all are converted to the format of the Responses API, and what that
    has no place for is appended to ``dropped``.
    """
    found = [_original(item) for item in items]
    return cast("list[TResponseInputItem]", to_responses(items, dropped=dropped) if None in found else found)


def reasoning_without_outcome(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the reasoning among a conversation's items whose outcome is not there, which the API refuses.

    A model's answer may have a shorter life than the reasoning before it, in a batch of its own. The runner puts the
    next input behind what it read, so that reasoning at the end has no outcome either.
    """
    if not any(REASONING in (item.payload or "") for item in items):
        return []
    lone = lone_reasoning([_original(item) or _outline(item) for item in items], ends_open=False)
    return [items[at] for at in sorted(lone)]


def _outline(item: MemoryItem) -> Any:
    """Return of which kind an item goes out that is made from its fields."""
    if item.memory_type == "tool":
        return {"type": "function_call_output"}
    return {"role": "assistant" if item.memory_type == "ai" else "user"}


def single_sdk_item(item: MemoryItem) -> TResponseInputItem:
    """Return one memory item as the SDK's dict, or made from its fields; a call or a result may come alone."""
    if found := sdk_items([item]):
        return found[-1]
    alone: dict[str, Any] = {"role": "assistant" if item.memory_type == "ai" else "user", "content": item.content}
    if isinstance(item, ToolMemory):
        alone = {"type": "function_call_output", "call_id": item.tool_call_id, "output": item.content}
    elif isinstance(item, AIMemory) and item.tool_calls:
        call = item.tool_calls[-1]
        alone = {"type": "function_call", "call_id": call["id"], "name": call_name(call)}
        alone["arguments"] = call_arguments(call)
    return cast("TResponseInputItem", alone)


def _original(item: MemoryItem) -> Any:
    """Return the SDK's own dict, or None if it no longer agrees with the memory item."""
    if item.payload_format not in (RAW, RESPONSES):
        return None
    if item.payload is None:
        return _from_fields(item) if item.payload_format == RESPONSES else None
    given = decode_payload(item.payload)
    if item.payload_format == RESPONSES and _plainly_agrees(item, given):
        return given
    try:
        (read,) = from_responses([given])
    except InputError:
        roles = _roles(given)
        return given if is_same_unknown(item, unknown_fields(given, RAW, roles), roles) else None
    fields = {name: getattr(read, name, None) for name in _COMPARED}
    return (
        given if agrees(item, {name: value for name, value in fields.items() if value or name == "content"}) else None
    )


def _is_in_fields(given: dict[str, Any]) -> bool:
    """Return True if the fields of its item give a dict of a usual shape back."""
    keys = given.keys()
    if keys == {"role", "content"}:
        # Without a payload, other frameworks would be given an empty message.
        return given["role"] in _ROLES.values() and type(given["content"]) is str and given["content"] != ""
    if keys == {"type", "call_id", "name", "arguments"}:
        return len(given["call_id"]) <= MAX_ID and legal_tool_name(given["name"]) == given["name"]
    return keys == {"type", "call_id", "output"}


def _from_fields(item: MemoryItem) -> dict[str, Any] | None:
    """Return the dict of an item without a payload; None if the item says more than one by now."""
    held = item.__dict__
    if held["name"] is not None or item.__pydantic_extra__:
        return None
    kind, content, calls = held["memory_type"], held["content"], held.get("tool_calls")
    if kind == "tool":
        call_id = held.get("tool_call_id")
        if not call_id or held.get("is_error") or held.get("also_answers"):
            return None
        return {"type": "function_call_output", "call_id": call_id, "output": content}
    if not calls:
        return {"role": _ROLES[kind], "content": content} if kind in _ROLES else None
    if content or len(calls) != 1 or calls[0].keys() != _CALL_FIELDS:
        return None
    (call,) = calls
    found = {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": call_arguments(call)}
    return found if type(call["name"]) is str else None


_ROLES = {"human": "user", "ai": "assistant", "system": "system"}
_CALL_FIELDS = {"id", "name", "arguments"}
_MESSAGE = frozenset({"type", "role", "content", "id", "status"})
_CALL = frozenset({"type", "id", "call_id", "name", "arguments", "status"})
_OUTPUT = frozenset({"type", "id", "call_id", "output", "status"})
_BLOCK = frozenset({"type", "text", "annotations", "logprobs"})
_TYPES = {"user": "human", "assistant": "ai", "system": "system", "developer": "system"}
_TEXT = frozenset({str})
_TEXT_OR_NONE = frozenset({str, type(None)})


_Said = tuple[str, str, str, str, str]
"""What a dict of a usual shape says: its ``memory_type`` and its text, then the id, name and arguments of a call."""


def _usually_said(given: Any) -> _Said | None:
    """Return what a dict says if it is of a usual shape; None for any other, which only the API's reader knows."""
    if type(given) is not dict or not {type(given.get("id")), type(given.get("status"))} <= _TEXT_OR_NONE:
        return None
    kind, keys = given.get("type", "message"), given.keys()
    if kind == "message" and keys <= _MESSAGE and type(given.get("role")) is str:
        memory_type, text = _TYPES.get(given["role"]), _plain_text(given.get("content"))
        return None if memory_type is None or text is None else (memory_type, text, "", "", "")
    call_id = given.get("call_id")
    if type(call_id) is not str or not call_id:
        return None
    if kind == "function_call_output" and keys <= _OUTPUT and type(given.get("output")) is str:
        return "tool", given["output"], call_id, "", ""
    if kind == "function_call" and keys <= _CALL and {type(given.get("name")), type(given.get("arguments"))} == _TEXT:
        return "ai", "", call_id, given["name"], given["arguments"]
    return None


def _plainly_agrees(item: MemoryItem, given: Any) -> bool:
    """Return True if an item of a usual shape says what its dict says: most do, and this takes a hundredth of the time.

    False says nothing: :func:`memoranda_messages.agrees` decides on the rest.
    """
    held, said = item.__dict__, _usually_said(given)
    if said is None or (held["memory_type"], held["content"]) != said[:2]:
        return False
    if held["name"] is not None or (item.__pydantic_extra__ or {}).get("provider_parts"):
        return False
    call_id = said[2]
    if said[0] == "tool":
        return bool(held.get("tool_call_id") == call_id and held.get("is_error") is False)
    calls: list[Any] = held.get("tool_calls") or []
    if not calls or not call_id:
        return not calls and not call_id
    if len(calls) != 1 or calls[0].keys() != _CALL_FIELDS:
        return False
    return (calls[0]["id"], calls[0]["name"], call_arguments(calls[0])) == said[2:]


def _plain_text(content: Any) -> str | None:
    """Return what content says that is a text or a list of texts; None for any other."""
    if type(content) is str:
        return content
    if type(content) is not list:
        return None
    texts = [
        block["text"]
        for block in content
        if type(block) is dict
        and block.get("type") in ("input_text", "output_text")
        and block.keys() <= _BLOCK
        and type(block.get("text")) is str
        and not (block.get("annotations") or block.get("logprobs"))
    ]
    return "\n".join(texts) if len(texts) == len(content) else None
