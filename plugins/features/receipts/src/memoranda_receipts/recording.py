"""Recording a receipt: one item, added after the context was put together."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from memoranda.errors import InputError, MemoryError
from memoranda.integrity import whole_groups
from memoranda.items import MemoryItem, MemoryMetadata, now_text, utc_text
from memoranda.shapes import number
from memoranda.store import Capability, Observer, copy_item, dump_item
from memoranda.store.records import writing_records
from memoranda.tokens import TokenCounter, estimate_tokens
from memoranda.windowing import as_said, last_rounds, newest, rounds_within
from memoranda_receipts.layout import layout_of
from memoranda_receipts.purging import watch
from memoranda_receipts.records import FORMAT, LIFETIME, ReceiptMemory, digest_of, dumped_receipt, entry_of

if TYPE_CHECKING:
    from memoranda.store import Store

logger = logging.getLogger(__name__)

BEYOND_ROUNDS = "beyond the rounds"
OVER_BUDGET = "over budget"
BEYOND_LIMIT = "beyond the limit"
INCOMPLETE = "a tool call that is not whole"

WINDOW_RULES = {"rounds": BEYOND_ROUNDS, "tokens": OVER_BUDGET, "limit": BEYOND_LIMIT}
"""What cuts a window, in this order, and the reason that each gives."""

_SAME_TIME = 1.0
"""By how many seconds two clocks may differ that are the same."""

_NAMED = 50
"""How many of the items that were left out for a reason are named; all are counted."""


@dataclass(frozen=True, slots=True)
class Recording:
    """How a receipt is recorded: ``receipt=Recording(model="…")`` where ``receipt=True`` is not enough.

    ``payload`` keeps the contents of the items in the receipt, without those of items that expire: what has expired is
    nowhere. ``model`` and ``answer`` name the model that is shown
    the context, and the id of the item with its answer; :meth:`Receipts.answered` adds them later. ``lifetime`` is in
    seconds, 30 days by default; None keeps the receipt. ``id`` is the id that the receipt gets.
    """

    payload: bool = False
    model: str | None = None
    answer: str | None = None
    lifetime: float | None = LIFETIME
    id: str | None = None

    def __post_init__(self) -> None:
        if self.lifetime is not None:
            number(self.lifetime, "lifetime")


class Recorder(Observer):
    """Records every window and every context of a store: ``memoranda.open(url, observers=["receipts"])``.

    A receipt that cannot be stored is logged, unless the caller asked for this one with ``receipt=``: then it raises.
    """

    only_removals = True

    def __init__(self, recording: Recording | None = None) -> None:
        self.recording = recording or Recording()

    async def shown(
        self,
        store: Store,
        items: Sequence[MemoryItem],
        *,
        receipt: object = None,
        details: Callable[[], Mapping[str, Any]] = dict,
        **context: Any,
    ) -> None:
        """Record what a model is shown; ``details`` returns further arguments of :func:`record`."""
        if receipt is not None and receipt is not True and not isinstance(receipt, Recording):
            raise InputError("receipt is True, False or a memoranda_receipts.Recording.", field="receipt")
        try:
            recording = receipt if isinstance(receipt, Recording) else self.recording
            await record(store, items, recording, **context, **details())
        except MemoryError as error:
            if receipt is not None:
                raise
            logger.error("No receipt was recorded: %s.", type(error).__name__)


async def record(
    store: Store,
    items: Sequence[MemoryItem],
    recording: Recording,
    *,
    kind: str = "window",
    owner: MemoryMetadata | None = None,
    asked: Mapping[str, Any] | None = None,
    counter: TokenCounter | None = None,
    tokens: int | None = None,
    sources: Sequence[tuple[str, MemoryItem]] | None = None,
    elsewhere: Collection[str] = (),
    entries: Sequence[tuple[str, str, int]] = (),
    looked_at: Sequence[Sequence[MemoryItem]] = (),
    left_out: Iterable[tuple[str, str]] | None = None,
) -> ReceiptMemory:
    """Record what a model is shown, by one ``add``, and return the item of the receipt.

    ``items`` are the messages. ``sources`` are the items that they were made of, each with its role, as the store gave
    them; the messages themselves if None. ``entries`` are those that stand within a message: see
    :func:`memoranda_receipts.layout.layout_of`. ``elsewhere`` has the ids of what is no item of this store.
    ``left_out`` gives ids and reasons; for a window they are worked out from what was ``looked_at``.
    """
    asked = {name: value for name, value in (asked or {}).items() if value is not None}
    made_of = [("conversation", item) for item in items] if sources is None else list(sources)
    places = {item.id: (position, item) for position, (_, item) in enumerate(made_of)}
    reasons = _cut(looked_at, items, asked, counter or estimate_tokens) if left_out is None else list(left_out)
    named: dict[str, list[str]] = {}
    for item_id, reason in reasons:
        named.setdefault(reason, []).append(item_id)
    found = _owner(owner, [item for _, item in made_of])
    if recording.payload and found.user_id is None and len({item.metadata.user_id for _, item in made_of}) > 1:
        raise InputError(
            "A receipt of several users' items keeps no contents: forgetting one of them would leave them there. Use a "
            "handle of one user, or leave payload out.",
            field="payload",
        )
    at, expires = now_text(), Capability.TTL in store.capabilities
    entered = [entry_of(item, role, elsewhere=item.id in elsewhere) for role, item in made_of]
    hashes = {id(item): entry["hash"] for (_, item), entry in zip(made_of, entered, strict=True)}
    document = {
        "id": recording.id or f"receipt-{uuid.uuid4().hex}",
        "at": at,
        "kind": kind,
        "digest": digest_of(items, hashes),
        "shown": entered,
        "layout": layout_of(items, places, entries),
        "parameters": asked,
        "counter": _name(counter or estimate_tokens),
        "tokens": tokens,
        "left_out": {reason: len(ids) for reason, ids in named.items()},
        "left_ids": {reason: ids[-_NAMED:] for reason, ids in named.items()},
        "unread": None if _read_all(looked_at) else first_rule(named, asked),
        "clock": _other_clock(store),
        "session": found.session_id,
        "model": recording.model,
        "answer": recording.answer,
        "expires": None if expires or recording.lifetime is None else _later(at, recording.lifetime),
        "contents": _lasting_contents([item for _, item in made_of]) if recording.payload else None,
    }
    item = _item_of({name: value for name, value in document.items() if value not in (None, {})}, found)
    watch(store)
    with writing_records("receipt"):
        await store.add(item, ttl=recording.lifetime if expires else None)
    return item


def _lasting_contents(items: Iterable[MemoryItem]) -> dict[str, dict[str, Any]]:
    """Return what a receipt keeps of items: a copy of one that expires would outlive it."""
    return {item.id: dump_item(item) for item in items if item.expires_at is None}


_EMPTY = ReceiptMemory(id="receipt", content="", payload_format=FORMAT)


def _item_of(document: Mapping[str, Any], owner: MemoryMetadata) -> ReceiptMemory:
    """Return the item that a store holds for the document of a receipt; the store checks it."""
    fields = {"id": document["id"], "archived_by": document["id"], "metadata": owner, "version": 0}
    fields |= {"created_at": document["at"], "updated_at": document["at"], "payload": dumped_receipt(document)}
    item = copy_item(_EMPTY)
    item.__dict__.update(fields, sources=list(document.get("contents", ())))
    return item


def _other_clock(store: Store) -> str | None:
    """Return the present by the clock of a store, by which items expire, if it is not that of the system."""
    present = store.clock()
    return None if abs(present - time.time()) < _SAME_TIME else utc_text(datetime.fromtimestamp(present, UTC))


def _owner(owner: MemoryMetadata | None, items: Sequence[MemoryItem]) -> MemoryMetadata:
    """Return whose a receipt is: what the call was bound to, and what all items have in common beside it."""
    given = owner or MemoryMetadata()
    if given.user_id is not None and given.session_id is not None and not given.extra:
        return given
    common: dict[str, Any] = {}
    for name in ("user_id", "session_id"):
        values = {getattr(item.metadata, name) for item in items}
        common[name] = getattr(given, name) or (values.pop() if len(values) == 1 else None)
    return MemoryMetadata(**common, task_id=given.task_id, agent_id=given.agent_id, namespace=given.namespace)


def _name(counter: TokenCounter) -> str:
    """Return what a token counter is called."""
    named = counter if hasattr(counter, "__qualname__") else type(counter)
    return f"{named.__module__}.{named.__qualname__}"


def _later(at: str, seconds: float) -> str:
    return utc_text(datetime.fromisoformat(at) + timedelta(seconds=seconds))


def _cut(
    looked_at: Sequence[Sequence[MemoryItem]],
    shown: Sequence[MemoryItem],
    asked: Mapping[str, Any],
    count: TokenCounter,
) -> list[tuple[str, str]]:
    """Return why each item that a window read is not in it, oldest first, by the rules that the window follows."""
    left = as_said(max(looked_at, key=len, default=()))
    said, reasons = left, dict[str, str]()
    rules = [reason for name, reason in WINDOW_RULES.items() if name in asked]
    if len(rules) == 1 and all(map(_stands_alone, said)):
        there = {item.id for item in shown}  # No call can be cut: all that is missing was left out by this rule.
        return [(item.id, rules[0]) for item in said if item.id not in there]
    cuts = (
        ("rounds", BEYOND_ROUNDS, lambda some, most: last_rounds(some, most)),
        ("tokens", OVER_BUDGET, lambda some, most: rounds_within(some, most, count)),
        ("limit", BEYOND_LIMIT, newest),
    )
    for name, reason, cut in cuts:
        if name in asked:
            kept = cut(left, asked[name])
            stay = {item.id for item in kept}
            reasons |= {item.id: reason for item in left if item.id not in stay}
            left = kept
    whole = {item.id for item in (shown if said else whole_groups(left))}
    reasons |= {item.id: INCOMPLETE for item in left if item.id not in whole}
    return [(item.id, reasons[item.id]) for item in said if item.id in reasons]


def _stands_alone(item: MemoryItem) -> bool:
    """Return True if no call and no group can keep an item out of a window."""
    kind = item.memory_type
    speaks = kind in ("human", "system", "summary") or (kind == "ai" and not getattr(item, "tool_calls", None))
    return speaks and item.group is None


def _read_all(looked_at: Sequence[Sequence[MemoryItem]]) -> bool:
    """Return True if a window read everything: its last read has all of the one before, and more."""
    last = [{item.id for item in read} for read in looked_at[-2:]]
    return len(last) < 2 or last[1] >= last[0]


def first_rule(left_out: Collection[str], asked: Collection[str]) -> str | None:
    """Return the rule that leaves out what is older than all that a window read: the first of those that it follows."""
    named = [reason for reason in WINDOW_RULES.values() if reason in left_out]
    return next(iter([*named, *(reason for name, reason in WINDOW_RULES.items() if name in asked)]), None)
