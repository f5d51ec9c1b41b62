"""What is wrong with the plugins and with the items of a store, for ``memoranda doctor`` and the inspector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from memoranda.errors import MemoryError
from memoranda.store import Examinable, Finding, one_state

if TYPE_CHECKING:
    from memoranda.store import Store

_IDS_PER_READ = 500


def plugin_findings() -> list[Finding]:
    """Return how many plugins are usable, and why each of the others is not."""
    from memoranda.plugins import default_registry

    found = default_registry().plugins
    bad = [plugin for plugin in found if plugin.status not in ("ok", "not allowed")]
    return [Finding("plugins", not bad, f"{len(found) - len(bad)} of {len(found)} are usable")] + [
        Finding(f"plugin {plugin.name}", False, plugin.reason, "Upgrade or uninstall it.") for plugin in bad
    ]


async def own_findings(store: Store, *, repair: bool = False) -> list[Finding]:
    """Return the layers of a store in their order, and what the store and each of them find when they look."""
    layers = ", ".join(layer.name for layer in store.layers)
    findings = [Finding("layers", True, f"{layers}, and the engine")]
    for part in (store, *store.layers):
        if isinstance(part, Examinable):
            findings += await part.doctor(repair=repair)
    return findings


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
    for start in range(0, len(listed), _IDS_PER_READ):
        page = listed[start : start + _IDS_PER_READ]
        if len(await store.get_many(page)) < len(page):
            return True
    return False


async def _is_orphaned(store: Store, reading: _Pass, summary: str) -> bool:
    """Return True if a summary is gone whose items are still archived; others may compact or undo meanwhile."""
    if summary in reading.ids or await store.get(summary) is not None:
        return False
    item = await store.get(reading.one_of[summary])
    return item is not None and item.archived_by == summary
