"""How the inner store names owners and the values of ``extra``: as they are, or as keyed hashes."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryMetadata
from memoranda.store.backend import bare_metadata
from memoranda_encrypt.keyring import KeyRing

_BRANCH = "branch-"
"""How the id of a forked session begins: it is random, and the inner store must recognise it."""


class StoredNames:
    """Translates metadata into what the inner store is given."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring
        self.hidden = ring.hide_owners
        self.indexed = frozenset(ring.indexed)
        self._hashed = lru_cache(maxsize=4096)(ring.hashed)

    def forget(self) -> None:
        """Drop the names that are at hand."""
        self._hashed.cache_clear()

    def owner(self, field: str, value: str | None) -> str | None:
        """Return an id as the inner store has it."""
        if value is None or not self.hidden or value.startswith(_BRANCH):
            return value
        return self._hashed(field, value)

    def place(self, namespace: tuple[str, ...]) -> tuple[str, ...]:
        """Return a namespace as the inner store has it: element by element, so that what lies below stays below."""
        return tuple(self._hashed("namespace", each) for each in namespace) if self.hidden else namespace

    def extra_key(self, key: str) -> str:
        """Return the key of a blind index."""
        return self._hashed("key of extra", key)

    def extra_value(self, key: str, value: Any) -> str:
        """Return the blind index of a value: the same for values that are equal as JSON."""
        text = json.dumps(_canonical(value), sort_keys=True, ensure_ascii=True)
        return self._hashed(f"value of extra {json.dumps(key)}", text)

    def metadata(self, metadata: MemoryMetadata) -> MemoryMetadata:
        """Return the metadata of an item as the inner store has it."""
        held = metadata.__dict__
        extra = held["extra"]
        if not self.hidden and not extra:
            return metadata
        indexed = {self.extra_key(key): self.extra_value(key, extra[key]) for key in extra.keys() & self.indexed}
        owners = {name: self.owner(name, held[name]) for name in SCOPE_FIELDS}
        return bare_metadata({**owners, "namespace": self.place(held["namespace"]), "extra": indexed})


def _canonical(value: Any) -> Any:
    """Return a JSON value in a form that is the same for all that are equal: 1 is 1.0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(inner) for inner in value]
    return value
