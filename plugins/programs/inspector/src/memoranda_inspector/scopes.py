"""The owners, sessions and items that pages are about.

Addresses name them by keys that reveal nothing, since an address may end up in a history or a log. Keys also avoid what
addresses and forms cannot carry: a browser removes ``..`` from a path, a server takes an escaped ``/`` for a plain one,
and a form changes line breaks.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from memoranda.errors import InputError
from memoranda.items import SCOPE_FIELDS, MemoryMetadata
from memoranda.store import Owner as StoreOwner
from memoranda.store import ScopedStore, Store
from memoranda.store.owners import is_reserved


async def newest_sessions(store: Store, within: MemoryMetadata | None) -> list[StoreOwner]:
    """Return the sessions of an owner, or of all owners, the one that something was last said in first.

    A store lists them by their names, so all of them are looked at.
    """
    found = [session async for session in store.owners("session_id", within=within)]
    return sorted(found, key=lambda session: (session.last, session.value), reverse=True)


_LABELS = {"user_id": "user", "session_id": "session", "task_id": "task", "agent_id": "agent"}


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner that was chosen. Without metadata it stands for all owners together, which has a page of its own."""

    address: str
    metadata: MemoryMetadata | None
    _secret: bytes = field(repr=False)
    _items: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def key(self) -> str:
        """The key by which addresses and forms name the owner."""
        return self.address.rstrip("/").rpartition("/")[2]

    def item_key(self, item_id: str) -> str:
        """Return the key of an item, by which addresses and forms name it from now on."""
        key = _key(self._secret, item_id)
        self._items[key] = item_id
        return key

    def item_id(self, key: str) -> str:
        """Return the id of the item that a key names. Raises InputError for a key that was not given out."""
        if key not in self._items:
            raise InputError("There is no such item here, or this page is from an earlier run.", field="item")
        return self._items[key]

    @property
    def names(self) -> list[tuple[str, str]]:
        """What kind of owner it is, and which, from the broadest to the narrowest."""
        if self.metadata is None:
            return []
        given = ((_LABELS[name], getattr(self.metadata, name)) for name in SCOPE_FIELDS)
        return [(label, value) for label, value in given if value is not None]

    @property
    def has_facts(self) -> bool:
        """True for a user, an agent or both: facts belong to them, and not to one of their conversations."""
        kinds = {kind for kind, _ in self.names}
        return bool(kinds) and kinds <= {"user", "agent"}

    @property
    def user(self) -> str | None:
        """The user, if it is a user and nothing narrower."""
        names = self.names
        return names[0][1] if len(names) == 1 and names[0][0] == "user" else None


class Owners:
    """The owners that were listed, by the keys in their addresses. Made anew with every start.

    ``root`` is the first part of every address.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._secret = secrets.token_bytes(32)
        self._known: dict[str, Owner] = {}

    def named(self, metadata: MemoryMetadata | None) -> Owner:
        """Return the owner of this metadata, from now on known by its key."""
        fields = None if metadata is None else [getattr(metadata, name) for name in SCOPE_FIELDS]
        key = _key(self._secret, json.dumps(fields))
        return self._known.setdefault(key, Owner(f"{self._root}/o/{key}/", metadata, self._secret))

    def narrowed(self, owner: Owner, session: str) -> Owner:
        """Return one session of an owner, or of all owners together."""
        return self.named((owner.metadata or MemoryMetadata()).model_copy(update={"session_id": session}))

    def chosen(self, request: Request) -> Owner:
        """Return the owner that the address of a request names.

        Raises InputError for one that was not listed since the start.
        """
        return self.listed(request.path_params["key"])

    def listed(self, key: str) -> Owner:
        """Return the owner of a key. Raises InputError for one that was not listed since the start."""
        owner = self._known.get(key)
        if owner is None:
            raise InputError("This address is from an earlier run; choose an owner again.", field="owner")
        return owner


def handle_of(store: Store, scope: Mapping[str, Any]) -> Store:
    """Return a handle of an owner, which may be a space: whoever inspects a store has all of it."""
    if is_reserved(scope.get("user_id", "")):
        return ScopedStore(store, MemoryMetadata(**scope))
    return store.scoped(**scope)


def _key(secret: bytes, text: str) -> str:
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()[:32]
