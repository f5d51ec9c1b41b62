"""Opening the store that a command is for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from memoranda.plugins import URL_VARIABLE, default_url
from memoranda.plugins import open as open_store
from memoranda.urls import redacted
from memoranda_cli.options import pairs
from memoranda_cli.terminal import say

if TYPE_CHECKING:
    from memoranda.store import BaseStore

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine. Ctrl-C cancels it, so that stores are closed and files removed on the way out."""
    return asyncio.run(work)


def chosen_url(url: str | None) -> str:
    """Return the URL to use, and say which it is where nobody named it on this line."""
    if url is not None:
        return url
    found = default_url()
    if os.environ.get(URL_VARIABLE):
        say(f"store: {redacted(found)} (from {URL_VARIABLE})")
    else:
        say(f"store: {redacted(found)} (your own file; --store or {URL_VARIABLE} name another)")
    return found


@asynccontextmanager
async def opened(url: str | None, options: Sequence[str] | None = None) -> AsyncIterator[BaseStore]:
    """Open the store of a URL, or the default one, for the block."""
    store = open_store(chosen_url(url), **pairs(options, "--option"))
    async with store:
        yield store


async def unerased(store: BaseStore) -> str:
    """Return why what was removed is not off the disk yet; empty if it is, or the store's engine does not say."""
    from memoranda.store import Erasing

    return await store.unerased() if isinstance(store, Erasing) else ""
