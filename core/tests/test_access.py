"""What a store is opened for: whatever the URL, it is opened before it is used, and reading writes nothing."""

from __future__ import annotations

from typing import Any

import pytest

import memoranda
from memoranda import HumanMemory, InputError
from memoranda.errors import StoreClosedError, StoreNotFoundError, UnsupportedError
from memoranda.store import Store
from memoranda.store.backend import Opened, Opening
from memoranda.store.in_memory import InMemoryEngine


class AbsentEngine(InMemoryEngine):
    """An engine that is not there, beside one that is."""

    async def open(self, opening: Opening) -> Opened:
        raise StoreNotFoundError(opening.label, ["memory://other"])

    async def exists(self) -> bool:
        return False


class Absent(Store):
    """A store whose engine is not there."""

    def __init__(self) -> None:
        super().__init__(AbsentEngine(self._text_ranker))


async def test_a_store_in_memory_is_opened_before_it_is_used_as_every_other() -> None:
    store = memoranda.open("memory://")

    with pytest.raises(StoreClosedError, match="not open yet"):
        await store.add(HumanMemory(content="x"))

    async with store:
        await store.add(HumanMemory(content="x"))
        assert await store.count() == 1


async def test_a_handle_of_a_store_that_is_not_open_yet_refuses_too() -> None:
    handle = memoranda.open("memory://").scoped(user_id="ada")

    with pytest.raises(StoreClosedError):
        await handle.search()


@pytest.mark.parametrize("access", ["change", "read"])
async def test_what_is_not_there_is_not_made_by_changing_or_reading(access: Any) -> None:
    store = Absent()
    await store.close()
    store.access = access

    with pytest.raises(StoreNotFoundError, match="memory://other") as refused:
        await store.init()

    assert refused.value.alike == ("memory://other",)
    assert not await store.exists()


async def test_a_store_that_is_opened_for_reading_refuses_every_write() -> None:
    item = HumanMemory(content="x")
    async with memoranda.open("memory://", access="read") as store:
        handle = store.scoped(user_id="ada")
        for write in (
            store.add(item),
            store.add_many([item]),
            store.update(item),
            store.clear(),
            store.delete("x"),
            store.restore(),
            store.purge(deleted_only=True),
            handle.add(item),
            handle.clear(),
        ):
            with pytest.raises(UnsupportedError, match="opened for reading"):
                await write
        assert await store.search() == []


def test_an_unknown_access_is_refused() -> None:
    with pytest.raises(InputError, match="access"):
        memoranda.open("memory://", access="write")  # type: ignore[arg-type]


async def test_an_engine_that_has_nothing_to_make_is_always_there() -> None:
    assert await memoranda.open("memory://", access="read").exists()
