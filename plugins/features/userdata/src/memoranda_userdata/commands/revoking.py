"""``memoranda revoke``: take back what an origin wrote, with everything that was made from it, and undo that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.interrupting import uncertain
from memoranda_commands.terminal import agree, items_text, say, show_json
from memoranda_userdata import Revocation, find_revoked, take_back, undo_revocation

if TYPE_CHECKING:
    from memoranda.store import Store


@options.scoped
def revoke_(
    origin: Annotated[str | None, typer.Option("--origin", metavar="ORIGIN", help="What this origin wrote.")] = None,
    item: Annotated[str | None, typer.Option("--item", metavar="ID", help="One item.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="What was created since, such as 2026-03-01.")
    ] = None,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who asks for it, for the receipt.")] = "",
    receipt_file: Annotated[
        Path | None, typer.Option("--receipt", metavar="FILE", help="Write the receipt there: --undo reads it.")
    ] = None,
    undo_file: Annotated[
        Path | None, typer.Option("--undo", metavar="FILE", help="Bring back what a receipt says was taken.")
    ] = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    *,
    target: options.Target,
) -> None:
    """Take back what an origin wrote, an item, or all since a time, with everything that was made from it.

    Summaries and facts that were made from it go too, and what only such a summary stood for is shown again. Items are
    deleted, not erased; --undo brings them back.
    """
    owner = target.metadata
    named = {} if owner is None else owner.model_dump(exclude={"extra"}, exclude_defaults=True)

    async def work(store: Store) -> None:
        reached = store.scoped(**named) if named else store
        if undo_file is not None:
            restored = await undo_revocation(reached, _read(undo_file))
            target.report({"restored": restored}, f"{items_text(restored)} brought back.")
            return
        found = await find_revoked(reached, origin=origin, item=item, since=since, by=by)
        if dry_run or not found.taken:
            _report(found, target.as_json, done=False)
            return
        agree(f"Take back {items_text(len(found.taken))} of {store.label}?", yes=yes)
        if receipt_file is not None:  # Before the first item goes, so that all of them can come back.
            _write(receipt_file, found)
        await take_back(reached, found)
        _report(found, target.as_json, done=True)

    with uncertain("Some of the items may be taken back already; run it again to be sure."):
        target.run(work, "read" if dry_run else "change")


def _write(file: Path, receipt: Revocation) -> None:
    file.write_text(json.dumps(receipt.as_json(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _read(file: Path) -> Revocation:
    try:
        return Revocation.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CommandError(f"{file} holds no receipt of 'memoranda revoke'.", ExitCode.USAGE) from error


def _report(receipt: Revocation, as_json: bool, *, done: bool) -> None:
    if as_json:
        show_json(receipt.as_json())
        return
    if not receipt.taken:
        say("No item matches: there is nothing to take back.")
        return
    made = len(receipt.taken) - len(receipt.roots)
    derived = f", {made} of them made from others" if made else ""
    say(f"{items_text(len(receipt.taken))} {'taken back' if done else 'would be taken back'}{derived}.")
    if receipt.shown_again:
        count = items_text(len(receipt.shown_again))
        say(f"{count} that only a summary among them stood for: {'' if done else 'would be '}shown again.")
