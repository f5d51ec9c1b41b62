"""BM25 with what a conversation adds: the neighbouring turns, who speaks, and when.

The words of the neighbouring turns count as further, lighter occurrences in the turn itself: an answer rarely repeats
the words of its question. Only passages that share a term with the query, and their neighbours, need to be given: every
occurrence that counts is then among them, and document frequencies can be counted from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, islice, pairwise
from math import fsum, log
from operator import attrgetter, mul

from recollect.ranking.dates import date_terms, query_date_terms
from recollect.ranking.passages import Passage, Scored, Weights
from recollect.ranking.stemming import stem
from recollect.ranking.words import MONTHS, fold_words, index_terms, query_terms

_TIME_WORDS = """
yesterday today tonight tomorrow ago last next week weekend month year morning evening night recently since soon lately
earlier monday tuesday wednesday thursday friday saturday sunday
"""
_TIME_TERMS = frozenset(map(stem, (*_TIME_WORDS.split(), *MONTHS))) - {stem("may")}
_ASKING_FOR_TIME = frozenset({"when", "date"})
_QUESTION_MARKS = ("?", "？", "؟")

_Counts = dict[int, float]
"""How often a term occurs, by the place of the passage; places where it does not occur are left out."""
_Parts = dict[str, float]
"""What a score is made of, by name."""


def rank_text(
    query: str,
    windows: Iterable[Sequence[Passage]],
    *,
    total: int | None = None,
    frequencies: Mapping[str, int] | None = None,
    weights: Weights | None = None,
    wanted: Callable[[str], bool] | None = None,
    limit: int | None = None,
) -> list[Scored]:
    """Return the passages that have to do with the query, best first; of equal score, the newest first.

    Each window holds consecutive turns of one conversation, oldest first: a whole conversation, or a turn that shares a
    term with the query together with the turns around it (two on each side are enough). Windows that overlap are
    joined, and their order does not matter. ``total`` is the number of items in the scope from which the windows were
    taken. ``frequencies`` says in how many of them each term occurs; give it where not all of these are in the windows.
    Passages without any term of the query in reach are left out; a query without terms finds nothing. At most ``limit``
    are returned, of those whose key passes ``wanted``; all count as neighbours of each other.
    """
    return rank_hybrid(
        query, windows, {}, total=total, frequencies=frequencies, weights=weights, wanted=wanted, limit=limit
    )


def rank_hybrid(
    query: str,
    windows: Iterable[Sequence[Passage]],
    similarities: Mapping[str, float],
    *,
    total: int | None = None,
    frequencies: Mapping[str, int] | None = None,
    weights: Weights | None = None,
    wanted: Callable[[str], bool] | None = None,
    limit: int | None = None,
) -> list[Scored]:
    """Rank as :func:`rank_text` does, with words and meaning together.

    ``similarities`` are cosines by key; a passage without one, or with a negative one, counts as unlike the query. The
    windows hold the most similar passages too, alone or with their neighbours. Words and meaning are each taken
    relative to their best and added in the proportion ``weights.semantic``; the bonuses come on top.
    """
    weights = weights or Weights()
    row = _Row(joined(windows))
    if not row.passages:
        return []
    terms = query_terms(query)
    own = row.occurrences(terms)
    counts = [row.with_neighbours(found, weights) for found in own]
    named = row.add_speakers(counts, terms, weights)
    row.add_dates(counts, terms, query_date_terms(query), weights)
    known = frequencies or {}
    rarities = _rarities(
        [max(len(found), known.get(term, 0)) for term, found in zip(terms, counts, strict=True)],
        max(total or 0, len(row.passages)),
    )
    texts = _bm25(counts, rarities, row.lengths_with_neighbours(weights), weights)
    near = {
        place: similarities[passage.key]
        for place, passage in enumerate(row.passages)
        if similarities.get(passage.key, 0.0) > 0
    }
    asks_time = not _ASKING_FOR_TIME.isdisjoint(fold_words(query))
    scoring = _Scoring(row, _relevances(texts, near, weights), named, asks_time, weights)
    ranked = ((row.passages[place].key, score, place, parts) for score, place, parts in scoring.best_first())
    chosen = (entry for entry in ranked if wanted is None or wanted(entry[0]))
    return [
        Scored(key, score, parts, _found_at(place, terms, own)) for key, score, place, parts in islice(chosen, limit)
    ]


def joined(windows: Iterable[Sequence[Passage]]) -> list[list[Passage]]:
    """Return the windows with those that share passages made into one, each passage once."""
    passages: dict[str, Passage] = {}
    following: dict[str, str] = {}
    preceded: set[str] = set()
    for window in windows:
        passages.update((passage.key, passage) for passage in window)
        for left, right in pairwise(window):
            if left.key not in following and right.key not in preceded:
                following[left.key] = right.key
                preceded.add(right.key)
    runs = []
    for first in sorted(passages, key=preceded.__contains__):
        run = []
        key: str | None = first
        # Taking each passage out ends the walk even where windows contradict each other and lead in a circle.
        while key is not None and (passage := passages.pop(key, None)) is not None:
            run.append(passage)
            key = following.get(key)
        if run:
            runs.append(run)
    return runs


class _Row:
    """All passages in one row, with the stretch of consecutive turns of the same session that each stands in."""

    def __init__(self, runs: Iterable[Sequence[Passage]]) -> None:
        self.passages: list[Passage] = []
        self.stretches: list[tuple[int, int]] = []
        for run in runs:
            for _, turns in groupby(run, key=attrgetter("session")):
                start = len(self.passages)
                self.passages.extend(turns)
                self.stretches.extend([(start, len(self.passages))] * (len(self.passages) - start))
        self.terms = [
            passage.terms if passage.terms is not None else index_terms(passage.text) for passage in self.passages
        ]

    def occurrences(self, terms: Sequence[str]) -> list[_Counts]:
        """Return, for each term, how often it occurs in the passages themselves."""
        found: dict[str, _Counts] = {term: {} for term in terms}
        wanted = frozenset(terms)
        for place, words in enumerate(self.terms):
            if not wanted.isdisjoint(words):
                for word in words:
                    if word in wanted:
                        counts = found[word]
                        counts[place] = counts.get(place, 0.0) + 1.0
        return list(found.values())

    def with_neighbours(self, own: _Counts, weights: Weights) -> _Counts:
        """Return the counts with a share of each one added to the turns around it."""
        shares = _shares(weights)
        counts = dict(own)
        for place, count in own.items():
            start, end = self.stretches[place]
            for offset, share in shares:
                if start <= place + offset < end:
                    if offset == 1 and "?" in self.passages[place].text:
                        share *= 1 + weights.answer
                    counts[place + offset] = counts.get(place + offset, 0.0) + share * count
        return counts

    def lengths_with_neighbours(self, weights: Weights) -> list[float]:
        """Return the number of terms that each count was taken from, weighted in the same way."""
        received = {-offset: share for offset, share in _shares(weights)}
        reach = weights.reach
        kernel = [1.0 if offset == 0 else received.get(offset, 0.0) for offset in range(-reach, reach + 1)]
        lengths = list(map(len, self.terms))
        spread: list[float] = []
        for start, end in dict.fromkeys(self.stretches):
            padded = [0] * reach + lengths[start:end] + [0] * reach
            columns = zip(*(padded[skipped:] for skipped in range(len(kernel))), strict=False)
            spread.extend(sum(map(mul, kernel, column)) for column in columns)
        return spread

    def add_speakers(self, counts: Sequence[_Counts], terms: Sequence[str], weights: Weights) -> set[int]:
        """Count the speakers' names as occurrences and return the places whose speaker the query names."""
        named = set()
        found: dict[str, list[int]] = {}
        for place, passage in enumerate(self.passages):
            if passage.speaker not in found:
                words = frozenset(index_terms(passage.speaker))
                found[passage.speaker] = [number for number, term in enumerate(terms) if term in words]
            for number in found[passage.speaker]:
                named.add(place)
                if weights.speaker:
                    counts[number][place] = counts[number].get(place, 0.0) + weights.speaker
        return named

    def add_dates(
        self, counts: Sequence[_Counts], terms: Sequence[str], wanted: frozenset[str], weights: Weights
    ) -> None:
        """Count the parts of each passage's date as occurrences, where the query speaks of a date."""
        for number, term in enumerate(terms):
            if term in wanted and weights.date:
                for place, passage in enumerate(self.passages):
                    if term in date_terms(passage.date):
                        counts[number][place] = counts[number].get(place, 0.0) + weights.date


