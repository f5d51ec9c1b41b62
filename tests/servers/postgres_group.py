"""PostgreSQL with standbys that follow it by streaming replication, and the promotion of one of them."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from servers.local_postgres import PostgresServer, drop_database, postgres_server, query
from servers.process import START_SECONDS
from servers.system import ServerError, account_options, wait_until

_FOLLOWING = {
    # Losing a server is noticed in a second, and a standby looks for a new one at once.
    "wal_receiver_timeout": "2s",
    "wal_retrieve_retry_interval": "200ms",
    "wal_sender_timeout": "2s",
    "hot_standby_feedback": "on",
}


def postgres_group(
    standbys: int = 2, *, synchronous: bool = False, settings: Mapping[str, str] | None = None
) -> PostgresGroup:
    """Return a PostgreSQL server with so many standbys, to use as a context manager.

    With `synchronous` a commit is confirmed only when one standby has it on its disk, so that the most advanced
    standby has whatever was confirmed.
    """
    return PostgresGroup(standbys, synchronous=synchronous, settings=settings or {})


class PostgresNode(PostgresServer):
    """A member of a group: it begins as a copy of the member that it follows, or as an empty server."""

    def __init__(self, binaries: Path, settings: Mapping[str, str], password: str) -> None:
        super().__init__(binaries, {**_FOLLOWING, **settings})
        self.password = password
        self.source: PostgresServer | None = None

    def rejoin(self, source: PostgresServer) -> None:
        """Throw away what there is, copy the source, and follow it; on the same port as before."""
        self.kill()
        self.source = source
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        self._copy(source)
        self.start()

    def follow(self, source: PostgresServer) -> None:
        """Get the changes of another member from now on."""
        self.source = source
        query(self.url, f"ALTER SYSTEM SET primary_conninfo = '{_conninfo(source)}'", "SELECT pg_reload_conf()")

    def leave(self) -> None:
        """Get no more changes; what has arrived is all."""
        query(self.url, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        wait_until(lambda: query(self.url, "SELECT count(*) FROM pg_stat_wal_receiver") == 0, START_SECONDS)

    def promote(self) -> None:
        """Have a standby take writes; returns when it does."""
        self.source = None
        if query(self.url, "SELECT pg_promote(true, 50)") is not True:
            raise ServerError(f"The standby on port {self.port} could not be promoted: {self.log_tail}")

    def received(self) -> int:
        """Return how far a standby has got the changes, as a number of bytes."""
        return int(query(self.url, "SELECT coalesce(pg_last_wal_receive_lsn(), '0/0') - '0/0'"))

    def _prepare(self) -> None:
        if self.source is None:
            super()._prepare()
        else:
            self._reach_binaries()
            self._copy(self.source)

    def _copy(self, source: PostgresServer) -> None:
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        if self._account is not None:
            shutil.chown(data, self._account)
        command = [
            str(self._binaries / "pg_basebackup"),
            *("-D", str(data), "-R", "--checkpoint=fast", "--no-sync", "-X", "stream"),
            *("-d", _conninfo(source, patience=START_SECONDS)),
        ]
        made = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=3 * START_SECONDS,
            check=False,
            **account_options(self._account),
        )
        if made.returncode:
            raise ServerError(f"pg_basebackup could not copy the server on port {source.port}: {made.stderr.strip()}")
        with (data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{_conninfo(source)}'\n")


class PostgresGroup:
    """A primary and its standbys. What Patroni would do is scripted: choose, promote, and lead the others over."""

    def __init__(self, standbys: int, *, synchronous: bool, settings: Mapping[str, str]) -> None:
        first = postgres_server(private=True)
        assert isinstance(first, PostgresServer)
        shared = dict(settings)
        if synchronous:
            shared |= {"synchronous_standby_names": "ANY 1 (*)", "synchronous_commit": "on"}
        self._nodes = [PostgresNode(first.binaries, shared, first.password) for _ in range(standbys + 1)]
        self.primary = self._nodes[0]

    @property
    def nodes(self) -> list[PostgresNode]:
        """All members, in the order in which they were made."""
        return list(self._nodes)

    @property
    def standbys(self) -> list[PostgresNode]:
        """Those that are not the primary."""
        return [node for node in self._nodes if node is not self.primary]

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self.close)
            # Without a standby a synchronous primary confirms nothing, but it can be copied.
            self.primary.start()
            for node in self.standbys:
                node.source = self.primary
                node.start()
            self.wait_until_followed()
            on_failure.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every member and remove its folder."""
        for node in self._nodes:
            node.kill()
            node.close()

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """Create an empty database, give its URL on the primary, and drop it in the end, whichever that is then."""
        name = f"memoranda_test_{secrets.token_hex(6)}"
        query(self.primary.url, f"CREATE DATABASE {name}")
        try:
            yield urlunsplit(urlsplit(self.primary.url)._replace(path=f"/{name}"))
        finally:
            drop_database(self.primary.url, name)

    def fail_over(self) -> PostgresNode:
        """Promote the most advanced standby that answers, have the others follow it, and return it.

        They leave the old primary first, so that it confirms nothing any more, and then the one that has most is the
        one that has all. What becomes of the old primary is up to the caller.
        """
        left = [node for node in self.standbys if node.running]
        for node in left:
            node.leave()
        new = max(left, key=PostgresNode.received)
        new.promote()
        self.primary = new
        for node in left:
            if node is not new:
                node.follow(new)
        return new

    def wait_until_followed(self, seconds: float = START_SECONDS) -> None:
        """Wait until every running standby gets the primary's changes."""
        wanted = sum(node.running for node in self.standbys)
        counted = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        if not wait_until(lambda: query(self.primary.url, counted) >= wanted, seconds):
            tails = "\n".join(node.log_tail for node in self.standbys)
            raise ServerError(f"Not all standbys follow the primary after {seconds:.0f} seconds. Their logs:\n{tails}")


def _conninfo(source: PostgresServer, patience: float = 2) -> str:
    place = f"host=127.0.0.1 port={source.port}"
    return f"{place} user=postgres password={source.password} connect_timeout={patience:.0f}"
