"""What happens in random histories beside single calls: looks at everything, calls at once, forks, and the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryMetadata
from memoranda.store import Capability
from memoranda_testing.model.arguments import Arguments
from memoranda_testing.model.drawing import Kinds
from memoranda_testing.model.reference import Model
from memoranda_testing.model.steps import Call, Forked, Moved, Step, Together


class Occasions(Arguments):
    """Draws steps that are more than one call."""

    def __init__(self, random: Random, capabilities: frozenset[Capability], kinds: Kinds, mark: str = "") -> None:
        super().__init__(random, capabilities, kinds, mark)
        self._waiting: list[Step] = []

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
        return {Capability.FORK, Capability.PURGE} <= self.capabilities and not (
            self.world.is_shared or self.kinds.tenants
        )

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
