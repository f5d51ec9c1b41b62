"""The pages of features: facts with their sources, receipts of what a model was shown, and the quarantine.

Those of facts and receipts are there if memoranda-facts and memoranda-receipts are installed. Nobody approves what they
have not read: the page of a decision on the quarantine shows the whole item, and the decision counts only for what was
shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from memoranda.errors import InputError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store
from memoranda.store.backend import of_owner
from memoranda.trust import origin_of, trust_of
from memoranda_guard import QuarantinedMemory, approve, quarantined, reject
from memoranda_inspector.actions import Done, Form, Preview
from memoranda_inspector.pages import (
    SHOWN_ALONE,
    ConversationPage,
    Entry,
    Owner,
    Owners,
    Pages,
    form_of,
    handle_of,
    json_text,
    shortened,
)

if TYPE_CHECKING:
    from memoranda_facts import Fact, Facts, Schema
    from memoranda_receipts import Receipt, Receipts


class FactPages(Pages):
    """What is known of a user. ``schema`` is that of the program; None is that of the rules for everyday English."""

    def __init__(self, store: Store, owners: Owners, schema: Schema | None, shared: Mapping[str, Any]) -> None:
        super().__init__(store, owners, {**shared, "when": when})
        self._schema = schema

    async def overview(self, request: Request) -> Response:
        owner = self._owners.chosen(request)
        held = await self._facts(owner).current()
        return self._page("facts.html", owner, held=sorted(held, key=lambda fact: (fact.subject, fact.predicate)))

    async def slot(self, request: Request) -> Response:
        """Show every value that a slot ever had, newest first, each with its sources and what decided."""
        owner = self._owners.chosen(request)
        facts = self._facts(owner)
        fact = await self._fact(facts, owner, request.path_params["item"])
        values = await facts.history(fact.subject, fact.predicate)
        return self._page("slot.html", owner, fact=fact, timeline=[await facts.why(each) for each in reversed(values)])

    async def preview_undo(self, owner: Owner, form: Form) -> Preview:
        key = form.get("item", "")
        fact = await self._fact(self._facts(owner), owner, key)
        sentence = (
            f"“{fact}” is taken back, as if it had never been recorded. What it replaced holds again. "
            "An undo can be undone."
        )
        return Preview("Undo a fact", sentence, [], {"item": key}, "Undo it")

    async def undo(self, owner: Owner, form: Form) -> Done:
        receipt = await self._facts(owner).undo(owner.item_id(form.get("item", "")))
        return Done("The change is undone.", "undo-fact", {"item": owner.item_key(receipt.id)})

    def _facts(self, owner: Owner) -> Facts:
        from memoranda_facts import Facts
        from memoranda_facts.extraction import everyday_schema

        if not owner.has_facts:
            raise InputError("Facts belong to a user or an agent, not to one conversation: choose one.", field="user")
        scope: dict[str, Any] = {f"{kind}_id": name for kind, name in owner.names}
        return Facts(
            handle_of(self._store, scope), schema=everyday_schema(()) if self._schema is None else self._schema
        )

    async def _fact(self, facts: Facts, owner: Owner, key: str) -> Fact:
        found = await facts.get(owner.item_id(key))
        if found is None:
            raise InputError("This fact does not exist any more.", field="item")
        return found


def when(fact: Fact) -> str:
    """Return from when to when a fact holds, as people read it; empty if nothing is known of it."""
    since = "" if fact.valid_from in (None, "..") else f"since {str(fact.valid_from)[:10]}"
    until = "" if fact.valid_to is None else f"until {fact.valid_to[:10]}"
    return " ".join(filter(None, (since, until)))


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
        owner = self._owners.chosen(request)
        receipts = self._receipts(owner)
        replay = await receipts.replay(owner.item_id(request.path_params["item"]))
        notes = {change.id: f"{change.change} since" for change in replay.changes}
        payload = json_text(replay.messages())
        values = {"replay": replay, "rows": await self._rows(receipts, replay.receipt, notes), "payload": payload}
        values["question"] = (await questions_of(receipts, [replay.receipt]))[0][1]
        return self._page("receipt.html", owner, **values, receipt=replay.receipt)

    async def compare(self, request: Request) -> Response:
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


MOST_SHOWN = 200

_TITLES = {"approve": "Approve this item?", "reject": "Reject this item?"}


@dataclass(frozen=True, slots=True)
class Kept:
    """An item in quarantine on a page, with the key that forms call it by."""

    key: str
    item: QuarantinedMemory
    trust: str
    origin: str | None
    content: str

    @property
    def mark(self) -> str:
        """A hash of what is kept, which a decision repeats: it counts for this and for nothing newer."""
        whole = f"{self.item.version}\n{self.item.payload}"
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


class QuarantinePages(Pages):
    """What is kept apart, newest first, and the decisions on it."""

    _signature = ""
    """Who approved last, for the next form."""

    async def quarantine(self, request: Request) -> Response:
        """List the items. A store that cannot hide items has no quarantine."""
        hides = Capability.ADD_DELETED in self._store.capabilities
        found = await quarantined(self._store) if hides else []
        rows = [self._kept(item) for item in found[: -MOST_SHOWN - 1 : -1]]
        return self._page("quarantine.html", rows=rows, total=len(found))

    async def preview(self, request: Request) -> Response:
        decision = _decision(request)
        kept = await self._found(await form_of(request))
        content, hidden = shortened(kept.content, SHOWN_ALONE)
        values: dict[str, Any] = {"kept": kept, "content": content, "hidden": hidden, "signature": self._signature}
        values |= {"decision": decision, "title": _TITLES[decision], "fields": json_text(_without_content(kept.item))}
        return self._page("quarantine_decision.html", **values)

    async def decide(self, request: Request) -> Response:
        decision, form = _decision(request), await form_of(request)
        kept = await self._found(form)
        if form.get("mark", "") != kept.mark:
            raise InputError("This item has changed since you read it, and nothing was decided. Read it again.")
        if decision == "approve":
            signature = form.get("by", "").strip()
            await approve(self._store, kept.item.id, by=signature)
            self._signature = signature
            sentence = f"Approved by {signature}. The item is stored as it was written."
        else:
            await reject(self._store, kept.item.id)
            sentence = "Rejected. The item is removed for good."
        owner = self._owner_of(kept.item) if decision == "approve" else None
        return self._page("quarantine_decided.html", sentence=sentence, stored_at=owner)

    async def _found(self, form: dict[str, str]) -> Kept:
        item_id = self._everybody.item_id(form.get("item", ""))
        for item in await quarantined(self._store):
            if item.id == item_id:
                return self._kept(item)
        raise InputError("This item is not in quarantine any more: somebody has decided on it.", field="item")

    def _kept(self, item: QuarantinedMemory) -> Kept:
        content = str(item.original().get("content", ""))
        return Kept(self._everybody.item_key(item.id), item, str(trust_of(item)), origin_of(item), content)

    @property
    def _everybody(self) -> Owner:
        """All owners together, which gives the keys: the quarantine is one list for all of them."""
        return self._owners.named(None)

    def _owner_of(self, item: QuarantinedMemory) -> Owner | None:
        """Return the conversation that an item belongs to, if it belongs to anybody."""
        owner = MemoryMetadata(user_id=item.metadata.user_id, session_id=item.metadata.session_id)
        return None if owner == MemoryMetadata() else self._owners.named(owner)


def _decision(request: Request) -> str:
    decision = str(request.path_params["decision"])
    if decision not in _TITLES:
        raise InputError("An item is approved or rejected; there is no other decision.", field="decision")
    return decision


def _without_content(item: QuarantinedMemory) -> dict[str, Any]:
    return {name: value for name, value in item.original().items() if name != "content"}
