"""``memoranda copy``: copy from any backend to any other, resumable, and compare every item."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.store import Capability
from memoranda.urls import redacted
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import progress, say, show_json
from memoranda_userdata import (
    BATCH,
    Arrivals,
    Incoming,
    OnConflict,
    Transfer,
    TransferCounts,
    hidden_ids,
    state_of,
)
from memoranda_userdata.commands.transfers import Policy, broken_off, trial

if TYPE_CHECKING:
    from memoranda.store import Store


@options.scoped
def copy(
    source: Annotated[str, argument("SOURCE", "The store to read.")],
    destination: Annotated[str, argument("DESTINATION", "The store to write.")],
    metadata: options.Owner = None,
    policy: Policy = OnConflict.FAIL,
    deleted: Annotated[bool, option("--deleted", "Deleted items, too; they stay deleted.")] = False,
    dry_run: options.DryRun = False,
    source_options: Annotated[
        list[str] | None, option("--source-option KEY=VALUE", "An option of the source's own; may be repeated.")
    ] = None,
    destination_options: Annotated[
        list[str] | None, option("--option -o KEY=VALUE", "An option of the destination's own.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Copy one store into another, then read it back and compare every item.

    Archived items are copied, the order of adding is kept, and what is deleted arrives deleted and is never shown.
    Items that are already there and equal are left alone, so run the same line again to go on with a copy that was
    interrupted. Equal means every field but the version: a store counts versions itself, and they start anew in the
    copy. The source is not changed.
    """
    from memoranda_commands.exits import run

    if source == destination:
        raise CommandError("SOURCE and DESTINATION are the same.", ExitCode.USAGE)
    counts = TransferCounts()
    work = _Copy(
        options.Target(source, source_options, as_json),
        options.Target(destination, destination_options, as_json),
        metadata,
        policy,
        deleted,
        counts,
    )
    with broken_off(counts):
        report = run(work.tried() if dry_run else work.done())
    if as_json:
        show_json({**report, **counts.as_json(), "dry_run": dry_run})
    elif dry_run:
        say(f"Would copy to {redacted(destination)}: {counts.sentence()}.")
    else:
        say(
            f"{counts.sentence()}; {report['count']:,} read back, equal in every field but the version, "
            f"digest {report['digest'][:16]}…."
        )


@dataclass(frozen=True, slots=True)
class _Copy:
    """One copy: its source, its destination, and what is copied."""

    source: options.Target
    destination: options.Target
    metadata: Any
    policy: OnConflict
    deleted: bool
    counts: TransferCounts

    async def tried(self) -> dict[str, Any]:
        async with (
            self.source.opened() as origin,
            trial(self.destination, self.policy, self.counts) as transfer,
        ):
            found = await self._found(origin, transfer.store)
            with progress("comparing", found.total) as advance:
                async for batch in found.batches():
                    await transfer.plan(batch)
                    advance(len(batch))
        return {"count": found.total, "digest": "", "verified": False}

    async def done(self) -> dict[str, Any]:
        async with self.source.opened() as origin:
            # If the source does not exist or the destination cannot hold it, no destination is made.
            found = await self._found(origin, self.destination.unopened())
            async with self.destination.opened("create") as target:
                transfer = Transfer(target, self.policy, self.counts)
                await transfer.begin()
                if self.policy is OnConflict.FAIL and not transfer.empty:
                    with progress("checking", found.total) as advance:
                        async for batch in found.batches():
                            await transfer.check(batch)
                            advance(len(batch))
                arrivals = Arrivals()
                with progress("copying", found.total) as advance:
                    async for batch in found.batches():
                        arrivals.take(await transfer.put(batch))
                        advance(len(batch))
                await self._compare(transfer, arrivals)
        return {"count": arrivals.digest.count, "digest": arrivals.digest.text, "verified": True}

    async def _found(self, origin: Store, target: Store) -> _Selection:
        """Return what is to be copied. Raises CommandError if the destination cannot hold it."""
        if self.deleted and Capability.ADD_DELETED not in target.capabilities:
            raise CommandError(
                f"{target.label} cannot take deleted items; copy without --deleted.", ExitCode.UNSUPPORTED
            )
        if Capability.TTL in origin.capabilities and Capability.TTL not in target.capabilities:
            expiring = await origin.count(metadata=self.metadata, where={"expires_at": {"$exists": True}})
            if expiring:
                raise CommandError(
                    f"{expiring:,} items of the source expire, and {target.label} cannot let items expire. "
                    f"Copy to a store that can.",
                    ExitCode.UNSUPPORTED,
                )
        return await _Selection.of(origin, self.metadata, deleted=self.deleted)

    async def _compare(self, transfer: Transfer, arrivals: Arrivals) -> None:
        """Read the destination and compare. Where it was empty before, the order must be the source's as well."""
        left = dict(arrivals.states)
        with progress("comparing", arrivals.digest.count) as advance:
            stored = await _Selection.of(transfer.store, self.metadata, deleted=self.deleted)
            order: list[str] = []
            async for batch in stored.batches():
                for there in batch:
                    if left.get(there.item.id) == state_of(there):
                        del left[there.item.id]
                        order.append(there.item.id)
                advance(len(batch))
        lost = transfer.lost(left)
        if lost:
            raise CommandError(f"{lost:,} items are not at the destination as they were in the source. Run it again.")
        if transfer.empty and order != [item_id for item_id in arrivals.states if item_id not in left]:
            raise CommandError("All items are at the destination, but not in the order in which they were added.")


@dataclass(frozen=True, slots=True)
class _Selection:
    """The items of a store that are to be copied, in the order of adding; ``hidden`` has the deleted ones' ids."""

    store: Store
    metadata: Any
    deleted: bool
    hidden: set[str]
    total: int

    @classmethod
    async def of(cls, store: Store, metadata: Any, *, deleted: bool) -> _Selection:
        """Return what a store holds. One that cannot delete has no deleted items."""
        deleted = deleted and Capability.DELETE in store.capabilities
        total = await store.count(metadata=metadata, include_deleted=deleted)
        return cls(store, metadata, deleted, await hidden_ids(store, metadata) if deleted else set(), total)

    async def batches(self) -> AsyncIterator[list[Incoming]]:
        batch: list[Incoming] = []
        async for item in self.store.scan(metadata=self.metadata, include_deleted=self.deleted, order="added"):
            batch.append(Incoming(item, item.id in self.hidden))
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch
