"""Histories about changes: whatever is written, by whichever method, reaches every method that reads.

Everything is read before and after each change, so that what a cache, an index or another table holds is out of date.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Capability, copy_item
from memoranda_testing.model.steps import Call, Step, writing

_PLACE = ("p", "q", "r", "s", "t", "v")
_ITEMS = 24
_FEW, _SEVERAL = (0, 2, 3), tuple(range(3, 22))
"""Batches, also beyond the size from which a store may plan them or give them to a thread."""

_CHANGES: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "text": ({"content": "milk {}"}, {"content": "tea {}"}),
    "payload": ({"payload": None, "payload_format": None}, {"payload": '["tea {}"]', "payload_format": "test"}),
    "owner": ({"session_id": "z", "task_id": "z"}, {"session_id": "s", "task_id": "t"}),
    "namespace": ({"namespace": (*_PLACE[:-1], "w")}, {"namespace": _PLACE}),
    "extra": ({"extra": {"k": 2}}, {"extra": {"k": 1}}),
    "summary": ({"archived_by": "summary"}, {"archived_by": None}),
    "type": (
        {"memory_type": "diary", "name": "Ada", "status": "draft", "trust": "user"},
        {"memory_type": "note", "name": None, "status": "accepted", "trust": None},
    ),
    "times": (
        {"created_at": "9999-12-31T23:59:59.99999{}+00:00", "updated_at": "9999-12-31T23:59:59.99999{}+00:00"},
        {"created_at": "2024-03-01T00:00:0{}.000000+00:00", "updated_at": "2024-03-01T00:00:0{}.000000+00:00"},
    ),
}
"""What is changed in an item, and how it is brought back; a brace stands for the item's number."""


