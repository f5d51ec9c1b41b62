"""Kills a compaction and its undo before every single write, on a store that is nothing but one file per item.

Run as a program with an empty folder; prints what was found after each kill as JSON. The store has no transactions at
all, which is the worst that the protocol allows.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory
from memoranda.store import BaseStore, dump_item, load_item
from memoranda.store.backend import Filter, Page, successor
from memoranda_summary import SummaryConfig, compact
from memoranda_summary.compaction import undo

SCOPE = MemoryMetadata(user_id="ada", session_id="s")
CONFIG = SummaryConfig(
    message_threshold=4,
    keep_recent=2,
    templates=("brief", "outline"),
    prompts={"brief": "Brief.", "outline": "Outline."},
)


class FolderStore(BaseStore):
    """One file per item; writes are counted, and the process is killed before the chosen one."""

    needs_init = False

    def __init__(self, folder: Path, killed_at: int = 0) -> None:
        super().__init__()
        self.folder, self.killed_at, self.writes = folder, killed_at, 0

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        found = self._read(self.folder / item.id)
        self.writes += 1
        if self.writes == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        added = found[0] if found else len(list(self.folder.iterdir()))
        kept = successor(found[1] if found else None, item, within)
        written = self.folder.with_suffix(".new")
        written.write_text(json.dumps([added, dump_item(kept)]))
        written.replace(self.folder / item.id)

    async def _get(self, item_id: str) -> MemoryItem | None:
        found = self._read(self.folder / item_id)
        return found[1] if found else None

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        entries = [entry for path in self.folder.iterdir() if (entry := self._read(path))]
        entries.sort(key=lambda entry: entry[0])
        return page.of(item for _, item in entries if wanted.matches(item))

    async def _clear(self, wanted: Filter) -> int:
        raise NotImplementedError

    def _read(self, path: Path) -> tuple[int, MemoryItem] | None:
        if not path.exists():
            return None
        added, data = json.loads(path.read_text())
        return added, load_item(data, self.item_types)


class Model:
    asked = 0

    async def summarize(self, prompt: str) -> str:
        self.asked += 1
        return "B" if prompt.startswith("Brief") else "O"


async def shown(store: BaseStore) -> list[str]:
    return [item.content async for item in store.scan(metadata=SCOPE, archived=False)]


async def fill(store: BaseStore) -> None:
    said: list[MemoryItem] = [SystemMemory(content="rules", metadata=SCOPE, created_at="2024-01-01")]
    for number in range(6):
        kind = HumanMemory if number % 2 == 0 else AIMemory
        said.append(kind(content=f"turn {number}", metadata=SCOPE, created_at=f"2024-01-02T00:00:0{number}"))
    await store.add_many(said)


def killed(work: Callable[[], Awaitable[Any]]) -> bool:
    """Do the work in a child process and return whether it was killed."""
    child = os.fork()
    if child == 0:
        asyncio.run(work())  # type: ignore[arg-type]
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def compact_killed_at(folder: Path, step: int) -> dict[str, Any] | None:
    asyncio.run(fill(FolderStore(folder)))
    if not killed(lambda: compact(FolderStore(folder, step), SCOPE, CONFIG, Model())):
        return None
    store, model = FolderStore(folder), Model()
    after = asyncio.run(shown(store))
    asyncio.run(compact(store, SCOPE, CONFIG, model))
    return {"after": after, "again": asyncio.run(shown(store)), "asked": model.asked}


def undo_killed_at(folder: Path, step: int) -> dict[str, Any] | None:
    store = FolderStore(folder)
    asyncio.run(fill(store))
    done = asyncio.run(compact(store, SCOPE, CONFIG, Model()))
    summary_id = done.summary_id or ""
    if not killed(lambda: undo(FolderStore(folder, step), summary_id)):
        return None
    after = asyncio.run(shown(store))
    asyncio.run(undo(store, summary_id))
    return {"after": after, "again": asyncio.run(shown(store))}


def main(folder: Path) -> None:
    report: dict[str, list[dict[str, Any]]] = {"compact": [], "undo": []}
    for name, kill in (("compact", compact_killed_at), ("undo", undo_killed_at)):
        step = 1
        while True:
            place = folder / f"{name}-{step}"
            place.mkdir()
            found = kill(place, step)
            if found is None:
                break
            report[name].append(found)
            step += 1
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
