"""Random calls, made to a store and to the reference: both must answer the same, whatever came before.

:func:`compare` is for a backend's own tests; the seed that it is given, and the number of the call, name a failure.
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

from memoranda.errors import MemoryError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory
from memoranda.store import BaseStore, InMemoryStore
from memoranda_testing.case import moment
from memoranda_testing.expect import equal

USERS = ("ada", "bob", None)
SESSIONS = ("s", "t", None)
PLACES = ((), ("a",), ("a", "b"), ("ab",), ("a", "b", "c"))
IDS = tuple(f"id{number}" for number in range(12))
START = 1_700_000_000.0


class _Clock:
    """A clock that both stores share, and that is moved forth and back."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


async def compare(store: BaseStore, seed: int, calls: int = 150) -> None:
    """Make random calls to an empty store and to an InMemoryStore. Raises ExpectationError where the two differ."""
    reference = InMemoryStore()
    chance = random.Random(seed)
    clock = _Clock()
    store.clock = reference.clock = clock
    await store.sweep(), await reference.sweep()
    for number in range(calls):
        name, call = _CALLS[chance.randrange(len(_CALLS))](chance, clock)
        wanted, found = await _outcome(call(reference)), await _outcome(call(store))
        equal(found, wanted, f"call {number} of seed {seed}, {name}")
    async with reference:
        everything = [item.model_dump() async for item in reference.scan(include_deleted=True, order="added")]
    found = [item.model_dump() async for item in store.scan(include_deleted=True, order="added")]
    equal(found, everything, f"everything after seed {seed}")


async def _outcome(call: Awaitable[Any]) -> Any:
    """Return what a call returns in a form that can be compared, or which error it raises."""
    try:
        return _plain(await call)
    except MemoryError as error:
        return type(error).__name__


def _plain(value: Any) -> Any:
    if isinstance(value, MemoryItem):
        return value.model_dump()
    return [_plain(each) for each in value] if isinstance(value, list) else value


Call = Callable[[BaseStore], Awaitable[Any]]
Maker = Callable[[random.Random, _Clock], tuple[str, Call]]


def _metadata(chance: random.Random, *, root: float = 0.6) -> MemoryMetadata:
    place = () if chance.random() < root else chance.choice(PLACES)
    return MemoryMetadata(user_id=chance.choice(USERS), session_id=chance.choice(SESSIONS), namespace=place)


def _scope(chance: random.Random) -> MemoryMetadata | None:
    scope = _metadata(chance)
    if chance.random() < 0.2:
        scope = MemoryMetadata(user_id=scope.user_id, extra={"kind": chance.choice(["x", 1])})
    return None if scope == MemoryMetadata() else scope


def _item(chance: random.Random, *, new: bool = False, metadata: MemoryMetadata | None = None) -> MemoryItem:
    made, changed = sorted([chance.randrange(10), chance.randrange(10)])
    metadata = metadata or _metadata(chance)
    extra = {} if chance.random() < 0.5 else {"kind": chance.choice(["x", "y", 1, None]), "score": chance.randrange(4)}
    named: dict[str, Any] = {
        "id": f"new{chance.randrange(10**9)}" if new else chance.choice(IDS),
        "content": chance.choice(["Tea", "coffee", "TEA and cake", "ſtraße", ""]),
        "metadata": MemoryMetadata(**{**metadata.model_dump(), "extra": extra}),
        "created_at": moment(made),
        "updated_at": moment(changed),
    }
    if chance.random() < 0.25:
        named["ttl"] = chance.choice([500, 2000])
    if chance.random() < 0.1:
        named["archived_by"] = "summary"
    kinds: list[type[MemoryItem]] = [HumanMemory, AIMemory, SummaryMemory, MemoryItem]
    return chance.choice(kinds)(**named)


def _items(chance: random.Random) -> list[MemoryItem]:
    return [_item(chance) for _ in range(chance.randrange(1, 4))]


def _where(chance: random.Random) -> dict[str, Any] | None:
    return chance.choice(
        [
            None,
            None,
            {"score": {"$gte": 2}},
            {"kind": "x"},
            {"kind": {"$exists": False}},
            {"session_id": None},
            {"memory_type": {"$ne": "human"}},
            {"id": {"$in": list(IDS[:4])}},
            {"namespace": ["a", "b"]},
            {"user_id": {"$in": ["ada", None, 3]}},
        ]
    )


def _filters(chance: random.Random) -> dict[str, Any]:
    named: dict[str, Any] = {"metadata": _scope(chance), "where": _where(chance)}
    if chance.random() < 0.3:
        named["since"] = moment(chance.randrange(6))
    if chance.random() < 0.3:
        named["until"] = moment(chance.randrange(4, 10))
    return named


