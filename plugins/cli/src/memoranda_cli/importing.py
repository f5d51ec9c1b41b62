"""``memoranda import``: read and check a whole file before anything of it is stored."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from memoranda_cli import options
from memoranda_cli.chat_formats import FileFormat, format_of
from memoranda_cli.chat_items import chat_items
from memoranda_cli.interrupting import broken_off
from memoranda_cli.terminal import progress, say, show_json
from memoranda_userdata import (
    Digest,
    Incoming,
    ItemFile,
    OnConflict,
    Stamp,
    Transfer,
    TransferCounts,
    open_binary,
    text_of,
)

if TYPE_CHECKING:
    from memoranda.store import Store

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
        read = _File(source, name, Stamp(user, session), in_format or format_of(source, name))
        with broken_off(counts):
            run((_tried if dry_run else _import)(url, store_options, read, policy, counts))
    if as_json:
        about = {"file": name, "format": read.in_format, "sessions": len(read.sessions)}
        show_json({**about, **counts.as_json(), "dry_run": dry_run})
    else:
        say(f"{'Would import' if dry_run else 'Imported'} {read}: {counts.sentence()}.")


@dataclass
class _File(ItemFile):
    """A file to import: an export, or a chat file of another format."""

    in_format: FileFormat
    sessions: set[tuple[str | None, str | None]] = field(default_factory=set)

    def __str__(self) -> str:
        if self.in_format is FileFormat.MEMORANDA:
            return self.name
        if len(self.sessions) == 1:
            ((_, session),) = self.sessions
            return f"{self.name} ({self.in_format}) as session {session}"
        return f"{self.name} ({self.in_format}) as {len(self.sessions):,} sessions"

    def items(self, store: Store) -> Iterator[tuple[int, Incoming]]:
        if self.in_format is FileFormat.MEMORANDA:
            return super().items(store)
        return chat_items(self.text, self.name, self.in_format, self.stamp, store.derived_id)

    def seal(self) -> dict[str, Any] | None:
        return super().seal() if self.in_format is FileFormat.MEMORANDA else None

    def batches(self, store: Store, digest: Digest | None = None) -> Iterator[list[Incoming]]:
        for batch in super().batches(store, digest):
            owners = [incoming.item.metadata for incoming in batch]
            self.sessions.update((owner.user_id, owner.session_id) for owner in owners)
            yield batch


@asynccontextmanager
async def trial(
    url: str, store_options: list[str] | None, policy: OnConflict, counts: TransferCounts
) -> AsyncGenerator[Transfer, None]:
    """Give a transfer that stores nothing. Its store is opened for reading, and only if it exists."""
    from memoranda_cli.stores import unopened

    store = unopened(url, store_options)
    if not await store.exists():
        yield Transfer(store, policy, counts, empty=True)
        return
    async with store:
        transfer = Transfer(store, policy, counts)
        await transfer.begin()
        yield transfer


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
        with progress("importing", total) as advance:
            await file.put(transfer, advance)


async def _checked(file: _File, transfer: Transfer, look: Callable[[list[Incoming]], Awaitable[None]]) -> int:
    with progress("checking", None) as advance:
        return await file.check(transfer, look, advance)


@contextmanager
def _readable(file: str) -> Iterator[tuple[IO[str], str]]:
    """Give a text file that can be read twice, and its name for messages."""
    name = "standard input" if file == "-" else file
    with _binary(file) as source, text_of(source, name) as text:
        yield text, name


@contextmanager
def _binary(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        # An export is UTF-8 through a pipe as well, whatever the terminal's encoding.
        with tempfile.TemporaryFile() as spool:
            shutil.copyfileobj(sys.stdin.buffer, spool)
            spool.seek(0)
            yield spool
        return
    with open_binary(file) as source:
        yield source
