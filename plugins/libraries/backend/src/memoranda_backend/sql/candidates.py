"""The candidates of a ranking in a scope that is too large to be ranked as a whole.

Of such a scope these are ranked, each with the turns around it:

* the items with the rarest terms of the query, by the sum of the rarities, and the newest among equals; very common
  terms find none where there are rarer ones;
* the newest of every day or month that the query names;
* for a term that no content has: those that have the beginning of the term;
* where meaning counts, the nearest by their vectors.

:func:`gather` decides, and does no input or output: it yields small questions about the scope, and is sent the answers
of an engine, which has its own names for the items. :func:`gathered` asks an engine that answers at once,
:func:`gathered_async` one that is waited for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from math import log
from typing import Any, NamedTuple, TypeAlias, TypeVar

from memoranda_backend.ranking.dates import query_dates
from memoranda_backend.ranking.passages import Passage, Weights
from memoranda_backend.ranking.trigrams import trigrams_of
from memoranda_backend.text.terms import fold_words, query_language, query_words

WHOLE_SCOPE = 200_000
"""A scope of up to this many items is ranked as a whole. Beyond it, how many more there are makes no difference."""

MOST_HITS = 300
"""How many items with terms of the query are ranked with their neighbours, where not more are asked for."""

NEWEST_FOUND = 100
"""How many are taken of each day, month or beginning of a word: the newest."""

NEAREST = 150
"""How many of the most similar items are ranked beside those that share a word."""

_COMMON = 5_000
"""A term that more items have counts in a ranking, but finds none by itself where the query has a rarer one."""

_SHORTEST_BEGINNING = 4
_BEGINNING = 0.7
_SAME = 1e-9  # A sum depends on the order of adding.

KeyT = TypeVar("KeyT")


class Sought(NamedTuple):
    """A term of the query: a stem, and the words of the query that have it.

    An item has the term if an index has the stem for it, or one of the words: its language may have been taken for
    another than that of the query, so that its words were stemmed otherwise.
    """

    stem: str
    words: tuple[str, ...]

    @property
    def forms(self) -> tuple[str, ...]:
        """What an index is asked for, of which any will do."""
        return tuple(dict.fromkeys((self.stem, *self.words)))


class Frequencies(NamedTuple):
    """How many items of the scope have each term? A mapping."""

    terms: tuple[Sought, ...]


class Best(NamedTuple):
    """Which items have the rarest terms? The first by the sum of their rarities; ties put the newest first.

    Sums that differ by a thousand-millionth are equal. With ``matching``, only items that match every filter count, and
    not all of the scope.
    """

    rarities: Mapping[Sought, float]
    most: int
    matching: bool


class OnDay(NamedTuple):
    """Which items were created on a day (``2023-05-08``) or in a month (``2023-05``)? The newest."""

    day: str
    most: int


class WithLetters(NamedTuple):
    """Which items have these letters in their content, or in a term of it? The newest; letters are case-folded."""

    letters: str
    most: int


class Nearest(NamedTuple):
    """Which items are nearest in meaning to the query? The nearest."""

    most: int


class Around(NamedTuple):
    """What was said around these items? For each, the passages of so many turns before and after, it in the middle.

    Windows may be joined, and an item that is gone by now has none.
    """

    keys: Sequence[Any]
    turns: int


Question: TypeAlias = Frequencies | Best | OnDay | WithLetters | Nearest | Around


class Candidates(NamedTuple):
    """What is to be ranked: windows of consecutive turns, the size of the scope, and how common the terms are in it."""

    windows: list[list[Passage]]
    total: int
    frequencies: Mapping[str, int]


Gathering: TypeAlias = Generator[Question, Any, Candidates]


def gather(query: str, weights: Weights, limit: int, *, filtered: bool, meaning: bool = False) -> Gathering:
    """Find what is to be ranked for the best ``limit`` items.

    ``filtered`` says that not all items of the scope match what is searched for: those that do not are neighbours of
    others, but must not take the place of any that do. ``meaning`` says that vectors count.
    """
    total = WHOLE_SCOPE
    most = max(MOST_HITS, limit)
    terms = tuple(Sought(*each) for each in query_words(query, query_language(query)).items())
    frequencies = yield Frequencies(terms)
    found = [term for term in terms if frequencies[term]]
    told = {term: rarity(total, frequencies[term]) for term in _telling(found, frequencies)}
    hits = list((yield Best(told, most, matching=False)) if told else ())
    if filtered and len(hits) == most:
        hits += yield Best(told, most, matching=True)
    for day in query_dates(query):
        hits += yield OnDay(day, NEWEST_FOUND)
    for term in terms:
        if not frequencies[term]:
            for letters in beginnings(term.stem, query):
                hits += yield WithLetters(letters, NEWEST_FOUND)
    if meaning:
        hits += yield Nearest(NEAREST)
    windows = yield Around(list(dict.fromkeys(hits)), turns_around(weights))
    return Candidates(windows, total, {term.stem: count for term, count in frequencies.items()})


def gathered(gathering: Gathering, answer: Callable[[Question], Any]) -> Candidates:
    """Return what is gathered from an engine that answers at once."""
    try:
        question = next(gathering)
        while True:
            question = gathering.send(answer(question))
    except StopIteration as end:
        candidates: Candidates = end.value
        return candidates


async def gathered_async(gathering: Gathering, answer: Callable[[Question], Awaitable[Any]]) -> Candidates:
    """Return what is gathered from an engine whose answers are waited for."""
    try:
        question = next(gathering)
        while True:
            question = gathering.send(await answer(question))
    except StopIteration as end:
        candidates: Candidates = end.value
        return candidates


def turns_around(weights: Weights) -> int:
    """Return how many turns on each side of a hit are ranked with it.

    Those in reach count for the hit, and those in reach of these for how long they are.
    """
    return max(1, 2 * weights.reach)


def rarity(size: int, frequency: int) -> float:
    """Return how much a term tells that is in so many of the items of a scope."""
    return log(1 + (size + 0.5) / (frequency + 0.5))


def best_hits(
    having: Iterable[tuple[Iterable[KeyT], float]], most: int, newest: Callable[[list[KeyT], int], list[KeyT]]
) -> list[KeyT]:
    """Return the items with the greatest sums, as :class:`Best` asks for them.

    For each term, ``having`` gives the items that have it, and what it tells. ``newest`` returns so many of the items
    that it is given, the newest ones.
    """
    sums: dict[KeyT, float] = {}
    for keys, tells in having:
        for key in set(keys):
            sums[key] = sums.get(key, 0.0) + tells
    groups: dict[float, list[KeyT]] = {}
    for key, told in sums.items():
        groups.setdefault(told, []).append(key)
    above: list[KeyT] = []
    equal: list[KeyT] = []
    least = 0.0
    for told in sorted(groups, reverse=True):
        if told < least - _SAME or not equal:
            if len(above) + len(equal) >= most:
                break
            above, equal, least = above + equal, [], told
        equal += groups[told]
    room = most - len(above)
    return above + (newest(equal, room) if len(equal) > room else equal)


def beginnings(term: str, query: str) -> list[str]:
    """Return the letters by which other forms of a term are looked for where none has it, if it is long enough.

    They come as terms are written, and where the query has accents that terms leave out, as the query has them.
    """
    if len(term) < _SHORTEST_BEGINNING or not trigrams_of(term):
        return []
    letters = term[: max(_SHORTEST_BEGINNING, round(_BEGINNING * len(term)))]
    words = () if query.isascii() else query.casefold().split()
    written = (word[: len(letters)] for word in words if "".join(fold_words(word)).startswith(letters))
    return list(dict.fromkeys((letters, *filter(str.isalpha, written))))


def _telling(terms: Sequence[Sought], frequencies: Mapping[Sought, int]) -> Sequence[Sought]:
    """Return the terms by which items are looked for: common ones only where the query has no others."""
    return [term for term in terms if frequencies[term] <= _COMMON] or terms
