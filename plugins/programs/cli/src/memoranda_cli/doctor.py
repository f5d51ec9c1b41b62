"""``memoranda doctor`` and ``reindex``: check the health of a store, and build its indexes again."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from memoranda.errors import MemoryError, StoreUnavailableError
from memoranda.store import Examinable, Finding, Progress, Reindexable, one_state
from memoranda_commands import options
from memoranda_commands.characters import visible
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.interrupting import uncertain
from memoranda_commands.terminal import console, progress, say, show, show_json

if TYPE_CHECKING:
    from memoranda.store import Store

_IDS_AT_ONCE = 500


def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what can be repaired without losing anything.")
    ] = False,
    yes: options.Yes = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Check the health of a store: the plugins, the engine, and if every item can be read.

    The exit code is 0 if all is well and 1 if something is not; each finding says what to do about it.
    """
    from memoranda_commands.stores import chosen_url, run
    from memoranda_commands.terminal import agree

    url = chosen_url(store)
    if repair:
        agree("Let the store repair itself? Have a backup.", yes=yes)
    findings = [*plugin_findings(), *run(_examined(url, store_options, repair))]
    if as_json:
        show_json({"ok": all(finding.ok for finding in findings), "findings": [asdict(each) for each in findings]})
    else:
        _show(findings)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


def plugin_findings() -> list[Finding]:
    """Return how many plugins are usable, and why each of the others is not."""
    from memoranda.plugins import default_registry

    found = default_registry().plugins
    bad = [plugin for plugin in found if plugin.status not in ("ok", "not allowed")]
    return [Finding("plugins", not bad, f"{len(found) - len(bad)} of {len(found)} are usable")] + [
        Finding(f"plugin {plugin.name}", False, plugin.reason, "Upgrade or uninstall it.") for plugin in bad
    ]


async def _examined(url: str, store_options: list[str] | None, repair: bool) -> list[Finding]:
    from memoranda_commands.stores import opened

    started = time.perf_counter()
    try:
        async with opened(url, store_options, "change" if repair else "read") as store:
            took = (time.perf_counter() - started) * 1000
            findings = [Finding("opening", True, f"{store.label} in {took:.0f} ms")]
            findings += await own_findings(store, repair=repair)
            with progress("reading every item", await store.count()) as advance:
                return [*findings, *await item_findings(store, advance)]
    except StoreUnavailableError as error:
        return [Finding("opening", False, str(error), _remedy(url))]


async def own_findings(store: Store, *, repair: bool = False) -> list[Finding]:
    """Return the layers of a store in their order, and what the store and each of them find when they look."""
    layers = ", ".join(layer.name for layer in store.layers)
    findings = [Finding("layers", True, f"{layers}, and the engine")]
    for part in (store, *store.layers):
        if isinstance(part, Examinable):
            findings += await part.doctor(repair=repair)
    return findings


def _remedy(url: str) -> str:
    """Return what to do about a store that cannot be opened. A URL with a host names a server, any other a file."""
    if urlsplit(url).netloc:
        return "Start the server, or correct the URL."
    return "Correct the URL, or what the message names."


