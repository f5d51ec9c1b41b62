"""A framework's messages as items, and back: nothing lost in a round trip, and readable for every other framework.

An adapter subclasses :class:`MessageFormat` with five small methods that know its framework:

- ``dump`` and ``load`` turn a message into a JSON object and back. Nothing may be lost here.
- ``read`` returns what an object says, one dict of fields for each item that it consists of.
- ``roles`` returns the words by which an object says who speaks.
- ``write`` makes a message from :class:`Outgoing`: for items that another framework wrote, or that were changed.

The fields of ``read`` are those of items: ``memory_type`` (``human``, ``ai``, ``tool`` or ``system``; ``item`` for what
no other framework is to see) and ``content``; ``tool_calls``, a list of ``{"id": …, "name": …, "arguments": …}``, for
``ai``; ``tool_call_id``, ``tool_name`` and ``is_error`` for ``tool``; ``name`` for who spoke. Besides:

- ``parts``: images, audio, files and reasoning, each a :class:`Part`. Give ``data`` and texts as the object has them.
- ``provider_parts``: names of whatever else the object brings to a model, such as a search that the provider ran.
- ``extra``: values for ``metadata.extra``, such as the framework's own id of a message.
- ``id``, ``created_at``, ``group``, ``origin``: as an item has them; without an ``id`` it gets a new one.

Give all texts, calls and results that a model would be shown, whoever the object says to speak. A stored message is
returned only if it brings in nothing that its items do not say (see :mod:`memoranda_messages.sessions.outgoing`). If
an item was changed since, or its payload says something else, its message is written from the fields.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, now_text
from memoranda.shapes import items_of, owner_of
from memoranda.store.codec import new_item
from memoranda.tool_calls import call_name
from memoranda_messages import Dropped
from memoranda_messages.parts import frame, framed, parts_of
from memoranda_messages.payload_json import encode_payload
from memoranda_messages.sessions.outgoing import (
    Fields,
    Outgoing,
    can_be_held,
    held_fields,
    is_same_unknown,
    runs,
    says_the_same,
    spoken_fields,
    storable,
    unknown_fields,
)

M = TypeVar("M")
JsonObject = dict[str, Any]

logger = logging.getLogger(__name__)

_BESIDE = ("parts", "extra")
_UNSTORABLE = ("\\u0000", "\\ud", "NaN", "Infinity")
"""What stands in JSON for values that no store can hold."""

_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)


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

        An empty list, or an InputError, stands for a message of an unknown kind: it is stored and returned, and other
        frameworks see its texts alone.
        """

    @abstractmethod
    def roles(self, given: JsonObject) -> Collection[str]:
        """Return the words by which an object says who speaks to a model, such as ``user`` or ``system``.

        Give them as the framework would use them, known or not. Roles that an item cannot have are never returned.
        """

    @abstractmethod
    def write(self, outgoing: Outgoing) -> M | None:
        """Return a message that says what the items say; None if nothing is left to say.

        Parts that this does not take from ``outgoing`` are reported as dropped.
        """

    def from_fields(self, item: MemoryItem) -> JsonObject | None:
        """Return the object of a message that says what an item's fields say; None if that is not easily made.

        Only for speed: a message with this object is stored without a payload.
        """
        return None

    def plain_fields(self, message: M) -> Fields | None:
        """Return the fields of a message whose object :meth:`from_fields` gives back, if that is easily seen.

        Only for speed: neither the message nor its object is looked at any further. The fields are those of
        :meth:`read`, without what is empty or None, and share nothing with the message that can be changed.
        """
        return None

    def made(self, given: JsonObject) -> M:
        """Return the message of an object that :meth:`from_fields` returned."""
        return self.load(given)

    def just(self, item: MemoryItem, given: JsonObject) -> M | None:
        """Return the message of an object that says what its only item says, and nothing else, if that is easily seen.

        Only for speed: None leaves it to the other methods.
        """
        own = self.from_fields(item)
        return self.made(own) if own is not None and own == given else None

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
        now = now_text()
        found: list[MemoryItem] = []
        for position, message in enumerate(messages):
            plain = self.plain_fields(message)
            if plain is not None and not _has_unstorable(encode_payload(plain)):
                own = {} if ids is None else {"id": ids[position]}
                found.append(_item({**plain, **own, "payload_format": self.name}, owner, known, now))
                continue
            given = self.dump(message)
            payload = encode_payload({"message": given})
            said = self._known(given, payload) or [unknown_fields(given, self.name, self._roles(given))]
            fields = [held_fields(each) for each in said]
            if ids is not None:
                for number, each in enumerate(fields):
                    each["id"] = f"{ids[position]}-{number}" if number else ids[position]
            items = list(self._items_of(given, payload, fields, owner, known, now))
            if len(items) == 1 and self.from_fields(items[0]) == given:
                items[0].__dict__["payload"] = None
            found += items
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
        return None if found is None or found[1] < len(items) else found[0]

    def _known(self, given: JsonObject, payload: str) -> list[Fields]:
        """Return the fields of a message, cleaned of what no store can hold; none for an unknown kind.

        ``payload`` is its JSON, which shows at a glance if there may be anything to clean.
        """
        try:
            known = [spoken_fields(fields) for fields in self.read(given)]
            if _has_unstorable(payload):
                known = [storable(fields) for fields in known]
            return known if all(map(can_be_held, known)) else []
        except (InputError, *_UNREADABLE):
            return []

    def _roles(self, given: JsonObject) -> list[str]:
        """Return the roles of an object; none that is no text can be told to a model."""
        try:
            return [role for role in self.roles(given) if isinstance(role, str)]
        except _UNREADABLE:
            return []

    def _items_of(
        self,
        given: JsonObject,
        payload: str,
        known: Sequence[Fields],
        owner: MemoryMetadata,
        names: dict[str, str],
        now: str,
    ) -> Iterator[MemoryItem]:
        first: str | None = None
        for fields in known:
            item = _item(fields | {"payload": payload, "payload_format": self.name}, owner, names, now)
            if first is not None or fields.get("parts"):
                item.payload = encode_payload(frame(item, given, fields.get("parts") or (), first))
            first = first or item.id
            yield item

    def _own(self, items: Sequence[MemoryItem], losses: list[Dropped]) -> Iterator[MemoryItem | _Own]:
        """Yield the messages of this framework that items have, and the other items."""
        at = 0
        while at < len(items):
            found = self._message_at(items, at)
            if found is not None:
                yield _Own(found[0], list(items[at : at + found[1]]))
                at += found[1]
                continue
            if items[at].payload_format == self.name and items[at].payload is not None:
                losses.append(Dropped(items[at].id, "payload", "outdated"))
            yield items[at]
            at += 1

    def _message_at(self, items: Sequence[MemoryItem], at: int) -> tuple[M, int] | None:
        """Return the message that the item at a position has, and of how many items; None if they disagree with it."""
        item = items[at]
        if item.payload_format != self.name:
            return None
        if item.payload is None:
            own = self.from_fields(item)
            return None if own is None else (self.made(own), 1)
        given = (framed(item) or {}).get("message")
        if not isinstance(given, dict):
            return None
        try:
            if (just := self.just(item, given)) is not None:
                return just, 1
            message = self.load(given)
            # A framework may read the stored object otherwise than it writes one: what it has read is compared.
            said = self.dump(message)
        except _UNREADABLE:
            return None  # This release of the framework cannot read it.
        count = self._agreeing(items, at, said)
        return (message, count) if count else None

    def _agreeing(self, items: Sequence[MemoryItem], at: int, said: JsonObject) -> int:
        """Return how many items from a position on say what an object says; 0 if they disagree with it."""
        payload, roles = items[at].payload or "", self._roles(said)
        known = self._known(said, payload)
        if not known:
            return int(is_same_unknown(items[at], unknown_fields(said, self.name, roles), roles))
        found = items[at : at + len(known)]
        are_its = all((framed(item) or {}).get("of") == items[at].id for item in found[1:])
        return len(known) if len(found) == len(known) and are_its and says_the_same(found, known, roles) else 0


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


