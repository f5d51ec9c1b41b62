"""PostgreSQL and Redis from Debian's packages, for machines on which neither a wheel nor an installed server runs."""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from servers.debian import DebianPackage, with_libraries
from servers.local_postgres import PostgresServer
from servers.postgres_programs import server_programs, system_candidates
from servers.programs import Candidate, Command, add_fallback, first_that_runs
from servers.system import MissingServerError, temporary_folder, unprivileged_account


def add_debian_fallbacks() -> None:
    """Let `postgres_server` and `redis_server` unpack Debian's package where nothing else runs."""
    add_fallback("PostgreSQL", _DEBIAN_POSTGRES)
    add_fallback("Redis", Candidate("Debian's package redis-server", _debian_redis))


def system_postgres_server(*, settings: Mapping[str, str] | None = None) -> PostgresServer | None:
    """Return a server that runs from the system's PostgreSQL (`pg_config --bindir`) or Debian's, or None."""
    try:
        program = first_that_runs("PostgreSQL of the system", [*system_candidates(), _DEBIAN_POSTGRES], "Install one.")
    except MissingServerError:
        return None
    return PostgresServer(Path(program[0]).parent, settings or {})


@functools.cache
def _debian_postgres() -> Sequence[Command]:
    """Unpack Debian's packages, and return programs that call theirs with the libraries that came along."""
    package = DebianPackage("PostgreSQL", "postgresql", ("postgresql-1", "postgresql-client-1"), ("libllvm",))
    unpacked = package.unpacked(_lasting_folder(unprivileged_account()))
    for compiler in unpacked.rglob("llvmjit.so"):  # It needs the library that was left out.
        compiler.unlink()
    callers = unpacked / "bin"
    callers.mkdir()
    for program in unpacked.glob("usr/lib/postgresql/*/bin/*"):
        caller = callers / program.name
        caller.write_text(f'#!/bin/sh\nexec {shlex.join(with_libraries(unpacked, program))} "$@"\n')
        caller.chmod(0o755)
    return server_programs(callers)


_DEBIAN_POSTGRES = Candidate("Debian's package postgresql", _debian_postgres)


@functools.cache
def _debian_redis() -> Sequence[Command]:
    # The program itself is in redis-tools, under another name.
    package = DebianPackage("Redis", "redis-server", ("redis-tools", "lua-"))
    unpacked = package.unpacked(_lasting_folder())
    return [with_libraries(unpacked, unpacked / "usr" / "bin" / "redis-server")]


def _lasting_folder(account: str | None = None) -> Path:
    """Return a new folder that `account` may enter and that is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="memoranda-", dir=temporary_folder(account)))
    folder.chmod(0o755)
    atexit.register(_remove_if_own, folder, os.getpid())
    return folder


def _remove_if_own(folder: Path, owner: int) -> None:
    """Remove a folder unless this is a child of the process that made it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
