"""A real PgBouncer in front of a PostgreSQL for tests, from the system or from Debian's packages, without root."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from memoranda_testing.servers._postgres import fresh_database
from memoranda_testing.servers._process import LocalServer
from memoranda_testing.servers._system import MissingServerError, ServerError, reachable, unprivileged_account

PGBOUNCER_VARIABLE = "MEMORANDA_TEST_PGBOUNCER"

# What a small system may lack of its libraries; their names change from release to release.
_LIBRARIES = ("libc-ares", "libcares", "libevent")
_DOWNLOAD_SECONDS = 120.0


def pgbouncer(url: str, *, settings: Mapping[str, str] | None = None) -> PgBouncer:
    """Return a PgBouncer in transaction mode before the PostgreSQL at `url`, to use as a context manager.

    It is the program that `MEMORANDA_TEST_PGBOUNCER` names, else one on the PATH or in /usr/sbin, else Debian's own
    package, fetched with `apt-get download` and unpacked in a folder of this user's, which needs no root; where there
    is none of these, starting it is a `MissingServerError`. By default it is as unkind as it can be: few connections
    to the server, and each transaction on the one that was idle longest. `settings` are lines of its configuration.
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
        self._program: list[str] = []

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
        found = _present_program()
        if found is not None and reachable(found, self._account):
            self._program = [str(found)]
            return
        unpacked = self.folder / "pgbouncer"
        for package in _packages():
            subprocess.run(["dpkg", "-x", str(package), str(unpacked)], check=True, capture_output=True)
        libraries = ":".join(sorted({str(path.parent) for path in unpacked.rglob("*.so*")}))
        self._program = ["env", f"LD_LIBRARY_PATH={libraries}", str(unpacked / "usr" / "sbin" / "pgbouncer")]
        tried = subprocess.run([*self._program, "--version"], capture_output=True, text=True, check=False)
        if tried.returncode:
            raise MissingServerError(
                f"The PgBouncer of this system's packages does not run without being installed: {tried.stderr.strip()} "
                f"Install it, or set {PGBOUNCER_VARIABLE} to the path of the program."
            )

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


def _present_program() -> Path | None:
    named = os.environ.get(PGBOUNCER_VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise ServerError(f"{PGBOUNCER_VARIABLE} names {named!r}, which is no program.")
        return Path(named)
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
    return Path(found) if found else None


def _packages() -> list[Path]:
    """Return Debian's packages, fetched once and kept in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memoranda-testing"
    kept = cache / f"pgbouncer-{platform.machine()}"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            fetched = Path(temporary) / "packages"
            fetched.mkdir()
            _fetch(fetched)
            # Another test run may have been quicker; then there is something in the place already.
            with contextlib.suppress(OSError):
                fetched.rename(kept)
    return sorted(kept.glob("*.deb"))


def _fetch(folder: Path) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise MissingServerError(
            f"No PgBouncer was found for the tests, and without apt-get none can be fetched: install it (on macOS with "
            f"'brew install pgbouncer'), or set {PGBOUNCER_VARIABLE} to the path of the program."
        )
    lists = folder.parent / "lists"
    (lists / "partial").mkdir(parents=True)
    # A system that was never updated has no lists of packages; then they are fetched into a folder of our own.
    own_lists = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={lists}"]
    complaint = _apt_get(folder, "download", "pgbouncer")
    options: list[str] = []
    if complaint:
        options = own_lists
        complaint = _apt_get(folder, *options, "update") or _apt_get(folder, *options, "download", "pgbouncer")
    if not complaint:
        complaint = _apt_get(folder, *options, "download", *_needed_libraries(next(folder.glob("*.deb"))))
    if complaint:
        raise MissingServerError(
            f"No PgBouncer was found for the tests, and apt-get could not fetch it: {complaint} Install PgBouncer, or "
            f"set {PGBOUNCER_VARIABLE} to the path of the program."
        )


def _apt_get(folder: Path, *arguments: str) -> str:
    """Run apt-get in a folder, and return what it complains of when it fails."""
    command = ["apt-get", "-qq", *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {_DOWNLOAD_SECONDS:.0f} seconds."
    return (done.stderr.strip() or f"it ended with {done.returncode}.") if done.returncode else ""


def _needed_libraries(package: Path) -> list[str]:
    shown = subprocess.run(["dpkg-deb", "-f", str(package), "Depends"], capture_output=True, text=True, check=True)
    names = [word.split()[0] for word in shown.stdout.replace("|", ",").split(",") if word.strip()]
    return [name for name in names if name.startswith(_LIBRARIES)]
