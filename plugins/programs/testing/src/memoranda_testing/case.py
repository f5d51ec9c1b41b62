"""The base of every case: scopes of its own, required capabilities, and cleaning up."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from memoranda.errors import VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store
from memoranda_testing.expect import ExpectationError, SkipCase

Reopen = Callable[[], Awaitable[Store]]
"""Opens the same data again, in a new store."""

Case = TypeVar("Case", bound=Callable[..., Awaitable[None]])


class Cases:
    """The base of all groups of cases.

    A case is an async method whose name starts with ``test_``. It takes the store, and ``reopen`` if it opens the same
    data again. It writes only under users and sessions that :meth:`user` and :meth:`scope` invent for it, so it can run
    on a shared store.
    """

    exclusive: bool = True
    """True if each case starts with an empty store of its own. If False, cases that move the clock are skipped."""

    any_loop: bool = True
    """True if the store works in every event loop; False if it is bound to one, for example by a pool."""

    thorough: bool = False
    """True lets random cases take minutes instead of seconds."""

    brief: bool = False
    """True lets random cases play a part of their histories, for runs on every change; ``thorough`` goes before it."""

    seed: int = 0
    """The seed of random cases; the same seed gives the same cases."""

    patience: float = 120.0
    """Seconds for which one call is waited for. A call that takes longer is neither right nor wrong: the case ends as
    not reached, and the store does not conform."""

    fresh: Reopen | None = None
    """Opens a new, empty store each time; None where that is impossible."""

    def going_on(self) -> None:
        """Say that a step has ended. The time limit of a case is for what follows, not for a case of many steps."""

    @property
    def is_brief(self) -> bool:
        """True if a part of the default run is enough."""
        return self.brief and not self.thorough

    def unchecked(self, what: str) -> None:
        """Note something that the case could not check, for the report."""
        noted = self.__dict__.setdefault("_unchecked", [])
        if what not in noted:
            noted.append(what)

    @property
    def not_checked(self) -> str:
        """What the case could not check, as a sentence; empty if it checked everything."""
        noted = self.__dict__.get("_unchecked", [])
        return f"Not checked: {'; '.join(noted)}." if noted else ""

    def user(self) -> str:
        """Return a new user id; what it owns is removed by :meth:`clean`."""
        return str(self.scope().user_id)

    def scope(self, **fields: Any) -> MemoryMetadata:
        """Return metadata with a new user and these further fields; :meth:`clean` removes what is stored there."""
        scope = MemoryMetadata(**{"user_id": f"conform-{uuid.uuid4().hex}", **fields})
        self.owned(scope)
        return scope

    def owned(self, scope: MemoryMetadata) -> MemoryMetadata:
        """Remember a scope for :meth:`clean` and return it."""
        key = MemoryMetadata(user_id=scope.user_id) if scope.user_id else scope
        self.__dict__.setdefault("_scopes", []).append(key)
        return scope

    async def clean(self, store: Store) -> None:
        """Remove what the case wrote, for good where the store can."""
        for scope in self.__dict__.pop("_scopes", []):
            if Capability.PURGE in store.capabilities:
                await store.purge(metadata=scope)
            else:
                await store.clear(metadata=scope)


def skipped_if(reason: Callable[[Cases, Store], str]) -> Callable[[Case], Case]:
    """Skip the case where this returns a reason."""

    def decorate(case: Case) -> Case:
        @functools.wraps(case)
        async def checked(self: Cases, store: Store, *args: Any, **kwargs: Any) -> None:
            if why := reason(self, store):
                raise SkipCase(why)
            await case(self, store, *args, **kwargs)

        return checked  # type: ignore[return-value]  # the same signature, which wraps() shows but mypy cannot see

    return decorate


def needs(*capabilities: Capability) -> Callable[[Case], Case]:
    """Skip the case, with the reason, on a store that does not declare all of these."""

    def reason(cases: Cases, store: Store) -> str:
        missing = [each.value for each in capabilities if each not in store.capabilities]
        return f"the store does not declare the capability {missing[0]!r}" if missing else ""

    return skipped_if(reason)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def moment(second: int, microsecond: int = 0) -> str:
    """Return a time on a fixed day, as items carry it."""
    hours, rest = divmod(second, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"2024-03-01T{hours:02}:{minutes:02}:{seconds:02}.{microsecond:06}+00:00"


def note(content: str, metadata: MemoryMetadata, second: int = 0, **fields: Any) -> MemoryItem:
    """Return an item of the type "note", at a second of that day."""
    values = {"memory_type": "note", "created_at": moment(second), **fields}
    return MemoryItem(content=content, metadata=metadata, **values)


def required(reopen: Reopen | None) -> Reopen:
    """Return the fixture that a persistent store needs; fail if the test class does not offer it."""
    if reopen is None:
        raise ExpectationError("The store declares 'persistent': the test class must offer 'reopen' to prove it.")
    return reopen


async def add_texts(store: Store, scope: MemoryMetadata, *texts: str) -> list[MemoryItem]:
    """Add a note for each text, one after the other, and return the notes."""
    items = [note(text, scope) for text in texts]
    for item in items:
        await store.add(item)
    return items


async def counted_up(store: Store, item_id: str, times: int = 1) -> None:
    """Raise the number that is an item's content by compare-and-set, so many times."""
    while times:
        item = await store.get(item_id)
        assert item is not None, "the counter is gone"
        item.content = str(int(item.content) + 1)
        await asyncio.sleep(0)
        with suppress(VersionConflictError):
            await store.update(item)
            times -= 1


