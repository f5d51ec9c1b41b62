"""The ids and namespaces of what is stored through one handle, and LangGraph's filters and listings.

A filter becomes the store's own ``where`` as far as it can, and the rest is tested on each value:

- The operators are ``$eq``, ``$ne``, ``$gt``, ``$gte``, ``$lt`` and ``$lte``. Any other value must be equal.
- A dict matches if it is part of the stored one.
- A key with a dot that the value does not have literally leads into nested values.
- Numbers compare with numbers and texts with texts. A missing value counts as null.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import ge, gt, le, lt
from typing import Any

from langgraph.store.base import ListNamespacesOp

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import checked_json
from memoranda.store import ScopedStore, Store
from memoranda.store.backend import json_equal
from memoranda_messages.sessions import DerivedIds

Namespace = tuple[str, ...]

ANY = "*"


class HandleScope:
    """The ids and namespaces of one handle. Namespaces are relative to the handle's."""

    def __init__(self, store: Store) -> None:
        scope = store.scope if isinstance(store, ScopedStore) else MemoryMetadata()
        self.scope = scope
        self.base: Namespace = scope.namespace
        self._ids = DerivedIds(store, "langgraph")

    def id_of(self, kind: str, namespace: Namespace, *parts: str | int) -> str:
        """Return the id of what these parts name in a namespace of the handle."""
        return f"langgraph-{self._ids.id_of(kind, self.base + namespace, *parts)}"

    def below(self, place: Namespace) -> MemoryMetadata | None:
        """Return the filter for a namespace and all below it; None stands for everything that the handle reaches."""
        whole = self.base + place
        return MemoryMetadata(namespace=whole) if whole else None

    def relative(self, namespace: Namespace) -> Namespace:
        """Return a stored namespace relative to the handle's, as LangGraph knows it."""
        return namespace[len(self.base) :]


async def each_once(
    search: Callable[[int, int], Awaitable[list[MemoryItem]]], size: int
) -> AsyncIterator[list[MemoryItem]]:
    """Yield the pages of a search, which is given their size and an offset. An item that moves meanwhile comes once."""
    seen: set[str] = set()
    while size:
        page = await search(size, len(seen))
        fresh = [item for item in page if item.id not in seen]
        seen.update(item.id for item in fresh)
        yield fresh
        if len(page) < size or not fresh:
            return


async def list_namespaces(store: Store, handle: HandleScope, op: ListNamespacesOp) -> list[Namespace]:
    """Return a page of the namespaces that match, cut to the depth, each once and in the store's order."""
    conditions = op.match_conditions or ()
    for condition in conditions:
        if condition.match_type not in ("prefix", "suffix"):
            raise InputError(f"Unsupported match type: {str(condition.match_type)[:20]!r}. Use prefix or suffix.")
    prefixes = [tuple(each.path) for each in conditions if each.match_type == "prefix" and each.path]
    suffixes = [tuple(each.path) for each in conditions if each.match_type == "suffix" and each.path]
    if (
        _is_one_without_wildcards(prefixes)
        and _is_one_without_wildcards(suffixes)
        and not (handle.base and suffixes)
        and (op.max_depth or 1) > 0
    ):
        found = store.owners(
            "namespace",
            within=handle.below(prefixes[0] if prefixes else ()),
            depth=None if op.max_depth is None else len(handle.base) + op.max_depth,
            suffix=suffixes[0] if suffixes else (),
            limit=op.limit,
            offset=op.offset,
            counts=False,
        )
        return [handle.relative(owner.value) async for owner in found if isinstance(owner.value, tuple)]
    return await _page(_matching(store, handle, prefixes, suffixes), op)


def _is_one_without_wildcards(patterns: Sequence[Namespace]) -> bool:
    return len(patterns) <= 1 and not any(ANY in pattern for pattern in patterns)


async def _matching(
    store: Store, handle: HandleScope, prefixes: Sequence[Namespace], suffixes: Sequence[Namespace]
) -> AsyncIterator[Namespace]:
    """Yield the namespaces that match. Only those below the part of a prefix without wildcards are read."""
    place = max((_before_any(prefix) for prefix in prefixes), key=len, default=())
    async for owner in store.owners("namespace", within=handle.below(place), counts=False):
        if isinstance(owner.value, tuple):
            namespace = handle.relative(owner.value)
            if all(_begins(namespace, each) for each in prefixes) and all(
                _begins(namespace[::-1], each[::-1]) for each in suffixes
            ):
                yield namespace


