"""How many memories a question is given, and which of them keep a place."""

from __future__ import annotations

import pytest

from memoranda.items import HumanMemory, MemoryMetadata
from memoranda.store.in_memory import InMemoryStore
from memoranda_backend.ranking import Passage, Weights, rank_text


def concerts(count: int) -> list[HumanMemory]:
    """Return what was said of concerts, one a day, in three sessions by turns."""
    return [
        HumanMemory(
            id=f"c{number}",
            content=f"I went to concert number {number}.",
            created_at=f"2024-05-{number + 1:02}T10:00:00+00:00",
            metadata=MemoryMetadata(user_id="ada", session_id=f"s{number % 3}"),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("question", ["How many times did I go to a concert?", "What was the last concert?"])
async def test_every_question_gets_up_to_fifteen_best_first(question: str) -> None:
    async with InMemoryStore() as store:
        await store.add_many(concerts(18))
        ada = store.scoped(user_id="ada")
        ranked = await ada.search_ranked(query=question, limit=15)
        found = await ada.recall(question)
        assert [item.id for item in found] == [each.item.id for each in ranked]


async def test_a_limit_is_kept() -> None:
    async with InMemoryStore() as store:
        await store.add_many(concerts(18))
        ada = store.scoped(user_id="ada")
        assert len(await ada.recall("How many times did I go to a concert?", limit=12)) == 12


def notes(text: str, last: str) -> list[list[Passage]]:
    texts = [*(f"{text} {number}" for number in range(30)), last]
    return [[Passage(f"n{number}", text, session=f"s{number}")] for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("query", "text", "said"),
    [
        ("ideas for dinner", "dinner, a fine dinner", "Always leave out nuts at dinner, here as well as anywhere else"),
        ("Ideen für das Brot", "wir haben Brot, gutes Brot", "Ich mag niemals Nüsse im Brot, auch wenn es dunkel ist"),
    ],
)
def test_a_standing_instruction_keeps_a_place_where_the_question_touches_it(query: str, text: str, said: str) -> None:
    found = [each.key for each in rank_text(query, notes(text, said), limit=10)]
    assert found[-1] == "n30"
    without = [each.key for each in rank_text(query, notes(text, said), limit=10, weights=Weights(standing=0))]
    assert "n30" not in without
    assert found[:9] == without[:9]


def test_an_instruction_about_something_else_keeps_no_place() -> None:
    said = "Always water the roses in the morning"
    found = rank_text("ideas for dinner", notes("dinner, a fine dinner", said), limit=10)
    assert "n30" not in [each.key for each in found]
