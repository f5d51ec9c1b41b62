"""``memoranda clear``, ``restore`` and ``purge``: nothing is removed that was not counted and agreed to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda_cli import options
from memoranda_cli.exits import CommandError, ExitCode
from memoranda_cli.terminal import agree, items_text, progress, say

if TYPE_CHECKING:
    from memoranda.store import BaseStore

Everything = Annotated[bool, typer.Option("--all", help="All of them, whosever they are.")]
ItemId = Annotated[str | None, typer.Argument(metavar="ID", help="One item, by its id.")]


@options.scoped
def clear(
    metadata: options.Owner = None,
    everything: Everything = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
) -> None:
    """Remove memories by their owner, or all of them with --all.

    Most stores keep what is deleted, and 'memoranda restore' brings it back; the question says which it is.
    """
    from memoranda.store import Capability
    from memoranda_cli.stores import opened, run

    metadata = _named(metadata, everything, "clear")

    async def work() -> None:
        async with opened(store, store_options) as target:
            hides = Capability.DELETE in target.capabilities
            number = await target.count(metadata=metadata)
            verb = "Delete" if hides else "Remove for good"
            if _ends(number, f"would be {'deleted' if hides else 'removed for good'}", dry_run):
                return
            agree(f"{verb} {items_text(number)} of {target!r}?", yes=yes)
            removed = await target.clear(metadata=metadata)
            say(f"{items_text(removed)} {'deleted; memoranda restore brings them back' if hides else 'removed'}.")

    run(work())


@options.scoped
def restore(
    item_id: ItemId = None,
    metadata: options.Owner = None,
    everything: Everything = False,
    dry_run: options.DryRun = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
) -> None:
    """Bring back what was cleared, where the store only hid it: one id, an owner's, or --all."""
    from memoranda_cli.stores import opened, run

    if item_id is None:
        metadata = _named(metadata, everything, "restore")

    async def work() -> None:
        async with opened(store, store_options) as target:
            if dry_run:
                hidden = await _hidden(target, item_id, metadata)
                say(f"{items_text(hidden)} would be restored.")
                return
            restored = await target.restore(item_id, metadata=metadata)
            if item_id is not None and not restored:
                raise CommandError(f"No deleted item has the id {item_id!r}.", ExitCode.NOT_FOUND)
            say(f"{items_text(restored)} restored.")

    run(work())


@options.scoped
def purge(
    item_id: ItemId = None,
    metadata: options.Owner = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Only those that are deleted: empty the bin.")] = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
) -> None:
    """Remove memories for good, deleted ones too: one id, an owner's, or the bin with --deleted."""
    from memoranda_cli.stores import opened, run, unerased

    if item_id is None and metadata is None and not deleted:
        raise InputError("Name an id, an owner (--user, --session, …) or --deleted.", field="metadata")

    async def work() -> None:
        async with opened(store, store_options) as target:
            number = await _purgeable(target, item_id, metadata, deleted)
            if item_id is not None and not number:
                raise CommandError(f"There is no item {item_id!r} here.", ExitCode.NOT_FOUND)
            if _ends(number, "would be removed for good", dry_run):
                return
            agree(f"Remove {items_text(number)} of {target!r} for good? This cannot be undone.", yes=yes)
            with progress("purging", None):
                purged = await target.purge(item_id, metadata=metadata, deleted_only=deleted)
            say(f"{items_text(purged)} removed for good.")
            if pending := await unerased(target):
                say(pending)

    run(work())


def _named(metadata: Any, everything: bool, command: str) -> Any:
    if metadata is None and not everything:
        raise InputError(
            f"'memoranda {command}' without an owner would take all; name one (--user, --session, …) or say --all.",
            field="metadata",
        )
    if metadata is not None and everything:
        raise InputError("--all and an owner contradict each other.", field="metadata")
    return metadata


def _ends(number: int, verb: str, dry_run: bool) -> bool:
    """Whether there is nothing to ask about; says so."""
    if dry_run or not number:
        say(f"{items_text(number)} {verb}." if dry_run else "There is nothing to remove.")
        return True
    return False


async def _hidden(store: BaseStore, item_id: str | None, metadata: Any) -> int:
    """Return how many deleted items are meant."""
    if item_id is None:
        return await store.count(metadata=metadata, include_deleted=True) - await store.count(metadata=metadata)
    if await store.get(item_id) is not None:
        return 0
    return sum([item.id == item_id async for item in store.scan(metadata=metadata, include_deleted=True)])


async def _purgeable(store: BaseStore, item_id: str | None, metadata: Any, deleted: bool) -> int:
    from memoranda.store import Capability

    hides = Capability.DELETE in store.capabilities
    if item_id is not None:
        live = 0 if deleted else await store.get(item_id, metadata=metadata) is not None
        return int(live) or (await _hidden(store, item_id, metadata) if hides else 0)
    if deleted:
        return await _hidden(store, None, metadata) if hides else 0
    return await store.count(metadata=metadata, include_deleted=hides)
