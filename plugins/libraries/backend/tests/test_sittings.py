"""A sitting ends with hours of silence or another session, at whatever hour of the day it takes place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import InMemoryStore
from memoranda_backend.ranking import Passage, rank_text

START = datetime(2024, 3, 1, tzinfo=UTC)
LARGE = 1_500
"""How many other items make a scope whose index is kept."""
TALK = ("Which instrument did the tutor bring?", "A theorbo, of course.", "How many strings?", "Fourteen.", "Thanks.")


async def ranking(pauses: Sequence[int], shift: int, others: int = 0) -> list[tuple[str, float]]:
    """Return how a conversation with these pauses in minutes is ranked if it begins so many minutes later."""
    store, time = InMemoryStore(), START + timedelta(minutes=shift)
    notes = [MemoryMetadata(user_id="ada", session_id=f"n{number // 50}") for number in range(others)]
    await store.add_many([HumanMemory(content="rain again", metadata=each, created_at="2023-01-01") for each in notes])
    owner = MemoryMetadata(user_id="ada", session_id="s")
    for number, pause in enumerate(pauses):
        time += timedelta(minutes=pause)
        await store.add(HumanMemory(content=TALK[number % len(TALK)], metadata=owner, created_at=time.isoformat()))
    scope = MemoryMetadata(user_id="ada")
    found = await store.search_ranked(query="Which instrument has strings?", metadata=scope, mode="text", limit=50)
    return [(each.item.content, round(each.score, 6)) for each in found]


@given(pauses=st.lists(st.integers(0, 600), min_size=1, max_size=12), shift=st.integers(1, 3 * 24 * 60))
def test_no_hour_of_the_day_changes_a_ranking(pauses: list[int], shift: int) -> None:
    assert asyncio.run(ranking(pauses, shift)) == asyncio.run(ranking(pauses, 0))


@settings(max_examples=3, deadline=None)
@given(shift=st.integers(1, 24 * 60))
def test_no_hour_of_the_day_changes_the_ranking_of_a_large_scope(shift: int) -> None:
    pauses = [30] * 40
    assert asyncio.run(ranking(pauses, shift, LARGE)) == asyncio.run(ranking(pauses, 0, LARGE))


@pytest.mark.parametrize(
    ("session", "second", "found"),
    [
        ("s", "2024-03-02T01:00:00+00:00", ["question", "answer"]),
        ("s", "2024-03-02T11:00:00+00:00", ["question"]),
        ("t", "2024-03-02T01:00:00+00:00", ["question"]),
        ("s", "2024-03-02T23:00:00", ["question"]),
        ("s", "yesterday", ["question"]),
    ],
)
def test_neighbours_are_of_one_sitting(session: str, second: str, found: list[str]) -> None:
    turns = [
        Passage("question", TALK[0], date="2024-03-01T23:00:00+00:00", session="s"),
        Passage("answer", TALK[1], date=second, session=session),
    ]
    assert [each.key for each in rank_text("Which instrument?", [turns])] == found
