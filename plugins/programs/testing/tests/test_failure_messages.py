"""What a failed case says: the sentence, the field, the difference, and how the store was made."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from stepwise import StepwiseStore

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda.store.backend import Filter, Page, Write
from memoranda_testing import ExpectationError, Outcome, StoreConformance, check_store
from memoranda_testing.expect import equal
from memoranda_testing.model import Call, Sandbox, check_steps
from memoranda_testing.model.answers import list_difference
from memoranda_testing.model.steps import Together


class OldestFirst(StepwiseStore):
    def __init__(self, path: str = "", *, sync: bool = True) -> None:
        super().__init__()

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return (await super()._search(wanted, page))[::-1]


class LosesNames(StepwiseStore):
    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(adds=[self._without(item) for item in write.adds]))

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(self._without(item), within)

    def _without(self, item: MemoryItem) -> MemoryItem:
        return item.model_copy(update={"name": None})


async def test_a_failed_fixed_case_names_the_sentence_that_it_tests() -> None:
    report = await check_store(OldestFirst, exclusive=True, select="test_search_returns_newest_first".__eq__)
    (result,) = report.results
    assert result.outcome is Outcome.FAILED
    assert result.title
    assert f"The contract, as this case tests it: “{result.title}”" in result.reason


async def test_a_failed_fixed_case_names_the_sentence_in_pytest_too() -> None:
    async with OldestFirst() as store:
        with pytest.raises(ExpectationError, match="The contract, as this case tests it: “"):
            await StoreConformance().test_search_returns_newest_first(store)


async def test_a_played_case_prints_its_program_with_its_sentence() -> None:
    report = await check_store(OldestFirst, exclusive=True, select="test_search_returns_newest_first".__eq__)
    reason = report.results[0].reason
    assert "found = await store.search(" in reason
    assert reason.count("The contract, ") == 1


async def test_a_program_opens_the_store_with_the_arguments_of_the_tests() -> None:
    report = await check_store(
        lambda: OldestFirst("memories.db", sync=False),
        exclusive=True,
        select="test_random_filters_match_the_model".__eq__,
    )
    assert "return OldestFirst('memories.db', sync=False)" in report.results[0].reason


async def test_a_field_that_is_wrong_after_calls_at_once_is_shown_as_the_field() -> None:
    async def fresh() -> Store:
        return LosesNames()

    items = [MemoryItem(id=name, content="tea", name="Ada") for name in "ab"]
    calls = Together(tuple(Call("add", {"item": item}) for item in items))
    with pytest.raises(ExpectationError) as raised:
        await check_steps(Sandbox(LosesNames(), fresh=fresh), [calls], "a test")
    assert "name of the item" in str(raised.value).splitlines()[0]
    assert "no order of the" not in str(raised.value)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (list(range(1, 400)), "missing: [0]"),
        ([*range(400), 7], "too much: [7]"),
        ([*range(390), *reversed(range(390, 400))], "from position 390 on expected [390, 391, 392, 393]"),
    ],
)
def test_long_lists_show_their_difference(found: Sequence[int], words: str) -> None:
    assert words in list_difference([str(number) for number in range(400)], [str(number) for number in found])


def test_a_long_list_shows_from_where_on_it_differs() -> None:
    wanted = [f"item {number}" for number in range(400)]
    with pytest.raises(ExpectationError, match=r"400 elements .* 399 were found; from position 7 .*'item 8'"):
        equal([*wanted[:7], *wanted[8:]], wanted, "ids")
