"""Who has something: counted from columns, without looking at any item."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memoranda.offloading import offload
from memoranda.store import Owner, namespace_key
from memoranda.store.backend import Listing
from memoranda_vector.facets import NONE, Rows
from memoranda_vector.table import Table

_COUNTING = 100
"""How many rows are counted in the time that one item takes."""


async def owners(table: Table, rows: Rows | None, listing: Listing) -> list[Owner]:
    """Return the owners of the rows, in order."""
    rows = table.listed(rows)
    facet = table.facets[listing.by]
    names = facet.coded_values()
    groups = await offload(len(rows) // _COUNTING, _groups, facet.codes[rows], table.times[rows])
    found = [Owner(names[code], count, _text(first), _text(last)) for code, count, first, last in groups]
    return list(listing.shown(sorted(found, key=_key)))


def _groups(codes: Rows, times: NDArray[np.int64]) -> list[tuple[int, int, int, int]]:
    """Return the codes that there are, each with how often, and its first and its last time."""
    held = codes != NONE
    codes, times = codes[held], times[held]
    if not len(codes):
        return []
    order = np.lexsort((times, codes))
    codes, times = codes[order], times[order]
    starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    ends = np.append(starts[1:], len(codes))
    columns = (codes[starts], ends - starts, times[starts], times[ends - 1])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _key(owner: Owner) -> str:
    return owner.value if isinstance(owner.value, str) else namespace_key(owner.value)


def _text(time: int) -> str:
    """Return a time as items carry it."""
    return f"{np.datetime64(time, 'us')}+00:00"
