"""BM25 with what a conversation adds: the neighbouring turns, who speaks, and when.

The words of the neighbouring turns count as further, lighter occurrences in the turn itself: an answer rarely repeats
the words of its question. Only passages that share a term with the query, and their neighbours, need to be given: every
occurrence that counts is then among them, and document frequencies can be counted from them. Words that are not found,
and in languages with many forms the others too, are looked for by their letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from heapq import heappop, heappush, merge
from itertools import chain, islice, pairwise
from math import fsum, log
from operator import add

from memoranda_ranking.dates import query_date_terms
from memoranda_ranking.fusion import likeness, semantic_share, standing_out
from memoranda_ranking.passage_sequence import Counts, PassageSequence, joined
from memoranda_ranking.passages import Passage, Scored, Weights
from memoranda_ranking.terms import fold_words, index_terms, query_language, query_terms
from memoranda_ranking.trigrams import similar_words, trigram_weights, trigrams_of

_ASKING_FOR_TIME = frozenset({"when", "date"})
_ASKING = frozenset({"what", "when", "where", "who", "whom", "whose", "which", "why", "how"})

_FOUND_TERM = 0.3
"""How much the letters of a term count that is found as it is, against one that is not; in English, nothing: its stems
leave no other forms to look for."""

_LENGTH_ALONE = 0.75
"""BM25's usual b, for items by their own words."""

_OTHER_PASSAGES = 50
"""How many passages more than a scope has are taken for granted where it is asked how much of a query it covers: with
few, a word that one of them has would seem common."""

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
    unrelated: float = 0.0,
) -> list[Scored]:
    """Rank as :func:`rank_text` does, with words and meaning together.

    ``similarities`` are cosines by key, of a long item that of its best passage, which ``nearest`` names, held back as
    :func:`held_back` does; a passage without one, or with a negative one, counts as unlike the query. The
    windows hold the most similar passages too, alone or with their neighbours. Words and meaning are each taken
    relative to their best and added in the proportion ``weights.semantic``; the bonuses come on top.

    The score of the best is how well it answers the query, from 0 to 1: the part of the query's words that it covers,
    the rare ones counting more, and how much more similar it is than ``unrelated`` texts, in the same proportion. The
    others have their part of that.
    """
    weights = weights or Weights()
    row = PassageSequence(joined(windows), weights)
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
    counts = row.with_neighbours(list(own.values()), lending)
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
    if weights.own:
        alone = _bm25(list(own.values()), told, row.lengths, weights.saturation, _LENGTH_ALONE)
        words = _raised(words, alone, weights.own / (weights.own + lending * (1 - weights.own)))
    letters = _by_letters(row, query, dict(zip(terms, times, strict=True)), missing, passages)
    alike = [similarities.get(passage.key, 0.0) for passage in row.items if similarities]
    near = [similarity if similarity > 0 else 0.0 for similarity in alike]
    said = fold_words(query)
    bonuses: dict[str, tuple[Callable[[int], bool], float]] = {}
    if speaking := named | perhaps | row.of_asked_person(query):
        bonuses["speaker"] = speaking.__contains__, weights.asked_speaker
    if not _ASKING_FOR_TIME.isdisjoint(said):
        bonuses["time"] = row.tells_time, weights.time
    bonuses["statement"] = row.states, weights.statement
    people = {called, *(row.items[item].speaker for item in named)}
    names = {term for name in people for term in index_terms(name)}  # They are not embedded.
    asked = {term: tells for term, tells in zip(terms, told, strict=True) if term not in names | dates}
    # Elsewhere than in English other forms of the words are found by their letters alone.
    covered = _covered(row, own, asked) if any(near) and query_language(query) == "english" else 1.0
    asking = "?" in query or not _ASKING.isdisjoint(said)
    share = partial(semantic_share, weights.semantic, len(asked), covered=covered, asking=asking)
    scoring = _Scoring(row, words, letters, near, share, bonuses)
    # What says nothing answers nothing, whatever was said around it: a turn that only calls tools, say.
    saying = (entry for entry in scoring.best_first() if row.terms[entry[2]] or row.items[entry[2]].text.strip())
    best = next(saying, None)
    if best is None:
        return []
    # A date says when, not what.
    what = [
        (len(own[term]) * more, at) for term, more, at in zip(terms, times, counts, strict=True) if term not in dates
    ]
    telling = _rarities([frequency for frequency, _ in what], passages + _OTHER_PASSAGES)
    unit = scoring.relevance(best[2], [at for _, at in what], telling, unrelated) / best[1]
    chosen = (entry for entry in chain((best,), saying) if wanted is None or wanted(entry[0]))
    return [
        Scored(key, score * unit, scoring.parts(item, unit), row.found_in(item, own), scoring.passage(item, nearest))
        for key, score, item in islice(chosen, limit)
    ]


