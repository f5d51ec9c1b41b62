"""Store items that come from elsewhere: find what the store has already and what conflicts, and compare in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from memoranda.errors import ConflictError, MemoryError, VersionConflictError
from memoranda.items import BranchMemory, utc_text
from memoranda.store import Capability, Observer
from memoranda.store.lineage import hidden_ids
from memoranda.store.records import copying_records
from memoranda_userdata.export_format import Digest, Incoming, OnConflict, StoredState, fingerprint, is_over, state_of

if TYPE_CHECKING:
    from memoranda.items import MemoryItem
    from memoranda.store import Store

BATCH = 500
_CONCURRENT_READS = 50


@dataclass(slots=True)
class TransferCounts:
    """How many items of a transfer were added, skipped and so on."""

    added: int = 0
    unchanged: int = 0
    overwritten: int = 0
    skipped: int = 0
    expired: int = 0
    deleted: int = 0
    under_way: int = 0

    @property
    def total(self) -> int:
        """How many items were handled."""
        return self.added + self.unchanged + self.overwritten + self.skipped + self.expired

    def as_json(self) -> dict[str, int]:
        """Return the numbers, for programs."""
        counts = asdict(self)
        del counts["under_way"]
        return counts

    def interruption(self) -> str:
        """Return how far a transfer came that was interrupted; the items under way may or may not be stored."""
        if not self.total and not self.under_way:
            return "before anything was stored."
        unsure = f", and up to {self.under_way:,} more may be stored" if self.under_way else ""
        return f"after {self.total:,} items{unsure}; run the same line again to go on: nothing is stored twice."

    def sentence(self) -> str:
        """Return the numbers in words."""
        counts = {**self.as_json(), "of them deleted": self.deleted}
        del counts["deleted"]  # They are among the others.
        return ", ".join(f"{number:,} {name}" for name, number in counts.items() if number or name == "added")


@dataclass(slots=True)
class _BatchPlan:
    """What happens to a batch: what is to be written, what the store has then, and how many items are left alone."""

    wanted: list[Incoming]
    stored: list[Incoming]
    unchanged: int = 0
    skipped: int = 0
    overwritten: int = 0
    expired: int = 0


class _AsStored(Observer):
    """Notes items of a batch as the other observers want them stored, to compare with them in the end."""

    def __init__(self) -> None:
        self._noted: dict[str, MemoryItem] | None = None

    def begin(self) -> None:
        self._noted = {}

    def end(self) -> dict[str, MemoryItem]:
        """Stop noting, and return the items by their ids: the store lives on, and others write to it."""
        noted, self._noted = self._noted or {}, None
        return noted

    def before_add(self, item: MemoryItem) -> MemoryItem:
        if self._noted is not None:
            self._noted[item.id] = item.model_copy(deep=True)
        return item


class Transfer:
    """One transfer into a store. What the store has already, equal and as visible, is left alone: it can be resumed.

    An item that is deleted where it comes from arrives deleted, in one step: it is never visible, even if the process
    dies.
    """

    def __init__(self, store: Store, policy: OnConflict, counts: TransferCounts, *, empty: bool = False) -> None:
        self.store = store
        self.policy = policy
        self.counts = counts
        self.empty = empty
        self._deleted: dict[str, StoredState] = {}
        self._as_stored = _AsStored()

    async def begin(self) -> None:
        """Look at what the store has; in an empty one nothing can conflict and no id needs looking up."""
        self.store.observe(self._as_stored)
        self.empty = await self.store.count(include_deleted=Capability.DELETE in self.store.capabilities) == 0
        if not self.empty:
            self._deleted = await deleted_states(self.store)

    async def check(self, batch: Sequence[Incoming]) -> None:
        """Raise the conflict that these items would meet, before anything is written."""
        if self.policy is OnConflict.FAIL and not self.empty:
            await self._sorted(batch)

    async def plan(self, batch: Sequence[Incoming]) -> None:
        """Count what would become of a batch, and store nothing."""
        self._count(await self._sorted(batch))

    async def put(self, batch: Sequence[Incoming]) -> list[Incoming]:
        """Store a batch, all of it or, on a store that is not atomic, as much as came before an error.

        Returns what the store has now: the batch without what was skipped, as the store's observers wanted it stored,
        or hidden.
        """
        plan = await self._sorted(batch)
        self.counts.under_way = len(plan.wanted)
        self._as_stored.begin()
        try:
            await self._write(plan.wanted)
        except MemoryError:
            if Capability.ATOMIC in self.store.capabilities:
                self.counts.under_way = 0
            raise
        finally:
            changed = self._as_stored.end()
        self.counts.under_way = 0
        self._count(plan)
        withheld = self.store.withheld(list(changed.values()))
        given = ((incoming, changed.get(incoming.item.id, incoming.item)) for incoming in plan.stored)
        return [each._replace(item=item, hidden=each.hidden or item.id in withheld) for each, item in given]

    async def _sorted(self, batch: Sequence[Incoming]) -> _BatchPlan:
        """Compare a batch with what the store has. Raises the conflict that the policy does not allow."""
        existing = [None] * len(batch) if self.empty else await self._states(batch)
        plan = _BatchPlan([], [])
        now = self._now()
        for given, there in zip(batch, existing, strict=True):
            incoming = given.dated_as(there)
            if is_over(given.item.expires_at, now):
                plan.expired += 1
                continue
            if there is not None and there == state_of(incoming):
                plan.unchanged += 1
            elif there is not None and self.policy is OnConflict.SKIP:
                plan.skipped += 1
                continue
            else:
                if there is not None:
                    if self.policy is OnConflict.FAIL:
                        self._refuse(incoming, there)
                    plan.overwritten += 1
                plan.wanted.append(incoming)
            plan.stored.append(incoming)
        return plan

    def _count(self, plan: _BatchPlan) -> None:
        self.counts.added += len(plan.wanted) - plan.overwritten
        self.counts.overwritten += plan.overwritten
        self.counts.unchanged += plan.unchanged
        self.counts.skipped += plan.skipped
        self.counts.expired += plan.expired
        self.counts.deleted += sum(incoming.hidden for incoming in plan.wanted)

    async def _write(self, wanted: Sequence[Incoming]) -> None:
        # If an id comes twice, the last one counts.
        hidden = {incoming.item.id: incoming.hidden for incoming in wanted}
        for is_record, some in groupby(wanted, lambda incoming: isinstance(incoming.item, BranchMemory)):
            items = [incoming.item for incoming in some]
            if not is_record:
                with copying_records(self.store):
                    await self.store.add_many(items, deleted={item.id for item in items if hidden[item.id]})
                continue
            for record in items:
                await self._fork(record, hidden[record.id])
        self._deleted |= {incoming.item.id: state_of(incoming) for incoming in wanted if incoming.hidden}

    async def _fork(self, record: MemoryItem, hidden: bool) -> None:
        """Make the branch of a record again; what it shares came before it."""
        assert isinstance(record, BranchMemory)
        again = partial(self.store.fork, record.parent, at=record.at, record=record, deleted=hidden)
        try:
            await again()
        except VersionConflictError:
            if self.policy is not OnConflict.OVERWRITE:
                raise
            await self.store.purge(record.id)
            await again()

    def _refuse(self, incoming: Incoming, there: StoredState) -> None:
        item_id = incoming.item.id
        if there.print != fingerprint(incoming.item):
            session = incoming.item.metadata.session_id
            where = "" if session is None else f" of the session {session!r}"
            reason = f"The store has an item {item_id!r}{where} that differs."
        elif there.hidden:
            reason = f"The item {item_id!r} is deleted in the store and would be shown again."
        else:
            reason = f"The item {item_id!r} is shown by the store and deleted where it comes from."
        raise ConflictError(f"{reason} Nothing was changed; skip or overwrite such items (on-conflict).")

    async def missing(self, arrivals: Arrivals) -> int:
        """Look up what arrived, and return how many items the store does not have as they were put there."""
        left = dict(arrivals.states)
        ids = list(left)
        hidden = await deleted_states(self.store) if any(state.hidden for state in left.values()) else {}
        for item_id, item in zip(ids, await self._live(ids), strict=True):
            found = hidden.get(item_id) if item is None else StoredState.of(item, hidden=False)
            if left[item_id] == found:
                del left[item_id]
        return self.lost(left)

    def lost(self, left: Mapping[str, StoredState]) -> int:
        """Return how many of the items that were not found are lost; the others have expired meanwhile."""
        now = self._now()
        return sum(not is_over(state.expires_at, now) for state in left.values())

    def _now(self) -> str:
        return utc_text(datetime.fromtimestamp(self.store.clock(), UTC))

    async def _states(self, batch: Sequence[Incoming]) -> list[StoredState | None]:
        ids = [incoming.item.id for incoming in batch]
        found: list[StoredState | None] = []
        for item_id, item in zip(ids, await self._live(ids), strict=True):
            found.append(self._deleted.get(item_id) if item is None else StoredState.of(item, hidden=False))
        return found

    async def _live(self, ids: Sequence[str]) -> list[MemoryItem | None]:
        found: list[MemoryItem | None] = []
        for start in range(0, len(ids), _CONCURRENT_READS):
            found += await asyncio.gather(
                *(self.store.get(item_id) for item_id in ids[start : start + _CONCURRENT_READS])
            )
        return found


class Arrivals:
    """The items that must be at the destination in the end, each equal and as visible as it was."""

    def __init__(self) -> None:
        self.digest = Digest()
        self.states: dict[str, StoredState] = {}

    def take(self, batch: Sequence[Incoming]) -> None:
        """Note items that must be at the destination in the end."""
        for incoming in batch:
            self.digest.take(incoming.item, hidden=incoming.hidden)
            self.states[incoming.item.id] = state_of(incoming)


async def hidden_items(store: Store, metadata: Any = None) -> AsyncGenerator[MemoryItem, None]:
    """Yield the items that the store hides."""
    hidden = await hidden_ids(store, metadata)
    async for item in store.scan(metadata=metadata, include_deleted=True):
        if item.id in hidden:
            yield item


async def deleted_states(store: Store) -> dict[str, StoredState]:
    """Return how the items stand that the store hides."""
    if Capability.DELETE not in store.capabilities:
        return {}
    if await store.count(include_deleted=True) == await store.count():
        return {}
    return {item.id: StoredState.of(item, hidden=True) async for item in hidden_items(store)}
