"""The orders of rows, and how two of them become one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

from memoranda.store import Order
from memoranda_redis._records import Row

PLACE: Mapping[Order, Callable[[Row], str]] = {
    "created": lambda row: row.place,
    "added": lambda row: row.number,
    "updated": lambda row: row.item.updated_at + row.number,
}
"""What rows are sorted by; it is each row's own."""


async def merged(
    left: AsyncGenerator[Row, None], right: AsyncGenerator[Row, None], place: Callable[[Row], str]
) -> AsyncGenerator[Row, None]:
    """Yield the rows of both, which are each in order, in order; an item that changes sides meanwhile comes once."""
    ends = [await anext(left, None), await anext(right, None)]
    last = ""
    while ends[0] is not None or ends[1] is not None:
        take = 0 if ends[1] is None or (ends[0] is not None and place(ends[0]) <= place(ends[1])) else 1
        row = ends[take]
        assert row is not None
        if place(row) != last:
            yield row
        last = place(row)
        ends[take] = await anext((left, right)[take], None)


def batched(parts: Sequence[bytes | int]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the parts of an answer, four at a time, as texts."""
    texts = [part.decode() if isinstance(part, bytes) else str(part) for part in parts]
    for first in range(0, len(texts), 4):
        yield texts[first], texts[first + 1], texts[first + 2], texts[first + 3]
