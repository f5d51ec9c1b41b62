"""The SDK's items as memory items that hold them unchanged, and back.

The SDK's own dict comes back as it was, as long as it agrees with the memory item: an item that was changed since comes
back changed, and so does one that another framework wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, cast

from memoranda.errors import InputError
from memoranda.items import AIMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.tool_calls import call_arguments, call_name
from memoranda_messages import Dropped, agrees, from_responses, to_responses
from memoranda_messages.payload_json import decode_payload, encode_payload

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
    held: dict[str, Any] = {"content": "", "metadata": metadata, "provider_parts": [RAW]}
    return SystemMemory(**held) if _raw_type(given) == "system" else MemoryItem(**held)


def _raw_type(given: Any) -> str:
    """Return the type of what the API does not know: nothing instructs a model but items of the type ``system``."""
    role = given.get("role") if isinstance(given, dict) else None
    return "system" if role in ("system", "developer") else "item"


def sdk_items(items: Sequence[MemoryItem], dropped: list[Dropped] | None = None) -> list[TResponseInputItem]:
    """Return memory items as the SDK's own dicts.

    If one came another way or was changed since, all are converted to the format of the Responses API, and what that
    has no place for is appended to ``dropped``.
    """
    found = [_original(item) for item in items]
    return cast("list[TResponseInputItem]", to_responses(items, dropped=dropped) if None in found else found)


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
    if item.payload is None or item.payload_format not in (RAW, RESPONSES):
        return None
    given = decode_payload(item.payload)
    if item.payload_format == RESPONSES and _plainly_agrees(item, given):
        return given
    try:
        (read,) = from_responses([given])
    except InputError:
        fields: dict[str, Any] = {"memory_type": _raw_type(given), "content": "", "provider_parts": [RAW]}
    else:
        fields = {name: getattr(read, name, None) for name in _COMPARED}
    return (
        given if agrees(item, {name: value for name, value in fields.items() if value or name == "content"}) else None
    )


_MESSAGE = frozenset({"type", "role", "content", "id", "status"})
_CALL = frozenset({"type", "id", "call_id", "name", "arguments", "status"})
_OUTPUT = frozenset({"type", "id", "call_id", "output", "status"})
_BLOCK = frozenset({"type", "text", "annotations", "logprobs"})
_TYPES = {"user": "human", "assistant": "ai", "system": "system", "developer": "system"}


def _plainly_agrees(item: MemoryItem, given: Any) -> bool:
    """Return True if an item of a usual shape says what its dict says: most do, and this takes a hundredth of the time.

    False says nothing: :func:`memoranda_messages.agrees` decides on the rest.
    """
    held = item.__dict__
    if not isinstance(given, dict) or held["name"] is not None or (item.__pydantic_extra__ or {}).get("provider_parts"):
        return False
    kind, keys = given.get("type", "message"), given.keys()
    if kind == "message" and keys <= _MESSAGE:
        text = _plain_text(given.get("content"))
        return bool(
            held["memory_type"] == _TYPES.get(given.get("role") or "")
            and text is not None
            and held["content"] == text
            and not held.get("tool_calls")
        )
    if kind == "function_call_output" and keys <= _OUTPUT:
        said = (held["memory_type"], held["content"], held.get("tool_call_id"), held.get("is_error"))
        return bool(given.get("call_id")) and said == ("tool", given.get("output"), given["call_id"], False)
    if kind == "function_call" and keys <= _CALL and held["memory_type"] == "ai" and not held["content"]:
        calls: list[Any] = held.get("tool_calls") or []
        if len(calls) != 1 or calls[0].keys() != {"id", "name", "arguments"}:
            return False
        asked = (calls[0]["id"], calls[0]["name"], call_arguments(calls[0]))
        return asked == (given.get("call_id"), given.get("name"), given.get("arguments"))
    return False


def _plain_text(content: Any) -> str | None:
    """Return what content says that is a text or a list of texts; None for any other."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = [
        block["text"]
        for block in content
        if isinstance(block, dict)
        and block.get("type") in ("input_text", "output_text")
        and block.keys() <= _BLOCK
        and isinstance(block.get("text"), str)
    ]
    return "\n".join(texts) if len(texts) == len(content) else None
