"""A history about states: every method that names an item, on items in every state, one at a time and all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability
from memoranda_testing.model.steps import Call, Calls, Program, item

_STATES: dict[str, frozenset[Capability]] = {
    "absent": frozenset(),
    "absent, like another": frozenset(),
    "absent, a pattern": frozenset(),
    "live": frozenset(),
    "archived": frozenset(),
    "mortal": frozenset({Capability.TTL}),
    "deleted": frozenset({Capability.DELETE}),
    "deleted archived": frozenset({Capability.DELETE}),
    "deleted mortal": frozenset({Capability.DELETE, Capability.TTL}),
    "restored": frozenset({Capability.DELETE}),
    "replaced": frozenset({Capability.DELETE}),
    "purged": frozenset({Capability.PURGE}),
    "theirs": frozenset(),
    "theirs deleted": frozenset({Capability.DELETE}),
}
"""The states of an item, and the capabilities that bring it there."""

_GONE = tuple(state for state in _STATES if "absent" in state or "deleted" in state or state == "purged")
"""States in which an item is not shown."""

_LIFE = 1e9 + 0.25

_WRITING = ("add", "add_many", "append", "apply", "update", "update_many")

By = Literal["handle", "user", "extra", "place", "store"]
"""What bounds a call, if anything does: the handle of a user, or metadata that the call is given."""

Items = dict[str, MemoryItem]
"""An item for each state."""


class States:
    """Draws the history; each method has items of its own, and each item a conversation of its own."""

    def __init__(self, store: Calls, capabilities: frozenset[Capability]) -> None:
        self._store = store
        self._capabilities = capabilities
        self._states = [state for state, needed in _STATES.items() if needed <= capabilities]
        self._turn = 0

    def steps(self, *ways: By, share: int = 1) -> Program:
        """Yield every method, or one of so many, on every item, bounded in these ways by turns; then on all at once."""
        turns = [(method, arguments) for method, needed, arguments in _ONE if needed in (None, *self._capabilities)]
        for number, (method, arguments) in enumerate(turns[::share]):
            items = self._items(f"{ways[0]}{number:02}")
            yield from self._brought_about(items)
            for turn, (state, each) in enumerate(items.items(), number):
                yield self._call(method, arguments(state, each), items, ways[turn % len(ways)])
                yield from self._looks(items, each)
            if number:  # Only what the method before this one has left stays beside it.
                place = MemoryMetadata(namespace=(f"{ways[0]}{number - 1:02}",))
                yield from (self._store.clear(metadata=place), self._store.purge(metadata=place))
        for by in ways:
            yield from self._steps_at_once(by)

    def steps_after_many_changes(self, changes: int) -> Program:
        """Yield so many changes of one item, and looks at others, which are in every state."""
        items, busy, store = self._items("many"), self._items("busy")["live"], self._store
        place = MemoryMetadata(namespace=("many",))
        yield from self._brought_about(items)
        for number in range(changes):
            yield store.add(busy.model_copy(update={"content": f"tea {number}"}))
        yield store.update(busy.model_copy(update={"version": changes}))
        yield from (store.scan(metadata=place, order="added"), store.get(busy.id))
        for _ in range(3):
            yield from self._looks(items, items["live"])
        yield from (store.restore(metadata=place), *self._looks(items, items["live"]))

    def _steps_at_once(self, by: By) -> Program:
        turns = [(method, arguments) for method, needed, arguments in _SEVERAL if needed in (None, *self._capabilities)]
        for number, (method, arguments) in enumerate(turns):
            items = self._items(f"{by}s{number:02}")
            yield from self._brought_about(items)
            if by != "store" and method in ("add_many", "update_many"):  # What is not theirs is not refused.
                items = {state: each for state, each in items.items() if not state.startswith("theirs")}
            yield self._call(method, arguments(items), items, by)
            yield from self._looks(items, items["live"])

    def _items(self, name: str) -> Items:
        ids = [f"{name}{state}" for state in self._states]
        ids[1:3] = [f"{name}LIVE", f"{name}l_v%"]
        items = {}
        for number, state in enumerate(self._states):
            owner = MemoryMetadata(
                user_id=f"{name}{'v' if state.startswith('theirs') else 'u'}",
                session_id=f"{name}{number:02}",
                namespace=(name, "x" if state == "live" or number % 3 else "y"),
                extra={"k": 1 if state == "live" or number % 4 < 2 else 2},
            )
            given: dict[str, Any] = {"archived_by": "s"} if state.endswith("archived") else {}
            given |= {"ttl": _LIFE} if state.endswith("mortal") else {}
            items[state] = item(f"tea {number}", number // 2 ^ 2, owner, id=ids[number], **given)
        return items

    def _brought_about(self, items: Items) -> Program:
        """Yield what brings the items to their states."""
        store = self._store
        yield store.add_many([each for state, each in items.items() if not state.startswith("absent")])
        if "purged" in items:
            yield store.purge(items["purged"].id)
        if "deleted" in items:
            gone = [state for state in items if "deleted" in state or state in ("restored", "replaced")]
            yield store.apply(deletes=[items[state].id for state in gone])
            yield from (store.restore(items["restored"].id), store.add(items["replaced"]))

    def _call(self, method: str, arguments: dict[str, Any], items: Items, by: By) -> Call:
        owner = items["live"].metadata
        bounds = {
            "extra": MemoryMetadata(user_id=owner.user_id, extra={"k": 1}),
            "place": MemoryMetadata(namespace=owner.namespace),
        }.get(by, MemoryMetadata(user_id=owner.user_id))
        if by not in ("handle", "store") and "metadata" not in arguments:
            arguments["within" if method in _WRITING else "metadata"] = bounds
        return Call(method, arguments, bounds if by == "handle" else None)

    def _looks(self, items: Items, each: MemoryItem) -> Program:
        place = MemoryMetadata(namespace=each.metadata.namespace[:1])
        said = each.metadata.model_copy(update={"namespace": (), "extra": {}})
        yield self._store.everything(metadata=place)
        self._turn += 1
        looks = (self._store.count(metadata=place), self._store.get_many(_ids(items)), self._store.head(metadata=said))
        yield looks[self._turn % len(looks)]


def _again(state: str, held: MemoryItem, version: int | None = None, suffix: str = "", **fields: Any) -> MemoryItem:
    """Return what replaces an item: by default with the version that is held, and another time."""
    known = 0 if state in _GONE else 2 if state == "replaced" else 1
    changed: dict[str, Any] = {
        "content": f"milk {state}",
        "created_at": "2024-03-02T00:00:00.000000+00:00",
        "archived_by": None,
    }
    changed |= {"id": held.id + suffix, "version": known if version is None else version}
    return held.model_copy(update={**changed, **fields})


def _twice(state: str, held: MemoryItem) -> list[MemoryItem]:
    later = _again(state, held, created_at="2024-03-03T00:00:00.000000+00:00", content="lemon")
    return [_again(state, held), later]


def _beside(held: MemoryItem) -> list[MemoryItem]:
    return [_again("absent", held, suffix="+")]


_ONE: Sequence[tuple[str, Capability | None, Callable[[str, MemoryItem], dict[str, Any]]]] = (
    ("get", None, lambda state, item: {"item_id": item.id}),
    ("get", Capability.TTL, lambda state, item: {"item_id": item.id, "refresh": True}),
    ("delete", Capability.DELETE, lambda state, item: {"item_id": item.id}),
    ("restore", Capability.DELETE, lambda state, item: {"item_id": item.id}),
    ("purge", Capability.PURGE, lambda state, item: {"item_id": item.id}),
    ("purge", Capability.PURGE, lambda state, item: {"item_id": item.id, "deleted_only": True}),
    ("purge", Capability.PURGE, lambda state, item: {"item_id": item.id, "where": {"extra.k": 1}}),
    ("touch", Capability.TTL, lambda state, item: {"ids": [item.id], "ttl": 2 * _LIFE}),
    ("touch", Capability.TTL, lambda state, item: {"ids": [item.id], "ttl": float("inf")}),
    ("touch", Capability.TTL, lambda state, item: {"ids": [item.id], "ttl": 1e300}),
    ("touch", Capability.TTL, lambda state, item: {"ids": [item.id]}),
    ("apply", None, lambda state, item: {"deletes": [item.id]}),
    ("apply", None, lambda state, item: {"deletes": [item.id], "adds": _beside(item)}),
    ("apply", Capability.PURGE, lambda state, item: {"deletes": [item.id], "purge": True}),
    ("apply", Capability.PURGE, lambda state, item: {"deletes": [item.id], "adds": _beside(item), "purge": True}),
    ("add", None, lambda state, item: {"item": _again(state, item)}),
    ("add", None, lambda state, item: {"item": _again(state, item), "keep_created": True}),
    ("add", Capability.TTL, lambda state, item: {"item": _again(state, item), "ttl": 2 * _LIFE}),
    ("add_many", None, lambda state, item: {"items": [_again(state, item), *_beside(item)]}),
    ("add_many", Capability.ADD_DELETED, lambda state, item: {"items": [_again(state, item)], "deleted": [item.id]}),
    ("add_many", None, lambda state, item: {"items": _twice(state, item), "keep_created": True}),
    ("update", None, lambda state, item: {"item": _again(state, item)}),
    ("update", None, lambda state, item: {"item": _again(state, item, 0)}),
    ("update", None, lambda state, item: {"item": _again(state, item, 1)}),
    ("update_many", None, lambda state, item: {"items": [_again(state, item), *_beside(item)]}),
    ("append", None, lambda state, item: {"items": [_again(state, item)], "after": None}),
    ("append", None, lambda state, item: {"items": _beside(item), "after": None if state in _GONE else item.id}),
    ("clear", None, lambda state, item: {"metadata": _session(item)}),
    ("pop", None, lambda state, item: {"metadata": _session(item)}),
    ("restore", Capability.DELETE, lambda state, item: {"metadata": _session(item)}),
    ("purge", Capability.PURGE, lambda state, item: {"metadata": _session(item), "deleted_only": True}),
)
"""Methods, what they need, and their arguments for one item."""

_SEVERAL: Sequence[tuple[str, Capability | None, Callable[[dict[str, MemoryItem]], dict[str, Any]]]] = (
    ("get_many", Capability.TTL, lambda items: {"ids": _ids(items), "refresh": True}),
    ("touch", Capability.TTL, lambda items: {"ids": _ids(items), "ttl": 2 * _LIFE}),
    ("touch", Capability.TTL, lambda items: {"ids": _ids(items)}),
    ("apply", None, lambda items: {"deletes": _ids(items)}),
    ("apply", None, lambda items: {"deletes": _ids(items), "adds": _beside(items["live"])}),
    ("apply", Capability.PURGE, lambda items: {"deletes": _ids(items), "purge": True}),
    ("apply", Capability.PURGE, lambda items: {"deletes": _ids(items), "adds": _beside(items["live"]), "purge": True}),
    ("add_many", None, lambda items: {"items": [_again(state, item) for state, item in items.items()]}),
    ("update_many", None, lambda items: {"items": [_again(state, item) for state, item in items.items()]}),
)
"""Methods, what they need, and their arguments for all items."""


def _ids(items: dict[str, MemoryItem]) -> list[str]:
    return [item.id for item in items.values()]


def _session(item: MemoryItem) -> MemoryMetadata:
    return MemoryMetadata(session_id=item.metadata.session_id)
