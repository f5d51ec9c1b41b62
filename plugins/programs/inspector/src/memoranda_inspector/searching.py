"""A search with the parts of each score, also with other weights or another embedder."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, cast

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.opening import open as open_store
from memoranda.plugins import Backend, EmbeddingsSpec, default_registry
from memoranda.store import Capability, RankedItem, SearchMode, Store
from memoranda.store.records import copying_records
from memoranda_backend.ranking import (
    Passage,
    Weights,
    are_apart,
    conversation_key,
    date_terms,
    index_words,
    passage_of,
    query_date_terms,
    query_language,
    query_terms,
    rank_hybrid,
)
from memoranda_backend.text.stemming import stemmer_of
from memoranda_commands.terminal import visible

COPIED = 5_000
"""How many of an owner's newest items are copied."""

_IN_MEMORY = {"vector": "vector://", "sqlite": "sqlite:///:memory:"}


def installed_embedders(store: Store) -> list[str]:
    """Return the names of the embedders that a copy can use; none if the store finds items by meaning itself."""
    if Capability.SEMANTIC in store.capabilities or not _url():
        return []
    return sorted(spec.name for spec in default_registry().specs(EmbeddingsSpec))


def _url() -> str:
    """Return the URL of an installed store in memory that takes an embedder; empty if there is none."""
    installed = {spec.name for spec in default_registry().specs(Backend)}
    return next((url for name, url in _IN_MEMORY.items() if name in installed), "")


class EmbeddedCopy:
    """Keeps the last copy, until another one is needed or the items have changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._opened = AsyncExitStack()
        self._copy: Store | None = None
        self._made_of: object = None

    @asynccontextmanager
    async def of(self, metadata: MemoryMetadata | None, embedder: str) -> AsyncIterator[Store]:
        async with self._lock:
            items = await self._store.search(metadata=metadata, limit=COPIED, order="added", mode="substring")
            made_of = embedder, [(item.id, item.version) for item in items]
            if self._copy is None or self._made_of != made_of:
                self._copy = None
                await self._opened.aclose()
                copy = await self._opened.enter_async_context(open_store(_url(), embeddings=embedder))
                with copying_records(copy):
                    await copy.add_many(items[::-1])
                self._copy, self._made_of = copy, made_of
            yield self._copy


LIMIT = 20
REACH = 5_000
"""How many of an owner's newest items are ranked again with other weights, and looked through for neighbours."""

SNIPPET = 500
MOVABLE = (
    "before",
    "after",
    "answer",
    "speaker",
    "date",
    "semantic",
    "asked_speaker",
    "session",
    "topic",
    "time",
    "statement",
)
"""The weights that the page can move."""

_WORD = re.compile(r"\w+")
_LABELS = {"text": "words", "semantic": "meaning", "speaker": "speaker", "session": "session"}


@dataclass(frozen=True, slots=True)
class Result:
    """An item that was found: its score, the parts of it, its text in pieces, and how far other weights moved it."""

    item: MemoryItem
    score: float | None
    parts: list[tuple[str, float]]
    pieces: list[tuple[str, bool]]
    moved: int | None = None
    meaning: float = 0.0


def modes_of(store: Store) -> list[str]:
    """Return the modes that a store can be searched in."""
    ranked = (Capability.HYBRID, Capability.TEXT, Capability.SEMANTIC)
    return [*(mode.value for mode in ranked if mode in store.capabilities), "substring"]


def modes_with(embedders: Sequence[str]) -> list[str]:
    """Return the modes of a copy with each of these embedders, such as ``hybrid with static``."""
    return [f"{mode} with {name}" for name in embedders for mode in ("hybrid", "semantic")]


async def search(
    store: Store, metadata: MemoryMetadata | None, query: str, mode: str, weights: Weights
) -> list[Result]:
    """Return what a store finds, best first. Other weights than its own rank the newest items of the owner again."""
    if not query.strip():
        return []
    if mode not in modes_of(store):
        raise InputError(f"This store has the modes {', '.join(modes_of(store))}.", field="mode")
    if mode == "substring":
        found = await store.search(query=query, metadata=metadata, limit=LIMIT, mode="substring")
        return [Result(item, None, [], _around(item.content, _substring(item.content, query))) for item in found]
    chosen = cast(SearchMode, mode)
    ranked = await store.search_ranked(query=query, metadata=metadata, limit=LIMIT, mode=chosen)
    # A ranking looks at what searches show, in the order of time.
    scope = (await store.search(metadata=metadata, limit=REACH, mode="substring"))[::-1]
    windows = _windows(scope)
    before = {found.item.id: place for place, found in enumerate(ranked)}
    moved = weights != Weights() and mode != "semantic"
    if moved:
        ranked = await _ranked_again(store, metadata, query, chosen, weights, scope, windows)
    splitter = _ScoreParts(query, windows, weights)
    return [
        Result(
            found.item,
            found.score,
            splitter.parts(found),
            _around(found.item.content, _words(found.item.content, found.terms, query)),
            before.get(found.item.id, LIMIT) - place if moved else None,
            found.meaning if mode == "hybrid" else 0.0,
        )
        for place, found in enumerate(ranked)
    ]


