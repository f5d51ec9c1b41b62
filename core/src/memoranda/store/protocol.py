"""The four methods that every store has; the seed of the contract that :class:`BaseStore` spells out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from memoranda.items import MemoryItem, MemoryMetadata, MemoryStatus

if TYPE_CHECKING:
    pass


@runtime_checkable
class MemoryStore(Protocol):
    """The four methods that every store has; see :class:`BaseStore` for what each one promises."""

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
