"""The ids and namespaces of what is stored through one handle, and LangGraph's listing of namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from langgraph.store.base import ListNamespacesOp

from memoranda.errors import InputError
from memoranda.items import MemoryMetadata
from memoranda.store import ScopedStore, Store
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


async def list_namespaces(store: Store, handle: HandleScope, op: ListNamespacesOp) -> list[Namespace]:
    """Return a page of the namespaces that match, cut to the depth, each once and in the store's order."""
    conditions = op.match_conditions or ()
    for condition in conditions:
        if condition.match_type not in ("prefix", "suffix"):
            raise InputError(f"Unsupported match type: {str(condition.match_type)[:20]!r}. Use prefix or suffix.")
    prefixes = [tuple(each.path) for each in conditions if each.match_type == "prefix" and each.path]
    suffixes = [tuple(each.path) for each in conditions if each.match_type == "suffix" and each.path]
    if _is_plain(prefixes) and _is_plain(suffixes) and not (handle.base and suffixes) and (op.max_depth or 1) > 0:
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


def _is_plain(patterns: Sequence[Namespace]) -> bool:
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
