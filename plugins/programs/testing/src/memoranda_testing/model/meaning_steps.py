"""Histories about meaning: texts of one passage, of several and of none, changed by every method in both directions.

The model knows no meanings, so that searches with filters are compared with the ranking of everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import EVERYTHING, Store, copy_item
from memoranda_testing.model.player import made
from memoranda_testing.model.reference import Model
from memoranda_testing.model.steps import Call, Calls, writing

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

    def __init__(self, store: Calls) -> None:
        self._store = store
        self.owner = MemoryMetadata(user_id="u", session_id="s")
        self._items = [MemoryItem(id=f"m{number:02}", content="", metadata=self.owner) for number in range(_ITEMS)]
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
        store, ids, restored = self._store, [item.id for item in self._items], self._store.restore(metadata=self.owner)
        yield from (store.apply(deletes=ids[3:6]), store.restore(ids[3]), store.delete(ids[7]))
        yield from (store.clear(metadata=self.owner, where={"id": {"$in": ids[8:12]}}), restored)
        yield from (store.apply(deletes=ids[:20]), *self._short("a"), restored)
        for first, step in ((0, 1), (0, 2), (1, 2)):  # All of them, then a part of them and the other part.
            hidden = [self._new(number, "-hidden") for number in range(len(_TEXTS))]
            yield store.add_many(hidden, deleted=[item.id for item in hidden[first::step]])
        yield from (restored, *self._places_in_another_order(), store.touch(ids, ttl=1e9))
        yield from (store.purge(ids[1]), store.pop(metadata=self.owner, purge=True))
        yield store.clear(metadata=self.owner, where={"id": {"$in": ids[:16]}})
        new = [self._new(number) for number in range(5)]
        yield from (store.add_many(new), store.apply(deletes=[*ids, *(item.id for item in new)]), *self._short("b"))

    def _places_in_another_order(self) -> Iterator[Call]:
        """Yield batches that may take the places of items which have gone one by one, in one order or another."""
        for turn, step in enumerate((1, 5, 7)):
            rows, others = [
                [self._tea(f"{name}{turn}-{number}", word) for number, word in enumerate(_LONG.split()[:20])]
                for name in ("-row", "-next")
            ]
            # The last goes first and the first last, as if they went in order.
            order = [19, *(1 + number * step % 18 for number in range(18)), 0]
            yield self._store.add_many(items=rows)
            yield self._store.apply(deletes=[rows[number].id for number in order])
            yield self._store.add_many(items=others)

    def _tea(self, name: str, word: str = "") -> MemoryItem:
        return MemoryItem(id=f"{self._items[0].id}{name}", content=f"Tea {word}", metadata=self.owner)

    def _short(self, name: str) -> Iterator[Call]:
        """Yield short texts, one and many, which may take the places of long ones that have gone."""
        tea = [self._tea(f"{name}{number}") for number in range(12)]
        yield self._store.add(item=tea[0])
        yield self._store.add_many(items=tea[1:])

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
