"""BM25 with what a conversation adds: the neighbouring turns, who speaks, and when.

The words of the neighbouring turns count as further, lighter occurrences in the turn itself: an answer rarely repeats
the words of its question. Only passages that share a term with the query, and their neighbours, need to be given: every
occurrence that counts is then among them, and document frequencies can be counted from them. Words that are not found,
and in languages with many forms the others too, are looked for by their letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import groupby, islice
from math import fsum, log

from memoranda.ranking.dates import query_date_terms
from memoranda.ranking.fusion import semantic_share, standing_out
from memoranda.ranking.letters import group_weights, letter_groups, sharing
from memoranda.ranking.passages import Passage, Scored, Weights
from memoranda.ranking.rows import Counts, Row, joined
from memoranda.ranking.terms import fold_words, index_terms, query_language, query_terms

_ASKING_FOR_TIME = frozenset({"when", "date"})
_ASKING = frozenset({"what", "when", "where", "who", "whom", "whose", "which", "why", "how"})

_FOUND_TERM = 0.3
"""How much the letters of a term count that is found as it is, against one that is not; in English, nothing: its stems
leave no other forms to look for."""

_LENGTH_ALONE = 0.75
"""BM25's usual b, for items by their own words."""

_SORTED_AT_ONCE = 5_000


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
    nearest: Callable[[Passage], str] | None = None,
) -> list[Scored]:
    """Rank as :func:`rank_text` does, with words and meaning together.

    ``similarities`` are cosines by key, of a long item that of its best passage, which ``nearest`` names, held back as
    :func:`held_back` does; a passage without one, or with a negative one, counts as unlike the query. The
    windows hold the most similar passages too, alone or with their neighbours. Words and meaning are each taken
    relative to their best and added in the proportion ``weights.semantic``; the bonuses come on top.
    """
    weights = weights or Weights()
    row = Row(joined(windows), weights)
    if not row.items:
        return []
    terms = query_terms(query)
    known = frequencies or {}
    own = row.occurrences({term: (term,) for term in terms}, terms)
    items = max(total or 0, len(row.items))
    passages = len(row) * items / len(row.items)
    holders = [row.items_at(own[term]) for term in terms]
    times = [_times_more(len(held), known.get(term, 0)) for term, held in zip(terms, holders, strict=True)]
    told = _rarities([len(own[term]) * more for term, more in zip(terms, times, strict=True)], passages)
    having = [len(held) * more for held, more in zip(holders, times, strict=True)]
    lending = row.lending(holders, told, having, items)
    counts = [row.with_neighbours(own[term], lending) for term in terms]
    named = row.add_speakers(counts, terms)
    called, perhaps = ("", set[int]()) if named else row.leave_out_calls(counts, own, query)
    dates = query_date_terms(query)
    row.add_dates(counts, terms, dates)
    reached = [
        max(len(found) * more, known.get(term, 0)) for term, found, more in zip(terms, counts, times, strict=True)
    ]
    missing = [term for term, frequency in zip(terms, reached, strict=True) if not frequency]
    lengths = row.lengths_with_neighbours(lending)
    words = _bm25(counts, _rarities(reached, passages), lengths, weights.saturation, weights.length)
    if weights.own and words:
        alone = _bm25(list(own.values()), told, row.lengths, weights.saturation, _LENGTH_ALONE)
        _raise(words, alone, weights.own / (weights.own + lending * (1 - weights.own)))
    letters = _by_letters(row, query, dict(zip(terms, times, strict=True)), missing, passages)
    near = {
        item: similarity
        for item, passage in enumerate(row.items if similarities else ())
        if (similarity := similarities.get(passage.key, 0.0)) > 0
    }
    said = fold_words(query)
    bonuses = {
        "speaker": (named | perhaps | row.of_asked_person(query), weights.asked_speaker),
        "time": (set() if _ASKING_FOR_TIME.isdisjoint(said) else row.telling_time(), weights.time),
        "statement": (row.stating(), weights.statement),
    }
    people = {called, *(row.items[item].speaker for item in named)}
    names = {term for name in people for term in index_terms(name)}  # They are not embedded.
    asked = {term: tells for term, tells in zip(terms, told, strict=True) if term not in names | dates}
    # Elsewhere than in English other forms of the words are found by their letters alone.
    covered = _covered(own, asked) if near and query_language(query) == "english" else 1.0
    asking = "?" in query or not _ASKING.isdisjoint(said)
    share = partial(semantic_share, weights.semantic, len(asked), covered=covered, asking=asking)
    scoring = _Scoring(row, words, letters, near, share, bonuses)
    # What says nothing answers nothing, whatever was said around it: a turn that only calls tools, say.
    speaking = (entry for entry in scoring.best_first() if row.terms[entry[2]] or row.items[entry[2]].text.strip())
    chosen = (entry for entry in speaking if wanted is None or wanted(entry[0]))
    return [
        Scored(key, score, scoring.parts(item), row.found_in(item, own), scoring.passage(item, nearest))
        for key, score, item in islice(chosen, limit)
    ]


