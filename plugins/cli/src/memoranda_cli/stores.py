"""Opening the store that a command is for, and running the command so that Ctrl-C ends it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from memoranda.opening import URL_VARIABLE, default_url
from memoranda.opening import open as open_store
from memoranda.urls import redacted
from memoranda_cli.interrupting import run
from memoranda_cli.options import pairs
from memoranda_cli.terminal import say

if TYPE_CHECKING:
    from memoranda.store import Access, BaseStore

__all__ = ["chosen_url", "opened", "run", "say_if_new", "unerased", "unopened"]


def chosen_url(url: str | None) -> str:
    """Return the URL to use, and say which it is where nobody named it on this line."""
    if url is not None:
        return url
    found = default_url(make=False)
    if os.environ.get(URL_VARIABLE):
        say(f"store: {redacted(found)} (from {URL_VARIABLE})")
    else:
        say(f"store: {redacted(found)} (your own file; --store or {URL_VARIABLE} name another)")
    return found


def unopened(url: str, options: Sequence[str] | None = None, access: Access = "read") -> BaseStore:
    """Return the store of a URL, to be asked whether it is there before it is opened."""
    return open_store(url, access=access, **pairs(options, "--option"))


@asynccontextmanager
async def opened(
    url: str | None, options: Sequence[str] | None = None, access: Access = "read"
) -> AsyncIterator[BaseStore]:
    """Open the store of a URL, or the default one, for the block.

    Only a command that writes memories asks to ``create``; then it is said if there was none before. One that is not
    there is refused otherwise, and what is only read is not written.
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
    """Say that a store is made, where a command opens it in a way of its own."""
    if not await open_store(url, **options).exists():
        say(f"{redacted(url)} is a new store.")


async def unerased(store: BaseStore) -> str:
    """Return why what was removed is not off the disk yet; empty if it is, or the store's engine does not say."""
    from memoranda.store import Erasing

    return await store.unerased() if isinstance(store, Erasing) else ""