def made(kind: type[MemoryItem], **values: Any) -> MemoryItem:
    """Return an item of this class with any fields, including unknown ones."""
    return kind(**values)


def every_read(store: Store, held: MemoryItem) -> dict[str, Callable[[], Coroutine[Any, Any, object]]]:
    """Return a call of every method that reads, of an item that is there."""
    scope = held.metadata

    async def scan() -> list[str]:
        return [item.id async for item in store.scan(metadata=scope)]

    async def owners() -> list[object]:
        return [owner async for owner in store.owners(by="session_id", within=scope)]

    async def search_ranked() -> list[str]:
        found = await store.search_ranked(query=held.content, metadata=scope, mode="text")
        return [each.item.id for each in found]

    return {
        "get": lambda: store.get(held.id),
        "get_many": lambda: store.get_many([held.id]),
        "search": lambda: store.search(metadata=scope, query=held.content, mode="substring"),
        "payloads": lambda: store.payloads(metadata=scope),
        "count": lambda: store.count(metadata=scope),
        "window": lambda: store.window(metadata=scope),
        "head": lambda: store.head(metadata=scope),
        "search_ranked": search_ranked,
        "owners": owners,
        "scan": scan,
    }


def every_write(store: Store, item: MemoryItem) -> dict[str, Callable[[], Coroutine[Any, Any, object]]]:
    """Return a call of every method that writes and that the store has."""
    scope, held = item.metadata, store.capabilities
    writes: dict[str, tuple[Capability | None, Callable[[], Coroutine[Any, Any, object]]]] = {
        "add": (None, lambda: store.add(item)),
        "add_many": (None, lambda: store.add_many([item])),
        "update": (None, lambda: store.update(item)),
        "update_many": (None, lambda: store.update_many([item])),
        "append": (None, lambda: store.append([item], after=None)),
        "apply": (None, lambda: store.apply(deletes=[item.id])),
        "pop": (None, lambda: store.pop(metadata=scope)),
        "clear": (None, lambda: store.clear(metadata=scope)),
        "delete": (Capability.DELETE, lambda: store.delete(item.id)),
        "restore": (Capability.DELETE, lambda: store.restore(item.id)),
        "purge": (Capability.PURGE, lambda: store.purge(item.id)),
        "touch": (Capability.TTL, lambda: store.touch([item.id], ttl=1e9)),
        "sweep": (Capability.TTL, store.sweep),
    }
    return {name: call for name, (needed, call) in writes.items() if needed in (None, *held)}
