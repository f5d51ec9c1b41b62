"""A history of :mod:`memoranda.history` as items, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memoranda.errors import InputError
from memoranda.history import History, Memory, ResponseMem, UserMem
from memoranda.integrity import pairs
from memoranda.items import (
    AIMemory,
    HumanMemory,
    MemoryItem,
    MemoryMetadata,
    SystemMemory,
    ToolMemory,
    now_text,
    utc_text,
)
from memoranda.shapes import each, items_of, owner_of, wrong
from memoranda.tool_calls import call_name


def from_history(history: History, *, metadata: MemoryMetadata | None = None) -> list[MemoryItem]:
    """Return the memories of a history as items, oldest first; a response's results follow it as items of their own.

    Raises InputError, naming the place, for a time that is neither a datetime, ISO-8601 text, seconds since 1970 nor
    None, for a message that is no text, a call that is none and a result that is no dict.
    """
    owner = owner_of(metadata)
    items: list[MemoryItem] = []
    for position, memory in enumerate(history.MemoryList):
        try:
            items += _items_of(memory, owner)
        except InputError as error:
            raise InputError(f"MemoryList[{position}]: {error}", field=error.field) from error
    return items


def to_history(items: Sequence[MemoryItem], size: int = 10) -> History:
    """Return a history of items given oldest first; tool results go into the response that called for them."""
    memories: dict[int, Memory] = {}
    items = items_of(items)
    callers, _ = pairs(items)
    for position, item in enumerate(items):
        if item.memory_type != "tool":
            memories[position] = _memory_of(item)
        elif position in callers:
            caller = memories[callers[position]]
            if isinstance(caller, ResponseMem):
                caller.tool_results.append(_result_of(item, caller.tool_calls))
    return History(memories.values(), size)


_TYPES: dict[str, type[MemoryItem]] = {
    "user": HumanMemory,
    "human": HumanMemory,
    "system": SystemMemory,
    "assistant": AIMemory,
}


def _time_text(created: Any) -> str:
    if created is None:
        return now_text()
    try:
        if isinstance(created, (int, float)) and not isinstance(created, bool):
            created = datetime.fromtimestamp(created, UTC)
        return utc_text(created)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        message = f"created is {type(created).__name__} and cannot be read as a time."
        raise InputError(message, field="created") from error


def _items_of(memory: Memory, metadata: MemoryMetadata) -> list[MemoryItem]:
    if not isinstance(memory, Memory):
        raise wrong("it", "a Memory", memory)
    if not isinstance(memory.role, str):
        raise wrong("role", "text", memory.role)
    shared: dict[str, Any] = {"metadata": metadata, "created_at": _time_text(memory.created)}
    if not isinstance(memory, ResponseMem):
        if memory.role in _TYPES:
            return [_TYPES[memory.role](content=memory.message, **shared)]
        return [MemoryItem(content=memory.message, memory_type=memory.role, **shared)]
    response = AIMemory(content=memory.message, **shared)
    calls = each(memory.tool_calls, "tool_calls", "tool calls")
    response.tool_calls = [_call_dict(call, f"{response.id}-{position}") for position, call in enumerate(calls)]
    return [response, *_results(response, memory.tool_results, shared)]


def _call_dict(call: Any, new_id: str) -> dict[str, Any]:
    if isinstance(call, Mapping):
        return {**call, "id": call.get("id") or new_id}
    arguments = getattr(call, "arguments", getattr(call, "args", {}))
    return {"id": getattr(call, "id", None) or new_id, "name": str(getattr(call, "name", "")), "arguments": arguments}


def _results(response: AIMemory, results: Sequence[Any], shared: dict[str, Any]) -> list[MemoryItem]:
    """Return an item for each result; it answers the first call of its name that is not answered yet."""
    waiting = list(response.tool_calls)
    items: list[MemoryItem] = []
    for position, result in enumerate(each(results, "tool_results", "results")):
        place = f"tool_results[{position}]"
        if not isinstance(result, Mapping):
            raise wrong(place, "a dict", result)
        fields = {**shared, "tool_name": str(result.get("name", "")), "is_error": bool(result.get("is_error"))}
        call = next((call for call in waiting if call_name(call) == fields["tool_name"]), None)
        if call is not None:
            waiting.remove(call)
            fields["tool_call_id"] = call["id"]
        items.append(ToolMemory(content=_as_text(result.get("result"), f"{place}.result"), **fields))
    return items


def _as_text(value: Any, place: str) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{place}: it cannot be written as JSON.", field=place) from error


def _memory_of(item: MemoryItem) -> Memory:
    if isinstance(item, AIMemory):
        calls = [dict(call) if isinstance(call, Mapping) else call for call in item.tool_calls]
        return ResponseMem(item.content, item.created_at, calls)
    if item.memory_type == "human":
        return UserMem(item.content, item.created_at)
    return Memory(item.content, item.created_at, "assistant" if item.memory_type == "ai" else item.memory_type)


def _result_of(item: MemoryItem, calls: Sequence[Any]) -> dict[str, Any]:
    call_id = getattr(item, "tool_call_id", "")
    asked = [call_name(call) for call in calls if isinstance(call, Mapping) and call.get("id") == call_id]
    name = getattr(item, "tool_name", "") or next(iter(asked), "")
    result = {"name": name, "result": item.content}
    return result | ({"is_error": True} if getattr(item, "is_error", False) else {})
