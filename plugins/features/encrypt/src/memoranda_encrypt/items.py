"""How an item becomes one of the inner store and back, and its vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from pydantic_core import from_json, to_json

from memoranda.embeddings import Embeddings
from memoranda.items import SCOPE_FIELDS, BranchMemory, MemoryItem, MemoryMetadata
from memoranda.loops import offload
from memoranda.shapes import json_text
from memoranda.store.backend import bare_item, bare_metadata, fields_of, further_values, make_item
from memoranda.store.fields import TRUSTED
from memoranda_backend.ranking import Weights, embed_passages, embed_query, has_text, pack_vector
from memoranda_encrypt.filters import StoredNames
from memoranda_encrypt.keyring import DataKey, KeyRing
from memoranda_encrypt.masters import DamagedItemError
from memoranda_encrypt.sealing import key_id_of, opened, place_of, sealed, sealed_text

BODY, VECTOR = "body", "vector"
"""The two fields that are sealed: everything that was said, and the vectors of its content."""

READABLE = ("archived_by", "ttl", "expires_at", "trust")
"""What stays readable beside ids, owners, type, status, times and version: what the engine searches and expires by."""

_AUTHENTICATED = ("id", "memory_type", "status", "created_at", "updated_at", "version")
_BRANCH_FIELDS = ("parent", "at", "earlier", "places")
_KEPT = (*_AUTHENTICATED, *READABLE)
_BLANK = fields_of(MemoryItem).blank
_PLAIN, _JSON = b"t", b"j"

Said = str | bytes
"""What an item says: its content, where that is all, or a JSON object behind its mark."""


class Draft:
    """An item about to be sealed. It shares nothing with the caller's item, which may change meanwhile."""

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

    @property
    def said(self) -> Said:
        """What the item says, as :func:`open_body` returns it."""
        return self.content if self.body[:1] == _PLAIN else self.body

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
    """Return the part of an approval that the inner store needs to accept it: the approved version."""
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


def open_body(stored: MemoryItem, key: DataKey) -> Said:
    """Return the opened body of a stored item. Raises DamagedItemError if it is not what was sealed."""
    try:
        plain = opened(key, BODY, place_of(stored), sealed_text(stored), stored)
        return plain[1:].decode() if plain[:1] == _PLAIN else plain
    except (TypeError, ValueError):
        raise DamagedItemError(stored.id, stored.version) from None


def built(stored: MemoryItem, said: Said, types: Mapping[str, type[MemoryItem]]) -> MemoryItem:
    """Build the item of a stored one and its opened body. Only the authenticated fields of the stored one count.

    The stored item may become the item: give a copy where it is needed afterwards.
    """
    held, cls = stored.__dict__, type(stored)
    usual = _USUAL.get(cls)
    if (
        usual is None
        or types.get(held["memory_type"], MemoryItem) is not cls
        or stored.__pydantic_extra__
        or usual[0](held) != usual[1]
    ):
        return _built_anew(stored, said, types)
    # As it is nearly always: there is nothing in it that was not authenticated.
    if type(said) is str:
        if held["metadata"].__dict__["extra"]:
            held["metadata"] = bare_metadata({**held["metadata"].__dict__, "extra": {}})
        held["content"] = said
        held["payload"] = None
        return stored
    further = _taken_apart(held, said)
    held["payload"] = None
    fields_of(cls).take(held, further)
    if further and stored.__pydantic_extra__ is not None:
        stored.__pydantic_extra__.update(further)
    return stored


def _built_anew(stored: MemoryItem, said: Said, types: Mapping[str, type[MemoryItem]]) -> MemoryItem:
    held = stored.__dict__
    values = {name: held[name] for name in (*_KEPT, "metadata")}
    further = {name: held[name] for name in _BRANCH_FIELDS if name in held and held["memory_type"] == "branch"}
    further.update(_taken_apart(values, said))
    base = {name: values[name] for name in (*_AUTHENTICATED, "content", "metadata")}
    further.update({name: held[name] for name in READABLE if held[name] is not None})
    return make_item({**base, "status": str(base["status"])}, further, types)


def _taken_apart(fields: dict[str, Any], said: Said) -> dict[str, Any]:
    held = fields["metadata"].__dict__
    further: dict[str, Any] = {"content": said} if isinstance(said, str) else from_json(said[1:])
    fields["content"], extra = further.pop("content"), further.pop("metadata.extra", {})
    owners = further.pop("metadata.owner", None)
    if owners is not None:
        held = {**dict(zip(SCOPE_FIELDS, owners, strict=False)), "namespace": tuple(owners[-1])}
    fields["metadata"] = bare_metadata({**held, "extra": extra})
    return further


_USUAL: dict[type[MemoryItem], tuple[Callable[[dict[str, Any]], tuple[Any, ...]], tuple[Any, ...]]] = {}
"""By class: what takes the fields of a stored item that hold nothing, and the values that they have then."""

for _cls, _known in TRUSTED.items():
    _names = [name for name in _known.names if name not in (*READABLE, "payload", *_BRANCH_FIELDS)]
    _taken = itemgetter(*_names)
    _USUAL[_cls] = _taken, _taken(_cls(content="").__dict__)


def open_vectors(stored: MemoryItem, key: DataKey) -> bytes | None:
    """Return the vectors that a stored item holds; None if it has none."""
    text = (stored.__pydantic_extra__ or {}).get(VECTOR)
    if not isinstance(text, str):
        return None
    return opened(key, VECTOR, place_of(stored), text, stored)


class VectorSealer:
    """Makes vectors, and packs them with the name of the model that made them."""

    def __init__(self, embeddings: Embeddings, weights: Weights | None) -> None:
        self._embeddings = embeddings
        self.dimension = embeddings.dimension
        self.weights = weights or Weights()
        self._model = f"{embeddings.identity()} ({embeddings.dimension} dimensions)\0".encode()

    async def of(self, drafts: Sequence[Draft], known: Mapping[str, bytes]) -> list[bytes | None]:
        """Return the vectors of drafts, ready to be sealed; None for a content without text."""
        asked = [draft for draft in drafts if has_text(draft.content) and draft.item.id not in known]
        made = dict(
            zip([draft.item.id for draft in asked], await self.embedded([d.content for d in asked]), strict=True)
        )
        found = {**known, **made}
        return [self._model + found[draft.item.id] if draft.item.id in found else None for draft in drafts]

    async def embedded(self, texts: Sequence[str]) -> list[bytes]:
        """Return the packed vectors of texts. Raises EmbeddingError when the embedder fails."""
        if not texts:
            return []
        vectors = await embed_passages(self._embeddings, texts, self.weights.passage)
        return await offload(sum(map(len, vectors)), _all_packed, vectors, self.dimension)

    async def query(self, text: str) -> tuple[Sequence[float], float]:
        return await embed_query(self._embeddings, text)

    def opened(self, stored: MemoryItem, ring: KeyRing) -> bytes | None:
        """Return the packed vectors of a stored item, whose key is at hand; None without one of this model."""
        key = ring.known(key_id_of(sealed_text(stored)))
        packed = None if key is None else open_vectors(stored, key)
        return packed[len(self._model) :] if packed is not None and packed.startswith(self._model) else None


def _all_packed(vectors: Sequence[Sequence[Sequence[float]]], dimension: int) -> list[bytes]:
    return [b"".join([pack_vector(vector, dimension) for vector in passages]) for passages in vectors]
