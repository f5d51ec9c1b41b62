"""``memoranda quarantine list``, ``approve`` and ``reject``. Only the command imports this module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda_commands import options
from memoranda_commands.characters import preview
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.terminal import agree, items_text, say, show, show_json, table
from memoranda_guard.quarantine import NotQuarantinedError, QuarantinedMemory
from memoranda_guard.quarantine import approve as approved
from memoranda_guard.quarantine import quarantined as kept_apart
from memoranda_guard.quarantine import reject as rejected

if TYPE_CHECKING:
    from memoranda.items import MemoryItem

quarantine = typer.Typer(
    add_completion=False, no_args_is_help=True, help="List, approve or reject items that a policy keeps apart."
)

ItemId = Annotated[str, typer.Argument(metavar="ID", help="The id of an item in quarantine.")]


@quarantine.command("list")
@options.scoped
def list_(
    metadata: options.Owner = None,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Show the items in quarantine: why each is there, where it comes from and how it begins."""
    from memoranda_commands.stores import opened, run

    async def work() -> list[QuarantinedMemory]:
        async with opened(store, store_options) as source:
            return await kept_apart(source, metadata=metadata)

    items = run(work())
    if as_json:
        show_json({"items": [_as_json(item) for item in items]})
        return
    if items:
        columns = (("id", {"no_wrap": True}), "owner", "type", "trust", "origin", "rule", "content")
        show(table(*columns, rows=[_row(item) for item in items]))
    say(f"{items_text(len(items))} in quarantine.")


@quarantine.command()
@options.scoped
def approve(
    item_id: ItemId,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who approves it; the item records it.")],
    trust: Annotated[
        str | None, typer.Option("--trust", metavar="LEVEL", help="Give it this trust instead of its own.")
    ] = None,
    metadata: options.Owner = None,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Store an item of the quarantine as it was written. It keeps its trust unless --trust raises it."""
    from memoranda.store import dump_item
    from memoranda_commands.stores import opened, run

    async def work() -> MemoryItem:
        async with opened(store, store_options, "change") as target:
            with _not_found():
                return await approved(target, item_id, by=by, trust=trust, metadata=metadata)

    item = run(work())
    if as_json:
        show_json(dump_item(item))
    else:
        say(f"The item {item.id!r} is stored.")


@quarantine.command()
@options.scoped
def reject(
    item_id: ItemId,
    metadata: options.Owner = None,
    yes: options.Yes = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Remove an item of the quarantine for good."""
    from memoranda_commands.stores import opened, run

    async def work() -> None:
        async with opened(store, store_options, "change") as target:
            with _not_found():
                await rejected(target, item_id, metadata=metadata)

    agree(f"Remove the item {item_id!r} for good? This cannot be undone.", yes=yes)
    run(work())
    if as_json:
        show_json({"rejected": item_id})
    else:
        say(f"The item {item_id!r} is removed.")


def _row(item: QuarantinedMemory) -> tuple[str, ...]:
    shown = _as_json(item)
    return (*(str(shown[name] or "") for name in ("id", "user_id", "type", "trust", "origin", "rule")), shown["begins"])


def _as_json(item: QuarantinedMemory) -> dict[str, Any]:
    from memoranda.trust import origin_of, trust_of

    return {
        "id": item.id,
        "user_id": item.metadata.user_id,
        "type": item.original_type,
        "trust": trust_of(item).value,
        "origin": preview(origin_of(item) or "", 40),
        "rule": item.rule,
        "reason": item.reason,
        "created_at": item.created_at,
        "begins": preview(str(item.original().get("content", "")), 60),
    }


@contextmanager
def _not_found() -> Iterator[None]:
    try:
        yield
    except NotQuarantinedError as error:
        raise CommandError(str(error), ExitCode.NOT_FOUND) from error
