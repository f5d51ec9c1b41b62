"""What is found where one person has very many memories: ``retrieval.py --items 100000``.

All conversations lie in one scope, and so do other lives: copies of the conversations at other times, in which half of
the rarer words are exchanged for others and the same people speak. Little but what was said around it tells whose life
a turn belongs to.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, count, islice
from typing import Any

from memoranda import MemoryItem, MemoryMetadata

OWNER = "everyone"
_WORD = re.compile(r"[A-Za-z]{4,}")
_WORDS = re.compile(rf"{_WORD.pattern}|.", re.DOTALL)
_USUAL = 60
"""A word that occurs more often keeps its place: without it, a sentence would be none."""


def crowded(conversations: Sequence[Sequence[MemoryItem]], items: int) -> list[MemoryItem]:
    """Return as many items of one owner: those of the conversations, and other lives."""
    own = [_moved(item, item.metadata.session_id) for item in chain.from_iterable(conversations)]
    return [*own, *islice(_other_lives(own, conversations), max(0, items - len(own)))]


def _moved(item: MemoryItem, session: str | None, **changed: Any) -> MemoryItem:
    return item.model_copy(update={"metadata": MemoryMetadata(user_id=OWNER, session_id=session), **changed})


def _other_lives(own: Sequence[MemoryItem], conversations: Sequence[Sequence[MemoryItem]]) -> Iterator[MemoryItem]:
    chance = random.Random(7)
    times = Counter(chain.from_iterable(_WORD.findall(item.content) for item in own))
    rare = [word for word, often in times.items() if often <= _USUAL]
    people = sorted({item.name for item in own if item.name})
    for life in count(1):
        for conversation in conversations:
            others = dict(zip(people, chance.sample(people, len(people)), strict=True))
            exchanged = {word: chance.choice(rare) for word in rare if chance.random() < 0.5}
            later = timedelta(days=chance.randint(-900, 900))
            for item in conversation:
                words = [exchanged.get(word, word) for word in _WORDS.findall(item.content)]
                yield _moved(
                    item,
                    f"{item.metadata.session_id}-{life}",
                    id=f"{item.id}-{life}",
                    name=others.get(item.name or "", item.name),
                    content="".join(words),
                    created_at=(datetime.fromisoformat(item.created_at) + later).isoformat(),
                )
