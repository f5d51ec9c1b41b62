"""``memoranda doctor``, ``reindex`` and ``plugins``: what is wrong with a store or a plugin."""

from __future__ import annotations

import inspect
import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from memoranda.errors import StoreUnavailableError
from memoranda.plugins import KINDS, Backend, CommandSpec, Spec
from memoranda.store import Finding, Reindexable, Store
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode, uncertain
from memoranda_commands.options import option
from memoranda_commands.stores import item_findings, own_findings, plugin_findings
from memoranda_commands.terminal import (
    blocks,
    console,
    is_narrow,
    measured_progress,
    progress,
    show,
    show_json,
    table,
    visible,
)

if TYPE_CHECKING:
    from memoranda.plugins.registry import Plugin


@options.on_store
def doctor(
    repair: Annotated[bool, option("--repair", "Repair what can be repaired without losing anything.")] = False,
    yes: options.Yes = False,
    *,
    target: options.Target,
) -> None:
    """Check the health of a store: the plugins, the engine, and if every item can be read.

    The exit code is 0 if all is well and 1 if something is not; each finding says what to do about it.
    """
    from memoranda_commands.exits import run
    from memoranda_commands.terminal import agree

    target = target.named()
    if repair:
        agree("Let the store repair itself? Have a backup.", yes=yes)
    findings = [*plugin_findings(), *run(_examined(target, repair))]
    if target.as_json:
        show_json({"ok": all(finding.ok for finding in findings), "findings": [asdict(each) for each in findings]})
    else:
        _show(findings)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


async def _examined(target: options.Target, repair: bool) -> list[Finding]:
    from memoranda_commands.stores import chosen_url

    started = time.perf_counter()
    try:
        async with target.opened("change" if repair else "read") as store:
            took = (time.perf_counter() - started) * 1000
            findings = [Finding("opening", True, f"{store.label} in {took:.0f} ms")]
            findings += await own_findings(store, repair=repair)
            with progress("reading every item", await store.count()) as advance:
                return [*findings, *await item_findings(store, advance)]
    except StoreUnavailableError as error:
        return [Finding("opening", False, str(error), _remedy(chosen_url(target.url)))]


def _remedy(url: str) -> str:
    """Return what to do about a store that cannot be opened. A URL with a host names a server, any other a file."""
    if urlsplit(url).netloc:
        return "Start the server, or correct the URL."
    return "Correct the URL, or what the message names."


def _show(findings: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for finding in findings:
        mark = Text("✔", style="green") if finding.ok else Text("✘", style="red")
        detail = Text(visible(finding.detail))
        if not finding.ok and finding.remedy:
            detail.append(f"\n→ {visible(finding.remedy)}", style="yellow")
        grid.add_row(mark, Text(visible(finding.name)), detail)
    show(grid)
    bad = sum(not finding.ok for finding in findings)
    console().print(Text("All is well." if not bad else f"{bad} of {len(findings)} need attention.", style="bold"))


@options.on_store
def reindex(*, target: options.Target) -> None:
    """Build a store's search indexes again from what is stored."""

    async def work(store: Store) -> int | None:
        if not isinstance(store, Reindexable):
            raise CommandError(
                f"{store.label} has no index that could be built again; nothing needs to be done.",
                ExitCode.UNSUPPORTED,
            )
        with measured_progress("indexing", await store.count()) as note:
            if "progress" not in inspect.signature(store.reindex).parameters:
                return await store.reindex()
            return await store.reindex(progress=note)

    with uncertain("What was indexed stays indexed, and searches are still right; run it again to finish."):
        indexed = target.run(work, "change")
    sentence = "The indexes are built." if indexed is None else f"{indexed:,} items are indexed."
    target.report({"indexed": indexed}, sentence)


_STYLES = {"ok": "green", "not allowed": "dim", "conflict": "yellow"}


def plugins(as_json: options.Json = False) -> None:
    """List the plugins, what each offers, and why one is not usable.

    No driver is imported for this; observers of every store are tried. A plugin that is broken is a row with its
    reason, and the exit code is 0.
    """
    found = _found()
    if as_json:
        show_json([_described(plugin) for plugin in found])
    else:
        _show_plugins(found)


def _found() -> list[Plugin]:
    from memoranda.plugins import default_registry

    # Output of a plugin that is imported must not end up in the JSON.
    with redirect_stdout(sys.stderr):
        registry = default_registry()
        registry.auto_observers()  # Every store gets them, so one that cannot be made must be a row here.
        return registry.plugins


def _described(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": plugin.status,
        "reason": plugin.reason,
        "offers": [{"kind": KINDS[type(spec)], **asdict(spec)} for spec in plugin.specs],
    }


def _show_plugins(found: list[Plugin]) -> None:
    from rich.text import Text

    rows = []
    for plugin in found:
        offers = Text("\n".join(_offers(plugin.specs)))
        if plugin.reason:
            offers = Text(visible(plugin.reason), style="red" if plugin.status == "broken" else "yellow")
        rows.append(
            (
                Text(visible(plugin.name), style="bold"),
                Text(visible(plugin.version or "")),
                Text(plugin.status, style=_STYLES.get(plugin.status, "red")),
                offers,
            )
        )
    whole = {"no_wrap": True}
    columns = (("plugin", whole), ("version", whole), ("status", whole), "offers, or why not")
    show(blocks(rows) if is_narrow() else table(*columns, rows=rows))


def _offers(specs: list[Spec]) -> list[str]:
    """Return a line for each kind of thing; stores with the URLs they answer to."""
    lines = []
    for kind, called in KINDS.items():
        of_kind = [spec for spec in specs if type(spec) is kind]
        if not of_kind:
            continue
        if kind is CommandSpec and len(of_kind) > 5:
            lines.append(f"{len(of_kind)} commands")
            continue
        names = [_named(spec) for spec in of_kind]
        lines.append(f"{called}{'s' if len(names) > 1 else ''}: {visible(', '.join(names))}")
    return lines


def _named(spec: Spec) -> str:
    if isinstance(spec, Backend):
        return f"{spec.name} ({', '.join(f'{scheme}:' for scheme in spec.schemes)})"
    return spec.name
