"""What has expired is in no receipt and in no replay, as if it had been purged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from receipt_stores import Clock, opened

from memoranda import HumanMemory
from memoranda.store import Capability, Store
from memoranda_context import assemble
from memoranda_receipts import Receipts, Recording

CANARY = "zyzzogeton"
SERVERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("postgres", "redis")]


@pytest.fixture(scope="module")
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def held(store: Store) -> str:
    """Return everything that a store has, deleted items too."""
    hides = Capability.DELETE in store.capabilities
    return "".join([item.model_dump_json() async for item in store.scan(include_deleted=hides)])


@pytest.mark.parametrize("options", [{}, {"revisions": True}], ids=["plain", "revisions"])
@pytest.mark.parametrize("engine", ["memory", "sqlite", "vector", *SERVERS])
async def test_the_content_of_an_item_with_a_lifetime_ends_with_it(
    engine: str, options: dict[str, Any], servers: ExitStack, tmp_path: Path
) -> None:
    async with opened(engine, servers, tmp_path, **options) as store:
        clock = Clock()
        store.clock = clock
        handle = store.scoped(user_id="ada", session_id="trip")
        await handle.add(HumanMemory(id="lasting", content="Hello."))
        await handle.add(HumanMemory(id="brief", content=f"My {CANARY} sings."), ttl=60)
        await handle.window(receipt=Recording(payload=True, id="window"))
        await assemble(handle, "Who sings?", receipt=Recording(payload=True, id="context"))
        assert (await Receipts(handle).replay("window")).exact
        clock.time += 61
        await store.sweep()
        for name in ("window", "context"):
            replay = await Receipts(handle).replay(name)
            assert replay.missing == ("brief",)
            assert [change.change for change in replay.changes] == ["expired"]
            assert CANARY not in replay.bytes().decode()
        assert list((await Receipts(handle).get("window")).contents or ()) == ["lasting"]
        assert CANARY not in await held(store)


async def test_a_lifetime_that_was_given_later_ends_what_a_receipt_kept() -> None:
    async with opened("memory", ExitStack(), Path()) as store:
        clock = Clock()
        store.clock = clock
        handle = store.scoped(user_id="ada", session_id="trip")
        await handle.add(HumanMemory(id="brief", content=f"My {CANARY} sings."))
        await handle.window(receipt=Recording(payload=True, id="window"))
        await handle.touch(["brief"], ttl=60)
        clock.time += 61
        replay = await Receipts(handle).replay("window")
        assert replay.missing == ("brief",)
        assert CANARY not in replay.bytes().decode()
        assert (await Receipts(handle).get("window")).contents is None
        assert CANARY not in await held(store)


async def test_what_left_the_bounds_of_a_handle_stays_in_its_receipts() -> None:
    async with opened("memory", ExitStack(), Path()) as store:
        handle = store.scoped(user_id="ada", agent_id="first")
        await handle.add(HumanMemory(id="moved", content="Hello."))
        await handle.window(receipt=Recording(payload=True, id="window"))
        (item,) = await store.get_many(["moved"])
        await store.update(
            item.model_copy(update={"metadata": item.metadata.model_copy(update={"agent_id": "second"})})
        )
        assert (await Receipts(handle).replay("window")).missing == ("moved",)
        assert list((await Receipts(handle).get("window")).contents or ()) == ["moved"]
