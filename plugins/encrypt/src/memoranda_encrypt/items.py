"""How an item becomes one of the inner store and back: what stays readable, and what is sealed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from operator import itemgetter
from typing import Any

from pydantic_core import from_json, to_json

from memoranda.items import SCOPE_FIELDS, BranchMemory, MemoryItem, MemoryMetadata
from memoranda.shapes import json_text
from memoranda.store.backend import bare_item, bare_metadata, fields_of, further_values, make_item
from memoranda.store.fields import TRUSTED
from memoranda_encrypt.errors import DamagedItemError
from memoranda_encrypt.keyring import DataKey
from memoranda_encrypt.owners import StoredNames
from memoranda_encrypt.sealing import opened, place_of, sealed, sealed_text

BODY, VECTOR = "body", "vector"
"""The two fields that are sealed: everything that was said, and the vectors of its content."""

READABLE = ("archived_by", "ttl", "expires_at", "trust")
"""What stays readable beside ids, owners, type, status, times and version: what the engine searches and expires by."""

_AUTHENTICATED = ("id", "memory_type", "status", "created_at", "updated_at", "version")
_BRANCH_FIELDS = ("parent", "at", "earlier", "places")
_KEPT = (*_AUTHENTICATED, *READABLE)
_BLANK = fields_of(MemoryItem).blank
_PLAIN, _JSON = b"t", b"j"


class Draft:
    """An item that is about to be sealed. It keeps nothing of the caller's, who may change the item meanwhile."""

    __slots__ = ("body", "content", "item", "user_id")

    def __init__(self, item: MemoryItem, names: StoredNames) -> None:
        held = item.__dict__
        metadata: MemoryMetadata = held["metadata"]
        self.user_id: str | None = metadata.user_id
        self.content: str = held["content"]
        further = further_values(item, checked=True)
        if held["memory_type"] == "branch":
            further = {name: value for name, value in further.items() if name not in _BRANCH_FIELDS or names.hidden}
        for name in READABLE:
            further.pop(name, None)
        if metadata.extra:
            further["metadata.extra"] = metadata.extra
        if names.hidden:
            further["metadata.owner"] = [*(getattr(metadata, name) for name in SCOPE_FIELDS), list(metadata.namespace)]
        self.body = _body(self.content, further)
        fields = _BLANK.copy()
        for name in _KEPT:
            fields[name] = held[name]
        fields["content"] = ""
        fields["metadata"] = names.metadata(metadata)
        if isinstance(item, BranchMemory):
            known = {**fields, **_stored_branch(item, names)}
            self.item: MemoryItem = bare_item(BranchMemory, known, {})
        else:
            self.item = bare_item(MemoryItem, fields, _approved(further.get("approval")))

    def sealed(self, key: DataKey, version: int, vectors: bytes | None = None, *, expected: int = 0) -> MemoryItem:
        """Return the item for the inner store to keep as this version, instead of the one that is ``expected``."""
        held = self.item.__dict__
        held["version"] = version
        place = place_of(self.item)
        held["version"] = expected
        held["payload"] = sealed(key, BODY, place, self.body)
        further = self.item.__pydantic_extra__
        if vectors is not None and further is not None:
            further[VECTOR] = sealed(key, VECTOR, place, vectors)
        return self.item


def _approved(approval: Any) -> dict[str, Any]:
    """Return what the inner store must see of an approval to accept it: which version it is of."""
    return {"approval": {"version": approval.get("version")}} if isinstance(approval, Mapping) else {}


def _body(content: str, further: dict[str, Any]) -> bytes:
    if not further:
        return _PLAIN + content.encode()
    further["content"] = content
    try:
        return _JSON + to_json(further)
    except ValueError:  # A mapping that is no dict, or nested deeply.
        return _JSON + json_text(further).encode()


def _stored_branch(item: BranchMemory, names: StoredNames) -> dict[str, Any]:
    def session(name: str) -> str:
        return names.owner("session_id", name) or ""

    return {
        "parent": session(item.parent) if item.parent else "",
        "at": item.at,
        "earlier": {session(name): value for name, value in item.earlier.items()},
        "places": {session(name): value for name, value in item.places.items()},
    }


def open_body(stored: MemoryItem, key: DataKey) -> bytes:
    """Return what a stored item says. Raises DamagedItemError if it is not what was sealed."""
    try:
        return opened(key, BODY, place_of(stored), sealed_text(stored), stored)
    except (TypeError, ValueError):
        raise DamagedItemError(stored.id, stored.version) from None


def built(stored: MemoryItem, plain: bytes, types: Mapping[str, type[MemoryItem]]) -> MemoryItem:
    """Return the item that a stored one is, which says this. Of the stored one only what is authenticated counts.

    The stored item may become the item: give a copy where it is needed afterwards.
    """
    held = stored.__dict__
    metadata: MemoryMetadata = held["metadata"]
    if plain[:1] == _PLAIN:
        content, further = plain[1:].decode(), {}
        if metadata.extra:
            metadata = bare_metadata({**metadata.__dict__, "extra": {}})
    else:
        further = from_json(plain[1:])
        content, extra = further.pop("content"), further.pop("metadata.extra", {})
        owners = further.pop("metadata.owner", None)
        owner = metadata.__dict__ if owners is None else dict(zip(SCOPE_FIELDS, owners, strict=False))
        place = owner["namespace"] if owners is None else tuple(owners[-1])
        metadata = bare_metadata({**owner, "namespace": place, "extra": extra})
    if held["memory_type"] == "branch":
        further = {**{name: held[name] for name in _BRANCH_FIELDS if name in held}, **further}
    cls = types.get(held["memory_type"], MemoryItem)
    known = TRUSTED.get(cls)
    if known is None:
        base = {name: held[name] for name in _AUTHENTICATED}
        lasting = {name: held[name] for name in READABLE if held[name] is not None}
        return make_item({**base, "content": content, "metadata": metadata}, {**further, **lasting}, types)
    others, usual = _sealed_fields(cls)
    if type(stored) is cls and not stored.__pydantic_extra__ and others(held) == usual:
        fields = held  # As it is nearly always: there is nothing in it that was not authenticated.
        fields["payload"] = None
    else:
        fields = known.blank.copy()
        for name in _KEPT:
            fields[name] = held[name]
    fields["content"], fields["metadata"] = content, metadata
    if fields is held and not further:
        return stored
    if further or known.nested:
        known.take(fields, further)
    return bare_item(cls, fields, further)


@cache
def _sealed_fields(cls: type[MemoryItem]) -> tuple[Callable[[dict[str, Any]], tuple[Any, ...]], tuple[Any, ...]]:
    """Return what takes the fields of a stored item that hold nothing, and the values that they have then."""
    names = [name for name in fields_of(cls).names if name not in (*READABLE, "payload", *_BRANCH_FIELDS)]
    taken = itemgetter(*names)
    return taken, taken(cls(content="").__dict__)


def open_vectors(stored: MemoryItem, key: DataKey) -> bytes | None:
    """Return the vectors that a stored item holds; None if it has none."""
    text = (stored.__pydantic_extra__ or {}).get(VECTOR)
    if not isinstance(text, str):
        return None
    return opened(key, VECTOR, place_of(stored), text, stored)
