"""Putting items from elsewhere into a store: what is there already, what conflicts, and whether all arrived."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from recollect.cli.exits import CommandError, ExitCode
from recollect.cli.jsonl import Digest, fingerprint
from recollect.store import Capability

if TYPE_CHECKING:
    from recollect.items import MemoryItem
    from recollect.store import BaseStore

BATCH = 500
_AT_ONCE = 50


class OnConflict(StrEnum):
    """What to do with an id that is taken by an item that says something else."""

    FAIL = "fail"
    SKIP = "skip"
    OVERWRITE = "overwrite"


class Incoming(NamedTuple):
    """An item to store, and whether it was hidden where it comes from."""

    item: MemoryItem
    hidden: bool = False


@dataclass(slots=True)
class Tally:
    """What became of the items."""

    added: int = 0
    unchanged: int = 0
    overwritten: int = 0
    skipped: int = 0
    hidden: int = 0

    @property
    def total(self) -> int:
        """How many were dealt with."""
        return self.added + self.unchanged + self.overwritten + self.skipped

    def sentence(self) -> str:
        """Return what happened, in words."""
        parts = [f"{number:,} {name}" for name, number in asdict(self).items() if number or name == "added"]
        return ", ".join(parts)


class Transfer:
    """One transfer into a store. An item that is already there, word for word, is left alone, so any can be resumed."""

    def __init__(self, store: BaseStore, policy: OnConflict) -> None:
        self.store = store
        self.policy = policy
        self.tally = Tally()
        self.empty = False
        self._hidden: dict[str, bytes] | None = None

    async def begin(self) -> None:
        """Find out whether the store is empty, in which case nothing can conflict and no id needs looking up."""
        hides = Capability.DELETE in self.store.capabilities
        self.empty = await self.store.count(include_deleted=hides) == 0

    async def check(self, batch: Sequence[MemoryItem]) -> None:
        """Raise the conflict that these items would meet, before anything is written."""
        if self.policy is OnConflict.FAIL and not self.empty:
            for item, there in zip(batch, await self._existing(batch), strict=True):
                self._refuse_conflict(item, there)

    async def put(self, batch: Sequence[Incoming]) -> None:
        """Store a batch, all of it or, on a store that is not atomic, as much as came before an error."""
        items = [incoming.item for incoming in batch]
        existing = [None] * len(items) if self.empty else await self._existing(items)
        wanted: list[Incoming] = []
        overwritten = unchanged = skipped = 0
        for incoming, there in zip(batch, existing, strict=True):
            if there is None and incoming.hidden and await self._is_hidden_already(incoming.item):
                unchanged += 1
            elif there is None:
                wanted.append(incoming)
            elif fingerprint(there) == fingerprint(incoming.item):
                unchanged += 1
            elif self.policy is OnConflict.SKIP:
                skipped += 1
            else:
                self._refuse_conflict(incoming.item, there)
                wanted.append(incoming)
                overwritten += 1
        await self.store.add_many([incoming.item for incoming in wanted])
        self.tally.added += len(wanted) - overwritten
        self.tally.overwritten += overwritten
        self.tally.unchanged += unchanged
        self.tally.skipped += skipped
        for incoming in wanted:
            if incoming.hidden:
                self.tally.hidden += await self.store.delete(incoming.item.id)

    async def _is_hidden_already(self, item: MemoryItem) -> bool:
        if self.empty:
            return False
        if self._hidden is None:
            live = {item.id async for item in self.store.scan()}
            everything = self.store.scan(include_deleted=True)
            self._hidden = {item.id: fingerprint(item) async for item in everything if item.id not in live}
        return self._hidden.get(item.id) == fingerprint(item)

    def _refuse_conflict(self, item: MemoryItem, there: MemoryItem | None) -> None:
        if self.policy is OnConflict.FAIL and there is not None and fingerprint(there) != fingerprint(item):
            raise CommandError(
                f"The store has an item {item.id!r} that says something else. Choose --on-conflict skip or overwrite.",
                ExitCode.CONFLICT,
            )

    async def _existing(self, items: Sequence[MemoryItem]) -> list[MemoryItem | None]:
        found: list[MemoryItem | None] = []
        for start in range(0, len(items), _AT_ONCE):
            found += await asyncio.gather(*(self.store.get(item.id) for item in items[start : start + _AT_ONCE]))
        return found


class Arrivals:
    """What was read from a source, to be compared with what the destination has in the end."""

    def __init__(self) -> None:
        self.digest = Digest()
        self.prints: dict[str, bytes] = {}

    def take(self, item: MemoryItem) -> None:
        """Note an item that must be at the destination in the end."""
        self.digest.take(item)
        self.prints[item.id] = fingerprint(item)

    async def missing(self, stored: AsyncIterator[MemoryItem]) -> tuple[int, str]:
        """Return how many are not at the destination as they were, and the digest of those that are, in its order."""
        left = dict(self.prints)
        found = Digest()
        async for item in stored:
            if left.get(item.id) == fingerprint(item):
                del left[item.id]
                found.take(item)
        return len(left), found.text


async def hidden_ids(store: BaseStore, metadata: Any) -> set[str]:
    """Return the ids of the items that the store hides."""
    live = {item.id async for item in store.scan(metadata=metadata)}
    return {item.id async for item in store.scan(metadata=metadata, include_deleted=True) if item.id not in live}
