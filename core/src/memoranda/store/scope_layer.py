"""The layer of a scope: what it writes is stamped with the scope, and what it reads or removes lies within it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from memoranda.errors import InputError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store.checks import check_metadata
from memoranda.store.codec import copy_item
from memoranda.store.conditions import OF_USERS
from memoranda.store.engine import Engine, Layer, as_it_is
from memoranda.store.filters import Filter, metadata_matches
from memoranda.store.owners import check_user, is_below
from memoranda.store.protocol import Capability
from memoranda.store.requests import NOTHING_CHANGED, Query, Write, Written, items_where
from memoranda.store.values import Value
from memoranda.trust import Trust, trusted_as

UNSET: Any = object()
"""The default of scope arguments, since None there is a mistake and not "any"."""

T = TypeVar("T")


def scope_metadata(**named: Any) -> MemoryMetadata:
    """Return the scope that these fields name. Raises InputError for an empty one and for a field that is None."""
    given = {name: value for name, value in named.items() if value is not UNSET}
    for name, value in given.items():
        if value is None:
            raise InputError(f"scoped({name}=None) would not bind {name}. Leave it out, or give a value.", field=name)
    if isinstance(given.get("user_id"), str):
        check_user(given["user_id"])
    if not given:
        raise InputError(f"scoped() needs at least one of {', '.join(SCOPE_FIELDS)} and namespace.", field="scope")
    scope = MemoryMetadata(**given)
    check_metadata(scope, "scope")
    if "namespace" in given and not scope.namespace:
        raise InputError(
            "scoped(namespace=()) would not bind the namespace. Leave it out, or name a place.", field="namespace"
        )
    return scope


class ScopeLayer(Layer):
    """Binds to a scope. ``trust`` and ``origin``, where they are set, are stamped on what is written, too.

    A scope that names no user reaches no space, and no grant, whatever session, task, agent or namespace those have.
    """

    name = "scope"
    keeps_pages = True

    def __init__(self, inner: Engine, scope: MemoryMetadata) -> None:
        super().__init__(inner)
        self.scope = scope
        self._of_users = scope.user_id is None
        self._bound = [(name, bound) for name in SCOPE_FIELDS if (bound := getattr(scope, name)) is not None]
        self.trust: Trust | None = None
        self.origin: str | None = None

    @property
    def ranks_together(self) -> bool:  # type: ignore[override]  # read-only, as in every layer
        """Whether a ranking may ask for several scopes: the others lie beside this one."""
        return self.inner.ranks_together

    def narrow(self, query: Query[T]) -> Query[T]:
        """Return the query within the scope, which most queries name already."""
        if query.wanted.metadata is self.scope and not self._of_users:
            return query
        return query._replace(wanted=self.within_scope(query.wanted))

    def within_scope(self, wanted: Filter) -> Filter:
        """Return a filter within the scope. Raises InputError when the two contradict each other."""
        narrowed = wanted.narrowed(self.scope)
        return narrowed.also(OF_USERS) if self._of_users else narrowed

    def write(self, write: Write) -> Coroutine[Any, Any, Written]:
        """Carry out the write within the scope, which most writes name already."""
        if self._of_users and (write.change is not None or write.deletes):
            return self._write_of_users(write.narrowed(self.scope))
        if write.within is self.scope and write.expected is None and write.change is None:
            return self.inner.write(write)
        return self.inner.write(write.narrowed(self.scope))

    async def _write_of_users(self, write: Write) -> Written:
        """Carry out a change or a removal that leaves spaces alone."""
        change = write.change
        if change is None:
            return await self.inner.write(write.but(deletes=await self._ids_of_users(write.deletes)))
        ids = None if change.ids is None else await self._ids_of_users(change.ids)
        if change.ids and not ids:
            return NOTHING_CHANGED
        change = replace(change, wanted=change.wanted.also(OF_USERS), ids=ids)
        return await self.inner.write(write.but(change=change))

    async def _ids_of_users(self, ids: Sequence[str]) -> list[str]:
        """Return those of some ids whose items lie in no space, hidden ones included."""
        wanted = Filter(metadata=self.scope, archived=None, further=(Value("id", False, "$in", list(ids)), OF_USERS))
        found = self.inner.stream(items_where(wanted, deleted=Capability.DELETE in self.capabilities))
        return [item.id async for item in found]

    def read(self, query: Query[T]) -> Coroutine[Any, Any, list[T]]:
        """Return what the query asks for; of items that are named by their ids, those within the scope."""
        if query.ids is None:
            return self.inner.read(self.narrow(query))
        return self.inner.read(query) if query.form != "items" else self._within_scope(query)

    async def _within_scope(self, query: Query[T]) -> list[T]:
        found: list[Any] = await self.inner.read(query)
        return [item for item in found if self.reaches(item)]

    def reaches(self, item: MemoryItem) -> bool:
        """Return True if an item lies within the scope."""
        return metadata_matches(self.scope, item.metadata) and not (self._of_users and not OF_USERS.matches(item))

    def prepare(self, item: MemoryItem) -> MemoryItem:
        """Return the item as the layers inside store it: a copy that carries the scope, or itself if it does already.

        Raises InputError for an item that is stamped otherwise.
        """
        held = item.metadata.__dict__
        missing: dict[str, Any] = {}
        for name, bound in self._bound:
            given = held[name]
            if given is None:
                missing[name] = bound
            elif given != bound:
                raise InputError(
                    f"The item {item.id!r} is stamped with another {name} than this handle's scope; it was not stored.",
                    field=f"metadata.{name}",
                )
        if self._of_users and held["user_id"] is not None:
            check_user(held["user_id"], "metadata.user_id")
        if self.scope.namespace:
            if not held["namespace"]:
                missing["namespace"] = self.scope.namespace
            elif not is_below(held["namespace"], self.scope.namespace):
                raise InputError(
                    f"The item {item.id!r} lies in another namespace than this handle's scope; it was not stored.",
                    field="metadata.namespace",
                )
        if missing or self.trust is not None or self.origin is not None:
            item = self._stamped(item, missing)
        return item if self._prepare_inside is as_it_is else self._prepare_inside(item)

    def _stamped(self, item: MemoryItem, missing: dict[str, Any]) -> MemoryItem:
        """Return a copy of an item with these fields of the scope, and the scope's trust and origin."""
        stamped = copy_item(item)
        stamped.metadata.__dict__.update(missing)  # The copy's own, and frozen for everyone else.
        if self.trust is not None:
            given = stamped.trust
            stamped.__dict__["trust"] = str(self.trust if given is None else min(self.trust, trusted_as("", given)))
            (stamped.__pydantic_extra__ or {}).pop("approval", None)  # What a handle with a trust writes approves none.
        if self.origin is not None:
            stamped.__dict__["origin"] = self.origin
        return stamped
