"""BM25 with what a conversation adds: the neighbouring turns, who speaks, and when.

The words of the neighbouring turns count as further, lighter occurrences in the turn itself: an answer rarely repeats
the words of its question. Only passages that share a term with the query, and their neighbours, need to be given: every
occurrence that counts is then among them, and document frequencies can be counted from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import merge
from itertools import groupby, islice, pairwise
from math import fsum, log
from operator import attrgetter

from memoranda.ranking.dates import date_terms, query_date_terms
from memoranda.ranking.passages import Passage, Scored, Weights
from memoranda.ranking.stemming import stem
from memoranda.ranking.terms import MONTHS, fold_words, index_terms, query_terms

_TIME_WORDS = """
yesterday today tonight tomorrow ago last next week weekend month year morning evening night recently since soon lately
earlier monday tuesday wednesday thursday friday saturday sunday
"""
_TIME_TERMS = frozenset(map(stem, (*_TIME_WORDS.split(), *MONTHS))) - {stem("may")}
_ASKING_FOR_TIME = frozenset({"when", "date"})
_QUESTION_MARKS = ("?", "？", "؟")

_SORTED_AT_ONCE = 5_000

_Entry = tuple[float, str, int, str, int]
"""Score, date, turn, key and place of a passage."""

_Counts = dict[int, float]
"""How often a term occurs, by the place of the passage; places where it does not occur are left out."""


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
    Passages without any term of the query in reach are left out, and so are empty ones; a query without terms finds
    nothing. At most ``limit`` are returned, of those whose key passes ``wanted``; all count as each other's neighbours.
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
        [
            _in_reach(len(found), len(itself), known.get(term, 0))
            for term, found, itself in zip(terms, counts, own, strict=True)
        ],
        max(total or 0, len(row.passages)),
    )
    texts = _bm25(counts, rarities, row.lengths_with_neighbours(weights), weights)
    near = {
        place: similarities[passage.key]
        for place, passage in enumerate(row.passages)
        if similarities.get(passage.key, 0.0) > 0
    }
    semantic = weights.semantic if near else 0.0
    asks_time = not _ASKING_FOR_TIME.isdisjoint(fold_words(query))
    bonuses = {
        "speaker": (named, weights.asked_speaker),
        "time": (row.telling_time() if asks_time else set(), weights.time),
        "statement": (row.stating(), weights.statement),
    }
    scoring = _Scoring(
        row, _in_proportion(texts, 1 - semantic), _in_proportion(near, semantic), bonuses, weights.session
    )
    ranked = ((key, score, place) for score, _, _, key, place in scoring.best_first())
    # What says nothing answers nothing, whatever was said around it: a turn that only calls tools, say.
    speaking = (entry for entry in ranked if row.passages[entry[2]].terms or row.passages[entry[2]].text.strip())
    chosen = (entry for entry in speaking if wanted is None or wanted(entry[0]))
    return [
        Scored(key, score, scoring.parts(place), _found_at(place, terms, own))
        for key, score, place in islice(chosen, limit)
    ]


def joined(windows: Iterable[Sequence[Passage]]) -> Sequence[Sequence[Passage]]:
    """Return the windows with those that share passages made into one, each passage once."""
    windows = list(windows)
    passages = {passage.key: passage for window in windows for passage in window}
    if len(passages) == sum(map(len, windows)):
        return windows
    following: dict[str, str] = {}
    preceded: set[str] = set()
    for window in windows:
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
        reach = weights.reach
        lengths = list(map(len, self.terms))
        stretches = list(dict.fromkeys(self.stretches))
        # All stretches in one list, far enough from each other, so that a few passes over it do for all of them.
        spaced: list[float] = [0.0] * reach
        for start, end in stretches:
            spaced += lengths[start:end]
            spaced += [0.0] * reach
        spread = spaced[reach : len(spaced) - reach]
        for offset, share in _shares(weights):
            moved = spaced[reach - offset : len(spaced) - reach - offset]
            spread = [length + share * near for length, near in zip(spread, moved, strict=True)]
        together: list[float] = []
        place = 0
        for start, end in stretches:
            together += spread[place : place + end - start]
            place += end - start + reach
        return together

    def telling_time(self) -> set[int]:
        """Return the places whose passage mentions a time."""
        return {place for place, terms in enumerate(self.terms) if not _TIME_TERMS.isdisjoint(terms)}

    def stating(self) -> set[int]:
        """Return the places whose passage does not end in a question."""
        return {
            place for place, passage in enumerate(self.passages) if not passage.text.rstrip().endswith(_QUESTION_MARKS)
        }

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
    """The relevance of each place by its words and its meaning, with the bonuses that come on top."""

    def __init__(
        self,
        row: _Row,
        texts: Mapping[int, float],
        near: Mapping[int, float],
        bonuses: Mapping[str, tuple[set[int], float]],
        session: float,
    ) -> None:
        self._row = row
        self._bonuses = bonuses
        self._session = session
        self._texts, self._near = _relative(texts, near)
        self._relevances = dict(self._texts)
        for place, similarity in self._near.items():
            self._relevances[place] = self._relevances.get(place, 0.0) + similarity
        self._best_of_session: dict[str, float] = {}
        for place, relevance in self._relevances.items():
            name = row.passages[place].session
            if relevance > self._best_of_session.get(name, 0.0):
                self._best_of_session[name] = relevance

    def best_first(self) -> Iterable[_Entry]:
        """Yield score, date, turn, key and place of every passage that has to do with the query.

        They come in just this order: by score, then the newest, then by key, so that there is one order for all.
        """
        passages, stretches = self._row.passages, self._row.stretches
        bonuses = [bonus for bonus in self._bonuses.values() if bonus[1]]
        entries = []
        for place, relevance in self._relevances.items():
            passage = passages[place]
            score = relevance + self._session * self._best_of_session[passage.session]
            for places, bonus in bonuses:
                if place in places:
                    score += bonus
            entries.append((score, passage.date, place - stretches[place][0], passage.key, place))
        return _best_first(entries)

    def parts(self, place: int) -> dict[str, float]:
        """Return what the score of a place is made of."""
        parts = {
            name: scores[place] for name, scores in (("text", self._texts), ("semantic", self._near)) if place in scores
        }
        parts["session"] = self._session * self._best_of_session[self._row.passages[place].session]
        parts.update((name, bonus) for name, (places, bonus) in self._bonuses.items() if place in places)
        return parts


def _best_first(entries: list[_Entry]) -> Iterable[_Entry]:
    """Return the entries in descending order.

    A long list is sorted in parts, since a thread that sorts gives way to nobody, and joined as far as it is read.
    """
    if len(entries) <= _SORTED_AT_ONCE:
        return sorted(entries, reverse=True)
    parts = range(0, len(entries), _SORTED_AT_ONCE)
    return merge(*(sorted(entries[part : part + _SORTED_AT_ONCE], reverse=True) for part in parts), reverse=True)


def _relative(texts: Mapping[int, float], near: Mapping[int, float]) -> tuple[dict[int, float], dict[int, float]]:
    """Return both, which are in proportion to each other, relative to the most relevant place, which has 1 in all."""
    places = texts.keys() | near.keys()
    best = max((texts.get(place, 0.0) + near.get(place, 0.0) for place in places), default=0.0)
    if best <= 0:
        return {}, {}
    return (
        {place: score / best for place, score in texts.items() if score > 0},
        {place: score / best for place, score in near.items() if score > 0},
    )


def _in_proportion(scores: Mapping[int, float], proportion: float) -> dict[int, float]:
    """Return the scores with this as the best."""
    best = max(scores.values(), default=0.0)
    return {place: proportion * score / best for place, score in scores.items()} if best > 0 else {}


def _shares(weights: Weights) -> list[tuple[int, float]]:
    """Return how much of a turn's terms counts for the turn at each distance from it, later ones above 0."""
    shares = []
    for distance in range(1, weights.reach + 1):
        faded = weights.fading ** (distance - 1)
        shares += [(distance, weights.before * faded), (-distance, weights.after * faded)]
    return [(offset, share) for offset, share in shares if share > 0]


def _in_reach(found: int, occurring: int, everywhere: int) -> float:
    """Return how many passages of the scope have a term in reach.

    ``found`` of those that were given have it in reach and ``occurring`` in themselves. Where it occurs in more of the
    scope, as many more have it in reach.
    """
    return found * everywhere / occurring if everywhere > occurring > 0 else max(found, everywhere)


def _rarities(frequencies: Sequence[float], total: int) -> list[float]:
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


def _found_at(place: int, terms: Sequence[str], own: Sequence[_Counts]) -> tuple[str, ...]:
    return tuple(term for term, found in zip(terms, own, strict=True) if place in found)
