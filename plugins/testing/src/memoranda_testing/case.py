"""What every case of the kit stands on: random scopes of its own, requirements, and tidying up."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import BaseStore, Capability
from memoranda_testing.expect import SkipCase

Reopen = Callable[[], Awaitable[BaseStore]]
"""Opens the same data once more, in a new store."""

Case = TypeVar("Case", bound=Callable[..., Awaitable[None]])


class Cases:
    """The base of all groups of cases.

    A case is an async method whose name starts with ``test_`` and that takes the store, and ``reopen`` where it opens
    the same data again. It writes only under users and sessions that :meth:`user` and :meth:`scope` made up for it, so
    that it can run on a store that others use.
    """

    exclusive: bool = True
    """Whether each case has a store to itself that is empty at its start. Cases that need one are skipped otherwise."""

    any_loop: bool = True
    """Whether the store may be used from every event loop; not if it is made on something of one loop, like a pool."""

    thorough: bool = False
    """Whether random cases take minutes in place of seconds."""

    seed: int = 0
    """What random cases draw from: the same for the same seed."""

    patience: float = 120.0
    """After how many seconds a call that does not end counts as one that hangs, far above what a slow machine needs."""

    fresh: Reopen | None = None
    """Opens a new, empty store each time, where there is a way to."""

    def unreached(self, what: str) -> None:
        """Remember something that the case could not look at, for the report."""
        told = self.__dict__.setdefault("_unreached", [])
        if what not in told:
            told.append(what)

    @property
    def not_reached(self) -> str:
        """What the case could not look at, as a sentence; empty if it looked at everything."""
        told = self.__dict__.get("_unreached", [])
        return f"Not reached: {'; '.join(told)}." if told else ""

    def user(self) -> str:
        """Return a new user id; what it owns is removed by :meth:`clean`."""
        return str(self.scope().user_id)

    def scope(self, **fields: Any) -> MemoryMetadata:
        """Return new metadata with a user of its own and these further fields, which :meth:`clean` will remove."""
        scope = MemoryMetadata(**{"user_id": f"conform-{uuid.uuid4().hex}", **fields})
        self.owned(scope)
        return scope

    def owned(self, scope: MemoryMetadata) -> MemoryMetadata:
        """Remember a scope for :meth:`clean` and return it."""
        key = MemoryMetadata(user_id=scope.user_id) if scope.user_id else scope
        self.__dict__.setdefault("_scopes", []).append(key)
        return scope

    async def clean(self, store: BaseStore) -> None:
        """Remove what the case left behind, for good where the store can."""
        for scope in self.__dict__.pop("_scopes", []):
            if Capability.PURGE in store.capabilities:
                await store.purge(metadata=scope)
            else:
                await store.clear(metadata=scope)


def needs(*capabilities: Capability) -> Callable[[Case], Case]:
    """Run the case only on a store that declares all of these; elsewhere it is skipped, with the reason."""

    def decorate(case: Case) -> Case:
        @functools.wraps(case)
        async def checked(self: Cases, store: BaseStore, *args: Any, **kwargs: Any) -> None:
            for capability in capabilities:
                if capability not in store.capabilities:
                    raise SkipCase(f"the store does not declare the capability {capability.value!r}")
            await case(self, store, *args, **kwargs)

        return checked  # type: ignore[return-value]  # the same signature, which wraps() shows but mypy cannot see

    return decorate


def alone(case: Case) -> Case:
    """Run the case only where the store is empty and nobody else's, since it looks at or removes everything."""

    @functools.wraps(case)
    async def checked(self: Cases, store: BaseStore, *args: Any, **kwargs: Any) -> None:
        if not self.exclusive:
            raise SkipCase("it looks at the whole store, and this one may hold what others have stored")
        await case(self, store, *args, **kwargs)

    return checked  # type: ignore[return-value]  # the same signature, which wraps() shows but mypy cannot see


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
    """Return an item of a made-up type at a second of that day."""
    values = {"memory_type": "note", "created_at": moment(second), **fields}
    return MemoryItem(content=content, metadata=metadata, **values)


def made(kind: type[MemoryItem], **values: Any) -> MemoryItem:
    """Return an item of this class with any fields, those that the class does not know included."""
    return kind(**values)
