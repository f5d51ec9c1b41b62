"""The store: memoranda's protocol over the journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from memoranda.errors import InputError, StoreClosedError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import truth
from memoranda.store import BaseStore, Capability, Finding, Order, copy_item
from memoranda.store.backend import BASE_CAPABILITIES, Filter, Page, Write, in_order, one_thread_at_a_time
from memoranda.urls import take_options, yes_or_no

from memoranda_jsonl.journal import Journal
from memoranda_jsonl.operations import (
    as_added,
    carry_out,
    change,
    is_any,
    is_hidden,
    is_live,
    live,
    newest_first,
    replace,
)

T = TypeVar("T")


@one_thread_at_a_time
class JsonLinesStore(BaseStore):
    """Memories in a file that only grows, for several processes at once.

    Every change is one line, so several items are written all or none. All work is done in one thread of the store's
    own: the event loop never waits for the disk or for another process's lock, and a call that is cancelled is still
    done whole or not begun. ``sync=False`` leaves it to the system when the disk is written: faster, and a power cut
    may then take the last changes.
    """

    capabilities = BASE_CAPABILITIES | {
        Capability.ATOMIC,
        Capability.DELETE,
        Capability.ADD_DELETED,
        Capability.PERSISTENT,
        Capability.PURGE,
    }

    def __init__(self, path: str | Path, *, sync: bool = True) -> None:
        super().__init__()
        self._path = Path(path)
        self._sync = truth(sync, "sync")
        self._journal: Journal | None = None
        self._worker: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return f"JsonLinesStore({str(self._path)!r})"

    @classmethod
    def from_url(cls, url: str, *, sync: bool | None = None) -> JsonLinesStore:
        """Return the store of ``jsonl:///relative.jsonl`` or ``jsonl:////absolute.jsonl``; ``?sync=no`` as above."""
        rest, options = take_options(url, {"sync": yes_or_no}, {"sync": sync})
        path = unquote(rest.partition("://")[2].removeprefix("/"))
        if not path:
            raise InputError("The URL names no file; one looks like 'jsonl:///memories.jsonl'.", field="url")
        return cls(path, **options)

    async def _exists(self) -> bool:
        return self._path.exists()

    async def _init(self) -> None:
        journal = Journal(self._path, lambda: self.stored_types, sync=self._sync)
        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memoranda-jsonl")
        try:
            await asyncio.get_running_loop().run_in_executor(worker, _read, journal)
        except BaseException:
            worker.shutdown(wait=False)
            raise
        self._journal, self._worker = journal, worker

    async def _close(self) -> None:
        worker, self._worker, self._journal = self._worker, None, None
        if worker is not None:
            # The thread takes its work in order, so whatever was begun is done when this is.
            await asyncio.get_running_loop().run_in_executor(worker, int)
            worker.shutdown(wait=False)

    # The four methods that every store has

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await self._apply(Write([item], within))

    async def _get(self, item_id: str) -> MemoryItem | None:
        item = await self._do(lambda journal: live(journal, item_id))
        return None if item is None else copy_item(item)

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return await self._do(lambda journal: newest_first(journal, wanted, page))

    async def _clear(self, wanted: Filter) -> int:
        return await self._do(lambda journal: change(journal, "hide", wanted, is_live))

    # What this engine does better than the defaults

    async def _apply(self, write: Write) -> int:
        # The caller may change theirs before the thread comes to them.
        own = write.but(adds=[copy_item(item) for item in write.adds])
        return await self._do(lambda journal: carry_out(journal, own))

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        own = [copy_item(item) for item in items]
        return await self._do(lambda journal: replace(journal, own, within))

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return len(await self._everything(wanted, include_deleted))

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        for item in in_order(await self._everything(wanted, include_deleted), order):
            yield copy_item(item)

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        wanted = Filter(metadata=within, archived=None)
        return await self._do(lambda journal: change(journal, "hide", wanted, is_live, item_id)) > 0

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        return await self._do(lambda journal: change(journal, "show", wanted, is_hidden, item_id))

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        which = is_hidden if deleted_only else is_any
        return await self._do(lambda journal: change(journal, "drop", wanted, which, item_id))

    # What ``memoranda doctor`` asks for

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Say how much of the file is history; a repair writes it anew without."""

        def look(journal: Journal) -> tuple[int, int]:
            if repair:
                journal.rewrite()
            return journal.lines, len(journal.entries)

        lines, items = await self._do(look)
        return [Finding("file", True, f"{lines:,} changes for {items:,} items in {self._path}")]

    async def _everything(self, wanted: Filter, include_deleted: bool) -> list[MemoryItem]:
        return await self._do(lambda journal: as_added(journal, wanted, is_any if include_deleted else is_live))

    async def _do(self, work: Callable[[Journal], T]) -> T:
        """Run a function in the store's thread, with the lock held and everything read that others wrote."""
        journal, worker = self._journal, self._worker
        if journal is None or worker is None:
            raise StoreClosedError(repr(self))

        def locked() -> T:
            with journal.current():
                return work(journal)

        return await asyncio.get_running_loop().run_in_executor(worker, locked)


def _read(journal: Journal) -> None:
    """Make the file if there is none, and read it; an unreadable one is found when the store is opened."""
    with journal.current():
        pass
