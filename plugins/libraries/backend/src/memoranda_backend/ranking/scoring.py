"""BM25 with what a conversation adds: the neighbouring turns, who speaks, and when.

The words of the neighbouring turns count as further, lighter occurrences in the turn itself: an answer rarely repeats
the words of its question. Words that are not found, and in languages with many forms the others too, are looked for by
their letters. Everything is computed for all places of a scope at once, a few terms at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain, compress, count
from math import log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda_backend.ranking.asked_people import AskedPeople, having_any, standing
from memoranda_backend.ranking.dates import date_terms
from memoranda_backend.ranking.passages import EXACT, Weights
from memoranda_backend.ranking.queries import TIME_TERMS, Query
from memoranda_backend.ranking.scope_arrays import Flags, Floats, Ints
from memoranda_backend.ranking.side_by_side import SideBySide
from memoranda_backend.text.terms import is_unspaced

_FOUND_TERM = 0.3
"""How much the letters of a term count that is found as it is, against one that is not; in English, nothing: its stems
leave no other forms to look for."""

_MOST_LETTERS = 0.5
"""Which part of their letters a term and another form of it have in common, at least; less is coincidence."""

_ENOUGH_ITEMS = 200
"""How many items a scope must have for a word that none of them has to count in full against an answer."""

_SAME_WORD = 0.75
"""Which part of its letters a term and another form of it have in common for the term not to be missing."""

_ALL_LETTERS = 0.5
"""How much the letters of a whole query count, against its words; in English, nothing."""

_BY_CHANCE = 0.15
"""Which part of a query's letters anything may have by chance."""

_LENGTH_ALONE = 0.75
"""BM25's usual b, for items by their own words."""

_LEAST_LENT = 0.25
"""How much of what neighbours lend counts where the terms of a query stand near each other only by chance."""

_OTHER_PASSAGES = 50
"""How many passages more than a scope has are taken for granted where it is asked how much of a query it covers: with
few, a word that one of them has would seem common."""

_PAIR = 0.25
"""How much a pair of characters that no passage has counts among what is asked for: most such pairs are no words."""

_FEW_SITTINGS = 30
"""Among how many sittings an item is told from others by itself."""

_HARDLY = 1e-12

_AT_ONCE = 1 << 20
"""How many counts are computed at once."""


