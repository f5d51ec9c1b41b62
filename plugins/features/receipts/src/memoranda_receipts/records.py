"""What a store holds of a receipt: one item, which names what a model was shown and does not repeat it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter

from memoranda.errors import CorruptStoreError
from memoranda.items import MemoryItem
from memoranda.store.fields import TRUSTED, fields_of

FORMAT = "memoranda-receipt/1"
"""The format of a receipt's payload."""

LIFETIME = 30 * 24 * 3600.0
"""How many seconds a receipt is kept, unless the caller says otherwise."""

TOLD = ("profile", "remark")
"""The roles of what is told of facts: what is known, and what holds no longer of an item."""

QUESTION = "question"
"""The role of an item that was purged and that repeated the question."""

SINCE = "revision_since"
"""The field in which a store with revisions keeps since when an item is as it is; only others show it."""

_NOT_SHOWN = frozenset(
    {
        *("id", "metadata", "status", "created_at", "updated_at", "version", "archived_by", "ttl", "expires_at"),
        *("trust", "origin", "approval", "group", "group_size", SINCE),
    }
)
"""The fields of an item that no message holds."""


_NO_CALLS: Mapping[str, Any] = {"tool_calls": []}

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode
_compact = json.JSONEncoder(separators=(",", ":"), default=str).encode
_quoted = json.encoder.encode_basestring_ascii


class _ShownNames(NamedTuple):
    """The names of the fields that a model may be shown, beside those that every item has."""

    names: tuple[str, ...]
    values_of: Callable[[dict[str, Any]], tuple[Any, ...]]
    usual: tuple[Any, ...]
    """Their values in an item that says a text and nothing else."""
    calls: str
    """What such an item has of calls, as JSON."""


@cache
def _shown_names(cls: type[MemoryItem]) -> _ShownNames:
    """Return what of the items of a class a model may be shown."""
    hidden = {*_NOT_SHOWN, "content", "memory_type"}
    names = tuple(name for name in cls.model_fields if name not in hidden)
    calls = ',"tool_calls":[]' if "tool_calls" in names else ""
    return _ShownNames(names, itemgetter(*names), tuple(map(_NO_CALLS.get, names)), calls)


def shown_fields(item: MemoryItem) -> str:
    """Return everything in an item that a model may be shown, as JSON; stores may give fields in any order."""
    held, extra = item.__dict__, item.__pydantic_extra__
    names, values_of, usual, calls = _shown_names(type(item))
    if values_of(held) == usual and not extra:
        # Most items say a text and nothing else. This is the same JSON in less time.
        return f'{{"content":{_quoted(held["content"])},"memory_type":{_quoted(held["memory_type"])}{calls}}}'
    further = {name: value for name in names if (value := held[name]) is not None}
    if extra:
        further |= {name: value for name, value in extra.items() if value is not None and name not in _NOT_SHOWN}
    return _canonical({**further, "content": item.content, "memory_type": item.memory_type})


def content_hash(item: MemoryItem) -> str:
    """Return a hash of everything in an item that a model may be shown."""
    return hashlib.sha256(shown_fields(item).encode()).hexdigest()[:32]


def digest_of(items: Sequence[MemoryItem], known: Mapping[int, str] = MappingProxyType({})) -> str:
    """Return a hash of a whole context, in its order; ``known`` has the hashes of some items, by their identity."""
    hashes = [known.get(id(item)) or content_hash(item) for item in items]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Shown:
    """An item that was shown: which, in which version, and a hash of its content.

    ``role`` is where it stood: ``"conversation"``, ``"long-term"``, ``"recent"``, ``"told"``, ``"profile"`` or
    ``"remark"``; ``"question"`` if it repeated the question and was purged. One that lies ``elsewhere`` was given to
    the context and is no item of the receipt's store.
    """

    id: str
    version: int
    hash: str
    role: str = "conversation"
    archived: bool = False
    expires_at: str | None = None
    trust: str = ""
    elsewhere: bool = False

    @classmethod
    def of(cls, item: MemoryItem, role: str, *, elsewhere: bool = False) -> Shown:
        """Return the entry of an item."""
        return cls(**entry_of(item, role, elsewhere=elsewhere))


