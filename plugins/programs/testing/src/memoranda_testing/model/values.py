"""Draw the items, filters and single values of random histories from a small world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from memoranda.items import BUILTIN_TYPES, SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Capability, copy_item
from memoranda_testing.model.reference import Model
from memoranda_testing.model.state import Row
from memoranda_testing.model.world import (
    BOUNDS,
    FAR_FUTURES,
    FAR_PAST,
    FIELD_VALUES,
    LIFETIMES,
    STATUSES,
    TRUSTS,
    TYPES,
    World,
)

_HANDLES = (0, 0, 0, 1, 0, 1, 2, 3, 4, 8, 16, 17, 5, 9, 6, 10, 12, 18, 20, 24, 7, 11, 13, 19, 21, 25, 14, 22, 26, 28)
_ALL = (15, 23, 27, 29, 30, 31)

_SELDOM: tuple[tuple[str, float, Sequence[Any]], ...] = (
    ("name", 0.15, ("Ada", "")),
    ("mood", 0.15, ()),
    ("trust", 0.25, TRUSTS),
    ("origin", 0.1, ("web", "")),
    ("payload", 0.3, ('{"a": 1}', "[]", "")),
    ("payload_format", 0.3, ("chat", "")),
    ("group", 0.1, ("g",)),
)
"""Fields that some items have, with how many do, and their values; none is the world's own."""


@dataclass(frozen=True)
class HistoryOptions:
    """What a history may contain besides single calls."""

    lifetimes: bool = False
    moves_clock: bool = False
    clock_goes_back: bool = False
    reopening: bool = False
    instances: int = 1
    outside: bool = False
    """Another process may look."""
    together: bool = True
    writes: tuple[str, ...] = ()
    """The methods that write; by default all that the store has."""
    copies: bool = False
    """One user's sessions are copied in the end, without handles, and nothing is archived.

    A copy may know less of where a past ends, and so of which summaries are of that past.
    """
    tenants: bool = False
    """Every call goes through the handle of a user."""
    substring_is_default: bool = True


