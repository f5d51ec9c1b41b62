"""What somebody may do now, looked up whenever it is asked, and what of a space is shown to others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from memoranda.errors import NotGrantedError
from memoranda.items import MemoryItem, MemoryMetadata, utc_text
from memoranda.store import copy_item
from memoranda.store.backend import AtLeast, Filter, Layer, Value
from memoranda.store.ranked import RankedItem
from memoranda.store.records import RECORD_MAKERS
from memoranda.trust import Trust, trust_of
from memoranda_spaces.records import LEVELS, Grant, Grantee, grantees_of, group, identity, read_grants


class Clock:
    """The present by a store's clock, which never goes slower than time does: a clock that is set back opens nothing.

    A clock that jumps ahead closes grants as long as it is ahead.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock() - time.monotonic()

    def now(self) -> str:
        present = max(self._clock(), self._began + time.monotonic())
        return utc_text(datetime.fromtimestamp(present, UTC))


@dataclass(frozen=True, slots=True)
class Granted:
    """What all grants of somebody allow together in one space, and until when; None for as long as they stand."""

    may: str
    until: str | None
    by: tuple[Grant, ...]
    """The grants that allow it."""


@dataclass(frozen=True, slots=True)
class Access:
    """Looks up what the user and the agent of a scope may do."""

    directory: Layer
    scope: MemoryMetadata
    now: Callable[[], str]

    async def spaces(self, names: Iterable[str] | None = None, may: str = "read") -> dict[str, Granted]:
        """Return the spaces in which as much is allowed now, of all or of some names, in the order of their names."""
        wanted = None if names is None else frozenset(names)
        live = await live_grants(self.directory, grantees_of(self.scope), self.now())
        found: dict[str, list[Grant]] = {}
        for grant in live:
            if LEVELS[grant.may] >= LEVELS[may] and (wanted is None or grant.space in wanted):
                found.setdefault(grant.space, []).append(grant)
        return {space: together(found[space]) for space in sorted(found)}

    async def check(self, space: str, may: str) -> Granted:
        """Return what is allowed in a space. Raises NotGrantedError if it is not as much."""
        found = (await self.spaces((space,), may)).get(space)
        if found is None:
            raise NotGrantedError(identity(self.scope), space, may)
        return found


async def live_grants(directory: Layer, to: Iterable[Grantee], now: str) -> list[Grant]:
    """Return the grants of spaces that hold now for some grantees, by themselves or by their groups."""
    whose = set(to)
    own = await read_grants(directory, to=sorted({grantee.key for grantee in whose}))
    held = [grant for grant in own if grant.to in whose and grant.allows("read", now)]
    groups = sorted({group(grant.group).key for grant in held if grant.group is not None})
    theirs = await read_grants(directory, to=groups) if groups else []
    return [grant for grant in (*held, *theirs) if grant.group is None and grant.allows("read", now)]


def together(grants: Iterable[Grant]) -> Granted:
    """Return what several grants of one space allow together: as much as the highest, as long as the longest."""
    given = tuple(grants)
    ends = [grant.until for grant in given if grant.until is not None]
    until = max(ends) if len(ends) == len(given) else None
    return Granted(max((grant.may for grant in given), key=LEVELS.__getitem__), until, given)


T = TypeVar("T")

MOST_TRUST = Trust.AGENT
"""How far anything in a space is trusted at most, by whoever it was written: it is never the reader's own word."""

WRITTEN_TRUST = Trust.EXTERNAL
"""How far what a member writes into a space is trusted, until an operator approves it."""

NOT_SHARED = (*sorted(RECORD_MAKERS), "branch", "fact", "graph")
"""Types that a handle reads in its own scope alone: what is believed of a user must not come from a space."""

_SHARED_ONLY = tuple(Value("memory_type", False, "$ne", kind) for kind in NOT_SHARED)


def shared(wanted: Filter) -> Filter | None:
    """Return a filter as it is asked of spaces; None if nothing that is shared could match."""
    if any(type(each) is AtLeast and each.trust > MOST_TRUST for each in wanted.further):
        return None
    kinds = (wanted.memory_type,) if isinstance(wanted.memory_type, str) else wanted.memory_type
    if kinds is None:
        return wanted.also(*_SHARED_ONLY)
    named = tuple(kind for kind in kinds if kind not in NOT_SHARED)
    return replace(wanted, memory_type=named) if named else None


def is_shared(item: MemoryItem) -> bool:
    """Return True for an item of a space that handles of others may be shown."""
    return item.memory_type not in NOT_SHARED


def seen(found: T) -> T:
    """Return an item of a space, or one with its score, as others see it; what changes for that is a copy."""
    item = found.item if isinstance(found, RankedItem) else found
    if not isinstance(item, MemoryItem) or trust_of(item) <= MOST_TRUST:
        return found
    lowered: Any = copy_item(item)
    lowered.__dict__["trust"] = str(MOST_TRUST)
    return replace(found, item=lowered) if isinstance(found, RankedItem) else lowered


def seen_all(found: Iterable[T]) -> list[T]:
    """Return what a read of a space gave as others see it."""
    return [seen(each) for each in found]
