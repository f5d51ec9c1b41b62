"""A sliding window of messages: small typed objects, and a container that keeps the newest.

:func:`memoranda_messages.from_history` makes items of one, for any store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memoranda.shapes import each, whole_number, wrong
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


def _check_memory(memory: Any, place: str) -> None:
    if not isinstance(memory, Memory):
        raise wrong(place, "a Memory", memory)


def _name_of(call: Any) -> str:
    return call_name(call) if isinstance(call, Mapping) else str(getattr(call, "name", ""))
