"""Keys for tests, and the stores that encryption is put around."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from memoranda.store import Store
from memoranda_encrypt import KeyRing, LocalMasterKey, with_encryption
from memoranda_sqlite import SQLiteMemoryStore
from servers import Engines

LONGEST = {
    *("test_sizes_match_the_model", "test_random_lifetimes_match_the_model", "test_a_few_are_found_among_many"),
    *("test_a_call_that_is_cancelled_at_any_await_is_done_or_not", "test_random_forks_show_what_lists_would"),
}
"""Cases of the kit that take seconds, and that the store in memory runs by itself every day."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the longest cases for `--everything`."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.name in LONGEST:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    with Engines() as started:
        yield started


@pytest.fixture
def master() -> LocalMasterKey:
    """A new master key."""
    return LocalMasterKey.generate()


@pytest.fixture
def ring(tmp_path: Path, master: LocalMasterKey) -> Iterator[KeyRing]:
    """A ring in a file of its own."""
    ring = KeyRing(master, tmp_path / "keys.db")
    yield ring
    ring.close()


@pytest.fixture
async def store(tmp_path: Path, ring: KeyRing) -> AsyncIterator[Store]:
    """An encrypted SQLite file."""
    async with with_encryption(SQLiteMemoryStore(tmp_path / "store.db"), ring) as store:
        yield store
