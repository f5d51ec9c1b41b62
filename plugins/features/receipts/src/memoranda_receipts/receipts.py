"""The receipts of a scope: recorded, listed, replayed and compared."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memoranda.errors import CorruptStoreError, InputError
from memoranda.items import SCOPE_FIELDS, MemoryItem, Payload, now_text
from memoranda.shapes import check_text, whole_number
from memoranda.store import EVERYTHING, Capability, Store
from memoranda.store.owners import space_of
from memoranda.store.records import writing_records
from memoranda.trust import check_trust, trust_of
from memoranda_receipts.layout import text_of
from memoranda_receipts.purging import clean
from memoranda_receipts.recording import BEYOND_LIMIT, Recording, first_rule, record
from memoranda_receipts.records import (
    QUESTION,
    Receipt,
    ReceiptMemory,
    Shown,
    content_hash,
    dumped_receipt,
    loaded_receipt,
)
from memoranda_receipts.replaying import Replay, replay, stored, unheld, within

ADDED = "added since"
COMPACTED = "compacted"
BELOW_FLOOR = "below the floor"
EXPIRED = "expired"
NOT_TRUSTED = "no longer trusted"
REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Difference:
    """An item that is in one of two contexts and not in the other.

    ``rule`` says why it left, or why it was not in the earlier one: ``"beyond the rounds"``, ``"over budget"``,
    ``"beyond the limit"``, ``"compacted"``, ``"below the floor"``, ``"expired"``, ``"no longer trusted"``,
    ``"removed"``, or, of one that entered, ``"added since"``.
    """

    id: str
    rule: str
    role: str = "conversation"


@dataclass(frozen=True, slots=True)
class Diff:
    """What differs between two receipts: what entered, what left, what was shown in another version, and the rest.

    ``settings`` has the parameters, counters and models that differ, each with both values.
    """

    entered: tuple[Difference, ...]
    left: tuple[Difference, ...]
    changed: tuple[str, ...]
    settings: Mapping[str, tuple[object, object]]
    texts_differ: bool

    @property
    def same(self) -> bool:
        """True if both contexts are the same."""
        return not (self.entered or self.left or self.changed or self.texts_differ)


async def diff(stores: Sequence[Store], earlier: Receipt, later: Receipt) -> Diff:
    """Return what differs between two receipts, with the rule by which each item entered or left."""
    before, after = (
        {entry.id: entry for entry in receipt.shown if entry.role != QUESTION} for receipt in (earlier, later)
    )
    apart = [name for name in {**before, **after} if (name in before) != (name in after)]
    items = await stored(stores, apart)
    summaries = await stored(stores, sorted({item.archived_by for item in items.values() if item.archived_by}))
    return Diff(
        tuple(
            Difference(entry.id, _why_it_was_out(entry, items.get(entry.id), earlier, summaries), entry.role)
            for entry in after.values()
            if entry.id not in before
        ),
        tuple(
            Difference(entry.id, _why_it_left(entry, items.get(entry.id), later, summaries), entry.role)
            for entry in before.values()
            if entry.id not in after
        ),
        tuple(name for name, entry in after.items() if name in before and before[name].hash != entry.hash),
        _settings(earlier, later),
        earlier.texts != later.texts,
    )


def _why_it_was_out(
    entry: Shown, item: MemoryItem | None, receipt: Receipt, summaries: Mapping[str, MemoryItem]
) -> str:
    """Return why an item was not in an earlier context."""
    if item is not None and (item.created_at > receipt.at or set(receipt.ids) & set(getattr(item, "sources", ()))):
        return ADDED  # A summary has the time of what it stands for; that was still shown.
    return _why_it_left(entry, item, receipt, summaries)


def _why_it_left(entry: Shown, item: MemoryItem | None, receipt: Receipt, summaries: Mapping[str, MemoryItem]) -> str:
    """Return the rule that keeps an item out of a context."""
    for reason, ids in receipt.left_ids.items():
        if entry.id in ids:
            return reason
    if entry.expires_at is not None and entry.expires_at <= (receipt.clock or receipt.at):
        return EXPIRED
    if item is None:
        return REMOVED
    summary = None if item.archived_by is None else summaries.get(item.archived_by)
    if entry.role == "conversation" and summary is not None and summary.created_at <= receipt.at:
        return COMPACTED
    least = receipt.parameters.get("min_trust")
    if least is not None and trust_of(item).rank < check_trust(str(least), "min_trust").rank:
        return NOT_TRUSTED
    if entry.role != "conversation":
        most = receipt.parameters.get("limit")
        found = sum(1 for each in receipt.shown if each.role == entry.role)
        return BEYOND_LIMIT if most is not None and found >= most else BELOW_FLOOR
    return receipt.unread or first_rule(receipt.left_out, receipt.parameters) or REMOVED


def _settings(earlier: Receipt, later: Receipt) -> dict[str, tuple[object, object]]:
    first = {**earlier.parameters, "kind": earlier.kind, "counter": earlier.counter, "model": earlier.model}
    second = {**later.parameters, "kind": later.kind, "counter": later.counter, "model": later.model}
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}


logger = logging.getLogger(__name__)


class NoReceiptError(InputError):
    """No receipt has this id, or several ids begin with it."""


class Receipts:
    """The receipts of a store or of a handle: ``Receipts(store.scoped(user_id="ada"))``.

    ``others`` are further stores that items of a context came from, such as a short-term memory; a replay looks there
    for what the first does not have.
    """

    def __init__(self, store: Store, *, others: Sequence[Store] = ()) -> None:
        self.store = store
        self._stores = (store, *others)

    async def record(
        self,
        items: Sequence[MemoryItem],
        *,
        model: str | None = None,
        answer: str | None = None,
        payload: bool = False,
        **asked: Any,
    ) -> Receipt:
        """Record items that a model is shown, oldest first, for programs that choose them in their own way.

        ``assemble``, ``ContextManager`` and ``window`` do it with ``receipt=True``. Further keywords are recorded as
        the parameters of the choice. It takes one ``add``.
        """
        recording = Recording(payload=payload, model=model, answer=answer)
        return (await record(self.store, items, recording, owner=self.store.bounds, asked=asked)).receipt

    async def get(self, receipt: str) -> Receipt:
        """Return the receipt of an id, or of an unambiguous beginning of it. Raises InputError if there is none."""
        return (await self._item(receipt)).receipt

    async def seen(self, item: MemoryItem | str) -> list[Receipt]:
        """Return the receipts that showed an item, newest first: who has seen this?"""
        return await self.list(item=item if isinstance(item, str) else item.id)

    async def list(self, *, limit: int | None = None, item: str | None = None) -> list[Receipt]:
        """Return the receipts of the scope, newest first; with ``item``, those that showed this item.

        Those whose lifetime is over are left out, and removed where the store does not do so itself.
        """
        most = EVERYTHING if limit is None else whole_number(limit, "limit")
        looked_at = most if item is None else EVERYTHING
        rows = await self.store.payloads(memory_type="receipt", archived=True, limit=looked_at)
        name = "" if item is None else json.dumps(item)
        held = [row for row in reversed(rows) if name in (row.text or "")]
        receipts = [receipt for row in held if (receipt := _readable(row)) is not None]
        now = now_text()
        over = [receipt.id for receipt in receipts if receipt.expires is not None and receipt.expires <= now]
        if over and self.store.access != "read":
            await self.store.apply(deletes=over, purge=Capability.PURGE in self.store.capabilities)
        receipts = [receipt for receipt in receipts if receipt.expires is None or receipt.expires > now]
        return [receipt for receipt in receipts if item is None or item in receipt.ids][:most]

    async def answered(self, receipt: Receipt | str, *, answer: str | None = None, model: str | None = None) -> Receipt:
        """Add the id of the answer, or the name of the model, to a receipt, and return it."""
        item = await self._item(receipt.id if isinstance(receipt, Receipt) else receipt)
        found = item.receipt
        changed = replace(found, answer=answer or found.answer, model=model or found.model)
        with writing_records("receipt"):
            await self.store.update(item.model_copy(update={"payload": dumped_receipt(changed)}))
        return changed

    async def replay(self, receipt: Receipt | str) -> Replay:
        """Show a context again: the same messages, or what has changed since and the rest.

        Contents that the receipt kept of items that are gone since, such as by a lifetime that they were given later,
        are not shown, and are taken out of it.
        """
        found = await self._found(receipt)
        shown = await replay(await self._stores_of(found), found)
        outlived = [item_id for item_id in shown.gone if item_id in (found.contents or ())]
        if outlived and self.store.access != "read":
            root = self.store.root
            gone = dict.fromkeys(await unheld(root, outlived))
            for item in await self.store.get_many([found.id]):
                await clean(root, item, gone)
        return shown

    async def diff(self, earlier: Receipt | str, later: Receipt | str) -> Diff:
        """Return what entered and left from one context to another, and by which rule."""
        first, second = await self._found(earlier), await self._found(later)
        return await diff(await self._stores_of(first, second), first, second)

    async def contents(self, receipt: Receipt | str, ids: Iterable[str] | None = None) -> dict[str, str]:
        """Return the present contents of the items of a receipt, or of some ids, with their tool calls, by id.

        What the receipt shows may be of any session of its owner, as long as it still says what was shown. Any other
        item is of the handle's own session and task. Those that are gone, or lie elsewhere, are missing.
        """
        receipt = await self._found(receipt)
        stores = await self._stores_of(receipt)
        wanted = receipt.ids if ids is None else list(ids)
        hashes = {entry.id: entry.hash for entry in receipt.shown}
        shown = await stored(stores, [item_id for item_id in wanted if item_id in hashes])
        as_shown = {item_id: item for item_id, item in shown.items() if content_hash(item) == hashes[item_id]}
        found = as_shown | await within(stores, [item_id for item_id in wanted if item_id not in as_shown])
        return {item_id: text_of(found[item_id]).strip() for item_id in wanted if item_id in found}

    async def _stores_of(self, *receipts: Receipt) -> Sequence[Store]:
        """Return the stores, the first bound to the receipts' owner: a forged receipt reveals nothing of others."""
        if self.store.bounds is not None and self.store.bounds.user_id is not None:
            return self._stores
        items = await self.store.get_many([receipt.id for receipt in receipts])
        if not items or len({item.metadata.user_id for item in items}) > 1:
            return self._stores
        space = space_of(items[0])
        place = self.store if space is None else self.store.space(space)
        names = [name for name in (*SCOPE_FIELDS, "namespace") if space is None or name != "user_id"]
        owner = {name: value for name in names if (value := getattr(items[0].metadata, name))}
        return (place.scoped(**owner) if owner else place, *self._stores[1:])

    async def _found(self, receipt: Receipt | str) -> Receipt:
        return receipt if isinstance(receipt, Receipt) else await self.get(receipt)

    async def _item(self, receipt: str) -> ReceiptMemory:
        check_text(receipt, "receipt")
        item = await self.store.get(receipt)
        if item is None:
            rows = await self.store.payloads(memory_type="receipt", archived=True)
            short = receipt.removeprefix("receipt-")
            ids = [row.item_id for row in rows if short and row.item_id.removeprefix("receipt-").startswith(short)]
            if len(ids) > 1:
                raise NoReceiptError(
                    f"{len(ids)} receipts begin with {receipt!r}; give more of the id.", field="receipt"
                )
            item = await self.store.get(ids[0]) if ids else None
        if item is None or item.memory_type != "receipt":
            raise NoReceiptError(f"There is no receipt {receipt!r} in this scope.", field="receipt")
        return item if isinstance(item, ReceiptMemory) else ReceiptMemory(**item.model_dump())


def _readable(row: Payload) -> Receipt | None:
    try:
        return loaded_receipt(row.item_id, row.text)
    except CorruptStoreError as error:
        logger.warning("%s It is left out.", error)
        return None


def short_id(receipt: Receipt | str) -> str:
    """Return the id of a receipt as lists show it; what takes an id takes this form, too."""
    return (receipt if isinstance(receipt, str) else receipt.id).removeprefix("receipt-")[:12]
