"""What the test servers need from the operating system: ports, accounts and process trees."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypedDict


class ServerError(RuntimeError):
    """A test server could not be found, started or controlled; the message says which, why and what to do."""


class MissingServerError(ServerError):
    """This machine has no such server and cannot get one, so its tests have to be skipped."""


class AccountOptions(TypedDict, total=False):
    """The arguments of `subprocess` that choose the account of a command."""

    user: int
    group: int
    extra_groups: list[str | int]


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """Give a loopback port that refuses connections, and that no server can take during the block."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


class HeldPort:
    """A loopback port that stays reserved for one server before it starts and while it is stopped.

    A socket that does not listen holds the port. Linux lets a server listen beside it if both set SO_REUSEADDR, as
    servers do. On other systems the port is only known to have been free.
    """

    def __init__(self) -> None:
        self._sockets = self._bound()
        self.number: int = self._sockets[0].getsockname()[1]
        for each in self._sockets:
            # Only after binding: until then the port must not be shared with anyone.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not all(map(_can_be_shared, self._sockets)):
            self.close()

    def _bound(self) -> list[socket.socket]:
        """Return a socket for each port to hold, the server's own first."""
        holder = socket.socket()
        holder.bind(("127.0.0.1", 0))
        return [holder]

    def close(self) -> None:
        """Release the port."""
        for each in self._sockets:
            each.close()


def _can_be_shared(holder: socket.socket) -> bool:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(holder.getsockname())
            server.listen()
        except OSError:
            return False
    return True


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Check `condition` every twenty milliseconds; return True if it became true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def unprivileged_account() -> str | None:
    """Return the account for servers that refuse to run as root; None if this process is not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise ServerError("PostgreSQL refuses to run as root and there is no account 'postgres' or 'nobody' to run it as.")


def account_options(account: str | None) -> AccountOptions:
    """Return the arguments that make `subprocess` run a command as `account`."""
    if account is None:
        return {}
    entry = pwd.getpwnam(account)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def reachable(path: Path, account: str | None) -> bool:
    """Return True if `account` may enter every folder above `path`; the current user always may."""
    return account is None or all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes below `pid`, children before grandchildren."""
    parents = _parents_by_process()
    found = [pid]
    for parent in found:
        found.extend(child for child, its_parent in parents.items() if its_parent == parent)
    return found[1:]


def alive(pid: int) -> bool:
    """Return True if a process runs; a zombie does not."""
    stat = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(OSError):
        return stat.read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    if stat.parent.parent.joinpath("self").exists():
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def temporary_folder(account: str | None) -> Path:
    """Return the folder for temporary files, or /tmp when `account` may not enter that one."""
    folder = Path(tempfile.gettempdir())
    return folder if reachable(folder / "any", account) else Path("/tmp")


def _parents_by_process() -> dict[int, int]:
    if not Path("/proc/self/stat").exists():
        listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
        return {int(pid): int(parent) for pid, parent in map(str.split, listing.stdout.splitlines())}
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(entry.parent.name)] = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
    return parents
