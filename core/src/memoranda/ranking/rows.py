"""The passages of a ranking in one row, each in its place among its neighbours.

A long item is several passages of the row, one after the other: each is scored by itself, and the passages beside it
are its neighbours like the turns around. So what a long answer says somewhere is found, but the turns beside it have
only what it says close to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress, groupby, pairwise
from math import fsum
from operator import attrgetter

from memoranda.ranking.calling import called, said_by_callers
from memoranda.ranking.dates import date_terms
from memoranda.ranking.dividing import passage_at, passage_count
from memoranda.ranking.names import ASSISTANTS, UNKNOWN, asked_person, is_role
from memoranda.ranking.passages import Passage, Weights
from memoranda.ranking.stemming import stem
from memoranda.ranking.terms import MONTHS, index_terms

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

Counts = dict[int, float]
"""How often a term occurs, by place in the row; places where it does not occur are left out."""


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


class Row:
    """Passages in one row, with the stretch of consecutive turns of the same session that each place stands in.

    ``items`` are the passages as they were given, and ``item_at`` says which of them stands at a place; at the
    ``divided`` ones stands a part of an item.
    """

    def __init__(self, runs: Iterable[Sequence[Passage]], weights: Weights) -> None:
        self.weights = weights
        self.items: list[Passage] = []
        self.item_at: list[int] = []
        self.first_place: list[int] = []
        self.stretches: list[tuple[int, int]] = []
        self.terms: list[Sequence[str]] = []
        self.divided: set[int] = set()
        self.lengths: list[int] = []
        for run in runs:
            for _, turns in groupby(run, key=attrgetter("session")):
                start = len(self.item_at)
                self._add(list(turns))
                self.stretches.extend([(start, len(self.item_at))] * (len(self.item_at) - start))
        self.first_place.append(len(self.item_at))

    def _add(self, turns: list[Passage]) -> None:
        terms = [turn.terms if turn.terms is not None else index_terms(turn.text) for turn in turns]
        lengths, size = list(map(len, terms)), self.weights.passage
        first, place = len(self.items), len(self.item_at)
        self.items += turns
        self.terms += terms
        if passage_count(max(lengths), size) == 1:
            self.item_at += range(first, first + len(turns))
            self.first_place += range(place, place + len(turns))
            self.lengths += lengths
            return
        for item, length in enumerate(lengths, first):
            parts = passage_count(length, size)
            place = len(self.item_at)
            self.first_place.append(place)
            self.item_at.extend([item] * parts)
            self.lengths.extend((part + 1) * length // parts - part * length // parts for part in range(parts))
            if parts > 1:
                self.divided.update(range(place, place + parts))

    def __len__(self) -> int:
        return len(self.item_at)

    def parts(self, item: int) -> int:
        """Return how many passages an item has."""
        return self.first_place[item + 1] - self.first_place[item]

    def age(self, item: int) -> tuple[str, int, str]:
        """Return what orders items that nothing else tells apart: when, which turn, and the key."""
        place = self.first_place[item]
        return self.items[item].date, place - self.stretches[place][0], self.items[item].key

    def passage(self, place: int) -> str:
        """Return about the words at a place of an item with several passages: not every word is one term."""
        item = self.item_at[place]
        parts, number = self.parts(item), place - self.first_place[item]
        return passage_at(self.items[item].text, number, parts) if parts > 1 else ""

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
            length, parts = len(terms), end - place
            for at in compress(range(length), map(is_wanted, terms)):
                part = place + ((at + 1) * parts - 1) // length
                for counts in counts_of[terms[at]]:
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
        values: Counts = {}
        for items, tells in zip(holders, told, strict=True):
            for item in items:
                values[item] = values.get(item, 0.0) + tells * tells
        if not values or not enough:
            return 1.0
        everywhere = fsum(tells * tells * items for tells, items in zip(told, having, strict=True))
        near, chance = [], []
        at, first_place, stretches = self.item_at, self.first_place, self.stretches
        for item, value in values.items():
            start, end = stretches[first_place[item]]
            after = at[end - 1] - item
            if after > reach:
                after = reach
            near += [value * values[other] for other in range(item + 1, item + after + 1) if other in values]
            chance.append(value * (everywhere - value) * (min(item - at[start], reach) + after))
        # A few pairs tell little: one of the most telling items, as it would be in a conversation, is added to them.
        one = max(values.values()) ** 2
        times = (2 * fsum(near) + (1 + enough) * one) / (max(fsum(chance), 0.0) / max(total - 1, 1) + one)
        return min(1.0, max(_LEAST_LENT, (times - 1) / enough))

    @cached_property
    def _going_on(self) -> list[int]:
        """The number of each place's turn, where any goes on: what one known speaker says without a break is one."""
        turns = list(range(len(self.items)))
        for item, (left, right) in enumerate(pairwise(self.items), start=1):
            if left.speaker == right.speaker and left.session == right.session and left.speaker not in UNKNOWN:
                turns[item] = turns[item - 1]
        return [turns[item] for item in self.item_at] if len(set(turns)) < len(turns) else []

    @cached_property
    def _asking(self) -> frozenset[int]:
        """The last places of the items that ask something."""
        ends = self.first_place
        return frozenset(ends[item + 1] - 1 for item, passage in enumerate(self.items) if "?" in passage.text)

    def with_neighbours(self, own: Counts, lending: float) -> Counts:
        """Return the counts with a share of each one added to the places around it.

        A short turn needs what was said around it; one of several passages says enough by itself and takes nothing.
        """
        shares, answer, alike = _shares(self.weights, lending), 1 + self.weights.answer, self.weights.same_speaker
        counts, divided, turns = dict(own), self.divided, self._going_on
        stretches, asking, reach = self.stretches, self._asking, self.weights.reach
        is_plain, get = not divided and not turns, counts.get
        for place, count in own.items():
            start, end = stretches[place]
            if is_plain and start + reach <= place < end - reach and place not in asking:
                for offset, share in shares:
                    near = place + offset
                    counts[near] = get(near, 0.0) + share * count
                continue
            for offset, share in shares:
                near = place + offset
                if start <= near < end and near not in divided:
                    if offset == 1 and place in asking:
                        share *= answer
                    if turns and turns[near] == turns[place]:
                        share *= alike
                    counts[near] = get(near, 0.0) + share * count
        return counts

    def lengths_with_neighbours(self, lending: float) -> list[float]:
        """Return the number of terms that each count was taken from, weighted in the same way."""
        reach = self.weights.reach
        stretches = list(dict.fromkeys(self.stretches))
        # All stretches in one list, far enough from each other, so that a few passes over it do for all of them.
        spaced: list[float] = [0.0] * reach
        for start, end in stretches:
            spaced += self.lengths[start:end]
            spaced += [0.0] * reach
        spread = spaced[reach : len(spaced) - reach]
        for offset, share in _shares(self.weights, lending):
            moved = spaced[reach - offset : len(spaced) - reach - offset]
            spread = [length + share * near for length, near in zip(spread, moved, strict=True)]
        together: list[float] = []
        place = 0
        for start, end in stretches:
            together += spread[place : place + end - start]
            place += end - start + reach
        for place in self.divided:
            together[place] = self.lengths[place]
        return together

    def telling_time(self) -> set[int]:
        """Return the items that mention a time."""
        return {item for item, terms in enumerate(self.terms) if not _TIME_TERMS.isdisjoint(terms)}

    def stating(self) -> set[int]:
        """Return the items that tell something: those that do not end in a question, and long ones."""
        return {
            item
            for item, passage in enumerate(self.items)
            if len(self.terms[item]) > _LONG_QUESTION or not passage.text.rstrip().endswith(_QUESTION_MARKS)
        }

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
        """Count no name where somebody is called by it; return whom the query names, and what this one may have said.

        Where nothing tells who speaks, this much is known: nobody calls herself. All others are returned, if any does,
        and where two take turns, every other one.
        """
        name, calling = called(query, [passage.text for passage in self.items])
        words = frozenset(index_terms(name))
        for (term, places), found in zip(own.items(), counts, strict=True):
            if term in words:
                for place in map(self.first_place.__getitem__, calling):
                    found[place] = found.get(place, 0.0) - places.pop(place, 0.0)
        return name, set(range(len(self.items))) - said_by_callers(calling, self._stretch_of) if calling else set()

    def _stretch_of(self, item: int) -> tuple[int, int]:
        """Return the first of the items that follow each other around this one, and the one after the last."""
        start, end = self.stretches[self.first_place[item]]
        return self.item_at[start], self.item_at[end - 1] + 1

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


def _shares(weights: Weights, lending: float) -> list[tuple[int, float]]:
    """Return how much of a turn's terms counts for the turn at each distance from it, later ones above 0."""
    shares = []
    for distance in range(1, weights.reach + 1):
        faded = lending * weights.fading ** (distance - 1)
        shares += [(distance, weights.before * faded), (-distance, weights.after * faded)]
    return [(offset, share) for offset, share in shares if share > 0]
