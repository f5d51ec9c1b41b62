"""An empty store of every engine, for tests of what stands on a store and must not care which it is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from servers.local_postgres import ExternalPostgresServer, PostgresServer, postgres_server
from servers.local_redis import redis_server
from servers.process import Server

LASTING_ENGINES = ("sqlite", "postgres", "redis")
"""Those whose stores other processes can open, too."""

ENGINES = ("memory", *LASTING_ENGINES)

_PATIENCE = 240
"""The seconds that a call may take: on a slow machine, what is right is so late."""


class Engines:
    """Gives URLs of empty stores; a server is started when it is first asked for, and stopped in the end.

    @pytest.fixture(scope="session")
    def engines():
        with Engines() as started:
            yield started

    @pytest.fixture(params=ENGINES)
    def url(request, engines, tmp_path):
        with engines.empty_store(request.param, tmp_path) as url:
            yield url
    """

    def __init__(self) -> None:
        self._started = ExitStack()
        self._postgres: PostgresServer | ExternalPostgresServer | None = None
        self._redis: Server | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._started.close()

    @contextmanager
    def empty_store(self, engine: str, folder: Path) -> Iterator[str]:
        """Give the URL of an empty store that is not shared; a file is made in the folder."""
        if engine == "memory":
            yield "memory://"
        elif engine == "sqlite":
            yield f"sqlite:///{folder / 'agent.db'}"
        elif engine == "postgres":
            if self._postgres is None:
                server = postgres_server()
                self._started.enter_context(server)
                self._postgres = server
            with self._postgres.database() as url:
                yield f"{url}?timeout={_PATIENCE}&connect_timeout={_PATIENCE}"
        elif engine == "redis":
            if self._redis is None:
                self._redis = self._started.enter_context(redis_server())
            yield f"{self._redis.url}?namespace={uuid.uuid4().hex}&timeout={_PATIENCE}"
        else:
            raise ValueError(f"{engine!r} is no engine; there are {', '.join(ENGINES)}.")
