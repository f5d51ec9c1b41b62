"""What goes out for a stored message: the message itself, where it may be that, or one that is written from its items.

Anyone who may add an item may give it any payload, and items are changed later. So a framework's message is returned
only if everything that it tells a model stands in its items' fields. The rule is the same for all adapters:

- Its role is one that the items' types may have (see :func:`memoranda.speakers.may_speak_as`).
- Its text, calls and results are those of the items. A file that is nothing but text counts as text, and so does
  reasoning that is not a model's.
- Calls and results that no field can hold never come back, whatever the item says of them.
- It may add images, files and a model's reasoning. Anything else must be named by the item's ``provider_parts``, which
  an item of ``external`` trust cannot vouch for.
- A message of an unknown kind is compared by its role and by the texts in it; its item names the calls in it.

In every other case the message is written from the fields, as is one that another framework has stored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, NamedTuple, TypeVar

from memoranda.items import MemoryItem
from memoranda.shapes import json_text
from memoranda.speakers import may_speak_as, type_of_role
from memoranda.tool_calls import call_arguments, call_name
from memoranda_messages import Dropped
from memoranda_messages.parts import Part
from memoranda_messages.payloads import OUTPUTS, agrees
from memoranda_messages.request import legal_participant_name, spoken
from memoranda_messages.shapes import arguments_object, calls_of

Fields = dict[str, Any]

_COMPARED = ("memory_type", "content", "name", "tool_calls", "tool_call_id", "tool_name", "is_error", "provider_parts")
_PLAIN = ("memory_type", "content", "name", "tool_call_id", "is_error", "provider_parts")
_OF_RESULTS = ("tool_call_id", "tool_name", "is_error")
_TYPES = ("human", "ai", "tool", "system", "item")
_KIND_KEYS = ("type", "kind", "block_type", "part_kind")
_TEXT_KEYS = ("text", "content")


def _plain_word(name: str) -> str:
    return re.sub(r"[-_ ]", "", name).casefold()


_CALL_WORDS = frozenset(
    _plain_word(word)
    for word in (
        *("tool_call", "tool_calls", "invalid_tool_call", "invalid_tool_calls", "tool_call_chunk", "tool_use"),
        *("tool_result", "tool_return", "function_call", "function_response", "function_result"),
        *OUTPUTS,
        *OUTPUTS.values(),
    )
)
"""What frameworks and providers call the calls of tools that the program runs, and their results."""


def spoken_fields(fields: Fields) -> Fields:
    """Return fields that were read from a message with every text in ``content``: see the module."""
    parts: Sequence[Part] = fields.get("parts") or ()
    texts = [part.text for part in parts if _is_plain_text(part, fields)]
    if not texts:
        return fields
    content = "\n".join(filter(None, [fields["content"], *texts]))
    return fields | {"content": content, "parts": [part for part in parts if not _is_plain_text(part, fields)]}


def _is_plain_text(part: Part, fields: Fields) -> bool:
    if part.kind == "reasoning":
        return fields["memory_type"] != "ai" and part.text is not None
    return part.as_url is None and part.text is not None


def held_fields(fields: Fields) -> Fields:
    """Return what an item can hold of fields: only a model makes calls, and only a tool answers them."""
    left = set() if fields["memory_type"] == "ai" else {"tool_calls"}
    left |= set() if fields["memory_type"] == "tool" else set(_OF_RESULTS)
    return {name: value for name, value in fields.items() if name not in left}


def can_be_held(fields: Fields) -> bool:
    """Return True if an item can be made of fields; a message with others counts as one of an unknown kind."""
    if fields["memory_type"] not in _TYPES or not isinstance(fields["content"], str):
        return False
    calls = fields.get("tool_calls") or ()
    return fields["memory_type"] != "ai" or all(isinstance(call["id"], str) and call["id"] for call in calls)


def unknown_fields(given: Any, name: str, roles: Collection[str]) -> Fields:
    """Return the fields for a message of an unknown kind, of the framework of this name.

    It has the texts that are found in it, the names of the calls and results there, and the type of its role. A
    person's is an ``item``, since it may be part of a turn that is under way, such as an approval.
    """
    types = {type_of_role(role) for role in roles}
    kind = next((kind for kind in ("system", "ai", "tool") if kind in types), "item")
    entries = list(_entries(given))
    texts = [value for key, value in entries if key in _TEXT_KEYS and isinstance(value, str) and value]
    return {
        "memory_type": kind,
        "content": "\n".join(filter(None, map(_clean, texts))),
        "provider_parts": [name, *sorted({word for entry in entries if (word := _call_word(*entry))})],
    }


def says_the_same(items: Sequence[MemoryItem], known: Sequence[Fields], roles: Iterable[str]) -> bool:
    """Return True if a message brings in nothing that its items do not say.

    ``known`` are the fields that were read from it, one for each item, and ``roles`` the words for who speaks.
    """
    types = [item.memory_type for item in items]
    return all(may_speak_as(role, types) for role in roles) and all(map(_agrees, items, known))


def is_same_unknown(item: MemoryItem, fields: Fields, roles: Iterable[str]) -> bool:
    """Return True if a message of an unknown kind brings in nothing that its item does not say.

    ``fields`` are its :func:`unknown_fields`.
    """
    return all(may_speak_as(role, [item.memory_type]) for role in roles) and agrees(item, fields)


def _agrees(item: MemoryItem, fields: Fields) -> bool:
    """Return True if an item says what was read from its message."""
    if any(_plain_word(str(name)) in _CALL_WORDS for name in fields.get("provider_parts") or ()):
        return False
    held, further = item.__dict__, item.__pydantic_extra__ or {}
    if fields.get("provider_parts"):
        return agrees(item, _compared(fields))
    differ = [name for name in _PLAIN if (fields.get(name) or None) != (held.get(name, further.get(name)) or None)]
    if not differ and (fields.get("tool_name") or "") in ("", held.get("tool_name")):
        # As most are. Calls are compared as JSON, since 1 is neither 1.0 nor true.
        calls, asked = fields.get("tool_calls") or [], held.get("tool_calls") or []
        if not (calls or asked) or (fields["memory_type"] == "ai" and json_text(calls) == json_text(asked)):
            return True
    return agrees(item, _compared(fields))


def _compared(fields: Fields) -> Fields:
    return {name: fields[name] for name in _COMPARED if fields.get(name) or name == "content"}


def _call_word(key: Any, value: Any) -> str | None:
    """Return the word by which an entry of an object names a call or a result; None for any other entry."""
    named = value if key in _KIND_KEYS else key if value else None
    return named if isinstance(named, str) and _plain_word(named) in _CALL_WORDS else None


def _entries(given: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the keys and values of all objects in a message, in their order, however deep they lie."""
    waiting: list[tuple[Any, Any]] = [(None, given)]
    while waiting:
        key, value = waiting.pop()
        yield key, value
        if isinstance(value, dict):
            waiting += list(value.items())[::-1]
        elif isinstance(value, list):
            waiting += [(None, inner) for inner in value[::-1]]


def storable(fields: Fields) -> Fields:
    """Return fields without what no store can hold; the payload, which is returned, has it."""
    parts = fields.get("parts")
    cleaned: Fields = _clean({name: value for name, value in fields.items() if name != "parts"})
    return cleaned | ({"parts": parts} if parts else {})


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        if value.isascii():
            return value.replace("\0", "")
        return value.encode("utf-8", "ignore").decode().replace("\0", "")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    return [_clean(inner) for inner in value] if isinstance(value, (list, tuple)) else value


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
