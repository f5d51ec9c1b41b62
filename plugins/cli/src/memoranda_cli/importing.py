"""``memoranda import``: a JSON Lines file is read through and checked before anything of it is stored."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from memoranda.errors import InputError
from memoranda.store import Capability, check_item, load_item
from memoranda_cli import options
from memoranda_cli.exits import CommandError, ExitCode
from memoranda_cli.jsonl import Digest, read_lines, seal_of
from memoranda_cli.terminal import progress, say
from memoranda_cli.transfer import BATCH, Arrivals, Incoming, OnConflict, Tally, Transfer

if TYPE_CHECKING:
    from memoranda.items import MemoryItem
    from memoranda.store import BaseStore

Policy = Annotated[
    OnConflict,
    typer.Option("--on-conflict", help="What to do with an id that is taken by an item that says something else."),
]


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to read; '-' is standard input.")] = "-",
    policy: Policy = OnConflict.FAIL,
    dry_run: options.DryRun = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
) -> None:
    """Read memories from a JSON Lines file.

    The whole file is checked first: one bad line, named by its number, and nothing is stored. Items that are there
    already, word for word and as visible, are left alone, so an import that was interrupted goes on when it is run
    again. What is deleted in the file arrives deleted and is never shown. In the end every item is looked up and
    compared.
    """
    from memoranda_cli.stores import chosen_url, run

    url = chosen_url(store)
    with _readable(file) as (source, name):
        tally = Tally()
        try:
            run(_import(url, store_options, source, name, policy, dry_run, tally))
        except KeyboardInterrupt:
            say(f"Interrupted after {tally.total:,} items; run the same line again to go on.")
            raise
    say(f"{'Would import' if dry_run else 'Imported'} {name}: {tally.sentence()}.")


async def _import(
    url: str,
    store_options: list[str] | None,
    source: IO[str],
    name: str,
    policy: OnConflict,
    dry_run: bool,
    tally: Tally,
) -> None:
    from memoranda_cli.stores import opened

    async with opened(url, store_options) as store:
        transfer = Transfer(store, policy)
        transfer.tally = tally
        await transfer.begin()
        total = await _checked(source, name, transfer)
        if dry_run:
            tally.added = total
            return
        arrivals = Arrivals()
        with progress("importing", total) as advance:
            for batch in _batches(source, name, store):
                arrivals.take(await transfer.put(batch))
                advance(len(batch))
        missing = await transfer.missing(arrivals)
        if missing:
            raise CommandError(f"{missing:,} items are not in the store as they are in {name}. Run it again.")


async def _checked(source: IO[str], name: str, transfer: Transfer) -> int:
    """Read the whole file without storing anything, and return the number of its items."""
    digest = Digest()
    with progress("checking", None) as advance:
        for batch in _batches(source, name, transfer.store):
            for incoming in batch:
                digest.take(incoming.item, hidden=incoming.hidden)
            await transfer.check(batch)
            advance(len(batch))
    source.seek(0)
    seal = seal_of(source)
    if seal is not None and (seal.get("count"), seal.get("digest")) != (digest.count, digest.text):
        raise CommandError(
            f"{name} does not hold the {seal.get('count')} items that its last line seals: it was changed or damaged. "
            f"Remove its first and last line to import it as it is.",
            ExitCode.UNREADABLE,
        )
    return digest.count


def _batches(source: IO[str], name: str, store: BaseStore) -> Iterator[list[Incoming]]:
    source.seek(0)
    batch: list[Incoming] = []
    hides = Capability.ADD_DELETED in store.capabilities
    for line in read_lines(source, name):
        if line.hidden and not hides:
            raise CommandError(
                f"{name}, line {line.number} is a deleted item and this store cannot take it as such. Export without "
                f"--deleted.",
                ExitCode.UNSUPPORTED,
            )
        batch.append(Incoming(_item(line.data, name, line.number, store.item_types), line.hidden))
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _item(data: object, name: str, number: int, types: Mapping[str, type[MemoryItem]]) -> MemoryItem:
    try:
        item = load_item(data, types)  # type: ignore[arg-type]  # it says so itself when it is no object
        check_item(item)
    except InputError as error:
        raise InputError(f"{name}, line {number}: {error}", field=error.field) from error
    return item


@contextmanager
def _readable(file: str) -> Iterator[tuple[IO[str], str]]:
    """Give a text file that can be read twice, and its name for messages."""
    if file == "-":
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as spool:
            shutil.copyfileobj(sys.stdin, spool)
            yield spool, "standard input"
        return
    try:
        source = Path(file).open(encoding="utf-8", newline="\n")  # noqa: SIM115 - closed below, by what uses it
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.", ExitCode.NOT_FOUND) from error
    with source:
        try:
            yield source, file
        except UnicodeDecodeError as error:
            raise InputError(
                f"{file} is not UTF-8 text ({error.reason} at byte {error.start}).", field="file"
            ) from error
