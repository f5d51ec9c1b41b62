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
from memoranda.store.backend import of_owner
from memoranda_inspector.conversation import ConversationPage, Entry
from memoranda_inspector.pages import Pages, json_text, shortened
from memoranda_inspector.scopes import Owner, Owners, handle_of

if TYPE_CHECKING:
    from memoranda_receipts import Receipt, Receipts

MOST_LISTED = 200
"""How many of the newest receipts a page looks at."""

LOOKED_BACK = 20
"""How many of the last items of a context are looked at to find what the user said last."""

ADDED = "added since"
"""The rule of an item that entered a context because it is newer than the earlier one."""

_TOLD = {"profile": "What was known of the user", "remark": "A remark on what does not hold any more"}
"""What stands in a context and is no item, by its role."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An item of a receipt on a page: what it says now, and what is to be said of it."""

    item_id: str
    role: str
    text: str
    note: str = ""
    is_item: bool = True


class ReceiptPages(Pages):
    """What models were shown of an owner's items."""

    def __init__(self, store: Store, owners: Owners, shared: Mapping[str, Any]) -> None:
        super().__init__(store, owners, {**shared, "counted": counted})

    async def overview(self, request: Request) -> Response:
        """List the receipts by their questions, newest first, to choose one, or two to compare."""
        owner = self._owners.chosen(request)
        receipts = self._receipts(owner)
        found = await receipts.list(limit=MOST_LISTED)
        return self._page("receipts.html", owner, rows=await questions_of(receipts, found))

    async def one(self, request: Request) -> Response:
        """Show a context again, and what has changed since."""
        owner = self._owners.chosen(request)
        receipts = self._receipts(owner)
        replay = await receipts.replay(owner.item_id(request.path_params["item"]))
        notes = {change.id: f"{change.change} since" for change in replay.changes}
        payload = json_text(replay.messages())
        values = {"replay": replay, "rows": await self._rows(receipts, replay.receipt, notes), "payload": payload}
        values["question"] = (await questions_of(receipts, [replay.receipt]))[0][1]
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
        notes = {each.id: f"not in the later one: {each.rule}" for each in found.left}
        notes |= {each.id: _why_new(each.rule) for each in found.entered}
        notes |= dict.fromkeys(found.changed, "shown in another version")
        questions = await questions_of(receipts, [earlier, later])
        sides = [(each, question, await self._rows(receipts, each, notes)) for each, question in questions]
        return self._page("receipts_compared.html", owner, sides=sides, difference=found)

    async def placed(self, conversation: ConversationPage, owner: Owner) -> ConversationPage:
        """Return a conversation with its receipts, each at the last turn before it."""
        found = await self._receipts(owner).list(limit=MOST_LISTED)
        for receipt in reversed(found):
            turn = _turn_of(receipt, conversation.entries)
            if turn is not None:
                turn.receipts.append(receipt)
        signs = f"{conversation.mark} {' '.join(receipt.id for receipt in found)}"
        return replace(conversation, mark=hashlib.sha256(signs.encode()).hexdigest()[:16])

    async def seen(self, owner: Owner, item: MemoryItem) -> list[tuple[Receipt, str]]:
        """Return the receipts that showed an item, newest first, with their questions."""
        receipts = self._receipts(owner)
        return await questions_of(receipts, (await receipts.seen(item))[:MOST_LISTED])

    async def _rows(self, receipts: Receipts, receipt: Receipt, notes: Mapping[str, str]) -> list[Shown]:
        contents = await receipts.contents(receipt)
        return [
            Shown(
                entry.id,
                entry.role,
                _TOLD.get(entry.role) or shortened(contents.get(entry.id, ""))[0],
                notes.get(entry.id, ""),
                is_item=entry.role not in _TOLD,
            )
            for entry in receipt.shown
        ]

    def _receipts(self, owner: Owner) -> Receipts:
        from memoranda_receipts import Receipts

        named = {name: getattr(owner.metadata, name) for name in SCOPE_FIELDS} if owner.metadata is not None else {}
        scope: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        return Receipts(handle_of(self._store, scope) if scope else self._store)


async def questions_of(receipts: Receipts, found: Sequence[Receipt]) -> list[tuple[Receipt, str]]:
    """Return receipts with what each context was for: its question, or else what the user said last in it.

    It is empty where that is gone, or has changed since.
    """
    from memoranda_receipts import content_hash

    asked = {receipt.id: _question(receipt) for receipt in found}
    ends = {receipt.id: receipt.shown[-LOOKED_BACK:] for receipt in found if not asked[receipt.id]}
    ids = dict.fromkeys(entry.id for shown in ends.values() for entry in shown)
    said = {item.id: item for item in await of_owner(receipts.store).get_many(list(ids)) if item.memory_type == "human"}
    for receipt_id, shown in ends.items():
        entry = next((entry for entry in reversed(shown) if entry.id in said), None)
        if entry is not None and content_hash(said[entry.id]) == entry.hash:
            asked[receipt_id] = said[entry.id].content
    return [(receipt, asked[receipt.id]) for receipt in found]


def _question(receipt: Receipt) -> str:
    """Return the question that a context ends with, if it was added to it and is no item."""
    last = (receipt.layout or (0,))[-1]
    if not isinstance(last, Mapping) or "of" in last or last.get("type") != "human":
        return ""
    return "".join(piece for piece in last["pieces"] if isinstance(piece, str))


def _why_new(rule: str) -> str:
    """Return why an item is in the later of two contexts alone."""
    return "new: added since" if rule == ADDED else f"new: left out of the earlier one, {rule}"


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
