"""A framework's messages as items, and back: nothing lost in a round trip, and readable for every other framework.

An adapter subclasses :class:`MessageFormat` with four small methods that know its framework:

- ``dump`` and ``load`` turn a message into a JSON object and back. Nothing may be lost here.
- ``read`` returns what an object says, one dict of fields for each item that it consists of.
- ``write`` makes a message from :class:`Outgoing`: for items that another framework wrote, or that were changed.

The fields of ``read`` are those of items: ``memory_type`` (``human``, ``ai``, ``tool`` or ``system``; ``item`` for what
no other framework is to see) and ``content``; ``tool_calls``, a list of ``{"id": …, "name": …, "arguments": …}``, for
``ai``; ``tool_call_id``, ``tool_name`` and ``is_error`` for ``tool``; ``name`` for who spoke. Besides:

- ``parts``: images, audio, files and reasoning, each a :class:`Part`. Give ``data`` and texts as the object has them.
- ``provider_parts``: names of whatever else the object brings to a model, such as a search that the provider ran.
- ``extra``: values for ``metadata.extra``, such as the framework's own id of a message.
- ``id``, ``created_at``, ``group``, ``origin``: as an item has them; without an ``id`` it gets a new one.

An object is returned as long as it agrees with its items' fields (see :func:`memoranda_messages.agrees`). If an item
was changed since, its message is written from the fields.
"""

from __future__ import annotations

import logging
import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Generic, TypeVar

from memoranda.errors import InputError
from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata
from memoranda.shapes import items_of, json_text, owner_of
from memoranda.tool_calls import call_name
from memoranda_messages import Dropped, agrees
from memoranda_messages.parts import frame, framed, parts_of
from memoranda_messages.payload_json import encode_payload
from memoranda_sessions.outgoing import Outgoing, runs

M = TypeVar("M")
Fields = dict[str, Any]
JsonObject = dict[str, Any]

logger = logging.getLogger(__name__)

_COMPARED = ("memory_type", "content", "name", "tool_calls", "tool_call_id", "tool_name", "is_error", "provider_parts")
_PLAIN = ("memory_type", "content", "name", "tool_call_id", "is_error", "provider_parts")
_BESIDE = ("parts", "extra")
_UNSTORABLE = ("\\u0000", "\\ud", "NaN", "Infinity")
"""What stands in JSON for values that no store can hold."""


