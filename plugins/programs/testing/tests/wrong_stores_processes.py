"""Stores that are wrong to another process, or where there is no store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from four_methods import DictStore
from wrong_stores_subtle import FileStore

from memoranda.errors import StoreUnavailableError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability
from memoranda.store.backend import BASE_CAPABILITIES, successor


class KeptInThisProcess(DictStore):
    capabilities = BASE_CAPABILITIES | {Capability.PERSISTENT}
    files: ClassVar[dict[Path, dict[str, MemoryItem]]] = {}

    def __init__(self, path: Path) -> None:
        super().__init__(self.files.setdefault(path, {}))


class ReadsBeforeItWaits(FileStore):
    """Writes what it had read before another process wrote."""

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        self.read()
        data = self.data
        await asyncio.sleep(0)
        self.data = {**data, item.id: successor(data.get(item.id), item, within)}
        self.write()


class RefusesWhileAnotherWrites(FileStore):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        lock = self.path.with_suffix(".lock")
        try:
            lock.mkdir()
        except FileExistsError:
            raise StoreUnavailableError(self.label, "another process writes") from None
        try:
            await asyncio.sleep(0)
            await super()._add(item, within)
        finally:
            lock.rmdir()


class MadeByAsking(FileStore):
    async def _exists(self) -> bool:
        self.path.touch()
        return True


class LeavesAFileByAsking(FileStore):
    async def _exists(self) -> bool:
        self.path.with_suffix(".journal").touch()
        return self.path.exists()


class OpensWhatIsNotThere(FileStore):
    async def _exists(self) -> bool:
        return self.access == "read"


SEES, WRITES, ABSENT = (
    "another_process_sees_what_is_stored",
    "two_processes_write_at_once",
    "asking_for_a_store_that_is_not_there_makes_nothing",
)

WRONG_STORES = [
    (KeptInThisProcess, SEES),
    (ReadsBeforeItWaits, WRITES),
    (RefusesWhileAnotherWrites, WRITES),
    (MadeByAsking, ABSENT),
    (LeavesAFileByAsking, ABSENT),
    (OpensWhatIsNotThere, ABSENT),
]
