"""Text in the file that is no Unicode: a damaged file or another program may leave some in a row.

The driver's own decoding, which is the quickest, fails a whole statement for it. Connections go over to a decoding that
marks such text when they first meet it; whatever makes items of rows then takes the row for unreadable, leaves it out
and names it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from memoranda_sqlite.faults import DRIVER_ERRORS, is_undecodable

Result = TypeVar("Result")


class Undecodable:
    """Stands for text that is no Unicode. It says nothing of what the text is: that may be a memory's content."""

    def __repr__(self) -> str:
        return "<text that is no Unicode>"


def decoded(raw: bytes) -> str | Undecodable:
    """Return the text, or what stands for it."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Undecodable()


def tolerantly(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Result]) -> Result:
    """Run a function that reads; run it again if it met text that is no Unicode for the first time."""
    try:
        return work(connection)
    except DRIVER_ERRORS as error:
        if not is_undecodable(error) or connection.text_factory is decoded:
            raise
    connection.text_factory = decoded
    return work(connection)
