"""``memoranda export``: write memories as JSON Lines, all or nothing."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda_commands import options
from memoranda_commands.files import whole_file
from memoranda_commands.terminal import agree, progress
from memoranda_userdata import Exported
from memoranda_userdata import export as export_items

if TYPE_CHECKING:
    from memoranda.store import Store


@options.filtered
@options.scoped
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; '-' is standard output.")] = "-",
    which: options.Which = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted items, too.")] = False,
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
        return await export_items(store, output, deleted=deleted, advance=advance, **wanted)
