"""What a store holds of facts: one item for every change, an entry in the log of its slot.

A slot is a subject and a predicate of one owner. Entries are never rewritten; what holds is computed from all of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from pydantic import Field

from memoranda.errors import CorruptStoreError
from memoranda.items import MemoryItem, MemoryMetadata, utc_text
from memoranda.store.fields import TRUSTED, fields_of
from memoranda.trust import Trust
from memoranda_facts.values import EVER, Object, dumped, end_of, in_short, loaded, same_text, start_of

FORMAT = "memoranda-fact/1"
"""The format of an entry's payload."""

FOLDER = "facts"
"""The part of the namespace below which an owner's entries lie."""

SAME_AS = "same as"
"""The predicate under which a merge is recorded: the subject is another name of its object."""

DEPENDS = "depends"
"""The key of ``metadata.extra`` that marks entries that depend on others."""

MERGES = "merges"
"""The key of ``metadata.extra`` that marks entries about two names of one subject."""

_KEPT_FOLDERS = 256
"""Of how many owners the folders are kept: every change asks for that of its owner."""

_ENTRY_ID = re.compile(r"fact-[0-9a-f]{32}-([1-9][0-9]{0,17})")

ChangeKind = Literal["set", "end", "correct", "confirm", "retract", "merge", "undo", "forget"]
"""What a change does. ``forget`` takes back what has lost its sources."""

_ASSERTING = ("set", "confirm", "merge")
"""The kinds that are about a value."""


@dataclass(frozen=True, slots=True)
class Source:
    """An item that supports a fact, and which characters of its content do; an empty id means a person or program."""

    item_id: str
    start: int | None = None
    end: int | None = None

    @property
    def is_manual(self) -> bool:
        """True if no item stands behind it."""
        return not self.item_id


MANUAL = Source("")
"""The source of what a person or a program entered by hand."""


@dataclass(frozen=True, slots=True)
class Record:
    """What one entry says.

    ``value`` is what a set or a correction asserts, and which value an end is about, which is of the time ``valid_to``.
    ``targets`` are the entries that a correction, a confirmation or a retraction is about, or that are forgotten;
    ``undoes`` is the change that an undo takes back. ``at`` is the recorded time: entries of one change share it, and
    later ones of the slot have a later one. ``trust`` is that of the sources, even where they are ``doubtful`` of it.
    """

    id: str
    number: int
    change: str
    kind: ChangeKind
    subject: str
    predicate: str
    at: str
    value: Object | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    targets: tuple[str, ...] = ()
    undoes: str | None = None
    qualifiers: Mapping[str, Any] = field(default_factory=dict)
    confidence: float = 1.0
    trust: str = "user"
    sources: tuple[Source, ...] = (MANUAL,)
    depends_on: tuple[str, ...] = ()
    rule: str = "manual"
    key: str | None = None
    doubtful: bool = False

    @property
    def rank(self) -> int:
        """How much it counts against others, as a rank of trust: a doubt less than what its sources are sure of."""
        return max(0, Trust(self.trust).rank - self.doubtful)

    def dumped(self) -> str:
        """Return the record as JSON; what has its default is left out."""
        held: dict[str, Any] = {
            "change": self.change,
            "kind": self.kind,
            "subject": self.subject,
            "predicate": self.predicate,
            "at": self.at,
        }
        if self.value is not None:
            held["value"] = dumped(self.value)
        for name in ("valid_from", "valid_to", "undoes", "key"):
            if getattr(self, name) is not None:
                held[name] = getattr(self, name)
        for name, usual in (("trust", "user"), ("rule", "manual"), ("confidence", 1.0), ("doubtful", False)):
            if getattr(self, name) != usual:
                held[name] = getattr(self, name)
        if self.qualifiers:
            held["qualifiers"] = dict(self.qualifiers)
        for name in ("targets", "depends_on"):
            if getattr(self, name):
                held[name] = list(getattr(self, name))
        if self.sources != (MANUAL,):
            held["sources"] = [
                [source.item_id] if source.start is None else [source.item_id, source.start, source.end]
                for source in self.sources
            ]
        return json.dumps(held, separators=(",", ":"))


def loaded_record(item_id: str, text: str | None) -> Record:
    """Return the record of an entry. Raises CorruptStoreError for a payload that is none."""
    try:
        held = json.loads(text or "")
        held["value"] = loaded(held["value"]) if "value" in held else None
        if "sources" in held:
            held["sources"] = tuple(Source(*source) for source in held["sources"])
        for name in ("targets", "depends_on"):
            held[name] = tuple(held.get(name, ()))
        record = Record(id=item_id, number=number_of(item_id), **held)
        _check(record)
        return record
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptStoreError(
            f"The fact {item_id!r} cannot be read: its payload is not of the format {FORMAT}. Remove the item, or "
            f"upgrade memoranda-facts if a later release wrote it."
        ) from error


def _check(record: Record) -> None:
    """Raise ValueError for a record that no change can have written: anybody may add an item of this type."""
    texts = [record.change, record.subject, record.predicate, record.at, record.rule]
    texts += [*record.targets, *record.depends_on, *(source.item_id for source in record.sources)]
    texts += [text for text in (record.valid_from, record.valid_to, record.undoes, record.key) if text is not None]
    if not all(isinstance(text, str) for text in texts) or not record.sources:
        raise ValueError("a text is missing")
    typed = ((record.qualifiers, Mapping), (record.confidence, (int, float)), (record.doubtful, bool))
    if not all(isinstance(value, kind) for value, kind in typed):
        raise ValueError("a field is of another type")
    if record.kind not in get_args(ChangeKind) or (record.kind in _ASSERTING and record.value is None):
        raise ValueError("this kind of change asserts something else")
    if utc_text(record.at) != record.at or end_of(record.at[:10]) <= record.at:
        raise ValueError("it was recorded at no time")
    Trust(record.trust)
    start_of(record.valid_from or record.at)
    end_of(record.valid_to)