class MessageFormat(ABC, Generic[M]):
    """How a framework's messages are stored. ``name`` is the ``payload_format`` of its items."""

    name: str

    holds: AbstractSet[str] = frozenset()
    """Which of ``name`` and ``is_error`` a message that :meth:`write` makes has a place for; others are reported."""

    joins_results = False
    """True if the results of parallel calls are one message: then :meth:`write` gets them together."""

    @abstractmethod
    def dump(self, message: M) -> JsonObject:
        """Return all of a message as a JSON object."""

    @abstractmethod
    def load(self, given: JsonObject) -> M:
        """Return the message that :meth:`dump` turned into this object."""

    @abstractmethod
    def read(self, given: JsonObject) -> list[Fields]:
        """Return the fields of the items that an object consists of, in their order.

        An empty list, or an InputError, stands for a message of an unknown kind: it is stored and returned, and no
        other framework sees anything of it.
        """

    @abstractmethod
    def write(self, outgoing: Outgoing) -> M | None:
        """Return a message that says what the items say; None if nothing is left to say.

        Parts that this does not take from ``outgoing`` are reported as dropped.
        """

    def raw_type(self, given: JsonObject) -> str:
        """Return the ``memory_type`` for a message of an unknown kind: ``system`` if it instructs a model."""
        return "item"

    def is_just(self, item: MemoryItem, given: JsonObject) -> bool:
        """Return True if an object is known to say what its only item says, without reading it; only for speed."""
        return False

    def items(
        self,
        messages: Iterable[M],
        *,
        metadata: MemoryMetadata | None = None,
        ids: Sequence[str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> list[MemoryItem]:
        """Return the items of messages, in their order, each with its message as payload.

        ``ids`` are the ids of each message's first item; ``ID-1`` and so on are those of its others. Without them,
        every item has a new one. ``names`` are the names of tools that were called before, by the id of the call, for
        results that do not name their tool. Raises InputError for what JSON cannot hold.
        """
        owner = owner_of(metadata)
        known = dict(names or {})
        found: list[MemoryItem] = []
        for position, message in enumerate(messages):
            given = self.dump(message)
            payload = encode_payload({"message": given})
            fields = self._known(given, payload) or [_raw_fields(self.raw_type(given), self.name)]
            if ids is not None:
                for number, each in enumerate(fields):
                    each["id"] = f"{ids[position]}-{number}" if number else ids[position]
            found += self._items_of(given, payload, fields, owner, known)
        return found

    def messages(self, items: Iterable[MemoryItem], *, dropped: list[Dropped] | None = None) -> list[M]:
        """Return the messages of items, oldest first.

        What could not be carried over from another framework, or from an item that was changed, is appended to
        ``dropped``; if there is anything, one warning without content is logged. Nothing else is left out: give it
        what :meth:`Conversation.shown` returns to have messages that a model accepts.
        """
        return [message for message, _ in self.paired(items, dropped=dropped)]

    def paired(
        self, items: Iterable[MemoryItem], *, dropped: list[Dropped] | None = None
    ) -> list[tuple[M, list[MemoryItem]]]:
        """Return the messages of items, as :meth:`messages` does, each with the items that it consists of."""
        losses: list[Dropped] = []
        found = self.written(items, losses)
        warn_of(losses, self.name)
        if dropped is not None:
            dropped += losses
        return found

    def written(self, items: Iterable[MemoryItem], dropped: list[Dropped]) -> list[tuple[M, list[MemoryItem]]]:
        """Return what :meth:`paired` returns, and append to ``dropped``, without a warning: see :func:`warn_of`."""
        given = items_of(items)
        among = {item.id: item for item in given}
        found: list[tuple[M, list[MemoryItem]]] = []
        for entry in runs(self._own(given, dropped), joins_results=self.joins_results):
            if isinstance(entry, _Own):
                found.append((entry.message, entry.items))
                continue
            outgoing = Outgoing(entry, {item.id: parts_of(item, among) for item in entry})
            message = None if outgoing.is_empty else self.write(outgoing)
            dropped += outgoing.losses(self.holds, written=message is not None)
            if message is not None:
                found.append((message, entry))
        return found

    def original(self, items: Sequence[MemoryItem]) -> M | None:
        """Return the message that the first item has, if the items are all of it and agree with it; else None."""
        found = self._message_at(items, 0)
        return None if found is None or found[1] < len(items) else self._loaded(found[0])

    def _known(self, given: JsonObject, payload: str) -> list[Fields]:
        """Return the fields of a message, cleaned of what no store can hold; none for an unknown kind.

        ``payload`` is its JSON, which shows at a glance if there may be anything to clean.
        """
        try:
            known = self.read(given)
            if any(sign in payload for sign in _UNSTORABLE):
                known = [_cleaned(fields) for fields in known]
            return known if all(map(_can_be_held, known)) else []
        except (InputError, AttributeError, KeyError, TypeError, ValueError):
            return []

    def _items_of(
        self, given: JsonObject, payload: str, known: Sequence[Fields], owner: MemoryMetadata, names: dict[str, str]
    ) -> Iterator[MemoryItem]:
        first: str | None = None
        for fields in known:
            item = _item(fields | {"payload": payload, "payload_format": self.name}, owner, names)
            if first is not None or fields.get("parts"):
                item.payload = encode_payload(frame(item, given, fields.get("parts") or (), first))
            first = first or item.id
            yield item

    def _own(self, items: Sequence[MemoryItem], losses: list[Dropped]) -> Iterator[MemoryItem | _Own]:
        """Yield the messages of this framework that items have, and the other items."""
        at = 0
        while at < len(items):
            found = self._message_at(items, at)
            message = None if found is None else self._loaded(found[0])
            if found is not None and message is not None:
                yield _Own(message, list(items[at : at + found[1]]))
                at += found[1]
                continue
            if items[at].payload_format == self.name:
                losses.append(Dropped(items[at].id, "payload", "outdated"))
            yield items[at]
            at += 1

    def _loaded(self, given: JsonObject) -> M | None:
        """Return a message; None if this release of the framework cannot read it."""
        try:
            return self.load(given)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None

    def _message_at(self, items: Sequence[MemoryItem], at: int) -> tuple[JsonObject, int] | None:
        """Return the object that the item at a position has, and of how many items; None if they disagree with it."""
        if items[at].payload_format != self.name:
            return None
        given = (framed(items[at]) or {}).get("message")
        if not isinstance(given, dict):
            return None
        if self.is_just(items[at], given):
            return given, 1
        known = self._known(given, items[at].payload or "")
        if not known:
            is_raw = agrees(items[at], _raw_fields(self.raw_type(given), self.name))
            return (given, 1) if is_raw else None
        if at + len(known) > len(items):
            return None
        for offset, fields in enumerate(known):
            item = items[at + offset]
            if offset and (framed(item) or {}).get("of") != items[at].id:
                return None
            if not _agrees(item, fields):
                return None
        return given, len(known)


def warn_of(dropped: Sequence[Dropped], name: str) -> None:
    """Log one warning, without content, if anything could not be carried over to a framework of this name."""
    if dropped:
        logger.warning(
            "Details of a conversation that could not be carried over to %s: %d. The list of dropped parts names them.",
            name,
            len(dropped),
        )


class _Own:
    """A message of the framework itself, with its items."""

    def __init__(self, message: Any, items: list[MemoryItem]) -> None:
        self.message = message
        self.items = items


def _raw_fields(memory_type: str, name: str) -> Fields:
    return {"memory_type": memory_type, "content": "", "provider_parts": [name]}


def _item(fields: Fields, owner: MemoryMetadata, names: dict[str, str]) -> MemoryItem:
    """Return the item of fields; ``names`` are those of the tools that were called so far, by the id of the call."""
    values = {name: value for name, value in fields.items() if name not in _BESIDE and value is not None}
    kind = BUILTIN_TYPES.get(fields["memory_type"], MemoryItem)
    if fields["memory_type"] == "tool" and not fields.get("tool_name"):
        values["tool_name"] = names.get(fields.get("tool_call_id") or "", "")
    for call in fields.get("tool_calls") or ():
        names[call["id"]] = call_name(call)
    if not values.get("provider_parts"):
        values.pop("provider_parts", None)
    extra = fields.get("extra")
    metadata = owner.model_copy(update={"extra": {**owner.extra, **extra}}) if extra else owner
    return kind(**values | {"id": values.get("id") or uuid.uuid4().hex}, metadata=metadata)


def _agrees(item: MemoryItem, fields: Fields) -> bool:
    """Return True if an item still says what its message says."""
    held, further = item.__dict__, item.__pydantic_extra__ or {}
    differ = [name for name in _PLAIN if (fields.get(name) or None) != (held.get(name, further.get(name)) or None)]
    if not differ and (fields.get("tool_name") or "") in ("", held.get("tool_name")):
        # As most are. Calls are compared as JSON, since 1 is neither 1.0 nor true.
        calls, asked = fields.get("tool_calls") or [], held.get("tool_calls") or []
        if not (calls or asked) or json_text(calls) == json_text(asked):
            return True
    compared = {name: fields[name] for name in _COMPARED if fields.get(name) or name == "content"}
    return agrees(item, compared)


def _can_be_held(fields: Fields) -> bool:
    """Return True if an item can hold all of the fields; a message with others counts as one of an unknown kind."""
    kind, calls = fields["memory_type"], fields.get("tool_calls") or ()
    if kind not in ("human", "ai", "tool", "system", "item") or not isinstance(fields["content"], str):
        return False
    if kind != "tool" and any(fields.get(name) for name in ("tool_call_id", "tool_name", "is_error")):
        return False
    return not calls or bool(kind == "ai" and all(isinstance(call["id"], str) and call["id"] for call in calls))


def _cleaned(fields: Fields) -> Fields:
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
