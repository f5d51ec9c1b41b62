"""``memoranda import``: a JSON Lines file is read through and checked before anything of it is stored."""

from __future__ import annotations

import asyncio
import io
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from memoranda.errors import InputError
from memoranda.store import Capability, check_item, load_item
from memoranda_cli import options
from memoranda_cli.exits import CommandError, ExitCode
from memoranda_cli.jsonl import Digest, Line, read_lines, seal_of
from memoranda_cli.tally import Tally, broken_off
from memoranda_cli.terminal import progress, say, show_json
from memoranda_cli.transfer import BATCH, TIMES, Arrivals, Incoming, OnConflict, Transfer, expires, trial

if TYPE_CHECKING:
    from memoranda.items import MemoryItem
    from memoranda.store import BaseStore

Policy = Annotated[
    OnConflict,
    typer.Option(
        "--on-conflict",
        metavar="POLICY",
        help="fail, skip or overwrite: what to do with an id that is taken by an item that says something else.",
    ),
]


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to read; '-' is standard input.")] = "-",
    policy: Policy = OnConflict.FAIL,
    dry_run: options.DryRun = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Read memories from a JSON Lines file.

    The whole file is checked first: one bad line, named by its number, and nothing is stored. Items that are there
    already, word for word and as visible, are left alone, so an import that was interrupted goes on when it is run
    again; a line without an id gets one from what it says and its place. What is deleted in the file arrives deleted
    and is never shown. In the end every item is looked up and compared.
    """
    from memoranda_cli.stores import chosen_url, run

    url = chosen_url(store)
    with _readable(file) as (source, name):
        tally = Tally()
        with broken_off(tally):
            run((_tried if dry_run else _import)(url, store_options, source, name, policy, tally))
    if as_json:
        show_json({"file": name, **tally.as_json(), "dry_run": dry_run})
    else:
        say(f"{'Would import' if dry_run else 'Imported'} {name}: {tally.sentence()}.")


async def _tried(
    url: str, store_options: list[str] | None, source: IO[str], name: str, policy: OnConflict, tally: Tally
) -> None:
    async with trial(url, store_options, policy, tally) as transfer:
        await _checked(source, name, transfer, transfer.plan)


async def _import(
    url: str, store_options: list[str] | None, source: IO[str], name: str, policy: OnConflict, tally: Tally
) -> None:
    from memoranda_cli.stores import opened, unopened

    total = None
    if not await unopened(url, store_options).exists():
        # A file that is refused leaves no new store behind.
        async with trial(url, store_options, policy, tally) as transfer:
            total = await _checked(source, name, transfer, transfer.check)
    async with opened(url, store_options, "create") as store:
        transfer = Transfer(store, policy, tally)
        await transfer.begin()
        if total is None:
            total = await _checked(source, name, transfer, transfer.check)
        arrivals = Arrivals()
        with progress("importing", total) as advance:
            for batch in _batches(source, name, store):
                arrivals.take(await transfer.put(batch))
                advance(len(batch))
        missing = await transfer.missing(arrivals)
        if missing:
            raise CommandError(f"{missing:,} items are not in the store as they are in {name}. Run it again.")


async def _checked(
    source: IO[str], name: str, transfer: Transfer, look: Callable[[list[Incoming]], Awaitable[None]]
) -> int:
    """Read the whole file without storing anything, have each batch looked at, and return the number of items."""
    digest = Digest()
    with progress("checking", None) as advance:
        for batch in _batches(source, name, transfer.store):
            for incoming in batch:
                digest.take(incoming.item, hidden=incoming.hidden)
            await look(batch)
            advance(len(batch))
            await asyncio.sleep(0)  # Ctrl-C is heard whenever the loop has its turn.
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
        incoming = _incoming(line, name, store.item_types)
        if expires(incoming.item) and Capability.TTL not in store.capabilities:
            raise CommandError(
                f"{name}, line {line.number} expires and this store cannot let items expire. Import it into one that "
                f"can.",
                ExitCode.UNSUPPORTED,
            )
        batch.append(incoming)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _incoming(line: Line, name: str, types: Mapping[str, type[MemoryItem]]) -> Incoming:
    data = line.data
    undated: tuple[str, ...] = ()
    if isinstance(data, dict):
        undated = tuple(time for time in TIMES if time not in data)
        data = data if "id" in data else {**data, "id": line.lasting_id()}
    try:
        item = load_item(data, types)
        check_item(item)
    except InputError as error:
        raise InputError(f"{name}, line {line.number}: {error}", field=error.field) from error
    return Incoming(item, line.hidden, undated)


@contextmanager
def _readable(file: str) -> Iterator[tuple[IO[str], str]]:
    """Give a text file that can be read twice, and its name for messages."""
    name = "standard input" if file == "-" else file
    with _binary(file) as source, io.TextIOWrapper(source, encoding="utf-8-sig", newline="\n") as text:
        try:
            yield text, name
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name} is not UTF-8 text ({error.reason} at byte {error.start}).", field="file"
            ) from error


@contextmanager
def _binary(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        # Whatever the terminal's encoding: a file of ours is UTF-8, through a pipe as well.
        with tempfile.TemporaryFile() as spool:
            shutil.copyfileobj(sys.stdin.buffer, spool)
            spool.seek(0)
            yield spool
        return
    try:
        source = Path(file).open("rb")  # noqa: SIM115 - closed below, by what uses it
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.", ExitCode.NOT_FOUND) from error
    with source:
        yield source
