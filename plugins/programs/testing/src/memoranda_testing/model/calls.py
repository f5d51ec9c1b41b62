"""Random calls: the arguments of each public method, and calls without any filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memoranda.items import SCOPE_FIELDS, BranchMemory, MemoryMetadata
from memoranda.store import Capability
from memoranda.store.backend import Filter, metadata_matches
from memoranda_testing.model.reference import Model
from memoranda_testing.model.state import shown
from memoranda_testing.model.steps import BRANCH, Call
from memoranda_testing.model.values import Values
from memoranda_testing.model.world import FOREVER, LIFETIMES, QUERIES, STATUSES, TYPES


class Calls(Values):
    """Draws calls of every method, with every argument of the contract."""

    def call_of(self, method: str, model: Model) -> Call:
        """Return a call of this method."""
        scope = None if method == "fork" and self.world.chance(0.5) else self._scope()
        draw: Callable[[MemoryMetadata | None, Model], dict[str, Any]] = getattr(self, f"_{method}")
        drawn = draw(scope, model).items()
        arguments = {name: value for name, value in drawn if value is not None or name in ("after", "archived")}
        return Call(method, arguments, scope, self._instance())

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
        mode = world.one((None, "substring", "text")) if self.options.substring_is_default or not query else "substring"
        return {
            **self._filters(scope),
            **self._page(),
            "query": query,
            "mode": mode,
            "memory_type": self._kinds(),
            "status": world.one(STATUSES) if world.chance(0.15) else None,
            "order": world.one((None, None, "created", "added", "updated")),
            "refresh": self._refresh(),
            "min_score": self._min_score() if query and mode == "text" else None,
            "current": self._flag() if query and mode == "text" else None,
            **self._archived(),
        }

    def _search_ranked(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        world = self.world
        return {
            **self._filters(scope),
            **self._page(),
            "query": world.one(QUERIES),
            "mode": "text",
            "memory_type": self._kinds(),
            "status": world.one(STATUSES) if world.chance(0.1) else None,
            "min_score": self._min_score(),
            "current": self._flag(),
            **self._archived(),
        }

    def _recall(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        world = self.world
        return {
            **self._filters(scope),
            "query": world.one(QUERIES),
            "limit": world.one((None, 0, 1, 2, 100)),
            "window": [self.item(model)] if world.chance(0.3) else None,
            "memory_type": self._kinds(),
            "min_score": self._min_score(),
            "current": self._flag(),
            "verdict": self._flag(),
            "now": "2026-05-04T10:00:00+00:00" if world.chance(0.2) else None,
            "shared": self._flag(),
        }

    def _kinds(self) -> str | list[str] | None:
        world = self.world
        if not world.chance(0.2):
            return None
        return [world.one(TYPES) for _ in range(world.one((0, 1, 2)))] if world.chance(0.5) else world.one(TYPES)

    def _min_score(self) -> float | None:
        return self.world.one((0.0, 0.3, 0.9)) if self.world.chance(0.35) else None

    def _archived(self) -> dict[str, bool | None]:
        return {"archived": self.world.one((None, True))} if self.world.chance(0.2) else {}

    def _window(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        bounds = {"rounds": (0, 1, 2, 3), "tokens": (0, 5, 20, 1000), "limit": (0, 1, 2, 5)}
        chosen = {name: self.world.one(values) for name, values in bounds.items() if self.world.chance(0.35)}
        return {**self._filters(scope), **chosen}

    def _payloads(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        kind = self.world.one(TYPES) if self.world.chance(0.15) else None
        limit = self.world.one((None, 0, 1, 2, 100))
        return {**self._filters(scope), "memory_type": kind, "limit": limit, **self._archived()}

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
        return {"by": by, "within": self._asked(scope), "depth": world.one((None, 1, 2, 4)), "suffix": suffix, **page}

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

    def _fork(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        """Fork a session at an item that it shows, most often; further calls may name the new session."""
        world = self.world
        sessions = world.owners["session_id"]
        session = world.one(sessions)
        fits = shown(model.rows, Filter.of(metadata=MemoryMetadata(session_id=session), archived=None))
        there = [row.item for row in self._said(model) if fits(row.item)]
        there = [item for item in there if metadata_matches(scope, item.metadata)] or there
        branch = f"{BRANCH}{world.mark}{len(sessions)}"
        sessions.append(branch)
        made: dict[str, Any] = {"created_at": world.one(world.moments), "updated_at": world.one(world.moments)}
        metadata = MemoryMetadata(session_id=branch, namespace=world.root)
        return {
            "session_id": session,
            "at": world.one(there).id if there and world.chance(0.9) else self._id(model),
            "record": BranchMemory(id=branch, metadata=metadata, archived_by=branch, **made),
            "deleted": self._flag(0.1) if Capability.ADD_DELETED in self.capabilities else None,
        }

    def _purge(self, scope: MemoryMetadata | None, model: Model) -> dict[str, Any]:
        item_id = self._id(model) if self.world.chance(0.4) else None
        return {"item_id": item_id, **self._filters(scope), "deleted_only": self._flag(0.4)}
