"""Questions made from a store's own words, without a model: a proxy for what people would ask."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda_backend.ranking import conversation_key, query_language, query_words
from memoranda_cli.evaluation.questions import EvalQuestion

PROXY = (
    "A proxy, made without a model: each question is an item with its rarest words removed, and words of the turns "
    "around it added. It flatters word search, since it never says a thing in other words."
)
"""What a file of made questions and the command say of it."""

FEWEST_WORDS = 5
"""An item with fewer words that say something cannot be asked for."""

REMOVED = 1 / 3
"""The share of an item's words that its question never has: the rarest, which would give it away."""

KEPT, DRAWN_FROM = 3, 6
"""How many words of the item its question has, and from how many of the rarest left they are drawn."""


async def make_questions(
    store: Store, count: int = 50, *, metadata: MemoryMetadata | None = None, seed: int = 0
) -> list[EvalQuestion]:
    """Return up to ``count`` questions about items of people and models, in their order; the same for the same seed.

    Each question is searched in what ``metadata`` names, within the user of its item. Items that ask something
    themselves, say very little, or say the same as another are left out. Raises InputError if no item is left.
    """
    wanted = [
        item async for item in store.scan(metadata=metadata, archived=None) if item.memory_type in ("human", "ai")
    ]
    items = sorted(wanted, key=lambda item: (item.created_at, item.id))
    words = {item.id: content_words(item.content) for item in items}
    frequencies: dict[str | None, Counter[str]] = defaultdict(Counter)
    for item in items:
        frequencies[item.metadata.user_id].update(words[item.id].keys())
    said = Counter(item.content for item in items)
    suited = [
        item
        for item in items
        if len(words[item.id]) >= FEWEST_WORDS
        and said[item.content] == 1
        and not item.content.rstrip().endswith(("?", "？"))
    ]
    if not suited:
        raise InputError(
            f"None of the {len(items):,} items is suited: a question needs an item that is no question itself and has "
            f"at least {FEWEST_WORDS} words that say something.",
            field="metadata",
        )
    drawn = random.Random(seed)
    chosen = sorted(drawn.sample(range(len(suited)), min(count, len(suited))))
    around = _neighbours(items)
    made = []
    for position in chosen:
        item = suited[position]
        near = [words[other] for other in around[item.id]]
        text = _question(item, words[item.id], near, frequencies[item.metadata.user_id], drawn)
        made.append(EvalQuestion(text, (item.id,), metadata=_scope(item, metadata)))
    return made


def content_words(text: str) -> dict[str, str]:
    """Return the words of a text that say something by their terms, in their order; stopwords are left out."""
    return {term: words[0] for term, words in query_words(text, query_language(text)).items()}


def _neighbours(items: Iterable[MemoryItem]) -> dict[str, list[str]]:
    conversations: dict[object, list[MemoryItem]] = defaultdict(list)
    for item in items:
        conversations[conversation_key(item)].append(item)
    found: dict[str, list[str]] = defaultdict(list)
    for turns in conversations.values():
        for before, after in pairwise(turns):
            found[before.id].append(after.id)
            found[after.id].append(before.id)
    return found


def _question(
    item: MemoryItem,
    own: dict[str, str],
    near: Sequence[dict[str, str]],
    frequency: Counter[str],
    drawn: random.Random,
) -> str:
    rarest_first = sorted(own, key=lambda term: (frequency[term], term))
    left = rarest_first[round(REMOVED * len(own)) :][:DRAWN_FROM]
    kept = set(drawn.sample(left, KEPT))
    asked = [own[term] for term in own if term in kept]
    for words in near:
        others = sorted(term for term in words if term not in own)
        if others:
            asked.append(words[drawn.choice(others)])
    return " ".join([item.name, *asked] if item.name else asked)


def _scope(item: MemoryItem, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
    """Return where a question about an item is asked: in what was named, and there among what its user said."""
    user_id = item.metadata.user_id
    if user_id is None:
        return metadata
    return (metadata or MemoryMetadata()).model_copy(update={"user_id": user_id})
