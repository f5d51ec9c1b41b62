"""The sessions of an owner in the order of time."""

from __future__ import annotations

from memoranda.items import MemoryMetadata
from memoranda.store import Owner, Store


async def newest_sessions(store: Store, within: MemoryMetadata | None) -> list[Owner]:
    """Return the sessions of an owner, or of all owners, the one that something was last said in first.

    A store lists them by their names, so all of them are looked at.
    """
    found = [session async for session in store.owners("session_id", within=within)]
    return sorted(found, key=lambda session: (session.last, session.value), reverse=True)
