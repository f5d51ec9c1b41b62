"""Opening the store that a command is for, and users whose names look alike."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from memoranda.errors import PluginError
from memoranda.opening import URL_VARIABLE, default_url
from memoranda.opening import open as open_store
from memoranda.store import Capability
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
