"""What a store is: the four methods that all have, what one may declare beyond them, and how it examines itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, runtime_checkable

from memoranda.items import MemoryItem, MemoryMetadata, MemoryStatus


@runtime_checkable
class MemoryStore(Protocol):
    """The four methods that every store has; see :class:`Store` for what each one promises."""

    async def add(self, item: MemoryItem) -> None: ...

    async def get(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> MemoryItem | None: ...

    async def search(
        self,
        *,
        query: str = "",
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
    ) -> list[MemoryItem]: ...

    async def clear(self, *, metadata: MemoryMetadata | None = None) -> int: ...


SearchMode = Literal["substring", "text", "semantic", "hybrid"]
"""How a query is understood; ``substring`` is a filter, the others rank."""

Access = Literal["create", "change", "read"]
"""What a store is opened for; only ``create`` makes one that is not there, and ``read`` writes nothing at all."""


class Capability(StrEnum):
    """What a store can do. The first six come with the base class; the others are declared.

    What a call to a ``persistent`` store has written is there for every store on the same data when the call returns. A
    store that reads from replicas sees its own writes at once, and those of others only within the lag it allows them.
    """

    LIFECYCLE = "lifecycle"
    ADD_MANY = "add_many"
    COUNT = "count"
    UPDATE = "update"
    SCAN = "scan"
    TEXT = "text"
    PERSISTENT = "persistent"
    ATOMIC = "atomic"
    DELETE = "delete"
    ADD_DELETED = "add_deleted"
    PURGE = "purge"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"
    TTL = "ttl"
    FORK = "fork"


BASE_CAPABILITIES = frozenset(
    {Capability.LIFECYCLE, Capability.ADD_MANY, Capability.COUNT, Capability.UPDATE, Capability.SCAN, Capability.TEXT}
)


Progress = Callable[[int, int], None]
"""Called now and then with the number of items done and of all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``remedy`` says what to do about it where ``ok`` is false."""

    name: str
    ok: bool
    detail: str = ""
    remedy: str = ""


@runtime_checkable
class Examinable(Protocol):
    """A store that can examine itself. With ``repair`` it also mends what it can do without losing anything."""

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Return what was looked at, in a useful order; after a repair, as it is now."""
        ...


@runtime_checkable
class Reindexable(Protocol):
    """A store that can build its search indexes again from what is stored."""

    async def reindex(self, progress: Progress | None = None) -> int:
        """Build the indexes again and return the number of items in them; a store may leave ``progress`` out."""
        ...


@runtime_checkable
class Erasing(Protocol):
    """A store whose engine may keep what was purged on its disk for a while, and that knows whether it does."""

    async def unerased(self) -> str:
        """Return why what was purged is not off the disk yet, as a sentence; empty if it is."""
        ...

    async def erase(self) -> str:
        """Do now what takes long, such as writing a file anew, and return what :meth:`unerased` then says."""
        ...
