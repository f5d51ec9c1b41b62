"""Reads as of a moment, against snapshots that were taken then."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from receipt_stores import Clock, opened

from memoranda import AIMemory, HumanMemory
from memoranda.store import Store, dump_item

ENGINES = {"memory": 4, "sqlite": 1, "vector": 1}
"""How many histories are played by default; with ``--everything`` forty on each."""

SERVERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("postgres", "redis")]

STEPS = (
    *("add", "add", "add", "add_many", "append", "update", "update_many", "approve", "archive", "shown again"),
    *("delete", "restore", "clear", "pop", "touch", "purge", "apply", "replace", "wait", "pop for good"),
)
SHORT, LONG = 500.0, 100_000.0
"""Lifetimes. Redis counts by a clock of its own too, and must not be done before the test is."""

USERS, NAMES, SESSIONS = ("ada", "bob"), ("a", "b", "c"), ("one", "two")


@pytest.fixture(scope="module")
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def step(store: Store, clock: Clock, what: str, chance: random.Random, number: int) -> None:
    """Do one thing to the store."""
    handle = store.scoped(user_id=chance.choice(USERS), session_id=chance.choice(SESSIONS))
    item_id = f"{handle.scope.user_id}-{handle.scope.session_id}-{chance.choice(NAMES)}"
    item, ttl = await handle.get(item_id), chance.choice((None, None, SHORT, LONG))
    new = AIMemory(id=f"{item_id}-{number}", content=f"A new one, {number}", trust="external")
    again = HumanMemory(id=item_id, content=f"Said {number} again", metadata=handle.scope)
    if what == "add":
        await handle.add(HumanMemory(id=item_id, content=f"Said {number}", trust="external"), ttl=ttl)
    elif what == "add_many":
        await handle.add_many([again, new], ttl=ttl)
    elif what == "append":
        await handle.append([new], after=await handle.head())
    elif what == "delete":
        await handle.delete(item_id)
    elif what == "restore":
        await handle.restore(chance.choice((item_id, None)))
    elif what == "clear":
        await handle.clear(where=chance.choice((None, {"id": item_id})))
    elif what.startswith("pop"):
        await handle.pop(purge=what != "pop")
    elif what == "touch":
        await handle.touch([item_id], ttl=chance.choice((None, SHORT, LONG)))
    elif what == "purge":
        await handle.purge(item_id)
    elif what == "apply":
        await handle.apply(adds=[new], deletes=[item_id], purge=chance.random() < 0.3)
    elif what == "replace":
        await handle.apply(adds=[again], deletes=[f"{item_id}x"], keep_created=True)
    elif what == "wait":
        clock.time += SHORT + 1
    elif item is not None:
        changes: dict[str, Any] = {
            "update": {"content": f"Changed {number}"},
            "update_many": {"content": f"Changed {number}"},
            "archive": {"archived_by": "summary"},
            "shown again": {"archived_by": None},
        }
        if what == "approve":
            await handle.approve(item_id, trust="user", by="Grace")
        elif what == "update_many":
            await handle.update_many([item.model_copy(update=changes[what]), new])
        else:
            await handle.update(item.model_copy(update=changes[what]))


async def seen(handle: Any, **when: Any) -> dict[str, Any]:
    """Return everything that the four reads show."""
    where = {"id": {"$in": [f"{handle.scope.user_id}-one-{name}" for name in NAMES]}}
    ranked = await handle.search(query="new", mode="text", limit=100, archived=None, **when)
    return {
        "scan": [dump_item(item) async for item in handle.scan(order="added", **when)],
        "scan by time": [dump_item(item) async for item in handle.scan(memory_type="human", **when)],
        "window": [dump_item(item) for item in await handle.window(**when)],
        "search": [dump_item(item) for item in await handle.search(query="a", mode="substring", limit=100, **when)],
        "search archived": [dump_item(item) for item in await handle.search(archived=True, limit=100, **when)],
        "words": sorted(item.id for item in ranked),
        "count": await handle.count(**when),
        "count of some": await handle.count(where=where, **when),
    }


def without(shown: dict[str, Any], gone: set[str], user: str) -> dict[str, Any]:
    """Return what reads show without items that are gone for good."""
    kept = {
        name: [each for each in held if (each if isinstance(each, str) else each["id"]) not in gone]
        for name, held in shown.items()
        if isinstance(held, list)
    }
    some = [each for each in kept["scan"] if each["id"] in {f"{user}-one-{name}" for name in NAMES}]
    return {**kept, "count": len(kept["scan"]), "count of some": len(some)}


async def play(store: Any, chance: random.Random) -> None:
    """Do random things, and read what was there after each of them."""
    store.clock = clock = Clock()
    handles = [store.scoped(user_id=user) for user in USERS]
    handles += [store.scoped(user_id=user, session_id=session) for user in USERS for session in SESSIONS]
    snapshots: list[tuple[str, list[dict[str, Any]]]] = []
    there: set[str] = set()
    lost: dict[str, int] = {}
    for number in range(chance.randint(4, 24)):
        await step(store, clock, chance.choice(STEPS), chance, number)
        now = {item.id async for item in store.scan(include_deleted=True)}
        lost |= dict.fromkeys(there - now, number)  # Nothing is left of what was purged or has expired.
        there = now
        at = clock.tick()
        now = {item.id async for item in store.scan(include_deleted=True)}
        lost |= dict.fromkeys(there - now, number + 1)
        there = now
        snapshots.append((at, [await seen(handle) for handle in handles]))
    for number, (at, snapshot) in enumerate(snapshots):
        gone = {name for name, until in lost.items() if number < until}
        for handle, shown in zip(handles, snapshot, strict=True):
            found, expected = await seen(handle, as_of=at), without(shown, gone, handle.scope.user_id)
            if gone:  # What is near to a word depends on what else is there.
                del found["words"], expected["words"]
            assert found == expected, (number, handle)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", [*ENGINES, *SERVERS])
async def test_reads_as_of_a_moment_show_what_was_there(
    engine: str, servers: ExitStack, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    much = 40 if request.config.getoption("everything", False) else ENGINES[engine]
    for seed in range(much):
        folder = tmp_path / str(seed)
        folder.mkdir()
        async with opened(engine, servers, folder, revisions=True) as store:
            await play(store, random.Random(f"{engine} {seed}"))
