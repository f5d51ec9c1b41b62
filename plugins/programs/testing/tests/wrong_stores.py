"""A small store that is right, and many that each have one fault: what the conformance kit is tested with."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
from typing import Any

from four_methods import DictStore
from stepwise import StepwiseStore

from memoranda.errors import ConflictError
from memoranda.items import BUILTIN_TYPES, AIMemory, MemoryItem, MemoryMetadata
from memoranda.store import Capability, Order, RankedItem, SearchMode, Store, copy_item
from memoranda.store.backend import (
    BASE_CAPABILITIES,
    Filter,
    Page,
    Write,
    check_expected,
    check_owner,
    extra_matches,
    metadata_matches,
    next_versions,
    successor,
)


class KeptStore(DictStore):
    """A dict store whose dict outlives it."""

    capabilities = BASE_CAPABILITIES | {Capability.PERSISTENT}


# Order and limits


class OldestFirst(DictStore):
    def newest_first(self) -> list[MemoryItem]:
        return super().newest_first()[::-1]


class TiesUnordered(DictStore):
    def newest_first(self) -> list[MemoryItem]:
        return sorted(self.data.values(), key=lambda item: (item.created_at, item.id), reverse=True)


class OrderOfAdding(DictStore):
    def newest_first(self) -> list[MemoryItem]:
        return list(reversed(self.data.values()))


class SecondsOnly(DictStore):
    def newest_first(self) -> list[MemoryItem]:
        newest = list(self.data.values())[::-1]
        newest.sort(key=lambda item: item.created_at[:19], reverse=True)
        return newest


class ReplacementMoves(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        kept = successor(self.data.get(item.id), item, within)
        self.data.pop(item.id, None)
        self.data[item.id] = kept


class LimitIgnored(DictStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return await super()._search(wanted, replace(page, limit=10**9))


class LimitBeforeFilter(DictStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        newest = self.newest_first()[: page.limit]
        return [copy_item(item) for item in newest if self.matches(wanted, item)]


# Filters and text


class LikeWithoutEscape(DictStore):
    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        pattern = re.escape(wanted.folded).replace("%", ".*").replace("_", ".")
        rest = Filter(
            metadata=wanted.metadata, memory_type=wanted.memory_type, status=wanted.status, archived=wanted.archived
        )
        return rest.matches(item) and re.search(pattern, item.content.casefold(), re.DOTALL) is not None


class BackslashDropped(DictStore):
    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        return Filter.of(
            query=wanted.query.replace("\\", ""),
            metadata=wanted.metadata,
            memory_type=wanted.memory_type,
            status=wanted.status,
            archived=wanted.archived,
        ).matches(item)


def _folded_by(wanted: Filter, item: MemoryItem, fold: Any) -> bool:
    rest = Filter(
        metadata=wanted.metadata, memory_type=wanted.memory_type, status=wanted.status, archived=wanted.archived
    )
    return rest.matches(item) and fold(wanted.query) in fold(item.content)


class AsciiFolding(DictStore):
    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        return _folded_by(wanted, item, lambda text: re.sub("[A-Z]", lambda found: found[0].lower(), text))


class LowerInsteadOfFolding(DictStore):
    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        return _folded_by(wanted, item, str.lower)


class CaseSensitive(DictStore):
    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        return _folded_by(wanted, item, str)


class EmptyMeansAny(DictStore):
    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        metadata = wanted.metadata
        if metadata is not None:
            fields = {
                name: getattr(metadata, name) or None for name in ("user_id", "session_id", "task_id", "agent_id")
            }
            metadata = MemoryMetadata(**fields, extra=metadata.extra)
        return Filter(wanted.query, metadata, wanted.memory_type, wanted.status, wanted.archived).matches(item)


class _ExtraBy(DictStore):
    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        metadata = wanted.metadata
        if metadata is None:
            return wanted.matches(item)
        scope = metadata.model_copy(update={"extra": {}})
        rest = Filter(wanted.query, scope, wanted.memory_type, wanted.status, wanted.archived)
        return rest.matches(item) and self.extra(metadata.extra, item.metadata.extra)

    def extra(self, wanted: dict[str, Any], found: dict[str, Any]) -> bool:
        return extra_matches(wanted, found)


class ExtraAsPython(_ExtraBy):
    def extra(self, wanted: dict[str, Any], found: dict[str, Any]) -> bool:
        return all(key in found and found[key] == value for key, value in wanted.items())


class ExtraAsWhole(_ExtraBy):
    def extra(self, wanted: dict[str, Any], found: dict[str, Any]) -> bool:
        return not wanted or json.dumps(wanted, sort_keys=True) == json.dumps(found, sort_keys=True)


class ExtraAsText(_ExtraBy):
    def extra(self, wanted: dict[str, Any], found: dict[str, Any]) -> bool:
        return all(key in found and json.dumps(found[key]) == json.dumps(value) for key, value in wanted.items())


class ExtraIgnored(_ExtraBy):
    def extra(self, wanted: dict[str, Any], found: dict[str, Any]) -> bool:
        return True


class PassesOverConditions(DictStore):
    """Applies the conditions that its author knew of."""

    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        return super().matches(replace(wanted, further=()), item)


class RanksPastConditions(DictStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        return await super()._rank(query, replace(wanted, further=()), limit, mode)


class RanksBeforeConditions(DictStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        ranked = await super()._rank(query, replace(wanted, further=()), limit, mode)
        return [found for found in ranked if wanted.matches(found.item)]


class RestoresPastConditions(StepwiseStore):
    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        return await super()._restore(item_id, replace(wanted, further=()))


class PurgesPastConditions(StepwiseStore):
    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        return await super()._purge(item_id, replace(wanted, further=()), deleted_only)


class ArchivedShown(DictStore):
    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        return Filter(wanted.query, wanted.metadata, wanted.memory_type, wanted.status, None).matches(item)


# Writing


class VersionStandsStill(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        kept = successor(self.data.get(item.id), item, within)
        kept.version = 1
        self.data[item.id] = kept


class CallersVersion(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        successor(self.data.get(item.id), item, within)
        kept = copy_item(item)
        kept.version += 1
        self.data[item.id] = kept


class TakeOverAllowed(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        existing = self.data.get(item.id)
        kept = copy_item(item)
        kept.version = 1 if existing is None else existing.version + 1
        self.data[item.id] = kept


class WithinIgnored(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, None)


class MergesReplacements(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        existing = self.data.get(item.id)
        kept = successor(existing, item, within)
        if existing is not None:
            extra = {**existing.metadata.extra, **kept.metadata.extra}
            kept.metadata = kept.metadata.model_copy(update={"extra": extra})
        self.data[item.id] = kept


class AliasesWhatIsAdded(StepwiseStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        kept = successor(self._stored(item.id), item, within)
        kept.__dict__["metadata"] = item.metadata
        self._put(kept)


class AliasesWhatIsRead(DictStore):
    async def _get(self, item_id: str) -> MemoryItem | None:
        return self.data.get(item_id)


class StampsTheCallersItem(StepwiseStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        item.version = 1


class LosesUnknownFields(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        further = self.data[item.id].__pydantic_extra__
        if further:
            further.clear()


class LosesEmptyFields(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        further = self.data[item.id].__pydantic_extra__
        for name in [name for name, value in (further or {}).items() if not value]:
            del further[name]  # type: ignore[union-attr]  # there was such a name in it


class ListsFieldsByHand(DictStore):
    """Keeps the fields that its author knew of, and whatever no class knows."""

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        kept = self.data[item.id]
        known = {"place", "spots", "weight", "tags", *MemoryItem.model_fields, *(kept.model_extra or {})}
        if kept.memory_type not in BUILTIN_TYPES:
            self.data[item.id] = type(kept)(**{name: getattr(kept, name) for name in known if hasattr(kept, name)})


class NoneMeansTheDefault(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        kept = self.data[item.id]
        absent = {
            name for name in set(type(kept).model_fields) - set(MemoryItem.model_fields) if getattr(kept, name) is None
        }
        self.data[item.id] = type(kept)(**kept.model_dump(exclude=absent))


class EmptyBecomesNone(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        kept = self.data[item.id]
        kept.metadata = kept.metadata.model_copy(update={"session_id": kept.metadata.session_id or None})


class NumbersBecomeFloats(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        kept = self.data[item.id]
        extra = json.loads(json.dumps(kept.metadata.extra), parse_int=float)
        kept.metadata = kept.metadata.model_copy(update={"extra": extra})


class NoughtLosesItsSign(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        kept = self.data[item.id]
        extra = json.loads(json.dumps(kept.metadata.extra), parse_float=lambda text: float(text) + 0.0)
        kept.metadata = kept.metadata.model_copy(update={"extra": extra})


class KeysInAlphabeticalOrder(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        kept = self.data[item.id]
        extra = json.loads(json.dumps(kept.metadata.extra, sort_keys=True))
        kept.metadata = kept.metadata.model_copy(update={"extra": extra})


class CutsLongContents(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        self.data[item.id].content = item.content[: 2**20]


class ChecksNothing(DictStore):
    def _accepted(self, items: Iterable[MemoryItem]) -> list[MemoryItem]:
        return list(items)


class CompareWithoutSet(DictStore):
    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        for item in items:
            await self._add(item, within)
        return [copy_item(self.data[item.id]) for item in items]


class UpdatesOneByOne(DictStore):
    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        for item in items:
            check_expected(item, self.data.get(item.id), within)
            await self._add(item, within)
        return [copy_item(self.data[item.id]) for item in items]


class LosesUpdates(DictStore):
    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        for item in items:
            check_expected(item, self.data.get(item.id), within)
        await asyncio.sleep(0.001)
        for item in items:
            await self._add(item, within)
        return [copy_item(self.data[item.id]) for item in items]

    async def _apply(self, write: Write) -> int:
        """Bring both, so that the base class keeps nobody out meanwhile."""
        return await super()._apply(write)


class HalfABatch(DictStore):
    """Says that its batches are atomic, and adds one by one."""

    capabilities = BASE_CAPABILITIES | {Capability.ATOMIC}

    async def _apply(self, write: Write) -> int:
        for item in write.adds:
            await self._add(item, write.within)
        return 0


class HalfABatchWhenCancelled(HalfABatch):
    async def _apply(self, write: Write) -> int:
        next_versions(write, self.data.get)
        for item in write.adds:
            await self._add(item, write.within)
            await asyncio.sleep(0)
        return 0


class StuckAfterCancel(DictStore):
    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()
        self.free.set()

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await self.free.wait()
        self.free.clear()
        await asyncio.sleep(0.0001)
        await super()._add(item, within)
        self.free.set()


# Reading, removing, scopes


class CountIsLimited(DictStore):
    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return len(await self._search(wanted, Page(10)))


class CountLeaks(DictStore):
    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return len(self.data)


class ScanNewestFirst(DictStore):
    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        for item in await self._search(wanted, Page()):
            yield item


class ScanByOffset(DictStore):
    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        offset = 0
        while page := (await self._search(wanted, Page()))[::-1][offset : offset + 50]:
            for item in page:
                yield item
            offset += 50


class ScanByTimeAlone(DictStore):
    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        after = ""
        while page := [item for item in (await self._search(wanted, Page()))[::-1] if item.created_at > after][:100]:
            for item in page:
                yield item
            after = page[-1].created_at


class ClearIgnoresTheFilter(DictStore):
    async def _clear(self, wanted: Filter) -> int:
        removed = len(self.data)
        self.data.clear()
        return removed


class ClearLeavesArchived(DictStore):
    async def _clear(self, wanted: Filter) -> int:
        return await super()._clear(Filter(wanted.query, wanted.metadata, wanted.memory_type, wanted.status, False))


class ClearCountsNothing(DictStore):
    async def _clear(self, wanted: Filter) -> int:
        await super()._clear(wanted)
        return 0


class ScopeLeaks(DictStore):
    """Forgets the user as soon as a session is named."""

    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        metadata = wanted.metadata
        if metadata is not None and metadata.session_id is not None:
            metadata = metadata.model_copy(update={"user_id": None})
        return Filter(wanted.query, metadata, wanted.memory_type, wanted.status, wanted.archived).matches(item)


class RankingLeaks(DictStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        return await super()._rank(query, Filter(archived=wanted.archived), limit, mode)


class RankingWorstFirst(DictStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        return (await super()._rank(query, wanted, limit, mode))[::-1]


class DeletedStillFound(StepwiseStore):
    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        found = await self._get(item_id)
        return found is not None and metadata_matches(within, found.metadata)


class DeleteIgnoresTheScope(StepwiseStore):
    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        return await super()._delete(item_id, None)


class RestoreBringsBackEverything(StepwiseStore):
    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        return await super()._restore(item_id, Filter(archived=None))


class PurgeOnlyHides(StepwiseStore):
    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        if item_id is not None:
            return int(await self._delete(item_id, wanted.metadata))
        return await self._clear(wanted)


class PurgeLeavesTheBin(StepwiseStore):
    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        hidden = [item async for item in self._scan(wanted, True, "added")]
        purged = await super()._purge(item_id, wanted, deleted_only)
        for item in hidden:
            if not deleted_only and await self._get(item.id) is None and item_id is None:
                await self._add(item, None)
                await self._delete(item.id, None)
        return purged


# What is declared, opened and closed


class DeclaresTooLittle(DictStore):
    capabilities = BASE_CAPABILITIES - {Capability.SCAN}


class OpenAfterClose(DictStore):
    def _ensure_open(self) -> None:
        pass


class OwnErrorAfterClose(DictStore):
    def _ensure_open(self) -> None:
        if self.closed:
            raise ConflictError("connection is closed")

    closed = False

    async def _close(self) -> None:
        self.closed = True


class CannotBeOpenedAgain(DictStore):
    opened = False

    async def _init(self) -> None:
        if self.opened:
            raise RuntimeError("already used")
        self.opened = True


class ForgetsOnClose(KeptStore):
    async def _close(self) -> None:
        self.data.clear()


class UntoldObservers(DictStore):
    async def add_many(
        self, items: Iterable[MemoryItem], *, within: MemoryMetadata | None = None, ttl: float | None = None
    ) -> None:
        for item in items:
            await self._add(item, within)


class HangsForever(DictStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        await asyncio.Event().wait()
        return []


class UserCaseIgnored(DictStore):
    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        if wanted.metadata is None or not wanted.metadata.user_id:
            return wanted.matches(item)
        same = wanted.metadata.user_id.lower() == (item.metadata.user_id or "").lower()
        user = {"user_id": item.metadata.user_id}
        return same and replace(wanted, metadata=wanted.metadata.model_copy(update=user)).matches(item)


class SearchesTheHeadOnly(DictStore):
    def matches(self, wanted: Filter, item: MemoryItem) -> bool:
        head = copy_item(item)
        head.content = head.content[:100_000]
        return wanted.matches(head)


class ClearIgnoresTasks(DictStore):
    async def _clear(self, wanted: Filter) -> int:
        if wanted.metadata is not None:
            wanted = replace(wanted, metadata=wanted.metadata.model_copy(update={"task_id": None}))
        return await super()._clear(wanted)


class MergesCallsOfOneId(DictStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        item = copy_item(item)
        if isinstance(item, AIMemory):
            item.tool_calls = list({call["id"]: call for call in item.tool_calls}.values())
        await super()._add(item, within)


class SharesMetadata(DictStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        found = await super()._search(wanted, page)
        for item in found:
            item.metadata = found[0].metadata
        return found


class ReadsTheItemLate(StepwiseStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await super()._add(item, within)


class RankingOfEverybody(StepwiseStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        ranked = await super()._rank(query, wanted, limit, mode)
        return [replace(found, score=found.score / len(self)) for found in ranked]


class RankingCutTooEarly(StepwiseStore):
    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        ranked = await super()._rank(query, replace(wanted, memory_type=None), limit, mode)
        return [found for found in ranked if wanted.matches(found.item)]


class RankingRemembers(StepwiseStore):
    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, MemoryItem] = {}

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        ranked = await super()._rank(query, wanted, limit, mode)
        return [replace(found, item=self.seen.setdefault(found.item.id, found.item)) for found in ranked]


class ScanOfTheBinLeaks(StepwiseStore):
    def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        return super()._scan(Filter(archived=None) if include_deleted else wanted, include_deleted, order)


class BatchForgetsItself(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        for item in write.adds:
            check_owner(self._stored(item.id), item, write.within)
        for item in write.adds:
            self._put(successor(self._stored(item.id), item))
        return 0


class UpdatesPastTheBin(StepwiseStore):
    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        for item in items:
            check_expected(item, await self._get(item.id), within)
        for item in items:
            await self._add(item, within)
        return [copy_item(self._stored(item.id) or item) for item in items]


class DeletedArrivesLater(StepwiseStore):
    """Adds and then deletes, so that a reader meets the items in between."""

    async def _apply(self, write: Write) -> int:
        removed = await super()._apply(write.but(hidden=frozenset()))
        for item_id in write.hidden:
            await asyncio.sleep(0)
            await self._delete(item_id, write.within)
        return removed


class DeletedArrivesVisible(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(hidden=frozenset()))


class DeletedArrivesAnywhere(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(within=None) if write.hidden else write)


STATES, CALLS = "every_method_does_right_by_every_state", "random_histories_match_the_model"

WRONG_STORES: list[tuple[type[Store], str]] = [
    (OldestFirst, "search_returns_newest_first"),
    (OrderOfAdding, "search_returns_newest_first"),
    (SecondsOnly, "search_returns_newest_first"),
    (TiesUnordered, "search_returns_newest_first"),
    (ReplacementMoves, STATES),
    (LimitIgnored, "limits_cut_the_result"),
    (LimitBeforeFilter, "a_limit_counts_what_matches"),
    (LikeWithoutEscape, "a_query_is_literal"),
    (LikeWithoutEscape, "random_filters_match_the_model"),
    (BackslashDropped, "a_query_is_literal"),
    (AsciiFolding, "case_is_folded_and_nothing_else"),
    (LowerInsteadOfFolding, "case_is_folded_and_nothing_else"),
    (CaseSensitive, "case_is_folded_and_nothing_else"),
    (EmptyMeansAny, "scope_fields_are_compared_exactly"),
    (ExtraAsPython, "operators_mean_the_same_everywhere"),
    (ExtraAsWhole, "operators_mean_the_same_everywhere"),
    (ExtraAsText, "operators_mean_the_same_everywhere"),
    (ExtraIgnored, "operators_mean_the_same_everywhere"),
    (ArchivedShown, STATES),
    (VersionStandsStill, STATES),
    (CallersVersion, STATES),
    (TakeOverAllowed, "random_tenants_never_meet"),
    (WithinIgnored, CALLS),
    (MergesReplacements, CALLS),
    (AliasesWhatIsAdded, "changing_an_item_changes_nothing_stored"),
    (AliasesWhatIsRead, "changing_an_item_changes_nothing_stored"),
    (StampsTheCallersItem, "changing_an_item_changes_nothing_stored"),
    (PassesOverConditions, "an_unheard_of_condition_bounds_what_is_read"),
    (PassesOverConditions, "an_unheard_of_condition_bounds_what_is_changed"),
    (RanksPastConditions, "an_unheard_of_condition_bounds_what_is_ranked"),
    (RanksBeforeConditions, "an_unheard_of_condition_bounds_what_is_ranked"),
    (RestoresPastConditions, "an_unheard_of_condition_bounds_what_is_changed"),
    (PurgesPastConditions, "an_unheard_of_condition_bounds_what_is_changed"),
    (LosesUnknownFields, "unknown_type_and_fields_round_trip"),
    (LosesEmptyFields, "a_further_field_of_every_kind_round_trips"),
    (ListsFieldsByHand, "every_field_of_a_registered_class_round_trips"),
    (NoneMeansTheDefault, "every_field_of_a_registered_class_round_trips"),
    (EmptyBecomesNone, "awkward_items_round_trip"),
    (NumbersBecomeFloats, "any_json_round_trips"),
    (NoughtLosesItsSign, "any_json_round_trips"),
    (KeysInAlphabeticalOrder, "any_json_round_trips"),
    (CutsLongContents, "twenty_megabytes_round_trip"),
    (ChecksNothing, "what_no_store_can_hold_is_refused"),
    (CompareWithoutSet, STATES),
    (CompareWithoutSet, "no_update_is_lost"),
    (LosesUpdates, "no_update_is_lost"),
    (LosesUpdates, "one_of_several_creators_wins"),
    (UpdatesOneByOne, "update_many_is_all_or_none"),
    (HalfABatch, "a_batch_is_all_or_none"),
    (HalfABatchWhenCancelled, "a_call_that_is_cancelled_at_any_await_is_done_or_not"),
    (StuckAfterCancel, "a_call_that_is_cancelled_at_any_await_is_done_or_not"),
    (CountIsLimited, "every_change_reaches_every_read"),
    (CountLeaks, STATES),
    (ScanNewestFirst, STATES),
    (ScanByOffset, "scan_survives_writes_in_between"),
    (ScanByTimeAlone, "sizes_match_the_model"),
    (ClearIgnoresTheFilter, STATES),
    (ClearLeavesArchived, STATES),
    (ClearCountsNothing, STATES),
    (ScopeLeaks, "random_tenants_never_meet"),
    (RankingLeaks, CALLS),
    (RankingWorstFirst, "every_mode_ranks_the_best_first"),
    (DeletedStillFound, "every_change_reaches_every_read"),
    (DeleteIgnoresTheScope, CALLS),
    (RestoreBringsBackEverything, STATES),
    (PurgeOnlyHides, STATES),
    (PurgeLeavesTheBin, CALLS),
    (DeclaresTooLittle, "the_base_capabilities_are_declared"),
    (OpenAfterClose, "every_call_after_close_is_refused"),
    (OwnErrorAfterClose, "every_call_after_close_is_refused"),
    (CannotBeOpenedAgain, "a_closed_store_can_be_opened_again"),
    (UserCaseIgnored, "scope_fields_are_compared_exactly"),
    (SearchesTheHeadOnly, "long_contents_are_searched_to_their_end"),
    (ClearIgnoresTasks, "batches_that_straddle_a_scope_end_at_its_bounds"),
    (MergesCallsOfOneId, "awkward_items_round_trip"),
    (SharesMetadata, "items_that_are_read_together_share_nothing"),
    (ReadsTheItemLate, "changing_an_item_while_it_is_added_changes_nothing_stored"),
    (RankingOfEverybody, "what_others_store_does_not_change_a_ranking"),
    (RankingCutTooEarly, "few_that_match_are_found_behind_many_that_do_not"),
    (RankingRemembers, "every_change_reaches_every_read"),
    (ScanOfTheBinLeaks, STATES),
    (BatchForgetsItself, "add_many_within_a_scope_reaches_into_the_batch"),
    (UpdatesPastTheBin, "update_many_is_all_or_none"),
    (DeletedArrivesLater, "what_arrives_deleted_is_seen_by_nobody_meanwhile"),
    (DeletedArrivesVisible, CALLS),
    (DeletedArrivesAnywhere, "batches_that_straddle_a_scope_end_at_its_bounds"),
    (UntoldObservers, "observers_change_items_before_they_are_stored"),
]
"""Each wrong store with the case that is meant to catch it."""
