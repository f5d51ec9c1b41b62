"""Random histories: every public method with every argument of the contract, over a small set of values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryMetadata, utc_text
from memoranda.store import Capability, copy_item
from memoranda_testing.model.calls import Calls
from memoranda_testing.model.reference import Model
from memoranda_testing.model.state import Refused
from memoranda_testing.model.steps import Call, Copied, Moved, Reopened, SeenOutside, Step, Together, writing
from memoranda_testing.model.values import HistoryOptions
from memoranda_testing.model.world import FAR_FUTURES, QUERIES

_WRITES = (
    *("add", "add", "add_many", "add_many", "update", "update_many", "append", "apply", "clear", "pop"),
    *("delete", "delete", "restore", "purge", "fork"),
)
_NEEDED = {
    "delete": Capability.DELETE,
    "restore": Capability.DELETE,
    "purge": Capability.PURGE,
    "fork": Capability.FORK,
}


class Generator(Calls):
    """Draws one step after another, from the random numbers and the model alone."""

    def __init__(
        self, random: Random, capabilities: frozenset[Capability], options: HistoryOptions, mark: str = ""
    ) -> None:
        super().__init__(random, capabilities, options, mark)
        self._waiting: list[Step] = []
        self.drawn = 0
        """How many steps were drawn, the looks at everything not counted."""
        reads = ["get", "get_many", "search", "search", "search_ranked", "window", "head", "count", "scan", "owners"]
        reads += ["payloads", "exists"]
        if Capability.HYBRID not in capabilities:  # The model ranks by words alone.
            reads.append("recall")
        writes = [each for each in options.writes or _WRITES if _NEEDED.get(each) in (None, *capabilities)]
        if options.lifetimes:
            writes += ["touch", "touch", "add"]
        if options.moves_clock:
            writes.append("sweep")
        self._reads, self._writes = reads, writes
        removals = ["pop", "purge", "clear", "restore", "purge"] + (["touch"] if options.lifetimes else [])
        self._removals = [method for method in removals if method in writes]

    def step(self, model: Model) -> Step:
        """Return the next step; after a write, the next steps read everything."""
        self.drawn += not self._waiting
        if self._waiting:
            return self._waiting.pop()
        world = self.world
        if self.options.reopening and world.chance(0.05):
            self._waiting += self.audits()
            return Reopened()
        if self.options.moves_clock and world.chance(0.12):
            return self._moved(model)
        if self.options.together and world.chance(0.06):
            self._waiting += self.audits()
            return self._together(model)
        call = self.call(model)
        if call.writes:
            self._waiting += self.audits()
            if self.options.outside and world.chance(0.2):
                self._waiting.append(SeenOutside())
        return call

    def call(self, model: Model) -> Call:
        """Return a call of any method; none that a store without the capability ``atomic`` may leave half done."""
        while True:
            method = self.world.one(self._writes if self.world.chance(0.5) else self._reads)
            call = self.call_of(method, model)
            if Capability.ATOMIC in self.capabilities or not self._stops_halfway(call, model):
                return call

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

    def survey(self, model: Model) -> Iterator[Step]:
        """Yield reads of every value, id, namespace and owner of this world, then replacements and removals."""
        for method in ("append", "update", "pop") if self.options.together else ():
            yield self._together(model, method)
        if "fork" in self._writes:
            for _ in range(3):
                yield self.call_of("fork", model)
            yield from (*self.audits(), *self._every_session())
        if self.options.copies:
            yield Copied(self.world.bounds)
            yield Copied(self.world.bounds, restored=Capability.DELETE in self.capabilities)
        else:  # The sessions of one user, which are copied, differ in nothing that these ask for.
            if not self.options.lifetimes:  # Which change nothing of what values and places match.
                yield from (*self._every_value(), *self._every_place())
            yield from (*self._every_id(), *self._every_owner())
        for method in ("add", "add_many", "apply"):
            yield from (self._replacement(method, model), *self.audits())
        for method in self._removals:
            yield from (*self.audits(), self.call_of(method, model))
        yield from self.audits()

    def _every_value(self) -> Iterator[Call]:
        """Yield searches for each value of each key of ``extra``: equal, greater, and not equal."""
        for key in self.world.keys:
            for value in self.world.values:
                asked = ["$eq", *(["$gt"] if _has_order(value) else []), *(["$ne"] if self.world.chance(0.2) else [])]
                for operator in asked:
                    arguments = {"where": {f"extra.{key}": {operator: value}}, "limit": 100}
                    yield Call("search", self._everywhere(arguments), None, self._instance())

    def _every_id(self) -> Iterator[Call]:
        """Yield reads of every id: all together, each alone, and each with an owner who may be the wrong one."""
        yield Call("get_many", {"ids": list(self.world.ids)}, None, self._instance())
        for item_id in self.world.ids:
            yield Call("get", {"item_id": item_id}, None, self._instance())
            owner = self.world.naming([self.world.one((*SCOPE_FIELDS, "namespace", "extra"))])
            yield Call("get", {"item_id": item_id, "metadata": owner}, None, self._instance())

    def _every_place(self) -> Iterator[Call]:
        """Yield reads of everything below each namespace."""
        for place in self.world.places:
            there = MemoryMetadata(namespace=place)
            for method in ("search", "count", "scan"):
                yield Call(method, {"metadata": there}, None, self._instance())
            yield Call("owners", {"by": "namespace", "within": there}, None, self._instance())

    def _every_owner(self) -> Iterator[Call]:
        """Yield lists of the owners of each kind, and a read of what each of them has."""
        for by in (*SCOPE_FIELDS, "namespace"):
            yield Call("owners", self._everywhere({"by": by}, "within"), None, self._instance())
            for owner in self.world.owners.get(by, ()):
                there = self.world.naming([by]).model_copy(update={by: owner})
                yield Call(self.world.one(("search", "count", "scan")), {"metadata": there}, None, self._instance())

    def _every_session(self) -> Iterator[Call]:
        """Yield reads of every session, the forked ones too."""
        for session in self.world.owners["session_id"]:
            there: dict[str, Any] = {"metadata": MemoryMetadata(session_id=session)}
            looks: list[tuple[str, dict[str, Any]]] = [
                *(("window", {}), ("window", {"rounds": 1}), ("payloads", {}), ("head", {})),
                *(("search", {"limit": 100, "order": order}) for order in ("added", "created")),
                *(("scan", {"archived": archived, "order": "added"}) for archived in (False, True, None)),
                *(("count", {"include_deleted": deleted}) for deleted in (False, True)),
                ("scan", {"include_deleted": True, "order": "added"}),
                ("search_ranked", {"query": "tea milk", "mode": "text"}),
            ]
            yield from (Call(method, {**there, **asked}, None, self._instance()) for method, asked in looks)

    def _replacement(self, method: str, model: Model) -> Call:
        """Return a call that replaces items, one or up to three, with the same ones, but for their texts and times.

        A call that also removes items removes another one, sometimes for good.
        """
        world = self.world
        taken = [row.item for row in self._said(model) if not row.deleted]
        if not taken:
            return Call("count", self._everywhere({}), None, self._instance())
        chosen = world.random.sample(taken, 1 if method == "add" else min(len(taken), world.random.randint(1, 3)))
        items = [copy_item(each) for each in chosen]
        for item in items:
            moment = utc_text(world.one(world.moments))
            item.__dict__.update({"content": world.one(world.contents), "created_at": moment})
            if item.expires_at not in FAR_FUTURES:
                # What is left of a life may be so little that an engine's own clock ends it.
                item.__dict__["expires_at"] = None
        further: dict[str, Any] = {"keep_created": world.chance(0.7)}
        if method == "apply":
            further["deletes"] = [each.id for each in taken if each not in chosen][:1]
            further["purge"] = Capability.PURGE in self.capabilities and world.chance(0.7)
        return replace(writing(method, items, **further), instance=self._instance())

    def audits(self) -> list[Step]:
        """Return reads of everything in the order of adding, with and without deleted items."""
        arguments: dict[str, Any] = {"order": "added"}
        if self.world.is_shared:
            arguments["metadata"] = self.world.bounds
        plain = Call("scan", arguments, None, self._instance())
        looks: list[Step] = [plain, self._look()]
        if Capability.DELETE in self.capabilities:
            looks.append(replace(plain, arguments={**arguments, "include_deleted": True}))
        if self.options.instances > 1:
            # Ask the same again: one instance may have cached what another has changed.
            looks += [Call(method, self._everywhere({}), None, self._instance()) for method in ("count", "head")]
        return looks

    def _look(self) -> Call:
        """Return a read of everything by what a write may not have reached: an index, another table, a cache."""
        method = self.world.one(("search_ranked", "payloads", "window", "owners", "count"))
        arguments: dict[str, Any] = {"query": self.world.one(QUERIES[:4]), "mode": "text", "limit": 100}
        name = "within" if method == "owners" else "metadata"
        return Call(
            method, self._everywhere(arguments if method == "search_ranked" else {}, name), None, self._instance()
        )

    def _moved(self, model: Model) -> Step:
        seconds = self.world.one((0.25, 0.5, 300, 300.75, 299.75, 600, 900, 3600))
        now = datetime.fromtimestamp(model.clock(), UTC)
        ends = [row.item.expires_at for row in model.rows.values() if row.item.expires_at is not None]
        left = [(datetime.fromisoformat(end) - now).total_seconds() for end in ends]
        soon = [seconds for seconds in left if 2 < seconds <= (1.1e9 if self.world.chance(0.1) else 4000)]
        if soon and self.world.chance(0.6):  # To the very moment at which an item ends, or shortly before.
            seconds = self.world.one(soon) - self.world.one((0, 0, 0, 1e-3, 1.0))
        if self.options.clock_goes_back and self.world.chance(0.25):
            # The store reads the clock before it goes back.
            self._waiting += [*self.audits(), Moved(-seconds * 3)]
            return self.audits()[0]
        if self.world.chance(0.4):
            self._waiting += self.audits()
        return Moved(seconds)

    def _together(self, model: Model, method: str = "") -> Together:
        """Return several calls of one kind, to be made at once; each is atomic on every store."""
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


def _has_order(value: Any) -> bool:
    return isinstance(value, (int, float, str)) and not isinstance(value, bool)