async def _page(namespaces: AsyncIterator[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    """Return the page of an operation. Namespaces that are cut to the same one are adjacent in the store's order."""
    page: list[Namespace] = []
    last: Namespace | None = None
    position = 0
    async for namespace in namespaces:
        cut = namespace if op.max_depth is None else namespace[: op.max_depth]
        if cut == last:
            continue
        last = cut
        position += 1
        if position > op.offset + op.limit:
            break
        if position > op.offset:
            page.append(cut)
    return page


def _before_any(pattern: Namespace) -> Namespace:
    return pattern[: pattern.index(ANY)] if ANY in pattern else pattern


def _begins(namespace: Namespace, pattern: Namespace) -> bool:
    return len(namespace) >= len(pattern) and all(
        wanted in (ANY, found) for found, wanted in zip(namespace, pattern, strict=False)
    )


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}

_MOST_CONDITIONS = 64
"""How many conditions a store accepts."""


@dataclass
class SplitFilter:
    """A filter, split into what the store searches for and the rest."""

    where: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The conditions for the store."""

    rest: dict[str, Any] = field(default_factory=dict)
    """The conditions that are tested on each value that the store found."""

    @classmethod
    def of(cls, wanted: Mapping[str, Any] | None) -> SplitFilter:
        """Split a filter. Raises ValueError for an operator that does not exist."""
        split = cls()
        searched = 0
        for key, condition in (wanted or {}).items():
            check_operators(condition)
            operators = condition if is_operators(condition) else {"$eq": condition}
            searched += len(operators)
            if searched <= _MOST_CONDITIONS and is_searchable(key, operators):
                split.where[f"extra.{key}"] = dict(operators)
            else:
                split.rest[key] = condition
        return split

    def passes(self, value: Mapping[str, Any]) -> bool:
        """Return True if a value that the store found passes the rest of the filter."""
        return all(compares(found_at(value, key), condition) for key, condition in self.rest.items())


def is_operators(condition: Any) -> bool:
    """Return True if a condition consists of operators; otherwise it is a value to compare with."""
    return isinstance(condition, Mapping) and any(str(key).startswith("$") for key in condition)


def check_operators(condition: Any) -> None:
    """Raise ValueError for an operator that does not exist."""
    if not isinstance(condition, Mapping):
        return
    for key, inner in condition.items():
        if not is_operators(condition):
            check_operators(inner)
        elif key not in ("$eq", "$ne") and key not in _ORDERS:
            raise InputError(f"Unsupported operator: {str(key)[:20]!r}. Use $eq, $ne, {', '.join(_ORDERS)}.")


def is_searchable(key: str, operators: Mapping[str, Any]) -> bool:
    """Return True if the store's own conditions mean the same."""
    if not isinstance(key, str) or "." in key:
        return False  # It may lead into a nested value.
    return all(_is_plain(operator, operand) for operator, operand in operators.items())


def _is_plain(operator: str, operand: Any) -> bool:
    if operand is None or _has_dict(operand):
        return False  # Null also matches a missing key, and a dict matches a part of one.
    if operator in _ORDERS and not isinstance(operand, str) and not _is_number(operand):
        return False
    try:
        checked_json(operand, "filter")
    except InputError:
        return False  # Infinity equals no stored value, but numbers still sort below it.
    return True


def _has_dict(operand: Any) -> bool:
    if isinstance(operand, (list, tuple)):
        return any(_has_dict(inner) for inner in operand)
    return isinstance(operand, Mapping)


def found_at(value: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or else the nested value that its dots lead to; None if there is neither."""
    if key in value or not isinstance(key, str) or "." not in key:
        return value.get(key)
    found: Any = value
    for part in key.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def compares(found: Any, condition: Any) -> bool:
    """Return True if a value passes a condition."""
    if is_operators(condition):
        return all(_operator(found, operator, operand) for operator, operand in condition.items())
    if isinstance(condition, Mapping):
        return isinstance(found, Mapping) and all(compares(found.get(key), inner) for key, inner in condition.items())
    if isinstance(condition, (list, tuple)):
        return (
            isinstance(found, (list, tuple)) and len(found) == len(condition) and all(map(compares, found, condition))
        )
    return json_equal(found, condition)


def _operator(found: Any, operator: str, operand: Any) -> bool:
    if operator in _ORDERS:
        alike = (_is_number(found) and _is_number(operand)) or (isinstance(found, str) and isinstance(operand, str))
        return alike and _ORDERS[operator](found, operand)
    return json_equal(found, operand) is (operator == "$eq")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
