"""``memoranda export`` and ``import``."""

from __future__ import annotations

import io
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

from memoranda.errors import InputError, MemoryError
from memoranda.store import Capability
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode, Interrupted, code_of
from memoranda_commands.files import whole_file
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import agree, progress, say, show, show_json, table
from memoranda_userdata import (
    Digest,
    Exported,
    Incoming,
    ItemFile,
    OnConflict,
    Stamp,
    Transfer,
    TransferCounts,
)
from memoranda_userdata import export as write_items
from memoranda_userdata.chats.chat_formats import EXPORTS, FileFormat, export_records, format_of
from memoranda_userdata.chats.chat_items import chat_items
from memoranda_userdata.chats.export_items import Destination, Report, export_items, listed
from memoranda_userdata.chats.import_files import Attachments, readable

if TYPE_CHECKING:
    from memoranda.store import Store
    from memoranda_userdata import TransferCounts


@contextmanager
def broken_off(counts: TransferCounts) -> Iterator[None]:
    """Say how far a transfer came, if Ctrl-C or an error ends the block."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted {counts.interruption()}", counts.as_json()) from None
    except MemoryError as error:
        if not counts.total and not counts.under_way:
            raise
        message = f"{error} This was {counts.interruption()}"
        raise CommandError(message, code_of(error), counts.as_json()) from error


@options.filtered
@options.scoped
def export(
    file: Annotated[str, argument("FILE", "The file to write; '-' is standard output.")] = "-",
    which: options.Which = None,
    deleted: Annotated[bool, option("--deleted", "Deleted items, too.")] = False,
    yes: options.Yes = False,
    *,
    target: options.Target,
) -> None:
    """Write memories to a JSON Lines file, in the order of their adding, archived ones too.

    The file appears once it is complete, and only you can read it. 'memoranda import' reads it on any backend. --json
    prints the number of items and their digest, and needs the name of a FILE.
    """
    if target.as_json and file == "-":
        raise InputError(
            "--json describes the export, and standard output holds the export itself: name a FILE.", field="file"
        )
    target = target.named()
    wanted = {"metadata": target.metadata, **which}
    if file == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # An export is UTF-8, whatever the terminal is.
        exported = target.run(lambda store: _export(store, wanted, deleted, sys.stdout))
    else:
        path = Path(file)
        if path.exists():
            agree(f"Replace {file}?", yes=yes)
        with whole_file(path) as output:
            exported = target.run(lambda store: _export(store, wanted, deleted, output))
    target.report(
        {"file": file, "count": exported.count, "digest": exported.digest},
        f"{exported.count:,} items exported{'' if file == '-' else f' to {file}'}.",
    )


async def _export(store: Store, wanted: dict[str, Any], deleted: bool, output: IO[str]) -> Exported:
    total = await store.count(include_deleted=deleted, **wanted)
    with progress("exporting", total) as advance:
        return await write_items(store, output, deleted=deleted, advance=advance, **wanted)


Policy = Annotated[
    OnConflict,
    option(
        "--on-conflict POLICY", "fail, skip or overwrite: what to do with an id that another item has in the store."
    ),
]


@options.on_store
def import_(
    file: Annotated[str, argument("FILE", "The file or folder to read; '-' is standard input.")] = "-",
    in_format: Annotated[
        FileFormat | None,
        option(
            "--format FORMAT",
            "openai, anthropic, sharegpt, chatgpt, claude, openai-agents, mem0, langgraph or memoranda; by "
            "default what every line fits.",
        ),
    ] = None,
    user: Annotated[str | None, option("--user -u ID", "Whose it is.", options.OWNER)] = None,
    session: Annotated[str | None, option("--session ID", "Which conversation it is.", options.OWNER)] = None,
    policy: Policy = OnConflict.FAIL,
    dry_run: options.DryRun = False,
    *,
    target: options.Target,
) -> None:
    """Read memories from an export, or conversations from a chat file.

    A chat file is JSON or JSON Lines: messages of OpenAI's or Anthropic's API, or ShareGPT conversations. Their order
    is that of the file, and each conversation gets a session of its own unless --session names it.

    The exports of ChatGPT and Claude are read as they are: conversations.json, its folder or the zip archive. So are a
    SQLite file with sessions of the OpenAI Agents SDK or with a LangGraph store, and what mem0's get_all() returned.
    --dry-run lists what is understood, left out and refused, entry by entry; a row of a database counts as a line.

    The whole file is checked first: a line that is not understood is named by its number, and nothing is stored. Items
    that are already there and equal are left alone, so run the same line again to go on with an import that was
    interrupted. What is deleted in an export arrives deleted and is never shown. In the end every item is looked up
    and compared.
    """
    from memoranda_commands.exits import run

    for flag, given in (("--user", user), ("--session", session)):
        options.check_decoded(given or "", flag)
    target = target.named()
    with readable(file, in_format) as opened:
        counts = TransferCounts()
        found = opened.in_format or in_format or format_of(opened.text, opened.name)
        stamp = Stamp(user, None if found in EXPORTS else session)  # The branches of a session have names of their own.
        read = _File(opened.text, opened.name, stamp, found, session, opened.attachments, Report(collects=dry_run))
        with broken_off(counts):
            run((_tried if dry_run else _import)(target, read, policy, counts))
    _show(read, counts, dry_run=dry_run, as_json=target.as_json)


def _show(file: _File, counts: TransferCounts, *, dry_run: bool, as_json: bool) -> None:
    report = file.report
    document = {
        "file": file.name,
        "format": file.in_format,
        "sessions": len(file.sessions),
        **counts.as_json(),
        "left_out": dict(report.left_out),
        "dry_run": dry_run,
    }
    if dry_run and file.in_format in EXPORTS:
        document["entries"] = [entry.as_json() for entry in report.entries]
        if not as_json:
            _show_lines(report)
    if report.refused:
        number = f"{report.refused:,} of {len(report.entries):,}"
        raise CommandError(f"{number} are refused, so that nothing would be imported.", ExitCode.USAGE, document)
    if as_json:
        show_json(document)
        return
    say(f"{'Would import' if dry_run else 'Imported'} {file}: {counts.sentence()}.")
    if report.left_out and not dry_run:
        say(f"Left out: {listed(report.left_out)}. --dry-run lists them entry by entry.")


def _show_lines(report: Report) -> None:
    rows = [(str(each.number), str(each.line), each.session or "", each.sentence()) for each in report.entries]
    show(table("entry", "line", "session", "what becomes of it", rows=rows))


@dataclass
class _File(ItemFile):
    """A file to import: an export, or a chat file of another format."""

    in_format: FileFormat
    session: str | None
    attachments: Attachments
    report: Report
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
        if self.in_format in EXPORTS:
            self.report.entries.clear()  # The file is read more than once.
            stamp = Stamp(self.stamp.user, self.session)
            destination = Destination(stamp, store.derived_id, Capability.FORK in store.capabilities)
            found = export_records(self.text, self.name, self.in_format)
            return export_items(found, self.name, self.in_format, destination, self.attachments, self.report)
        return chat_items(self.text, self.name, self.in_format, self.stamp, store.derived_id)

    def seal(self) -> dict[str, Any] | None:
        return super().seal() if self.in_format is FileFormat.MEMORANDA else None

    def batches(self, store: Store, digest: Digest | None = None) -> Iterator[list[Incoming]]:
        for batch in super().batches(store, digest):
            owners = [incoming.item.metadata for incoming in batch]
            self.sessions.update((owner.user_id, owner.session_id) for owner in owners)
            yield batch


@asynccontextmanager
async def trial(target: options.Target, policy: OnConflict, counts: TransferCounts) -> AsyncGenerator[Transfer, None]:
    """Give a transfer that stores nothing. Its store is opened for reading, and only if it exists."""
    store = target.unopened()
    if not await store.exists():
        yield Transfer(store, policy, counts, empty=True)
        return
    async with store:
        transfer = Transfer(store, policy, counts)
        await transfer.begin()
        yield transfer


async def _tried(target: options.Target, file: _File, policy: OnConflict, counts: TransferCounts) -> None:
    async with trial(target, policy, counts) as transfer:
        await _checked(file, transfer, transfer.plan)


async def _import(target: options.Target, file: _File, policy: OnConflict, counts: TransferCounts) -> None:
    total = None
    if not await target.unopened().exists():
        # A file that is refused leaves no new store behind.
        async with trial(target, policy, counts) as transfer:
            total = await _checked(file, transfer, transfer.check)
    async with target.opened("create") as store:
        transfer = Transfer(store, policy, counts)
        await transfer.begin()
        if total is None:
            total = await _checked(file, transfer, transfer.check)
        with progress("importing", total) as advance:
            await file.put(transfer, advance)


async def _checked(file: _File, transfer: Transfer, look: Callable[[list[Incoming]], Awaitable[None]]) -> int:
    with progress("checking", None) as advance:
        return await file.check(transfer, look, advance)
