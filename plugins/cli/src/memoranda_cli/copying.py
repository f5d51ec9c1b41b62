"""``memoranda copy``: from any backend to any backend, resumable, and verified item by item."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.store import Capability
from memoranda.urls import redacted
from memoranda_cli import options
from memoranda_cli.exits import CommandError, ExitCode
from memoranda_cli.importing import Policy
from memoranda_cli.terminal import progress, say, show_json
from memoranda_cli.transfer import (
    BATCH,
    Arrivals,
    Incoming,
    OnConflict,
    Tally,
    Transfer,
    broken_off,
    hidden_ids,
    trial,
)

if TYPE_CHECKING:
    from memoranda.store import BaseStore


@options.scoped
def copy(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The store to read.")],
    destination: Annotated[str, typer.Argument(metavar="DESTINATION", help="The store to write.")],
    metadata: options.Owner = None,
    policy: Policy = OnConflict.FAIL,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted items, too; they stay deleted.")] = False,
    dry_run: options.DryRun = False,
    source_options: Annotated[
        list[str] | None,
        typer.Option("--source-option", metavar="KEY=VALUE", help="An option of the source's own; may be repeated."),
    ] = None,
    destination_options: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the destination's own."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Copy one store into another and verify every item.

    Archived items are copied, order is kept, and items that are there already, word for word and as visible, are left
    alone: a copy that was interrupted goes on when it is run again. What is deleted arrives deleted and is never shown.
    In the end the destination is read, and every item compared by its hash. The source is not changed.
    """
    from memoranda_cli.stores import run

    if source == destination:
        raise CommandError("SOURCE and DESTINATION are the same.", ExitCode.USAGE)
    tally = Tally()
    work = _Copy((source, source_options), (destination, destination_options), metadata, policy, deleted, tally)
    with broken_off(tally):
        report = run(work.tried() if dry_run else work.done())
    if as_json:
        show_json({**report, **tally.as_json(), "dry_run": dry_run})
    elif dry_run:
        say(f"Would copy to {redacted(destination)}: {tally.sentence()}.")
    else:
        say(f"{tally.sentence()}; {report['count']:,} verified by hash, digest {report['digest'][:16]}….")


@dataclass(frozen=True, slots=True)
class _Copy:
    """One copy: from where, to where, and of what."""

    source: tuple[str, list[str] | None]
    destination: tuple[str, list[str] | None]
    metadata: Any
    policy: OnConflict
    deleted: bool
    tally: Tally

    async def tried(self) -> dict[str, Any]:
        """Compare the two without writing to either, and count what would become of each item."""
        from memoranda_cli.stores import opened

        async with (
            opened(*self.source) as origin,
            trial(*self.destination, self.policy, self.tally) as transfer,
        ):
            self._check(transfer.store)
            total = await origin.count(metadata=self.metadata, include_deleted=self.deleted)
            hidden = await self._hidden(origin)
            with progress("comparing", total) as advance:
                async for batch in _batches(origin, self.metadata, hidden, self.deleted):
                    await transfer.plan(batch)
                    advance(len(batch))
        return {"count": total, "digest": "", "verified": False}

    async def done(self) -> dict[str, Any]:
        """Copy, and compare in the end."""
        from memoranda_cli.stores import opened

        # The source comes first: where it is not there, no destination is made.
        async with opened(*self.source) as origin, opened(*self.destination, "create") as target:
            self._check(target)
            total = await origin.count(metadata=self.metadata, include_deleted=self.deleted)
            transfer = Transfer(target, self.policy, self.tally)
            await transfer.begin()
            hidden = await self._hidden(origin)
            if self.policy is OnConflict.FAIL and not transfer.empty:
                with progress("checking", total) as advance:
                    async for batch in _batches(origin, self.metadata, hidden, self.deleted):
                        await transfer.check(batch)
                        advance(len(batch))
            arrivals = Arrivals()
            with progress("copying", total) as advance:
                async for batch in _batches(origin, self.metadata, hidden, self.deleted):
                    arrivals.take(await transfer.put(batch))
                    advance(len(batch))
            return await _verified(target, self.metadata, self.deleted, arrivals, in_order=transfer.empty)

    def _check(self, target: BaseStore) -> None:
        if self.deleted and Capability.ADD_DELETED not in target.capabilities:
            raise CommandError(f"{target!r} cannot take deleted items; copy without --deleted.", ExitCode.UNSUPPORTED)

    async def _hidden(self, origin: BaseStore) -> set[str]:
        return await hidden_ids(origin, self.metadata) if self.deleted else set()


async def _batches(store: BaseStore, metadata: Any, hidden: set[str], deleted: bool) -> AsyncIterator[list[Incoming]]:
    batch: list[Incoming] = []
    async for item in store.scan(metadata=metadata, include_deleted=deleted, order="added"):
        batch.append(Incoming(item, item.id in hidden))
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def _verified(
    target: BaseStore, metadata: Any, deleted: bool, arrivals: Arrivals, *, in_order: bool
) -> dict[str, Any]:
    """Read the destination and compare. Where it was empty before, the order must be the source's as well."""
    with progress("verifying", arrivals.digest.count) as advance:
        hidden = await hidden_ids(target, metadata) if deleted else set()

        async def stored() -> AsyncIterator[Incoming]:
            async for item in target.scan(metadata=metadata, include_deleted=deleted):
                advance(1)
                yield Incoming(item, item.id in hidden)

        missing, digest = await arrivals.missing(stored())
    if missing:
        raise CommandError(f"{missing:,} items are not at the destination as they were in the source. Run it again.")
    if in_order and digest != arrivals.digest.text:
        raise CommandError("All items are there, but not in the order of the source: the destination's ties differ.")
    return {"count": arrivals.digest.count, "digest": arrivals.digest.text, "verified": True}
