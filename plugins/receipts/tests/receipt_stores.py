"""The stores that receipts are tested on."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import memoranda
from memoranda.store import BaseStore
from memoranda_testing.servers import postgres_server, redis_server


@asynccontextmanager
async def opened(engine: str, servers: ExitStack, folder: Path, **options: Any) -> AsyncIterator[BaseStore]:
    """Open an empty store of an engine; ``servers`` stops the one that is started for it."""
    if engine == "postgres":
        url = servers.enter_context(servers.enter_context(postgres_server()).database())
    elif engine == "redis":
        url = f"{servers.enter_context(redis_server()).url}?namespace={uuid.uuid4().hex}"
    else:
        url = {"memory": "memory://", "vector": "vector://?embeddings=hashing"}.get(engine, f"sqlite:///{folder}/a.db")
    async with memoranda.open(url, **options) as store:
        yield store
