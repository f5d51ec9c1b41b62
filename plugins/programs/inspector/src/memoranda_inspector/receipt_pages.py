"""The pages of receipts: what a model was shown, at the turn it belongs to, alone or two beside each other.

They are there if memoranda-receipts is installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from memoranda.errors import InputError
from memoranda.items import SCOPE_FIELDS, MemoryItem
from memoranda.store import Store
from memoranda_inspector.conversation import Conversation, Entry
from memoranda_inspector.pages import rendered
from memoranda_inspector.scopes import Owner, Owners
from memoranda_inspector.text import json_text, shortened

if TYPE_CHECKING:
    from memoranda_receipts import Receipt, Receipts

MOST_LISTED = 200
"""How many of the newest receipts a page looks at."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An item of a receipt on a page: what it says now, and what is to be said of it."""

    item_id: str
    role: str
    text: str
    note: str = ""


class ReceiptPages:
    """What models were shown of an owner's items."""

    def __init__(self, store: Store, owners: Owners, shared: dict[str, Any]) -> None:
        self._store = store
        self._owners = owners
        self._shared = shared

    async def overview(self, request: Request) -> Response:
        """List the receipts, newest first, to choose one, or two to compare."""
        owner = self._owners.chosen(request)
        return self._page("receipts.html", owner, receipts=await self._receipts(owner).list(limit=MOST_LISTED))

    async def one(self, request: Request) -> Response:
        """Show a context again, and what has changed since."""
        owner = self._owners.chosen(request)
        receipts = self._receipts(owner)
        replay = await receipts.replay(owner.item_id(request.path_params["item"]))
        notes = {change.id: f"{change.change} since" for change in replay.changes}
        payload = json_text(replay.messages())
        values = {"replay": replay, "rows": await self._rows(receipts, replay.receipt, notes), "payload": payload}
        return self._page("receipt.html", owner, **values, receipt=replay.receipt)

    async def compare(self, request: Request) -> Response:
        """Show two receipts beside each other, with what entered and left."""
        owner = self._owners.chosen(request)
        receipts = self._receipts(owner)
        keys = [request.query_params.get(name, "") for name in ("a", "b")]
        if not all(keys):
            raise InputError("Choose two receipts to compare.", field="receipt")
        earlier, later = sorted([await receipts.get(owner.item_id(key)) for key in keys], key=lambda each: each.at)
        found = await receipts.diff(earlier, later)
        notes = {each.id: f"left: {each.rule}" for each in found.left}
        notes |= {each.id: f"entered: {each.rule}" for each in found.entered}
        notes |= dict.fromkeys(found.changed, "shown in another version")
        sides = [(each, await self._rows(receipts, each, notes)) for each in (earlier, later)]
        return self._page("receipts_compared.html", owner, sides=sides, difference=found)

    async def placed(self, conversation: Conversation, owner: Owner) -> Conversation:
        """Return a conversation with its receipts, each at the last turn before it."""
        found = await self._receipts(owner).list(limit=MOST_LISTED)
        for receipt in reversed(found):
            turn = _turn_of(receipt, conversation.entries)
            if turn is not None:
                turn.receipts.append(receipt)
        signs = f"{conversation.mark} {' '.join(receipt.id for receipt in found)}"
        return replace(conversation, mark=hashlib.sha256(signs.encode()).hexdigest()[:16])

    async def seen(self, owner: Owner, item: MemoryItem) -> list[Receipt]:
        """Return the receipts that showed an item, newest first."""
        return (await self._receipts(owner).seen(item))[:MOST_LISTED]

    async def _rows(self, receipts: Receipts, receipt: Receipt, notes: Mapping[str, str]) -> list[Shown]:
        contents = await receipts.contents(receipt)
        return [
            Shown(entry.id, entry.role, shortened(contents.get(entry.id, ""))[0], notes.get(entry.id, ""))
            for entry in receipt.shown
        ]

    def _receipts(self, owner: Owner) -> Receipts:
        from memoranda_receipts import Receipts

        named = {name: getattr(owner.metadata, name) for name in SCOPE_FIELDS} if owner.metadata is not None else {}
        scope: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        return Receipts(self._store.scoped(**scope) if scope else self._store)

    def _page(self, template: str, owner: Owner, **values: Any) -> Response:
        return rendered(template, {**self._shared, "owner": owner, "counted": counted, **values})


def counted(receipt: Receipt) -> str:
    """Return what was left out of a context, as people read it."""
    return ", ".join(
        f"{number}{' or more' if reason == receipt.unread else ''} {reason}"
        for reason, number in receipt.left_out.items()
    )


def _turn_of(receipt: Receipt, entries: Sequence[Entry]) -> Entry | None:
    """Return the entry that a receipt stands at: the answer that it led to, or the last that was there before it."""
    answers = [entry for entry in entries if entry.item.id == receipt.answer]
    before = [entry for entry in entries if entry.item.created_at <= receipt.at]
    return next(iter([*answers, *before[-1:]]), None)
