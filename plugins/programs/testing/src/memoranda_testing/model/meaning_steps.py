"""Histories about meaning: texts of one passage, of several and of none, changed by every method in both directions.

The model knows no meanings, so that searches with filters are compared with the ranking of everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import EVERYTHING, Capability, Store, copy_item
from memoranda_testing.model.player import made
from memoranda_testing.model.reference import Model
from memoranda_testing.model.steps import Call, writing

QUERIES = ("green tea in the morning", "zebras crossing bridges")

_LONG = " ".join(f"The kettle {number} boils, and {number} cups of milk stand beside it." for number in range(60))
_TEXTS = (
    "A cup of tea, number {}",
    "A zebra on a bridge, {}",
    f"{_LONG} Then a zebra crossed the bridge {{}} at dawn.",
    f"{_LONG} Then green tea was poured {{}} times.",
    " ",
    f"Tea. {_LONG} {{}}",
    "The same tea",
    "?!",
    "",
)
"""Of one passage (two equally long), of several with what is asked for in the last or the first, and without words."""

_ITEMS = 22
_SEVERAL = tuple(range(2, 20))


class Meanings:
    """Draws up changes of items whose texts have different numbers of vectors."""

    def __init__(self, mark: str, capabilities: frozenset[Capability]) -> None:
        self.owner = MemoryMetadata(user_id=f"{mark}u", session_id=f"{mark}s", namespace=(mark,) if mark else ())
        self._capabilities = capabilities
        self._items = [
            MemoryItem(id=f"{mark}m{number:02}", content="", metadata=self.owner) for number in range(_ITEMS)
        ]
        self._shifted(range(_ITEMS), 0)

    def steps(self) -> Iterator[Call]:
        """Yield changes; whatever was done, the items mean what their texts say."""
        yield self._write("add_many", range(_ITEMS))
        for method, numbers in (("update", [1]), ("add", [2]), ("apply", (0, 1, 2)), ("update_many", _SEVERAL)):
            self._marked(numbers, "later")  # The text stays as it is.
            yield self._write(method, numbers)
        for shift, method in enumerate(("add_many", "update_many", "apply"), 1):
            for numbers in ((0, 1, 2, 3), _SEVERAL):
                self._shifted(numbers, shift)
                yield self._write(method, numbers)
        for shift, method in enumerate(("add", "update", "add", "update", "add", "update"), 3):
            self._shifted([7], shift)
            yield self._write(method, [7])
        yield from self._removals()

    def _removals(self) -> Iterator[Call]:
        ids, all_of_it = [item.id for item in self._items], {"metadata": self.owner}
        yield Call("apply", {"deletes": ids[3:6]})
        if Capability.DELETE in self._capabilities:
            yield Call("restore", {"item_id": ids[3]})
            yield Call("delete", {"item_id": ids[7]})
            yield Call("clear", {**all_of_it, "where": {"id": {"$in": ids[8:12]}}})
            yield Call("restore", all_of_it)
            yield Call("apply", {"deletes": ids[:20]})
            yield from self._short("a")
            yield Call("restore", all_of_it)
        if Capability.ADD_DELETED in self._capabilities:
            for first, step in ((0, 1), (0, 2), (1, 2)):  # All of them, then a part of them and the other part.
                hidden = [self._new(number, "-hidden") for number in range(len(_TEXTS))]
                yield Call("add_many", {"items": hidden, "deleted": [item.id for item in hidden[first::step]]})
            yield Call("restore", all_of_it)
        yield from self._places_in_another_order()
        if Capability.TTL in self._capabilities:
            yield Call("touch", {"ids": ids, "ttl": 1e9})
        if Capability.PURGE in self._capabilities:
            yield Call("purge", {"item_id": ids[1]})
            yield Call("pop", {**all_of_it, "purge": True})
        yield Call("clear", {**all_of_it, "where": {"id": {"$in": ids[:16]}}})
        yield Call("add_many", {"items": [self._new(number) for number in range(5)]})
        yield Call("apply", {"deletes": [*ids, *(self._new(number).id for number in range(5))]})
        yield from self._short("b")

    def _places_in_another_order(self) -> Iterator[Call]:
        """Yield batches that may take the places of items which have gone one by one, in one order or another."""
        for turn, step in enumerate((1, 5, 7)):
            rows, others = [
                [self._tea(f"{name}{turn}-{number}", word) for number, word in enumerate(_LONG.split()[:20])]
                for name in ("-row", "-next")
            ]
            # The last goes first and the first last, as if they went in order.
            order = [19, *(1 + number * step % 18 for number in range(18)), 0]
            yield Call("add_many", {"items": rows})
            yield Call("apply", {"deletes": [rows[number].id for number in order]})
            yield Call("add_many", {"items": others})

    def _tea(self, name: str, word: str = "") -> MemoryItem:
        return MemoryItem(id=f"{self._items[0].id}{name}", content=f"Tea {word}", metadata=self.owner)

    def _short(self, name: str) -> Iterator[Call]:
        """Yield short texts, one and many, which may take the places of long ones that have gone."""
        tea = [self._tea(f"{name}{number}") for number in range(12)]
        yield Call("add", {"item": tea[0]})
        yield Call("add_many", {"items": tea[1:]})

    def _write(self, method: str, numbers: Sequence[int]) -> Call:
        items = [copy_item(self._items[number]) for number in numbers]
        for number in numbers:
            self._items[number].__dict__["version"] += 1
        return writing(method, items)

    def _shifted(self, numbers: Sequence[int], shift: int) -> None:
        """Give each item the text of another one."""
        for number in numbers:
            text = _TEXTS[(number + shift) % len(_TEXTS)]
            self._items[number].__dict__["content"] = text.replace("{}", str(number))

    def _marked(self, numbers: Sequence[int], mood: str) -> None:
        for number in numbers:
            item = self._items[number]
            item.__dict__["metadata"] = item.metadata.model_copy(update={"extra": {"mood": mood}})

    def _new(self, number: int, suffix: str = "-new") -> MemoryItem:
        fields: dict[str, Any] = {"id": f"{self._items[number].id}{suffix}", "metadata": self.owner}
        return MemoryItem(content=_TEXTS[number].replace("{}", str(number)), **fields)


_PAGING = ("query", "mode", "limit", "offset")


async def meaning_difference(store: Store, model: Model, call: Call) -> str | None:
    """Return how a ranked search differs from the best of all items that match, as a sentence; None if it does not."""
    everything = {"query": call.arguments["query"], "mode": call.arguments["mode"], "limit": EVERYTHING}
    whole = Call("search_ranked", {**everything, "archived": None, "metadata": model.bounds})
    scores = {each.item.id: round(each.score, 6) for each in await made(store, whole)}
    filters = {name: value for name, value in call.arguments.items() if name not in _PAGING}
    matching = {item.id for item in model.handle(call.scope).scan(**{"archived": False, **filters})}
    if missing := sorted(item.id for item in model.handle().scan() if item.content.strip() and item.id not in scores):
        return f"without any filter, {missing} are not ranked at all."
    best = sorted((scores[each] for each in matching & scores.keys()), reverse=True)[: call.arguments["limit"]]
    found = [(each.item.id, round(each.score, 6)) for each in await made(store, call)]
    outside = [item_id for item_id, _ in found if item_id not in matching]
    if outside:
        return f"it returned {outside}, which do not match."
    other = [item_id for item_id, score in found if abs(scores[item_id] - score) > 2e-6]
    if other:
        return f"the scores of {other} are not those of a search without filters."
    if len(found) != len(best) or any(abs(one[1] - score) > 2e-6 for one, score in zip(found, best, strict=True)):
        return f"the best scores are {best}, and it returned {found}."
    return None
