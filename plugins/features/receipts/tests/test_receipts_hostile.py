"""Receipts that are forged, or belong to another: they show nothing that their owner could not read."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memoranda
from memoranda import HumanMemory, MemoryItem
from memoranda.errors import CorruptStoreError, InputError, MemoryError
from memoranda.store import Store
from memoranda.store.records import writing_records
from memoranda_context import assemble
from memoranda_receipts import Receipts, Recording, content_hash

SECRET = "Bob's secret."


async def planted(store: Store) -> None:
    bob = store.scoped(user_id="bob", session_id="trip")
    await bob.add(HumanMemory(id="secret", content=SECRET))
    await bob.window(receipt=Recording(id="of-bob", payload=True))
    await store.scoped(user_id="ada", session_id="trip").add(HumanMemory(id="mine", content="Mine."))


def forged(**fields: Any) -> MemoryItem:
    """Return an item that says that it is a receipt of Bob's item."""
    entry = {"id": "secret", "version": 1, "hash": content_hash(HumanMemory(content=SECRET))}
    held = {"id": "of-bob", "at": "2026-01-01T00:00:00.000000+00:00", "kind": "window", "digest": "", "shown": [entry]}
    held |= fields
    return MemoryItem(id="forged", content="", memory_type="receipt", archived_by="forged", payload=json.dumps(held))


async def forge(store: Store, **fields: Any) -> None:
    """Store a forged receipt, as code of a plugin could."""
    with writing_records("receipt"):
        await store.add(forged(**fields))


async def everything(receipts: Receipts, name: str) -> str:
    """Return all that can be learned from a receipt."""
    replay = await receipts.replay(name)
    found = [replay.items, replay.bytes(), replay.changes, await receipts.contents(name)]
    found += [await receipts.diff(name, name), await receipts.contents(name, ["secret"])]
    return str(found)


@pytest.mark.parametrize("options", [{}, {"revisions": True}], ids=["plain", "revisions"])
async def test_a_forged_receipt_shows_nothing_of_another_user(options: dict[str, Any]) -> None:
    async with memoranda.open("memory://", **options) as store:
        await planted(store)
        ada = store.scoped(user_id="ada", session_id="trip")
        changed = {"of": 0, "keep": ["content"], "set": {}, "pieces": [[0, 0, 99]]}
        layout = [{"type": "human", "pieces": ["It is: ", [0, 0, 99]]}, 0, changed]
        for fields in ({}, {"layout": layout}, {"session": "trip"}):
            await forge(ada, **fields)
            for place in (ada, store.scoped(user_id="ada"), store):  # The last is how an administrator looks at it.
                assert SECRET not in await everything(Receipts(place), "forged")
        for item in ("of-bob", "secret"):
            with pytest.raises(InputError, match="no receipt"):
                await Receipts(ada).get(item)
        assert [receipt.id for receipt in await Receipts(ada).list()] == ["forged"]
        assert [receipt.id for receipt in await Receipts(ada).seen("secret")] == ["forged"]
        assert (await Receipts(store).replay("of-bob")).exact


MUTATIONS = st.tuples(
    st.sampled_from(("shown", "layout", "contents", "parameters", "left_out", "left_ids", "at", "digest", "session")),
    st.recursive(
        st.none() | st.integers(-2, 3) | st.sampled_from(("secret", "of", "pieces", "x")),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(("id", "of", "keep", "set", "pieces", "type", "secret")), inner, max_size=4
            )
        ),
        max_leaves=8,
    ),
)


@settings(deadline=None)
@given(mutation=MUTATIONS)
def test_a_receipt_that_is_none_is_refused_with_an_error_of_ours_and_stops_nothing(mutation: tuple[str, Any]) -> None:
    async def run() -> None:
        async with memoranda.open("memory://") as store:
            await planted(store)
            ada = store.scoped(user_id="ada", session_id="trip")
            await ada.window(receipt=Recording(id="honest"))
            await forge(ada, **{mutation[0]: mutation[1]})
            with suppress(MemoryError):
                assert SECRET not in await everything(Receipts(ada), "forged")
            names = [receipt.id for receipt in await Receipts(ada).list()]
            assert names in (["forged", "honest"], ["honest"])
            await ada.purge("mine")
            assert await ada.get("mine") is None

    asyncio.run(run())


async def test_a_receipt_that_cannot_be_read_is_left_out_of_lists(caplog: Any) -> None:
    async with memoranda.open("memory://") as store:
        await forge(store, shown="none")
        assert await Receipts(store).list() == []
        assert "forged" in caplog.text
        with pytest.raises(CorruptStoreError, match="cannot be read"):
            await Receipts(store).get("forged")


@pytest.mark.parametrize("options", [{}, {"revisions": True}], ids=["plain", "revisions"])
@pytest.mark.parametrize("bounds", [{"session_id": "trip"}, {"task_id": "t1"}, {"session_id": "trip", "task_id": "t1"}])
async def test_the_contents_of_some_ids_stay_within_the_session_and_the_task(
    options: dict[str, Any], bounds: dict[str, str]
) -> None:
    async with memoranda.open("memory://", **options) as store:
        await store.scoped(user_id="ada", session_id="pets", task_id="t2").add(
            HumanMemory(id="elsewhere", content="Elsewhere.")
        )
        handle = store.scoped(user_id="ada", **bounds)
        await handle.add(HumanMemory(id="here", content="Here."))
        await handle.window(receipt=Recording(id="honest"))
        await handle.add(HumanMemory(id="later", content="Later."))
        receipts = Receipts(handle)
        found = await receipts.contents("honest", ids=["here", "later", "elsewhere"])
        assert found == {"here": "Here.", "later": "Later."}
        assert await receipts.contents("honest") == {"here": "Here."}


async def test_a_forged_receipt_shows_nothing_of_another_session() -> None:
    """Whoever forges one does not know what the item says, and so not its hash."""
    async with memoranda.open("memory://") as store:
        await store.scoped(user_id="ada", session_id="pets").add(HumanMemory(id="secret", content=SECRET))
        trip = store.scoped(user_id="ada", session_id="trip")
        await forge(trip, shown=[{"id": "secret", "version": 1, "hash": "0" * 32}])
        assert SECRET not in await everything(Receipts(trip), "forged")


async def test_what_was_recalled_from_another_session_is_shown_with_its_receipt() -> None:
    async with memoranda.open("memory://") as store:
        await store.scoped(user_id="ada", session_id="pets").add(HumanMemory(id="pet", content="My canary sings."))
        trip = store.scoped(user_id="ada", session_id="trip")
        await assemble(trip, "Which canary sings?", receipt=Recording(id="shown"))
        assert await Receipts(trip).contents("shown") == {"pet": "My canary sings."}
        assert await Receipts(trip).contents("shown", ids=["pet"]) == {"pet": "My canary sings."}
