"""What the model keeps: items in the order of their adding, each with whether it is deleted."""

from __future__ import annotations

from dataclasses import dataclass

from memoranda.items import MemoryItem


@dataclass(slots=True)
class Row:
    """An item as it is stored; a deleted one can be restored."""

    item: MemoryItem
    deleted: bool = False
