"""Stores whose fault shows only at a size, in a combination, after some time, or to someone else."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import wrong_stores_model as known
from four_methods import DictStore
from stepwise import StepwiseStore

from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata, Payload
from memoranda.store import Capability, Order, RankedItem, SearchMode, Store, copy_item
from memoranda.store.backend import (
    BASE_CAPABILITIES,
    AtLeast,
    Created,
    Expiry,
    Filter,
    Page,
    Value,
    Write,
    successor,
    with_lifetime,
)

without, past = known.without, known.past

# Sizes


class ScanStopsAtAThousand(StepwiseStore):
    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        number = 0
        async for item in super()._scan(wanted, include_deleted, order):
            number += 1
            if number <= 1000:
                yield item


class CountsWhatItScansOfAThousand(StepwiseStore):
    """Asks the newest thousand rows for a condition, not all."""

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        if not any(isinstance(each, Value) for each in wanted.further):
            return await super()._count(wanted, include_deleted)
        everything = Filter(archived=None)
        newest = [item async for item in self._scan(everything, include_deleted, "added")][-1000:]
        return sum(map(wanted.matches, newest))


class FetchesTenTimesTheLimit(DictStore):
    """Takes ten times as many rows as are asked for, and filters these."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        rows = await super()._search(replace(wanted, further=(), status=None), Page(page.end * 10, order=page.order))
        return [item for item in rows if self.matches(wanted, item)][page.offset : page.end]