def _covered(own: Mapping[str, Counts], asked: Mapping[str, float]) -> float:
    """Return the greatest part of what is asked for that one place has, terms by what they tell; figures tell all."""
    every = fsum(asked.values())
    values: Counts = {}
    for term, tells in asked.items():
        for place in own[term]:
            values[place] = values.get(place, 0.0) + (tells if term.isalpha() else every)
    return max(values.values(), default=0.0) / every if asked else 1.0


def _by_letters(
    row: Row, query: str, times: Mapping[str, float], missing: Sequence[str], passages: float
) -> dict[int, float]:
    """Return the score of every place that has letters of the query's terms; ``times`` are those of _times_more."""
    weights = row.weights
    found = 0.0 if query_language(query) == "english" else _FOUND_TERM
    looked_for = {term: weight for term in times if (weight := 1.0 if term in missing else found) > 0}
    if not looked_for or not weights.letters:
        return {}
    groups = group_weights(looked_for)
    forms = sharing(frozenset[str]().union(*row.terms), looked_for)
    shared = {group: counts for group, counts in row.occurrences(forms, groups).items() if counts}
    more = {group: times[term] for term in looked_for for group in letter_groups(term)}
    rarities = _rarities([len(counts) * more[group] for group, counts in shared.items()], passages)
    told = [weights.letters * groups[group] * rarity for group, rarity in zip(shared, rarities, strict=True)]
    return _bm25(list(shared.values()), told, row.lengths, weights.saturation, weights.length)


