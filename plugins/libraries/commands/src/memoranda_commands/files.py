"""Files that commands read and write: written whole or not at all, and JSON whose mistakes have a line."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from memoranda.errors import InputError, MemoryError

MARK = "memoranda"
"""The key of a line that says which file of memoranda's this is."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


class FileError(MemoryError, OSError):
    """A file cannot be read or written; the message says which one and why."""


class MissingFileError(FileError, FileNotFoundError):
    """There is no such file to read, or no such folder to write to."""


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """Give a file to write. It replaces ``path`` when the block succeeds, and is removed otherwise.

    Only its owner can read it. Raises FileError, naming ``path``, if it cannot be written.
    """
    if not path.parent.is_dir():
        raise MissingFileError(f"{path} cannot be written: there is no folder {str(path.parent)!r}. Create it first.")
    if path.is_dir():
        raise FileError(f"{path} cannot be written: it is a folder. Name a file in it.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        folder = str(path.parent.absolute())
        raise FileError(
            f"{path} cannot be written: {error.strerror}, in the folder {folder!r}. Choose one that you may write to."
        ) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as output:
            yield output
            output.flush()
            os.fsync(output.fileno())
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _FULL:
            raise FileError(f"{path} cannot be written: {error.strerror}. Nothing was left there.") from error
        raise


def parsed(text: str, name: str, line: int = 1) -> Any:
    """Return the JSON value of a text that begins on a line. Raises InputError, naming the line, if it is not JSON."""
    try:
        return json.loads(text.rstrip())  # An error at the end is reported in the last line that is not empty.
    except json.JSONDecodeError as error:
        line += error.lineno - 1
        raise InputError(f"{name}, line {line}: this is not JSON ({error.msg}).", field="file") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}, line {line}: this is JSON that cannot be read ({error}).", field="file") from error