class RanksTheNewest500(StepwiseStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        newest = {item.id for item in await self._search(Filter(archived=None), Page(500, order="added"))}
        return [each for each in await super()._rank(query, wanted, limit, mode) if each.item.id in newest]


class PopsOfTheNewest100(StepwiseStore):
    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        newest = await self._search(Filter(), Page(100, order="added"))
        return await super()._pop(wanted, purge) if any(map(wanted.matches, newest)) else None


class TtlOfTheFirstThousand(StepwiseStore):
    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        await super()._touch(ids[:1000], ttl, now, within)
        return len(ids)


# Combinations


class SearchForgetsAgentsInNamespaces(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        placed = wanted.metadata is not None and wanted.metadata.namespace
        return await super()._search(without(wanted, "agent_id") if placed else wanted, page)


class CountForgetsSinceWithValues(StepwiseStore):
    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        valued = any(isinstance(each, Value) for each in wanted.further)
        return await super()._count(past(wanted, Created) if valued else wanted, include_deleted)


class SearchForgetsTrustWithAQuery(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return await super()._search(past(wanted, AtLeast) if wanted.query else wanted, page)


class SearchForgetsTheStatusWhenSortedByUpdate(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return await super()._search(replace(wanted, status=None) if page.order == "updated" else wanted, page)


class PopForgetsValuesOfATask(StepwiseStore):
    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        of_a_task = wanted.metadata is not None and wanted.metadata.task_id is not None
        return await super()._pop(past(wanted, Value) if of_a_task else wanted, purge)


class ClearForgetsUntilInASession(StepwiseStore):
    async def _clear(self, wanted: Filter) -> int:
        in_a_session = wanted.metadata is not None and wanted.metadata.session_id is not None
        return await super()._clear(past(wanted, Created) if in_a_session else wanted)


class PayloadsForgetTheTypeInNamespaces(StepwiseStore):
    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        placed = wanted.metadata is not None and wanted.metadata.namespace
        return await super()._payloads(replace(wanted, memory_type=None) if placed else wanted, page)


class RankForgetsValuesOfAnAgent(StepwiseStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        of_an_agent = wanted.metadata is not None and wanted.metadata.agent_id is not None
        return await super()._rank(query, past(wanted, Value) if of_an_agent else wanted, limit, mode)


class LastConditionWins(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        values = [each for each in wanted.further if isinstance(each, Value)]
        kept = tuple(each for each in wanted.further if each not in values[:-1])
        return await super()._search(replace(wanted, further=kept), page)


class NamespacesOfThreeElements(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        if wanted.metadata is None:
            return await super()._search(wanted, page)
        metadata = wanted.metadata.model_copy(update={"namespace": wanted.metadata.namespace[:3]})
        return await super()._search(replace(wanted, metadata=metadata), page)


class ApplyDeletesOutsideTheAgent(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        within = write.within and write.within.model_copy(update={"agent_id": None})
        return await super()._apply(write.but(within=within) if write.deletes and not write.adds else write)


# What another write left behind


class RestoredIsNotIndexed(StepwiseStore):
    """Finds restored items by every search but a ranked one."""

    def __init__(self) -> None:
        super().__init__()
        self.unindexed: set[str] = set()

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        self.unindexed |= {entry.item.id for entry in self._hidden.candidates(None)}
        return await super()._restore(item_id, wanted)

    async def _apply(self, write: Write) -> int:
        self.unindexed -= {item.id for item in write.adds}
        return await super()._apply(write)

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        self.unindexed.discard(item.id)
        await super()._add(item, within)

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        ranked = await super()._rank(query, wanted, limit, mode)
        return [each for each in ranked if each.item.id not in self.unindexed]


class PurgeForgetsPayloads(StepwiseStore):
    """Keeps payloads in a table of their own, in which nothing is removed."""

    def __init__(self) -> None:
        super().__init__()
        self.payloads_by_id: dict[str, tuple[str | None, str | None]] = {}

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        found = []
        for each in await super()._payloads(wanted, page):
            if each.text is not None or each.format is not None:
                self.payloads_by_id[each.item_id] = (each.text, each.format)
            text, kind = self.payloads_by_id.get(each.item_id, (None, None))
            found.append(each._replace(text=text, format=kind))
        return found


class PayloadOfTheFirstVersion(StepwiseStore):
    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, str | None] = {}

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        self.first.setdefault(item.id, item.payload)

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        found = await super()._payloads(wanted, page)
        return [each._replace(text=self.first.get(each.item_id, each.text)) for each in found]


class UpdatesTheDeleted(StepwiseStore):
    """Compares the version of a deleted item, too, and sets it."""

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        given = [copy_item(item) for item in items]
        for item in given:
            entry = self._hidden.get(item.id)
            if entry is not None and entry.item.version == item.version:
                item.__dict__["version"] = 0
        return await super()._update_many(given, within)


class VectorKeptByRestore(known.VectorNotRenewed):
    """Renews the vector with each write, but brings back the first one with a deleted item."""

    def __init__(self) -> None:
        super().__init__()
        self.restored: set[str] = set()

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        self.restored |= {entry.item.id for entry in self._hidden.candidates(None)}
        return await super()._restore(item_id, wanted)

    async def vector(self, item: MemoryItem) -> Any:
        await super().vector(item)  # The first one is kept.
        return self.vectors[item.id] if item.id in self.restored else await known.MeaningStore.vector(self, item)


class VectorNotRenewedByUpdate(known.MeaningStore):
    def __init__(self) -> None:
        super().__init__()
        self.contents: dict[str, str] = {}

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        before = {item.id: item.content for item in await self._get_many([item.id for item in items])}
        updated = await super()._update_many(items, within)
        self.contents.update({item_id: self.contents.get(item_id, text) for item_id, text in before.items()})
        return updated

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        self.contents.pop(item.id, None)
        await super()._add(item, within)

    async def vector(self, item: MemoryItem) -> Any:
        held = copy_item(item)
        held.__dict__["content"] = self.contents.get(item.id, item.content)
        return await super().vector(held)


# Time


class VanishesASecondEarly(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        early = [Expiry(_later(each.now, 1)) if isinstance(each, Expiry) else each for each in wanted.further]
        return await super()._search(replace(wanted, further=tuple(early)), page)


class TouchLeavesTheOldEnd(StepwiseStore):
    """Removes what was to end by now, whatever has been touched since."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: dict[str, str] = {}

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        if item.expires_at is not None:
            self.ends[item.id] = item.expires_at

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        now = datetime.fromtimestamp(self.clock()).astimezone().isoformat()
        async for item in super()._scan(wanted, include_deleted, order):
            ends = self.ends.get(item.id)
            if ends is None or item.expires_at is None or datetime.fromisoformat(ends) > datetime.fromisoformat(now):
                yield item


class LivesAtMostAMonth(StepwiseStore):
    """Keeps milliseconds in 32 bits, and cuts longer lives."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        found = await super()._search(wanted, Page(order=page.order))
        alive = [item for item in found if item.ttl is None or not self._is_over(item)]
        return alive[page.offset : page.end]

    def _is_over(self, item: MemoryItem) -> bool:
        assert item.ttl is not None
        assert item.expires_at is not None
        begun = datetime.fromisoformat(item.expires_at).timestamp() - item.ttl
        return self.clock() >= begun + min(item.ttl, 2**31 / 1000)


class TimesAsFloats(StepwiseStore):
    """Sorts by seconds since 1970, which hold no microseconds in a far year."""

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        if page.order != "created":
            return await super()._search(wanted, page)
        found = await super()._search(wanted, Page(order="added"))
        found.sort(key=lambda item: datetime.fromisoformat(item.created_at).timestamp(), reverse=True)
        return found[page.offset : page.end]


# Calls that are given up


class ClearLosesAnItem(StepwiseStore):
    """Takes items out, waits, and puts them into the bin."""

    async def _clear(self, wanted: Filter) -> int:
        entries = [entry for entry in self._live.candidates(None).copy() if wanted.matches(entry.item)]
        for entry in entries:
            self._live.take([entry])
            await asyncio.sleep(0)
            self._hidden.put(entry)
        return len(entries)


class PopLosesAnItem(StepwiseStore):
    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        newest = self._page(wanted, Page(1, order="added"))
        if not newest:
            return None
        self._live.take(newest)
        await asyncio.sleep(0)
        if not purge:
            self._hidden.put(newest[0])
        return copy_item(newest[0].item)


class UpdateRemovesFirst(DictStore):
    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        before = dict(self.data)
        updated = await super()._update_many(items, within)
        after, order = dict(self.data), list(self.data)
        for item in items:
            self.data.pop(item.id)
            await asyncio.sleep(0)
            self.data[item.id] = after[item.id]
            for item_id in order[order.index(item.id) + 1 :]:  # Each has its place again.
                self.data[item_id] = self.data.pop(item_id)
        del before
        return updated


# What others see


class SleepsInTheLoop(StepwiseStore):
    async def _clear(self, wanted: Filter) -> int:
        time.sleep(0.2)
        return await super()._clear(wanted)


class FileStore(DictStore):
    """A right store in a file, which every call reads and every change writes."""

    capabilities = BASE_CAPABILITIES | {Capability.PERSISTENT}

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    async def _exists(self) -> bool:
        return self.path.exists()

    def read(self) -> None:
        self.data = {}
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            fields = json.loads(line)
            item = BUILTIN_TYPES.get(fields["memory_type"], MemoryItem)(**fields)
            self.data[item.id] = item

    def write(self) -> None:
        self.path.write_text("".join(f"{item.model_dump_json()}\n" for item in self.data.values()))

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        self.read()
        self.data[item.id] = successor(self.data.get(item.id), item, within)
        self.write()

    async def _get(self, item_id: str) -> MemoryItem | None:
        self.read()
        return await super()._get(item_id)

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        self.read()
        return await super()._search(wanted, page)

    async def _clear(self, wanted: Filter) -> int:
        self.read()
        removed = await super()._clear(wanted)
        self.write()
        return removed


class CachesForTheProcess(FileStore):
    """Reads a file once in a process, and writes it when the last store closes."""

    files: ClassVar[dict[Path, dict[str, MemoryItem]]] = {}

    def read(self) -> None:
        if self.path not in self.files:
            super().read()
            self.files[self.path] = self.data
        self.data = self.files[self.path]

    def write(self) -> None:
        self.files[self.path] = self.data

    async def _close(self) -> None:
        if self.path in self.files:
            self.data = self.files.pop(self.path)
            super().write()


def _later(now: str, seconds: float) -> str:
    item = with_lifetime(MemoryItem(content=""), seconds, now)
    assert item.expires_at is not None
    return item.expires_at


PAIRS = "every_two_filters_hold_together"
ENDS = "every_lifetime_ends_at_its_moment"
CROWD = "a_few_are_found_among_many"
WAITS = "no_call_waits_in_the_event_loop"

WRONG_STORES: list[tuple[type[Store], str]] = [
    (ScanStopsAtAThousand, known.SIZES),
    (CountsWhatItScansOfAThousand, CROWD),
    (FetchesTenTimesTheLimit, CROWD),
    (RanksTheNewest500, CROWD),
    (PopsOfTheNewest100, CROWD),
    (TtlOfTheFirstThousand, known.SIZES),
    (SearchForgetsAgentsInNamespaces, PAIRS),
    (CountForgetsSinceWithValues, PAIRS),
    (SearchForgetsTrustWithAQuery, PAIRS),
    (SearchForgetsTheStatusWhenSortedByUpdate, PAIRS),
    (PopForgetsValuesOfATask, PAIRS),
    (ClearForgetsUntilInASession, PAIRS),
    (PayloadsForgetTheTypeInNamespaces, PAIRS),
    (RankForgetsValuesOfAnAgent, PAIRS),
    (LastConditionWins, PAIRS),
    (NamespacesOfThreeElements, PAIRS),
    (ApplyDeletesOutsideTheAgent, PAIRS),
    (RestoredIsNotIndexed, PAIRS),
    (PurgeForgetsPayloads, known.CALLS),
    (PayloadOfTheFirstVersion, known.CALLS),
    (UpdatesTheDeleted, known.CALLS),
    (known.MeaningAmongEverybody, "what_others_store_does_not_change_a_ranking"),
    (VectorKeptByRestore, known.APART),
    (VectorNotRenewedByUpdate, known.APART),
    (VanishesASecondEarly, known.LIVES),
    (TouchLeavesTheOldEnd, ENDS),
    (LivesAtMostAMonth, ENDS),
    (TimesAsFloats, PAIRS),
    (ClearLosesAnItem, known.CANCELLED),
    (PopLosesAnItem, known.CANCELLED),
    (UpdateRemovesFirst, known.CANCELLED),
    (SleepsInTheLoop, WAITS),
]
"""Each wrong store with the case of the default kit that is to catch it."""