class Changes:
    """Draws up changes of a few items, by every method, and the reads around them."""

    def __init__(self, mark: str, capabilities: frozenset[Capability]) -> None:
        self._mark = mark
        self._root = (mark,) if mark else ()
        self._capabilities = capabilities
        self._items = [self._item(number) for number in range(_ITEMS)]

    def _item(self, number: int) -> MemoryItem:
        owner = MemoryMetadata(user_id=f"{self._mark}u", agent_id=f"{self._mark}g")
        item = MemoryItem(id=f"{self._mark}i{number}", content="", metadata=owner, memory_type="note")
        for _, back in _CHANGES.values():
            self._change(item, number % 10, back)
        return item

    def _change(self, item: MemoryItem, number: int, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            put: Any = value.replace("{}", str(number)) if isinstance(value, str) else value
            if name in ("session_id", "task_id", "archived_by"):
                put = None if put is None else self._mark + put
            elif name == "namespace":
                put = self._root + put
            if name in MemoryMetadata.model_fields:
                item.__dict__["metadata"] = item.metadata.model_copy(update={name: put})
            else:
                item.__dict__[name] = type(item.status)(put) if name == "status" else put

    def steps(self, share: int = 1) -> Iterator[Step]:
        """Yield every change by every method, or by one of so many, each between reads of everything."""
        yield Call("add_many", {"items": self._copies(*range(_ITEMS))})
        self._written(*range(_ITEMS))
        yield from self._reads()
        batches = [(method, batch) for batch in (_FEW, _SEVERAL) for method in ("add_many", "update_many", "apply")]
        for turn, (there, back) in enumerate(_CHANGES.values()):
            writes = [("add", (1,)), ("update", (1,)), *batches]
            for position, (method, numbers) in enumerate(writes[turn % share :: share]):
                for number in numbers:
                    self._change(self._items[number], number % 10, back if (turn + position) % 2 else there)
                yield self._write(method, numbers)
                yield from self._reads()
            for number in range(_ITEMS):
                self._change(self._items[number], number % 10, back)
        yield from self._removals()

    def _write(self, method: str, numbers: tuple[int, ...]) -> Call:
        items = self._copies(*numbers)
        self._written(*numbers)
        return writing(method, items)

    def _copies(self, *numbers: int) -> list[MemoryItem]:
        return [copy_item(self._items[number]) for number in numbers]

    def _written(self, *numbers: int) -> None:
        for number in numbers:
            self._items[number].__dict__["version"] += 1

    def _removals(self) -> Iterator[Step]:
        """Yield removals, and what brings items back, each between reads of everything."""
        ids = [item.id for item in self._items]
        user = MemoryMetadata(user_id=f"{self._mark}u")
        steps = [
            Call("pop", {"metadata": user}),
            Call("clear", {"metadata": user, "where": {"id": {"$in": ids[2:4]}}}),
            Call("apply", {"deletes": ids[1:2]}),
            Call("apply", {"deletes": ids[4:21]}),
        ]
        if Capability.DELETE in self._capabilities:
            steps += [
                Call("restore", {"item_id": ids[2]}),
                Call("delete", {"item_id": ids[0]}),
                Call("add_many", {"items": self._copies(1, 3)}),
                Call("restore", {"metadata": user}),
                Call("delete", {"item_id": ids[4]}),
                Call("add", {"item": self._copies(4)[0]}),
                Call("clear", {"metadata": user}),
                Call("add_many", {"items": self._copies(*_SEVERAL)}),
                Call("restore", {"metadata": user}),
            ]
        if Capability.PURGE in self._capabilities:
            steps += [
                Call("purge", {"item_id": ids[0]}),
                Call("pop", {"metadata": user, "purge": True}),
                Call("clear", {"metadata": user, "where": {"id": ids[3]}}),
                Call("purge", {"metadata": user, "deleted_only": True}),
                Call("clear", {"metadata": user, "where": {"id": {"$in": [ids[4], ids[6]]}}}),
                Call("apply", {"deletes": [ids[2], ids[4], f"{self._mark}nobody", ids[5]], "purge": True}),
                Call("clear", {"metadata": user}),
                Call("apply", {"deletes": ids[4:21], "purge": True}),
            ]
        steps.append(Call("add_many", {"items": self._copies(0, 5, 2)}))
        for step in steps:
            yield step
            yield from self._reads()

    def _reads(self) -> Iterator[Call]:
        """Yield reads of everything by every method, plain or through the handle of the user."""
        mark, ids = self._mark, [item.id for item in self._items]
        user, session = MemoryMetadata(user_id=f"{mark}u"), MemoryMetadata(session_id=f"{mark}s")
        place = MemoryMetadata(namespace=self._root + _PLACE)
        deleted = {"include_deleted": True} if Capability.DELETE in self._capabilities else {}
        yield Call("get_many", {"ids": ids})
        yield from (Call("get", {"item_id": ids[number]}, user) for number in (1, 3))
        for order in ("created", "updated"):
            yield Call("search", {"metadata": user, "limit": 50, "order": order})
        yield Call("search", {"metadata": session, "query": "MILK", "mode": "substring", "limit": 50}, user)
        yield Call("search", {"metadata": user, "where": {"extra.k": 1}, "limit": 50})
        yield Call("search_ranked", {"metadata": user, "query": "milk tea", "mode": "text", "limit": 50})
        yield Call("payloads", {"metadata": session}, user)
        yield Call("scan", {"metadata": user, "order": "added", **deleted})
        yield Call("scan", {"metadata": place, "archived": True})
        for filters in (session, place):
            yield Call("count", {"metadata": filters, **deleted})
        yield Call("count", {"metadata": place}, user)
        yield Call("head", {"metadata": session}, user)
        yield Call("window", {"metadata": session}, user)
        for by in ("session_id", "namespace"):
            yield Call("owners", {"by": by, "within": user})


def straddling_steps(mark: str, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield batches through a handle, or within metadata, of which some items lie outside; nothing there changes."""
    root = (mark,) if mark else ()
    inside: dict[str, Any] = dict.fromkeys(SCOPE_FIELDS, f"{mark}in")
    places = {"in": (*root, *_PLACE), "out": (*root, *_PLACE[:-1], "w")}
    fields = ("session_id", "task_id", "agent_id", "namespace")
    for field, nobody in (*((field, False) for field in fields), ("session_id", True)):
        inside["user_id"] = None if nobody else f"{mark}in"
        items = []
        for number in range(9):
            place = places["out" if field == "namespace" and number % 2 else "in"]
            owners = {**inside, field: f"{mark}out"} if number % 2 and field != "namespace" else inside
            metadata = MemoryMetadata(**owners, namespace=place)
            item_id = f"{mark}{field}{number}{'-' if nobody else ''}"
            items.append(MemoryItem(id=item_id, content=f"tea {number}", metadata=metadata))
        yield Call("add_many", {"items": items})
        bounds = MemoryMetadata(**({"namespace": places["in"]} if field == "namespace" else {field: inside[field]}))
        whole = MemoryMetadata(user_id=inside["user_id"])
        if nobody:  # Without a user, and bounded by all the other ids.
            bounds, whole = MemoryMetadata(**inside), MemoryMetadata(task_id=inside["task_id"])
        look = Call("scan", {"metadata": whole, "order": "added"})
        if Capability.DELETE in capabilities:
            look = Call("scan", {**look.arguments, "include_deleted": True})
        for call in (*_straddling(items, bounds, capabilities), Call("clear", {"metadata": whole})):
            yield from (call, look)


def _straddling(items: list[MemoryItem], bounds: MemoryMetadata, capabilities: frozenset[Capability]) -> Iterator[Call]:
    """Yield batches with items of even numbers, which lie within the bounds, and of odd ones, which do not."""
    bare = [copy_item(item) for item in items]
    for item in bare:  # What a caller gives through a handle, which stamps it.
        of_user = MemoryMetadata(user_id=item.metadata.user_id, namespace=item.metadata.namespace[: -len(_PLACE)])
        item.__dict__.update({"metadata": of_user, "content": "milk", "version": 1})
    ids = [item.id for item in items]
    yield Call("get_many", {"ids": ids}, bounds)
    yield Call("get_many", {"ids": ids[::-1], "metadata": bounds})
    if Capability.TTL in capabilities:
        yield Call("touch", {"ids": ids[::-1], "ttl": 1e9}, bounds)
    if Capability.ATOMIC in capabilities:  # Others may have written a part when they refuse the rest.
        for numbers in ((0, 1), (1, 0), (0, 2, 3)):
            chosen = [bare[number] for number in numbers]
            yield Call("update_many", {"items": chosen}, bounds)
            yield Call("add_many", {"items": chosen}, bounds)
            yield Call("apply", {"adds": chosen, "deletes": ids[4:5]}, bounds)
            theirs = [copy_item(items[number]) for number in numbers]
            for item in theirs:
                item.__dict__.update({"version": 1, "content": "lemon"})
            yield Call("update_many", {"items": theirs, "within": bounds})
            yield Call("add_many", {"items": theirs, "within": bounds})
    yield Call("update", {"item": bare[1]}, bounds)
    yield Call("update_many", {"items": [bare[0], bare[2]]}, bounds)
    yield Call("apply", {"adds": [bare[4]], "deletes": ids[5:9], "within": None}, bounds)
    if Capability.ADD_DELETED in capabilities:
        yield from (Call("add_many", {"items": [bare[n]], "deleted": [ids[n]]}, bounds) for n in (7, 6))
    if Capability.DELETE in capabilities:
        yield Call("delete", {"item_id": ids[1]}, bounds)
        yield Call("restore", {"item_id": ids[5]}, bounds)
        yield Call("restore", {}, bounds)
    if Capability.PURGE in capabilities:
        yield Call("purge", {"item_id": ids[3]}, bounds)
        yield Call("purge", {"item_id": ids[8]}, bounds)
    yield Call("pop", {}, bounds)
    yield Call("clear", {}, bounds)