def _covered(row: PassageSequence, own: Mapping[str, Counts], asked: Mapping[str, float]) -> float:
    """Return the greatest part of what is asked for that one place has, terms by what they tell; figures tell all."""
    every = fsum(asked.values())
    values = [0.0] * len(row)
    for term, tells in asked.items():
        value = tells if term.isalpha() else every
        for place in own[term]:
            values[place] += value
    return max(values) / every if asked else 1.0


def _by_letters(
    row: PassageSequence, query: str, times: Mapping[str, float], missing: Sequence[str], passages: float
) -> Sequence[float]:
    """Return the score of each place by the letters of the query's terms; ``times`` are those of _times_more."""
    weights = row.weights
    found = 0.0 if query_language(query) == "english" else _FOUND_TERM
    looked_for = {term: weight for term in times if (weight := 1.0 if term in missing else found) > 0}
    if not looked_for or not weights.letters:
        return ()
    groups = trigram_weights(looked_for)
    forms = similar_words(frozenset[str]().union(*row.terms), looked_for)
    shared = {group: counts for group, counts in row.occurrences(forms, groups).items() if counts}
    more = {group: times[term] for term in looked_for for group in trigrams_of(term)}
    rarities = _rarities([len(counts) * more[group] for group, counts in shared.items()], passages)
    told = [weights.letters * groups[group] * rarity for group, rarity in zip(shared, rarities, strict=True)]
    return _bm25(list(shared.values()), told, row.lengths, weights.saturation, weights.length)


class _Scoring:
    """The relevance of each item by its words and its meaning, with the bonuses that come on top.

    Both are taken in their proportions, each relative to its own best, and together relative to the most relevant item.
    Of one with several passages the best counts, less the more there are: many find something by chance.
    """

    def __init__(
        self,
        row: PassageSequence,
        words: Sequence[float],
        letters: Sequence[float],
        near: Sequence[float],
        share_of: Callable[[Iterable[float], Iterable[float]], float],
        bonuses: Mapping[str, tuple[Callable[[int], bool], float]],
    ) -> None:
        self._row = row
        self._near = near
        self._bonuses = bonuses
        self._letters = letters
        self._scores = texts = list(map(add, words, letters)) if letters else words
        if row.divided:
            parts, damping = pairwise(row.first_place), row.weights.damping
            texts = [max(self._scores[start:end]) / (end - start) ** damping for start, end in parts]
        meanings = standing_out(near) if near else [0.0] * len(row.items)
        self._share = share = share_of(texts, meanings)
        best_text, best_meaning = max(texts) or 1.0, max(meanings) or 1.0
        self._by_words = [(1 - share) * text / best_text for text in texts]
        self._by_meaning = [share * meaning / best_meaning for meaning in meanings]
        relevances = list(map(add, self._by_words, self._by_meaning))
        self._best = best = max(relevances) or 1.0
        self._relevances = [relevance / best for relevance in relevances]
        self._of_sitting: dict[int, float] = {}
        for sitting in row.joined_sittings():
            bonus = row.weights.session * max(max(self._relevances[first:end]) for first, end in sitting)
            self._of_sitting |= dict.fromkeys([first for first, _ in sitting], bonus)

    def best_first(self) -> Iterator[tuple[str, float, int]]:
        """Yield key, score and number of every item that has to do with the query.

        They come by score, then the newest first, then by key, so that there is one order for all. Whether an item has
        a bonus is asked when it may be the next, since most never are.
        """
        row, relevances = self._row, self._relevances
        scores: list[float] = []
        for first, end in row.sittings:
            scores += [relevance + self._of_sitting[first] for relevance in relevances[first:end]]
        waiting: list[tuple[float, int]] = []
        for item in chain(_descending(scores), (None,)):
            while waiting and (item is None or -waiting[0][0] > self._with_bonuses(scores[item])):
                score, equal = waiting[0][0], list[int]()
                while waiting and waiting[0][0] == score:
                    equal.append(heappop(waiting)[1])
                yield from ((row.items[each].key, -score, each) for each in sorted(equal, key=row.age, reverse=True))
            if item is not None and relevances[item] > 0:
                heappush(waiting, (-self._with_bonuses(scores[item], item), item))

    def _with_bonuses(self, score: float, item: int | None = None) -> float:
        """Return a score with the bonuses of an item, or with all that there are."""
        return reduce(add, (bonus for has, bonus in self._bonuses.values() if item is None or has(item)), score)

    def _best_place(self, item: int) -> int:
        return max(range(*self._row.first_place[item : item + 2]), key=self._scores.__getitem__)

    def relevance(self, item: int, counts: Sequence[Counts], telling: Sequence[float], unrelated: float) -> float:
        """Return how well an item answers the query, from 0 to 1, whatever the others do.

        ``telling`` says how much each term tells, and ``counts`` how often each place has it.
        """
        place, every = self._best_place(item), fsum(telling)
        found = fsum(min(1.0, max(0.0, at.get(place, 0.0))) * tells for at, tells in zip(counts, telling, strict=True))
        found += self._letters[place] if self._letters else 0.0
        covered = min(1.0, found / every) if every else 0.0
        alike = likeness(self._near[item], unrelated) if self._near else 0.0
        return (1 - self._share) * covered + self._share * alike

    def parts(self, item: int, unit: float) -> dict[str, float]:
        """Return what the score of an item is made of, in this unit."""
        place, text, semantic = self._best_place(item), self._by_words[item] / self._best, self._by_meaning[item]
        in_letters = self._letters[place] / self._scores[place] if text and self._letters else 0.0
        parts = {"text": text * (1 - in_letters)} if text else {}
        parts |= {"letters": text * in_letters} if in_letters else {}
        parts |= {"semantic": semantic / self._best} if semantic else {}
        parts["session"] = self._of_sitting[self._row.sitting_of(item)[0]]
        parts.update((name, bonus) for name, (has, bonus) in self._bonuses.items() if has(item))
        return {name: part * unit for name, part in parts.items()}

    def passage(self, item: int, nearest: Callable[[Passage], str] | None) -> str:
        """Return the passage by which an item was found, if it has several: by what counts more, words or meaning."""
        if nearest is not None and self._by_meaning[item] / self._best > self._relevances[item] / 2:
            return nearest(self._row.items[item])
        place = self._best_place(item)
        return self._row.passage(place) if self._scores[place] else ""


