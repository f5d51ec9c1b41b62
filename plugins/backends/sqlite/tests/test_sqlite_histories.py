"""Whatever is done to it, in whatever order, a file holds what the store in memory holds."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.errors import ConflictError
from memoranda.store import InMemoryStore, Order, Store
from memoranda_sqlite import SQLiteMemoryStore

Action = Callable[[Store], Awaitable[Any]]
USERS, SESSIONS = (None, "ada", "bob"), (None, "s", "t")
NAMESPACES: list[tuple[str, ...]] = [(), ("a",), ("ab",), ("a", "b"), ("a/b",), ("~",)]
START = 1_714_557_600.0
BOUNDS = (None, MemoryMetadata(session_id="s"), MemoryMetadata(user_id="ada"), MemoryMetadata(namespace=("a",)))
ORDERS: tuple[Order, ...] = ("created", "added", "updated")


def metadata(chance: random.Random) -> MemoryMetadata:
    extra = {"score": chance.choice([1, 1.5, "1", True, None])} if chance.random() < 0.3 else {}
    return MemoryMetadata(
        user_id=chance.choice(USERS),
        session_id=chance.choice(SESSIONS),
        task_id=chance.choice([None, None, "t"]),
        namespace=chance.choice(NAMESPACES),
        extra=extra,
    )


def scope(chance: random.Random) -> MemoryMetadata | None:
    found = [
        None,
        MemoryMetadata(user_id="ada"),
        MemoryMetadata(session_id="s"),
        MemoryMetadata(user_id="ada", session_id="s"),
        MemoryMetadata(namespace=("a",)),
        MemoryMetadata(user_id="bob", namespace=("a",)),
        MemoryMetadata(task_id="t"),
    ]
    return chance.choice(found)


def item(chance: random.Random) -> MemoryItem:
    kind = chance.choice([HumanMemory, AIMemory])
    made: MemoryItem = kind(
        id=f"id-{chance.randrange(25)}",
        content=chance.choice(["Tea", "STRASSE", "straße", "coffee"]) + str(chance.randrange(5)),
        metadata=metadata(chance),
        created_at=f"2024-05-0{chance.randint(1, 9)}T10:00:00+00:00",
        archived_by=chance.choice([None, None, None, "sum"]),
        ttl=chance.choice([None, None, None, 5, 50]),
    )
    return made


def an_action(chance: random.Random) -> Action:
    """Return something to do, with all its arguments chosen, so that it is the same for both stores."""
    items = [item(chance) for _ in range(chance.randint(1, 4))]
    ids = [f"id-{number}" for number in chance.sample(range(25), 3)]
    within, keep, purge = chance.choice([None, None, scope(chance)]), chance.random() < 0.3, chance.random() < 0.4
    bound = scope(chance) or MemoryMetadata(user_id="ada")
    conversation = [
        HumanMemory(id=f"turn-{chance.random()}", content="t", metadata=MemoryMetadata(user_id="ada", session_id="s"))
    ]
    after = chance.choice([None, *ids])
    deletes = [item_id for item_id in ids if item_id not in {each.id for each in items}]
    actions: list[Action] = [
        lambda store: store.add(items[0], within=within, keep_created=keep),
        lambda store: store.add_many(items, within=within, keep_created=keep),
        lambda store: store.add_many(items, deleted={items[0].id}),
        lambda store: store.apply(adds=items, deletes=deletes, within=within, purge=purge),
        lambda store: store.pop(metadata=bound, purge=purge),
        lambda store: store.clear(metadata=bound),
        lambda store: store.restore(metadata=bound),
        lambda store: store.delete(ids[0], metadata=within),
        lambda store: store.purge(ids[0]),
        lambda store: store.purge(deleted_only=True),
        lambda store: store.touch(ids, ttl=chance_ttl, metadata=within),
        lambda store: store.append(conversation, after=after),
        lambda store: store.get_many(ids, refresh=True),
    ]
    chance_ttl = chance.choice([None, 3.0, 100.0, float("inf")])
    return chance.choices(actions, weights=[6, 6, 3, 5, 3, 1, 1, 2, 1, 1, 3, 2, 1])[0]


async def outcome(store: Store, action: Action) -> Any:
    try:
        result = await action(store)
    except ConflictError as error:
        return type(error).__name__
    if isinstance(result, MemoryItem):
        return result.model_dump()
    return [each.model_dump() for each in result] if isinstance(result, list) else result


async def state(store: Store) -> dict[str, Any]:
    """Return everything that can be asked."""
    seen: dict[str, Any] = {}
    for order in ORDERS:
        seen[order] = [each.model_dump() async for each in store.scan(order=order)]
        seen[f"bin {order}"] = [each.id async for each in store.scan(include_deleted=True, order=order)]
        for bound in BOUNDS:
            query = "s" if bound is None else ""
            found = await store.search(metadata=bound, order=order, limit=4, offset=2, query=query)
            seen[f"{order} {bound}"] = [each.id for each in found]
    for by in ("user_id", "session_id", "namespace"):
        seen[by] = [owner async for owner in store.owners(by)]  # type: ignore[arg-type]  # one of the three
    seen["depth"] = [owner async for owner in store.owners("namespace", depth=1, within=MemoryMetadata(user_id="ada"))]
    seen["head"] = await store.head(metadata=MemoryMetadata(user_id="ada", session_id="s"))
    seen["since"] = await store.count(since="2024-05-03", until="2024-05-06", where={"score": {"$gte": 1}})
    return seen


@pytest.mark.parametrize("seed", range(8))
async def test_a_file_holds_what_the_store_in_memory_holds(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    now = START
    reference, path = InMemoryStore(), tmp_path / "a.db"
    store = SQLiteMemoryStore(path)
    reference.clock = store.clock = lambda: now
    await store.init()
    for step in range(60):
        now += chance.choice([0, 0, 1, 4, 20, -30])
        # What has expired goes in the background, and who comes first is a matter of chance.
        await store.sweep()
        await reference.sweep()
        action = an_action(chance)
        assert await outcome(store, action) == await outcome(reference, action), step
        if step % 6 == 0:
            assert await state(store) == await state(reference), step
        if step % 20 == 19:
            await store.close()
            await store.init()
    assert await state(store) == await state(reference)
    assert all(finding.ok for finding in await store.doctor())
    await store.close()