class _Scoring:
    """The relevance of each place with the bonuses that come on top."""

    def __init__(
        self, row: _Row, relevances: dict[int, _Parts], named: set[int], asks_time: bool, weights: Weights
    ) -> None:
        self._row = row
        self._relevances = relevances
        self._named = named
        self._asks_time = asks_time
        self._weights = weights
        self._best_of_session: dict[str, float] = {}
        for place, parts in relevances.items():
            session = row.passages[place].session
            self._best_of_session[session] = max(sum(parts.values()), self._best_of_session.get(session, 0.0))

    def best_first(self) -> list[tuple[float, int, _Parts]]:
        """Return scores, places and parts; of equal score the newest first, then by key, so that the order is one."""
        entries = []
        for place in self._relevances:
            parts = self._parts(place)
            entries.append((sum(parts.values()), place, parts))

        def order(entry: tuple[float, int, _Parts]) -> tuple[float, str, int, str]:
            score, place, _ = entry
            passage = self._row.passages[place]
            return score, passage.date, place - self._row.stretches[place][0], passage.key

        entries.sort(key=order, reverse=True)
        return entries

    def _parts(self, place: int) -> _Parts:
        weights, passage = self._weights, self._row.passages[place]
        parts = self._relevances[place]
        if place in self._named:
            parts["speaker"] = weights.asked_speaker
        if weights.session:
            parts["session"] = weights.session * self._best_of_session[passage.session]
        if self._asks_time and not _TIME_TERMS.isdisjoint(self._row.terms[place]):
            parts["time"] = weights.time
        if not passage.text.rstrip().endswith(_QUESTION_MARKS):
            parts["statement"] = weights.statement
        return parts


