"""The items of a scope as arrays, from which every ranking is computed.

Items go by numbers of the engine's own, in the order of adding. A change appends what is new and marks what is gone;
a :class:`Layout` then has everything in the order of the conversations, so that neighbours stand beside each other. A
long item has several places there, one for each passage; a turn beside it has only its nearest part as a neighbour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, count, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memoranda.loops import give_way
from memoranda_backend.ranking.dates import microseconds
from memoranda_backend.ranking.embedding import normalised
from memoranda_backend.ranking.names import ASSISTANTS, MOST_NAMES, UNKNOWN, Calls, beginning_of, turns_of_callers
from memoranda_backend.ranking.passages import SILENCE, Passage, Weights
from memoranda_backend.ranking.postings import Column, Postings, spans, stable_order
from memoranda_backend.ranking.trigrams import Spellings
from memoranda_backend.text.languages import LANGUAGES_OF, STANDING_OF, STOPWORDS_OF, usual_language
from memoranda_backend.text.stemming import WordForms, having_any, stemmer_of
from memoranda_backend.text.telling import LOOKED_AT, how_telling
from memoranda_backend.text.terms import fold_words, index_words, passage_count

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Wanted: TypeAlias = Flags | Callable[[int], bool]
"""Which items of a layout may be found: a flag for each of them, or what tells it of one."""

_QUESTION_MARKS = ("?", "？", "؟")
_LONG_QUESTION = 30
"""A turn of more terms than this tells something, even if it ends in a question."""

_NOT_PEOPLE = ASSISTANTS | {"tool", "system", "summary"}
"""The roles of items that no person wrote."""

_SAME = 1e-9
_DIGITS = 6
"""To how many digits a similarity is known: equal vectors differ in the last of float32's, by where they stand."""

_DAY = 86_400_000_000

_BYTES_OF_AN_ITEM = 400
"""About what the objects of an item take beside its texts, and what it has in a layout."""

_ADDED_AT_ONCE = 1_000
"""How many items are added in one go, between which other threads have their turn."""

_HEARD = 256
"""How many items tell the language of a scope, at most twice as many; they are taken at equal distances."""

_MOST_GONE = 8
"""One in how many items may be gone, and a few more, before it is better to start anew."""
_FEW = 64


def _as_written(pair: str) -> list[str]:
    return [pair]


_STANDING_TERMS = {
    language: [stemmer_of(language)(word) for word in fold_words(" ".join(words), _as_written)]
    for language, words in ((None if name == "-" else name, words) for name, words in STANDING_OF.items())
}
"""The stems of words that mark instructions and preferences, by language."""

_NUMBERED = {language: number for number, language in enumerate(STOPWORDS_OF)}


class Added(NamedTuple):
    """An item to be added: the engine's number of it, the passage, and its vectors, packed, if it has any."""

    number: int
    passage: Passage
    vectors: bytes = b""
    run: int = 0
    """Which of several windows of a conversation it stands in; what lies between windows is unknown."""


