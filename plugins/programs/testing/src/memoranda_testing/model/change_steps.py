"""Histories about changes: whatever is written, by whichever method, reaches every method that reads.

Everything is read before and after each change, so that what a cache, an index or another table holds is out of date.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda_testing.model.steps import Call, Calls, Program, item, writing

_PLACE = ("p", "q", "r", "s", "t", "v")
_BESIDE = (*_PLACE[:-1], "w")
_ITEMS = 24
_FEW, _SEVERAL = (0, 2, 3), tuple(range(3, 22))
"""Batches, also beyond the size from which a store may plan them or give them to a thread."""

_LATE, _USUAL = "9999-12-31T23:59:59.99999{}+00:00", "2024-03-01T00:00:0{}.000000+00:00"

_CHANGES: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = (
    ({"content": "milk {}"}, {"content": "tea {}"}),
    ({"payload": None, "payload_format": None}, {"payload": '["tea {}"]', "payload_format": "test"}),
    ({"session_id": "z", "task_id": "z"}, {"session_id": "s", "task_id": "t"}),
    ({"namespace": _BESIDE}, {"namespace": _PLACE}),
    ({"extra": {"k": 2}}, {"extra": {"k": 1}}),
    ({"archived_by": "summary"}, {"archived_by": None}),
    (
        {"memory_type": "diary", "name": "Ada", "status": MemoryStatus.DRAFT, "trust": "user"},
        {"memory_type": "note", "name": None, "status": MemoryStatus.ACCEPTED, "trust": None},
    ),
    ({"created_at": _LATE, "updated_at": _LATE}, {"created_at": _USUAL, "updated_at": _USUAL}),
)
"""What is changed in an item, and how it is brought back; a brace stands for the item's number."""

_USER, _SESSION, _THERE = (
    MemoryMetadata(user_id="u"),
    MemoryMetadata(session_id="s"),
    MemoryMetadata(namespace=_PLACE),
)


def _changed(held: MemoryItem, values: Mapping[str, Any]) -> MemoryItem:
    number = str(int(held.id[1:]) % 10)
    put = {name: value.replace("{}", number) if isinstance(value, str) else value for name, value in values.items()}
    owner = {name: put.pop(name) for name in MemoryMetadata.model_fields if name in put}
    return held.model_copy(update={**put, "metadata": held.metadata.model_copy(update=owner)})


class Changes:
    """Draws up changes of a few items, by every method, and the reads around them."""

    def __init__(self, store: Calls) -> None:
        self._store = store
        self._ids = [f"i{number}" for number in range(_ITEMS)]
        self._items = [item("", metadata=MemoryMetadata(user_id="u", agent_id="g"), id=each) for each in self._ids]
        for _, back in _CHANGES:
            self._change(range(_ITEMS), back)

    def _change(self, numbers: Sequence[int], values: Mapping[str, Any]) -> None:
        for number in numbers:
            self._items[number] = _changed(self._items[number], values)

    def steps(self, share: int = 1) -> Program:
        """Yield every change by every method, or by one of so many, each between reads of everything."""
        yield from (self._write("add_many", range(_ITEMS)), *self._reads())
        batches = [(method, batch) for batch in (_FEW, _SEVERAL) for method in ("add_many", "update_many", "apply")]
        writes = [("add", (1,)), ("update", (1,)), *batches]
        for turn, (there, back) in enumerate(_CHANGES):
            for position, (method, numbers) in enumerate(writes[turn % share :: share]):
                self._change(numbers, back if (turn + position) % 2 else there)
                yield from (self._write(method, numbers), *self._reads())
            self._change(range(_ITEMS), back)
        for removal in self._removals():
            yield from (removal, *self._reads())

    def _write(self, method: str, numbers: Sequence[int]) -> Call:
        given = [self._items[number] for number in numbers]
        for number, held in zip(numbers, given, strict=True):
            self._items[number] = held.model_copy(update={"version": held.version + 1})
        return writing(method, given)

    def _removals(self) -> Iterator[Call]:
        """Yield removals, and what brings items back; a store refuses those that it cannot do."""
        store, ids, items = self._store, self._ids, self._items
        yield from (store.pop(metadata=_USER), store.clear(metadata=_USER, where={"id": {"$in": ids[2:4]}}))
        yield from (store.apply(deletes=ids[1:2]), store.apply(deletes=ids[4:21]))
        yield from (store.restore(ids[2]), store.delete(ids[0]), store.add_many([items[1], items[3]]))
        yield from (store.restore(metadata=_USER), store.delete(ids[4]), store.add(items[4]))
        yield from (store.clear(metadata=_USER), store.add_many(items[3:22]), store.restore(metadata=_USER))
        yield from (store.purge(ids[0]), store.pop(metadata=_USER, purge=True))
        yield from (store.clear(metadata=_USER, where={"id": ids[3]}), store.purge(metadata=_USER, deleted_only=True))
        yield store.clear(metadata=_USER, where={"id": {"$in": [ids[4], ids[6]]}})
        yield store.apply(deletes=[ids[2], ids[4], "nobody", ids[5]], purge=True)
        yield from (store.clear(metadata=_USER), store.apply(deletes=ids[4:21], purge=True))
        yield store.add_many([items[0], items[5], items[2]])

    def _reads(self) -> Iterator[Call]:
        """Yield reads of everything by every method, plain or through the handle of the user."""
        store, handle = self._store, self._store.scoped(user_id="u")
        yield from (store.get_many(self._ids), handle.get("i1"), handle.get("i3"))
        yield from (store.search(metadata=_USER, limit=50, order=order) for order in ("created", "updated"))
        yield handle.search(metadata=_SESSION, query="MILK", mode="substring", limit=50)
        yield store.search(metadata=_USER, where={"extra.k": 1}, limit=50)
        for asked in ({"memory_type": "diary"}, {"status": "draft"}, {"where": {"name": "Ada"}}):
            yield handle.search(limit=50, **asked)
        yield store.search_ranked(metadata=_USER, query="milk tea", mode="text", limit=50)
        yield from (handle.payloads(metadata=_SESSION), store.everything(metadata=_USER))
        yield store.scan(metadata=_THERE, archived=True)
        yield from (store.count(metadata=_SESSION), store.count(metadata=_THERE), handle.count(metadata=_THERE))
        yield from (handle.head(metadata=_SESSION), handle.window(metadata=_SESSION))
        yield from (store.owners(by, within=_USER) for by in ("session_id", "namespace"))