def _shares(weights: Weights) -> list[tuple[int, float]]:
    """Return how much of a turn's terms counts for the turn at each distance from it, later ones above 0."""
    shares = []
    for distance in range(1, weights.reach + 1):
        faded = weights.fading ** (distance - 1)
        shares += [(distance, weights.before * faded), (-distance, weights.after * faded)]
    return [(offset, share) for offset, share in shares if share > 0]


def _rarities(frequencies: Sequence[int], total: int) -> list[float]:
    """Return how much each term tells, from the number of passages that have it in reach."""
    return [log(1 + max(total - frequency + 0.5, 0.5) / (frequency + 0.5)) for frequency in frequencies]


def _bm25(
    counts: Sequence[_Counts], rarities: Sequence[float], lengths: Sequence[float], weights: Weights
) -> dict[int, float]:
    """Return the score of every place that has a term."""
    mean = fsum(lengths) / len(lengths) or 1.0
    k1, b = weights.saturation, weights.length
    damping = [k1 * (1 - b + b * length / mean) for length in lengths]
    scores: dict[int, float] = {}
    for found, rarity in zip(counts, rarities, strict=True):
        for place, count in found.items():
            scores[place] = scores.get(place, 0.0) + rarity * count * (k1 + 1) / (count + damping[place])
    return scores


def _relevances(texts: Mapping[int, float], near: Mapping[int, float], weights: Weights) -> dict[int, _Parts]:
    """Return how relevant each place is by its words and by its meaning; the most relevant place has 1 in all."""
    best_text, best_near = max(texts.values(), default=0.0), max(near.values(), default=0.0)
    semantic = weights.semantic if near else 0.0
    lexical = (1 - semantic) / best_text if best_text > 0 else 0.0
    relevances = {place: {"text": lexical * text} for place, text in texts.items() if lexical * text > 0}
    if semantic > 0:
        for place, similarity in near.items():
            relevances.setdefault(place, {})["semantic"] = semantic * similarity / best_near
        best = max(sum(parts.values()) for parts in relevances.values())
        for parts in relevances.values():
            for name in parts:
                parts[name] /= best
    return relevances


def _found_at(place: int, terms: Sequence[str], own: Sequence[_Counts]) -> tuple[str, ...]:
    return tuple(term for term, found in zip(terms, own, strict=True) if place in found)
