"""``memoranda forget``: erase all traces of a user, and print the receipt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.urls import redacted
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.interrupting import uncertain
from memoranda_commands.terminal import agree, did_you_mean, items_text, progress, show, show_json, table
from memoranda_userdata import Receipt, count_user, erase_user, similar_users

if TYPE_CHECKING:
    from memoranda.store import Store


@options.on_store
def forget(
    user: Annotated[str, typer.Argument(metavar="USER", help="The user's id.")],
    receipt_file: Annotated[
        Path | None, typer.Option("--receipt", metavar="FILE", help="Write the receipt there, too.")
    ] = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    *,
    target: options.Target,
) -> None:
    """Erase all traces of a user, look again everywhere, and print a receipt.

    Deleted and archived memories and summaries go too. What other users' memories say about the user stays. The exit
    code is 1 if anything is left, also if the engine still has what was removed on its disk, and 3 if the store knows
    no such user: then nothing is erased, and names that look alike are offered.
    """
    from memoranda_commands.stores import chosen_url

    url = chosen_url(target.url)
    target = replace(target, url=url)
    resumed = _incomplete(receipt_file, user)
    with uncertain("Some of the items may be erased already; run it again for a receipt."):
        receipt = target.run(
            lambda store: _forget(store, redacted(url), user, dry_run, yes, resumed),
            "read" if dry_run else "change",
        )
    document = {**receipt.as_json(), "dry_run": dry_run}
    if dry_run:
        total = items_text(receipt.held)
        target.report(document, f"{total} of {user!r} would be erased ({receipt.deleted} of them deleted already).")
        return
    if receipt_file is not None:
        receipt_file.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    if not target.as_json:
        _show(receipt)
    elif receipt.complete:
        show_json(document)
    if any(receipt.left.values()):
        raise CommandError(
            "Something is left. If only deleted items are, this store cannot purge; otherwise a process is still "
            "writing for this user: stop it and run this again.",
            document=document,
        )
    if receipt.pending:
        raise CommandError(
            f"Nothing is found any more. {receipt.pending} Run it again then; the same --receipt is completed.",
            document=document,
        )


async def _forget(store: Store, url: str, user: str, dry_run: bool, yes: bool, resumed: bool) -> Receipt:
    from memoranda_commands.stores import unerased

    receipt = await count_user(store, url, user)
    total = receipt.held
    # An earlier run may have left data on the disk; its receipt asked to run the command again.
    if not total and not resumed and not await unerased(store):
        raise await _unknown(store, user)
    if dry_run:
        return receipt
    if total:
        agree(f"Erase {items_text(total)} of {user!r} for good? This cannot be undone.", yes=yes)
    with progress("erasing", None):
        await erase_user(store, receipt)
    return receipt


def _incomplete(receipt_file: Path | None, user: str) -> bool:
    """Return True if the file holds an incomplete receipt of this user: the store may have nothing of them any more."""
    if receipt_file is None:
        return False
    try:
        found = json.loads(receipt_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("user_id") == user and found.get("complete") is False


async def _unknown(store: Store, user: str) -> CommandError:
    """Return the error for a user of whom the store has nothing, so that it is not mistaken for a receipt."""
    alike = await similar_users(store, user, deleted=True)
    return CommandError(
        f"{store.label} has nothing of {user!r}, so nothing was erased.{did_you_mean(alike)}",
        ExitCode.NOT_FOUND,
        {"alike": alike},
    )


def _show(receipt: Receipt) -> None:
    left = ", ".join(f"{way} {number}" for way, number in receipt.left.items())
    verdict = "SOMETHING IS LEFT" if any(receipt.left.values()) else "nothing is left"
    rows = [
        ("user", receipt.user_id),
        ("store", receipt.store),
        ("at", receipt.at),
        ("there were", f"{receipt.found:,}, and {receipt.deleted:,} deleted already"),
        ("removed", f"{receipt.removed:,}, by {receipt.method}"),
        ("looked again", f"{left}: {verdict}"),
    ]
    if receipt.keys_destroyed is not None:
        rows.append(("keys destroyed", f"{receipt.keys_destroyed:,}: no backup of this user can be read any more"))
    if receipt.pending:
        rows.append(("still pending", receipt.pending))
    show(table(("", {"no_wrap": True, "style": "bold"}), "", rows=rows))
