"""Stores that take two things for one, or forget one of several, each with one fault."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any

from stepwise import StepwiseStore

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Owner, RankedItem, ScopedStore, SearchMode, Store
from memoranda.store.backend import AtLeast, Condition, Filter, InBranch, Listing, Page, Value, Write
from memoranda.store.entry_index import Entry
from memoranda.store.in_memory import InMemoryEngine


@dataclass(frozen=True)
class _TaskWithoutSpaces(Condition):
    task: str

    def matches(self, item: MemoryItem) -> bool:
        return (item.metadata.task_id or "").rstrip() == self.task


@dataclass(frozen=True)
class _CompatibleText(Condition):
    text: str

    def matches(self, item: MemoryItem) -> bool:
        return self.text in unicodedata.normalize("NFKC", item.content).casefold()


@dataclass(frozen=True)
class _Word(Condition):
    word: str

    def matches(self, item: MemoryItem) -> bool:
        return self.word in item.content.casefold().split(" ")


@dataclass(frozen=True)
class _Name(Condition):
    name: str

    def matches(self, item: MemoryItem) -> bool:
        return (getattr(item, "name", None) or "").casefold() == self.name


class ForgetsTheThird(StepwiseStore):
    """Asked for several types and a trust, it forgets the status."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        if isinstance(wanted.memory_type, tuple) and any(type(each) is AtLeast for each in wanted.further):
            wanted = replace(wanted, status=None)
        return await super()._search(wanted, page)


class PadsTasks(StepwiseStore):
    """Compares tasks without the spaces at their ends."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        metadata = wanted.metadata
        if metadata is not None and metadata.task_id is not None:
            anybody = replace(wanted, metadata=metadata.model_copy(update={"task_id": None}))
            wanted = anybody.also(_TaskWithoutSpaces(metadata.task_id.rstrip()))
        return await super()._search(wanted, page)


class FindsWhatIsCompatible(StepwiseStore):
    """Takes a wide or raised character for the plain one."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        if wanted.query:
            text = unicodedata.normalize("NFKC", wanted.query).casefold()
            wanted = replace(wanted, query="").also(_CompatibleText(text))
        return await super()._search(wanted, page)


class ReadsPlacesLater(StepwiseStore):
    """Notes where many items lie, and reads them from there when others may have taken their places."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        found = await super()._search(wanted, page)
        for _ in range(100 if len(found) > 1_000 else 0):
            await asyncio.sleep(0)
        there = [entry.item for entry in self._live.candidates(None)]
        return [item if self._live.get(item.id) else there[at % len(there)] for at, item in enumerate(found) if there]


class SharesReads(StepwiseStore):
    """Lets calls for one item share a read, which ends for all of them with the first that is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self._shared: dict[str, asyncio.Task[MemoryItem | None]] = {}

    async def _get(self, item_id: str) -> MemoryItem | None:
        if item_id not in self._shared:
            self._shared[item_id] = asyncio.ensure_future(self._read(item_id))
            self._shared[item_id].add_done_callback(lambda _: self._shared.pop(item_id))
        return await self._shared[item_id]

    async def _read(self, item_id: str) -> MemoryItem | None:
        await asyncio.sleep(0)
        return await super()._get(item_id)


class SharesOldReads(SharesReads):
    """Lets calls for one item share a read that is not cancelled, and may have begun before the last write."""

    async def _get(self, item_id: str) -> MemoryItem | None:
        return await asyncio.shield(asyncio.ensure_future(super()._get(item_id)))

    async def _read(self, item_id: str) -> MemoryItem | None:
        found = await super()._read(item_id)
        for _ in range(4):
            await asyncio.sleep(0)
        return found


class KeepsSeats(StepwiseStore):
    """Lets a few rank at the same time, and forgets that one whose caller gave up has left."""

    def __init__(self) -> None:
        super().__init__()
        self._seats = 16

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        while not self._seats:
            await asyncio.sleep(0.001)
        self._seats -= 1
        await asyncio.sleep(0)
        found = await super()._rank(query, wanted, limit, mode)
        self._seats += 1
        return found


