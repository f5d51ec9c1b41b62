"""Names of owners in the inner store, and the part of a filter that it can answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store.backend import (
    Archived,
    AtLeast,
    Below,
    Condition,
    Created,
    Expiry,
    ExtraEquals,
    FieldEquals,
    Filter,
    InBranch,
    InScope,
    OfUsers,
    Past,
    Value,
    bare_metadata,
)
from memoranda_encrypt.keyring import KeyRing

_BRANCH = "branch-"
"""How the id of a forked session begins: it is random, and the inner store must recognise it."""


class StoredNames:
    """Translates metadata into the form of the inner store."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring
        self.hidden = ring.hide_owners
        self.indexed = frozenset(ring.indexed)
        self._hashed = lru_cache(maxsize=4096)(ring.hashed)

    def forget(self) -> None:
        self._hashed.cache_clear()

    def owner(self, field: str, value: str | None) -> str | None:
        if value is None or not self.hidden or value.startswith(_BRANCH):
            return value
        return self._hashed(field, value)

    def place(self, namespace: tuple[str, ...]) -> tuple[str, ...]:
        """Return the namespace that the inner store has. It keeps the nesting."""
        return tuple(self._hashed("namespace", each) for each in namespace) if self.hidden else namespace

    def extra_key(self, key: str) -> str:
        return self._hashed("key of extra", key)

    def extra_value(self, key: str, value: Any) -> str:
        """Return the blind index of a value: the same for values that are equal as JSON."""
        text = json.dumps(_canonical(value), sort_keys=True, ensure_ascii=True)
        return self._hashed(f"value of extra {json.dumps(key)}", text)

    def metadata(self, metadata: MemoryMetadata) -> MemoryMetadata:
        held = metadata.__dict__
        extra = held["extra"]
        if not self.hidden and not extra:
            return metadata
        indexed = {self.extra_key(key): self.extra_value(key, extra[key]) for key in extra.keys() & self.indexed}
        owners = {name: self.owner(name, held[name]) for name in SCOPE_FIELDS}
        return bare_metadata({**owners, "namespace": self.place(held["namespace"]), "extra": indexed})


def _canonical(value: Any) -> Any:
    """Return a JSON value in a canonical form, equal for equal values: 1 is 1.0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _canonical(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(inner) for inner in value]
    return value


_READABLE = frozenset(
    {"id", "memory_type", "status", "created_at", "updated_at", "expires_at", "version", "archived_by"}
)
_AS_THEY_ARE = (Archived, AtLeast, Created, Expiry)
_EQUALITY = ("$eq", "$ne", "$in", "$exists")


@dataclass(frozen=True, slots=True)
class Divided:
    """A filter in two parts: ``stored`` for the inner store, ``rest`` for each decrypted item, or None."""

    stored: Filter
    rest: Filter | None

    @property
    def matches(self) -> Callable[[MemoryItem], bool] | None:
        return None if self.rest is None else self.rest.matches


def divided(wanted: Filter, names: StoredNames) -> Divided:
    """Return the two parts of a filter: an item matches it if its stored form and it itself match them."""
    metadata, extra = divided_metadata(wanted.metadata, names)
    stored: list[Condition] = []
    rest: list[Condition] = []
    for condition in wanted.further:
        translated = _stored(condition, names)
        if translated is None:
            rest.append(condition)
        else:
            stored.append(translated)
    inner = Filter("", metadata, wanted.memory_type, wanted.status, wanted.archived, tuple(stored))
    if not (wanted.query or extra or rest):
        return Divided(inner, None)
    asked = MemoryMetadata(extra=extra) if extra else None
    return Divided(inner, Filter(wanted.query, asked, archived=None, further=tuple(rest)))


def divided_metadata(
    metadata: MemoryMetadata | None, names: StoredNames
) -> tuple[MemoryMetadata | None, dict[str, object]]:
    """Return a metadata filter for the inner store, and the conditions on ``extra`` that need decrypted items."""
    if metadata is None or not (names.hidden or metadata.extra):
        return metadata, {}
    return names.metadata(metadata), {key: metadata.extra[key] for key in metadata.extra if key not in names.indexed}


def _stored(condition: Condition, names: StoredNames) -> Condition | None:
    """Return a condition for the inner store; None if that cannot answer it."""
    if isinstance(condition, _AS_THEY_ARE):
        return condition
    if isinstance(condition, FieldEquals):
        return condition if condition.field in _READABLE else None
    if isinstance(condition, InScope):
        return InScope(condition.field, names.owner(condition.field, condition.value) or "")
    if isinstance(condition, OfUsers):
        return None if names.hidden else condition
    if isinstance(condition, Below):
        return Below(names.place(condition.place))
    if isinstance(condition, ExtraEquals):
        if condition.key not in names.indexed:
            return None
        return ExtraEquals(names.extra_key(condition.key), names.extra_value(condition.key, condition.value))
    if isinstance(condition, Value):
        return _stored_value(condition, names)
    if isinstance(condition, Past):
        return replace(condition, user=names.owner("user_id", condition.user))
    if isinstance(condition, InBranch):
        return _stored_branch(condition, names)
    return None


def _stored_value(condition: Value, names: StoredNames) -> Value | None:
    name, value = condition.name, condition.value
    if condition.in_extra:
        if name not in names.indexed or condition.operator not in _EQUALITY:
            return None
        key = names.extra_key(name)
        if condition.operator == "$exists":
            return replace(condition, name=key)
        if condition.operator == "$in":
            return replace(condition, name=key, value=[names.extra_value(name, each) for each in value])
        return replace(condition, name=key, value=names.extra_value(name, value))
    if name in _READABLE:
        return condition
    if name not in SCOPE_FIELDS and name != "namespace":
        return None
    if not names.hidden:
        return condition
    if condition.operator not in _EQUALITY:
        return None
    if condition.operator == "$exists":
        return condition

    def owner(given: object) -> object:
        if name == "namespace":
            return list(names.place(tuple(given))) if isinstance(given, (list, tuple)) and _texts(given) else given
        return names.owner(name, given) if isinstance(given, str) else given

    return replace(condition, value=[owner(each) for each in value] if condition.operator == "$in" else owner(value))


def _texts(values: object) -> bool:
    return isinstance(values, (list, tuple)) and all(isinstance(each, str) for each in values)


def _stored_branch(condition: InBranch, names: StoredNames) -> InBranch | None:
    within = [_stored(each, names) for each in condition.within]
    asked = tuple(each for each in within if each is not None)
    return replace(
        condition,
        session=names.owner("session_id", condition.session) or "",
        user=names.owner("user_id", condition.user),
        pasts=tuple((names.owner("session_id", session) or "", upto) for session, upto in condition.pasts),
        within=asked,
    )