def entry_of(item: MemoryItem, role: str, *, elsewhere: bool = False) -> dict[str, Any]:
    """Return the entry of an item as a receipt stores it: what has its default is left out."""
    held = item.__dict__
    entry = {"id": held["id"], "version": held["version"], "hash": content_hash(item)}
    if role != "conversation":
        entry["role"] = role
    if held["archived_by"] is not None:
        entry["archived"] = True
    if held["expires_at"] is not None:
        entry["expires_at"] = held["expires_at"]
    if held["trust"] is not None:
        entry["trust"] = held["trust"]
    if elsewhere:
        entry["elsewhere"] = True
    return entry


Layout = int | Mapping[str, Any]
"""A message of a context: the position of the item that it is, or how it was put together from items and texts."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a model was shown at one moment, in the order in which it was shown.

    ``kind`` is ``"window"``, ``"assemble"`` or ``"context"``. ``shown`` names the items. ``layout`` has one entry for
    each message, with the texts that were added around items; None if the items are the messages. ``left_out`` counts
    what was read and not shown, by reason; ``left_ids`` names the newest of it. A window reads no more than it needs:
    ``unread`` is the reason why what is older is left out, too; None if there is nothing older. ``contents`` are the
    items themselves, only where the receipt was asked to keep them. ``digest`` is a hash of the whole context.
    ``clock`` is the present by the store's own clock, if it was another one.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    id: str
    at: str
    kind: str
    digest: str
    shown: tuple[Shown, ...] = ()
    layout: tuple[Layout, ...] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    counter: str = ""
    tokens: int | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    left_ids: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unread: str | None = None
    clock: str | None = None
    session: str | None = None
    model: str | None = None
    answer: str | None = None
    expires: str | None = None
    contents: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def ids(self) -> list[str]:
        """The ids of the items that were shown, in order."""
        return [entry.id for entry in self.shown]

    @property
    def texts(self) -> list[str]:
        """The texts that were added around items: system, delimiters, fences and the question."""
        pieces = [piece for part in self.layout or () if isinstance(part, Mapping) for piece in part["pieces"]]
        return [piece for piece in pieces if isinstance(piece, str)]

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as a document; what has its default is left out of the entries."""
        held = {name: getattr(self, name) for name in _FIELDS}
        held["shown"] = [_entry(entry) for entry in self.shown]
        return {name: value for name, value in held.items() if value not in (None, {}, ())}


_FIELDS = tuple(each.name for each in fields(Receipt))
_USUAL = tuple((each.name, each.default) for each in fields(Shown) if each.default is not MISSING)


def _entry(entry: Shown) -> dict[str, Any]:
    held: dict[str, Any] = {"id": entry.id, "version": entry.version, "hash": entry.hash}
    for name, usual in _USUAL:
        value = getattr(entry, name)
        if value != usual:
            held[name] = value
    return held


@cache
def _stored_form() -> TypeAdapter[Receipt]:
    return TypeAdapter(Receipt)


def loaded_receipt(item_id: str, text: str | None) -> Receipt:
    """Return the receipt that a payload holds. Raises CorruptStoreError for one that is none.

    An item of this type may be written by hand, so every field is checked.
    """
    try:
        receipt = _stored_form().validate_json(text or "", strict=True)
        _check_layout(receipt.layout or (), len(receipt.shown))
        return replace(receipt, id=item_id)
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptStoreError(
            f"The receipt {item_id!r} cannot be read: its payload is not of the format {FORMAT}. Remove the item, or "
            f"upgrade memoranda-receipts if a later release wrote it."
        ) from error


