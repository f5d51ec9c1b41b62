"""Windows of conversations: what an engine reads around the items that may answer a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from memoranda_backend.ranking.passages import Passage


def joined(windows: Iterable[Sequence[Passage]]) -> list[Sequence[Passage]]:
    """Return the windows with those that share passages made into one, each passage once, the earliest first."""
    windows = list(windows)
    times = Counter([passage.key for window in windows for passage in window])
    shared = {key for key, count in times.items() if count > 1}
    runs: list[Sequence[Passage]] = []
    sharing: list[Sequence[Passage]] = []
    for window in windows:
        (runs if shared.isdisjoint([passage.key for passage in window]) else sharing).append(window)
    passages = {passage.key: passage for window in sharing for passage in window}
    following: dict[str, str] = {}
    preceded: set[str] = set()
    for window in sharing:
        for left, right in pairwise(window):
            if left.key not in following and right.key not in preceded:
                following[left.key] = right.key
                preceded.add(right.key)
    for first in sorted(passages, key=preceded.__contains__):
        run = []
        key: str | None = first
        # Taking each passage out ends the walk even where windows contradict each other and lead in a circle.
        while key is not None and (passage := passages.pop(key, None)) is not None:
            run.append(passage)
            key = following.get(key)
        if run:
            runs.append(run)
    return sorted(filter(None, runs), key=lambda run: (run[0].date, run[0].key))
