"""``memoranda forget``, which erases a user, and ``revoke``, which takes back what an origin wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.urls import redacted
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode, uncertain
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import agree, counted, did_you_mean, items_text, progress, show, show_json, table
from memoranda_userdata import (
    ErasureReceipt,
    Revocation,
    count_user,
    erase_user,
    find_revoked,
    similar_users,
    take_back,
    undo_revocation,
)

if TYPE_CHECKING:
    from memoranda.store import Store


@options.on_store
def forget(
    user: Annotated[str, argument("USER", "The user's id.")],
    receipt_file: Annotated[Path | None, option("--receipt FILE", "Write the receipt there, too.")] = None,
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
        deleted = f"{receipt.deleted} of them deleted already"
        target.report(document, f"{_held(receipt)} of {user!r} would be erased ({deleted}).")
        return
    if receipt_file is not None:
        _write(receipt_file, document)
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


async def _forget(store: Store, url: str, user: str, dry_run: bool, yes: bool, resumed: bool) -> ErasureReceipt:
    from memoranda_commands.stores import unerased

    receipt = await count_user(store, url, user)
    knows = receipt.held > 0 or bool(receipt.grants)
    # An earlier run may have left data on the disk; its receipt asked to run the command again.
    if not knows and not resumed and not await unerased(store):
        raise await _unknown(store, user)
    if dry_run:
        return receipt
    if knows:
        agree(f"Erase {_held(receipt)} of {user!r} for good? This cannot be undone.", yes=yes)
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


def _held(receipt: ErasureReceipt) -> str:
    items, grants = items_text(receipt.held), len(receipt.grants)
    return f"{items} and {counted(grants, 'grant')}" if grants else items


def _show(receipt: ErasureReceipt) -> None:
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
    if receipt.grants:
        rows.append(("grants removed", ", ".join(receipt.grants)))
    if receipt.keys_destroyed is not None:
        rows.append(("keys destroyed", f"{receipt.keys_destroyed:,}: no backup of this user can be read any more"))
    if receipt.pending:
        rows.append(("still pending", receipt.pending))
    show(table(("", {"no_wrap": True, "style": "bold"}), "", rows=rows))


@options.scoped
def revoke_(
    origin: Annotated[str | None, option("--origin ORIGIN", "What this origin wrote.")] = None,
    item: Annotated[str | None, option("--item ID", "One item.")] = None,
    since: Annotated[str | None, option("--since TIME", "What was created since, such as 2026-03-01.")] = None,
    by: Annotated[str, option("--by NAME", "Who asks for it, for the receipt.")] = "",
    receipt_file: Annotated[Path | None, option("--receipt FILE", "Write the receipt there: --undo reads it.")] = None,
    undo_file: Annotated[Path | None, option("--undo FILE", "Bring back what a receipt says was taken.")] = None,
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
            _report(target, found, done=False)
            return
        agree(f"Take back {items_text(len(found.taken))} of {store.label}?", yes=yes)
        if receipt_file is not None:  # Before the first item goes, so that all of them can come back.
            _write(receipt_file, found.as_json())
        await take_back(reached, found)
        _report(target, found, done=True)

    with uncertain("Some of the items may be taken back already; run it again to be sure."):
        target.run(work, "read" if dry_run else "change")


def _write(file: Path, receipt: dict[str, Any]) -> None:
    file.write_text(json.dumps(receipt, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _read(file: Path) -> Revocation:
    try:
        return Revocation.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CommandError(f"{file} holds no receipt of 'memoranda revoke'.", ExitCode.USAGE) from error


def _report(target: options.Target, receipt: Revocation, *, done: bool) -> None:
    sentences = ["No item matches: there is nothing to take back."]
    if receipt.taken:
        made = len(receipt.taken) - len(receipt.roots)
        derived = f", {made} of them made from others" if made else ""
        sentences = [f"{items_text(len(receipt.taken))} {'taken back' if done else 'would be taken back'}{derived}."]
    if receipt.taken and receipt.shown_again:
        count = items_text(len(receipt.shown_again))
        sentences.append(f"{count} that only a summary among them stood for: {'' if done else 'would be '}shown again.")
    target.report(receipt.as_json(), *sentences)
