"""``memoranda clear``, ``restore`` and ``purge``. What is to be removed is counted and confirmed first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda.store.lineage import erase
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.interrupting import uncertain
from memoranda_commands.terminal import agree, items_text, progress, say

if TYPE_CHECKING:
    from memoranda.store import Access, Store

Everything = Annotated[bool, typer.Option("--all", help="All of them, of every owner.")]
ItemId = Annotated[str | None, typer.Argument(metavar="ID", help="One item, by its id.")]


@options.filtered
@options.scoped
def clear(
    which: options.Which = None,
    everything: Everything = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    *,
    target: options.Target,
) -> None:
    """Remove memories by their owner, or all of them with --all.

    Most stores keep deleted items, and 'memoranda restore' brings them back; the question says if this one does.
    """
    from memoranda.store import Capability

    if not which:
        _check_named(target, everything, "clear")

    async def work(store: Store) -> None:
        hides = Capability.DELETE in store.capabilities
        number = await store.count(metadata=target.metadata, **which)
        verb = "Delete" if hides else "Remove for good"
        if dry_run or not number:
            _report(target, number, dry_run, "deleted" if hides else "removed for good")
            return
        agree(f"{verb} {items_text(number)} of {store.label}?", yes=yes)
        removed = await store.clear(metadata=target.metadata, **which)
        done = "deleted; memoranda restore brings them back" if hides else "removed for good"
        _report(target, removed, dry_run, done)

    with uncertain("Some of the items may be removed already; run it again to be sure."):
        target.run(work, _access(dry_run))


@options.scoped
def restore(
    item_id: ItemId = None,
    everything: Everything = False,
    dry_run: options.DryRun = False,
    *,
    target: options.Target,
) -> None:
    """Bring back what was cleared, where the store only hid it: one id, an owner's, or --all."""
    if item_id is None:
        _check_named(target, everything, "restore")

    async def work(store: Store) -> None:
        if dry_run:
            _report(target, await _hidden(store, item_id, target.metadata), dry_run, "restored")
            return
        restored = await store.restore(item_id, metadata=target.metadata)
        if item_id is not None and not restored:
            raise CommandError(f"No deleted item has the id {item_id!r}.", ExitCode.NOT_FOUND)
        _report(target, restored, dry_run, "restored", "There is nothing to restore.")

    with uncertain("Some of the items may be back already; run it again to be sure."):
        target.run(work, _access(dry_run))


@options.filtered
@options.scoped
def purge(
    item_id: ItemId = None,
    which: options.Which = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Only those that are deleted: empty the bin.")] = False,
    derived: Annotated[
        bool, typer.Option("--derived", help="With an ID: also the summaries and facts that were made from it.")
    ] = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    *,
    target: options.Target,
) -> None:
    """Remove memories for good, deleted ones too: one id, an owner's, or the bin with --deleted."""
    from memoranda_commands.stores import unerased

    metadata = target.metadata
    if item_id is None and metadata is None and not deleted and not which:
        raise InputError(
            "Name an id, an owner (--user, --session, …), --until and the like, or --deleted.", field="metadata"
        )
    if derived and (item_id is None or deleted):
        raise InputError("--derived goes with the id of an item that is not deleted.", field="derived")
    if which and (item_id is not None or deleted):
        raise InputError("--since, --until and --where go with neither an id nor --deleted.", field="where")

    async def work(store: Store) -> None:
        number = await _purgeable(store, item_id, metadata, deleted, which)
        if item_id is not None and not number:
            raise CommandError(f"There is no item {item_id!r} here.", ExitCode.NOT_FOUND)
        if dry_run or not number:
            _report(target, number, dry_run, "removed for good")
            return
        agree(f"Remove {items_text(number)} of {store.label} for good? This cannot be undone.", yes=yes)
        with progress("purging", None):
            if derived and item_id is not None:
                purged = len((await erase(store, [item_id])).purged)
            else:
                purged = await store.purge(item_id, metadata=metadata, deleted_only=deleted, **which)
        pending = await unerased(store)
        _report(target, purged, dry_run, "removed for good", pending=pending)
        if pending:
            say(pending)

    with uncertain("Some of the items may be removed already; run it again to be sure."):
        target.run(work, _access(dry_run))


def _access(dry_run: bool) -> Access:
    """Return what a store is opened for: a dry run only reads."""
    return "read" if dry_run else "change"


def _check_named(target: options.Target, everything: bool, command: str) -> None:
    """Raise InputError unless the line names an owner or ``--all``."""
    if target.metadata is None and not everything:
        raise InputError(
            f"'memoranda {command}' without an owner would take all items; name one (--user, --session, …) or --all.",
            field="metadata",
        )
    if target.metadata is not None and everything:
        raise InputError("--all and an owner contradict each other.", field="metadata")


def _report(
    target: options.Target,
    number: int,
    dry_run: bool,
    verb: str,
    nothing: str = "There is nothing to remove.",
    **further: Any,
) -> None:
    """Report what was done with so many items, or would be."""
    done = f"{items_text(number)} {verb}." if number else nothing
    sentence = f"{items_text(number)} would be {verb}." if dry_run else done
    target.report({"items": number, "dry_run": dry_run, **further}, sentence)


async def _hidden(store: Store, item_id: str | None, metadata: Any) -> int:
    """Return how many deleted items a command is about."""
    if item_id is None:
        return await store.count(metadata=metadata, include_deleted=True) - await store.count(metadata=metadata)
    if await store.get(item_id) is not None:
        return 0
    return sum([item.id == item_id async for item in store.scan(metadata=metadata, include_deleted=True)])


async def _purgeable(store: Store, item_id: str | None, metadata: Any, deleted: bool, which: dict[str, Any]) -> int:
    from memoranda.store import Capability

    hides = Capability.DELETE in store.capabilities
    if item_id is not None:
        live = 0 if deleted else await store.get(item_id, metadata=metadata) is not None
        return int(live) or (await _hidden(store, item_id, metadata) if hides else 0)
    if deleted:
        return await _hidden(store, None, metadata) if hides else 0
    return await store.count(metadata=metadata, include_deleted=hides, **which)
