"""A kit for adapters that keep records: nobody but the adapter writes one, and nobody else's is taken for one.

A record is what a framework keeps beside messages: its sessions, its state, its agents. What it says is believed, so a
stranger who may add items to a user's scope, and knows the id of a record, must not be able to say it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from memoranda.errors import CorruptStoreError, InputError
from memoranda.items import MemoryItem
from memoranda.store import InMemoryStore, Store
from memoranda.store.records import copying_records

USER = "ada"
RECORD = "session.record"
OTHER_TYPES = ("record", "item", "human", "system")
"""Types that a stranger may give to an item with the id of a record."""


class HostileRecords:
    """Test that the records of an adapter cannot be forged. Subclass it in a test module.

    - :meth:`keep` lets the adapter store all kinds of records that it keeps, new ones.
    - :meth:`kept` returns what the framework is given of them, as a value that can be compared.

    Both are given a handle of one user. Both may raise what the adapter raises for a store that is not in order.
    """

    async def keep(self, handle: Store) -> None:
        """Store records with the adapter."""
        raise NotImplementedError

    async def kept(self, handle: Store) -> Any:
        """Return what the framework is given of the records."""
        raise NotImplementedError

    async def test_what_is_kept_comes_back(self) -> None:
        """The user's records are there, and differ from none; otherwise the other tests would show nothing."""
        store = InMemoryStore()
        ada = store.scoped(user_id=USER)
        nothing = await self.kept(ada)

        await self.keep(ada)

        assert await self.kept(ada) != nothing

    async def test_nobody_replaces_a_record_by_hand(self) -> None:
        """Whatever the handle and the call, a record that the adapter has not written itself is refused."""
        store = InMemoryStore()
        ada = store.scoped(user_id=USER)
        await self.keep(ada)
        before = await self.kept(ada)

        for record in await _records(store):
            for handle in (store, ada, ada.scoped(trust="external", user_id=USER)):
                for write in _writes(handle, record):
                    with pytest.raises(InputError):
                        await write()

        assert await self.kept(ada) == before

    async def test_nobody_plants_a_record_by_hand(self) -> None:
        """What is not there yet cannot be said beforehand, neither by adding it nor by copying it as a stranger."""
        store = InMemoryStore()
        ada, stranger = store.scoped(user_id=USER), store.scoped(user_id=USER, trust="external")
        nothing = await self.kept(ada)

        for record in await self._made_elsewhere():
            for handle in (store, ada, stranger):
                for write in _writes(handle, record.model_copy(update={"version": 0})):
                    with pytest.raises(InputError):
                        await write()
            with copying_records(stranger), pytest.raises(InputError):
                await stranger.add(record)

        assert await self.kept(ada) == nothing

    @pytest.mark.parametrize("memory_type", OTHER_TYPES)
    async def test_an_item_with_the_id_of_a_record_is_none(self, memory_type: str) -> None:
        """It is not believed, and not overwritten: the adapter goes on without it, or says what is in its way."""
        store = InMemoryStore()
        ada, stranger = store.scoped(user_id=USER), store.scoped(user_id=USER, trust="external")
        nothing = await self.kept(ada)
        planted = [each.model_copy(update={"memory_type": memory_type}) for each in await self._made_elsewhere()]
        await stranger.add_many(planted)

        with suppress(CorruptStoreError):
            assert await self.kept(ada) == nothing
        with suppress(Exception):  # A framework may have an error of its own for what exists already.
            await self.keep(ada)

        found = {item.id: item for item in await store.get_many([item.id for item in planted])}
        assert {found[item.id].memory_type for item in planted} == {memory_type}
        assert [found[item.id].payload for item in planted] == [item.payload for item in planted]

    async def test_the_records_of_a_stranger_are_not_those_of_the_user(self) -> None:
        """An adapter with a stranger's handle keeps records of its own, before and after the user's are there."""
        store = InMemoryStore()
        ada, stranger = store.scoped(user_id=USER), store.scoped(user_id=USER, trust="external")
        nothing = await self.kept(ada)
        await self.keep(stranger)
        assert await self.kept(stranger) != nothing
        assert await self.kept(ada) == nothing

        strangers = {item.id for item in await _records(store)}
        await self.keep(ada)

        records = await _records(store)
        assert strangers <= {item.id for item in records}
        assert {item.trust for item in records if item.id in strangers} == {"external"}
        assert {item.trust for item in records if item.id not in strangers} == {None}

    async def _made_elsewhere(self) -> list[MemoryItem]:
        """Return the records that the adapter makes in a store of its own, which have the same ids there."""
        elsewhere = InMemoryStore()
        await self.keep(elsewhere.scoped(user_id=USER))
        return await _records(elsewhere)


async def _records(store: Store) -> list[MemoryItem]:
    """Return the stored records; there must be some."""
    found = [item async for item in store.scan(memory_type=RECORD)]
    assert found, "The adapter kept no record."
    return found


def _writes(handle: Store, record: MemoryItem) -> Iterator[Callable[[], Awaitable[Any]]]:
    """Yield the ways to write a record that says something else."""
    forged = record.model_copy(update={"payload": '{"name": "forged", "value": null}'})
    yield lambda: handle.add(forged)
    yield lambda: handle.add_many([forged])
    yield lambda: handle.update(forged)
    yield lambda: handle.update_many([forged])
    yield lambda: handle.apply(adds=[forged])
