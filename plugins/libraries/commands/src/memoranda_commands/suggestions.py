"""What a mistyped name may have meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from memoranda.store import Capability

if TYPE_CHECKING:
    from memoranda.store import Store


async def similar_users(store: Store, user_id: str, *, deleted: bool = False) -> list[str]:
    """Return the ids of users of a store that look like this one, for a "did you mean"; most similar first.

    With ``deleted``, users who have only deleted items count, too: every item is read for that.
    """
    if deleted and Capability.DELETE in store.capabilities:
        known = {item.metadata.user_id or "" async for item in store.scan(include_deleted=True)}
    else:
        known = {str(owner.value) async for owner in store.owners("user_id", counts=False)}
    known -= {"", user_id}
    return get_close_matches(user_id, known) or [name for name in known if name.casefold() == user_id.casefold()]
