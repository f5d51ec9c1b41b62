"""Histories about sizes: one call of each kind beyond the sizes at which engines split pages and batches."""

from __future__ import annotations

import itertools

from memoranda.items import MemoryMetadata
from memoranda_testing.model.steps import Calls, Many, ManyIds, Program, writing

EDGES = (100, 400, 500)
"""Sizes at which engines split; the sessions of a history have exactly as many items, so that a last page is full."""

QUICK, LARGE, HUGE = 1_025, 5_003, 10_003
"""One beyond 1,024 and its parts; beyond 5,000; beyond 10,000."""

_BATCH = 1_001
"""One beyond 1,000 and its parts."""

_IDS = 65_537
"""One beyond 65,536; most of the ids are absent."""

_ALL = 10**6

_HERE = MemoryMetadata(namespace=("all",))


def _of(user: str, session: str | None = None) -> MemoryMetadata:
    return MemoryMetadata(user_id=user, session_id=session, namespace=_HERE.namespace)


def size_steps(store: Calls, total: int) -> Program:
    """Yield calls of every kind on this many items: written together, read by pages and whole, changed, removed."""
    user = MemoryMetadata(user_id="u")
    sizes = dict(zip("abcd", [*EDGES, total - sum(EDGES)], strict=True))
    for letter, size in sizes.items():
        yield store.add_many(Many(letter, size, _of("u", letter), content="tea {} of " + letter))
    for letter, size in sizes.items():
        yield from _pages(store, MemoryMetadata(session_id=letter), size)
    yield from _pages(store, user, total)
    yield from (store.search(metadata=user, limit=_ALL, query=each, mode="substring") for each in ("TEA", "e", "1 "))
    yield from (store.scan(metadata=user, order="updated"), store.payloads(metadata=user, limit=_ALL))
    yield store.search_ranked(metadata=user, limit=_ALL, query="tea", mode="text")
    yield from (store.window(metadata=user), store.window(metadata=user, limit=600))
    yield from _long_texts(store)
    yield from (store.apply(deletes=ManyIds("b", 9, start=7), purge=purge) for purge in (True, False))
    yield from _owners(store, total)  # The first of them fill the places that have become free.
    yield from _changes(store, total)


def large_steps(store: Calls, total: int) -> Program:
    """Yield the fewest calls that cross a large size: one batch, and what reads, changes and removes it as a whole."""
    metadata, session = _of("u", "s"), MemoryMetadata(session_id="s")
    ids = ManyIds("x", total, start=7)
    rare = metadata.model_copy(update={"extra": {"rare": True}})
    yield from (store.add_many(Many("r", 3, rare, "milk {}")), store.add_many(Many("x", total, metadata, start=7)))
    for read in (store.search, store.count, store.scan):
        yield read(metadata=session, where={"extra.rare": True})
    yield store.search(metadata=session, query="ilk 1", mode="substring")
    yield from (store.apply(deletes=ManyIds("r", 3)), store.count(metadata=session))
    yield from (store.count(metadata=session, where={"memory_type": "item"}), store.get_many(ids))
    yield from (store.scan(metadata=session), store.search(metadata=session, limit=4, offset=total - 3))
    for change in (store.apply(deletes=ids), store.restore(metadata=session), store.clear(metadata=session)):
        yield from (change, store.count(metadata=session))
    yield from (store.purge(metadata=session), store.everything(metadata=session))


def _pages(store: Calls, asked: MemoryMetadata, size: int) -> Program:
    yield from (store.scan(metadata=asked), store.count(metadata=asked), store.search(metadata=asked, limit=size - 1))
    yield store.search(metadata=asked, limit=_ALL, order="added")
    for order in ("created", "added"):
        yield store.search(metadata=asked, limit=4, offset=size - 2, order=order)


