"""``memoranda quarantine list``, ``approve`` and ``reject``. Only the command imports this module."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memoranda_commands import options
from memoranda_commands.exits import not_found
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import agree, items_text, preview
from memoranda_guard.quarantine import NotQuarantinedError, QuarantinedMemory
from memoranda_guard.quarantine import approve as approved
from memoranda_guard.quarantine import quarantined as kept_apart
from memoranda_guard.quarantine import reject as rejected

quarantine = typer.Typer(
    add_completion=False, no_args_is_help=True, help="List, approve or reject items that a policy keeps apart."
)

ItemId = Annotated[str, argument("ID", "The id of an item in quarantine.")]


@quarantine.command("list")
@options.scoped
def list_(*, target: options.Target) -> None:
    """Show the items in quarantine: why each is there, where it comes from and how it begins."""
    items = target.run(lambda store: kept_apart(store, metadata=target.metadata))
    target.report(
        {"items": [_as_json(item) for item in items]},
        f"{items_text(len(items))} in quarantine.",
        columns=(("id", {"no_wrap": True}), "owner", "type", "trust", "origin", "rule", "content"),
        rows=[_row(item) for item in items],
    )


@quarantine.command()
@options.scoped
def approve(
    item_id: ItemId,
    by: Annotated[str, option("--by NAME", "Who approves it; the item records it.")],
    trust: Annotated[str | None, option("--trust LEVEL", "Give it this trust instead of its own.")] = None,
    *,
    target: options.Target,
) -> None:
    """Store an item of the quarantine as it was written. It keeps its trust unless --trust raises it."""
    from memoranda.store import dump_item

    with not_found(NotQuarantinedError):
        item = target.run(
            lambda store: approved(store, item_id, by=by, trust=trust, metadata=target.metadata), "change"
        )
    target.report(dump_item(item), f"The item {item.id!r} is stored.")


@quarantine.command()
@options.scoped
def reject(
    item_id: ItemId,
    yes: options.Yes = False,
    *,
    target: options.Target,
) -> None:
    """Remove an item of the quarantine for good."""
    agree(f"Remove the item {item_id!r} for good? This cannot be undone.", yes=yes)
    with not_found(NotQuarantinedError):
        target.run(lambda store: rejected(store, item_id, metadata=target.metadata), "change")
    target.report({"rejected": item_id}, f"The item {item_id!r} is removed.")


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
