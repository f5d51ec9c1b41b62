"""Where histories are played: an empty store for each, or a part of a shared store."""

from __future__ import annotations

import inspect
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store, copy_item
from memoranda_testing.case import Clock
from memoranda_testing.expect import ExpectationError
from memoranda_testing.model.outside import Outside
from memoranda_testing.model.player import Failure, Player, replayed
from memoranda_testing.model.steps import BRANCH, Call, Calls, Cancelled, Many, ManyIds, RankedAfresh, Step, Together

OpenAnother = Callable[[], Awaitable[Store]]

START = 2_000_000_000.0
"""The time that the clock of an exclusive store starts at."""

_FURTHER = 1e7
"""Seconds by which the clock advances between histories, so that nothing of one is alive in the next."""


@dataclass
class Sandbox:
    """Gives each history a store that looks empty to it.

    With ``fresh`` that is a new store each time. Otherwise the given one is emptied. On a shared store, everything is
    written below one namespace, no call looks beyond it, and the clock is not moved.
    """

    store: Store
    exclusive: bool = True
    fresh: OpenAnother | None = None
    reopen: OpenAnother | None = None
    patience: float = 30.0
    instances: int = 1
    going_on: Callable[[], None] = lambda: None
    outside: Outside | None = None
    mark: str = ""
    marks: list[str] = field(default_factory=list)
    _clock: float = START

    def __post_init__(self) -> None:
        if Capability.PERSISTENT in self.store.capabilities:
            self.fresh = None  # What another opening gives may be the same data.
        if not self.exclusive or not (self.can_be_emptied or self.fresh):
            self._new_mark()

    @property
    def can_be_emptied(self) -> bool:
        """True if removing leaves nothing behind, so that ids can be reused."""
        held = self.store.capabilities
        return Capability.PURGE in held or Capability.DELETE not in held

    @property
    def calls(self) -> Calls:
        """What writes down calls for this store."""
        return Calls(hides=Capability.DELETE in self.store.capabilities)

    @property
    def moves_clock(self) -> bool:
        """True if the clock can be moved without expiring memories of others."""
        return self.exclusive and Capability.TTL in self.store.capabilities

    def _new_mark(self) -> None:
        self.mark = f"conform-{uuid.uuid4().hex}"
        self.marks.append(self.mark)

    async def player(self) -> Player:
        """Return a player on an empty store."""
        if self.fresh is not None:
            store = await self.fresh()
            await store.init()
            return Player([store], Clock(START), self.patience, going_on=self.going_on)
        if self.mark and not self.can_be_emptied:
            self._new_mark()
        else:
            await self._empty()
            await self.store.init()  # A store in memory that is empty need not look at the clock again.
        self._clock += _FURTHER
        clock = Clock(self._clock if self.exclusive else time.time())
        instances = [self.store]
        while self.reopen is not None and len(instances) < self.instances:
            another = await self.reopen()
            await another.init()
            instances.append(another)
        player = Player(instances, clock, self.patience, self.reopen, self.outside, self.going_on)
        player.model.bounds = MemoryMetadata(namespace=(self.mark,)) if self.mark else None
        return player

    async def close(self, player: Player) -> None:
        """Close what was opened for a history."""
        self._clock = max(self._clock, player.clock.now)
        for store in player.instances:
            if store is not self.store:
                await store.close()
        await self.store.init()

    async def attempt(self, steps: Sequence[Step]) -> Failure | None:
        """Play steps on an empty store and return how they fail; refuse steps that reach memories of others."""
        if self.mark and not all(stays_within(step, self.mark) for step in steps):
            return None
        player = await self.player()
        try:
            return await replayed(player, steps)
        finally:
            await self.close(player)

    async def _empty(self) -> None:
        store, held = self.store, self.store.capabilities
        bounds = MemoryMetadata(namespace=(self.mark,)) if self.mark else None
        await store.clear(metadata=bounds)
        if Capability.PURGE in held:
            await store.purge(metadata=bounds, deleted_only=True)
        elif Capability.TTL in held and not self.mark:
            await store.sweep()
        left = await store.count(metadata=bounds, include_deleted=Capability.DELETE in held)
        if left:
            raise ExpectationError(
                f"After clear() of everything and purge(deleted_only=True) the store still counts {left} items."
            )


def _takes_a_filter(method: Any) -> bool:
    """Return True for a method that may be called without naming items: it takes a filter, or owners within a scope."""
    given = inspect.signature(method).parameters
    named = [given[name] for name in ("item_id", "ids", "items", "adds") if name in given]
    return "metadata" in given and all(each.default is not inspect.Parameter.empty for each in named)


_METHODS = inspect.getmembers(Store, inspect.isfunction)

