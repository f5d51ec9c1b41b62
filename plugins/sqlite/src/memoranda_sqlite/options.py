"""The options of the store: reading its URL and checking its arguments."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import get_args
from urllib.parse import quote, unquote

from memoranda.errors import InputError
from memoranda_sqlite.files import MEMORY, Durability

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def path_of(url: str) -> str:
    """Return the file that a ``sqlite:`` URL names: relative after three slashes, absolute after four."""
    name = unquote(url.partition(":")[2].partition("#")[0])
    if name.startswith("//"):
        authority, slash, name = name[2:].partition("/")
        if authority or not slash:
            if authority:
                raise InputError(
                    "The URL names a host; SQLite knows files only. Write sqlite:///relative.db or "
                    "sqlite:////absolute.db.",
                    field="url",
                )
            return MEMORY
    return name or MEMORY


def url_of(path: str) -> str:
    """Return the URL of a file: relative where it lies in the working folder, else absolute."""
    with suppress(ValueError):
        path = str(Path(path).relative_to(Path.cwd()))
    return f"sqlite:///{quote(os.fsencode(path))}"


def checked_path(db_path: str | os.PathLike[str]) -> str:
    """Return the absolute path of the file, or ``":memory:"``; raise InputError for what is no path."""
    path = os.fspath(db_path)
    if not isinstance(path, str) or not path or "\0" in path:
        raise InputError(f"db_path must be the name of a file or {MEMORY!r}, without NUL characters.", field="db_path")
    if _URL.match(path):
        # It would become the name of a file, with whatever password it holds.
        raise InputError(
            "db_path must be the name of a file, not a URL; memoranda.open takes URLs such as 'sqlite:///agent.db'.",
            field="db_path",
        )
    # An absolute path survives a change of the working folder, and is never taken for one of SQLite's URIs.
    return path if path == MEMORY else str(Path(path).absolute())


def checked_durability(durability: str) -> Durability:
    """Return the durability, or raise InputError."""
    if durability not in get_args(Durability):
        raise InputError("durability must be 'full' or 'normal'.", field="durability")
    return "full" if durability == "full" else "normal"