def _descending(scores: Sequence[float]) -> Iterable[int]:
    """Return the items by their scores, the highest first.

    A long list is sorted in parts, since a sort never gives way to other threads, and joined as far as it is read.
    """
    by_score = scores.__getitem__
    parts = [range(len(scores))[start : start + _SORTED_AT_ONCE] for start in range(0, len(scores), _SORTED_AT_ONCE)]
    return merge(*(sorted(part, key=by_score, reverse=True) for part in parts), key=by_score, reverse=True)


def _times_more(occurring: int, everywhere: int) -> float:
    """Return how many times more items of the scope than of those that were given have a term, in them or in reach."""
    return max(1.0, everywhere / occurring) if occurring else 1.0


def _rarities(frequencies: Sequence[float], total: float) -> list[float]:
    """Return how much each term tells, from the number of passages that have it in reach."""
    return [log(1 + max(total - frequency + 0.5, 0.5) / (frequency + 0.5)) for frequency in frequencies]


def _raised(words: list[float], alone: Sequence[float], part: float) -> list[float]:
    """Return the scores, each raised to this part of what its own terms are worth alone, relative to their best."""
    best = max(alone)
    if best <= 0:
        return words
    part *= max(words) / best
    return [raised if (raised := part * own) > score else score for score, own in zip(words, alone, strict=True)]


def _bm25(
    counts: Sequence[Counts], rarities: Sequence[float], lengths: Sequence[float], k1: float, b: float
) -> list[float]:
    """Return the score of each place; ``k1`` and ``b`` are BM25's own."""
    mean = fsum(lengths) / len(lengths) or 1.0
    least, per_term = k1 * (1 - b), k1 * b / mean
    held_back = [per_term * length for length in lengths]
    scores = [0.0] * len(lengths)
    for found, rarity in zip(counts, rarities, strict=True):
        most = rarity * (k1 + 1)
        for place, count in found.items():
            scores[place] += most * count / (count + least + held_back[place])
    return scores