class FindsWordsBetweenSpaces(StepwiseStore):
    """Looks for the words of a query among those that spaces divide, and takes a line's end for a part of a word."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        for word in wanted.folded.split()[1:-1]:
            wanted = wanted.also(_Word(word))
        return await super()._search(wanted, page)


class OwnersWithoutAPast(StepwiseStore):
    """Lists the owners of a branch without its past."""

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        for owner in listing.of([entry.item for entry in self._live.candidates(None) if wanted.matches(entry.item)]):
            yield owner


class _HiddenSummariesCount(InMemoryEngine):
    def _is_archived(self, entry: Entry, bound: int | None) -> bool:
        summary_id = entry.item.archived_by
        if summary_id is None or bound is None:
            return summary_id is not None
        summary = self._live.get(summary_id) or self._hidden.get(summary_id)
        return summary is not None and summary.added <= bound


class SummariesInTheBin(StepwiseStore):
    """Lets a deleted summary stand for what a branch shares."""

    engine = _HiddenSummariesCount


class NamesWithoutCase(StepwiseStore):
    """Compares the names of who speaks without regard to case."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        further = [
            _Name(str(each.value).casefold())
            if isinstance(each, Value) and (each.name, each.in_extra, each.operator) == ("name", False, "$eq")
            else each
            for each in wanted.further
        ]
        return await super()._search(replace(wanted, further=tuple(further)), page)


class KeepsWhatWasRead(StepwiseStore):
    """Keeps a copy of what it was asked for, and never lets go of it."""

    async def _get(self, item_id: str) -> MemoryItem | None:
        found = await super()._get(item_id)
        self.__dict__.setdefault("_read", []).append(found and found.content)
        return found


class _RemembersItems(ScopedStore):
    async def get(self, item_id: str, **asked: Any) -> MemoryItem | None:
        kept: dict[str, MemoryItem | None] = self.__dict__.setdefault("_kept", {})
        if item_id not in kept:
            kept[item_id] = await super().get(item_id, **asked)
        found = kept[item_id]
        return None if found is None else found.model_copy()


class HandlesThatRemember(StepwiseStore):
    """Gives handles that never look again."""

    def _scoped(self, scope: MemoryMetadata) -> ScopedStore:
        return _RemembersItems(self, scope)


class BranchesWithoutAPast(StepwiseStore):
    """Shows a branch without its past in the order of updates."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        branch = wanted.further[-1] if wanted.further else None
        if page.order != "updated" or not isinstance(branch, InBranch):
            return await super()._search(wanted, page)
        found = await super()._search(wanted, Page(order="updated"))
        return [item for item in found if item.metadata.session_id == branch.session][page.offset : page.end]


class CutsLongQueries(StepwiseStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        return await super()._rank(query[:1_024], wanted, limit, mode)


class WritesThousands(StepwiseStore):
    """Writes a batch a thousand at a time, and leaves those that are done when the next ones are refused."""

    async def _apply(self, write: Write) -> int:
        adds = write.adds
        if len(adds) <= 1_000 or write.deletes or write.hidden or write.expected:
            return await super()._apply(write)
        for start in range(0, len(adds), 1_000):
            await super()._apply(write.but(adds=adds[start : start + 1_000], packed=None))
        return 0


class SweepsWhatIsShown(StepwiseStore):
    """Leaves what was deleted before its time was over."""

    async def _sweep(self, wanted: Filter) -> int:
        found = await self._search(replace(wanted, archived=None), Page())
        return sum([await self._purge(item.id, Filter(archived=None), deleted_only=False) for item in found])


WRONG_STORES: list[tuple[type[Store], str]] = [
    (ForgetsTheThird, "every_two_filters_hold_together"),
    (ReadsPlacesLater, "a_read_under_way_shows_nothing_of_others"),
    (SharesReads, "a_call_that_is_cancelled_takes_no_other_along"),
    (SharesOldReads, "a_read_that_begins_after_a_write_sees_it"),
    (KeepsSeats, "many_cancelled_calls_exhaust_nothing"),
    (FindsWordsBetweenSpaces, "every_part_of_a_text_is_found"),
    (OwnersWithoutAPast, "a_branch_reads_like_a_session_that_holds_all_of_it"),
    (SummariesInTheBin, "a_summary_that_is_gone_hides_nothing_from_a_branch"),
    (NamesWithoutCase, "fields_of_items_compare_with_anything"),
    (PadsTasks, "owners_that_look_alike_are_apart"),
    (FindsWhatIsCompatible, "characters_that_look_alike_or_are_invisible_are_themselves"),
    (KeepsWhatWasRead, "nothing_of_what_is_purged_stays_in_memory"),
    (HandlesThatRemember, "a_handle_sees_what_others_change"),
    (BranchesWithoutAPast, "a_branch_reads_like_a_session_that_holds_all_of_it"),
    (CutsLongQueries, "long_texts_are_ranked_to_their_ends"),
    (WritesThousands, "a_batch_is_all_or_none"),
    (SweepsWhatIsShown, "every_lifetime_ends_at_its_moment"),
]
"""Each wrong store with the case of the default kit that is to catch it."""
