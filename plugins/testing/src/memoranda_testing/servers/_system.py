"""What the test servers need from the operating system: ports, accounts and process trees."""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import random
import shutil
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
    """This machine has no such server and cannot get one, so that a test of it has to be left out."""


class AccountOptions(TypedDict, total=False):
    """The arguments of `subprocess` that choose the account of a command."""

    user: int
    group: int
    extra_groups: list[str | int]


def free_port() -> int:
    """Return a loopback port that is free now."""
    with closed_port() as port:
        return port


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """Give a loopback port on which nobody listens, and nobody can for the block."""
    (holder,) = _bound(0)
    with holder:
        yield holder.getsockname()[1]


class HeldPort:
    """A loopback port for a server, which nobody else is given before it starts, or while it is stopped.

    A socket that does not listen holds it. Linux lets a server listen beside that one, if both ask to reuse addresses,
    as servers do. Where that is not so, the port is merely free at first.
    """

    def __init__(self, *, also_above: int = 0) -> None:
        self._sockets = _bound(also_above)
        self.number: int = self._sockets[0].getsockname()[1]
        for each in self._sockets:
            # Not before it was bound: nobody was to have the port already, listening or not.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not all(map(_can_be_shared, self._sockets)):
            self.close()

    def close(self) -> None:
        """Leave the port to others."""
        for each in self._sockets:
            each.close()


def _bound(also_above: int) -> list[socket.socket]:
    """Return a socket with a port that nobody else has, and with `also_above` one with the port that much higher."""
    for _ in range(200):
        with contextlib.ExitStack() as on_failure, contextlib.suppress(OSError):
            lower = on_failure.enter_context(socket.socket())
            lower.bind(("127.0.0.1", random.randrange(20_000, 32_000) if also_above else 0))
            sockets = [lower]
            if also_above:
                sockets.append(on_failure.enter_context(socket.socket()))
                sockets[-1].bind(("127.0.0.1", lower.getsockname()[1] + also_above))
            on_failure.pop_all()
            return sockets
    raise ServerError("No free loopback port was found for a test server.")


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
    """Ask `condition` every twenty milliseconds; return whether it became true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def unprivileged_account() -> str | None:
    """Return the account to run a server as that refuses to be root; None when this process is not root."""
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
    """Say whether `account` may enter every folder above `path`; the present user always may."""
    return account is None or all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes below `pid`, children before grandchildren."""
    parents = _parents_by_process()
    found = [pid]
    for parent in found:
        found.extend(child for child, its_parent in parents.items() if its_parent == parent)
    return found[1:]


def alive(pid: int) -> bool:
    """Say whether a process runs; one that has ended and only waits for its parent does not."""
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


def lasting_folder(account: str | None = None) -> Path:
    """Return a new folder that `account` may enter and that is gone when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="memoranda-", dir=temporary_folder(account)))
    folder.chmod(0o755)
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # And not in a fork.
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _parents_by_process() -> dict[int, int]:
    if not Path("/proc/self/stat").exists():
        listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
        return {int(pid): int(parent) for pid, parent in map(str.split, listing.stdout.splitlines())}
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(entry.parent.name)] = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
    return parents
