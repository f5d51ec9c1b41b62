"""Random histories: every public method, with every argument that the contract knows, drawn from a small world."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from memoranda.items import BUILTIN_TYPES, SCOPE_FIELDS, MemoryItem, MemoryMetadata, utc_text
from memoranda.store import Capability, copy_item
from memoranda_testing.model.alphabet import (
    BOUNDS,
    FAR_FUTURE,
    FAR_PAST,
    FIELD_VALUES,
    FOREVER,
    LIFETIMES,
    QUERIES,
    STATUSES,
    TYPES,
    World,
)
from memoranda_testing.model.reference import Model, Refused
from memoranda_testing.model.steps import Call, Forked, Moved, Reopened, Step, Together

_HANDLES = (0, 0, 0, 1, 0, 1, 2, 3, 4, 8, 16, 17, 5, 9, 6, 10, 12, 18, 20, 24, 7, 11, 13, 19, 21, 25, 14, 22, 26, 28)
_ALL = (15, 23, 27, 29, 30, 31)


@dataclass(frozen=True)
class Kinds:
    """What a history may hold beside single calls."""

    lifetimes: bool = False
    moves_clock: bool = False
    clock_goes_back: bool = False
    reopening: bool = False
    instances: int = 1
    together: bool = True
    substring_is_default: bool = True


class Generator:
    """Draws one step after the other. What it draws depends on the random numbers and on the model alone."""

    def __init__(self, random: Random, capabilities: frozenset[Capability], kinds: Kinds, mark: str = "") -> None:
        self.world = World(random, mark)
        self.capabilities = capabilities
        self.kinds = kinds
        self._handle = random.randrange(64)
        self._waiting: list[Step] = []
        self.drawn = 0
        """How many steps were drawn, the looks at everything not counted."""
        reads = ["get", "get_many", "search", "search", "search_ranked", "window", "head", "count", "scan", "owners"]
        reads.append("exists")
        writes = ["add", "add", "add_many", "add_many", "update", "update_many", "append", "apply", "clear", "pop"]
        if Capability.DELETE in capabilities:
            writes += ["delete", "delete", "restore"]
        if Capability.PURGE in capabilities:
            writes.append("purge")
        if kinds.lifetimes:
            writes += ["touch", "touch", "add"]
        if kinds.moves_clock:
            writes.append("sweep")
        self._reads, self._writes = reads, writes
        removals = ["pop", "purge", "clear", "restore", "purge"] + (["touch"] if kinds.lifetimes else [])
        self._removals = [method for method in removals if method in writes]

    def step(self, model: Model) -> Step:
        """Return the next step; after one that writes comes a look at everything."""
        self.drawn += not self._waiting
        if self._waiting:
            return self._waiting.pop()
        world = self.world
        if self.kinds.reopening and world.chance(0.05):
            self._waiting += self.audits()
            return Reopened()
        if self.kinds.moves_clock and world.chance(0.12):
            return self._moved(model)
        if self.kinds.together and world.chance(0.06):
            self._waiting += self.audits()
            return self._together(model)
        if self.forks and world.chance(0.05):
            self._waiting += self.audits()
            return self.forked(model)
        call = self.call(model)
        if call.writes:
            self._waiting += self.audits()
        return call

    def survey(self, model: Model) -> Iterator[Step]:
        """Yield calls of every reading method with each field and each condition by itself, then removals with one."""
        fields = (*SCOPE_FIELDS, "namespace")
        for method in ("append", "update", "pop") if self.kinds.together else ():
            yield self._together(model, method)
        if self.forks:
            yield from (self.forked(model), self.forked(model), *self.audits())
        for field in fields:
            for method in sorted(set(self._reads) - {"get", "exists"}):
                yield self._narrow(method, [field], model)
        yield from (self._narrow(method, ["user_id", "session_id"], model) for method in ("search", "count", "scan"))
        for method in ("search", "count", "scan", "search", "search_ranked", "search", "count", "window"):
            yield self._conditioned(method, model)
        for method in ("search", "count", "scan", "clear"):
            yield self._narrow(method, ["user_id", self.world.one(("namespace", "extra"))], model)
        yield from (*self._every_value(), *self._every_id(), *self._every_place())
        yield from (self._valued(), self._valued())
        for by in fields:
            yield Call("owners", self._everywhere({"by": by}, "within"), None, self._instance())
        for kind in TYPES[:5]:
            arguments = {"query": self.world.one(QUERIES[:4]), "mode": "text", "memory_type": kind, "limit": 100}
            yield Call("search_ranked", self._everywhere(arguments), None, self._instance())
        for method in ("add", "add_many", "apply"):
            yield from (self._replacement(method, model), *self.audits())
        for method in self._removals:
            yield from self.audits()
            if method in ("clear", "purge") and self.world.chance(0.5):
                yield self._conditioned(method, model)
            else:
                yield self._narrow(method, [self.world.one(fields)], model)
        yield from self.audits()

    def _conditioned(self, method: str, model: Model) -> Call:
        """Return a call that nothing but a time or a value bounds."""
        world = self.world
        arguments = dict(self._broad(method, model))
        kind = world.one(("where", "where", "where", "since", "until"))
        arguments[kind] = self._where() if kind == "where" else world.one(world.moments)
        return Call(method, self._everywhere(arguments), None, self._instance())

    def _every_value(self) -> Iterator[Call]:
        """Yield a search for each value of each key of ``extra``, and for what is greater and what is not that."""
        for key in self.world.keys:
            for value in self.world.values:
                asked = ["$eq", *(["$gt"] if _has_order(value) else []), *(["$ne"] if self.world.chance(0.2) else [])]
                for operator in asked:
                    arguments = {"where": {f"extra.{key}": {operator: value}}, "limit": 100}
                    yield Call("search", self._everywhere(arguments), None, self._instance())

    def _every_id(self) -> Iterator[Call]:
        """Yield looks at every id: all together, each by itself, and each under an owner who may be another."""
        yield Call("get_many", {"ids": list(self.world.ids)}, None, self._instance())
        for item_id in self.world.ids:
            yield Call("get", {"item_id": item_id}, None, self._instance())
            owner = self.world.naming([self.world.one((*SCOPE_FIELDS, "namespace", "extra"))])
            yield Call("get", {"item_id": item_id, "metadata": owner}, None, self._instance())

    def _every_place(self) -> Iterator[Call]:
        """Yield looks at what lies below every place."""
        for place in self.world.places:
            there = MemoryMetadata(namespace=place)
            for method in ("search", "count", "scan"):
                yield Call(method, {"metadata": there}, None, self._instance())
            yield Call("owners", {"by": "namespace", "within": there}, None, self._instance())

    def _replacement(self, method: str, model: Model) -> Call:
        """Return a call that replaces an item by itself as it was, but for the text and the times; those stay or not.

        Where items are removed by the same call, another one is, for good.
        """
        world = self.world
        taken = [row.item for row in model.rows.values() if not row.deleted]
        if not taken:
            return Call("count", self._everywhere({}), None, self._instance())
        item = copy_item(world.one(taken))
        item.__dict__.update({"content": world.one(world.contents), "created_at": utc_text(world.one(world.moments))})
        if item.expires_at != utc_text(FAR_FUTURE):
            item.__dict__["expires_at"] = (
                None  # What is left of a life may be so little that an engine's own clock ends it.
            )
        name = {"add": "item", "add_many": "items"}.get(method, "adds")
        arguments: dict[str, Any] = {name: item if method == "add" else [item], "keep_created": world.chance(0.7)}
        if method == "apply":
            arguments["deletes"] = [each.id for each in taken if each.id != item.id][:1]
            arguments["purge"] = Capability.PURGE in self.capabilities and world.chance(0.7)
        return Call(method, arguments, None, self._instance())

    def _valued(self) -> Call:
        """Return a search for values of ``extra`` that are near to those that are there."""
        world = self.world
        key, operator = world.one(world.keys), world.one(("$eq", "$ne", "$gt", "$lte", "$in"))
        value = world.one(world.values)
        if operator in ("$gt", "$lte") and (isinstance(value, (bool, list, dict)) or value is None):
            operator = "$eq"
        where = {f"extra.{key}": {operator: [value, world.one(world.values)] if operator == "$in" else value}}
        return Call("search", self._everywhere({"where": where, "limit": 100}), None, self._instance())

    def _everywhere(self, arguments: dict[str, Any], name: str = "metadata") -> dict[str, Any]:
        """Return the arguments of a call that looks at all there is."""
        return {**arguments, name: self.world.bounds} if self.world.is_shared else arguments

    def _narrow(self, method: str, fields: Sequence[str], model: Model) -> Call:
        """Return a call that nothing but these fields bounds, by a handle or by a filter."""
        scope = self.world.naming(fields)
        drawn = self.call_of(method, model, broad=True)
        names = {"owners": "within", "add": "", "sweep": ""}
        name = names.get(method, "metadata")
        if not name or ("extra" not in fields and self.world.chance(0.5)):  # No handle is bound to ``extra``.
            return replace(drawn, scope=scope)
        return replace(drawn, arguments={**drawn.arguments, name: scope})

    def audits(self) -> list[Step]:
        """Return looks at everything, in the order of adding: with deleted items, and without."""
        arguments: dict[str, Any] = {"order": "added"}
        if self.world.is_shared:
            arguments["metadata"] = self.world.bounds
        plain = Call("scan", arguments, None, self._instance())
        looks: list[Step] = [plain]
        if Capability.DELETE in self.capabilities:
            looks.append(replace(plain, arguments={**arguments, "include_deleted": True}))
        if self.kinds.instances > 1:
            # The same questions again and again: what one of them remembers, another may have changed.
            looks += [Call(method, self._everywhere({}), None, self._instance()) for method in ("count", "head")]
        return looks

    def call(self, model: Model) -> Call:
        """Return a call of any method, which a store without the capability ``atomic`` would not leave half done."""
        while True:
            method = self.world.one(self._writes if self.world.chance(0.5) else self._reads)
            call = self.call_of(method, model)
            if Capability.ATOMIC in self.capabilities or not self._stops_halfway(call, model):
                return call

    def call_of(self, method: str, model: Model, *, broad: bool = False) -> Call:
        """Return a call of this method; a ``broad`` one is bounded by nothing but its own arguments."""
        if broad:
            return Call(method, self._broad(method, model), None, self._instance())
        scope = self._scope()
        draw: Callable[[MemoryMetadata | None, Model], dict[str, Any]] = getattr(self, f"_{method}")
        arguments = {name: value for name, value in draw(scope, model).items() if value is not None or name == "after"}
        return Call(method, arguments, scope, self._instance())

    def _broad(self, method: str, model: Model) -> dict[str, Any]:
        """Return arguments that leave out nothing."""
        deleted = {"include_deleted": True} if Capability.DELETE in self.capabilities and self.world.chance(0.3) else {}
        arguments: dict[str, dict[str, Any]] = {
            "get_many": {"ids": list(self.world.ids)},
            "search": {
                "limit": self.world.one((1, 2, 100)),
                "offset": self.world.one((0, 0, 1, 2)),
                "order": self.world.one(("created", "added", "updated")),
            },
            "search_ranked": {
                "query": self.world.one(QUERIES[:4]),
                "mode": "text",
                "limit": self.world.one((1, 100)),
                **({"memory_type": self.world.one(TYPES[:4])} if self.world.chance(0.5) else {}),
            },
            "count": deleted,
            "scan": deleted,
            "owners": {"by": self.world.one((*SCOPE_FIELDS, "namespace"))},
            "touch": {"ids": list(self.world.ids), **self.world.one(({}, {"ttl": 400.0}))},
        }
        return arguments.get(method, {})

    def _stops_halfway(self, call: Call, model: Model) -> bool:
        if call.method not in ("add_many", "append", "apply", "update_many"):
            return False
        try:
            getattr(model.copy().handle(call.scope), call.method)(**call.arguments)
        except Refused:
            return True
        except Exception:  # noqa: BLE001  # what is refused before anything is written
            return False
        return False

    # The handle and the time

    def _scope(self) -> MemoryMetadata | None:
        """Go through every combination of fields in turn, the broader ones more often."""
        self._handle += 1
        cycle = _HANDLES if self._handle % 3 else _ALL
        return self.world.scope(cycle[self._handle % len(cycle)])

    def _instance(self) -> int:
        return self.world.random.randrange(self.kinds.instances)

    def _moved(self, model: Model) -> Step:
        seconds = self.world.one((0.25, 0.5, 300, 300.75, 299.75, 600, 900, 3600))
        now = datetime.fromtimestamp(model.clock(), UTC)
        ends = [row.item.expires_at for row in model.rows.values() if row.item.expires_at is not None]
        left = [(datetime.fromisoformat(end) - now).total_seconds() for end in ends]
        soon = [seconds for seconds in left if 0 < seconds <= 4000]
        if soon and self.world.chance(0.5):
            seconds = self.world.one(soon)  # To the very moment at which an item ends.
        if self.kinds.clock_goes_back and self.world.chance(0.25):
            # The store has seen how late it was; then it is told another time.
            self._waiting += [*self.audits(), Moved(-seconds * 3)]
            return self.audits()[0]
        if self.world.chance(0.4):
            self._waiting += self.audits()
        return Moved(seconds)

    def _together(self, model: Model, method: str = "") -> Together:
        """Return several calls of one kind, each of which is one step on every store."""
        method = method or self.world.one(("add", "update", "append", "pop"))
        if method == "pop":
            pop = Call("pop", self._everywhere({}))
            return Together(tuple(replace(pop, instance=self._instance()) for _ in range(3)))
        items = [self.item(model, version=method == "update") for _ in range(3)]
        for item in items:
            item.__dict__["expires_at"] = None
        free = [item_id for item_id in self.world.ids if item_id not in model.rows]
        for item in items:
            item.__dict__["metadata"] = items[0].metadata
            if method == "append":
                item.__dict__["id"] = free.pop() if free else item.id
            else:
                item.__dict__["id"] = items[0].id
                item.__dict__["version"] = items[0].version
        if method != "append":
            return Together(tuple(Call(method, {"item": item}, None, self._instance()) for item in items))
        head = self._head_of(items[0], model)
        turns = [Call("append", {"items": [item], "after": head}, None, self._instance()) for item in items]
        return Together(tuple(turns))

    @property
    def forks(self) -> bool:
        """Whether sessions can be forked, and nothing is left of it afterwards."""
        return {Capability.FORK, Capability.PURGE} <= self.capabilities and not self.world.is_shared

    def forked(self, model: Model) -> Forked:
        """Return a session that is forked, most often at an item that it shows."""
        world, scope = self.world, self._scope()
        there = [row.item for row in model.rows.values() if not row.deleted and row.item.metadata.session_id]
        item = world.one(there) if there and world.chance(0.9) else None
        session = world.one(world.owners["session_id"]) if item is None else str(item.metadata.session_id)
        if item is not None and scope is not None and world.chance(0.7):
            held = {name: getattr(item.metadata, name) for name in SCOPE_FIELDS if getattr(scope, name) is not None}
            scope = MemoryMetadata(**{**held, "session_id": None}, namespace=item.metadata.namespace)
        at = self._id(model) if item is None else item.id
        said = [self.item(model) for _ in range(world.random.randint(0, 3))]
        for each in said:
            # Whether the past ends elsewhere once the item has expired that it ends at, no contract says.
            each.__dict__.update({"ttl": None, "expires_at": None})
            if item is not None and world.chance(0.7):
                each.__dict__["metadata"] = item.metadata
        scope = None if scope == MemoryMetadata() else scope
        return Forked(session, at, tuple(said), scope, self._instance())

    # Items and filters

    def item(self, model: Model, *, version: bool = False) -> MemoryItem:
        """Return an item, whose id may well be taken; its owner is most often the one that it had."""
        world = self.world
        item_id = self._id(model)
        row = model.rows.get(item_id)
        metadata = row.item.metadata if row is not None and world.chance(0.75) else world.belonging()
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
        if world.chance(0.15):
            values["archived_by"] = "s"
        if world.chance(0.15):
            values["name"] = world.one(("Ada", ""))
        if world.chance(0.15):
            values["mood"] = world.one(world.values)
        if kind == "ai" and world.chance(0.6):
            values["tool_calls"] = [{"id": world.one(("c", "d"))}]
        if kind == "tool":
            values["tool_call_id"] = world.one(("c", "d"))
        if self.kinds.lifetimes:
            if world.chance(0.3):
                values["ttl"] = world.one(LIFETIMES)
            if world.chance(0.08):
                # What is over as it comes is swept by the store that it comes to, and by others a little later.
                values["expires_at"] = world.one((FAR_PAST, FAR_FUTURE) if self.kinds.instances == 1 else (FAR_FUTURE,))
        if version:
            held = row.item.version if row is not None and not row.deleted else 0
            values["version"] = held if world.chance(0.8) else world.random.randint(0, 3)
        elif world.chance(0.1):
            values["version"] = world.random.randint(1, 9)
        return BUILTIN_TYPES.get(kind, MemoryItem)(**values)

    def _id(self, model: Model) -> str:
        """Return an id: one of a deleted item, one that is taken, or any."""
        hidden = [item_id for item_id, row in model.rows.items() if row.deleted]
        if hidden and self.world.chance(0.25):
            return self.world.one(hidden)
        return (
            self.world.one(list(model.rows))
            if model.rows and self.world.chance(0.4)
            else self.world.one(self.world.ids)
        )

    def _items(self, model: Model, scope: MemoryMetadata | None, *, version: bool = False) -> list[MemoryItem]:
        """Return a batch; an item of it in a handle is most often one that the handle takes."""
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
        """Return a metadata filter; in a handle most often one that does not contradict it."""
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

    def _filters(self, scope: MemoryMetadata | None) -> dict[str, Any]:
        world = self.world
        return {
            "metadata": self._asked(scope),
            "since": world.one(BOUNDS) if world.chance(0.1) else None,
            "until": world.one(BOUNDS) if world.chance(0.1) else None,
            "where": self._where() if world.chance(0.3) else None,
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
        return self.world.one(LIFETIMES) if self.kinds.lifetimes and self.world.chance(0.3) else None

    def _flag(self, share: float = 0.25) -> bool | None:
        return True if self.world.chance(share) else None

    def _refresh(self) -> bool | None:
        return self._flag(0.2) if self.kinds.lifetimes else None

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

    # The arguments of each method

    def _get(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        metadata = self._asked(scope) if self.world.chance(0.45) else None
        return {"item_id": self.world.one(self.world.ids), "metadata": metadata, "refresh": self._refresh()}

    def _get_many(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        ids = [self.world.one(self.world.ids) for _ in range(self.world.random.randint(0, 5))]
        metadata = self._asked(scope) if self.world.chance(0.45) else None
        return {"ids": ids, "metadata": metadata, "refresh": self._refresh()}

    def _search(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        world = self.world
        query = world.one(QUERIES) if world.chance(0.3) else None
        mode = world.one((None, "substring", "text")) if self.kinds.substring_is_default or not query else "substring"
        return {
            **self._filters(scope),
            **self._page(),
            "query": query,
            "mode": mode,
            "memory_type": world.one(TYPES) if world.chance(0.15) else None,
            "status": world.one(STATUSES) if world.chance(0.15) else None,
            "order": world.one((None, None, "created", "added", "updated")),
            "refresh": self._refresh(),
        }

    def _search_ranked(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        world = self.world
        return {
            **self._filters(scope),
            **self._page(),
            "query": world.one(QUERIES),
            "mode": "text",
            "memory_type": world.one(TYPES) if world.chance(0.15) else None,
            "status": world.one(STATUSES) if world.chance(0.1) else None,
        }

    def _window(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        bounds = {"rounds": (0, 1, 2, 3), "tokens": (0, 5, 20, 1000), "limit": (0, 1, 2, 5)}
        chosen = {name: self.world.one(values) for name, values in bounds.items() if self.world.chance(0.35)}
        return {**self._filters(scope), **chosen}

    def _head(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        return {"metadata": self._asked(scope)}

    def _count(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        deleted = self._flag() if Capability.DELETE in self.capabilities else None
        return {**self._filters(scope), "include_deleted": deleted}

    def _scan(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        world = self.world
        return {
            **self._filters(scope),
            "include_deleted": self._flag() if Capability.DELETE in self.capabilities else None,
            "memory_type": world.one(TYPES) if world.chance(0.15) else None,
            "status": world.one(STATUSES) if world.chance(0.15) else None,
            "archived": world.one((None, None, True, False)),
            "order": world.one((None, "created", "added", "updated")),
        }

    def _exists(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        return {}

    def _owners(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        world = self.world
        by = world.one((*SCOPE_FIELDS, "namespace", "namespace"))
        page = self._page()
        page["limit"] = page["limit"] or None
        page["counts"] = False if world.chance(0.25) else None
        if by != "namespace":
            return {"by": by, "within": self._asked(scope), **page}
        suffix = world.one(world.places)[-1:] if world.chance(0.3) else None
        return {"by": by, "within": self._asked(scope), "depth": world.one((None, 1, 2)), "suffix": suffix, **page}

    def _add(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        return {
            "item": self._fitting(self.item(model), scope),
            "within": self._within(scope),
            "ttl": self._ttl(),
            "keep_created": self._flag(0.15),
        }

    def _add_many(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        items, ttl = self._items(model, scope), self._ttl()
        hidden = None
        if Capability.ADD_DELETED in self.capabilities and ttl is None and self.world.chance(0.25):
            hidden = [item.id for item in items if self.world.chance(0.6)]
        return {
            "items": items,
            "within": self._within(scope),
            "ttl": ttl,
            "deleted": hidden,
            "keep_created": self._flag(0.15),
        }

    def _append(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        items = self._items(model, scope)
        free = [item_id for item_id in self.world.ids if item_id not in model.rows]
        for item in items[1:]:
            item.__dict__["metadata"] = items[0].metadata
        if self.world.chance(0.7):
            for item in items:
                item.__dict__["id"] = free.pop() if free else item.id
        return {
            "items": items,
            "after": self._head_of(items[0], model),
            "within": self._within(scope),
            "ttl": self._ttl(),
        }

    def _apply(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        items = self._items(model, scope) if self.world.chance(0.5) else []
        added = {item.id for item in items}
        deletes = [self._id(model) for _ in range(self.world.random.randint(0, 3))]
        return {
            "adds": items,
            "deletes": [item_id for item_id in deletes if item_id not in added or self.world.chance(0.03)],
            "within": self._within(scope),
            "ttl": self._ttl(),
            "keep_created": self._flag(0.15),
            "purge": self._flag(0.5) if Capability.PURGE in self.capabilities else None,
        }

    def _update(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        return {"item": self._fitting(self.item(model, version=True), scope), "within": self._within(scope)}

    def _update_many(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        return {"items": self._items(model, scope, version=True), "within": self._within(scope)}

    def _touch(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        ids = [self.world.one(self.world.ids) for _ in range(self.world.random.randint(0, 4))]
        ttl = self.world.one((None, None, *LIFETIMES, FOREVER))
        return {"ids": ids, "ttl": ttl, "metadata": self._asked(scope) if self.world.chance(0.3) else None}

    def _sweep(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        return {}

    def _clear(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        filters = self._filters(scope)
        if not any(filters.values()) and scope is None and not self.world.chance(0.2):
            filters["metadata"] = self.world.naming([self.world.one(SCOPE_FIELDS)])  # All is removed seldom.
        return filters

    def _pop(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        return {
            "metadata": self._asked(scope),
            "memory_type": self.world.one(TYPES) if self.world.chance(0.15) else None,
            "where": self._where() if self.world.chance(0.2) else None,
            "purge": self._flag(0.3) if Capability.PURGE in self.capabilities else None,
        }

    def _delete(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        metadata = self._asked(scope) if self.world.chance(0.45) else None
        return {"item_id": self._id(model), "metadata": metadata}

    def _restore(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        item_id = self._id(model) if self.world.chance(0.4) else None
        return {"item_id": item_id, "metadata": self._asked(scope)}

    def _purge(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        item_id = self._id(model) if self.world.chance(0.4) else None
        return {"item_id": item_id, **self._filters(scope), "deleted_only": self._flag(0.4)}


def _has_order(value: Any) -> bool:
    return isinstance(value, (int, float, str)) and not isinstance(value, bool)
