"""What differs between two contexts, and by which rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memoranda.items import MemoryItem
from memoranda.store import Store
from memoranda.trust import check_trust, trust_of
from memoranda_receipts.recording import BEYOND_LIMIT, first_rule
from memoranda_receipts.records import QUESTION, Receipt, Shown
from memoranda_receipts.replaying import stored

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
        """True if both contexts show the same."""
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
    """Return by which rule an item is not in a context."""
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
