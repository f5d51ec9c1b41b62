"""A store of nothing but the four methods, and right: what an author starts with."""

from __future__ import annotations

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import BaseStore, copy_item
from memoranda.store.backend import Filter, Page, in_order, successor


class DictStore(BaseStore):
    """The four methods over a dict: what an author starts with. Stores that share a dict share their memories."""

    def __init__(self, data: dict[str, MemoryItem] | None = None) -> None:
        super().__init__()
        self.data = {} if data is None else data

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        self.data[item.id] = successor(self.data.get(item.id), item, within)

    async def _get(self, item_id: str) -> MemoryItem | None:
        found = self.data.get(item_id)
        return None if found is None else copy_item(found)

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        by_time = page.order == "created"
        newest = self.newest_first() if by_time else in_order(self.data.values(), page.order)[::-1]
        return [copy_item(item) for item in newest if self.matches(wanted, item)][page.offset : page.end]

    async def _clear(self, wanted: Filter) -> int:
        gone = [item.id for item in self.data.values() if self.matches(wanted, item)]
        for item_id in gone:
            del self.data[item_id]
        return len(gone)

    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        return wanted.matches(item)

    def newest_first(self) -> list[MemoryItem]:
        newest = list(self.data.values())[::-1]
        newest.sort(key=lambda item: item.created_at, reverse=True)  # Stable: ties stay last added first.
        return newest