def weights_of(form: Mapping[str, Any]) -> Weights:
    """Return the weights of a form; what it does not name is as usual."""
    known = {field.name for field in fields(Weights)}
    return replace(Weights(), **{name: value for name, value in form.items() if name in known})


async def _ranked_again(
    store: Store,
    metadata: MemoryMetadata | None,
    query: str,
    mode: SearchMode,
    weights: Weights,
    scope: Sequence[MemoryItem],
    windows: Sequence[Sequence[Passage]],
) -> list[RankedItem]:
    near: dict[str, float] = {}
    if mode == "hybrid" and Capability.SEMANTIC in store.capabilities:
        alike = await store.search_ranked(query=query, metadata=metadata, limit=200, mode="semantic")
        near = {found.item.id: found.score for found in alike}
    by_id = {item.id: item for item in scope}
    scored = rank_hybrid(query, windows, near, total=len(scope), weights=weights, limit=LIMIT)
    return [
        RankedItem(by_id[found.key], found.score, found.parts, found.terms, meaning=found.share) for found in scored
    ]


def _windows(scope: Sequence[MemoryItem]) -> list[list[Passage]]:
    """Return each conversation's passages, oldest first, of items given so."""
    conversations: dict[tuple[str | None, str | None, str | None], list[Passage]] = {}
    for item in scope:
        conversations.setdefault(conversation_key(item), []).append(passage_of(item))
    return list(conversations.values())


class _ScoreParts:
    """Splits scores into parts.

    The text score of a ranking counts the words of the item and of its neighbours, its speaker's name and its date. It
    is divided in proportion to how many matches came from each.
    """

    def __init__(self, query: str, windows: Sequence[Sequence[Passage]], weights: Weights) -> None:
        self._stem = stemmer_of(query_language(query))
        self._terms = frozenset(query_terms(query))
        self._dates = query_date_terms(query) & self._terms
        self._weights = weights
        self._places = {passage.key: (window, at) for window in windows for at, passage in enumerate(window)}

    def parts(self, found: RankedItem) -> list[tuple[str, float]]:
        """Return the named parts of a score, in the order in which they are shown."""
        parts = dict(found.parts)
        named: dict[str, float] = dict.fromkeys(("words", "neighbours", "meaning", "speaker", "date", "session"), 0.0)
        text = parts.pop("text", 0.0)
        shares = self._shares(found.item.id)
        whole = sum(shares.values())
        for name, share in shares.items():
            named[name] += text * share / whole if whole else 0.0
        if not whole:
            named["words"] += text
        for name, value in parts.items():
            label = _LABELS.get(name, name)
            named[label] = named.get(label, 0.0) + value
        return [(name, value) for name, value in named.items() if value]

    def _shares(self, key: str) -> dict[str, float]:
        if key not in self._places:
            return {}
        window, at = self._places[key]
        own, weights = window[at], self._weights
        around = 0.0
        for distance in range(1, weights.reach + 1):
            faded = weights.fading ** (distance - 1)
            for place, weight in ((at - distance, weights.before), (at + distance, weights.after)):
                if 0 <= place < len(window) and _is_one_sitting(window[min(place, at) : max(place, at) + 1]):
                    asked = 1 + weights.answer if place == at - 1 and "?" in window[place].text else 1.0
                    around += asked * weight * faded * self._occurrences(window[place].text)
        return {
            "words": self._occurrences(own.text),
            "neighbours": around,
            "speaker": weights.speaker * self._occurrences(own.speaker),
            "date": weights.date * len(self._dates.intersection(date_terms(own.date))),
        }

    def _occurrences(self, text: str) -> float:
        return float(sum(self._stem(word) in self._terms for word in index_words(text)))


def _is_one_sitting(passages: Sequence[Passage]) -> bool:
    return not any(are_apart(one, following) for one, following in pairwise(passages))


def _words(content: str, terms: Sequence[str], query: str) -> Iterator[tuple[int, int]]:
    wanted, stem = frozenset(terms), stemmer_of(query_language(query))
    for word in _WORD.finditer(content):
        if not wanted.isdisjoint(map(stem, index_words(word[0]))):
            yield word.span()


def _substring(content: str, query: str) -> Iterator[tuple[int, int]]:
    # Folding may change lengths; a match that is not in the text as it is stays unmarked.
    for found in re.finditer(re.escape(query), content, re.IGNORECASE):
        yield found.span()


def _around(content: str, spans: Iterator[tuple[int, int]]) -> list[tuple[str, bool]]:
    """Return a text in pieces, marked or not: its beginning, or the part around the first mark."""
    first = next(spans, None)
    start = 0 if first is None or first[0] < SNIPPET // 2 else first[0] - SNIPPET // 4
    end = min(start + SNIPPET, len(content))
    pieces: list[tuple[str, bool]] = [("…", False)] if start else []
    at = start
    while first is not None and first[0] < end:
        pieces += [(visible(content[at : first[0]]), False), (visible(content[first[0] : min(first[1], end)]), True)]
        at = min(first[1], end)
        first = next(spans, None)
    pieces.append((visible(content[at:end]) + ("…" if end < len(content) else ""), False))
    return [piece for piece in pieces if piece[0]]
