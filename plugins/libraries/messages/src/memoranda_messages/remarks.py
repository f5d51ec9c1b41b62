"""What holds no longer of what was said, behind the words that say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memoranda.items import MemoryItem


def remarked(items: Sequence[MemoryItem], remarks: Mapping[str, str]) -> list[MemoryItem]:
    """Return items to show, each that says what holds no longer with the remark on it behind its words.

    ``remarks`` are by id: see :meth:`memoranda.store.Store.outdated`.
    """
    return [
        item.model_copy(update={"content": item.content + in_brackets(remarks[item.id])})
        if item.id in remarks
        else item
        for item in items
    ]


def in_brackets(remark: str) -> str:
    """Return a remark as it stands behind the words of an item."""
    return f" ({' '.join(remark.split())})"
