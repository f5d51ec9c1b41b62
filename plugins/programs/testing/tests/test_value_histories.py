"""The default kit catches stores that confuse values, cut before they match, or ignore a second lifetime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from stepwise import StepwiseStore

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import InMemoryStore
from memoranda.store.backend import Filter, Page, Write, check_expected
from memoranda_testing import Outcome, check_store

ALIKE, BEHIND, LIVES, WITHIN = (
    "values_that_look_alike_are_apart",
    "a_limit_counts_what_matches",
    "every_lifetime_ends_at_its_moment",
    "update_many_changes_nothing_outside_within",
)


def _like_a_set(value: Any) -> Any:
    if isinstance(value, list):
        return sorted({repr(_like_a_set(each)) for each in value})
    return {key: _like_a_set(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def _without_case(value: Any) -> Any:
    return {key.lower(): _without_case(inner) for key, inner in value.items()} if isinstance(value, dict) else value


class LooksAtExtraLoosely(StepwiseStore):
    """Compares ``extra`` in another form than it is given."""

    def form(self, value: Any) -> Any:
        raise NotImplementedError

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        if wanted.metadata is None or not wanted.metadata.extra:
            return await super()._search(wanted, page)
        asked = self.form(wanted.metadata.extra)
        others = replace(wanted, metadata=wanted.metadata.model_copy(update={"extra": {}}))
        found = await super()._search(others, Page(10**6, order=page.order))
        fits = [item for item in found if asked.items() <= self.form(item.metadata.extra).items()]
        return fits[page.offset : page.end]


class ListsAreSets(LooksAtExtraLoosely):
    def form(self, value: Any) -> Any:
        return {key: repr(inner) for key, inner in _like_a_set(value).items()}


class KeysWithoutCase(LooksAtExtraLoosely):
    def form(self, value: Any) -> Any:
        return {key: repr(inner) for key, inner in _without_case(value).items()}


class TenTimesTheLimitBeforeTheQuery(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        rows = await super()._search(replace(wanted, query=""), Page(page.end * 10, order=page.order))
        return [item for item in rows if wanted.matches(item)][page.offset : page.end]


class HalfAppliedOutsideWithin(StepwiseStore):
    """Checks the first item of a batch only."""

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        check_expected(items[0], self._stored(items[0].id), within)
        return await super()._update_many(items, None)


class FirstLifetimeStays(StepwiseStore):
    """Ignores the lifetime of what replaces an item that has one."""

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(self._as_first(item), within)

    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(adds=[self._as_first(item) for item in write.adds]))

    def _as_first(self, item: MemoryItem) -> MemoryItem:
        held = self._stored(item.id)
        if held is None or held.expires_at is None or item.expires_at is None:
            return item
        return item.model_copy(update={"ttl": held.ttl, "expires_at": held.expires_at})


@pytest.mark.parametrize(
    ("store", "case"),
    [
        (ListsAreSets, ALIKE),
        (KeysWithoutCase, ALIKE),
        (TenTimesTheLimitBeforeTheQuery, BEHIND),
        (HalfAppliedOutsideWithin, WITHIN),
        (FirstLifetimeStays, LIVES),
    ],
)
async def test_a_store_that_is_wrong_about_values_is_caught(store: type[StepwiseStore], case: str) -> None:
    report = await check_store(store, exclusive=True, select=f"test_{case}".__eq__, timeout=600)
    assert [result.outcome for result in report.results] == [Outcome.FAILED], report.results
    assert "Error:" not in report.results[0].reason.split("\n", 1)[0]


@pytest.mark.parametrize("case", [ALIKE, BEHIND, LIVES, WITHIN])
async def test_the_in_memory_store_passes(case: str) -> None:
    report = await check_store(InMemoryStore, exclusive=True, select=f"test_{case}".__eq__, timeout=600)
    assert [(result.outcome, result.reason) for result in report.results] == [(Outcome.PASSED, "")]
