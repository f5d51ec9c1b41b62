"""PostgreSQL servers that Patroni looks after, with etcd to agree in, each reached over a network that can break."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import secrets
import shutil
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from servers.debian import DebianPackage, DebianProgram
from servers.local_postgres import PostgresServer, postgres_server, query
from servers.network import UnreliableNetwork
from servers.process import LocalServer
from servers.system import MissingServerError, ServerError, closed_port, reachable, unprivileged_account

_ETCD = DebianProgram(DebianPackage("etcd", "etcd-server"), "etcd", "MEMORANDA_TEST_ETCD")

_SETTLE_SECONDS = 180.0
"""Within how long a group must have come to rest; copying a server takes its time on a busy machine."""

# Patroni detaches the server that it starts. Ending or freezing a node must reach both, so a process above them
# takes in whatever is let go of below it (36 is PR_SET_CHILD_SUBREAPER).
_TOGETHER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
patroni = os.fork()
if patroni == 0:
    os.execv(sys.executable, [sys.executable, "-m", "patroni", *sys.argv[1:]])
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: os.kill(patroni, signal.SIGTERM))
while os.wait()[0] != patroni:
    pass
"""


def patroni_group(standbys: int = 2) -> PatroniGroup:
    """Return a PostgreSQL server with so many standbys under Patroni, to use as an asynchronous context manager.

    Patroni is a package that the caller has installed (`patroni[etcd3]` and `psycopg[binary]`); etcd is the program
    that `MEMORANDA_TEST_ETCD` names, else an installed one, else Debian's. What cannot be had is a
    `MissingServerError`. It is in synchronous mode, so that what was confirmed is on a standby that may be promoted.
    """
    return PatroniGroup(standbys)


