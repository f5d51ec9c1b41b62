"""What has changed since an earlier look: see the stream ``changes`` in :mod:`memoranda_redis._records`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from memoranda.items import Changes, Payload
from memoranda.shapes import json_text
from memoranda.store import EVERYTHING
from memoranda.store.backend import Filter, Query, readable
from memoranda_redis._filters import script_filter
from memoranda_redis._reading import PAGE, Reading
from memoranda_redis._reading_scripts import CHANGED, NUMBERED
from memoranda_redis._records import StoredItem, read_stored

MOST_CHANGED = 100_000
"""How many numbers are looked up at most. Where more have changed, all items are read."""

T = TypeVar("T")

Range = tuple[int, int]
"""The first and the last of some numbers in the order of adding."""


class _Seen(NamedTuple):
    """The request, the last entry of the log at that moment, and its time."""

    asked: Filter
    entry: str
    now: str


class Following(Reading):
    """The part of the engine that tells what has changed."""

    async def changes(self, query: Query[T], since: object) -> Changes[T]:
        """Return how items or payloads differ from what they were at an earlier call, as the log of changes tells."""
        wanted = query.wanted
        asked, now = wanted.timeless()
        before = (
            since if isinstance(since, _Seen) and since.asked == asked and since.now <= now else _Seen(asked, "", now)
        )
        writes = "0" if self._opened().access == "read" else "1"
        entry, known, *changed = await self.run(CHANGED, [before.entry, before.now, now, writes])
        state = _Seen(asked, entry.decode(), now) if entry else None
        ranges = _merged(changed)
        if known == b"all" or sum([last - first + 1 for first, last in ranges]) > MOST_CHANGED:
            ordered = self._ordered(wanted, "live", "added", "oldest", EVERYTHING)
            return Changes(state, _numbered([row async for row in ordered], query), None)
        gone = list(chain.from_iterable(range(first, last + 1) for first, last in ranges))
        return Changes(state, _numbered(await self._in_ranges(wanted, ranges), query), gone)

    async def _in_ranges(self, wanted: Filter, ranges: list[Range]) -> list[StoredItem]:
        """Return the items of these numbers that match."""
        asked, incomplete = script_filter(wanted, content=False)
        found: list[StoredItem] = []
        while ranges:
            page, ranges = ranges[:PAGE], ranges[PAGE:]
            position, number, *rows = await self.run(NUMBERED, [json_text(asked), PAGE, *chain.from_iterable(page)])
            if number:
                place = int(position) // 2
                ranges = [(int(number), page[place][1]), *page[place + 1 :], *ranges]
            stored = readable(partial(read_stored, types=self.item_types), rows)
            found += [row for row in stored if not incomplete or wanted.matches(row.item)]
        return found


def _merged(texts: Iterable[bytes]) -> list[Range]:
    """Return the ranges that entries of the log name, in order, without overlap."""
    numbers = [int(number) for text in texts for number in text.split()]
    ranges: list[Range] = []
    for first, last in sorted(zip(numbers[::2], numbers[1::2], strict=True)):
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], max(last, ranges[-1][1])
        else:
            ranges.append((first, last))
    return ranges


def _numbered(rows: Iterable[StoredItem], query: Query[T]) -> dict[int, T]:
    """Return what a query asks for of these items, by their numbers."""
    found: dict[int, Any] = {int(row.number): row.item for row in rows}
    if query.form == "payloads":
        found = {number: Payload.of(item) for number, item in found.items()}
    return found
