"""A network between a store and its server that falls silent or breaks when a test wants it to."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class UnreliableNetwork:
    """Passes bytes between a loopback port and the server of a URL, until a test stops it.

    Use it with `async with` and give its `url` to the store under test.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._parts = parts
        self._host, self._target = parts.hostname or "127.0.0.1", parts.port or 5432
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers_until_cut: int | None = None
        self._fatal_question: bytes | None = None
        self._asked_fatally = False
        self.silent = False
        """True swallows bytes in both directions."""
        self.cuts = 0
        """How many connections were broken on purpose."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        """The URL that leads through this network."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        credentials = self._parts.netloc.rpartition("@")[0]
        return urlunsplit(self._parts._replace(netloc=f"{credentials}@127.0.0.1:{port}"))

    def cut_after_answers(self, count: int) -> None:
        """Break the next connection on which the server gives so many answers, swallowing the last of them."""
        self._answers_until_cut = count

    def cut_when_answering(self, question: bytes) -> None:
        """Break the next connection that sends these bytes, once the server has answered them."""
        self._fatal_question = question

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                inner_reader, inner_writer = await asyncio.open_connection(self._host, self._target)
                try:
                    await self._pass_on(reader, writer, inner_reader, inner_writer)
                finally:
                    inner_writer.transport.abort()
        finally:
            # Also where the server is gone, as it would refuse the connection itself.
            writer.transport.abort()
            self._tasks.discard(task)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        inner_reader: asyncio.StreamReader,
        inner_writer: asyncio.StreamWriter,
    ) -> None:
        questions = asyncio.create_task(self._questions(reader, inner_writer))
        answers = asyncio.create_task(self._answers(inner_reader, writer))
        try:
            await asyncio.wait([questions, answers], return_when=asyncio.FIRST_COMPLETED)
        finally:
            questions.cancel()
            answers.cancel()
            await asyncio.gather(questions, answers, return_exceptions=True)

    async def _questions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            if self.silent:
                continue
            if self._fatal_question is not None and self._fatal_question in chunk:
                self._asked_fatally = True
            writer.write(chunk)
            await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            if self.silent:
                continue
            if self._cuts(chunk):
                self.cuts += 1
                return
            writer.write(chunk)
            await writer.drain()

    def _cuts(self, chunk: bytes) -> bool:
        """Return True to break the connection instead of passing this answer on."""
        if self._asked_fatally:
            self._fatal_question, self._asked_fatally = None, False
            return True
        if self._answers_until_cut is not None:
            self._answers_until_cut -= 1
            if self._answers_until_cut == 0:
                self._answers_until_cut = None
                return True
        return False
