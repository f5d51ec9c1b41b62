"""Exact words are found in files of any size, whatever language an item is taken for."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import base
from memoranda_backend.sql import candidates
from memoranda_sqlite import SQLiteMemoryStore, scope_cache
from memoranda_sqlite import candidates as of_large_scopes

ADA = MemoryMetadata(user_id="ada")
TEXTS = (
    "maddie dumped me over break",
    "tum kal office mein kya pehne the yaar",
    "Te quiero mucho darling, see you at the airport",
    "Die Äpfel und Bücher der Nachbarn wurden abgeholt",
    "Los hijos de los vecinos jugaban en el patio",
    "Соседские дети играли во дворе до вечера",
    "والدي يعمل طبيبا في مستشفى المدينة",
    "姉は先週市場で赤い自転車を買いました",
)


@pytest.mark.parametrize("whole", [True, False], ids=["ranked as a whole", "ranked by candidates"])
@pytest.mark.parametrize("indexed", [True, False], ids=["in the index", "waiting for the index"])
async def test_every_word_finds_its_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool, indexed: bool
) -> None:
    if not whole:
        for module in (scope_cache, of_large_scopes, candidates):
            monkeypatch.setattr(module, "WHOLE_SCOPE", 3)
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(id=text, content=text, metadata=ADA) for text in TEXTS])
        if indexed:
            await store.reindex()
        for text in TEXTS:
            for word in text.replace(",", "").split():
                found = await store.search_ranked(query=word, metadata=ADA, mode="text")
                assert text in [each.item.id for each in found if each.terms], word


@pytest.mark.parametrize("whole", [True, False], ids=["ranked as a whole", "ranked by candidates"])
async def test_a_search_right_after_many_were_added_finds_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """The text index is not filled yet; only a scope of which candidates are ranked waits for it."""
    if not whole:
        for module in (scope_cache, of_large_scopes, candidates):
            monkeypatch.setattr(module, "WHOLE_SCOPE", 100)
    texts = [f"note {number} about the garden" for number in range(2_500)]
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(id=text, content=text, metadata=ADA) for text in texts])
        for text in texts[::500]:
            found = await store.search_ranked(query=text, metadata=ADA, mode="text", limit=1)
            assert [each.item.id for each in found] == [text]


async def test_what_is_worth_knowing_of_a_very_large_scope_comes_from_its_newest_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (scope_cache, of_large_scopes, candidates):
        monkeypatch.setattr(module, "WHOLE_SCOPE", 100)
    monkeypatch.setattr(base, "SURELY_RANKED", 100)
    monkeypatch.setattr(base, "NEWEST_TOLD", 50)
    old = HumanMemory(content="I live in Lisbon with my cat Miso.", metadata=ADA)
    small_talk = [HumanMemory(content=f"ok {number}?", metadata=ADA) for number in range(200)]
    new = HumanMemory(content="I am allergic to peanuts.", metadata=ADA)
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([old, *small_talk, new])
        found = await store.recall("", metadata=ADA, limit=5)
        narrowed = await store.recall("", metadata=ADA, limit=5, memory_type="ai")
    assert found[0].id == new.id
    assert old.id not in [item.id for item in found]
    assert narrowed == []


async def test_a_first_search_gives_way_to_others_at_every_thousand_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[None] = []
    monkeypatch.setattr(scope_cache, "give_way", lambda: turns.append(None))
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(content=f"note {number}", metadata=ADA) for number in range(5_000)])
        await store.search_ranked(query="note", metadata=ADA, mode="text", limit=1)
    assert len(turns) >= 5
