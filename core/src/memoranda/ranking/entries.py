"""An item in its place, as stores in memory keep it and rankings read it."""

from __future__ import annotations

from typing import NamedTuple

from memoranda.items import MemoryItem


class Entry(NamedTuple):
    """An item in its place: by time, then by the order of adding; ``added`` is unique, so items never compare.

    ``terms`` are filled when a ranking first asks for them. They go where the entry goes, and are nobody else's.
    """

    created_at: str
    added: int
    item: MemoryItem
    terms: list[str]
