"""What goes into a change and what comes back: candidates, sources, facts and receipts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.store import Store
from memoranda.trust import Trust, check_trust, trust_of
from memoranda_facts.records import MANUAL, ChangeKind, Source
from memoranda_facts.values import EVER, Moment, Object, in_short


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change that a rule, a model or a program proposes.

    - ``set`` asserts the object.
    - ``end`` says that it stopped being true at ``valid_to``, by default when it was said; without an object, that
      every value of the slot did.
    - ``correct`` says that ``replaces`` was never true, and that the object is, if there is one. Without ``replaces``,
      it is about what holds in a slot of one value.

    ``sources`` are the items that say so, with spans. What is ``doubtful`` counts one level less than what they
    are sure of, so that it disputes what holds and replaces nothing.
    """

    subject: str
    predicate: str
    object: Any = None
    kind: Literal["set", "end", "correct"] = "set"
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    confidence: float = 1.0
    qualifiers: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    rule: str = "manual"
    replaces: Any = None
    doubtful: bool = False


Sources = str | MemoryItem | Source | Iterable[MemoryItem | Source | str]
"""What supports a change: items, ids of items, :class:`Source` with spans, or the word "manual"."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The sources of a change, when their latest item was created, and how far they are trusted together."""

    sources: tuple[Source, ...]
    said: str | None
    trust: Trust

    @property
    def item_ids(self) -> list[str]:
        return sorted({source.item_id for source in self.sources if not source.is_manual})


def handle_trust(store: Store) -> Trust | None:
    """Return how far what a handle writes is trusted at most; None if it does not say."""
    trusts = []
    bound: object = store
    while bound is not None:
        if (trust := getattr(bound, "trust", None)) is not None:
            trusts.append(Trust(trust))
        bound = getattr(bound, "_store", None)
    return min(trusts, default=None)


def named_sources(given: Sources) -> list[MemoryItem | Source]:
    """Return sources as a list. Raises InputError if there are none."""
    several = [given] if isinstance(given, (str, MemoryItem, Source)) else list(given)
    if not several:
        raise InputError("A fact needs sources: items, their ids, or 'manual'.", field="sources")
    found: list[MemoryItem | Source] = []
    for each in several:
        if isinstance(each, str):
            found.append(MANUAL if each == "manual" else Source(each))
        elif isinstance(each, (MemoryItem, Source)):
            found.append(each)
        else:
            raise InputError(f"A source is an item, an id or a Source, not {type(each).__name__}.", field="sources")
    return found


def missing_items(named: Iterable[MemoryItem | Source]) -> list[str]:
    """Return the ids of the items that have to be read."""
    return [each.item_id for each in named if isinstance(each, Source) and not each.is_manual]


def supported(
    named: Iterable[MemoryItem | Source], held: Mapping[str, MemoryItem], most: Trust | None, trust: str | None
) -> Provenance:
    """Return what sources come to. ``held`` are the items that were read, ``most`` the trust of the handle.

    What was entered by hand is trusted as far as ``trust`` says, by default as the handle or else as a user. Everything
    else is trusted at most as far as its least trusted item. Raises InputError for an item that is not there.
    """
    asked = None if trust is None else check_trust(trust, "trust")
    levels = [level for level in (asked, most) if level is not None]
    sources, times = [], []
    for each in named:
        if isinstance(each, Source) and each.is_manual:
            sources.append(each)
            levels.append(asked or most or Trust.USER)
            continue
        item = each if isinstance(each, MemoryItem) else held.get(each.item_id)
        if item is None:
            raise InputError("A source of this fact is not among the memories of its user.", field="sources")
        sources.append(Source(each.id) if isinstance(each, MemoryItem) else each)
        levels.append(trust_of(item))
        times.append(item.created_at)
    return Provenance(tuple(dict.fromkeys(sources)), max(times, default=None), min(levels))


State = Literal["holds", "disputed", "unsure", "ended", "superseded", "retracted"]
"""How a fact stands at the moment that was asked for. Only ``history`` returns the last three."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A value of a slot, and from when to when it held.

    ``id`` is the entry that first asserted it; ``entries`` are all that do. ``valid_from`` and ``valid_to`` are as
    coarse as they were given; None is an open end. ``recorded_at`` is when it was first learned.
    """

    id: str
    subject: str
    predicate: str
    object: Object
    state: State
    valid_from: str | None
    valid_to: str | None
    recorded_at: str
    change: str
    qualifiers: Mapping[str, Any] = field(default_factory=dict, hash=False)
    confidence: float = 1.0
    trust: str = "user"
    sources: tuple[Source, ...] = ()
    depends_on: tuple[str, ...] = ()
    rule: str = "manual"
    entries: tuple[str, ...] = ()

    def __str__(self) -> str:
        since = f", since {in_short(self.valid_from)}" if self.valid_from and self.valid_from != EVER else ""
        until = f", until {in_short(self.valid_to)}" if self.valid_to else ""
        return f"{self.subject} {self.predicate.replace('_', ' ')}: {self.object}{since}{until}"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a change did; :meth:`Facts.undo` takes it.

    ``id`` names the change, ``entries`` what was written for it. ``replaced``, ``disputed`` and ``unsure`` are the ids
    of the facts that do not hold any more, that another value contradicts now, and that depend on one that ended; of
    the last, those that the object has read or written. ``removed`` are the entries that were purged with their
    sources. ``by`` is the rule that proposed the change. ``new`` is False if its key had been written before.
    """

    id: str
    kind: ChangeKind | Literal["apply"]
    entries: tuple[str, ...]
    at: str
    by: str = "manual"
    replaced: tuple[str, ...] = ()
    disputed: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    new: bool = True


@dataclass(frozen=True, slots=True)
class Support:
    """A source of a fact, with the text that it points to; None if its item is not there."""

    source: Source
    text: str | None
    rule: str


@dataclass(frozen=True, slots=True)
class Why:
    """Why a fact stands as it does.

    ``replaced`` are the facts that it superseded, ``replaced_by`` those that superseded it, ``against`` those that
    contradict it. ``decided_by`` says in words which line of the rule table decided.
    """

    fact: Fact
    sources: tuple[Support, ...]
    rule: str
    decided_by: str
    replaced: tuple[Fact, ...] = ()
    replaced_by: tuple[Fact, ...] = ()
    against: tuple[Fact, ...] = ()
    entries: tuple[str, ...] = ()