class ScopeArrays:
    """The items of a scope. Only one thread at a time may use it."""

    def __init__(self, passage: float, dimension: int = 0, *, as_given: bool = False) -> None:
        self._passage = passage
        self.as_given = as_given
        """True if items of a conversation follow each other as they were given, and not by their times."""
        self._dimension = dimension
        self.vocabulary, self.speakers, self._conversations = _codes(), _codes(), _codes()
        self.keys: list[str] = []
        self.beginnings: list[str] = []
        """How the text of each row begins, where people are called by name."""
        self._calls = Calls()
        self.rows: dict[int, int] = {}
        """The row of each item that is there, by its number."""
        self._numbers, self._times, self._alive = Column(np.int64), Column(np.int64), Column(np.bool_)
        self._speaker, self._conversation, self._run = Column(np.int32), Column(np.int32), Column(np.int32)
        self._lengths, self._parts = Column(np.int32), Column(np.int32)
        self._said = Column(np.int64)
        """A number that stands for the text of each row."""
        self._asks, self._states, self._speaks = Column(np.bool_), Column(np.bool_), Column(np.bool_)
        self._tells, self._figures = Column(np.float32), Column(np.bool_)
        self._untold: list[str] = []
        """The beginnings of the last rows, of which it is not known yet how much they tell: few searches ask for it."""
        self._occurrences = Postings()
        """The places at which each term occurs, as often as it does."""
        self._spellings = Spellings()
        self._forms = WordForms()
        self._common, self._looked_up = Column(np.int32, 2), 0
        """The words that are common in a language, each with its language, and how many words were looked up."""
        self._holding_words, self._holding = Column(np.bool_), Column(np.bool_)
        """Which words mark what holds from now on, and which rows have one."""
        self._vectors = Column(np.float32, dimension) if dimension else None
        self._vector_counts = Column(np.int32)
        self._place_count = 0
        self.measured: tuple[bytes, Any] | None = None
        """What was measured of these items; see :mod:`memoranda_backend.ranking.fusion`."""
        self._gone = 0
        self._texts = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_vectors(self) -> bool:
        """True if vectors of items are kept here."""
        return self._vectors is not None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        held = [each.size for each in vars(self).values() if isinstance(each, (Column, Postings, Spellings))]
        return sum(held) + self._texts + _BYTES_OF_AN_ITEM * len(self.keys) + 120 * len(self.vocabulary)

    @property
    def is_worn(self) -> bool:
        """True if so many items are gone that it is better to start anew."""
        return _MOST_GONE * (self._gone - _FEW) > len(self.keys)

    def remove(self, numbers: Iterable[int]) -> None:
        """Mark items as gone."""
        rows = [self.rows.pop(number) for number in numbers if number in self.rows]
        if rows:
            self._alive.values[rows] = False
            self._gone += len(rows)
            self._changed()

    def add(self, added: Sequence[Added]) -> None:
        """Append items; those that were there by the same number are gone then."""
        self.remove([each.number for each in added])
        for start in range(0, len(added), _ADDED_AT_ONCE):
            if start:
                give_way()
            self._append(added[start : start + _ADDED_AT_ONCE])
        if added:
            self._changed()

    def _append(self, added: Sequence[Added]) -> None:
        numbers, passages, vectors, runs = zip(*added, strict=True)
        keys, texts, speakers, dates, conversations, held = zip(*passages, strict=True)
        words = [index_words(text) if terms is None else terms for text, terms in zip(texts, held, strict=True)]
        first = len(self.keys)
        lengths = np.fromiter(map(len, words), np.int32, len(words))
        self._add_terms(words, lengths)
        self.rows.update(zip(numbers, range(first, first + len(numbers)), strict=True))
        self._numbers.extend(numbers)
        self.keys += keys
        beginnings = list(map(beginning_of, texts))
        self.beginnings += beginnings
        self._texts += sum(map(len, keys)) + sum(map(len, beginnings))
        self._alive.extend(np.ones(len(numbers), np.bool_))
        self._times.extend(microseconds(dates))
        self._speaker.extend(list(map(self.speakers.__getitem__, speakers)))
        self._conversation.extend(list(map(self._conversations.__getitem__, conversations)))
        self._run.extend(runs)
        self._said.extend(list(map(hash, texts)))
        self._asks.extend(["?" in text for text in texts])
        states = [not text.rstrip().endswith(_QUESTION_MARKS) for text in texts]
        self._states.extend(np.array(states, np.bool_) | (lengths > _LONG_QUESTION))
        # An assistant tells nothing of the person it talks to.
        said = ["" if who in _NOT_PEOPLE else text[:LOOKED_AT] for who, text in zip(speakers, texts, strict=True)]
        self._untold += said
        self._texts += sum(map(len, said))
        self._speaks.extend([bool(terms) or bool(text.strip()) for terms, text in zip(words, texts, strict=True)])
        if self._vectors is not None:
            self._vectors.extend(np.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, self._dimension))
            self._vector_counts.extend([len(packed) // (4 * self._dimension) for packed in vectors])

    def _add_terms(self, words: Sequence[Sequence[str]], lengths: NDArray[np.int32]) -> None:
        terms = np.fromiter(map(self.vocabulary.__getitem__, chain.from_iterable(words)), np.int32, int(lengths.sum()))
        parts = np.ones(len(words), np.int32)
        for at in np.flatnonzero(lengths > self._passage).tolist() if self._passage else ():
            parts[at] = passage_count(int(lengths[at]), self._passage)
        starts = self._place_count + np.cumsum(parts) - parts
        places = np.repeat(starts, lengths)
        if parts.max(initial=1) > 1:
            ends = np.cumsum(lengths)
            for at in np.flatnonzero(parts > 1).tolist():
                count, length = int(parts[at]), int(lengths[at])
                within = np.arange(1, length + 1, dtype=np.int64)
                places[ends[at] - length : ends[at]] += (within * count - 1) // length
        self._occurrences.extend(terms, places)
        self._lengths.extend(lengths)
        self._parts.extend(parts)
        self._place_count += int(parts.sum())

    @property
    def figures(self) -> Flags:
        """Which terms of the vocabulary begin with a digit."""
        unseen = islice(self.vocabulary, self._figures.used, None)
        self._figures.extend([word[:1].isdigit() for word in unseen])
        return self._figures.values

    def _changed(self) -> None:
        self.__dict__.pop("layout", None)
        self.__dict__.pop("language", None)

    @cached_property
    def layout(self) -> Layout:
        """The items in the order of their conversations."""
        return Layout(self)

    @cached_property
    def language(self) -> str | None:
        """The language that most items are in, judged by some of them; None if it cannot be told."""
        step = -(-len(self.layout) // _HEARD) or 1
        words = self._words_of(self.layout.rows[::step])[0]
        self._note_common_words()
        common = self._common.values
        said = np.bincount(words, minlength=len(self.vocabulary))[common[:, 0]]
        votes = np.bincount(common[:, 1], said, len(STOPWORDS_OF)).tolist()
        return usual_language(dict(zip(STOPWORDS_OF, votes, strict=True)), len(words))

    def _note_common_words(self) -> None:
        """Note which new words are among the commonest of which languages."""
        new = islice(self.vocabulary, self._looked_up, None)
        spoken = [(word, language) for word in new for language in LANGUAGES_OF.get(word, ())]
        self._looked_up = len(self.vocabulary)
        if spoken:
            self._common.extend([(self.vocabulary[word], _NUMBERED[language]) for word, language in spoken])

    def _words_of(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the numbers of all words of some rows, and for each the place of its row among them."""
        lengths = self._lengths.values
        ends = np.cumsum(lengths, dtype=np.int64)[rows]
        which, at = spans(ends - lengths[rows], ends)  # The words of all rows follow each other.
        words = self._occurrences.keys
        return words[at], which

    def occurrences(self, terms: Mapping[str, Sequence[str]], language: str | None) -> tuple[Ints, Ints]:
        """Return the numbers of stems among those given, and the places of the layout at which words have them.

        The words of the scope are stemmed in this language. With each stem come words that surely have it.
        """
        forms = [self._forms.of(self.vocabulary, term, language, words) for term, words in terms.items()]
        which, places = self._occurrences.of(np.fromiter(chain.from_iterable(forms), np.int64))
        return self._placed(np.repeat(np.arange(len(forms)), list(map(len, forms)))[which], places)

    def places_of_any(self, stems: Mapping[str | None, Iterable[str]]) -> Ints:
        """Return the places of the layout at which words stand that have any of some stems, given by language."""
        forms = {
            number
            for language, terms in stems.items()
            for term in terms
            for number in self._forms.of(self.vocabulary, term, language)
        }
        return self._placed(*self._occurrences.of(np.fromiter(forms, np.int64, len(forms))))[1]

    def _placed(self, which: Ints, added: Ints) -> tuple[Ints, Ints]:
        """Return places of the layout for those in the order of adding, without those of items that are gone."""
        places = self.layout.where[added]
        there = places >= 0
        return (which[there], places[there]) if self._gone else (which, places)

    def spelled_like(self, terms: Sequence[str], least: float = 0.0) -> tuple[Ints, Ints, int]:
        """Return where words occur that share letters with terms, by the groups of letters that they share.

        These are the numbers of the groups, the places, and how many groups the terms have. Of a word or of the terms,
        whichever has fewer groups, more than the part ``least`` of them must be shared.
        """
        self._spellings.add(self.vocabulary)
        groups, words, count = self._spellings.like(terms, least)
        which, places = self._placed(*self._occurrences.of(words))
        return groups[which], places, count

    def similarities(self, vector: Sequence[float], damping: float) -> Floats:
        """Return how similar each item of the layout is to a vector: by its nearest passage, held back if it has many.

        An item without a vector is as similar as an unrelated one: 0.
        """
        assert self._vectors is not None, "there is no embedder"
        # Not as a product of matrices, which starts threads: other searches need the processors, too.
        query = np.asarray(normalised(vector), np.float32)
        compared = np.einsum("ij,j->i", self._vectors.values, query, dtype=np.float32)
        cosines: Floats = compared.astype(np.float64).round(_DIGITS)
        counts = self._vector_counts.values
        if len(cosines) == len(counts) and counts.max(initial=1) == 1:
            return cosines[self.layout.rows]
        found = np.zeros(len(counts))
        having = np.flatnonzero(counts)
        starts = (np.cumsum(counts) - counts)[having]
        if len(having):
            powers = np.array([1.0, *(count**damping for count in range(1, int(counts.max()) + 1))])
            found[having] = np.maximum.reduceat(cosines, starts) / powers[counts[having]]
        return found[self.layout.rows]

    def mean_vectors(self, items: Ints) -> tuple[NDArray[np.float32], Flags]:
        """Return one vector of length one for each of some items of the layout, and which of them have one."""
        assert self._vectors is not None, "there is no embedder"
        counts = self._vector_counts.values
        starts, counts = (np.cumsum(counts) - counts)[self.layout.rows[items]], counts[self.layout.rows[items]]
        found = np.zeros((len(items), self._dimension), np.float32)
        having = np.flatnonzero(counts)
        found[having] = self._vectors.values[starts[having]]
        for at in np.flatnonzero(counts > 1).tolist():
            found[at] = self._vectors.values[starts[at] : starts[at] + counts[at]].mean(axis=0)
        return of_length_one(found)

    def terms_of(self, items: Ints) -> tuple[Ints, Ints]:
        """Return the distinct terms of some items of the layout, and the place of the one that has it among them.

        They come in the order of the terms.
        """
        terms, of = self._words_of(self.layout.rows[items])
        order = stable_order(terms)  # The items of a term are in order then, since they come one after the other.
        terms, of = terms[order], of[order]
        first = np.ones(len(terms), np.bool_)
        first[1:] = (terms[1:] != terms[:-1]) | (of[1:] != of[:-1])
        return terms[first], of[first]

    @property
    def tells(self) -> Floats:
        """How much each item of the layout tells by its shape. It is found out when it is first asked for."""
        while self._untold:
            some = self._untold[:_ADDED_AT_ONCE]
            self._tells.extend(list(map(how_telling, some)))
            self._texts -= sum(map(len, some))
            del self._untold[:_ADDED_AT_ONCE]
            if self._untold:
                give_way()
        found: Floats = self._tells.values[self.layout.rows].astype(np.float64)
        return found

    def numbers_from(self, row: int) -> Ints:
        """Return the numbers of the rows from one on, in the order of adding. A row that is gone keeps its number."""
        numbers: Ints = self._numbers.values[row:]
        return numbers

    @property
    def holding(self) -> Flags:
        """Which rows have a word that marks an instruction or a preference. The new ones are read when it is asked."""
        if self._holding_words.used < len(self.vocabulary):
            self._holding_words.extend(
                having_any([*islice(self.vocabulary, self._holding_words.used, None)], _STANDING_TERMS)
            )
        new = np.arange(self._holding.used, len(self.keys))
        if len(new):
            words, which = self._words_of(new)
            found = np.zeros(len(new), np.bool_)
            found[which[self._holding_words.values[words]]] = True
            self._holding.extend(found)
        return self._holding.values

    def without(self, text: str, flags: Flags, is_wanted: Callable[[int], bool]) -> Flags:
        """Return flags of the layout, taken back where an item seems to say this text and is not wanted."""
        alike = np.flatnonzero(flags & (self._said.values[self.layout.rows] == hash(text)))
        if len(alike):
            flags = flags.copy()
            flags[alike] = list(map(is_wanted, alike.tolist()))
        return flags

    @property
    def embedded(self) -> Flags:
        """Which items of the layout have a vector."""
        return self._vector_counts.values[self.layout.rows] > 0

    def nearest_part(self, item: int, vector: Sequence[float]) -> tuple[int, int]:
        """Return which of how many embedded passages of an item is nearest to a vector."""
        assert self._vectors is not None, "there is no embedder"
        row = int(self.layout.rows[item])
        end, count = int(self._vector_counts.values[: row + 1].sum()), int(self._vector_counts.values[row])
        if count <= 1:
            return 0, 1
        compared = np.einsum("ij,j->i", self._vectors.values[end - count : end], np.asarray(vector, np.float32))
        return int(compared.round(_DIGITS).argmax()), count

    def calling(self, name: str) -> Called:
        """Return the items of the layout that call a person by name, and what follows from that. It is kept there."""
        layout = self.layout
        if name not in layout.calling:
            if len(layout.calling) == MOST_NAMES:
                layout.calling.clear()
            calling, greeted = self._calls.of(name, self.beginnings)
            is_calling = np.zeros(len(self.keys), np.bool_)
            is_calling[calling] = True
            items = np.flatnonzero(is_calling[layout.rows])
            layout.calling[name] = Called(items, bool(self._alive.values[greeted].any()), layout.perhaps_of(items))
        return layout.calling[name]


class Called(NamedTuple):
    """The items that call a person by name, and those that may be that person's own.

    ``greeted`` says whether one has the name beside a greeting: it is a name then, and not just any word.
    """

    items: Ints
    greeted: bool
    perhaps: Flags


class Layout:
    """The items that are there in the order of their conversations, with arrays by item and by place.

    Places of one ``stretch`` follow each other without a long silence; a ``sitting`` is a stretch with those parts of
    it that stand in other windows.
    """

    def __init__(self, arrays: ScopeArrays) -> None:
        alive = np.flatnonzero(arrays._alive.values)
        conversation, run, times = (each.values[alive] for each in (arrays._conversation, arrays._run, arrays._times))
        moments = np.zeros_like(times) if arrays.as_given else times
        order = np.lexsort((arrays._numbers.values[alive], moments, run, conversation))
        self.rows = rows = alive[order]
        self.numbers: Ints = arrays._numbers.values[rows]
        self.times: Ints = times[order]
        self.speaker = arrays._speaker.values[rows]
        self.states: Flags = arrays._states.values[rows]
        self.speaks: Flags = arrays._speaks.values[rows]
        apart = np.ones(len(rows), np.bool_)
        apart[1:] = (np.diff(conversation[order]) != 0) | (np.abs(np.diff(self.times)) > SILENCE)
        self.sitting_starts = np.flatnonzero(apart)
        self.sitting = np.cumsum(apart) - 1
        apart[1:] |= np.diff(run[order]) != 0
        self.stretch: Ints = np.cumsum(apart)
        self.having: dict[tuple[str | None, tuple[str, ...]], Flags] = {}
        """The items that have any of some stems of a language."""
        self.standing: Flags | None = None
        """The items that tell what holds from now on, once that is known."""
        self.calling: dict[str, Called] = {}
        """Whom items call by name, for the names that were asked for last."""
        self.telling: dict[bytes, tuple[Ints, Floats]] = {}
        """Choices of items in the order of how much they tell, with their scores."""
        self._pairs: dict[int, tuple[list[Flags], Ints]] = {}
        self._neighbours: tuple[Weights, Neighbours] | None = None
        self._set_places(arrays)
        self._set_turns(arrays, apart)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def dates(self) -> tuple[list[str], Ints]:
        """The days on which items were created, and which of them is that of each item."""
        days, day = np.unique(self.times // _DAY, return_inverse=True)
        return days.astype("datetime64[D]").astype(str).tolist(), day

    def _set_places(self, arrays: ScopeArrays) -> None:
        parts, lengths = arrays._parts.values, arrays._lengths.values
        self.parts = parts[self.rows]
        self.first_place = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.parts, out=self.first_place[1:])
        self.place_count = int(self.first_place[-1])
        starts = np.cumsum(parts) - parts
        where = np.full(arrays._place_count, -1, np.int64)
        self.has_passages = self.place_count > len(self)
        if not self.has_passages and len(parts) == arrays._place_count:
            self.item_at = np.arange(len(self))
            self.lengths = lengths[self.rows].astype(np.float64)
            where[self.rows] = self.item_at
        else:
            self.item_at = np.repeat(np.arange(len(self)), self.parts)
            part = np.arange(self.place_count) - self.first_place[self.item_at]
            of, length = self.parts[self.item_at], lengths[self.rows][self.item_at].astype(np.int64)
            self.lengths = ((part + 1) * length // of - part * length // of).astype(np.float64)
            where[starts[self.rows][self.item_at] + part] = np.arange(self.place_count)
        self.where = where
        """The place of each place in the order of adding; -1 for those of items that are gone."""
        self.divided: Flags = self.parts[self.item_at] > 1

    def _set_turns(self, arrays: ScopeArrays, apart: Flags) -> None:
        unknown = np.zeros(len(arrays.speakers), np.bool_)
        unknown[[arrays.speakers[name] for name in UNKNOWN if name in arrays.speakers]] = True
        new = apart.copy()
        new[1:] |= (np.diff(self.speaker) != 0) | unknown[self.speaker[1:]]
        self.turn: Ints = np.cumsum(new)
        """What one known speaker says without a break is one turn."""
        self.asks: Flags = arrays._asks.values[self.rows]

    def perhaps_of(self, calling: Ints) -> Flags:
        """Return which items may be a person's own, given those that call the person by name.

        People do not call themselves. All others may be theirs, if any does, and where two take turns, every other one.
        """
        perhaps = np.zeros(len(self), np.bool_)
        if len(calling):
            starts = np.append(np.flatnonzero(np.diff(self.stretch, prepend=-1)), len(self))
            ends = np.searchsorted(starts, calling, side="right")
            stretches = zip(starts[ends - 1].tolist(), starts[ends].tolist(), strict=True)
            of = dict(zip(calling.tolist(), stretches, strict=True))
            perhaps[:] = True
            perhaps[sorted(turns_of_callers(of, of.__getitem__))] = False
        return perhaps

    def by_item(self, values: NDArray[Any], best: np.ufunc = np.maximum) -> NDArray[Any]:
        """Return one value for each item, of those of its places."""
        return best.reduceat(values, self.first_place[:-1]) if self.has_passages else values

    def pairs(self, reach: int) -> tuple[list[Flags], Ints]:
        """Return at each distance up to ``reach`` which items have another one of their stretch so far after them.

        With it comes how many of these each item has around it, before and after.
        """
        if reach not in self._pairs:
            followed = [_followed(self.stretch, far) for far in range(1, reach + 1)]
            around = np.zeros(len(self), np.int64)
            for far, found in enumerate(followed, start=1):
                around += found + _rolled(found, far).astype(np.int64)
            self._pairs[reach] = followed, around
        return self._pairs[reach]

    def neighbours(self, weights: Weights) -> Neighbours:
        """Return what each place lends to those around it: a long turn's passages say enough and take nothing."""
        if self._neighbours is None or self._neighbours[0] != weights:
            stretch, turn = self.stretch[self.item_at], self.turn[self.item_at]
            last = self.first_place[1:] - 1
            offsets, factors = [0], list[Floats]([np.ones(self.place_count)])
            borrowed = np.zeros(self.place_count)
            for far, later, earlier in weights.faded():
                after = _followed(stretch, far)
                # Whatever comes round from one end to the other is False, or 0.
                for offset, share, there in ((far, later, after), (-far, earlier, _rolled(after, far))):
                    factor = (there & ~_rolled(self.divided, -offset)) * np.float64(share)
                    borrowed += _rolled(factor * self.lengths, offset)
                    if offset == 1:
                        factor[last[self.asks]] *= 1 + weights.answer
                    factor[_rolled(turn, -offset) == turn] *= weights.same_speaker
                    offsets.append(offset)
                    factors.append(factor)
            self._neighbours = weights, Neighbours(np.array(offsets), np.array(factors), borrowed)
        return self._neighbours[1]


class Neighbours(NamedTuple):
    """What places lend to those around them, and to themselves.

    For each of the ``offsets`` there is a row of ``factors``: how much of a term at a place counts at the one so far
    after it. ``borrowed`` is the number of terms that each place borrows, as far as these count for its length.
    """

    offsets: Ints
    factors: Floats
    borrowed: Floats


def _rolled(values: NDArray[Any], by: int) -> NDArray[Any]:
    """Return values moved on, with the last ones first. Much faster than numpy's own for short arrays."""
    return np.concatenate((values[-by:], values[:-by]))


def _followed(stretch: Ints, far: int) -> Flags:
    """Return where another one of the stretch stands so far after."""
    found = np.zeros(len(stretch), np.bool_)
    found[:-far] = stretch[far:] == stretch[:-far]
    return found


def of_length_one(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], Flags]:
    """Return vectors brought to length one, and which of them are not zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return vectors / np.maximum(lengths, np.float32(1e-9))[:, None], lengths > 0


def _codes() -> defaultdict[str, int]:
    """Return a dict that gives each new key the next number."""
    return defaultdict(count().__next__)
