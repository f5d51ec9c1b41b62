"""``memoranda receipts list``, ``show``, ``replay`` and ``diff``. Only the command imports this module."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from memoranda_commands import options
from memoranda_commands.exits import not_found
from memoranda_commands.terminal import counted, preview, say, show, show_json, table
from memoranda_receipts.receipts import NoReceiptError, Receipts, short_id

if TYPE_CHECKING:
    from memoranda_receipts import Diff, Receipt

T = TypeVar("T")

app = typer.Typer(add_completion=False, no_args_is_help=True, help="What models were shown, replayed and compared.")

Id = Annotated[str, typer.Argument(metavar="RECEIPT", help="A receipt's id, or its beginning.")]


class Format(StrEnum):
    """How a context is written."""

    TEXT = "text"
    OPENAI = "openai"
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"
    ITEMS = "items"
    PROMPT = "prompt"


@app.command("list")
@options.scoped
def list_(
    item: Annotated[
        str | None, typer.Option("--item", metavar="ID", help="Only those that showed this item: who has seen it?")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="So many of the newest.")] = 20,
    *,
    target: options.Target,
) -> None:
    """List receipts, newest first."""
    found = _run(target, lambda receipts: receipts.list(limit=limit, item=item))
    target.report(
        {"receipts": [_summary(receipt) for receipt in found]},
        f"{counted(len(found), 'receipt')}.",
        columns=(("receipt", {"no_wrap": True}), "time (UTC)", "kind", "items", "left out", "model", "answer"),
        rows=[_row(receipt) for receipt in found],
    )


@app.command("show")
@options.scoped
def show_(
    receipt: Id,
    *,
    target: options.Target,
) -> None:
    """Show what a receipt says: items, versions and hashes in order, added texts, and what was left out."""
    found = _run(target, lambda receipts: receipts.get(receipt))
    if target.as_json:
        show_json(found.as_json())
        return
    rows = [
        ("time (UTC)", found.at[:19].replace("T", " ")),
        ("kind", found.kind),
        *((name, str(value)) for name, value in found.parameters.items()),
        ("counted by", found.counter),
        *([("tokens in all", str(found.tokens))] if found.tokens is not None else []),
        *((f"left out: {reason}", _counted(found, reason)) for reason in found.left_out),
        *([("model", found.model)] if found.model else []),
        *([("answer", found.answer)] if found.answer else []),
        *((f"added text {number}", preview(text, 60)) for number, text in enumerate(found.texts, 1)),
    ]
    show(table("", "", rows=rows))
    items = [(entry.id, str(entry.version), entry.role, entry.hash[:12]) for entry in found.shown]
    show(table(("item", {"no_wrap": True}), "version", "role", "hash", rows=items))


@app.command()
@options.scoped
def replay(
    receipt: Id,
    form: Annotated[
        Format,
        typer.Option("--format", "-f", metavar="FORM", help="text, openai, responses, anthropic, items or prompt."),
    ] = Format.TEXT,
    *,
    target: options.Target,
) -> None:
    """Show a context again: the same messages, or what has changed since and the rest.

    With --format, the messages are printed byte for byte as JSON, or with --format prompt as one text.
    """
    found = _run(target, lambda receipts: receipts.replay(receipt))
    if target.as_json:
        show_json(
            {
                "receipt": found.receipt.id,
                "exact": found.exact,
                "changes": [{"id": each.id, "change": each.change, "role": each.role} for each in found.changes],
                "messages": found.messages(Format.OPENAI if form is Format.TEXT else form),
            }
        )
        return
    if form is Format.TEXT:
        from memoranda_commands.render import conversation

        show(conversation(found.items))
    else:
        typer.echo(found.bytes(form))
    for change in found.changes:
        say(f"The item {change}.")
    if found.exact:
        say("This is what the model was shown.")
    else:
        say(f"{len(found.missing)} of {len(found.receipt.shown)} items cannot be shown as they were.")


@app.command()
@options.scoped
def diff(
    earlier: Id,
    later: Id,
    *,
    target: options.Target,
) -> None:
    """Show what entered and left between two receipts, and by which rule."""

    async def work(receipts: Receipts) -> tuple[Diff, dict[str, str]]:
        found = await receipts.diff(earlier, later)
        said = await receipts.contents(earlier, [each.id for each in found.left])
        return found, said | await receipts.contents(later, [each.id for each in found.entered])

    found, contents = _run(target, work)
    rows = [
        (how, each.id, each.rule, preview(contents.get(each.id, ""), 40))
        for how, moved in (("left", found.left), ("entered", found.entered))
        for each in moved
    ]
    rows += [("changed", item_id, "shown in another version", "") for item_id in found.changed]
    target.report(
        {
            "entered": [asdict(each) for each in found.entered],
            "left": [asdict(each) for each in found.left],
            "changed": list(found.changed),
            "settings": {name: list(values) for name, values in found.settings.items()},
            "texts_differ": found.texts_differ,
        },
        *(f"{name}: {before} before, {after} after." for name, (before, after) in found.settings.items()),
        "The texts around the items differ." if found.texts_differ else "",
        "Both show the same." if found.same else "",
        columns=("", ("item", {"no_wrap": True}), "rule", "content"),
        rows=rows,
    )


def _run(target: options.Target, work: Callable[[Receipts], Coroutine[Any, Any, T]]) -> T:
    """Return the result of the work on the receipts of the owner that the options name, or of all."""
    scope = {} if target.metadata is None else target.metadata.model_dump(exclude={"extra"}, exclude_defaults=True)
    with not_found(NoReceiptError, hint=" 'memoranda receipts list' shows all."):
        return target.run(lambda store: work(Receipts(store.scoped(**scope) if scope else store)))


def _summary(receipt: Receipt) -> dict[str, Any]:
    return {
        "id": receipt.id,
        "at": receipt.at,
        "kind": receipt.kind,
        "items": len(receipt.shown),
        "left_out": dict(receipt.left_out),
        "model": receipt.model,
        "answer": receipt.answer,
    }


def _row(receipt: Receipt) -> tuple[str, ...]:
    left = ", ".join(f"{_counted(receipt, reason)} {reason}" for reason in receipt.left_out)
    when = receipt.at[:19].replace("T", " ")
    return (
        short_id(receipt),
        when,
        receipt.kind,
        str(len(receipt.shown)),
        left,
        receipt.model or "",
        receipt.answer or "",
    )


def _counted(receipt: Receipt, reason: str) -> str:
    """Return how many items were left out for a reason; a window does not read all of them."""
    return f"{receipt.left_out[reason]}{' or more' if reason == receipt.unread else ''}"
