"""Doctor's findings, as the command of that name looks for them."""

from __future__ import annotations

from memoranda.errors import MemoryError
from memoranda.plugins import default_registry
from memoranda.store import BaseStore, Examinable, Finding


async def examined(store: BaseStore) -> list[Finding]:
    """Return what was looked at: the plugins, the engine, and whether every item can be read."""
    findings = [*_plugins(), *(await store.doctor() if isinstance(store, Examinable) else [])]
    return [*findings, *await _read_through(store)]


def _plugins() -> list[Finding]:
    found = default_registry().plugins
    bad = [plugin for plugin in found if plugin.status not in ("ok", "not allowed")]
    return [Finding("plugins", not bad, f"{len(found) - len(bad)} of {len(found)} are usable")] + [
        Finding(f"plugin {plugin.name}", False, plugin.reason, "Upgrade or uninstall it.") for plugin in bad
    ]


async def _read_through(store: BaseStore) -> list[Finding]:
    total = await store.count()
    ids: set[str] = set()
    standing: dict[str, int] = {}
    try:
        async for item in store.scan():
            ids.add(item.id)
            if item.archived_by is not None and item.memory_type != "branch":
                standing[item.archived_by] = standing.get(item.archived_by, 0) + 1
    except MemoryError as error:
        return [Finding("items", False, f"after {len(ids):,} items: {error}", "Restore a backup, or purge it.")]
    whole = len(ids) == total
    remedy = "" if whole else "Look again while nothing is being written; then try memoranda doctor --repair."
    findings = [Finding("items", whole, f"{len(ids):,} items read, {total:,} counted", remedy)]
    orphans = {summary: number for summary, number in standing.items() if summary not in ids}
    if not orphans:
        told = f"{sum(standing.values()):,} archived items, each with its summary"
        return [*findings, Finding("archive", True, told)]
    return findings + [
        Finding("archive", False, f"{number:,} items of a summary that is gone", f"memoranda undo {summary}")
        for summary, number in orphans.items()
    ]
