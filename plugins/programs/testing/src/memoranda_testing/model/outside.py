"""A second process that opens the same data: it reads everything, or stops in the middle of a write."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Self

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store
from memoranda_testing.case import Clock
from memoranda_testing.event_loop import Stepped
from memoranda_testing.expect import NotReachedError, not_ended
from memoranda_testing.model.recipe import made_by
from memoranda_testing.model.steps import Call, spelled_out

_HELD = "held"
"""What the process says when it has stopped in the middle of a call."""


class Outside:
    """A process that shares nothing with this one but the data that a store keeps elsewhere.

    It is spawned, not forked, so it sees nothing that this process remembers. What opens the store there must be a
    function that can be pickled.
    """

    def __init__(self, connection: Connection, process: BaseProcess) -> None:
        self._connection = connection
        self._process = process

    @classmethod
    async def begin(cls, open_store: Callable[[], Store | Awaitable[Store]]) -> Self:
        """Start the process; it opens the store when it is asked."""
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        process = spawning.Process(target=_serve, args=(open_store, theirs), daemon=True)
        await asyncio.to_thread(process.start)
        theirs.close()
        return cls(ours, process)

    async def look(
        self, now: float | None = None, patience: float = 30.0, metadata: MemoryMetadata | None = None
    ) -> list[MemoryItem]:
        """Return every item that the other process finds there, by a clock that shows this time; deleted ones, too."""
        self._connection.send(("look", now, metadata))
        return list(await self._received(patience))

    async def hold(self, call: Call, at: int, patience: float) -> bool:
        """Make a call there, and stop where it waits for the n-th time; False if it ended before that.

        The process does nothing until :meth:`outcome` lets it go on.
        """
        self._connection.send(("hold", call, at))
        if await self._received(patience) == _HELD:
            return True
        self._connection.send("ended")
        return False

    async def outcome(self, patience: float) -> str:
        """Let the call go on, and return the name of the error that it raised, or nothing."""
        self._connection.send("go on")
        return str(await self._received(patience))

    async def end(self) -> None:
        """End the process."""
        self._connection.close()
        await asyncio.to_thread(self._process.join, 10)
        self._process.kill()

    async def _received(self, patience: float) -> Any:
        try:
            if not await asyncio.to_thread(self._connection.poll, patience):
                raise not_ended("What another process does", patience)
            found = self._connection.recv()
        except EOFError:
            raise NotReachedError("Another process ended as it was to open the data; its output says why.") from None
        if isinstance(found, Exception):
            raise found
        return found


def _serve(open_store: Callable[[], Any], connection: Connection) -> None:
    """Do what the other process asks for, until it closes the connection."""
    try:
        while True:
            asked = connection.recv()
            try:
                if asked[0] == "look":
                    connection.send(asyncio.run(_everything(open_store, *asked[1:])))
                else:
                    _, call, at = asked
                    asyncio.run(_held(open_store, call, at, connection))
            except (EOFError, OSError):
                raise
            except Exception as error:  # noqa: BLE001  # whatever a store raises is an answer
                connection.send(RuntimeError(f"{type(error).__name__}: {error}"))
    except (EOFError, OSError, KeyboardInterrupt):
        return


async def _everything(
    open_store: Callable[[], Any], now: float | None, metadata: MemoryMetadata | None
) -> list[MemoryItem]:
    store = await made_by(open_store)
    if now is not None:
        store.clock = Clock(now)
    await store.init()
    try:
        deleted = Capability.DELETE in store.capabilities
        return [item async for item in store.scan(metadata=metadata, order="added", include_deleted=deleted)]
    finally:
        await store.close()


async def _held(open_store: Callable[[], Any], call: Call, at: int, connection: Connection) -> None:
    """Make the call, stop in the middle of it until the other side says so, and send the name of what it raised."""

    def hold() -> None:
        connection.send(_HELD)
        connection.recv()

    async with await made_by(open_store) as store:
        held = Stepped(getattr(store, call.method)(**spelled_out(call.arguments)), at, hold)
        try:
            await held
            error = ""
        except (EOFError, OSError):
            raise
        except Exception as raised:  # noqa: BLE001  # it is the answer
            error = type(raised).__name__
        if held.waits < at:
            connection.send("ended")
            connection.recv()
            connection.recv()
    connection.send(error)
