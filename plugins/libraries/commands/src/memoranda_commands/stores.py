"""Opening the store that a command is for, users whose names look alike, and what is wrong with a store."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from memoranda.errors import MemoryError, PluginError
from memoranda.opening import URL_VARIABLE, default_url
from memoranda.opening import open as open_store
from memoranda.store import Capability, Examinable, Finding, one_state
from memoranda.urls import redacted
from memoranda_commands.exits import run
from memoranda_commands.terminal import say
from memoranda_commands.values import pairs

if TYPE_CHECKING:
    from memoranda.items import MemoryMetadata
    from memoranda.store import Access, Store


__all__ = [
    "chosen_url", "facts_option", "opened", "remove_owners", "run", "say_if_new", "similar_users", "unerased",
    "unopened",
]  # fmt: skip


def chosen_url(url: str | None) -> str:
    """Return the URL to use, and print which it is if the command line does not name it."""
    if url is not None:
        return url
    found = default_url(make=False)
    if os.environ.get(URL_VARIABLE):
        say(f"store: {redacted(found)} (from {URL_VARIABLE})")
    else:
        say(f"store: {redacted(found)} (your own file; --store or {URL_VARIABLE} name another)")
    return found


def facts_option(value: str, url: str = "", options: Sequence[str] | None = None) -> dict[str, str]:
    """Return the option that puts facts into prompts; none where they are not installed, or are asked for already."""
    from memoranda.plugins import default_registry

    if "facts=" in url.partition("?")[2] or any(option.startswith("facts=") for option in options or ()):
        return {}
    try:
        default_registry().observer("facts", value=value)
    except PluginError:
        return {}
    return {"facts": value}


def unopened(url: str, options: Sequence[str] | None = None, access: Access = "read") -> Store:
    """Return the store of a URL without opening it, to find out first if it exists."""
    return open_store(url, access=access, **pairs(options, "--option"))


@asynccontextmanager
async def opened(
    url: str | None, options: Sequence[str] | None = None, access: Access = "read"
) -> AsyncIterator[Store]:
    """Open the store of a URL, or the default one, for the block.

    Only a command that writes memories passes ``create``, which prints a note if the store is new. Otherwise a store
    that does not exist is refused, and one that is opened to read is never written.
    """
    url = chosen_url(url)
    store = unopened(url, options, access)
    new = access == "create" and not await store.exists()
    if new and url == default_url(make=False):
        default_url()  # It makes the folder.
    async with store:
        if new:
            say(f"{redacted(url)} is a new store.")
        yield store


async def say_if_new(url: str, options: Mapping[str, Any]) -> None:
    """Print a note that a store is new, for a command that opens it by itself."""
    if not await open_store(url, **options).exists():
        say(f"{redacted(url)} is a new store.")


async def remove_owners(store: Store, *owners: MemoryMetadata) -> None:
    """Remove what a command wrote for owners that it made up, for good if the store can."""
    remove = store.purge if Capability.PURGE in store.capabilities else store.clear
    for owner in owners:
        await remove(metadata=owner)


async def unerased(store: Store) -> str:
    """Return why removed items are still on the disk; empty if they are not, or the engine does not say."""
    from memoranda.store import Erasing

    return await store.unerased() if isinstance(store, Erasing) else ""


async def similar_users(store: Store, user_id: str, *, deleted: bool = False) -> list[str]:
    """Return the ids of users of a store that look like this one, for a "did you mean"; most similar first.

    With ``deleted``, users who have only deleted items count, too: every item is read for that.
    """
    if deleted and Capability.DELETE in store.capabilities:
        known = {item.metadata.user_id or "" async for item in store.scan(include_deleted=True)}
    else:
        known = {str(owner.value) async for owner in store.owners("user_id", counts=False)}
    known -= {"", user_id}
    return get_close_matches(user_id, known) or [name for name in known if name.casefold() == user_id.casefold()]


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
