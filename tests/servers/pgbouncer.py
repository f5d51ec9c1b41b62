"""A real PgBouncer in front of a PostgreSQL for tests, from the system or from Debian's packages, without root."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

from servers.debian import DebianPackage, DebianProgram
from servers.local_postgres import fresh_database
from servers.process import LocalServer
from servers.programs import Command
from servers.system import ServerError, unprivileged_account

PGBOUNCER_VARIABLE = "MEMORANDA_TEST_PGBOUNCER"

_PGBOUNCER = DebianProgram(DebianPackage("PgBouncer", "pgbouncer"), "pgbouncer", PGBOUNCER_VARIABLE)


def pgbouncer(url: str, *, settings: Mapping[str, str] | None = None) -> PgBouncer:
    """Return a PgBouncer in transaction mode before the PostgreSQL at `url`, to use as a context manager.

    It is the program that `MEMORANDA_TEST_PGBOUNCER` names, else one on the PATH or in /usr/sbin, else Debian's own
    package, fetched with `apt-get download` and unpacked in a folder of this user's, which needs no root; where there
    is none of these, nor a way to one, starting it is a `MissingServerError`. By default it is as unkind as it can be:
    few connections to the server, and each transaction on the one that was idle longest. `settings` are lines of its
    configuration.
    """
    return PgBouncer(url, settings or {})


class PgBouncer(LocalServer):
    """A PgBouncer of one's own on a loopback port; who logs in there is the user of the server's URL."""

    name = "PgBouncer"

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        super().__init__(account=unprivileged_account())
        self._target = urlsplit(url)
        self._settings = {
            "pool_mode": "transaction",
            "default_pool_size": "4",
            "server_round_robin": "1",
            **settings,
        }
        self._program: Command = ()

    @property
    def url(self) -> str:
        """The URL of the server's database through this PgBouncer."""
        return self._through(self._target.path)

    @property
    def version(self) -> tuple[int, ...]:
        """The release, like (1, 18, 0)."""
        answer = subprocess.run([*self._program, "--version"], capture_output=True, text=True, check=True)
        found = re.search(r"PgBouncer (\d+)\.(\d+)\.(\d+)", answer.stdout)
        if found is None:
            raise ServerError(f"PgBouncer does not say its version: {answer.stdout.strip()!r}")
        return tuple(map(int, found.groups()))

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """Create an empty database on the server behind, give its URL through this PgBouncer, and drop it in the end.

        It is created and dropped directly: that is no work for a pooler.
        """
        with fresh_database(urlunsplit(self._target)) as url:
            yield self._through(urlsplit(url).path)

    def _through(self, path: str) -> str:
        credentials = self._target.netloc.rpartition("@")[0]
        return urlunsplit(self._target._replace(netloc=f"{credentials}@127.0.0.1:{self.port}", path=path))

    def _prepare(self) -> None:
        self._program = _PGBOUNCER.command(self.folder, self._account)

    def _command(self) -> list[str]:
        self._write("users.txt", f'"{self._user}" "{unquote(self._target.password or "")}"\n')
        place = f"host={self._target.hostname} port={self._target.port or 5432}"
        lines = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": str(self.folder / "users.txt"),
            "admin_users": self._user,
            "max_client_conn": "500",
            **self._settings,
        }
        text = "".join(f"{name} = {value}\n" for name, value in lines.items())
        self._write("pgbouncer.ini", f"[databases]\n* = {place}\n[pgbouncer]\n{text}")
        return [*self._program, str(self.folder / "pgbouncer.ini")]

    @property
    def _user(self) -> str:
        return unquote(self._target.username or "postgres")

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text)
        if self._account is not None:
            shutil.chown(path, self._account)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False
