"""Which namespaces there are: LangGraph's patterns over the store's own listing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from langgraph.store.base import ListNamespacesOp

from memoranda.errors import InputError
from memoranda.store import BaseStore
from memoranda_langgraph.places import Namespace, Places

ANY = "*"


async def list_namespaces(store: BaseStore, places: Places, op: ListNamespacesOp) -> list[Namespace]:
    """Return a page of the namespaces that match, cut off below the depth, each once and in the store's order."""
    conditions = op.match_conditions or ()
    for condition in conditions:
        if condition.match_type not in ("prefix", "suffix"):
            raise InputError(
                f"Unsupported match type: {str(condition.match_type)[:20]!r}. There are prefix and suffix."
            )
    prefixes = [tuple(each.path) for each in conditions if each.match_type == "prefix" and each.path]
    suffixes = [tuple(each.path) for each in conditions if each.match_type == "suffix" and each.path]
    if _is_plain(prefixes) and _is_plain(suffixes) and not (places.base and suffixes) and (op.max_depth or 1) > 0:
        found = store.owners(
            "namespace",
            within=places.below(prefixes[0] if prefixes else ()),
            depth=None if op.max_depth is None else len(places.base) + op.max_depth,
            suffix=suffixes[0] if suffixes else (),
            limit=op.limit,
            offset=op.offset,
            counts=False,
        )
        return [places.relative(owner.value) async for owner in found if isinstance(owner.value, tuple)]
    return await _page(_matching(store, places, prefixes, suffixes), op)


def _is_plain(patterns: Sequence[Namespace]) -> bool:
    return len(patterns) <= 1 and not any(ANY in pattern for pattern in patterns)


async def _matching(
    store: BaseStore, places: Places, prefixes: Sequence[Namespace], suffixes: Sequence[Namespace]
) -> AsyncIterator[Namespace]:
    """Yield whole namespaces that match; no more are gone through than those below the plain part of a prefix."""
    place = max((_before_any(prefix) for prefix in prefixes), key=len, default=())
    async for owner in store.owners("namespace", within=places.below(place), counts=False):
        if isinstance(owner.value, tuple):
            namespace = places.relative(owner.value)
            if all(_begins(namespace, each) for each in prefixes) and all(
                _begins(namespace[::-1], each[::-1]) for each in suffixes
            ):
                yield namespace


async def _page(namespaces: AsyncIterator[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    """Return the page of an operation. What is cut off to the same stands side by side, in the order of the store."""
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
