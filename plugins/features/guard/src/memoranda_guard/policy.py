"""Policies: rules as data that say what becomes of an item before it is stored.

A policy is a dict, or a JSON or TOML file of the same shape::

    name = "shop"
    default = "allow"

    [[rules]]
    name = "instructions"
    reason = "text from outside that addresses the model"
    at_most = "tool"
    patterns = ["ignore (all )?previous instructions"]
    across = 4
    outcome = "quarantine"

A rule applies if all of its conditions do. The first rule that applies decides; where none does, ``default`` does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import translate
from functools import cached_property

from memoranda.items import MemoryItem
from memoranda.store.records import is_from_maker
from memoranda.trust import Trust, origin_of

MOST_ACROSS = 8
"""How many earlier items of an origin a rule may look at together with a new one."""

PREDICATE_FORMAT = "memoranda-fact/1"


class Outcome(StrEnum):
    """What becomes of an item."""

    ALLOW = "allow"
    REDACT = "redact"
    QUARANTINE = "quarantine"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Rule:
    """One rule of a policy. A condition that is left out always holds.

    - ``at_most``: the item's trust is this or lower; ``at_least``: this or higher.
    - ``origins``, ``memory_types``, ``predicates``: one of these patterns matches the whole text, case-insensitive;
      ``*`` stands for anything. An item without an origin has the origin ``""``; an item that is no fact has no
      predicate, and no pattern matches it.
    - ``namespaces``: the item lies in one of these places or below it; a place is a list of texts, or one text with
      slashes.
    - ``by_maker``: if true, the code that makes such items writes it, as a compaction does its summary. Nobody can
      claim that of an item.
    - ``larger_than``: the texts of the item together have more characters.
    - ``more_than`` and ``per_seconds``: its origin wrote more items for this user than that, in so many seconds.
    - ``patterns``: one of these regular expressions is found in a text of the item, folded as
      :mod:`memoranda_guard.inspection` does it; so write them in lower case, without accents. With ``across``, also in
      the texts of so many earlier items of the same origin, user and session, put together with this one's.

    ``reason`` is a sentence for people. Never quote content in it: it is logged, and shown with quarantined items.
    """

    name: str
    outcome: Outcome
    reason: str = ""
    at_most: Trust | None = None
    at_least: Trust | None = None
    origins: tuple[str, ...] = ()
    memory_types: tuple[str, ...] = ()
    namespaces: tuple[tuple[str, ...], ...] = ()
    predicates: tuple[str, ...] = ()
    by_maker: bool = False
    larger_than: int | None = None
    more_than: int | None = None
    per_seconds: float | None = None
    patterns: tuple[str, ...] = ()
    across: int = 0

    @cached_property
    def compiled(self) -> tuple[re.Pattern[str], ...]:
        """The patterns, ready to be searched for."""
        return tuple(re.compile(pattern) for pattern in self.patterns)

    def takes(self, trust: Trust) -> bool:
        """Return True if the conditions on trust hold."""
        low, high = self.at_least or Trust.EXTERNAL, self.at_most or Trust.OPERATOR
        return low.rank <= trust.rank <= high.rank

    def concerns(self, item: MemoryItem) -> bool:
        """Return True if the conditions on what kind of item it is, where, and of which origin, all hold."""
        if self.memory_types and not self._memory_types.match(item.memory_type.casefold()):
            return False
        if self.by_maker and not is_from_maker(item):
            return False
        if self.origins and not self._origins.match((origin_of(item) or "").casefold()):
            return False
        place = item.metadata.namespace
        if self.namespaces and not any(place[: len(wanted)] == wanted for wanted in self.namespaces):
            return False
        predicate = predicate_of(item) if self.predicates else None
        return not self.predicates or (predicate is not None and bool(self._predicates.match(predicate.casefold())))

    @cached_property
    def _origins(self) -> re.Pattern[str]:
        return _globs(self.origins)

    @cached_property
    def _memory_types(self) -> re.Pattern[str]:
        return _globs(self.memory_types)

    @cached_property
    def _predicates(self) -> re.Pattern[str]:
        return _globs(self.predicates)


@dataclass(frozen=True)
class Policy:
    """Rules in their order, and what becomes of an item that none of them concerns."""

    name: str
    rules: tuple[Rule, ...] = ()
    default: Outcome = Outcome.ALLOW


def predicate_of(item: MemoryItem) -> str | None:
    """Return the predicate of a fact, None for any other item."""
    if item.memory_type != "fact":
        return None
    found = getattr(item, "predicate", None)
    if found is None and item.payload_format == PREDICATE_FORMAT:
        try:
            record = json.loads(item.payload or "")
        except (ValueError, RecursionError):
            record = None
        found = record.get("predicate") if isinstance(record, dict) else None
    return found if isinstance(found, str) else ""


def _globs(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{translate(pattern)})" for pattern in patterns))
