"""Ids that are derived from what a framework calls a thing, and from whose it is."""

from __future__ import annotations

import json

from memoranda.items import SCOPE_FIELDS, MemoryMetadata
from memoranda.store import Store

_DIGITS = 64
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


class DerivedIds:
    """The ids of what is stored through one handle: equal names have equal ids, and every owner has other ones.

    Two users who store something under the same name have two items, so an id also depends on the ids that the handle
    is bound to. Its namespace is not among them: give it as a part. An id is a digest, since names may be longer; in an
    encrypted store it is made with a key, so that it confirms no guess of a name or of an owner.
    """

    def __init__(self, store: Store, *framework: str) -> None:
        bounds = store.bounds or MemoryMetadata()
        self._derived_id = store.derived_id
        self._bound = _encode([*framework, *(getattr(bounds, name) for name in SCOPE_FIELDS)])

    def id_of(self, *parts: str | int | tuple[str, ...]) -> str:
        """Return the id of what these parts name."""
        return self._derived_id(self._bound + _encode(parts), digits=_DIGITS)
