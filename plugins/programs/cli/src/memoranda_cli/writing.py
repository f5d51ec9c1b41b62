"""``memoranda add``, ``fork``, ``clear``, ``restore`` and ``purge``. What is to be removed is confirmed first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda.store.lineage import erase
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode, uncertain
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import agree, items_text, progress, say, show_json

if TYPE_CHECKING:
    from memoranda.items import MemoryItem
    from memoranda.store import Access, Store

WHAT = "Item"
TOOLS = "Tools"


@options.scoped
def add(
    content: Annotated[str | None, argument("CONTENT", "The text; '-' or nothing reads it from a pipe.")] = None,
    memory_type: Annotated[str, option("--type", "human, ai, tool, system, or any type of your own.", WHAT)] = "human",
    name: Annotated[str | None, option("--name", "Who spoke, where the type is not enough.", WHAT)] = None,
    item_id: Annotated[str | None, option("--id", "An id; one that exists is replaced.", WHAT)] = None,
    status: Annotated[str, option("--status", "draft, accepted or discard.", WHAT)] = ("accepted"),
    at: Annotated[str | None, option("--at TIME", "When; ISO-8601, UTC by default.", WHAT)] = None,
    field: Annotated[list[str] | None, option("--field KEY=JSON", "A further field; may be repeated.", WHAT)] = None,
    tool_calls: Annotated[str | None, option("--tool-calls JSON", "The calls of an ai item.", TOOLS)] = None,
    tool_call_id: Annotated[str | None, option("--tool-call-id", "The call that a tool item answers.", TOOLS)] = None,
    tool_name: Annotated[str | None, option("--tool-name", "The tool.", TOOLS)] = None,
    failed: Annotated[bool, option("--failed", "The tool failed.", TOOLS)] = False,
    ttl: Annotated[float | None, option("--ttl SECONDS", "Remove it by itself after so long.")] = None,
    *,
    target: options.Target,
) -> None:
    """Store one memory, and print its id."""
    text = _content(content)
    if not text.strip() and tool_calls is None and memory_type != "tool":
        # An item that calls a tool may have no text, and neither may a result.
        raise InputError("There is nothing to store: give the text on the line or through a pipe.", field="content")
    fields: dict[str, Any] = {
        "content": text,
        "memory_type": memory_type,
        "status": status,
        **{key: value for key, value in {"id": item_id, "name": name, "created_at": at}.items() if value is not None},
        **options.pairs(field, "--field"),
    }
    if tool_calls is not None:
        fields["tool_calls"] = _calls(tool_calls)
    fields |= {key: value for key, value in (("tool_call_id", tool_call_id), ("tool_name", tool_name)) if value}
    if failed:
        fields["is_error"] = True
    if target.metadata is not None:
        fields["metadata"] = target.metadata
    _add(target, fields, ttl)


def _add(target: options.Target, fields: dict[str, Any], ttl: float | None) -> None:
    from memoranda.store import dump_item, load_item
    from memoranda.store.backend import check_item

    # An item that is refused must not leave a new store behind.
    check_item(load_item(fields))

    async def work(store: Store) -> tuple[MemoryItem, MemoryItem | None]:
        item = load_item(fields, store.item_types)
        await store.add(item, ttl=ttl)
        return item, await store.get(item.id) if target.as_json else None

    item, stored = target.run(work, "create")
    if stored is not None:
        show_json(dump_item(stored))
    else:
        typer.echo(item.id)


def _content(given: str | None) -> str:
    if given is not None and given != "-":
        content = given
    else:
        if sys.stdin.isatty():
            say("Type the memory; Ctrl-D ends it.")
        try:
            content = sys.stdin.read().removesuffix("\n")
        except UnicodeDecodeError as error:
            raise InputError(f"The piped text is not {error.encoding.upper()} text.", field="content") from error
    options.check_decoded(content, "The text")
    return content


def _calls(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"--tool-calls is not JSON: {error}.", field="tool_calls") from error


@options.on_store
def fork(
    session: Annotated[str, argument("SESSION", "The session to fork.")],
    at: Annotated[str, option("--at ID", "The last item that both share.")],
    user: Annotated[str | None, option("--user -u ID", "Only this user's session.")] = None,
    *,
    target: options.Target,
) -> None:
    """Fork a session at one of its items, and print the id of the new one.

    The new session shows the other one up to that item, and continues on its own; nothing is copied.
    'memoranda history --ids' shows the ids of items.
    """

    async def work(store: Store) -> str:
        source = store if user is None else store.scoped(user_id=user)
        return await source.fork(session, at=at)

    branch = target.run(work, "change")
    if target.as_json:
        show_json({"session": branch, "parent": session, "at": at})
    else:
        typer.echo(branch)


Everything = Annotated[bool, option("--all", "All of them, of every owner.")]
ItemId = Annotated[str | None, argument("ID", "One item, by its id.")]


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
    deleted: Annotated[bool, option("--deleted", "Only those that are deleted: empty the bin.")] = False,
    derived: Annotated[
        bool, option("--derived", "With an ID: also the summaries and facts that were made from it.")
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
    done = f"{items_text(number)} {verb}." if number else nothing
    sentence = f"{items_text(number)} would be {verb}." if dry_run else done
    target.report({"items": number, "dry_run": dry_run, **further}, sentence)


async def _hidden(store: Store, item_id: str | None, metadata: Any) -> int:
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
