"""What cannot be read is left out of an answer, and the log says which it was: its id, nothing of what it holds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from memoranda.errors import CorruptStoreError

logger = logging.getLogger(__name__)

RowT = TypeVar("RowT")
ReadT = TypeVar("ReadT")


def left_out(error: CorruptStoreError, listed_by: str = "'memoranda doctor'") -> None:
    """Say in the log that something is left out. The error names it by its id; what led to it may quote its content."""
    logger.error("%s It was left out; %s lists what cannot be read.", error, listed_by)


def readable(read: Callable[[RowT], ReadT], rows: Sequence[RowT]) -> list[ReadT]:
    """Return what the rows hold, in their order, without those that ``read`` finds corrupt."""
    try:
        return [read(row) for row in rows]  # Nearly always all of them can be read.
    except CorruptStoreError:
        found = []
    for row in rows:
        try:
            found.append(read(row))
        except CorruptStoreError as error:
            left_out(error)
    return found
