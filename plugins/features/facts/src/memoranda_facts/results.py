"""What reading and changing facts returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memoranda_facts.dates import EVER, in_short
from memoranda_facts.records import ChangeKind, Source
from memoranda_facts.values import Object

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
