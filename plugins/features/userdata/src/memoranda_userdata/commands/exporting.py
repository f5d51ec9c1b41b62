"""``memoranda export``: write memories as JSON Lines, all or nothing."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda_commands import options
from memoranda_commands.files import whole_file
from memoranda_commands.terminal import agree, progress, say, show_json
from memoranda_userdata import Exported
from memoranda_userdata import export as export_items


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
    from memoranda_commands.stores import chosen_url, run

    if as_json and file == "-":
        raise InputError(
            "--json describes the export, and standard output holds the export itself: name a FILE.", field="file"
        )
    url = chosen_url(store)
    if file == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # An export is UTF-8, whatever the terminal is.
        exported = run(_export(url, store_options, {"metadata": metadata, **which}, deleted, sys.stdout))
    else:
        path = Path(file)
        if path.exists():
            agree(f"Replace {file}?", yes=yes)
        with whole_file(path) as output:
            exported = run(_export(url, store_options, {"metadata": metadata, **which}, deleted, output))
    if as_json:
        show_json({"file": file, "count": exported.count, "digest": exported.digest})
    else:
        say(f"{exported.count:,} items exported{'' if file == '-' else f' to {file}'}.")


async def _export(
    url: str, store_options: list[str] | None, wanted: dict[str, Any], deleted: bool, output: IO[str]
) -> Exported:
    from memoranda_commands.stores import opened

    async with opened(url, store_options) as store:
        total = await store.count(include_deleted=deleted, **wanted)
        with progress("exporting", total) as advance:
            return await export_items(store, output, deleted=deleted, advance=advance, **wanted)
