"""``memoranda forget``: erase all traces of a user, and search again to prove it. The inspector uses this, too."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.items import MemoryMetadata, now_text
from memoranda.store import Capability, Erasing
from memoranda.urls import redacted
from memoranda_cli import options
from memoranda_cli.exits import CommandError, ExitCode
from memoranda_cli.interrupting import uncertain
from memoranda_cli.terminal import agree, items_text, progress, say, show, show_json, table

if TYPE_CHECKING:
    from memoranda.store import BaseStore


@dataclass(slots=True)
class Receipt:
    """What a store held of a user, what was removed, and what a second search still found."""

    user_id: str
    store: str
    found: int
    deleted: int
    method: str
    removed: int = 0
    left: dict[str, int] = field(default_factory=dict)
    pending: str = ""
    at: str = field(default_factory=now_text)

    @property
    def complete(self) -> bool:
        """True if no search finds anything, and nothing waits to be erased from the disk."""
        return not any(self.left.values()) and not self.pending

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as a document."""
        return {**asdict(self), "complete": self.complete}


async def count_user(store: BaseStore, name: str, user: str) -> Receipt:
    """Return a receipt that says how much a store of this name holds of a user; nothing is removed yet."""
    owner = MemoryMetadata(user_id=user)
    found = await store.count(metadata=owner)
    hides = Capability.DELETE in store.capabilities
    everything = await store.count(metadata=owner, include_deleted=True) if hides else found
    method = "purge" if Capability.PURGE in store.capabilities else "clear"
    return Receipt(user, name, found, everything - found, method)


async def erase_user(store: BaseStore, receipt: Receipt) -> None:
    """Erase what a store holds of the user of a receipt, search again, and complete the receipt."""
    owner = MemoryMetadata(user_id=receipt.user_id)
    if receipt.found + receipt.deleted:
        remove = store.purge if receipt.method == "purge" else store.clear
        receipt.removed = await remove(metadata=owner)
    receipt.left = await _traces(store, owner)
    receipt.pending = await store.erase() if isinstance(store, Erasing) else ""
    receipt.at = now_text()


def forget(
    user: Annotated[str, typer.Argument(metavar="USER", help="The user's id.")],
    receipt_file: Annotated[
        Path | None, typer.Option("--receipt", metavar="FILE", help="Write the receipt there, too.")
    ] = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Erase all traces of a user, look again everywhere, and print a receipt.

    Deleted and archived memories and summaries go too. What other users' memories say about the user stays. The exit
    code is 1 if anything is left, also if the engine still has what was removed on its disk, and 3 if the store knows
    no such user: then nothing is erased, and names that look alike are offered.
    """
    from memoranda_cli.stores import chosen_url, run

    url = chosen_url(store)
    with uncertain("Some of the items may be erased already; run it again for a receipt."):
        receipt = run(_forget(url, store_options, user, dry_run, yes, _incomplete(receipt_file, user)))
    document = {**receipt.as_json(), "dry_run": dry_run}
    if dry_run:
        if as_json:
            show_json(document)
        else:
            total = items_text(receipt.found + receipt.deleted)
            say(f"{total} of {user!r} would be erased ({receipt.deleted} of them deleted already).")
        return
    if receipt_file is not None:
        receipt_file.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    if as_json and receipt.complete:
        show_json(document)
    elif not as_json:
        _show(receipt)
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


async def _forget(
    url: str, store_options: list[str] | None, user: str, dry_run: bool, yes: bool, resumed: bool
) -> Receipt:
    from memoranda_cli.stores import opened, unerased

    async with opened(url, store_options, "read" if dry_run else "change") as store:
        receipt = await count_user(store, redacted(url), user)
        total = receipt.found + receipt.deleted
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


async def _unknown(store: BaseStore, user: str) -> CommandError:
    """Return the error for a user of whom the store has nothing, so that it is not mistaken for a receipt."""
    hides = Capability.DELETE in store.capabilities
    known = {item.metadata.user_id or "" async for item in store.scan(include_deleted=hides)} - {""}
    alike = get_close_matches(user, known) or [name for name in known if name.casefold() == user.casefold()]
    meant = f" Did you mean {' or '.join(map(repr, alike))}?" if alike else ""
    return CommandError(
        f"{store!r} has nothing of {user!r}, so nothing was erased.{meant}",
        ExitCode.NOT_FOUND,
        {"alike": alike},
    )


async def _traces(store: BaseStore, owner: MemoryMetadata) -> dict[str, int]:
    """Look for the user in every way that finds items, and return how many each still finds."""
    left = {
        "counted": await store.count(metadata=owner),
        "scanned": sum([1 async for _ in store.scan(metadata=owner)]),
        "searched": len(await store.search(metadata=owner, limit=1000, mode="substring")),
    }
    if Capability.DELETE in store.capabilities:
        left["deleted"] = sum([1 async for _ in store.scan(metadata=owner, include_deleted=True)]) - left["scanned"]
    for mode in (Capability.TEXT, Capability.SEMANTIC, Capability.HYBRID):
        if mode in store.capabilities:
            ranked = await store.search_ranked(query="the", metadata=owner, limit=1000, mode=mode.value)  # type: ignore[arg-type]  # these three are modes
            left[mode.value] = len(ranked)
    return left


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
    if receipt.pending:
        rows.append(("still pending", receipt.pending))
    show(table(("", {"no_wrap": True, "style": "bold"}), "", rows=rows))