class _Pass:
    """What one reading of all items has found."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.archived: Counter[str] = Counter()
        """How many items each summary has archived."""
        self.one_of: dict[str, str] = {}
        """For each of these summaries, one of the items."""
        self.least = self.most = 0
        """How many items there were by count, before and after."""

    async def read(self, store: Store, advance: Callable[[int], None]) -> None:
        before = await store.count()
        async for item in store.scan():
            self.ids.add(item.id)
            if item.archived_by is not None and item.memory_type != "branch":
                self.archived[item.archived_by] += 1
                self.one_of[item.archived_by] = item.id
            advance(1)
        # Items may have expired meanwhile, even in a snapshot.
        self.least, self.most = sorted((before, await store.count()))

    @property
    def agrees(self) -> bool:
        """True if as many items were read as may have been there."""
        return self.least <= len(self.ids) <= self.most

    @property
    def counted(self) -> str:
        """How many items were read and counted, in words."""
        total = len(self.ids) if self.agrees else self.least
        return f"{len(self.ids):,} items read, {total:,} counted"


async def item_findings(store: Store, advance: Callable[[int], None] = lambda read: None) -> list[Finding]:
    """Read every item once, and find out if each can be read and if every summary that archived items is there.

    All is read from one state of the store, if it can give one; what others write meanwhile then makes no difference.
    On any other store, what seems wrong is looked at again. ``advance`` is called with the number of items just read.
    """
    reading = _Pass()
    try:
        async with one_state(store) as certain:
            await reading.read(store, advance)
            findings = [await _number_finding(store, reading, certain=certain)]
            orphans = [summary for summary in reading.archived if await _is_orphaned(store, reading, summary)]
    except MemoryError as error:
        remedy = "Restore a backup, or purge what is damaged."
        return [Finding("items", False, f"after {len(reading.ids):,} items: {error}", remedy)]
    if not orphans:
        detail = f"{reading.archived.total():,} archived items, each with its summary"
        return [*findings, Finding("archive", True, detail)]
    for summary in orphans:
        gone = f"{reading.archived[summary]:,} items are archived by the summary {summary!r}, which is gone"
        findings.append(Finding("archive", False, gone, f"memoranda undo {summary}"))
    return findings


async def _number_finding(store: Store, reading: _Pass, *, certain: bool) -> Finding:
    """Compare how many items were read and counted; it is a fault only if nothing was written meanwhile."""
    if not reading.agrees and not certain:
        again = _Pass()
        await again.read(store, lambda read: None)
        if again.agrees or again.ids != reading.ids or await _lacks_some(store, again.ids):
            detail = f"{len(again.ids):,} items read; others were written meanwhile, so they were not counted"
            return Finding("items", True, detail)
    remedy = "" if reading.agrees else "Try 'memoranda doctor --repair'."
    return Finding("items", reading.agrees, reading.counted, remedy)


async def _lacks_some(store: Store, ids: set[str]) -> bool:
    """Return True if some of the items that were read are gone by now."""
    listed = sorted(ids)
    for start in range(0, len(listed), _IDS_AT_ONCE):
        page = listed[start : start + _IDS_AT_ONCE]
        if len(await store.get_many(page)) < len(page):
            return True
    return False


async def _is_orphaned(store: Store, reading: _Pass, summary: str) -> bool:
    """Return True if a summary is gone whose items are still archived; others may compact or undo meanwhile."""
    if summary in reading.ids or await store.get(summary) is not None:
        return False
    item = await store.get(reading.one_of[summary])
    return item is not None and item.archived_by == summary


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


def reindex(
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Build a store's search indexes again from what is stored."""
    from memoranda_commands.stores import chosen_url, opened, run

    async def work() -> int | None:
        async with opened(chosen_url(store), store_options, "change") as target:
            if not isinstance(target, Reindexable):
                raise CommandError(
                    f"{target.label} has no index that could be built again; nothing needs to be done.",
                    ExitCode.UNSUPPORTED,
                )
            with progress("indexing", await target.count()) as advance:
                if "progress" not in inspect.signature(target.reindex).parameters:
                    return await target.reindex()
                return await target.reindex(progress=_advancing(advance))

    with uncertain("What was indexed stays indexed, and searches are still right; run it again to finish."):
        indexed = run(work())
    if as_json:
        show_json({"indexed": indexed})
        return
    say("The indexes are built." if indexed is None else f"{indexed:,} items are indexed.")


def _advancing(advance: Callable[[int], None]) -> Progress:
    """Return a function that moves a bar to the progress that a store reports."""
    seen = 0

    def report(done: int, total: int) -> None:
        nonlocal seen
        advance(done - seen)
        seen = done

    return report
