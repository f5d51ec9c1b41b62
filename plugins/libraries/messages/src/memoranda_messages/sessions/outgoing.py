"""What a message is written from, if it was not the writing framework that stored it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, NamedTuple, TypeVar

from memoranda.items import MemoryItem
from memoranda.tool_calls import call_arguments, call_name
from memoranda_messages import Dropped
from memoranda_messages.parts import Part
from memoranda_messages.request import legal_participant_name, spoken
from memoranda_messages.shapes import arguments_object, calls_of

Role = Literal["human", "ai", "tool", "system"]
T = TypeVar("T")


class Call(NamedTuple):
    """A tool call; ``arguments`` is JSON text."""

    id: str
    name: str
    arguments: str

    @property
    def values(self) -> dict[str, Any]:
        """The arguments as an object; anything else is wrapped in one."""
        return arguments_object(self.arguments)


class _Takes:
    """Hands out parts and remembers which were taken."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = list(parts)
        self._taken: list[Part] = []

    def take(self, *kinds: str) -> list[Part]:
        """Return the parts of these kinds, or all. What is returned must be in the message; the rest is reported."""
        found = [part for part in self._parts if not kinds or part.kind in kinds]
        self._taken += found
        return found

    def media(self, written: Callable[[Part], T | None], as_text: Callable[[str], T] | None = None) -> list[T]:
        """Return images, audio, video and files as a framework's blocks.

        ``written`` returns the block of a part, or None if there is no place for it. ``as_text`` returns that of a file
        which has nothing but its text.
        """
        blocks: list[T] = []
        for part in self.take("image", "audio", "video", "file"):
            if as_text is not None and part.text is not None and part.as_url is None:
                blocks.append(as_text(part.text))
            elif (block := written(part)) is not None:
                blocks.append(block)
            else:
                self.leave(part)
        return blocks

    def leave(self, part: Part) -> None:
        """Give back a part that the message has no place for after all, so that it is reported."""
        self._taken = [taken for taken in self._taken if taken is not part]

    def _left(self) -> list[str]:
        taken = {id(part) for part in self._taken}
        return [part.kind for part in self._parts if id(part) not in taken]


class Result(_Takes):
    """The result of one call, with the parts that came with it."""

    def __init__(self, item: MemoryItem, parts: Iterable[Part]) -> None:
        super().__init__(parts)
        self.item = item
        self.call_id = str(getattr(item, "tool_call_id", ""))
        self.name = str(getattr(item, "tool_name", ""))
        self.text = item.content
        self.is_error = getattr(item, "is_error", False) is True


class Outgoing(_Takes):
    """The items of one message to write.

    - ``role`` is ``human``, ``ai``, ``tool`` or ``system``. Items of all other types, such as summaries, are ``human``.
    - ``text`` is what they say, ``name`` who says it, ``calls`` the tools that the model called.
    - ``results`` has the result of a tool; several only for a format that ``joins_results``.
    - :meth:`take` returns images, audio, files or reasoning; those of a result are taken from it.
    - :meth:`lose` reports anything else that the message has no place for.
    """

    def __init__(self, items: Sequence[MemoryItem], parts: Mapping[str, Sequence[Part]]) -> None:
        kinds: dict[str, Role] = {"ai": "ai", "tool": "tool", "system": "system"}
        self.items = list(items)
        self.role: Role = kinds.get(items[0].memory_type, "human")
        self.results = [Result(item, parts.get(item.id, ())) for item in items if item.memory_type == "tool"]
        super().__init__(part for item in items if item.memory_type != "tool" for part in parts.get(item.id, ()))
        self.text = "\n".join(filter(None, [spoken(item) for item in items if item.memory_type != "tool"]))
        self.name = next((item.name for item in items if item.name), None)
        self.calls = [
            Call(str(call["id"]), call_name(call), call_arguments(call)) for item in items for call in calls_of(item)
        ]
        self._lost: list[Dropped] = []
        self._foreign = {item.id for item in items if item.payload is not None}

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to say: a message of an unknown kind, or one that only its framework can read."""
        return not (self.text or self.calls or self.results or self._parts) and bool(self._foreign)

    def legal_name(self) -> str | None:
        """Return the name as providers take it, or None. A name that is changed or left out is reported."""
        if self.name is None:
            return None
        legal = legal_participant_name(self.name)
        if legal != self.name:
            self._lost.append(Dropped(self.items[0].id, "name", "repaired"))
        return legal or None

    def lose(self, what: str) -> None:
        """Report something that the message has no place for, by a name such as ``also_answers``."""
        self._lost.append(Dropped(self.items[0].id, what, "unsupported"))

    def losses(self, holds: AbstractSet[str], *, written: bool) -> list[Dropped]:
        """Return what was not carried over; ``holds`` are the fields that the format has a place for."""
        found = list(self._lost)
        if not written:
            return [*found, *(Dropped(item.id, f"the {item.memory_type} item", "unsupported") for item in self.items)]
        first = self.items[0].id
        found += [Dropped(first, what, "unsupported") for what in self._left()]
        for result in self.results:
            found += [Dropped(result.item.id, what, "unsupported") for what in result._left()]
            if result.is_error and "is_error" not in holds:
                found.append(Dropped(result.item.id, "is_error", "unsupported"))
        for item in self.items:
            if item.name and item.memory_type != "tool" and "name" not in holds:
                found.append(Dropped(item.id, "name", "unsupported"))
            for what in getattr(item, "provider_parts", None) or ():
                found.append(Dropped(item.id, str(what), "unsupported"))
        return found


def runs(entries: Iterable[MemoryItem | T], *, joins_results: bool) -> Iterator[list[MemoryItem] | T]:
    """Yield the entries with items that are one message as a list.

    A model's reasoning, text and calls are one message, which some formats store as several items. So are the results
    of parallel calls, if ``joins_results``.
    """
    waiting: list[MemoryItem] = []
    for entry in entries:
        if isinstance(entry, MemoryItem) and waiting and _continues(waiting[-1], entry, joins_results):
            waiting.append(entry)
            continue
        if waiting:
            yield waiting
            waiting = []
        if isinstance(entry, MemoryItem):
            waiting = [entry]
        else:
            yield entry
    if waiting:
        yield waiting


def _continues(before: MemoryItem, item: MemoryItem, joins_results: bool) -> bool:
    if before.memory_type == item.memory_type == "tool":
        return joins_results
    if not before.memory_type == item.memory_type == "ai" or before.name != item.name:
        return False
    return before.metadata.agent_id == item.metadata.agent_id and not (_is_text(before) and _is_text(item))


def _is_text(item: MemoryItem) -> bool:
    return bool(item.content) and not calls_of(item)
