"""The stores that receipts are tested on."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import redis.asyncio

import memoranda
from memoranda.store import Store
from servers import postgres_server, redis_server

START = 1_800_000_000.0


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> float:
        return self.time

    def tick(self) -> str:
        """Move on by a second, and return the moment in between."""
        self.time += 1
        return datetime.fromtimestamp(self.time - 0.5, UTC).isoformat(timespec="microseconds")


def url_of(engine: str, servers: ExitStack, folder: Path) -> str:
    """Return the URL of an empty store of an engine; ``servers`` stops the one that is started for it."""
    if engine == "postgres":
        return servers.enter_context(servers.enter_context(postgres_server()).database())
    if engine == "redis":
        return f"{servers.enter_context(redis_server()).url}?namespace={uuid.uuid4().hex}"
    return {"memory": "memory://", "vector": "vector://?embeddings=hashing"}.get(engine, f"sqlite:///{folder}/a.db")


@asynccontextmanager
async def opened(engine: str, servers: ExitStack, folder: Path, **options: Any) -> AsyncIterator[Store]:
    """Open an empty store of an engine."""
    async with memoranda.open(url_of(engine, servers, folder), **options) as store:
        yield store


async def opened_with_revisions(url: str) -> Store:
    """Return a store that keeps revisions; a function of a module is what another process can be sent."""
    return memoranda.open(url, revisions=True)


async def traces(url: str, word: str) -> list[str]:
    """Return where a file, with its log, or a server still has a word."""
    if url.startswith("redis"):
        client = redis.asyncio.from_url(url.partition("?")[0])
        try:
            held = [key + (await client.dump(key) or b"") async for key in client.scan_iter()]
        finally:
            await client.aclose()
        return [str(each) for each in held if word.encode() in each]
    if url.startswith("postgresql"):
        connection = await asyncpg.connect(url)
        try:
            named = "SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'r' AND relnamespace <> 11"
            tables = [row["name"] for row in await connection.fetch(named)]
            rows = [row for name in tables for row in await connection.fetch(f"SELECT t::text AS row FROM {name} t")]
        finally:
            await connection.close()
        return [row["row"] for row in rows if word in row["row"]]
    file = Path(url.removeprefix("sqlite:///"))
    return [each.name for each in file.parent.glob(f"{file.name}*") if word.encode() in each.read_bytes()]
