"""A sliding window of messages: small typed objects, and a container that keeps the newest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memoranda.errors import InputError
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
from memoranda.shapes import each, items_of, owner_of, whole_number, wrong
from memoranda.tool_calls import call_name


class Memory:
    """A message of a conversation: its text, its time (of any type, typically a datetime) and its role."""

    def __init__(self, message: str, created: Any, role: str) -> None:
        self.message = message
        self.created = created
        self.role = role

    def __repr__(self) -> str:
        return f"<Memory role={self.role} message={self.message!r} created={self.created}>"


class UserMem(Memory):
    """A message of the user."""

    def __init__(self, message: str, created: Any, role: str = "user") -> None:
        super().__init__(message, created, role)


class ResponseMem(Memory):
    """An answer of the model, with the tools it called and, once they ran, their results.

    ``tool_calls`` are objects with a ``name``, or dicts with one; ``tool_results`` are dicts with ``name`` and
    ``result``. The lists given are copied.
    """

    def __init__(
        self,
        message: str,
        created: Any,
        tool_calls: Iterable[Any] | None = None,
        tool_results: Iterable[Any] | None = None,
        role: str = "assistant",
    ) -> None:
        super().__init__(message, created, role)
        self.tool_calls: list[Any] = each(tool_calls or (), "tool_calls", "tool calls")
        self.tool_results: list[Any] = each(tool_results or (), "tool_results", "results")

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} tool_calls={self.tool_calls} tool_results={self.tool_results}>"

    def list_tool_calls(self) -> list[str]:
        """Return the names of the called tools, in the order of the calls."""
        return [_name_of(call) for call in self.tool_calls]

    def get_tool_call(self, name: str) -> Any:
        """Return the first call of the tool of this name, or None if it was not called."""
        return next((call for call in self.tool_calls if _name_of(call) == name), None)


class History:
    """The newest ``size`` memories, oldest first, in ``MemoryList``.

    The list given is copied. Size 0 keeps nothing; a negative one is an InputError, which is a ValueError, and so is
    anything that is no Memory.
    """

    def __init__(self, memoryList: Iterable[Memory] | None = None, size: int = 10) -> None:  # noqa: N803 - a fixed name
        self.MemoryList: list[Memory] = each(memoryList or (), "memoryList", "memories")
        for position, memory in enumerate(self.MemoryList):
            _check_memory(memory, f"memoryList[{position}]")
        self.window(size)

    def _size_update(self) -> None:
        """Drop the oldest memories beyond the size."""
        excess = len(self.MemoryList) - self.size
        if excess > 0:
            del self.MemoryList[:excess]

    def window(self, size: int) -> list[Memory]:
        """Keep only the newest ``size`` from now on, drop the others at once, and return the list."""
        self.size = whole_number(size, "size")
        self._size_update()
        return self.MemoryList

    def add(self, memory: Memory) -> None:
        """Append a memory and drop the oldest if there are now too many."""
        _check_memory(memory, "memory")
        self.MemoryList.append(memory)
        self._size_update()

    def to_items(self, metadata: MemoryMetadata | None = None) -> list[MemoryItem]:
        """Return the memories as items, oldest first; a response's results follow it as items of their own.

        Raises InputError, naming the place, for a time that is neither a datetime, ISO-8601 text, seconds since 1970
        nor None, for a message that is no text, a call that is none and a result that is no dict.
        """
        owner = owner_of(metadata)
        items: list[MemoryItem] = []
        for position, memory in enumerate(self.MemoryList):
            try:
                items += _items_of(memory, owner)
            except InputError as error:
                raise InputError(f"MemoryList[{position}]: {error}", field=error.field) from error
        return items

    @classmethod
    def from_items(cls, items: Sequence[MemoryItem], size: int = 10) -> History:
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
        return cls(memories.values(), size)


_TYPES: dict[str, type[MemoryItem]] = {
    "user": HumanMemory,
    "human": HumanMemory,
    "system": SystemMemory,
    "assistant": AIMemory,
}


def _check_memory(memory: Any, place: str) -> None:
    if not isinstance(memory, Memory):
        raise wrong(place, "a Memory", memory)


def _name_of(call: Any) -> str:
    return call_name(call) if isinstance(call, Mapping) else str(getattr(call, "name", ""))


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
    _check_memory(memory, "it")
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
    return {"id": getattr(call, "id", None) or new_id, "name": _name_of(call), "arguments": arguments}


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
