"""Where an adapter keeps its items: under which ids, and below which namespace."""

from __future__ import annotations

import json
from hashlib import blake2b

from memoranda.items import SCOPE_FIELDS, MemoryMetadata
from memoranda.store import BaseStore, ScopedStore

Namespace = tuple[str, ...]

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


class Places:
    """The ids and namespaces of one handle.

    Two users who keep something under the same key keep two items, so an id is made from what the handle is bound to,
    too. It is a digest, since keys and namespaces may be longer than an id. Namespaces are those below the handle's.
    """

    def __init__(self, store: BaseStore) -> None:
        scope = store.scope if isinstance(store, ScopedStore) else MemoryMetadata()
        self.scope = scope
        self.base: Namespace = scope.namespace
        bound = [getattr(scope, name) for name in SCOPE_FIELDS]
        self._digest = blake2b(_encode(bound).encode(), digest_size=20)

    def id_of(self, kind: str, namespace: Namespace, *parts: str | int) -> str:
        """Return the id of what these parts name below a namespace of the handle's."""
        digest = self._digest.copy()
        digest.update(_encode([kind, self.base + namespace, *parts]).encode())
        return f"langgraph-{digest.hexdigest()}"

    def below(self, place: Namespace) -> MemoryMetadata | None:
        """Return the filter of what lies at a place or below it; None is everything that the handle reaches."""
        whole = self.base + place
        return MemoryMetadata(namespace=whole) if whole else None

    def relative(self, namespace: Namespace) -> Namespace:
        """Return a stored namespace as LangGraph knows it."""
        return namespace[len(self.base) :]
