"""How an item looks to an assistant, and the pages in which lists of them come."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from memoranda.errors import InputError
from memoranda.items import MemoryItem, now_text
from memoranda_mcp.tools.tool import Outcome

TAG = "tag:"
"""What a key of ``extra`` begins with that says that a memory has a tag, so that every engine can look for it."""


class Memory(Outcome):
    """A memory as an assistant sees it."""

    id: str
    content: str
    kind: str = Field(description="note, user, assistant, tool, summary, graph, …")
    version: int = Field(description="Give it to update, which changes a memory only if nobody else has.")
    created_at: str
    updated_at: str
    tags: list[str] = Field(default=[])
    importance: float | None = None
    conversation: str | None = None
    expires_at: str | None = None
    archived_by: str | None = Field(default=None, description="The summary that stands for this memory, if any.")


_KINDS = {"item": "note", "human": "user", "ai": "assistant"}


def memory_of(item: MemoryItem) -> Memory:
    """Return an item as an assistant sees it."""
    tags, importance = item.metadata.extra.get("tags"), item.metadata.extra.get("importance")
    return Memory(
        id=item.id,
        content=item.content,
        kind=_KINDS.get(item.memory_type, item.memory_type),
        version=item.version,
        created_at=item.created_at,
        updated_at=item.updated_at,
        tags=[tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else [],
        importance=importance if isinstance(importance, (int, float)) and not isinstance(importance, bool) else None,
        conversation=item.metadata.session_id,
        expires_at=item.expires_at,
        archived_by=item.archived_by,
    )


def labelled(extra: dict[str, Any], tags: Iterable[str] | None, importance: float | None) -> dict[str, Any]:
    """Return ``extra`` with other tags and another importance; None leaves what is there."""
    changed = dict(extra)
    if tags is not None:
        changed = {key: value for key, value in changed.items() if not key.startswith(TAG)}
        tags = list(dict.fromkeys(tags))
        changed |= {"tags": tags, **{f"{TAG}{tag}": True for tag in tags}}
        if not tags:
            del changed["tags"]
    if importance is not None:
        changed["importance"] = importance
    return changed


def with_tags(tags: Iterable[str] | None) -> dict[str, Any] | None:
    """Return the conditions on values that ask for all of these tags."""
    return {f"extra.{TAG}{tag}": True for tag in tags} if tags else None


def encoded(position: dict[str, Any]) -> str:
    """Return where a list goes on, as a text that an assistant hands back as it is."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def decoded(cursor: str, check: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the position that :func:`encoded` wrote. Raises InputError for any other text."""
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if isinstance(position, dict) and check(position):
            return position
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise InputError(
        "This cursor is none that this list gave. Leave it out to begin again, or give `next_cursor` as it was.",
        field="cursor",
    )


def after(newest: MemoryItem) -> str | None:
    """Return a moment before which all of a list was created that begins with this item, now and in its next pages.

    What is said to be of the future is not passed over; None, which is no bound, if there is no later moment.
    """
    last = datetime.fromisoformat(max(now_text(), newest.created_at))
    try:
        return (last + timedelta(microseconds=1)).isoformat()
    except OverflowError:
        return None


def position_of(cursor: str | None) -> tuple[int, str | None]:
    """Return how many to pass over and the time at which the list was begun, which a cursor carries."""
    if cursor is None:
        return 0, None
    position = decoded(
        cursor,
        lambda found: (
            type(found.get("offset")) is int
            and 0 <= found["offset"] < 2**31
            and isinstance(found.get("until"), (str, type(None)))
        ),
    )
    return position["offset"], position["until"]