class WordScores:
    """How well each place of some scopes answers a query by its words, and what else speaks for its items.

    Each scope is ranked by its own counts: a term of one scope and the same term of another are two, numbered by scope
    and term. ``total`` and ``frequencies`` tell how many items a single scope has and how many have each term, where
    its arrays do not hold all of them.
    """

    def __init__(
        self,
        beside: SideBySide,
        query: Query,
        weights: Weights,
        total: int | None = None,
        frequencies: Mapping[str, int] | None = None,
    ) -> None:
        self.beside, self.query, self.weights = beside, query, weights
        items = [max(total or 0, count) for count in beside.item_counts]
        times = [all_items / count for all_items, count in zip(items, beside.item_counts, strict=True)]
        self._passages = [count * often for count, often in zip(beside.place_counts, times, strict=True)]
        self._sittings = [count * often for count, often in zip(beside.sitting_counts, times, strict=True)]
        self._names = [AskedPeople(scope, query) for scope in beside.scopes]
        self._find()
        self._held = self._terms_of_items()
        having = np.bincount(self._held // beside.item_count, minlength=self._terms).astype(np.float64)
        self._everywhere = np.zeros(self._terms)
        """How many items have each term, where that is known from elsewhere."""
        self._times = np.ones(self._terms)
        """How many times more items have each term than there are here."""
        if frequencies:
            self._everywhere = np.array([frequencies.get(term, 0) for term in query.terms], np.float64)
            known = np.divide(self._everywhere, having, out=np.ones_like(having), where=having > 0)
            self._times = np.maximum(1.0, known)
        self._having = having * self._times
        self.places_with = np.bincount(self.term, minlength=self._terms) * self._times
        self.told = rarities(self.places_with, self._of_terms(self._passages))
        self.lending = self._lending(items)
        self._leave_out_calls()
        self._score()

    # Numbers of terms: those of the first scope come first

    @property
    def _terms(self) -> int:
        return len(self.query.terms) * len(self._names)

    def _of_terms(self, values: Sequence[float]) -> Any:
        """Return the value of the scope of each term; of a single scope, just its value."""
        return values[0] if self.beside.is_one else np.repeat(values, len(self.query.terms))

    def _of_rows(self, values: Sequence[float]) -> Any:
        """Return the value of each scope for its row; of a single scope, just its value."""
        return values[0] if self.beside.is_one else np.array(values)[:, None]

    def _by_scope(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of all terms as a row for each scope."""
        return values.reshape(len(self._names), -1)

    def _find(self) -> None:
        """Note where terms occur: which term, at which place, and how often."""
        beside, query = self.beside, self.query
        found = [scope.occurrences(query.words, query.language) for scope in beside.scopes]
        if not beside.is_one:
            firsts = zip(count(0, len(query.terms)), beside.first_places, found, strict=False)
            found = [(terms + first, places + at) for first, at, (terms, places) in firsts]
        terms, places = found[0] if beside.is_one else map(np.concatenate, zip(*found, strict=True))
        pairs, self.count = _counted(terms * beside.place_count + places)
        self.term, self.place = np.divmod(pairs, beside.place_count)

    def _terms_of_items(self) -> Ints:
        """Return a number for each pair of a term and an item that has it: the term times the items, plus the item."""
        pairs = self.term * self.beside.item_count + self.beside.item_at[self.place]
        return np.unique(pairs) if self.beside.has_passages else pairs

    def _lending(self, totals: Sequence[int]) -> list[float]:
        """Return how much of what neighbours lend counts in each scope, up to 1.

        In a conversation the terms of a query stand near each other, in a list of notes only by chance.
        """
        reach, enough = self.weights.reach, self.weights.coherence
        if not enough or not len(self.term):
            return [1.0] * len(self._names)
        beside = self.beside
        term, item = np.divmod(self._held, beside.item_count)
        told = self.told * self.told
        values: Floats = np.bincount(item, told[term], beside.item_count).astype(np.float64, copy=False)
        followed, around = beside.pairs(reach)
        near = np.zeros(beside.item_count)
        for far, there in enumerate(followed, start=1):
            near[:-far] += values[:-far] * values[far:] * there[:-far]
        everywhere = self._by_scope(told * self._having).sum(axis=1).tolist()
        chance = beside.sums_of_items(values * (beside.of_items(everywhere) - values) * around)
        lending = []
        for nearby, anywhere, most, total in zip(
            beside.sums_of_items(near), chance, beside.most_of_items(values), totals, strict=True
        ):
            # A few pairs tell little: one of the most telling items, as in a conversation, is added to them.
            one = most * most
            expected = max(anywhere, 0.0) / max(total - 1, 1) + one
            times = (2 * nearby + (1 + enough) * one) / (expected or 1.0)
            lending.append(min(1.0, max(_LEAST_LENT, round((times - 1) / enough, EXACT))) if one else 1.0)
        return lending

    def _leave_out_calls(self) -> None:
        """Count no name where a person is called by it; see :class:`AskedPeople`."""
        kept: Flags | None = None
        for number, names in enumerate(self._names):
            naming = names.called_by_terms()
            if naming is None:
                continue
            terms, places = naming
            is_name, calls = np.zeros(self._terms, np.bool_), np.zeros(self.beside.place_count, np.bool_)
            is_name[np.array(terms, np.int64) + number * len(self.query.terms)] = True
            calls[places + self.beside.first_places[number]] = True
            others = ~(is_name[self.term] & calls[self.place])
            kept = others if kept is None else kept & others
        if kept is not None:
            self.term, self.place, self.count = self.term[kept], self.place[kept], self.count[kept]

    def _score(self) -> None:
        weights, beside, terms = self.weights, self.beside, self.query.terms
        lengths = beside.lengths + beside.of_places(self.lending) * beside.neighbours(weights).borrowed
        held_back = self._held_back(lengths, weights.length)
        places = beside.place_count
        words, covered = np.zeros(places), np.zeros(places)
        told = self.told[self.term]
        alone = _bm25(told, self.count, self.place, self._held_back(beside.lengths, _LENGTH_ALONE), weights.saturation)
        places_with = self._by_scope(self.places_with)
        what = [term not in self.query.when for term in terms]
        telling = rarities(places_with, self._of_rows(self._passages) + _OTHER_PASSAGES) * what
        pairs = np.array([is_unspaced(term) for term in terms], np.bool_)
        telling[pairs & (places_with == 0)] *= _PAIR
        self.missing: list[list[str]] = [[] for _ in self._names]
        """The terms that no place of each scope has in reach."""
        step = max(1, _AT_ONCE // places)
        for start in range(0, len(terms), step):
            some = slice(start, start + step)
            counts = self._with_neighbours(start, len(terms[some]))
            self._add_speakers_and_dates(counts, start)
            reached = self._reached(counts, some)
            for missing, there in zip(self.missing, reached + places_with[:, some], strict=True):
                missing += compress(terms[some], (there == 0).tolist())
            telling_here = rarities(reached, self._of_rows(self._passages)) * (weights.saturation + 1)
            ratios = counts + held_back
            words += self._summed(np.divide(counts, ratios, out=ratios), telling_here)
            covered += self._summed(np.minimum(counts, 1.0, out=ratios), telling[:, some])
        if weights.own:
            bests = zip(self.lending, beside.most_of_places(words), beside.most_of_places(alone), strict=True)
            own = weights.own
            parts = [own / (own + lent * (1 - own)) * (best / (best_alone or 1.0)) for lent, best, best_alone in bests]
            words = np.maximum(words, alone * beside.of_places(parts))
        self.words = words
        self.letters = self._other_forms()
        every = telling.sum(axis=1).tolist()
        covered = (covered + self.letters) / beside.of_places([each or 1.0 for each in every])
        if not all(every):
            covered = np.where(beside.of_places(every), covered, words > 0)
        self.covered: Floats = np.minimum(covered, 1.0)
        """Which part of the query each place has, from 0 to 1, terms by what they tell."""
        if weights.letters and self.query.is_foreign:
            self._count_letters()

    def _held_back(self, lengths: Floats, b: float) -> Floats:
        """Return what BM25 holds places of these lengths back by; ``b`` is its own."""
        beside, k1 = self.beside, self.weights.saturation
        sums = zip(beside.sums_of_places(lengths), beside.place_counts, strict=True)
        means = [round(total / count, EXACT) for total, count in sums]
        by_length: Floats = beside.of_places([k1 * b / (mean or 1.0) for mean in means]) * lengths
        return k1 * (1 - b) + _HARDLY + by_length

    def _with_neighbours(self, start: int, terms: int) -> Floats:
        """Return how often some terms occur at each place, with a share of each one added to the places around it."""
        term, place, often = self.term, self.place, self.count
        if not self.beside.is_one:
            term = term % len(self.query.terms)
        if terms < len(self.query.terms):
            here = (term >= start) & (term < start + terms)
            term, place, often = term[here], place[here], often[here]
        reach, neighbours = self.weights.reach, self.beside.neighbours(self.weights)
        shares = neighbours.factors[:, place] * often
        shares[1:] *= self.lending[0] if self.beside.is_one else self.beside.of_places(self.lending)[place]
        # What is lent beyond either end is 0, and has room there.
        width = self.beside.place_count + 2 * reach
        at = (term - start) * width + place + reach + neighbours.offsets[:, None]
        together = np.bincount(at.ravel(), shares.ravel(), terms * width)
        # Of nothing at all it counts in integers.
        return together.astype(np.float64, copy=False).reshape(terms, width)[:, reach : width - reach]

    def _reached(self, counts: Floats, some: slice) -> NDArray[Any]:
        """Return at how many places of each scope some terms count: a row for each scope."""
        beside = self.beside
        if not beside.is_one:
            in_scopes: NDArray[Any] = np.add.reduceat(counts != 0, beside.first_places, axis=1, dtype=np.int64)
            return in_scopes.T
        reached: NDArray[Any] = np.count_nonzero(counts, axis=1)
        if self._everywhere.any():
            reached = np.maximum(reached * self._times[some], self._everywhere[some])
        return reached[None]

    def _summed(self, counts: Floats, weights: Floats) -> Floats:
        """Return for each place the sum of what its terms count, by what they weigh in its scope."""
        summed: Floats = (
            np.einsum("ij,i->j", counts, weights[0])
            if self.beside.is_one
            else np.einsum("ij,ij->j", counts, np.repeat(weights.T, self.beside.place_counts, axis=1))
        )
        return summed

    def _add_speakers_and_dates(self, counts: Floats, start: int) -> None:
        weights, terms = self.weights, self.query.terms[start : start + len(counts)]
        dates = [number for number, term in enumerate(terms) if term in self.query.dates] if weights.date else ()
        for scope, (names, layout) in enumerate(zip(self._names, self.beside.layouts, strict=True)):
            here = counts[:, self.beside.places_of(scope)]
            for code, numbers in names.speaker_terms.items() if weights.speaker else ():
                for number in numbers:
                    if start <= number < start + len(counts):
                        here[number - start, (layout.speaker == code)[layout.item_at]] += weights.speaker
            for number in dates:
                days, day = layout.dates
                meant = np.array([terms[number] in date_terms(each) for each in days])
                here[number, meant[day][layout.item_at]] += weights.date

    def _other_forms(self) -> Floats:
        """Return the score of each place by words that share most of their letters with a term of the query."""
        scores = np.zeros(self.beside.place_count)
        found = _FOUND_TERM if self.query.is_foreign else 0.0
        if not self.weights.letters or not (found or any(self.missing)):
            return scores
        for scope, (arrays, times) in enumerate(zip(self.beside.scopes, self._by_scope(self._times), strict=True)):
            here = scores[self.beside.places_of(scope)]
            for term, often in zip(self.query.terms, times.tolist(), strict=True):
                weight = self.weights.letters * (1.0 if term in self.missing[scope] else found)
                if weight:
                    groups, places, every = arrays.spelled_like(self.query.words[term], _MOST_LETTERS)
                    here += weight / max(every, 1) * self._sharing(scope, groups, places, every, often)[0]
        return scores

    def _count_letters(self) -> None:
        """Count the letters that places have in common with the whole query, too."""
        asked = list(chain.from_iterable(self.query.words.values()))
        for scope, arrays in enumerate(self.beside.scopes):
            here = self.beside.places_of(scope)
            together, share = self._sharing(scope, *arrays.spelled_like(asked))
            together[share < _BY_CHANCE] = 0.0
            best = float((self.words[here] + self.letters[here]).max())
            self.letters[here] += _ALL_LETTERS * best / (float(together.max()) or 1.0) * together
            self.covered[here] = np.maximum(self.covered[here], share)

    def _sharing(self, scope: int, groups: Ints, places: Ints, every: int, times: float = 1.0) -> tuple[Floats, Floats]:
        """Return the score of each place of a scope by the groups of letters that it has, and which part of all."""
        layout, k1 = self.beside.layouts[scope], self.weights.saturation
        keys, often = _counted(groups * layout.place_count + places)
        group, place = np.divmod(keys, layout.place_count)
        told = rarities(np.bincount(group, minlength=every) * times, self._passages[scope])
        part = np.bincount(place, told[group], layout.place_count) / (told.sum() or 1.0)
        mean = round(float(layout.lengths.sum()) / layout.place_count, EXACT)
        held_back = k1 * (1 - _LENGTH_ALONE) + _HARDLY + k1 * _LENGTH_ALONE / (mean or 1.0) * layout.lengths
        return _bm25(told[group], often, place, held_back, k1), part

    def together(self, scope: int) -> float:
        """Return the greatest part of what is asked for that one place of a scope has, terms by what they tell.

        Figures tell all. Elsewhere than in English other forms of the words are found by their letters alone: 1.
        """
        query = self.query
        names = {term for name in self._names[scope].spoken for term in query.stems(name)}  # They are not embedded.
        asked = [number for number, term in enumerate(query.terms) if term not in names | query.dates]
        if query.language != "english" or not asked:
            return 1.0
        told = self._by_scope(self.told)[scope]
        every = float(told[asked].sum())
        tells = np.zeros(self._terms)
        tells[np.array(asked) + scope * len(query.terms)] = [
            told[number] if query.terms[number].isalpha() else every for number in asked
        ]
        return float(np.bincount(self.place, tells[self.term], self.beside.place_count).max()) / every

    def unheard(self, scope: int) -> tuple[str, ...]:
        """Return the words of the query that no item of a scope has in any form, but for those that say when."""
        words, arrays = self.query.words, self.beside.scopes[scope]
        missing = [words[term] for term in self.missing[scope] if term not in self.query.when]
        # A word that shares most of its letters is a form of it.
        unheard = [forms for forms in missing if not len(arrays.spelled_like(forms, _SAME_WORD)[1])]
        return tuple(chain.from_iterable(unheard))

    def heard(self, scope: int) -> float:
        """Return the part of the query's terms that any item of a scope has, but for those that say when.

        In a few items most words were never said, which tells nothing: the fewer there are, the less it counts.
        """
        asked = [term for term in self.query.terms if term not in self.query.when]
        if not asked:
            return 1.0
        telling = min(1.0, self.beside.item_counts[scope] / _ENOUGH_ITEMS)
        return 1 - telling * len(set(asked).intersection(self.missing[scope])) / len(asked)

    # What else speaks for an item

    @cached_property
    def speaking(self) -> Flags:
        """The items that were said by whom the query is about."""
        return self._of_all([names.speaking for names in self._names])

    @cached_property
    def standing(self) -> Flags:
        """The items that tell what holds from now on, and were not said by an assistant."""
        return self._of_all(list(map(standing, self.beside.scopes)))

    @cached_property
    def telling_time(self) -> Flags:
        """The items that mention a time."""
        return self._of_all([having_any(scope, TIME_TERMS, "english") for scope in self.beside.scopes])

    def _of_all(self, flags: Sequence[Flags]) -> Flags:
        return flags[0] if self.beside.is_one else np.concatenate(flags)

    @property
    def crowding(self) -> list[float]:
        """How many times tenfold more sittings than a few each scope has; 0 for a few."""
        return [max(0.0, log10(sittings / _FEW_SITTINGS)) for sittings in self._sittings]

    @property
    def told_in_sitting(self) -> Floats:
        """Which part of the query each sitting has, terms by how few sittings have them."""
        beside = self.beside
        sittings = beside.sitting_count
        has: Flags = np.zeros(self._terms * sittings, np.bool_)
        has[self.term * sittings + beside.sitting[beside.item_at[self.place]]] = True
        term, sitting = np.divmod(np.flatnonzero(has), sittings)
        having = np.bincount(term, minlength=self._terms) * self._times
        told = rarities(having, self._of_terms(self._sittings))
        every = self._by_scope(told).sum(axis=1).tolist()
        found: Floats = np.bincount(sitting, told[term], sittings) / beside.of_sittings([each or 1.0 for each in every])
        return found

    def found_in(self, items: Ints) -> list[tuple[str, ...]]:
        """Return the terms that occur in each of some items themselves."""
        terms = self.query.terms
        having = np.zeros((self.beside.item_count, len(terms)), np.bool_)
        having[self.beside.item_at[self.place], self.term % max(len(terms), 1)] = True
        return [tuple(compress(terms, row)) for row in having[items].tolist()]


def _counted(numbers: Ints) -> tuple[Ints, Floats]:
    """Return the distinct numbers in order, and how often each occurs."""
    found = np.sort(numbers)  # np.unique hashes, which takes longer.
    new = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    first = np.flatnonzero(new)
    often = np.ones(len(first)) if len(first) == len(found) else np.diff(first, append=len(found)).astype(np.float64)
    return found[first], often


def rarities(frequencies: NDArray[Any], total: Any) -> Floats:
    """Return how much each term tells, from the number of passages that have it."""
    found: Floats = np.log(1 + np.maximum(total - frequencies + 0.5, 0.5) / (frequencies + 0.5))
    return found


def _bm25(told: Floats, counts: Floats, places: Ints, held_back: Floats, k1: float) -> Floats:
    """Return the score of each place, from what terms tell that occur so often at some of them."""
    found = np.bincount(places, told * (k1 + 1) * counts / (counts + held_back[places]), len(held_back))
    return found.astype(np.float64, copy=False)
