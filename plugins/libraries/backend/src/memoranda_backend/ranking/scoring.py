"""BM25 with what a conversation adds: the neighbouring turns, who speaks, and when.

The words of the neighbouring turns count as further, lighter occurrences in the turn itself: an answer rarely repeats
the words of its question. Words that are not found, and in languages with many forms the others too, are looked for by
their letters. Everything is computed for all places of a scope at once, a few terms at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, compress
from math import log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda_backend.ranking.dates import date_terms, query_date_terms
from memoranda_backend.ranking.names import ASSISTANTS, asked_person, is_role
from memoranda_backend.ranking.participants import capitalised
from memoranda_backend.ranking.passages import EXACT, Weights
from memoranda_backend.ranking.scope_arrays import Flags, Floats, Ints, ScopeArrays
from memoranda_backend.text.stemming import stem, stemmer_of
from memoranda_backend.text.terms import MONTHS, fold_words, index_words, is_unspaced, query_language, query_words

_TIME_WORDS = """
yesterday today tonight tomorrow ago last next week weekend month year morning evening night recently since soon lately
earlier monday tuesday wednesday thursday friday saturday sunday
"""
_TIME_TERMS = frozenset({*map(stem, (*_TIME_WORDS.split(), *MONTHS))} - {stem("may")})
_ASKING_FOR_TIME = frozenset({"when", "date"})
_ASKING = frozenset({"what", "when", "where", "who", "whom", "whose", "which", "why", "how"})

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


class Query:
    """What a query asks for."""

    def __init__(self, text: str, usual: str | None = None) -> None:
        self.text = text
        self.language = query_language(text, usual)
        """The language that it is asked in; where it does not tell, the usual one of the scope."""
        self.words = query_words(text, self.language)
        """The words that are asked for, by their stems."""
        self.terms = tuple(self.words)
        self.is_foreign = self.language != "english" and bool(self.language or not text.isascii())
        """True if it surely is not in English; keywords without common words may be."""
        self.dates = query_date_terms(text)
        self.when = self.dates.union(_TIME_TERMS)
        """What says when, not what: it does not count where it is asked how much of a query is covered."""
        said = fold_words(text)
        self.asks_for_time = not _ASKING_FOR_TIME.isdisjoint(said)
        self.is_asking = "?" in text or not _ASKING.isdisjoint(said)

    def stems(self, text: str) -> frozenset[str]:
        """Return the stems of a text, in the language of the query."""
        return _stems(text, self.language)

    @cached_property
    def person(self) -> tuple[str, frozenset[str]]:
        """Whom it is about, if it is in the first or second person; see :func:`asked_person`."""
        return asked_person(self.text)


asked = lru_cache(maxsize=16)(Query)
"""What a text asks for. A recall asks the same of every place that it reaches."""


class WordScores:
    """How well each place of a scope answers a query by its words, and what else speaks for its items.

    ``total`` and ``frequencies`` tell how many items there are and how many have each term, where the arrays do not
    hold all of them.
    """

    def __init__(
        self,
        arrays: ScopeArrays,
        query: Query,
        weights: Weights,
        total: int | None = None,
        frequencies: Mapping[str, int] | None = None,
    ) -> None:
        self.arrays, self.layout, self.query, self.weights = arrays, arrays.layout, query, weights
        layout, terms = self.layout, query.terms
        known = frequencies or {}
        items = max(total or 0, len(layout))
        self._passages = layout.place_count * items / len(layout)
        self._sittings = len(layout.sitting_starts) * items / len(layout)
        self.named, self.name = self._named(), ""
        self.perhaps = np.zeros(len(layout), np.bool_)
        self._find(*arrays.occurrences(query.words, query.language))
        self._held = self._terms_of_items()
        having = np.bincount(self._held // len(layout), minlength=len(terms)).astype(np.float64)
        everywhere = np.array([known.get(term, 0) for term in terms], np.float64)
        self._times = np.maximum(1.0, np.divide(everywhere, having, out=np.ones_like(having), where=having > 0))
        self._having = having * self._times
        self.places_with = np.bincount(self.term, minlength=len(terms)) * self._times
        self.told = rarities(self.places_with, self._passages)
        self.lending = self._lending(items)
        if not self.named.any():
            self._leave_out_calls()
        self._score(everywhere)

    def _find(self, terms: Ints, places: Ints) -> None:
        """Note where terms occur: which term, at which place, and how often."""
        pairs, self.count = _counted(terms * self.layout.place_count + places)
        self.term, self.place = np.divmod(pairs, self.layout.place_count)

    def _terms_of_items(self) -> Ints:
        """Return a number for each pair of a term and an item that has it: the term times the items, plus the item."""
        pairs = self.term * len(self.layout) + self.layout.item_at[self.place]
        return np.unique(pairs) if self.layout.has_passages else pairs

    def _named(self) -> Flags:
        """Return which items the query names the speaker of."""
        self._speaker_terms: dict[int, list[int]] = {}
        for speaker, code in self.arrays.speakers.items():
            words = self.query.stems(speaker) if not is_role(speaker) else frozenset()
            found = [number for number, term in enumerate(self.query.terms) if term in words]
            if found:
                self._speaker_terms[code] = found
        named: Flags = np.zeros(len(self.arrays.speakers), np.bool_)
        named[list(self._speaker_terms)] = True
        of_items: Flags = named[self.layout.speaker]
        return of_items

    def _lending(self, total: int) -> float:
        """Return how much of what neighbours lend counts, up to 1.

        In a conversation the terms of a query stand near each other, in a list of notes only by chance.
        """
        reach, enough = self.weights.reach, self.weights.coherence
        if not enough or not len(self.term):
            return 1.0
        layout = self.layout
        term, item = np.divmod(self._held, len(layout))
        values = np.bincount(item, (self.told * self.told)[term], len(layout))
        followed, around = layout.pairs(reach)
        near = 2 * sum(
            [float((values[:-far] * values[far:])[there[:-far]].sum()) for far, there in enumerate(followed, start=1)]
        )
        everywhere = float((self.told * self.told * self._having).sum())
        chance = float((values * (everywhere - values) * around).sum())
        # A few pairs tell little: one of the most telling items, as it would be in a conversation, is added to them.
        one = float(values.max()) ** 2
        times = (near + (1 + enough) * one) / (max(chance, 0.0) / max(total - 1, 1) + one)
        return min(1.0, max(_LEAST_LENT, round((times - 1) / enough, EXACT)))

    def _leave_out_calls(self) -> None:
        """Count no name where a person is called by it, and note what the person whom the query names may have said.

        Where nothing tells who speaks, this much is known: people do not call themselves. All others may be theirs, if
        any does, and where two take turns, every other one.
        """
        asked = sorted(capitalised(self.query.text))
        heard = {name: called for name in asked if (called := self.arrays.calling(name)).greeted}
        if len(heard) != 1:
            return
        ((self.name, called),) = heard.items()
        words = self.query.stems(self.name)
        naming = [number for number, term in enumerate(self.query.terms) if term in words]
        is_name, calls = np.zeros(len(self.query.terms), np.bool_), np.zeros(self.layout.place_count, np.bool_)
        is_name[naming], calls[self.layout.first_place[called.items]] = True, True
        kept = ~(is_name[self.term] & calls[self.place])
        self.term, self.place, self.count = self.term[kept], self.place[kept], self.count[kept]
        self.perhaps = called.perhaps

    def _score(self, everywhere: Floats) -> None:
        weights, layout, terms = self.weights, self.layout, self.query.terms
        lengths = layout.lengths + self.lending * layout.neighbours(weights).borrowed
        held_back = _held_back(lengths, weights.saturation, weights.length)
        count = layout.place_count
        words, covered = np.zeros(count), np.zeros(count)
        held_back_alone = _held_back(layout.lengths, weights.saturation, _LENGTH_ALONE)
        alone = _bm25(self.told[self.term], self.count, self.place, held_back_alone, weights.saturation)
        what = [term not in self.query.when for term in terms]
        telling = rarities(self.places_with, self._passages + _OTHER_PASSAGES) * what
        absent_pairs = [
            number for number, term in enumerate(terms) if is_unspaced(term) and not self.places_with[number]
        ]
        telling[absent_pairs] *= _PAIR
        self.missing: list[str] = []
        step = max(1, _AT_ONCE // count)
        for start in range(0, len(terms), step):
            some = slice(start, start + step)
            counts = self._with_neighbours(start, len(terms[some]))
            self._add_speakers_and_dates(counts, start)
            reached = np.maximum(np.count_nonzero(counts, axis=1) * self._times[some], everywhere[some])
            there = reached + self.places_with[some]
            self.missing += compress(terms[some], (there == 0).tolist())
            told = rarities(reached, self._passages) * (weights.saturation + 1)
            ratios = counts + held_back
            words += np.einsum("ij,i->j", np.divide(counts, ratios, out=ratios), told)
            covered += np.einsum("ij,i->j", np.minimum(counts, 1.0, out=ratios), telling[some])
        best, part = float(alone.max()), weights.own / (weights.own + self.lending * (1 - weights.own) or 1.0)
        if best > 0 and weights.own:
            words = np.maximum(words, alone * (part * float(words.max()) / best))
        self.words = words
        self.letters = self._other_forms()
        every = float(telling.sum())
        covered = (covered + self.letters) / every if every else (words > 0).astype(np.float64)
        self.covered: Floats = np.minimum(covered, 1.0)
        """Which part of the query each place has, from 0 to 1, terms by what they tell."""
        if weights.letters and self.query.is_foreign:
            asked = list(chain.from_iterable(self.query.words.values()))
            together, share = self._sharing(*self.arrays.spelled_like(asked))
            together[share < _BY_CHANCE] = 0.0
            best = float((self.words + self.letters).max())
            self.letters += _ALL_LETTERS * best / (float(together.max()) or 1.0) * together
            self.covered = np.maximum(self.covered, share)

    def _with_neighbours(self, start: int, terms: int) -> Floats:
        """Return how often some terms occur at each place, with a share of each one added to the places around it."""
        here = slice(*np.searchsorted(self.term, (start, start + terms)))
        place, reach = self.place[here], self.weights.reach
        neighbours = self.layout.neighbours(self.weights)
        shares = neighbours.factors[:, place] * self.count[here]
        shares[1:] *= self.lending
        # What is lent beyond either end is 0, and has room there.
        width = self.layout.place_count + 2 * reach
        at = (self.term[here] - start) * width + place + reach + neighbours.offsets[:, None]
        together = np.bincount(at.ravel(), shares.ravel(), terms * width)
        # Of nothing at all it counts in integers.
        return together.astype(np.float64, copy=False).reshape(terms, width)[:, reach : width - reach]

    def _add_speakers_and_dates(self, counts: Floats, start: int) -> None:
        layout, weights = self.layout, self.weights
        for code, numbers in self._speaker_terms.items() if weights.speaker else ():
            for number in numbers:
                if start <= number < start + len(counts):
                    counts[number - start, (layout.speaker == code)[layout.item_at]] += weights.speaker
        for number, term in enumerate(self.query.terms[start : start + len(counts)]):
            if term in self.query.dates and weights.date:
                days, day = layout.dates
                meant = np.array([term in date_terms(each) for each in days])
                counts[number, meant[day][layout.item_at]] += weights.date

    def _other_forms(self) -> Floats:
        """Return the score of each place by words that share most of their letters with a term of the query."""
        scores = np.zeros(self.layout.place_count)
        found = _FOUND_TERM if self.query.is_foreign else 0.0
        for term, times in zip(self.query.terms if self.weights.letters else (), self._times, strict=False):
            weight = self.weights.letters * (1.0 if term in self.missing else found)
            if weight:
                groups, places, count = self.arrays.spelled_like(self.query.words[term], _MOST_LETTERS)
                scores += weight / max(count, 1) * self._sharing(groups, places, count, times)[0]
        return scores

    def _sharing(self, groups: Ints, places: Ints, count: int, times: float = 1.0) -> tuple[Floats, Floats]:
        """Return the score of each place by the groups of letters that it has, and which part of all groups it has."""
        layout, k1 = self.layout, self.weights.saturation
        keys, often = _counted(groups * layout.place_count + places)
        group, place = np.divmod(keys, layout.place_count)
        told = rarities(np.bincount(group, minlength=count) * times, self._passages)
        part = np.bincount(place, told[group], layout.place_count) / (told.sum() or 1.0)
        return _bm25(told[group], often, place, _held_back(layout.lengths, k1, _LENGTH_ALONE), k1), part

    @property
    def together(self) -> float:
        """The greatest part of what is asked for that one place has, terms by what they tell; figures tell all.

        Elsewhere than in English other forms of the words are found by their letters alone: 1.
        """
        query, layout = self.query, self.layout
        people = {self.name, *(name for name, code in self.arrays.speakers.items() if code in self._speaker_terms)}
        names = {term for name in people for term in query.stems(name)}  # They are not embedded.
        asked = [number for number, term in enumerate(query.terms) if term not in names | query.dates]
        if query.language != "english" or not asked:
            return 1.0
        every = float(self.told[asked].sum())
        tells = np.zeros(len(query.terms))
        tells[asked] = [self.told[number] if query.terms[number].isalpha() else every for number in asked]
        return float(np.bincount(self.place, tells[self.term], layout.place_count).max()) / every

    @cached_property
    def unheard(self) -> tuple[str, ...]:
        """The words of the query that no item has in any form, but for those that say when."""
        words = self.query.words
        missing = [words[term] for term in self.missing if term not in self.query.when]
        return tuple(word for forms in missing if not self._has_form(forms) for word in forms)

    def _has_form(self, words: Sequence[str]) -> bool:
        """Return True if any item has a word that shares most of its letters with these."""
        return len(self.arrays.spelled_like(words, _SAME_WORD)[1]) > 0

    @property
    def heard(self) -> float:
        """The part of the query's terms that any item has, but for those that say when.

        In a few items most words were never said, which tells nothing: the fewer there are, the less it counts.
        """
        asked = [term for term in self.query.terms if term not in self.query.when]
        if not asked:
            return 1.0
        telling = min(1.0, len(self.layout) / _ENOUGH_ITEMS)
        return 1 - telling * len(set(asked).intersection(self.missing)) / len(asked)

    # What else speaks for an item

    @cached_property
    def speaking(self) -> Flags:
        """The items that were said by whom the query is about."""
        return self.named | self.perhaps | self._of_asked_person()

    def _of_asked_person(self) -> Flags:
        """Return what was said by whom a query in the first person is about: the user, or an assistant.

        Where no assistant is known by its role, what a user says is told by its own first person.
        """
        asked, words = self.query.person
        layout, speakers = self.layout, self.arrays.speakers
        if not asked:
            return np.zeros(len(layout), np.bool_)
        there = set(np.unique(layout.speaker).tolist())
        roles = {code: speaker.casefold() for speaker, code in speakers.items() if code in there}
        names = {code: is_role(speaker) for speaker, code in speakers.items()}
        assistants = [code for code, role in roles.items() if role in ASSISTANTS]
        if assistants:
            users = [code for code, role in roles.items() if not names[code] or role in ("user", "human")]
            return np.isin(layout.speaker, users if asked == "user" else assistants)
        return self._having_any(self.query.stems(" ".join(words)) if asked == "user" else (), self.query.language)

    @property
    def crowding(self) -> float:
        """How many times tenfold more sittings there are than a few; 0 for a few."""
        return max(0.0, log10(self._sittings / _FEW_SITTINGS))

    @property
    def told_in_sitting(self) -> Floats:
        """Which part of the query each sitting has, terms by how few sittings have them."""
        layout, terms = self.layout, len(self.query.terms)
        sittings = len(layout.sitting_starts)
        has: Flags = np.zeros(terms * sittings, np.bool_)
        has[self.term * sittings + layout.sitting[layout.item_at[self.place]]] = True
        term, sitting = np.divmod(np.flatnonzero(has), sittings)
        told = rarities(np.bincount(term, minlength=terms) * self._times, self._sittings)
        return np.bincount(sitting, told[term], sittings) / (float(told.sum()) or 1.0)

    @cached_property
    def standing(self) -> Flags:
        """The items that tell what holds from now on, and were not said by an assistant."""
        layout = self.layout
        if layout.standing is None:
            names = self.arrays.speakers.items()
            assistants = [code for speaker, code in names if speaker.casefold() in ASSISTANTS]
            said = layout.states & ~np.isin(layout.speaker, assistants)
            layout.standing = said & self.arrays.holding[layout.rows]
        return layout.standing

    @cached_property
    def telling_time(self) -> Flags:
        """The items that mention a time."""
        return self._having_any(_TIME_TERMS, "english")

    def _having_any(self, terms: Iterable[str], language: str | None) -> Flags:
        """Return which items have any of some stems. It is kept with the layout: few lists are ever asked for."""
        stems, layout = tuple(sorted(set(terms))), self.layout
        key = language, stems
        if key not in layout.having:
            found = layout.having[key] = np.zeros(len(layout), np.bool_)
            found[layout.item_at[self.arrays.places_of_any({language: stems})]] = True
        return layout.having[key]

    def found_in(self, items: Ints) -> list[tuple[str, ...]]:
        """Return the terms that occur in each of some items themselves."""
        terms = self.query.terms
        having = np.zeros((len(self.layout), len(terms)), np.bool_)
        having[self.layout.item_at[self.place], self.term] = True
        return [tuple(compress(terms, row)) for row in having[items].tolist()]


@lru_cache(maxsize=4096)
def _stems(text: str, language: str | None) -> frozenset[str]:
    return frozenset(map(stemmer_of(language), index_words(text)))


def _counted(numbers: Ints) -> tuple[Ints, Floats]:
    """Return the distinct numbers in order, and how often each occurs."""
    found = np.sort(numbers)  # np.unique hashes, which takes longer.
    new = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    first = np.flatnonzero(new)
    often = np.ones(len(first)) if len(first) == len(found) else np.diff(first, append=len(found)).astype(np.float64)
    return found[first], often


def rarities(frequencies: NDArray[Any], total: float) -> Floats:
    """Return how much each term tells, from the number of passages that have it."""
    found: Floats = np.log(1 + np.maximum(total - frequencies + 0.5, 0.5) / (frequencies + 0.5))
    return found


def _held_back(lengths: Floats, k1: float, b: float) -> Floats:
    """Return what BM25 holds places of these lengths back by; ``k1`` and ``b`` are its own."""
    mean = round(float(np.add.reduce(lengths)) / max(len(lengths), 1), EXACT)
    return k1 * (1 - b) + _HARDLY + (k1 * b / (mean or 1.0)) * lengths


def _bm25(told: Floats, counts: Floats, places: Ints, held_back: Floats, k1: float) -> Floats:
    """Return the score of each place, from what terms tell that occur so often at some of them."""
    found = np.bincount(places, told * (k1 + 1) * counts / (counts + held_back[places]), len(held_back))
    return found.astype(np.float64, copy=False)
