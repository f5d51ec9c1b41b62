"""A sliding window of messages: small typed objects for what was said, and a container that keeps the newest."""

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
    """An entry of a conversation: the text, when it was said (any type, typically a datetime) and by which role."""

    def __init__(self, message: str, created: Any, role: str) -> None:
        self.message = message
        self.created = created
        self.role = role

    def __repr__(self) -> str:
        return f"<Memory role={self.role} message={self.message!r} created={self.created}>"


class UserMem(Memory):
    """What the user said."""

    def __init__(self, message: str, created: Any, role: str = "user") -> None:
        super().__init__(message, created, role)


class ResponseMem(Memory):
    """What the model answered, with the tools it called and, once they ran, their results.

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
        return (
            f"<Memory role={self.role} message={self.message!r} created={self.created} "
            f"tool_calls={self.tool_calls} tool_results={self.tool_results}>"
        )

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
        self.size = whole_number(size, "size")
        self._size_update()

    def _size_update(self) -> None:
        """Drop the oldest memories beyond the size."""
        excess = len(self.MemoryList) - self.size
        if excess > 0:
            del self.MemoryList[:excess]

    def window(self, size: int) -> list[Memory]:
        """Keep only this many from now on, drop what is too old at once, and return the list."""
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

        A time that is neither a datetime, ISO-8601 text, seconds since 1970 nor None is an InputError that names the
        place, and so is a message that is no text, a call that is none and a result that is no dict.
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
                    caller.tool_results.append(_result_of(item, caller))
        return cls(memories.values(), size)


_ROLES = {"human": "user", "ai": "assistant"}
_TYPES: dict[str, type[MemoryItem]] = {"user": HumanMemory, "human": HumanMemory, "system": SystemMemory}


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
            return utc_text(datetime.fromtimestamp(created, UTC))
        return utc_text(created)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        raise InputError(
            f"created is {type(created).__name__} and cannot be read as a time.", field="created"
        ) from error


def _items_of(memory: Memory, metadata: MemoryMetadata) -> list[MemoryItem]:
    _check_memory(memory, "it")
    if not isinstance(memory.role, str):
        raise wrong("role", "text", memory.role)
    created = _time_text(memory.created)
    shared: dict[str, Any] = {"metadata": metadata, "created_at": created}
    if not isinstance(memory, ResponseMem):
        kind = AIMemory if memory.role == "assistant" else _TYPES.get(memory.role, MemoryItem)
        further: dict[str, Any] = {"memory_type": memory.role} if kind is MemoryItem else {}
        return [kind(content=memory.message, **shared, **further)]
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
    """Return a result item for each result that some call, not answered yet, asked for by that name."""
    waiting = list(response.tool_calls)
    items: list[MemoryItem] = []
    for position, result in enumerate(each(results, "tool_results", "results")):
        if not isinstance(result, Mapping):
            raise wrong(f"tool_results[{position}]", "a dict", result)
        name = str(result.get("name", ""))
        call = next((call for call in waiting if call_name(call) == name), None)
        if call is not None:
            waiting.remove(call)
        value = result.get("result")
        items.append(
            ToolMemory(
                content=value if isinstance(value, str) else _as_text(value, f"tool_results[{position}].result"),
                tool_call_id=call["id"] if call is not None else "",
                tool_name=name,
                is_error=bool(result.get("is_error")),
                **shared,
            )
        )
    return items


def _as_text(value: Any, place: str) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{place}: it cannot be written as JSON.", field=place) from error


def _memory_of(item: MemoryItem) -> Memory:
    role = _ROLES.get(item.memory_type, item.memory_type)
    if isinstance(item, AIMemory):
        calls = [dict(call) if isinstance(call, Mapping) else call for call in item.tool_calls]
        return ResponseMem(item.content, item.created_at, calls)
    return UserMem(item.content, item.created_at) if role == "user" else Memory(item.content, item.created_at, role)


def _result_of(item: MemoryItem, caller: ResponseMem) -> dict[str, Any]:
    call_id = getattr(item, "tool_call_id", "")
    asked = [call_name(call) for call in caller.tool_calls if isinstance(call, Mapping) and call.get("id") == call_id]
    name = getattr(item, "tool_name", "") or next(iter(asked), "")
    result = {"name": name, "result": item.content}
    return result | ({"is_error": True} if getattr(item, "is_error", False) else {})
