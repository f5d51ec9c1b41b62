"""Terms in a file are those of this release, whoever made them and in however many threads."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Access, Store
from memoranda_backend.text import terms_fingerprint
from memoranda_sqlite import SQLiteMemoryStore, text_index

USERS = [f"user{number}" for number in range(6)]
LETTERS = "bcdfghklmnprstvz"
SUFFIXES = ("izations", "fulness", "ingly", "ational", "iveness", "ements")


@pytest.fixture
def alternating_threads() -> Iterator[None]:
    """Let threads give way to each other far more often than usual."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def words_of(user: int) -> list[str]:
    """Return words that no cache has seen, since they are of this user and this file of tests alone."""
    return [
        f"yarv{LETTERS[user]}u{LETTERS[number % 16]}o{LETTERS[number // 16 % 16]}{SUFFIXES[number % 6]}"
        for number in range(150)
    ]


def said_by(user: int) -> list[HumanMemory]:
    whose = MemoryMetadata(user_id=USERS[user])
    return [HumanMemory(content=word, metadata=whose) for word in words_of(user)]


async def found_by(store: Store, user: int, word: str) -> list[str]:
    found = await store.search(query=word, metadata=MemoryMetadata(user_id=USERS[user]), mode="text", limit=1)
    return [item.content for item in found]


async def test_users_who_search_at_once_find_words_that_were_never_seen(
    tmp_path: Path, alternating_threads: None
) -> None:
    async with SQLiteMemoryStore(tmp_path / "agent.db") as store:
        for user in range(len(USERS)):
            await store.add_many(said_by(user))

    async with SQLiteMemoryStore(tmp_path / "agent.db") as store:
        asked = [(user, words_of(user)[-1]) for user in range(len(USERS))]
        found = await asyncio.gather(*(found_by(store, user, word) for user, word in asked))
        assert found == [[word] for _, word in asked]
        for user in range(len(USERS)):
            for word in words_of(user)[::10]:
                assert await found_by(store, user, word) == [word]


def spoil(path: Path) -> None:
    """Leave the file as a release did whose threads shared a stemmer: a row has another word's stem."""
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE memoranda_terms SET terms = 'another'")
        connection.execute("UPDATE memoranda_meta SET value = '0123456789abcdef' WHERE key = 'terms'")
    connection.close()


async def spoiled(path: Path) -> Path:
    async with SQLiteMemoryStore(path) as store:
        await store.add_many(said_by(0))
        await store.fill_indexes()
    spoil(path)
    return path


@pytest.mark.parametrize("access", ["create", "read"])
async def test_wrong_stems_of_an_earlier_release_do_not_hide_a_word(tmp_path: Path, access: Access) -> None:
    path = await spoiled(tmp_path / "agent.db")
    async with memoranda.open(f"sqlite:///{path}", access=access) as store:
        assert await found_by(store, 0, words_of(0)[7]) == [words_of(0)[7]]


async def test_the_first_ranked_search_makes_the_terms_of_an_earlier_release_anew(tmp_path: Path) -> None:
    path = await spoiled(tmp_path / "agent.db")
    async with SQLiteMemoryStore(path) as store:
        await found_by(store, 0, words_of(0)[7])
        await store.fill_indexes()
        assert all(finding.ok for finding in await store.doctor())
    connection = sqlite3.connect(path)
    (wrong,) = connection.execute("SELECT count(*) FROM memoranda_terms WHERE terms = 'another'").fetchone()
    (made_by,) = connection.execute("SELECT value FROM memoranda_meta WHERE key = 'terms'").fetchone()
    connection.close()
    assert (wrong, made_by) == (0, terms_fingerprint())


async def test_terms_of_this_release_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with SQLiteMemoryStore(tmp_path / "agent.db") as store:
        await store.add_many(said_by(0))
        await store.fill_indexes()
    emptied: list[object] = []
    monkeypatch.setattr(text_index, "empty", emptied.append)
    async with SQLiteMemoryStore(tmp_path / "agent.db") as store:
        assert await found_by(store, 0, words_of(0)[7]) == [words_of(0)[7]]
        await store.fill_indexes()
    assert emptied == []