def _add(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    item, keep, within = _item(chance), chance.random() < 0.3, _scope(chance) if chance.random() < 0.2 else None
    return "add", lambda store: store.add(item, keep_created=keep, within=within)


def _add_many(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    items, keep = _items(chance), chance.random() < 0.3
    hidden = [item.id for item in items if item.ttl is None and chance.random() < 0.2]
    return "add_many", lambda store: store.add_many(items, keep_created=keep, deleted=hidden)


def _append(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    metadata = _metadata(chance, root=1.0)
    items = [_item(chance, new=chance.random() < 0.9, metadata=metadata) for _ in range(2)]
    guess: Any = chance.choice([None, *IDS]) if chance.random() < 0.3 else ...

    async def append(store: BaseStore) -> str:
        after = guess
        if after is ...:
            after = await store.head(metadata=None if metadata == MemoryMetadata() else metadata)
        return await store.append(items, after=after)

    return "append", append


def _apply(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    items, purge, keep = _items(chance), chance.random() < 0.4, chance.random() < 0.3
    deletes = [item_id for item_id in chance.sample(IDS, 3) if item_id not in {item.id for item in items}]
    within = _scope(chance) if chance.random() < 0.3 else None
    return (
        "apply",
        lambda store: store.apply(adds=items, deletes=deletes, purge=purge, keep_created=keep, within=within),
    )


def _update(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    item, right = _item(chance), chance.random() < 0.7

    async def update(store: BaseStore) -> MemoryItem:
        held = await store.get(item.id)
        version = held.version if held is not None and right else 0
        return await store.update(item.model_copy(update={"version": version}))

    return "update", update


def _touch(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    ids, ttl, scope = chance.sample(IDS, 3), chance.choice([None, 800, math.inf]), _scope(chance)
    return "touch", lambda store: store.touch(ids, ttl=ttl, metadata=scope)


def _pop(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    scope, where, purge = _scope(chance), _where(chance), chance.random() < 0.5
    return "pop", lambda store: store.pop(metadata=scope, where=where, purge=purge)


def _delete(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    item_id, scope = chance.choice(IDS), _scope(chance)
    return "delete", lambda store: store.delete(item_id, metadata=scope)


def _restore(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    item_id, scope = chance.choice([None, *IDS[:3]]), _scope(chance)
    return "restore", lambda store: store.restore(item_id, metadata=scope)


def _clear(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    filters = _filters(chance)
    return "clear", lambda store: store.clear(**filters)


def _purge(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    filters, deleted_only = _filters(chance), chance.random() < 0.5
    item_id = chance.choice([None, chance.choice(IDS)])
    return "purge", lambda store: store.purge(item_id, deleted_only=deleted_only, **filters)


def _wait(chance: random.Random, clock: _Clock) -> tuple[str, Call]:
    clock.now += chance.choice([100, 400, 1000, -600])

    async def count(store: BaseStore) -> int:
        # The latest time that a store has seen counts; here both have seen it. How many it sweeps is its own affair.
        await store.sweep()
        return await store.count(include_deleted=True)

    return "count after a while", count


def _search(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    named = {
        **_filters(chance),
        "query": chance.choice(["", "", "tea", "STRASSE"]),
        "limit": chance.choice([1, 3, 100]),
        "offset": chance.choice([0, 0, 1, 4]),
        "order": chance.choice(["created", "added", "updated"]),
        "memory_type": chance.choice([None, None, "human"]),
        "refresh": chance.random() < 0.2,
    }
    return f"search {named}", lambda store: store.search(**named, mode="substring")


def _scan(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    named = {
        **_filters(chance),
        "archived": chance.choice([None, True, False]),
        "include_deleted": chance.random() < 0.5,
        "order": chance.choice(["created", "added", "updated"]),
    }

    async def scan(store: BaseStore) -> list[MemoryItem]:
        return [item async for item in store.scan(**named)]

    return f"scan {named}", scan


def _count(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    filters, deleted = _filters(chance), chance.random() < 0.5
    return f"count {filters}", lambda store: store.count(include_deleted=deleted, **filters)


def _owners(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    by: Any = chance.choice(["user_id", "session_id", "namespace"])
    scope, depth = _scope(chance), chance.choice([None, 1, 2]) if by == "namespace" else None

    async def owners(store: BaseStore) -> list[Any]:
        return [owner async for owner in store.owners(by, within=scope, depth=depth)]

    return f"owners by {by} within {scope!r}", owners


def _window(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    scope = _scope(chance)
    return "window", lambda store: store.window(metadata=scope, limit=3)


def _get_many(chance: random.Random, _: _Clock) -> tuple[str, Call]:
    ids, scope, refresh = chance.sample(IDS, 5), _scope(chance), chance.random() < 0.3
    return "get_many", lambda store: store.get_many(ids, metadata=scope, refresh=refresh)


_CALLS: tuple[Maker, ...] = (
    *(_add, _add, _add, _add_many, _add_many, _append, _append, _apply, _update, _touch, _pop, _delete, _restore),
    *(_clear, _purge, _wait, _search, _search, _search, _scan, _count, _owners, _window, _get_many),
)

__all__ = ["compare"]
