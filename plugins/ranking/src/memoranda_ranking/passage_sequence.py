"""The passages of a ranking in sequence, each among its neighbours.

A long item is several consecutive passages. Each is scored by itself, and the passages beside it are its neighbours, as
the turns around a short item are. So every part of a long answer is found, but a turn beside it has only its nearest
part as a neighbour.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import accumulate, chain, compress, pairwise
from math import fsum, inf
from operator import add, mul
from typing import TypeVar

from memoranda_ranking.dates import date_terms
from memoranda_ranking.names import ASSISTANTS, UNKNOWN, asked_person, is_role
from memoranda_ranking.participants import called_by_name, turns_of_callers
from memoranda_ranking.passage_splitting import passage_at, passage_count
from memoranda_ranking.passages import Passage, Weights, are_apart
from memoranda_ranking.stemming import stem
from memoranda_ranking.terms import MONTHS, index_terms

_TIME_WORDS = """
yesterday today tonight tomorrow ago last next week weekend month year morning evening night recently since soon lately
earlier monday tuesday wednesday thursday friday saturday sunday
"""
_TIME_TERMS = frozenset(map(stem, (*_TIME_WORDS.split(), *MONTHS))) - {stem("may")}
_QUESTION_MARKS = ("?", "？", "؟")
_LONG_QUESTION = 30
"""A turn of more terms than this tells something, even if it ends in a question."""

_LEAST_LENT = 0.25
"""How much of what neighbours lend counts where the terms of a query stand near each other only by chance."""

T = TypeVar("T")

Counts = dict[int, float]
"""How often a term occurs, by place in the row; places where it does not occur are left out."""


def joined(windows: Iterable[Sequence[Passage]]) -> Sequence[Sequence[Passage]]:
    """Return the windows with those that share passages made into one, each passage once."""
    windows = list(windows)
    times = Counter([passage.key for window in windows for passage in window])
    shared = {key for key, count in times.items() if count > 1}
    runs: list[Sequence[Passage]] = []
    sharing: list[Sequence[Passage]] = []
    for window in windows:
        (runs if shared.isdisjoint([passage.key for passage in window]) else sharing).append(window)
    passages = {passage.key: passage for window in sharing for passage in window}
    following: dict[str, str] = {}
    preceded: set[str] = set()
    for window in sharing:
        for left, right in pairwise(window):
            if left.key not in following and right.key not in preceded:
                following[left.key] = right.key
                preceded.add(right.key)
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


class PassageSequence:
    """Passages in one row, with the stretches of consecutive turns of the same session that stand in it.

    ``items`` are the passages as they were given, and ``item_at`` says which of them stands at a place; at the
    ``divided`` ones stands a part of an item. ``sittings`` are the first item and the end of each stretch, and
    ``stretches`` its first place and its end.
    """

    def __init__(self, runs: Sequence[Sequence[Passage]], weights: Weights) -> None:
        self.weights = weights
        self.items = list(chain.from_iterable(runs))
        self.terms = [each.terms if each.terms is not None else index_terms(each.text) for each in self.items]
        self.lengths = list(map(len, self.terms))
        self.item_at: Sequence[int] = range(len(self.items))
        self.first_place: Sequence[int] = range(len(self.items) + 1)
        self.divided: set[int] = set()
        if passage_count(max(self.lengths, default=0), weights.passage) > 1:
            self._divide()
        ends, beside = set(accumulate(map(len, runs))), pairwise(self.items)
        breaks = [at for at, (left, right) in enumerate(beside, start=1) if at in ends or are_apart(left, right)]
        self.sittings = list(pairwise([0, *breaks, len(self.items)]))
        self.stretches = [(self.first_place[first], self.first_place[end]) for first, end in self.sittings]

    def _divide(self) -> None:
        lengths, counts = self.lengths, [passage_count(length, self.weights.passage) for length in self.lengths]
        self.first_place = [0, *accumulate(counts)]
        self.item_at = [item for item, parts in enumerate(counts) for _ in range(parts)]
        self.lengths = []
        for place, length, parts in zip(self.first_place, lengths, counts, strict=False):
            self.lengths += [(part + 1) * length // parts - part * length // parts for part in range(parts)]
            if parts > 1:
                self.divided.update(range(place, place + parts))

    def __len__(self) -> int:
        return len(self.item_at)

    def age(self, item: int) -> tuple[str, int, str]:
        """Return what orders items that nothing else tells apart: when, which turn, and the key."""
        first, _ = self.sitting_of(item)
        return self.items[item].date, self.first_place[item] - self.first_place[first], self.items[item].key

    def passage(self, place: int) -> str:
        """Return about the words at a place of an item with several passages: not every word is one term."""
        item = self.item_at[place]
        first, end = self.first_place[item], self.first_place[item + 1]
        return passage_at(self.items[item].text, place - first, end - first) if end - first > 1 else ""

    def occurrences(self, keys: Mapping[str, Sequence[str]], counted: Iterable[str]) -> dict[str, Counts]:
        """Return, for each of the ``counted`` keys, how often words occur that stand for it in ``keys``."""
        found: dict[str, Counts] = {key: {} for key in counted}
        counts_of = {word: [found[key] for key in standing] for word, standing in keys.items()}
        wanted, is_wanted, first_place = counts_of.keys(), counts_of.__contains__, self.first_place
        for item, terms in enumerate(self.terms):
            if wanted.isdisjoint(terms):
                continue
            place, end = first_place[item], first_place[item + 1]
            if end == place + 1:
                for term in filter(is_wanted, terms):
                    for counts in counts_of[term]:
                        counts[place] = counts.get(place, 0.0) + 1.0
                continue
            at, length, parts = -1, len(terms), end - place
            for term in filter(is_wanted, terms):
                at = terms.index(term, at + 1)
                part = place + ((at + 1) * parts - 1) // length
                for counts in counts_of[term]:
                    counts[part] = counts.get(part, 0.0) + 1.0
        return found

    def items_at(self, places: Iterable[int]) -> set[int]:
        """Return the items that stand at places."""
        return set(map(self.item_at.__getitem__, places)) if self.divided else set(places)

    def lending(self, holders: Sequence[set[int]], told: Sequence[float], having: Sequence[float], total: int) -> float:
        """Return how much of what neighbours lend counts, up to 1, from the items that hold each term of a query.

        In a conversation its terms stand near each other, in a list of notes only by chance. ``told`` says how much
        each term tells, ``having`` how many items of the scope have it, and ``total`` how many there are.
        """
        reach, enough = self.weights.reach, self.weights.coherence
        if not any(holders) or not enough:
            return 1.0
        values = [0.0] * len(self.items)
        for items, tells in zip(holders, told, strict=True):
            for item in items:
                values[item] += tells * tells
        everywhere = fsum(tells * tells * items for tells, items in zip(told, having, strict=True))
        spaced = _spaced(values, self.sittings, reach)
        near = fsum(chain.from_iterable(map(mul, spaced, spaced[far:]) for far in range(1, reach + 1)))
        around = zip(values, _along(self.sittings, reach, add), strict=True)
        chance = fsum([value * (everywhere - value) * count for value, count in around])
        # A few pairs tell little: one of the most telling items, as it would be in a conversation, is added to them.
        one = max(values) ** 2
        times = (2 * near + (1 + enough) * one) / (max(chance, 0.0) / max(total - 1, 1) + one)
        return min(1.0, max(_LEAST_LENT, (times - 1) / enough))

    @cached_property
    def _going_on(self) -> list[int]:
        """The number of each place's turn, where any goes on: what one known speaker says without a break is one."""
        turns = list(range(len(self.items)))
        for item, (left, right) in enumerate(pairwise(self.items), start=1):
            if left.speaker not in UNKNOWN and left.speaker == right.speaker and not are_apart(left, right):
                turns[item] = turns[item - 1]
        return [turns[item] for item in self.item_at] if len(set(turns)) < len(turns) else []

    @cached_property
    def _asking(self) -> frozenset[int]:
        """The last places of the items that ask something."""
        ends = self.first_place
        return frozenset(ends[item + 1] - 1 for item, passage in enumerate(self.items) if "?" in passage.text)

    def with_neighbours(self, own: Sequence[Counts], lending: float) -> list[Counts]:
        """Return the counts of each term with a share of each one added to the places around it.

        A short turn needs what was said around it; one of several passages says enough by itself and takes nothing.
        """
        shares, alike = self._shares(own, lending), self.weights.same_speaker
        turns, divided = self._going_on, self.divided
        is_plain = not turns and not divided
        together = []
        for alone in own:
            counts = dict(alone)
            get = counts.get
            for place, count in alone.items():
                for offset, share in shares[place]:
                    near = place + offset
                    if not is_plain:
                        if near in divided:
                            continue
                        if turns and turns[near] == turns[place]:
                            share *= alike
                    counts[near] = get(near, 0.0) + share * count
            together.append(counts)
        return together

    def _shares(self, own: Iterable[Counts], lending: float) -> list[list[tuple[int, float]]]:
        """Return which share of what stands at each place counts how far from it in its stretch, later ones above 0."""
        reach, answer = self.weights.reach, 1 + self.weights.answer
        faded = _faded(self.weights, lending)
        every = [pair for far, after, before in faded for pair in ((far, after), (-far, before)) if pair[1] > 0]

        @cache
        def fitting(before: int, after: int, first: float = 1.0) -> list[tuple[int, float]]:
            fit = [(offset, share) for offset, share in every if -before <= offset <= after]
            return [(offset, share * first if offset == 1 else share) for offset, share in fit]

        shares = _along(self.stretches, reach, fitting)
        for place in self._asking.intersection(chain.from_iterable(own)):
            start, end = self.stretches[bisect_right(self.stretches, (place, inf)) - 1]
            shares[place] = fitting(min(place - start, reach), min(end - 1 - place, reach), answer)
        return shares

    def lengths_with_neighbours(self, lending: float) -> list[float]:
        """Return the number of terms that each count was taken from, weighted in the same way."""
        reach = self.weights.reach
        # All stretches in one list, far enough from each other, so that a few passes over it do for all of them.
        spaced = [*[0.0] * reach, *_spaced(self.lengths, self.stretches, reach)]
        end = len(spaced) - reach
        spread: Sequence[float] = spaced[reach:end]
        for far, after, before in _faded(self.weights, lending):
            moved = zip(spread, spaced[reach - far : end - far], spaced[reach + far : end + far], strict=True)
            spread = [length + after * earlier + before * later for length, earlier, later in moved]
        together = list(compress(spread, _spaced([1.0] * len(self), self.stretches, reach)))
        for place in self.divided:
            together[place] = self.lengths[place]
        return together

    def tells_time(self, item: int) -> bool:
        """Return True if an item mentions a time."""
        return not _TIME_TERMS.isdisjoint(self.terms[item])

    def states(self, item: int) -> bool:
        """Return True if an item states something: it does not end in a question, or is long."""
        text = self.items[item].text
        return len(self.terms[item]) > _LONG_QUESTION or not text.rstrip().endswith(_QUESTION_MARKS)

    def add_speakers(self, counts: Sequence[Counts], terms: Sequence[str]) -> set[int]:
        """Count the speakers' names as occurrences and return the items whose speaker the query names."""
        named = set()
        found: dict[str, list[int]] = {}
        for speaker in {passage.speaker for passage in self.items}:
            words = () if is_role(speaker) else frozenset(index_terms(speaker))
            found[speaker] = [number for number, term in enumerate(terms) if term in words]
        for item, passage in enumerate(self.items if any(found.values()) else ()):
            for number in found[passage.speaker]:
                named.add(item)
                self._count(counts[number], item, self.weights.speaker)
        return named

    def leave_out_calls(self, counts: Sequence[Counts], own: Mapping[str, Counts], query: str) -> tuple[str, set[int]]:
        """Count no name where a person is called by it; return whom the query names, and what this one may have said.

        Where nothing tells who speaks, this much is known: people do not call themselves. All others are returned, if
        any does, and where two take turns, every other one.
        """
        name, calling = called_by_name(query, [passage.text for passage in self.items])
        words = frozenset(index_terms(name))
        for (term, places), found in zip(own.items(), counts, strict=True):
            if term in words:
                for place in map(self.first_place.__getitem__, calling):
                    found[place] = found.get(place, 0.0) - places.pop(place, 0.0)
        return name, set(range(len(self.items))) - turns_of_callers(calling, self.sitting_of) if calling else set()

    def sitting_of(self, item: int) -> tuple[int, int]:
        """Return the first of the items that follow each other around this one, and the one after the last."""
        return self.sittings[bisect_right(self.sittings, (item, inf)) - 1]

    def joined_sittings(self) -> list[list[tuple[int, int]]]:
        """Return the sittings with those joined that are parts of one: what lies between them is no long silence."""
        found: list[list[tuple[int, int]]] = []
        in_time = [((self.items[first].session, self.items[first].date), (first, end)) for first, end in self.sittings]
        for _, sitting in sorted(in_time):
            if not found or are_apart(self.items[found[-1][-1][1] - 1], self.items[sitting[0]]):
                found.append([])
            found[-1].append(sitting)
        return found

    def of_asked_person(self, query: str) -> set[int]:
        """Return what was said by whom a query in the first person is about: the user, or an assistant.

        Where no assistant is known by its role, what a user says is told by its own first person.
        """
        asked, words = asked_person(query)
        if not asked:
            return set()
        speakers = {passage.speaker for passage in self.items}
        assistants = {speaker for speaker in speakers if speaker.casefold() in ASSISTANTS}
        if assistants:
            users = {speaker for speaker in speakers if not is_role(speaker) or speaker.casefold() in ("user", "human")}
            chosen = users if asked == "user" else assistants
            return {item for item, passage in enumerate(self.items) if passage.speaker in chosen}
        terms = frozenset(index_terms(" ".join(words))) if asked == "user" else frozenset()
        return {item for item, own in enumerate(self.terms) if not terms.isdisjoint(own)}

    def add_dates(self, counts: Sequence[Counts], terms: Sequence[str], wanted: frozenset[str]) -> None:
        """Count the parts of each item's date as occurrences, where the query speaks of a date."""
        for number, term in enumerate(terms):
            if term in wanted:
                for item, passage in enumerate(self.items):
                    if term in date_terms(passage.date):
                        self._count(counts[number], item, self.weights.date)

    def found_in(self, item: int, own: Mapping[str, Counts]) -> tuple[str, ...]:
        """Return the terms that occur in an item itself."""
        places = range(self.first_place[item], self.first_place[item + 1])
        return tuple(term for term, counts in own.items() if any(place in counts for place in places))

    def _count(self, counts: Counts, item: int, weight: float) -> None:
        if weight:
            for place in range(self.first_place[item], self.first_place[item + 1]):
                counts[place] = counts.get(place, 0.0) + weight