class Values:
    """Draws the parts of calls, from the random numbers and the model alone."""

    def __init__(
        self, random: Random, capabilities: frozenset[Capability], options: HistoryOptions, mark: str = ""
    ) -> None:
        self.world = World(random, mark)
        if options.copies:
            self.world.ids += [f"{mark}{number}" for number in range(12)]
        self.capabilities = capabilities
        self.options = options
        self._handle = random.randrange(64)

    def _scope(self) -> MemoryMetadata | None:
        """Return the next combination of fields in turn, broad ones more often."""
        if self.options.copies:
            return None
        if self.options.tenants:
            return self.world.scope(1)
        self._handle += 1
        cycle = _HANDLES if self._handle % 3 else _ALL
        return self.world.scope(cycle[self._handle % len(cycle)])

    def _instance(self) -> int:
        return self.world.random.randrange(self.options.instances)

    def item(self, model: Model, *, version: bool = False) -> MemoryItem:
        """Return an item; its id is often taken, mostly with the same owner."""
        world = self.world
        item_id = self._id(model)
        row = model.rows.get(item_id)
        metadata = row.item.metadata if row is not None and world.chance(0.75) else self._belonging()
        kind = world.one(TYPES)
        values: dict[str, Any] = {
            "id": item_id,
            "content": world.one(world.contents),
            "memory_type": kind,
            "metadata": metadata,
            "created_at": world.one(world.moments),
            "updated_at": world.one(world.moments),
            "status": world.one(STATUSES) if world.chance(0.3) else "accepted",
        }
        for name, share, choices in _SELDOM:
            if world.chance(share):
                values[name] = world.one(choices or world.values)
        # Often by an item that is there, as a forked session asks for it.
        if world.chance(0.2) and not self.options.copies:
            values["archived_by"] = world.one((*world.ids[:3], "s"))
        if kind == "ai" and world.chance(0.6):
            values["tool_calls"] = [{"id": world.one(("c", "d"))}]
        if kind == "tool":
            values["tool_call_id"] = world.one(("c", "d"))
        if self.options.lifetimes:
            if world.chance(0.3):
                values["ttl"] = world.one(LIFETIMES)
            if world.chance(0.08):
                # An item that has expired on arrival is swept by its store at once, and by other instances later.
                values["expires_at"] = world.one(
                    (FAR_PAST, *FAR_FUTURES) if self.options.instances == 1 else FAR_FUTURES
                )
        if version:
            held = row.item.version if row is not None and (not row.deleted or world.chance(0.5)) else 0
            values["version"] = held if world.chance(0.8) else world.random.randint(0, 3)
        elif world.chance(0.1):
            values["version"] = world.random.randint(1, 9)
        return BUILTIN_TYPES.get(kind, MemoryItem)(**values)

    def _belonging(self) -> MemoryMetadata:
        """Return the metadata of an item."""
        world = self.world
        if not self.options.copies:
            return world.belonging()
        session = world.one(world.owners["session_id"])
        return MemoryMetadata(user_id=world.owners["user_id"][0], session_id=session, namespace=world.root)

    def _id(self, model: Model) -> str:
        """Return an id: of a deleted item, of a stored one, or any."""
        held = self._said(model)
        hidden = [row.item.id for row in held if row.deleted]
        if hidden and self.world.chance(0.25):
            return self.world.one(hidden)
        return self.world.one(held).item.id if held and self.world.chance(0.4) else self.world.one(self.world.ids)

    def _said(self, model: Model) -> list[Row]:
        """Return what is stored but the records of forked sessions, which only fork() makes."""
        return [row for row in model.rows.values() if row.item.memory_type != "branch"]

    def _items(self, model: Model, scope: MemoryMetadata | None, *, version: bool = False) -> list[MemoryItem]:
        """Return a batch; for a handle, mostly items that it accepts."""
        items = [self.item(model, version=version) for _ in range(self.world.random.choice((1, 1, 2, 3, 4)))]
        if version:
            items = list({item.id: item for item in items}.values())
        return [self._fitting(item, scope) for item in items]

    def _fitting(self, item: MemoryItem, scope: MemoryMetadata | None) -> MemoryItem:
        if scope is None or self.world.chance(0.1):
            return item
        fields = {name: getattr(scope, name) or getattr(item.metadata, name) for name in SCOPE_FIELDS}
        fitting = copy_item(item)
        place = item.metadata.namespace
        if place[: len(scope.namespace)] != scope.namespace:
            place = scope.namespace
        fitting.__dict__["metadata"] = MemoryMetadata(**fields, namespace=place, extra=item.metadata.extra)
        return fitting

    def _asked(self, scope: MemoryMetadata | None) -> MemoryMetadata | None:
        """Return a metadata filter; for a handle, mostly one that does not contradict it."""
        asked = self.world.asked()
        if scope is not None and asked is not None and not self.world.chance(0.1):
            asked = MemoryMetadata(
                **{name: getattr(asked, name) for name in SCOPE_FIELDS if getattr(scope, name) is None},
                namespace=() if scope.namespace else asked.namespace,
                extra=asked.extra,
            )
        if self.world.is_shared and scope is None:
            named = asked is not None and (asked.namespace or any(getattr(asked, name) for name in SCOPE_FIELDS))
            if not named:
                user = self.world.one((None, *self.world.owners["user_id"]))
                place = self.world.root if user is None else ()
                asked = MemoryMetadata(user_id=user, namespace=place, extra={} if asked is None else asked.extra)
        return None if asked == MemoryMetadata() and not self.world.chance(0.05) else asked

    def _everywhere(self, arguments: dict[str, Any], name: str = "metadata") -> dict[str, Any]:
        """Return the arguments of a call on everything."""
        return {**arguments, name: self.world.bounds} if self.world.is_shared else arguments

    def _filters(self, scope: MemoryMetadata | None) -> dict[str, Any]:
        world = self.world
        return {
            "metadata": self._asked(scope),
            "since": world.one(BOUNDS) if world.chance(0.1) else None,
            "until": world.one(BOUNDS) if world.chance(0.1) else None,
            "where": self._where() if world.chance(0.3) else None,
            "min_trust": world.one(TRUSTS) if world.chance(0.15) else None,
        }

    def _where(self) -> dict[str, Any]:
        return dict(self._condition() for _ in range(self.world.one((1, 1, 1, 2))))

    def _condition(self) -> tuple[str, Any]:
        world = self.world
        if world.chance(0.5):
            key = world.one(world.keys)
            values, key = world.values, key if world.chance(0.6) and key != "user_id" else f"extra.{key}"
        elif world.chance(0.3):
            key = world.one((*SCOPE_FIELDS, "id", "namespace"))
            if key == "namespace":
                values = [list(place) for place in (*world.places, ())]
            else:
                values = [*(world.ids if key == "id" else world.owners[key]), None]
        else:
            key = world.one(tuple(FIELD_VALUES))
            values = list(FIELD_VALUES[key])
        operator = world.one((None, "$eq", "$ne", "$in", "$exists", "$gt", "$gte", "$lt", "$lte"))
        if operator == "$exists":
            return key, {operator: world.chance(0.5)}
        if operator == "$in":
            return key, {operator: [world.one(values) for _ in range(world.random.randint(0, 3))]}
        if operator in ("$gt", "$gte", "$lt", "$lte"):
            values = [value for value in values if isinstance(value, (int, float, str)) and not isinstance(value, bool)]
            return key, {operator: world.one(values or [1])}
        value = world.one(values)
        return key, value if operator is None and not isinstance(value, dict) else {operator or "$eq": value}

    def _page(self) -> dict[str, Any]:
        world = self.world
        return {
            "limit": world.one((None, None, 1, 2, 3, 100, 2**40, 0)),
            "offset": world.one((None, None, None, 1, 2, 5)),
        }

    def _ttl(self) -> float | None:
        return self.world.one(LIFETIMES) if self.options.lifetimes and self.world.chance(0.3) else None

    def _flag(self, share: float = 0.25) -> bool | None:
        return True if self.world.chance(share) else None

    def _refresh(self) -> bool | None:
        return self._flag(0.2) if self.options.lifetimes else None

    def _within(self, scope: MemoryMetadata | None) -> MemoryMetadata | None:
        return self._asked(scope) if self.world.chance(0.2) else None

    def _head_of(self, item: MemoryItem, model: Model) -> str | None:
        user, session = item.metadata.user_id, item.metadata.session_id
        said = [
            row.item
            for row in model.rows.values()
            if not row.deleted and (row.item.metadata.user_id, row.item.metadata.session_id) == (user, session)
        ]
        heads = [each.id for each in said if each.memory_type != "summary"]
        if not self.world.chance(0.75):
            return self.world.one((None, *self.world.ids))
        return heads[-1] if heads else None
