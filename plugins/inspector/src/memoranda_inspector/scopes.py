"""Whose memories a page is about, under a name that says nothing: an address may end up in a history or a log."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass

from memoranda.items import SCOPE_FIELDS, MemoryMetadata

_LABELS = {"user_id": "user", "session_id": "session", "task_id": "task", "agent_id": "agent"}


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner that was chosen. Without metadata it is everybody at once, which is a step of its own."""

    key: str
    metadata: MemoryMetadata | None

    @property
    def names(self) -> list[tuple[str, str]]:
        """What kind of owner it is, and which, from the broadest to the narrowest."""
        if self.metadata is None:
            return []
        given = ((field, getattr(self.metadata, field)) for field in SCOPE_FIELDS)
        return [(_LABELS[field], value) for field, value in given if value is not None]

    @property
    def user(self) -> str | None:
        """The user, if it is a user and nothing narrower."""
        names = self.names
        return names[0][1] if len(names) == 1 and names[0][0] == "user" else None


class Owners:
    """The owners that were listed, by the names that addresses use. Made anew with every start."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._known: dict[str, Owner] = {}

    def named(self, metadata: MemoryMetadata | None) -> Owner:
        """Return the owner of this metadata, from now on known by its key."""
        fields = None if metadata is None else [getattr(metadata, field) for field in SCOPE_FIELDS]
        key = hmac.new(self._secret, json.dumps(fields).encode(), hashlib.sha256).hexdigest()[:32]
        return self._known.setdefault(key, Owner(key, metadata))

    def get(self, key: str) -> Owner | None:
        """Return the owner of a key that was given out, or None."""
        return self._known.get(key)