class FactMemory(MemoryItem):
    """One change of what is known, as stores hold it.

    The record is in ``payload``; ``content`` says the same in a sentence, by which it is found. ``sources`` are the ids
    of the items that support it, by which what was derived from an item is found. An entry is archived by itself, so
    that no window shows it and no compaction takes it: a change is no part of a conversation.
    """

    memory_type: str = "fact"
    sources: list[str] = Field(default_factory=list)

    @property
    def record(self) -> Record:
        """What the entry says."""
        return loaded_record(self.id, self.payload)

    def without_sources(self, gone: Collection[str]) -> FactMemory | None:
        """Return the entry without the sources that are gone; None if it has no others."""
        record = self.record
        kept = tuple(source for source in record.sources if source.item_id not in gone)
        if not kept:
            return None
        left = [source for source in self.sources if source not in gone]
        return self.model_copy(update={"payload": replace(record, sources=kept).dumped(), "sources": left})

    @property
    def subject(self) -> str:
        """The subject that the entry is about."""
        return self.record.subject

    @property
    def predicate(self) -> str:
        """The predicate of its slot."""
        return self.record.predicate

    @property
    def object(self) -> Object | None:
        """The value that it sets, corrects or ends."""
        return self.record.value

    @property
    def valid_from(self) -> str | None:
        """Since when the value holds, as coarse as it was given."""
        return self.record.valid_from

    @property
    def valid_to(self) -> str | None:
        """Until when the value holds, as coarse as it was given."""
        return self.record.valid_to


if fields_of(FactMemory).plain:
    TRUSTED[FactMemory] = fields_of(FactMemory)  # Stores copy and write it like the types of the core.


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A subject and a predicate of one owner; ``mark`` is an id that no other has, ``metadata`` where its log lies."""

    owner: MemoryMetadata
    subject: str
    predicate: str
    mark: str
    metadata: MemoryMetadata

    @classmethod
    def of(cls, owner: MemoryMetadata, subject: str, predicate: str, derived_id: Callable[[str], str]) -> Slot:
        """Return the slot of a subject and a predicate; ``derived_id`` is that of the store."""
        named = [owner.user_id, owner.agent_id, list(owner.namespace), *map(same_text, (subject, predicate))]
        mark = derived_id(json.dumps(named))
        return cls(owner, subject, predicate, mark, _place(owner, mark))

    @classmethod
    def of_entry(cls, owner: MemoryMetadata, entry_id: str) -> Slot:
        mark = entry_id.split("-")[1]
        return cls(owner, "", "", mark, _place(owner, mark))

    def __hash__(self) -> int:
        return hash(self.mark)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slot) and self.mark == other.mark

    @property
    def entry_prefix(self) -> str:
        return f"fact-{self.mark}-"

    def entry_id(self, number: int) -> str:
        """Return the id of an entry of its log; the first is number 1."""
        return f"{self.entry_prefix}{number}"


@lru_cache(maxsize=_KEPT_FOLDERS)
def folder_of(owner: MemoryMetadata) -> MemoryMetadata:
    """Return where all entries of an owner lie.

    No other user has anything there, so that any index of namespaces leads to them and to nothing else.
    """
    mark = hashlib.sha256(json.dumps([owner.user_id]).encode()).hexdigest()[:16]
    place = (*owner.namespace, FOLDER, mark)
    return MemoryMetadata(user_id=owner.user_id, agent_id=owner.agent_id, namespace=place)


def _place(owner: MemoryMetadata, mark: str) -> MemoryMetadata:
    folder = folder_of(owner)
    return folder.model_copy(update={"namespace": (*folder.namespace, mark[:16])})


def sentence(record: Record) -> str:
    """Return what a record says, for ranking and for people."""
    about = f"{record.subject} {record.predicate.replace('_', ' ')}"
    if record.kind == "undo" or record.kind == "forget":
        return f"{about}: a change was {'undone' if record.kind == 'undo' else 'forgotten'}"
    value = "" if record.value is None else f": {record.value}"
    since = f", since {in_short(record.valid_from)}" if record.valid_from and record.valid_from != EVER else ""
    until = f", until {in_short(record.valid_to)}" if record.valid_to else ""
    notes = {"end": " (ended)", "correct": " (corrected)", "confirm": " (confirmed)", "retract": " (retracted)"}
    return f"{about}{value}{since}{until}{notes.get(record.kind, '')}"


def item_of(record: Record, slot: Slot) -> FactMemory:
    """Return the item that a store holds for a record."""
    place = slot.metadata
    marks = {DEPENDS: True} if record.depends_on else {MERGES: True} if record.predicate == SAME_AS else {}
    return FactMemory(
        id=record.id,
        content=sentence(record),
        metadata=place.model_copy(update={"extra": marks}) if marks else place,
        created_at=record.at,
        archived_by=record.id,
        trust=record.trust,
        sources=list(dict.fromkeys(source.item_id for source in record.sources if not source.is_manual)),
        payload=record.dumped(),
        payload_format=FORMAT,
    )


def short_id(entry_id: str) -> str:
    """Return an id as profiles show it; methods that take an id take this form, too."""
    _, mark, number = entry_id.split("-")
    return f"{mark[:8]}-{number}"


def number_of(entry_id: str) -> int:
    """Return the number of an entry in its log. Raises ValueError for an id that no entry has."""
    found = _ENTRY_ID.fullmatch(entry_id)
    if found is None:
        raise ValueError("this is the id of no entry")
    return int(found.group(1))
