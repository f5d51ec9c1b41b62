"""Large batches travel as the text of a COPY: whatever characters a value has, it comes back as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda import HumanMemory, MemoryMetadata
from memoranda_postgres import PostgresMemoryStore

SPECIAL = ("\\", "\n", "\r", "\t", "\x01", "\x02", "\\N", "\\.", "\n\\.\n", "\x01\x02", "{", '"', "ü", "🦉", "a")
TEXTS = st.lists(st.sampled_from(SPECIAL), max_size=6).map("".join)
IDS = st.lists(st.sampled_from(SPECIAL), min_size=1, max_size=3).map("".join)


@pytest.mark.parametrize("text", [*SPECIAL, "".join(SPECIAL)])
async def test_a_value_of_special_characters_comes_back_from_a_large_batch(url: str, text: str) -> None:
    odd = HumanMemory(
        id=f"odd{text}", content=text, name=text, metadata=MemoryMetadata(user_id=text, extra={"key": text})
    )
    async with PostgresMemoryStore(url) as store:
        await store.add_many([odd, *(HumanMemory(content="plain") for _ in range(100))])
        stored = await store.get(odd.id)
        assert stored is not None
        assert (stored.content, stored.name, stored.metadata) == (text, text, odd.metadata)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(TEXTS, st.none() | IDS, st.none() | IDS), min_size=1, max_size=20))
async def test_any_values_come_back_from_a_large_batch(url: str, rows: list[Any]) -> None:
    items = [
        HumanMemory(content=content, metadata=MemoryMetadata(user_id=user, session_id=session))
        for content, user, session in rows
    ]
    async with PostgresMemoryStore(url) as store:
        await store.add_many([*items, *(HumanMemory(content="plain") for _ in range(64))])
        stored = {item.id: item for item in await store.get_many([item.id for item in items])}
    assert [(stored[item.id].content, stored[item.id].metadata) for item in items] == [
        (item.content, item.metadata) for item in items
    ]
