"""Stores that are wrong about one state, one field or one size, each with one fault."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

from four_methods import DictStore
from stepwise import StepwiseStore

from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata, Payload
from memoranda.store import Order, Owner, RankedItem, ScopedStore, SearchMode, Store
from memoranda.store.backend import Contains, Filter, Listing, Page, Value, Write, fold


class PurgesWhatIsDeletedAgain(StepwiseStore):
    """Takes an id of a deleted item, given to apply(), for one to purge."""

    async def _apply(self, write: Write) -> int:
        removed = await super()._apply(write)
        for item_id in write.deletes if removed == 0 else ():
            removed += await self._purge(item_id, Filter(metadata=write.within, archived=None), deleted_only=True)
        return removed


class RestoresOutsideItsBounds(StepwiseStore):
    """Asks for owners and places only when it restores one item."""

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        if item_id is not None and wanted.metadata is not None:
            wanted = replace(wanted, metadata=wanted.metadata.model_copy(update={"extra": {}}))
        return await super()._restore(item_id, wanted)


class DeletesInAnyCase(StepwiseStore):
    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        deleted = await super()._delete(item_id, within)
        alike = [] if deleted else [item.id for item in await self._search(Filter(), Page())]
        for each in alike:
            if each.casefold() == item_id.casefold():
                deleted = await super()._delete(each, within)
        return deleted


class NothingIsInNoList(DictStore):
    """Compares as SQL does: a field without a value is in no list."""

    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        for each in wanted.further:
            if isinstance(each, Value) and each.operator == "$in" and not each.in_extra and each.name == "name":
                return item.name is not None and wanted.matches(item)
        return wanted.matches(item)


class SearchesInPieces(DictStore):
    """Looks for a text in pieces of 65,536 letters, which do not overlap."""

    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        text = fold(item.content)
        pieces = [text[start : start + 65_536] for start in range(0, len(text), 65_536)]
        sought = [each.folded for each in wanted.conditions if isinstance(each, Contains)]
        return wanted.matches(item) and all(not query or any(query in piece for piece in pieces) for query in sought)


class NoughtIsNothing(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        self.data[item.id].__dict__["group_size"] = item.group_size or None


class CutsPayloads(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        self.data[item.id].__dict__["payload"] = item.payload and item.payload[:65_535]


class EmptyPayloadIsNone(StepwiseStore):
    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        return [found._replace(text=found.text or None) for found in await super()._payloads(wanted, page)]


class SharesEmptyLists(StepwiseStore):
    nothing: list[Any] = []  # noqa: RUF012  # the fault

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        found = await super()._search(wanted, page)
        for item in found:
            if "tool_calls" in item.__dict__ and not item.__dict__["tool_calls"]:
                item.__dict__["tool_calls"] = self.nothing
        return found


class TakesLargeItemsLater(StepwiseStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        if len(item.content) > 100_000:
            await asyncio.sleep(0.01)
        await super()._add(item, within)


class RemovesBeforeItReplaces(StepwiseStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        held = self._live.get(item.id)
        if held is not None:
            self._live.take([held])
            await asyncio.sleep(0)
            self._live.put(held)
        await super()._add(item, within)


class ScansByOffset(DictStore):
    """Reads pages by their offset: what is removed meanwhile makes it pass over others."""

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        offset, page = 0, 400
        while True:
            found = (await self._search(wanted, Page(order=order)))[::-1][offset : offset + page]
            for item in found:
                yield item
            if len(found) < page:
                return
            offset += page


class LosesTheLastIdOfAPage(StepwiseStore):
    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        return await super()._get_many(ids[:-1] if len(ids) > 1 and len(ids) % 500 == 1 else ids)


class WritesInSlices(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        if len(write.adds) <= 500 or write.deletes or write.hidden or write.expected:
            return await super()._apply(write)
        for start in range(0, len(write.adds), 500):
            await super()._apply(write.but(adds=write.adds[start : start + 500]))
            await asyncio.sleep(0)
        return 0


class OneHandleForAScope(StepwiseStore):
    def _scoped(self, scope: MemoryMetadata) -> ScopedStore:
        handles: dict[str, ScopedStore] = self.__dict__.setdefault("_handles_by_scope", {})
        return handles.setdefault(scope.model_dump_json(), super()._scoped(scope))


class CutsPlacesBeforeItsLook(StepwiseStore):
    """Asks for the end of a place once that is cut off."""

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        async for owner in super()._owners(replace(listing, suffix=()), wanted):
            if not listing.suffix or owner.value[-len(listing.suffix) :] == listing.suffix:
                yield owner


class ForksTheWholePast(StepwiseStore):
    """Shares of earlier sessions what the branch shares, wherever it is forked."""

    forked = ""

    async def fork(self, session_id: str, **further: Any) -> str:
        self.forked = session_id
        return await super().fork(session_id, **further)

    async def _apply(self, write: Write) -> int:
        before = self._stored(self.forked)
        for item in write.adds:
            if isinstance(item, BranchMemory) and isinstance(before, BranchMemory):
                item.places = {**item.places, **before.places}
        return await super()._apply(write)


class RanksTypesAfterTheLimit(StepwiseStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        if not isinstance(wanted.memory_type, tuple):
            return await super()._rank(query, wanted, limit, mode)
        best = await super()._rank(query, replace(wanted, memory_type=None), limit + 100, mode)
        return [found for found in best if wanted.matches(found.item)][:limit]


STATES = "every_method_does_right_by_every_state"

WRONG_STORES: list[tuple[type[Store], str]] = [
    (PurgesWhatIsDeletedAgain, STATES),
    (RestoresOutsideItsBounds, STATES),
    (DeletesInAnyCase, STATES),
    (NothingIsInNoList, "fields_of_items_compare_with_anything"),
    (SearchesInPieces, "long_contents_are_searched_to_their_end"),
    (NoughtIsNothing, "every_field_keeps_values_that_count_as_false"),
    (CutsPayloads, "every_field_keeps_long_texts"),
    (EmptyPayloadIsNone, "a_payload_comes_back_to_the_byte"),
    (SharesEmptyLists, "changing_an_item_changes_nothing_stored"),
    (TakesLargeItemsLater, "changing_an_item_while_it_is_added_changes_nothing_stored"),
    (RemovesBeforeItReplaces, "what_is_replaced_is_never_missing"),
    (ScansByOffset, "scan_survives_writes_in_between"),
    (LosesTheLastIdOfAPage, "sizes_match_the_model"),
    (WritesInSlices, "a_large_batch_is_seen_as_a_whole"),
    (OneHandleForAScope, "handles_of_one_scope_are_apart"),
    (CutsPlacesBeforeItsLook, "namespaces_are_listed_by_depth_beginning_and_end"),
    (ForksTheWholePast, "random_forks_show_what_lists_would"),
    (RanksTypesAfterTheLimit, "few_that_match_are_found_behind_many_that_do_not"),
]
"""Each wrong store with the case of the default kit that is to catch it."""