_BOUNDED = frozenset({"owners", *(name for name, method in _METHODS if _takes_a_filter(method))})
"""The methods that take a filter; the others take ids or items, which bear the mark."""


def lowered(step: Step, mark: str) -> Step:
    """Return the step as it is played in a shared store: ids and places of its own, and no look beyond them."""
    if mark and isinstance(step, RankedAfresh):
        return replace(step, owner=_lowered("metadata", step.owner, mark))
    if not mark or not isinstance(step, Call):
        return step
    arguments = {name: _lowered(name, value, mark) for name, value in step.arguments.items()}
    scope = None if step.scope is None else _lowered("metadata", step.scope, mark)
    return within_bounds(replace(step, arguments=arguments, scope=scope), MemoryMetadata(namespace=(mark,)))


_OF_IDS = ("item_id", "after", "at", "ids", "deletes", "deleted", "id", "$in")
"""The names of arguments, and what conditions are made of, whose texts are ids."""


def _lowered(name: str, value: Any, mark: str) -> Any:
    if isinstance(value, MemoryMetadata):
        # Others may have a conversation with the same names.
        user, session = value.user_id and f"{mark}{value.user_id}", _lowered_session(value.session_id, mark)
        return value.model_copy(update={"namespace": (mark, *value.namespace), "user_id": user, "session_id": session})
    if isinstance(value, MemoryItem):
        lower = copy_item(value)
        lower.__dict__.update(id=_lowered_id(value.id, mark), metadata=_lowered(name, value.metadata, mark))
        lower.__dict__["archived_by"] = value.archived_by and _lowered_id(value.archived_by, mark)
        return lower
    if isinstance(value, Many):
        return replace(value, prefix=f"{mark}{value.prefix}", metadata=_lowered(name, value.metadata, mark))
    if isinstance(value, ManyIds):
        return replace(value, prefix=f"{mark}{value.prefix}")
    if name == "where" and isinstance(value, dict) and "id" in value:
        asked = value["id"]
        by_operator = isinstance(asked, dict) and {each: _lowered(each, ids, mark) for each, ids in asked.items()}
        return {**value, "id": by_operator or _lowered("id", asked, mark)}
    if isinstance(value, (list, tuple, set)) and name in ("items", "adds", *_OF_IDS):
        return [_lowered(name, inner, mark) for inner in value]
    if name == "session_id":
        return _lowered_session(value, mark)
    return _lowered_id(value, mark) if name in _OF_IDS and isinstance(value, str) else value


def _lowered_session(session: str | None, mark: str) -> str | None:
    return _lowered_id(session, mark) if session is not None and session.startswith(BRANCH) else session


def _lowered_id(item_id: str, mark: str) -> str:
    """Return an id of its own; that of a forked session still begins like one."""
    beginning = BRANCH if item_id.startswith(BRANCH) else ""
    return f"{beginning}{mark}{item_id.removeprefix(BRANCH)}"


def within_bounds(call: Call, bounds: MemoryMetadata | None) -> Call:
    """Return a call that looks no further than these bounds, if it names neither a scope nor a filter of its own."""
    bound = "within" if call.method == "owners" else "metadata"
    if bounds is None or call.scope is not None or call.method not in _BOUNDED or call.arguments.get(bound) is not None:
        return call
    return replace(call, arguments={**call.arguments, bound: bounds})


def stays_within(step: Step, mark: str) -> bool:
    """Return True if a step reads, writes and removes only what bears this mark."""
    return all(_is_bounded(call, mark) and _is_tidy(call, mark) for call in _calls(step))


def _calls(step: Step) -> Iterator[Call]:
    if isinstance(step, Call):
        yield step
    elif isinstance(step, Cancelled):
        yield step.call
    elif isinstance(step, Together):
        yield from step.calls


def _is_bounded(call: Call, mark: str) -> bool:
    if call.method not in _BOUNDED or call.arguments.get("item_id") is not None:
        return True
    asked = call.arguments.get("within" if call.method == "owners" else "metadata")
    return any(_names(metadata, mark) for metadata in (call.scope, asked))


def _names(metadata: MemoryMetadata | None, mark: str) -> bool:
    if metadata is None:
        return False
    named = [getattr(metadata, name) for name in SCOPE_FIELDS]
    return metadata.namespace[:1] == (mark,) or any(value is not None and mark in value for value in named)


def _is_tidy(call: Call, mark: str) -> bool:
    """Return True if all it stores lies where the sandbox is emptied."""
    given = [call.arguments.get(name) for name in ("item", "items", "adds", "record")]
    return all(place[:1] == (mark,) for value in given for place in _places(value))


def _places(value: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(value, (MemoryItem, Many)):
        yield value.metadata.namespace
    elif isinstance(value, list):
        for inner in value:
            yield from _places(inner)