class Etcd(LocalServer):
    """An etcd of one member."""

    name = "etcd"

    def __init__(self) -> None:
        super().__init__()
        self._program: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Where its clients find it."""
        return f"http://127.0.0.1:{self.port}"

    def _prepare(self) -> None:
        self._program = _ETCD.command(self.folder, None)

    def _command(self) -> list[str]:
        peers = f"http://127.0.0.1:{_free_port()}"
        options = {
            "data-dir": str(self.folder / "data"),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
        }
        return [*self._program, *(f"--{name}={value}" for name, value in options.items())]

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                return bool(json.load(answer)["health"] == "true")
        except (OSError, ValueError):
            return False


class PatroniNode(PostgresServer):
    """A server and the Patroni that looks after it; they live, freeze and die together."""

    name = "Patroni"

    def __init__(self, number: int, binaries: Path, password: str) -> None:
        super().__init__(binaries, {})
        # Patroni drops root's rights itself, on its command line.
        self._account = None
        self.number = number
        self.password = password
        self.port = _free_port()
        self._api = _free_port()
        self.etcd = self.address = ""
        """Where this node finds etcd, and where the others find this node."""

    def _prepare(self) -> None:
        account = unprivileged_account()
        configuration = self.folder / "patroni.json"
        configuration.write_text(json.dumps(self._configuration()))
        configuration.chmod(0o600)
        if account is not None:
            shutil.chown(configuration, account)
            shutil.chown(self.folder, account)

    def _configuration(self) -> dict[str, Any]:
        login = {"username": "postgres", "password": self.password}
        settings = {"unix_socket_directories": "", "shared_buffers": "32MB", "max_connections": 60, **self._settings}
        return {
            "scope": "memoranda",
            "name": f"node{self.number}",
            "restapi": {"listen": f"127.0.0.1:{self._api}", "connect_address": f"127.0.0.1:{self._api}"},
            # As a proxy: otherwise it would ask etcd for its real address, and go round the network that breaks.
            "etcd3": {"host": self.etcd, "use_proxies": True},
            "bootstrap": {
                "dcs": {
                    # The least that Patroni takes.
                    "ttl": 20,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    "synchronous_mode": True,
                    "postgresql": {"use_pg_rewind": True, "parameters": settings},
                },
                "initdb": ["no-sync", {"encoding": "UTF8"}, {"locale": "C"}, {"auth": "scram-sha-256"}],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": self.address,
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(self._binaries),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {"superuser": login, "replication": login, "rewind": login},
                "pg_hba": [f"host {whose} all 127.0.0.1/32 scram-sha-256" for whose in ("all", "replication")],
                # A server under load would take minutes over the checkpoint that comes before a copy.
                "basebackup": [{"checkpoint": "fast"}, "no-sync"],
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
            },
        }

    def _command(self) -> list[str]:
        patroni = [sys.executable, "-c", _TOGETHER, str(self.folder / "patroni.json")]
        return [*_as_account(unprivileged_account(), [Path(sys.executable), self._binaries]), *patroni]

    def _answers(self) -> bool:
        # Which part it plays is for the group to wait for: a standby copies the primary first.
        return self.says("liveness")

    def says(self, question: str) -> bool:
        """Return what Patroni answers to a question of its own interface, such as ``synchronous``."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._api}/{question}", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class PatroniGroup:
    """A primary and standbys among which Patroni chooses. What becomes of a node is up to the caller."""

    def __init__(self, standbys: int) -> None:
        for package in ("patroni", "psycopg"):
            if importlib.util.find_spec(package) is None:
                raise MissingServerError(f"There is no {package} here: install 'patroni[etcd3]' and 'psycopg[binary]'.")
        first = postgres_server(private=True)
        assert isinstance(first, PostgresServer)
        self._etcd = Etcd()
        self.nodes = [PatroniNode(number, first.binaries, first.password) for number in range(standbys + 1)]
        self.ways: list[UnreliableNetwork] = []
        """The network to each node, for clients and for the other nodes, in the order of the nodes."""
        self._to_etcd: list[UnreliableNetwork] = []
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._etcd.close)
            await asyncio.to_thread(self._etcd.start)
            for node in self.nodes:
                stack.callback(node.close)
                stack.callback(node.kill)
                self.ways.append(await stack.enter_async_context(UnreliableNetwork(node.url)))
                self._to_etcd.append(await stack.enter_async_context(UnreliableNetwork(self._etcd.url)))
                node.address, node.etcd = _place(self.ways[-1]), _place(self._to_etcd[-1])
            await asyncio.to_thread(self.nodes[0].start)
            await self.primary()
            await asyncio.gather(*(asyncio.to_thread(node.start) for node in self.nodes[1:]))
            await self.wait_until_followed()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    @contextlib.asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        """Create an empty database, and give its URL, which names all nodes and leads through their networks."""
        name = f"memoranda_test_{secrets.token_hex(6)}"
        await asyncio.to_thread(query, (await self.primary()).url, f"CREATE DATABASE {name}")
        parts = urlsplit(self.ways[0].url)
        places = ",".join(map(_place, self.ways))
        yield urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{places}", path=f"/{name}"))
        await _answer((await self.primary()).url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    async def primary(self, *, besides: PatroniNode | None = None) -> PatroniNode:
        """Return the node that takes writes, and wait until there is one; ``besides`` is not asked."""
        found: list[PatroniNode] = []

        async def look() -> bool:
            for node in self.nodes:
                asked = node is not besides and node.running
                if asked and await _answer(node.url, "SELECT pg_is_in_recovery()") is False:
                    found.append(node)
            return bool(found)

        await self._until(look, "has a primary")
        return found[0]

    async def fail(self, node: PatroniNode, fault: str) -> None:
        """Have a node killed, paused or cut off from its clients, from etcd and from the others."""
        if fault == "killed":
            await asyncio.to_thread(node.kill)
        elif fault == "paused":
            await asyncio.to_thread(node.pause)
        else:
            self._silence(node, silent=True)

    async def heal(self, node: PatroniNode) -> None:
        """Undo what was done to a node; Patroni makes of it what it should be."""
        self._silence(node, silent=False)
        await asyncio.to_thread(node.resume)
        await asyncio.to_thread(node.start)

    async def wait_until_followed(self) -> None:
        """Wait until all standbys get the primary's changes, and commits wait for one that may be promoted."""
        # A copy of the primary in progress streams as well, under another name.
        counted = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND application_name ~ '^node'"

        async def look() -> bool:
            node = await self.primary()
            if await _answer(node.url, counted) != len(self.nodes) - 1:
                return False
            # The primary waits for a standby a moment before Patroni has written down that it may follow.
            others = [other for other in self.nodes if other is not node]
            return any(await asyncio.gather(*(asyncio.to_thread(one.says, "synchronous") for one in others)))

        await self._until(look, "is whole")

    def _silence(self, node: PatroniNode, *, silent: bool) -> None:
        self.ways[node.number].silent = self._to_etcd[node.number].silent = silent

    async def _until(self, look: Callable[[], Coroutine[Any, Any, bool]], what: str) -> None:
        deadline = asyncio.get_running_loop().time() + _SETTLE_SECONDS
        while not await look():
            if asyncio.get_running_loop().time() > deadline:
                tails = "\n".join(node.log_tail for node in self.nodes)
                raise ServerError(f"No group under Patroni {what} after {_SETTLE_SECONDS:.0f} seconds. Logs:\n{tails}")
            await asyncio.sleep(0.05)


def _free_port() -> int:
    with closed_port() as port:
        return port


def _place(way: UnreliableNetwork) -> str:
    return urlsplit(way.url).netloc.rpartition("@")[2]


async def _answer(url: str, statement: str) -> Any:
    """Return what a node answers; None if it does not, in whichever way it was taken away meanwhile."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(5):
            return await asyncio.to_thread(query, url, statement)
    return None


def _as_account(account: str | None, needed: list[Path]) -> list[str]:
    """Return what runs a command as `account`; where that may not enter the folders needed, with leave to read all."""
    if account is None:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise MissingServerError("PostgreSQL refuses to run as root, and there is no setpriv to run Patroni otherwise.")
    command = [setpriv, f"--reuid={account}", f"--regid={account}", "--clear-groups"]
    if not all(reachable(path, account) for path in needed):
        command += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return command