def _along(stretches: Iterable[tuple[int, int]], reach: int, of: Callable[[int, int], T]) -> list[T]:
    """Return for each place what is said of how many places of its stretch are in reach before and after it."""
    found: list[T] = []
    known: dict[int, list[T]] = {}
    for length in (end - start for start, end in stretches):
        if length not in known:
            first = [of(at, min(length - 1 - at, reach)) for at in range(min(reach, length))]
            last = [of(min(at, reach), length - 1 - at) for at in range(max(reach, length - reach), length)]
            known[length] = [*first, *[of(reach, reach)] * (length - 2 * reach), *last]
        found += known[length]
    return found


def _spaced(values: Sequence[float], stretches: Iterable[tuple[int, int]], reach: int) -> list[float]:
    """Return the values with zeros behind each stretch, so that none is in reach of another one's."""
    spaced: list[float] = []
    for start, end in stretches:
        spaced += values[start:end]
        spaced += [0.0] * reach
    return spaced


def _faded(weights: Weights, lending: float) -> list[tuple[int, float, float]]:
    """Return each distance, and how much of a turn's terms counts for the turn so far after and before it."""
    faded = [(far, lending * weights.fading ** (far - 1)) for far in range(1, weights.reach + 1)]
    return [(far, weights.before * share, weights.after * share) for far, share in faded]
