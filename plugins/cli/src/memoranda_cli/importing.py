"""``memoranda import``: read and check a whole file before anything of it is stored."""

from __future__ import annotations

import asyncio
import io
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, dump_item, load_item
from memoranda.store.backend import check_item
from memoranda_cli import options
from memoranda_cli.chat_formats import FileFormat, format_of
from memoranda_cli.chat_items import chat_items
from memoranda_cli.exits import CommandError, ExitCode
from memoranda_cli.interrupting import TransferCounts, broken_off
from memoranda_cli.jsonl import Digest, Line, read_lines, seal_of
from memoranda_cli.terminal import progress, say, show_json
from memoranda_cli.transfer import BATCH, TIMES, Arrivals, Incoming, OnConflict, Stamp, Transfer, expires, trial

if TYPE_CHECKING:
    from memoranda.store import BaseStore

Policy = Annotated[
    OnConflict,
    typer.Option(
        "--on-conflict",
        metavar="POLICY",
        help="fail, skip or overwrite: what to do with an id that another item has in the store.",
    ),
]


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to read; '-' is standard input.")] = "-",
    in_format: Annotated[
        FileFormat | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="openai, anthropic, sharegpt or memoranda; by default what every line fits.",
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="ID", help="Whose it is.", rich_help_panel=options.OWNER)
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Which conversation it is.", rich_help_panel=options.OWNER),
    ] = None,
    policy: Policy = OnConflict.FAIL,
    dry_run: options.DryRun = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Read memories from an export, or conversations from a chat file.

    A chat file is JSON or JSON Lines: messages of OpenAI's or Anthropic's API, or ShareGPT conversations. Their order
    is that of the file, and each conversation gets a session of its own unless --session names it.

    The whole file is checked first: a line that is not understood is named by its number, and nothing is stored. Items
    that are already there and equal are left alone, so run the same line again to go on with an import that was
    interrupted. What is deleted in an export arrives deleted and is never shown. In the end every item is looked up
    and compared.
    """
    from memoranda_cli.stores import chosen_url, run

    for option, given in (("--user", user), ("--session", session)):
        options.check_decoded(given or "", option)
    url = chosen_url(store)
    with _readable(file) as (source, name):
        counts = TransferCounts()
        read = _File(source, name, in_format or format_of(source, name), Stamp(user, session))
        with broken_off(counts):
            run((_tried if dry_run else _import)(url, store_options, read, policy, counts))
    if as_json:
        about = {"file": name, "format": read.in_format, "sessions": len(read.sessions)}
        show_json({**about, **counts.as_json(), "dry_run": dry_run})
    else:
        say(f"{'Would import' if dry_run else 'Imported'} {read}: {counts.sentence()}.")


@dataclass(slots=True)
class _File:
    """A file to import: its text, its name for messages, its format, and whom its items are for."""

    text: IO[str]
    name: str
    in_format: FileFormat
    stamp: Stamp
    sessions: set[tuple[str | None, str | None]] = field(default_factory=set)

    def __str__(self) -> str:
        if self.in_format is FileFormat.MEMORANDA:
            return self.name
        if len(self.sessions) == 1:
            ((_, session),) = self.sessions
            return f"{self.name} ({self.in_format}) as session {session}"
        return f"{self.name} ({self.in_format}) as {len(self.sessions):,} sessions"

    def batches(self, store: BaseStore, digest: Digest | None = None) -> Iterator[list[Incoming]]:
        """Yield what the store is to have, as many items at once as are written in one step.

        ``digest`` takes the items as they stand in the file.
        """
        batch: list[Incoming] = []
        for line, found in self._lines(store):
            incoming = stamped(found, self.stamp, f"{self.name}, line {line}")
            if digest is not None:
                digest.take(found.item, hidden=found.hidden)
            self._check(incoming, line, store)
            self.sessions.add((incoming.item.metadata.user_id, incoming.item.metadata.session_id))
            batch.append(incoming)
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def _lines(self, store: BaseStore) -> Iterator[tuple[int, Incoming]]:
        if self.in_format is not FileFormat.MEMORANDA:
            yield from chat_items(self.text, self.name, self.in_format, self.stamp)
            return
        self.text.seek(0)
        for line in read_lines(self.text, self.name):
            yield line.number, item_of(line, self.name, store.item_types, self.stamp)

    def _check(self, incoming: Incoming, line: int, store: BaseStore) -> None:
        """Raise CommandError for an item that the store cannot hold as it is."""
        problem = None
        if incoming.hidden and Capability.ADD_DELETED not in store.capabilities:
            problem = "is a deleted item and this store cannot take it as such. Export without --deleted."
        elif expires(incoming.item) and Capability.TTL not in store.capabilities:
            problem = "expires and this store cannot let items expire. Import it into one that can."
        if problem is not None:
            raise CommandError(f"{self.name}, line {line} {problem}", ExitCode.UNSUPPORTED)


async def _tried(
    url: str, store_options: list[str] | None, file: _File, policy: OnConflict, counts: TransferCounts
) -> None:
    async with trial(url, store_options, policy, counts) as transfer:
        await _checked(file, transfer, transfer.plan)


async def _import(
    url: str, store_options: list[str] | None, file: _File, policy: OnConflict, counts: TransferCounts
) -> None:
    from memoranda_cli.stores import opened, unopened

    total = None
    if not await unopened(url, store_options).exists():
        # A file that is refused leaves no new store behind.
        async with trial(url, store_options, policy, counts) as transfer:
            total = await _checked(file, transfer, transfer.check)
    async with opened(url, store_options, "create") as store:
        transfer = Transfer(store, policy, counts)
        await transfer.begin()
        if total is None:
            total = await _checked(file, transfer, transfer.check)
        arrivals = Arrivals()
        with progress("importing", total) as advance:
            for batch in file.batches(store):
                arrivals.take(await transfer.put(batch))
                advance(len(batch))
        missing = await transfer.missing(arrivals)
        if missing:
            raise CommandError(f"{missing:,} items are not in the store as they are in {file.name}. Run it again.")


async def _checked(file: _File, transfer: Transfer, look: Callable[[list[Incoming]], Awaitable[None]]) -> int:
    """Read the whole file without storing anything, call ``look`` with each batch, and return the number of items."""
    digest = Digest()
    with progress("checking", None) as advance:
        for batch in file.batches(transfer.store, digest):
            await look(batch)
            advance(len(batch))
            await asyncio.sleep(0)  # This lets Ctrl-C through.
    if file.in_format is FileFormat.MEMORANDA:
        file.text.seek(0)
        _check_seal(seal_of(file.text), digest, file.name)
    return digest.count


def _check_seal(seal: dict[str, Any] | None, digest: Digest, name: str) -> None:
    if seal is not None and (seal.get("count"), seal.get("digest")) != (digest.count, digest.text):
        raise CommandError(
            f"{name} does not hold the {seal.get('count')} items that its last line seals: it was changed or damaged. "
            f"Remove its first and last line to import it as it is.",
            ExitCode.UNREADABLE,
        )


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
        # An export is UTF-8 through a pipe as well, whatever the terminal's encoding.
        with tempfile.TemporaryFile() as spool:
            shutil.copyfileobj(sys.stdin.buffer, spool)
            spool.seek(0)
            yield spool
        return
    try:
        source = Path(file).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.", ExitCode.NOT_FOUND) from error
    with source:
        yield source


_WRITTEN = frozenset(dump_item(MemoryItem(content="")))
"""The fields that every line of an export has."""

_TYPES_OF_ROLES = {"user": "human", "assistant": "ai", "gpt": "ai", "developer": "system", "function": "tool"}


def item_of(line: Line, name: str, types: Mapping[str, type[MemoryItem]], stamp: Stamp) -> Incoming:
    """Return the item of a line. Raises InputError, naming the line, if it is not an item.

    A line of an export has all fields and may have others. A line without some of them was written by hand; there, a
    field that the type does not know is a mistake.
    """
    data = line.data
    undated: tuple[str, ...] = ()
    try:
        if isinstance(data, dict):
            _check_type(data, types)
            undated = tuple(time for time in TIMES if time not in data)
            data = data if "id" in data else {**data, "id": line.lasting_id(*stamp)}
        item = load_item(data, types)
        check_item(item)
    except InputError as error:
        raise InputError(f"{name}, line {line.number}: {error}", field=error.field) from error
    return Incoming(item, line.hidden, undated)


def stamped(incoming: Incoming, stamp: Stamp, place: str) -> Incoming:
    """Return an item with the stamp. Raises InputError if it belongs to another user or session."""
    found = incoming.item.metadata
    given = {"user_id": stamp.user, "session_id": stamp.session}
    for name, value in given.items():
        held = getattr(found, name)
        if value is not None and held not in (None, value):
            what = name.removesuffix("_id")
            raise InputError(f"{place} belongs to the {what} {held!r}, and --{what} names {value!r}.", field=what)
    new = {name: value for name, value in given.items() if value is not None}
    if not new:
        return incoming
    item = incoming.item.model_copy(update={"metadata": found.model_copy(update=new)})
    check_item(item)
    return incoming._replace(item=item)


def _check_type(data: Mapping[str, Any], types: Mapping[str, type[MemoryItem]]) -> None:
    kind = data.get("memory_type")
    if kind is None:
        raise InputError("a memory needs a memory_type, such as human, ai, system or tool.", field="memory_type")
    if data.keys() >= _WRITTEN:
        return
    if isinstance(kind, str) and kind in _TYPES_OF_ROLES and kind not in types:
        raise InputError(f"{kind!r} is a role. The memory_type is {_TYPES_OF_ROLES[kind]!r}.", field="memory_type")
    fields = types.get(kind if isinstance(kind, str) else "", MemoryItem).model_fields
    # For a field of the metadata, load_item says where it belongs.
    unknown = next((key for key in data if key not in fields and key not in MemoryMetadata.model_fields), None)
    if unknown is not None:
        shown = repr(unknown) if len(unknown) <= 40 else "a key"
        raise InputError(
            f"{shown} is not a field of this type of memory. Values of your own belong in metadata.extra.", field="item"
        )