def _windows(store: Calls, asked: MemoryMetadata) -> Program:
    """Yield windows of a conversation that many items came to at once, not in the order of their times."""
    yield from (store.window(metadata=asked, limit=20), store.window(metadata=asked, rounds=2))
    yield store.head(metadata=asked)


def _long_texts(store: Calls) -> Program:
    """Yield every method that writes, with a text beyond what an engine holds in one page or one field."""
    for version, method in enumerate(("add", "add_many", "update", "update_many", "apply", "append")):
        text, new = f"{method} {{}} " + "tea and milk " * 6_000, method == "append"
        items = Many("n" if new else "l", 1, _of("u", "l"), text, version=0 if new else version).items()
        yield writing(method, items, **({"after": "l00000"} if new else {}))
        yield store.get(items[0].id)
    yield store.search(metadata=_of("u", "l"))


def _owners(store: Calls, total: int) -> Program:
    """Yield calls with many owners and many ids."""
    within, ids = MemoryMetadata(user_id="o"), ManyIds("o", total)
    yield store.add_many(Many("o", total, _of("o"), own_session=True, varied=True))
    yield from (store.owners("session_id", within=within, offset=offset) for offset in (0, total - 2))
    for some in (ids, ManyIds("o", _BATCH)):
        yield from (store.get_many(some), store.search(metadata=within, limit=_ALL, where={"id": {"$in": some}}))
    yield from (store.get_many(ManyIds("o", _IDS)), store.apply(deletes=ManyIds("absent", _IDS)))
    yield store.count(metadata=within, where={"extra.n": {"$in": [*range(5, _BATCH + 4), 3]}})
    below = MemoryMetadata(user_id="p", namespace=(*_HERE.namespace, "places"))
    yield store.add_many(Many("p", _BATCH, below, own_place=True))
    for depth, counts in itertools.product((len(below.namespace) + 1, None), (True, False)):
        yield store.owners("namespace", within=below, depth=depth, counts=counts)


def _changes(store: Calls, total: int) -> Program:
    """Yield calls that change many items at once, each followed by a read of all of them."""
    theirs, session, owner = MemoryMetadata(user_id="o"), MemoryMetadata(session_id="e"), _of("u", "e")
    milk = Many("o", total, _of("o"), own_session=True, version=1, content="milk {}", varied=True)
    yield from (store.update_many(milk), store.scan(metadata=theirs, order="added"))
    for read in (store.search, store.count, store.scan):  # Few of nearly everything.
        yield read(metadata=_HERE, where={"extra.n": 3})
    yield from (*_windows(store, theirs), store.payloads(metadata=theirs))
    yield store.search_ranked(metadata=theirs, query="milk 7", mode="text", where={"extra.n": 3})
    for archived in (True, False):
        yield store.search(metadata=theirs, memory_type="note", limit=_ALL, archived=archived)
    yield store.apply(adds=Many("e", _BATCH, owner, varied=True), deletes=ManyIds("o", total))
    yield from (store.scan(metadata=theirs, order="added"), store.everything(metadata=session))
    yield from _windows(store, session)
    some = 501  # Of the deleted items, some are replaced together, and others stay.
    for write in (
        store.update_many(Many("e", _BATCH, owner, "milk {}", version=1, varied=True)),
        store.touch(ManyIds("e", _BATCH), ttl=1e9),
        store.add_many(Many("f", _BATCH, owner), deleted=ManyIds("f", _BATCH)),
        store.add_many(Many("f", some, owner, content="milk {}", varied=True)),
    ):
        yield from (write, store.everything(metadata=session))
    yield store.append(Many("t", _BATCH, _of("u", "t")), after=None)
    yield store.count(metadata=MemoryMetadata(session_id="t"))
    for change in (store.clear(metadata=session), store.restore(metadata=session)):
        yield from (change, store.count(metadata=session), *_windows(store, session))
    yield from (store.purge(metadata=owner), store.everything(metadata=session))
    yield store.pop(metadata=MemoryMetadata(user_id="u"))