class _Scoring:
    """The relevance of each item by its words and its meaning, with the bonuses that come on top.

    Of an item with several passages the best one counts, less the more there are: many find something by chance.
    """

    def __init__(
        self,
        row: Row,
        words: Mapping[int, float],
        letters: Mapping[int, float],
        near: Mapping[int, float],
        share_of: Callable[[Iterable[float], Iterable[float]], float],
        bonuses: Mapping[str, tuple[set[int], float]],
    ) -> None:
        self._row = row
        self._bonuses = bonuses
        self._session = row.weights.session
        self._best_place: dict[int, int] = {}
        found: dict[int, float] = {}
        scores = dict(words)
        for place, score in letters.items():
            scores[place] = scores.get(place, 0.0) + score
        if not row.divided:  # Each item has its one place.
            found = {place: score for place, score in scores.items() if score > 0}
            self._best_place = dict(zip(found, found, strict=True))
            scores = {}
        for place, score in scores.items():
            item = row.item_at[place]
            if score > found.get(item, 0.0):
                found[item], self._best_place[item] = score, place
        self._texts, self._near, self._letters = found, standing_out(near, len(row.items)), {}
        if row.divided:
            self._texts = {item: score / row.parts(item) ** row.weights.damping for item, score in found.items()}
        if letters:
            self._letters = {item: letters.get(place, 0.0) / found[item] for item, place in self._best_place.items()}
        self._best_text = max(self._texts.values(), default=1.0)
        self._best_near = max(self._near.values(), default=1.0)
        self._share = share_of(self._texts.values(), self._near.values())
        self._relevances = self._relative()
        self._best_of_session: dict[str, float] = {}
        for item, relevance in self._relevances.items():
            name = row.items[item].session
            if relevance > self._best_of_session.get(name, 0.0):
                self._best_of_session[name] = relevance

    def best_first(self) -> Iterator[tuple[str, float, int]]:
        """Yield key, score and number of every item that has to do with the query.

        They come by score, then the newest first, then by key, so that there is one order for all.
        """
        row, of_session = self._row, self._best_of_session
        bonuses = [bonus for bonus in self._bonuses.values() if bonus[1]]
        scores: dict[int, float] = {}
        for item, relevance in self._relevances.items():
            score = relevance + self._session * of_session[row.items[item].session]
            for items, bonus in bonuses:
                if item in items:
                    score += bonus
            scores[item] = score
        for score, equal in groupby(_descending(scores), scores.__getitem__):
            yield from ((row.items[item].key, score, item) for item in sorted(equal, key=row.age, reverse=True))

    def _relative(self) -> dict[int, float]:
        """Return how relevant each item is by its words and its meaning, relative to the most relevant, which has 1.

        Both are taken in their proportions, each relative to its own best.
        """
        words, meaning, best_text, best_near = 1 - self._share, self._share, self._best_text, self._best_near
        relevances = {item: words * score / best_text for item, score in self._texts.items()}
        for item, similarity in self._near.items() if meaning else ():
            relevances[item] = relevances.get(item, 0.0) + meaning * similarity / best_near
        self._best = max(relevances.values(), default=0.0) or 1.0
        return {item: relevance / self._best for item, relevance in relevances.items() if relevance > 0}

    def _by_meaning(self, item: int) -> float:
        return self._share * self._near.get(item, 0.0) / self._best_near / self._best

    def parts(self, item: int) -> dict[str, float]:
        """Return what the score of an item is made of."""
        text = (1 - self._share) * self._texts.get(item, 0.0) / self._best_text / self._best
        in_letters, semantic = self._letters.get(item, 0.0), self._by_meaning(item)
        parts = {"text": text * (1 - in_letters)} if text else {}
        parts |= {"letters": text * in_letters} if text and in_letters else {}
        parts |= {"semantic": semantic} if semantic else {}
        parts["session"] = self._session * self._best_of_session[self._row.items[item].session]
        parts.update((name, bonus) for name, (items, bonus) in self._bonuses.items() if item in items)
        return parts

    def passage(self, item: int, nearest: Callable[[Passage], str] | None) -> str:
        """Return the passage by which an item was found, if it has several: by what counts more, words or meaning."""
        if nearest is not None and self._by_meaning(item) > self._relevances[item] / 2:
            return nearest(self._row.items[item])
        return self._row.passage(self._best_place[item]) if item in self._best_place else ""


def _descending(scores: Mapping[int, float]) -> Iterable[int]:
    """Return the items by their scores, the highest first.

    A long list is sorted in parts, since a thread that sorts gives way to nobody, and joined as far as it is read.
    """
    items, by_score = list(scores), scores.__getitem__
    parts = [items[start : start + _SORTED_AT_ONCE] for start in range(0, len(items), _SORTED_AT_ONCE)]
    return merge(*(sorted(part, key=by_score, reverse=True) for part in parts), key=by_score, reverse=True)


def _times_more(occurring: int, everywhere: int) -> float:
    """Return how many times more items of the scope than of those that were given have a term, in them or in reach."""
    return max(1.0, everywhere / occurring) if occurring else 1.0


def _rarities(frequencies: Sequence[float], total: float) -> list[float]:
    """Return how much each term tells, from the number of passages that have it in reach."""
    return [log(1 + max(total - frequency + 0.5, 0.5) / (frequency + 0.5)) for frequency in frequencies]


def _raise(words: dict[int, float], alone: Mapping[int, float], part: float) -> None:
    """Raise each place to this part of what its own terms are worth alone, both relative to their best."""
    best = max(alone.values(), default=0.0)
    if best > 0:
        part *= max(words.values()) / best
        for place, score in alone.items():
            if part * score > words[place]:
                words[place] = part * score


def _bm25(
    counts: Sequence[Counts], rarities: Sequence[float], lengths: Sequence[float], k1: float, b: float
) -> dict[int, float]:
    """Return the score of every place that has a term; ``k1`` and ``b`` are BM25's own."""
    mean = fsum(lengths) / len(lengths) or 1.0
    least, per_term = k1 * (1 - b), k1 * b / mean
    scores: dict[int, float] = {}
    for found, rarity in zip(counts, rarities, strict=True):
        most = rarity * (k1 + 1)
        for place, count in found.items():
            scores[place] = scores.get(place, 0.0) + most * count / (count + least + per_term * lengths[place])
    return scores
