"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from memoranda.errors import MemoryError

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
