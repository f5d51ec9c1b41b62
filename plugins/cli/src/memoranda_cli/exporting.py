"""``memoranda export``: write memories as JSON Lines, all or nothing. The inspector uses this, too."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda.urls import redacted
from memoranda_cli import options
from memoranda_cli.exits import CommandError, ExitCode
from memoranda_cli.jsonl import Digest, footer, header, line_of
from memoranda_cli.terminal import agree, progress, say, show_json

if TYPE_CHECKING:
    from memoranda.store import BaseStore


@options.filtered
@options.scoped
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; '-' is standard output.")] = "-",
    metadata: options.Owner = None,
    which: options.Which = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted items, too.")] = False,
    yes: options.Yes = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Write memories to a JSON Lines file, in the order of their adding, archived ones too.

    The file appears once it is complete, and only you can read it. 'memoranda import' reads it on any backend. --json
    prints the number of items and their digest, and needs the name of a FILE.
    """
    from memoranda_cli.stores import chosen_url, run

    if as_json and file == "-":
        raise InputError(
            "--json describes the export, and standard output holds the export itself: name a FILE.", field="file"
        )
    url = chosen_url(store)
    if file == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # An export is UTF-8, whatever the terminal is.
        digest = run(_export(url, store_options, {"metadata": metadata, **which}, deleted, sys.stdout))
    else:
        path = Path(file)
        if path.exists():
            agree(f"Replace {file}?", yes=yes)
        with whole_file(path) as output:
            digest = run(_export(url, store_options, {"metadata": metadata, **which}, deleted, output))
    if as_json:
        show_json({"file": file, "count": digest.count, "digest": digest.text})
    else:
        say(f"{digest.count:,} items exported{'' if file == '-' else f' to {file}'}.")


async def _export(
    url: str, store_options: list[str] | None, wanted: dict[str, Any], deleted: bool, output: IO[str]
) -> Digest:
    from memoranda_cli.stores import opened

    digest = Digest()
    async with opened(url, store_options) as store:
        total = await store.count(include_deleted=deleted, **wanted)
        with progress("exporting", total) as advance:
            async for line in export_lines(store, redacted(url), digest, deleted=deleted, **wanted):
                output.write(line)
                advance(1)
    return digest


async def export_lines(
    store: BaseStore, name: str, digest: Digest, *, deleted: bool = False, **wanted: Any
) -> AsyncIterator[str]:
    """Yield the lines of an export of a store of this name: a header, the wanted items as they were added, and a seal.

    ``digest`` counts and hashes the items on the way. Archived items are included, deleted ones if ``deleted``.
    """
    from memoranda_cli.transfer import hidden_ids

    hidden = await hidden_ids(store, wanted["metadata"]) if deleted else set()
    yield header(store=name) + "\n"
    async for item in store.scan(include_deleted=deleted, order="added", **wanted):
        digest.take(item, hidden=item.id in hidden)
        yield line_of(item, hidden=item.id in hidden) + "\n"
    yield footer(digest) + "\n"


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """Give a file to write. It replaces ``path`` when the block succeeds, and is removed otherwise."""
    if not path.parent.is_dir():
        raise CommandError(f"There is no folder {str(path.parent)!r} to write to.", ExitCode.NOT_FOUND)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as output:
            yield output
            output.flush()
            os.fsync(output.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