def _check_layout(layout: Sequence[Any], shown: int) -> None:
    """Raise ValueError for a layout that names items which were not shown, or has pieces of another kind."""
    for part in layout:
        places = [part] if type(part) is int else [part["of"]] if "of" in part else []
        if type(part) is dict:
            spans = [piece for piece in part["pieces"] if type(piece) is not str]
            if any(len(span) != 3 or not all(type(end) is int for end in span) for span in spans):
                raise ValueError("a piece is neither a text nor a span of one")
            places += [span[0] for span in spans]
        if not all(type(place) is int and 0 <= place < shown for place in places):
            raise ValueError("a message was made of an item that was not shown")


class ReceiptMemory(MemoryItem):
    """A receipt as stores hold it: without content, and archived by itself, so that no window and no search shows it.

    ``sources`` are the ids of the items whose content it keeps, if it was asked to.
    """

    memory_type: str = "receipt"
    sources: list[str] = Field(default_factory=list)

    @property
    def receipt(self) -> Receipt:
        """What it says."""
        return loaded_receipt(self.id, self.payload)

    def without_sources(self, gone: Collection[str]) -> ReceiptMemory:
        """Return the receipt without the contents of items that are gone; their ids and hashes stay."""
        receipt = self.receipt
        kept = {item_id: item for item_id, item in (receipt.contents or {}).items() if item_id not in gone}
        left = [source for source in self.sources if source not in gone]
        changed = replace(receipt, contents=kept or None)
        return self.model_copy(update={"payload": dumped_receipt(changed), "sources": left})


if fields_of(ReceiptMemory).plain:
    TRUSTED[ReceiptMemory] = fields_of(ReceiptMemory)  # Stores copy and write it like the types of the core.


def dumped_receipt(receipt: Receipt | Mapping[str, Any]) -> str:
    """Return a receipt, or the document of one, as the payload of its item."""
    return _compact(receipt.as_json() if isinstance(receipt, Receipt) else receipt)


def cleaned_item(item: MemoryItem, gone: Mapping[str, MemoryItem | None]) -> MemoryItem | None:
    """Return the item of a receipt without the content of others; None if it holds none."""
    try:
        receipt = loaded_receipt(item.id, item.payload)
    except CorruptStoreError:
        return None
    changed = without_items(receipt, gone)
    if changed is receipt:
        return None
    return item.model_copy(update={"payload": dumped_receipt(changed), "sources": list(changed.contents or ())})


def without_items(receipt: Receipt, gone: Mapping[str, MemoryItem | None]) -> Receipt:
    """Return a receipt without the content of items that are gone; the receipt itself if it holds none.

    An added text that one of them repeats, such as the question, becomes a reference to the item. With a fact, all goes
    that was told of facts: it does not say of which.
    """
    lost = set(gone)
    if any(item is not None and item.memory_type == "fact" for item in gone.values()):
        lost.update(entry.id for entry in receipt.shown if entry.role in TOLD)
    contents = {name: held for name, held in (receipt.contents or {}).items() if name not in lost}
    texts = {item.content: item for item in gone.values() if item is not None and item.content.strip()}
    parameters = {
        name: value for name, value in receipt.parameters.items() if not (isinstance(value, str) and value in texts)
    }
    shown = list(receipt.shown)
    places = {entry.id: place for place, entry in enumerate(shown)}

    def reference(item: MemoryItem) -> list[int]:
        if item.id not in places:
            places[item.id] = len(shown)
            shown.append(Shown.of(item, QUESTION))
        return [places[item.id], 0, len(item.content)]

    def cleaned(part: Layout) -> Layout:
        if isinstance(part, int):
            return part
        if "of" in part and shown[part["of"]].id in gone:
            return {"of": part["of"], "keep": [], "set": {}, "pieces": []}
        pieces = [
            reference(texts[each]) if isinstance(each, str) and each in texts else each for each in part["pieces"]
        ]
        return {**part, "pieces": pieces}

    layout = None if receipt.layout is None else tuple(map(cleaned, receipt.layout))
    changed = replace(receipt, contents=contents or None, parameters=parameters, layout=layout, shown=tuple(shown))
    return receipt if changed == receipt else changed
