"""Items on their way into the table, and which of them one statement can write."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from memoranda.items import MemoryMetadata
from memoranda_sql import Row


class Addition(NamedTuple):
    """An item on its way into the table: its columns so far, and which scope fields a row of its id must share.

    ``times`` is how often the item was given; ``within`` is kept only where fields cannot say it. With ``deleted`` the
    row is hidden from the first moment. ``moment`` is the item's time where ``created_at`` is not in the form in which
    times are stored.
    """

    row: Row
    further: tuple[Any, ...]
    token: int
    fields: tuple[str, ...]
    within: MemoryMetadata | None
    vectors: Sequence[Sequence[float]] | None = None
    times: int = 1
    number: int | None = None
    deleted: bool = False
    moment: str | None = None


def id_of(addition: Addition) -> Hashable:
    """Return the id: a statement writes each once."""
    return addition.row.id


def kind_of(addition: Addition) -> Hashable:
    """Return what items must have in common for one statement to write them: the fields that their rows must share."""
    return addition.fields if addition.within is None else object()  # Equal to nothing: it goes alone.