def _item(fields: Fields, owner: MemoryMetadata, names: dict[str, str], now: str) -> MemoryItem:
    """Return a new item of fields; ``names`` are those of the tools that were called so far, by the id of the call."""
    values = {name: value for name, value in fields.items() if name not in _BESIDE and value is not None}
    if fields["memory_type"] == "tool" and not fields.get("tool_name"):
        values["tool_name"] = names.get(fields.get("tool_call_id") or "", "")
    for call in fields.get("tool_calls") or ():
        names[call["id"]] = call_name(call)
    if not values.get("provider_parts"):
        values.pop("provider_parts", None)
    extra = fields.get("extra")
    metadata = owner.model_copy(update={"extra": {**owner.extra, **extra}}) if extra else owner
    return new_item(values, metadata, now)


def _has_unstorable(payload: str) -> bool:
    """Return True if a payload may hold what no store can."""
    return any(sign in payload for sign in _UNSTORABLE)


ModelT = TypeVar("ModelT", bound=BaseModel)


class Template(Generic[ModelT]):
    """A model to make others like it: ``Template(TextBlock(text=""))(text="Hi")``, in a tenth of ``model_copy``'s time.

    Nothing is validated. Dicts, lists and sets of the model are copied, but not what is in them. It has no private
    attributes and no fields that its class does not know.
    """

    def __init__(self, model: ModelT) -> None:
        self._cls = type(model)
        self._fields = model.__dict__.copy()
        self._set = model.__pydantic_fields_set__.copy()
        self._copied = [name for name, value in self._fields.items() if isinstance(value, (dict, list, set))]

    def __call__(self, **fields: Any) -> ModelT:
        """Return a model with these values of some fields, and those of the template otherwise."""
        held = self._fields.copy()
        for name in self._copied:
            held[name] = held[name].copy()
        held.update(fields)
        made: ModelT = object.__new__(self._cls)
        _set_dict(made, held)
        _set_fields_set(made, self._set.union(fields))
        _set_extra(made, None)
        _set_private(made, None)
        return made


_set_dict = vars(BaseModel)["__dict__"].__set__
_set_fields_set = vars(BaseModel)["__pydantic_fields_set__"].__set__
_set_extra = vars(BaseModel)["__pydantic_extra__"].__set__
_set_private = vars(BaseModel)["__pydantic_private__"].__set__
