"""``memoranda clear``, ``restore`` and ``purge``. What is to be removed is counted and confirmed first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda.store.lineage import erase
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.interrupting import uncertain
from memoranda_commands.terminal import agree, items_text, progress, say, show_json

if TYPE_CHECKING:
    from memoranda.store import Access, Store

Everything = Annotated[bool, typer.Option("--all", help="All of them, of every owner.")]
ItemId = Annotated[str | None, typer.Argument(metavar="ID", help="One item, by its id.")]


@options.filtered
@options.scoped
def clear(
    metadata: options.Owner = None,
    which: options.Which = None,
    everything: Everything = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Remove memories by their owner, or all of them with --all.

    Most stores keep deleted items, and 'memoranda restore' brings them back; the question says if this one does.
    """
    from memoranda.store import Capability
    from memoranda_commands.stores import opened, run

    if not which:
        metadata = _named(metadata, everything, "clear")

    async def work() -> None:
        async with opened(store, store_options, _access(dry_run)) as target:
            hides = Capability.DELETE in target.capabilities
            number = await target.count(metadata=metadata, **which)
            verb = "Delete" if hides else "Remove for good"
            if dry_run or not number:
                _report(number, dry_run, as_json, "deleted" if hides else "removed for good")
                return
            agree(f"{verb} {items_text(number)} of {target.label}?", yes=yes)
            removed = await target.clear(metadata=metadata, **which)
            _report(
                removed,
                dry_run,
                as_json,
                "deleted; memoranda restore brings them back" if hides else "removed for good",
            )

    with uncertain("Some of the items may be removed already; run it again to be sure."):
        run(work())


@options.scoped
def restore(
    item_id: ItemId = None,
    metadata: options.Owner = None,
    everything: Everything = False,
    dry_run: options.DryRun = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Bring back what was cleared, where the store only hid it: one id, an owner's, or --all."""
    from memoranda_commands.stores import opened, run

    if item_id is None:
        metadata = _named(metadata, everything, "restore")

    async def work() -> None:
        async with opened(store, store_options, _access(dry_run)) as target:
            if dry_run:
                _report(await _hidden(target, item_id, metadata), dry_run, as_json, "restored")
                return
            restored = await target.restore(item_id, metadata=metadata)
            if item_id is not None and not restored:
                raise CommandError(f"No deleted item has the id {item_id!r}.", ExitCode.NOT_FOUND)
            _report(restored, dry_run, as_json, "restored", "There is nothing to restore.")

    with uncertain("Some of the items may be back already; run it again to be sure."):
        run(work())


@options.filtered
@options.scoped
def purge(
    item_id: ItemId = None,
    metadata: options.Owner = None,
    which: options.Which = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Only those that are deleted: empty the bin.")] = False,
    derived: Annotated[
        bool, typer.Option("--derived", help="With an ID: also the summaries and facts that were made from it.")
    ] = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Remove memories for good, deleted ones too: one id, an owner's, or the bin with --deleted."""
    from memoranda_commands.stores import opened, run, unerased

    if item_id is None and metadata is None and not deleted and not which:
        raise InputError(
            "Name an id, an owner (--user, --session, …), --until and the like, or --deleted.", field="metadata"
        )
    if derived and (item_id is None or deleted):
        raise InputError("--derived goes with the id of an item that is not deleted.", field="derived")
    if which and (item_id is not None or deleted):
        raise InputError("--since, --until and --where go with neither an id nor --deleted.", field="where")

    async def work() -> None:
        async with opened(store, store_options, _access(dry_run)) as target:
            number = await _purgeable(target, item_id, metadata, deleted, which)
            if item_id is not None and not number:
                raise CommandError(f"There is no item {item_id!r} here.", ExitCode.NOT_FOUND)
            if dry_run or not number:
                _report(number, dry_run, as_json, "removed for good")
                return
            agree(f"Remove {items_text(number)} of {target.label} for good? This cannot be undone.", yes=yes)
            with progress("purging", None):
                if derived and item_id is not None:
                    purged = len((await erase(target, [item_id])).purged)
                else:
                    purged = await target.purge(item_id, metadata=metadata, deleted_only=deleted, **which)
            pending = await unerased(target)
            _report(purged, dry_run, as_json, "removed for good", pending=pending)
            if pending:
                say(pending)

    with uncertain("Some of the items may be removed already; run it again to be sure."):
        run(work())


def _access(dry_run: bool) -> Access:
    """Return what a store is opened for: a dry run only reads."""
    return "read" if dry_run else "change"


def _named(metadata: Any, everything: bool, command: str) -> Any:
    if metadata is None and not everything:
        raise InputError(
            f"'memoranda {command}' without an owner would take all items; name one (--user, --session, …) or --all.",
            field="metadata",
        )
    if metadata is not None and everything:
        raise InputError("--all and an owner contradict each other.", field="metadata")
    return metadata


def _report(
    number: int,
    dry_run: bool,
    as_json: bool,
    verb: str,
    nothing: str = "There is nothing to remove.",
    **further: Any,
) -> None:
    """Report what was done with so many items, or would be."""
    if as_json:
        show_json({"items": number, "dry_run": dry_run, **further})
    elif dry_run:
        say(f"{items_text(number)} would be {verb}.")
    else:
        say(f"{items_text(number)} {verb}." if number else nothing)


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
