"""A plugin for tests of the command: a store that outlives the process, and commands, one of them broken.

It is found as installed plugins are, by the metadata beside it, once its folder is on the path.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import typer
from stepwise import StepwiseStore

from memoranda.errors import StoreUnavailableError
from memoranda.items import MemoryItem
from memoranda.plugins import Backend, CommandSpec, hookimpl
from memoranda.store import Capability, Finding, Order, dump_item, load_item
from memoranda.store.backend import BASE_CAPABILITIES, Filter, Write

PAUSE_AFTER = 1_200
_ALL = Filter(archived=None)


@hookimpl
def memoranda_backends() -> list[Backend]:
    return [
        Backend("shelf", schemes=("shelf",), target="memoranda_shelf:ShelfStore"),
        Backend("plain", schemes=("plain",), target="memoranda_shelf:PlainStore"),
        Backend("pausing", schemes=("pausing",), target="memoranda_shelf:PausingStore"),
        Backend("filling", schemes=("filling",), target="memoranda_shelf:FillingStore"),
        Backend("checking", schemes=("checking",), target="memoranda_shelf:CheckingStore"),
        Backend("leaky", schemes=("leaky",), target="memoranda_shelf:LeakyStore"),
    ]


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    return [
        CommandSpec("greet", target="memoranda_shelf:greet", summary="Greet somebody."),
        CommandSpec("broken", target="memoranda_shelf:no_such_thing", summary="Never works."),
        CommandSpec("crash", target="memoranda_shelf:crash", summary="Fails in the middle."),
        CommandSpec("demo", target="memoranda_shelf:greet", summary="Wants a name that is taken."),
        CommandSpec("boards", target="memoranda_shelf:boards", summary="Boards of the shelf."),
    ]


boards = typer.Typer(help="Boards of the shelf.")
screws = typer.Typer(help="Screws of the boards.")
boards.add_typer(screws, name="screws")


@boards.command()
@screws.command()
def tighten() -> None:
    """Turn it once more."""


@boards.command()
@screws.command()
def loosen() -> None:
    """Turn it back."""


def greet(name: str) -> None:
    """Greet somebody."""
    print(f"Hello, {name}!")


def crash() -> None:
    """Fail in the middle."""
    raise RuntimeError("the wheel came off")


class ShelfStore(StepwiseStore):
    """The in-memory store, read from a file when it is opened and written to it when it is closed."""

    capabilities = StepwiseStore.capabilities | {Capability.PERSISTENT}
    needs_init = True

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    @classmethod
    def from_url(cls, url: str, *, slow: float = 0) -> ShelfStore:
        store = cls(Path(url.partition("://")[2].removeprefix("/")))
        time.sleep(slow)
        return store

    async def _exists(self) -> bool:
        return self._path.exists() or self._path.name == "unreachable"

    async def _init(self) -> None:
        if self._path.name == "unreachable":
            raise StoreUnavailableError(f"{self._path} cannot be reached.")
        if self._path.exists():
            saved = json.loads(self._path.read_text())
            for data, place in zip(saved["items"], saved["places"], strict=True):
                self.items._added = place - 1  # What was purged has left a gap, which branches rely on.
                await self._add(load_item(data), None)
            for item_id in saved["hidden"]:
                await self._delete(item_id, None)

    async def _close(self) -> None:
        if self._path.parent.exists() and self.access != "read":
            everything = [item async for item in self._scan(_ALL, True, "added")]
            hidden = [item.id for item in everything if await self._get(item.id) is None]
            new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            items = [dump_item(item) for item in everything]
            places = [await self._place(item.id) for item in everything]
            new.write_text(json.dumps({"items": items, "places": places, "hidden": hidden}))
            new.replace(self._path)

    async def doctor(self, repair: bool = False) -> list[Finding]:
        ok = repair or not self._path.with_name("dusty").exists()
        return [Finding("dust", ok, "clean" if ok else "dusty", "" if ok else "memoranda doctor --repair")]

    async def reindex(self) -> int:
        return len(self)


class PausingStore(ShelfStore):
    """A store whose first scan stops in the middle, says so on standard output, and waits to be interrupted."""

    _paused = False

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        count = 0
        async for item in super()._scan(wanted, include_deleted, order):
            count += 1
            if count == PAUSE_AFTER and not self._paused:
                self._paused = True
                print("paused", flush=True)
                await asyncio.Event().wait()
            yield item


class FillingStore(ShelfStore):
    """A store that has room for a thousand items."""

    async def _apply(self, write: Write) -> int:
        if len(self) + len(write.adds) > 1_000:
            raise StoreUnavailableError("no room is left. Nothing of this call was stored.")
        return await super()._apply(write)


class CheckingStore(ShelfStore):
    """A store that is not there, and says on standard output when it was asked: then an import checks its file."""

    _asked = 0

    async def _exists(self) -> bool:
        CheckingStore._asked += 1
        if CheckingStore._asked == 2:
            print("paused", flush=True)
        return False


class LeakyStore(ShelfStore):
    """A store that shows what should arrive deleted."""

    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(hidden=frozenset()))


class PlainStore(ShelfStore):
    """A store that cannot hide or purge, as one that has just the base."""

    capabilities = BASE_CAPABILITIES | {Capability.ATOMIC}
    doctor = None  # type: ignore[assignment]
    reindex = None  # type: ignore[assignment]

    async def _clear(self, wanted: Filter) -> int:
        return await self._purge(None, wanted, False)
