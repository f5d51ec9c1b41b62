"""Showing a context again: the same bytes, or what has changed since."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from memoranda.errors import unknown_name
from memoranda.integrity import whole_groups
from memoranda.items import MemoryItem, utc_text
from memoranda.store import Capability, Store, load_item
from memoranda.store.backend import as_one_session, of_owner
from memoranda_messages import to_anthropic, to_openai, to_responses
from memoranda_messages.prompts import prompt_text
from memoranda_receipts.layout import messages_of
from memoranda_receipts.records import TOLD, Receipt, Shown, content_hash, digest_of, shown_fields

ChangeKind = Literal["changed", "updated", "archived", "deleted", "expired", "purged", "elsewhere"]
"""What happened to an item: ``updated`` is another version with the same content, ``deleted`` can be restored."""

_STILL_SHOWN = ("updated", "archived")
"""The changes after which an item is still what it was."""

_GONE = ("expired", "purged")
"""The changes after which nothing shows an item, not even a receipt that still has its content."""

FORMATS: Mapping[str, Callable[[Sequence[MemoryItem]], Any]] = {
    "openai": to_openai,
    "responses": to_responses,
    "anthropic": to_anthropic,
    "items": lambda items: [json.loads(shown_fields(item)) for item in items],
}
"""The functions that write a context in each format; ``items`` has all that a model may be shown of each item."""


PROMPT = "prompt"
"""The format of a context as one text."""


def message_bytes(items: Sequence[MemoryItem], format: str = "openai") -> bytes:
    """Return a context in a format, as JSON in UTF-8. Raises InputError for a format that there is not."""
    write = FORMATS.get(format)
    if write is None:
        raise unknown_name("format", format, FORMATS, field="format")
    return json.dumps(write(items), ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class ItemChange:
    """An item that is not as it was when it was shown; ``version`` is the one it has now, if it is there."""

    id: str
    change: ChangeKind
    shown_version: int
    version: int | None = None
    role: str = "conversation"

    def __str__(self) -> str:
        return f"{self.id} was {_SAID[self.change]}"


_SAID: Mapping[ChangeKind, str] = {
    "changed": "changed since",
    "updated": "updated since, with the same content",
    "archived": "archived since",
    "deleted": "deleted since",
    "expired": "shown and has expired",
    "purged": "purged since",
    "elsewhere": "given to the context and is not an item of this store",
}


_REMARK = "remark-"
"""What the ids of remarks begin with; the rest is the id of the item."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A context shown again.

    If it is ``exact``, ``items`` are the messages as they were: contents that are the same, or that the receipt or a
    store with revisions kept of what was changed or deleted. Otherwise they are the rest, without what is named in
    ``missing``; what was purged or has expired is always among that.
    """

    receipt: Receipt
    items: list[MemoryItem] = field(repr=False)
    changes: tuple[ItemChange, ...]
    missing: tuple[str, ...]
    exact: bool

    @property
    def gone(self) -> tuple[str, ...]:
        """The ids of items that were purged or have expired since."""
        return tuple(change.id for change in self.changes if change.change in _GONE)

    def bytes(self, format: str = "openai") -> bytes:
        """Return the messages in a format, as JSON; the same bytes as then if the replay is exact.

        ``"prompt"`` is the context as one text, as ``str(context)`` and the MCP server give it.
        """
        if format == PROMPT:
            return self.prompt().encode()
        return message_bytes(self.items if self.exact else whole_groups(self.items), format)

    def messages(self, format: str = "openai") -> Any:
        """Return the messages in a format."""
        return self.prompt() if format == PROMPT else json.loads(self.bytes(format))

    def prompt(self) -> str:
        """Return the context as one text."""
        shown = set(self.receipt.ids)
        said = [item for item in self.items if item.id in shown]
        texts = [item.content for item in self.items if item.id not in shown]
        added = dict(zip(self._added_parts(), texts, strict=True))
        return prompt_text(
            added.get("system", ""),
            added.get("notes", ""),
            said if self.exact else whole_groups(said),
            added.get("request"),
            added.get("memories", ""),
        )

    def _added_parts(self) -> list[str]:
        """Return what each message that is no item is: the request comes last, and memories quote what was found."""
        layout = self.receipt.layout or ()
        parts = []
        for place in layout:
            if isinstance(place, int) or "of" in place:
                continue
            quoted = {self.receipt.shown[piece[0]].role for piece in place["pieces"] if not isinstance(piece, str)}
            if place["type"] == "system":
                parts.append("system")
            elif not quoted.isdisjoint(("long-term", "recent")):
                parts.append("memories")
            else:
                parts.append("request" if place is layout[-1] else "notes")
        return parts


async def replay(stores: Sequence[Store], receipt: Receipt) -> Replay:
    """Show a context again from the first of several stores that has each item."""
    found = await stored(stores, receipt.ids)
    found |= await _known_then(of_owner(stores[0]), receipt)
    lost = [entry.id for entry in receipt.shown if entry.id not in found]
    deleted = await _deleted(stores, lost)
    kept = receipt.contents or {}
    items: list[MemoryItem | None] = []
    changes: list[ItemChange] = []
    missing: list[str] = []
    types = stores[0].item_types
    now = _now(stores[0])
    for entry in receipt.shown:
        item = found.get(entry.id)
        change = change_of(entry, item, is_deleted=entry.id in deleted, now=now)
        if change is not None:
            changes.append(
                ItemChange(entry.id, change, entry.version, None if item is None else item.version, entry.role)
            )
        if change is not None and change not in _STILL_SHOWN:
            if change in _GONE:
                item = None
            elif entry.id in kept:
                item = load_item(kept[entry.id], types)
            else:
                item = await _earlier(stores, entry)
            if item is None:
                missing.append(entry.id)
        items.append(item)

    def mark(position: int) -> str:
        entry = receipt.shown[position]
        return f"[{entry.id}: {next(each.change for each in changes if each.id == entry.id)}]"

    one_session = [None if item is None else as_one_session([item], receipt.session)[0] for item in items]
    messages = messages_of(receipt.layout, one_session, types, mark)
    exact = not missing and digest_of(messages) == receipt.digest
    return Replay(receipt, messages, tuple(changes), tuple(missing), exact)


async def _known_then(store: Store, receipt: Receipt) -> dict[str, MemoryItem]:
    """Return what the observers of a store told a context, if they still say the same of that moment: no item has it.

    It is what was known, and the remarks on items.
    """
    wanted = {entry.id: entry for entry in receipt.shown if entry.role in TOLD}
    asked: dict[str, Any] = {"min_trust": receipt.parameters.get("min_trust"), "at": receipt.at}
    told: dict[str, str] = {}
    if tokens := receipt.parameters.get("known"):
        told["profile"] = "\n".join(await store.known(tokens=tokens, **asked))
    on_items = [item_id.removeprefix(_REMARK) for item_id in wanted if item_id.startswith(_REMARK)]
    remarks = await store.outdated(on_items, **asked)
    told |= {f"{_REMARK}{item_id}": remark for item_id, remark in remarks.items()}
    items = [MemoryItem(id=each, content=told[each]) for each in wanted if each in told]
    return {item.id: item for item in items if content_hash(item) == wanted[item.id].hash}


def change_of(entry: Shown, item: MemoryItem | None, *, is_deleted: bool, now: str) -> ChangeKind | None:
    """Return what happened to an item that was shown; None if it is as it was."""
    if item is None and entry.elsewhere:
        return "elsewhere"
    if item is None:
        expired = entry.expires_at is not None and entry.expires_at <= now
        return "deleted" if is_deleted else "expired" if expired else "purged"
    if content_hash(item) != entry.hash:
        return "changed"
    if item.archived_by is not None and not entry.archived:
        return "archived"
    return "updated" if item.version != entry.version else None


async def stored(stores: Sequence[Store], ids: Iterable[str]) -> dict[str, MemoryItem]:
    """Return the items of these ids that the stores have, whichever session of the user they belong to."""
    found: dict[str, MemoryItem] = {}
    for store in stores:
        missing = [item_id for item_id in ids if item_id not in found]
        if missing:
            found |= {item.id: item for item in await of_owner(store).get_many(missing)}
        missing = [item_id for item_id in missing if item_id not in found]
        if missing:
            found |= await _shown_in(store, missing)
    return found


async def within(stores: Sequence[Store], ids: Sequence[str]) -> dict[str, MemoryItem]:
    """Return the items of these ids that lie within the bounds of the stores or handles, session and task included."""
    found: dict[str, MemoryItem] = {}
    for store in stores:
        missing = [item_id for item_id in ids if item_id not in found]
        if missing:
            found |= await _shown_in(store, missing)
    return found


async def _shown_in(store: Store, ids: Sequence[str]) -> dict[str, MemoryItem]:
    """Return the items of these ids that a handle shows: the past of a forked session, too, which is another's."""
    wanted = {"id": {"$in": list(ids)}}
    return {item.id: item for item in await store.search(where=wanted, archived=None, limit=len(ids))}


async def _deleted(stores: Sequence[Store], ids: Sequence[str]) -> set[str]:
    """Return which of these ids belong to items that are deleted and can be restored."""
    found: set[str] = set()
    for store in stores if ids else ():
        if Capability.DELETE in store.capabilities:
            wanted = {"id": {"$in": list(ids)}}
            found |= {item.id async for item in of_owner(store).scan(include_deleted=True, where=wanted)}
    return found


async def unheld(store: Store, ids: Sequence[str]) -> list[str]:
    """Return which of these ids a store does not have any more, neither shown nor deleted."""
    held = {item.id for item in await store.get_many(ids)} | await _deleted([store], ids)
    return [item_id for item_id in ids if item_id not in held]


async def _earlier(stores: Sequence[Store], entry: Shown) -> MemoryItem | None:
    """Return an item as it was shown from a store that keeps revisions, if one does."""
    for store in stores:
        wide = of_owner(store)
        if wide.keeps_versions:
            for item in await wide.versions(entry.id):
                if item.version == entry.version and content_hash(item) == entry.hash:
                    return item
    return None


def _now(store: Store) -> str:
    """Return the present by the clock of a store, by which items expire."""
    return utc_text(datetime.fromtimestamp(store.clock(), UTC))