def straddling_steps(store: Calls, *, atomic: bool) -> Program:
    """Yield batches through a handle, or within metadata, of which some items lie outside; nothing there changes."""
    for field in (*SCOPE_FIELDS[1:], "namespace", "nobody"):
        name = "session_id" if field == "nobody" else field
        named: dict[str, Any] = dict.fromkeys(SCOPE_FIELDS, "in")
        inside = MemoryMetadata(**named, namespace=_PLACE)
        if field == "nobody":
            inside = inside.model_copy(update={"user_id": None})
        outside = inside.model_copy(update={name: _BESIDE if name == "namespace" else "out"})
        owners = [outside if number % 2 else inside for number in range(9)]
        items = [item(f"tea {number}", metadata=owner, id=f"{field}{number}") for number, owner in enumerate(owners)]
        bounds, whole = {name: getattr(inside, name)}, MemoryMetadata(user_id="in")
        if field == "nobody":  # Without a user, and bounded by all the other ids.
            bounds, whole = dict.fromkeys(SCOPE_FIELDS[1:], "in"), MemoryMetadata(task_id="in")
        yield store.add_many(items)
        for call in (*_straddling(store, items, bounds, atomic=atomic), store.clear(metadata=whole)):
            yield from (call, store.everything(metadata=whole))


def _straddling(store: Calls, items: list[MemoryItem], bounds: dict[str, Any], *, atomic: bool) -> Iterator[Call]:
    """Yield batches with items of even numbers, which lie within the bounds, and of odd ones, which do not."""
    handle, within, ids = store.scoped(**bounds), MemoryMetadata(**bounds), [each.id for each in items]
    bare = []
    for each in items:  # What a caller gives through a handle, which stamps it.
        owner = MemoryMetadata(user_id=each.metadata.user_id)
        bare.append(each.model_copy(update={"metadata": owner, "content": "milk", "version": 1}))
    yield from (handle.get_many(ids), store.get_many(ids[::-1], metadata=within), handle.touch(ids[::-1], ttl=1e9))
    for numbers in ((0, 1), (1, 0), (0, 2, 3)) if atomic else ():  # Others may have written a part when they refuse.
        chosen = [bare[number] for number in numbers]
        yield from (handle.update_many(chosen), handle.add_many(chosen), handle.apply(adds=chosen, deletes=ids[4:5]))
        theirs = [items[number].model_copy(update={"version": 1, "content": "lemon"}) for number in numbers]
        yield from (store.update_many(theirs, within=within), store.add_many(theirs, within=within))
    yield from (handle.update(bare[1]), handle.update_many([bare[0], bare[2]]))
    yield handle.apply(adds=[bare[4]], deletes=ids[5:9])
    yield from (handle.add_many([bare[number]], deleted=[ids[number]]) for number in (7, 6))
    yield from (handle.delete(ids[1]), handle.restore(ids[5]), handle.restore())
    yield from (handle.purge(ids[3]), handle.purge(ids[8]), handle.pop(), handle.clear())
