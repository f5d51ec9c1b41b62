"""The arrays compute what a text ranking is by its definition, which is written down here in loops.

How letters are compared is left out, and so are times that items mention and the place of standing instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log, log10

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda_backend.ranking import (
    Passage,
    Weights,
    date_terms,
    index_words,
    query_date_terms,
    query_terms,
    rank_text,
)
from memoranda_backend.ranking.names import (
    ASSISTANTS,
    UNKNOWN,
    asked_person,
    called_names,
    capitalised,
    is_role,
    turns_of_callers,
)
from memoranda_backend.ranking.passages import are_apart
from memoranda_backend.text.stemming import stem
from memoranda_backend.text.terms import passage_count

Counts = dict[int, float]
"""How often a term occurs, by place."""


def stems(text: str) -> list[str]:
    return list(map(stem, index_words(text)))


class Definition:
    """The ranking of whole conversations. Items are numbered in their order, and so are places, the parts of items."""

    def __init__(self, query: str, conversations: Sequence[Sequence[Passage]], weights: Weights) -> None:
        self.query, self.weights = query, weights
        self.items = [passage for turns in conversations for passage in turns]
        self.terms = [stems(item.text) for item in self.items]
        self.item_at: list[int] = []
        self.held: list[list[str]] = []
        self.parts: list[int] = []
        for item, terms in enumerate(self.terms):
            count, length = passage_count(len(terms), weights.passage), len(terms)
            self.item_at += [item] * count
            self.held += [terms[part * length // count : (part + 1) * length // count] for part in range(count)]
            self.parts.append(count)
        self.stretch, self.turn = [0] * len(self.items), [0] * len(self.items)
        for item, (one, following) in enumerate(pairwise(self.items), start=1):
            apart = are_apart(one, following)
            other = apart or one.speaker != following.speaker or following.speaker in UNKNOWN
            self.stretch[item], self.turn[item] = self.stretch[item - 1] + apart, self.turn[item - 1] + other

    def ranked(self) -> list[tuple[str, float]]:
        weights, items, asked = self.weights, self.items, query_terms(self.query)
        dates = query_date_terms(self.query)
        own = {term: {at: float(n) for at, held in enumerate(self.held) if (n := held.count(term))} for term in asked}
        found_in = {term: len(places) for term, places in own.items()}
        told = {term: rarity(count, len(self.held)) for term, count in found_in.items()}
        lending = self.lending({term: {self.item_at[at] for at in places} for term, places in own.items()}, told)
        named = {n for n, item in enumerate(items) if not is_role(item.speaker) and self.names(item.speaker)}
        perhaps = set() if named else self.leave_out_calls(own)
        counts = {term: self.with_neighbours(places, lending) for term, places in own.items()}
        for place, item in enumerate(self.item_at):
            for term in asked:
                if item in named and term in stems(items[item].speaker):
                    counts[term][place] = counts[term].get(place, 0.0) + weights.speaker
                if term in dates and term in date_terms(items[item].date):
                    counts[term][place] = counts[term].get(place, 0.0) + weights.date
        lengths = [float(len(held)) for held in self.held]
        words = self.bm25(
            {term: (rarity(len(places), len(lengths)), places) for term, places in counts.items()},
            [length + lending * borrowed for length, borrowed in zip(lengths, self.borrowed(lengths), strict=True)],
            weights.length,
        )
        alone = self.bm25({term: (told[term], places) for term, places in own.items()}, lengths, 0.75)
        if max(alone, default=0.0) > 0:
            part = weights.own / (weights.own + lending * (1 - weights.own)) * max(words) / max(alone)
            words = [max(score, part * by_itself) for score, by_itself in zip(words, alone, strict=True)]
        covered = self.covered(counts, found_in, dates) or [float(score > 0) for score in words]
        return self.with_bonuses(words, covered, named | perhaps | self.of_person(), self.topics(own))

    def names(self, speaker: str) -> set[str]:
        return {*query_terms(self.query)}.intersection(stems(speaker))

    def lending(self, having: Mapping[str, set[int]], told: Mapping[str, float]) -> float:
        """Return how much neighbours lend: in full if the terms stand near each other more often than by chance."""
        values = [sum(told[term] ** 2 for term, held in having.items() if n in held) for n in range(len(self.items))]
        everywhere, one = sum(values), max(values, default=0.0) ** 2
        if not one or not self.weights.coherence:
            return 1.0
        near = chance = 0.0
        for item, value in enumerate(values):
            around = range(max(0, item - self.weights.reach), min(len(values), item + self.weights.reach + 1))
            beside = [other for other in around if other != item and self.stretch[other] == self.stretch[item]]
            near += sum(value * values[other] for other in beside)
            chance += value * (everywhere - value) * len(beside) / max(len(values) - 1, 1)
        times = (near + (1 + self.weights.coherence) * one) / (max(chance, 0.0) + one)
        return min(1.0, max(0.25, (times - 1) / self.weights.coherence))

    def leave_out_calls(self, own: dict[str, Counts]) -> set[int]:
        """Count no name where a person is called by it; return what that person may have said."""
        heard = [called_names(item.text) for item in self.items]
        greeted = [name for name in capitalised(self.query) if any(name in beside for _, beside in heard)]
        if len(greeted) != 1:
            return set()
        calling = [item for item, (called, _) in enumerate(heard) if greeted[0] in called]
        for term in {*stems(greeted[0])} & own.keys():
            for item in calling:
                own[term].pop(self.item_at.index(item), None)
        if not calling:
            return set()

        def around(item: int) -> tuple[int, int]:
            first = self.stretch.index(self.stretch[item])
            return first, first + self.stretch.count(self.stretch[item])

        return {*range(len(self.items))} - turns_of_callers(calling, around)

    def shares(self, place: int) -> list[tuple[int, float]]:
        """Return which places a place lends to, and which share of its terms."""
        item, found = self.item_at[place], []
        for far, later, earlier in self.weights.faded():
            for other, share in ((place + far, later), (place - far, earlier)):
                if 0 <= other < len(self.held) and self.stretch[self.item_at[other]] == self.stretch[item]:
                    found.append((other, share if self.parts[self.item_at[other]] == 1 else 0.0))
        return found

    def borrowed(self, lengths: Sequence[float]) -> list[float]:
        found = [0.0] * len(lengths)
        for place, length in enumerate(lengths):
            for other, share in self.shares(place):
                found[other] += share * length
        return found

    def with_neighbours(self, own: Counts, lending: float) -> Counts:
        found = dict(own)
        for place, count in own.items():
            item, is_last = self.item_at[place], self.item_at[place + 1 : place + 2] != [self.item_at[place]]
            for other, share in self.shares(place):
                if other == place + 1 and is_last and "?" in self.items[item].text:
                    share *= 1 + self.weights.answer
                if self.turn[self.item_at[other]] == self.turn[item]:
                    share *= self.weights.same_speaker
                if share:
                    found[other] = found.get(other, 0.0) + lending * share * count
        return found

    def bm25(self, terms: Mapping[str, tuple[float, Counts]], lengths: Sequence[float], b: float) -> list[float]:
        k1, mean = self.weights.saturation, sum(lengths) / len(lengths) or 1.0
        scores = [0.0] * len(lengths)
        for tells, counts in terms.values():
            for at, count in counts.items():
                scores[at] += tells * (k1 + 1) * count / (count + k1 * (1 - b + b * lengths[at] / mean))
        return scores

    def covered(self, counts: Mapping[str, Counts], found_in: Mapping[str, int], dates: frozenset[str]) -> list[float]:
        """Return which part of the query each place has, from 0 to 1; a date says when, not what: of dates, nothing."""
        telling = {term: rarity(n, len(self.held) + 50) for term, n in found_in.items() if term not in dates}
        every, places = sum(telling.values()), range(len(self.held) if telling else 0)
        has = [sum(tells * min(1.0, counts[term].get(at, 0.0)) for term, tells in telling.items()) for at in places]
        return [min(1.0, part / every) for part in has]

    def of_person(self) -> set[int]:
        """Return what was said by whom a query in the first person is about."""
        person, words = asked_person(self.query)
        roles = [item.speaker.casefold() for item in self.items]
        if person and ASSISTANTS.intersection(roles):
            users = {n for n, role in enumerate(roles) if not is_role(role) or role in ("user", "human")}
            return users if person == "user" else {n for n, role in enumerate(roles) if role in ASSISTANTS}
        first = {*stems(" ".join(words))} if person == "user" else set()
        return {n for n, terms in enumerate(self.terms) if not first.isdisjoint(terms)}

    def topics(self, own: Mapping[str, Counts]) -> list[float]:
        """Return the bonus of each item for what its session has of the query, where there are many sessions."""
        having = {term: {self.stretch[self.item_at[at]] for at in places} for term, places in own.items()}
        sessions = len({*self.stretch})
        told = {term: rarity(len(held), sessions) for term, held in having.items()}
        scale = self.weights.topic * max(0.0, log10(sessions / 30)) / (sum(told.values()) or 1.0)
        return [scale * sum(told[term] for term, held in having.items() if one in held) for one in self.stretch]

    def with_bonuses(
        self, words: Sequence[float], covered: Sequence[float], speaking: set[int], topics: Sequence[float]
    ) -> list[tuple[str, float]]:
        best_place = [
            max((at for at, n in enumerate(self.item_at) if n == item), key=lambda at: (words[at], -at))
            for item in range(len(self.items))
        ]
        texts = [words[at] / count**self.weights.damping for at, count in zip(best_place, self.parts, strict=True)]
        relevances = [text / (max(texts) or 1.0) for text in texts]
        scores = {}
        for item, (passage, relevance) in enumerate(zip(self.items, relevances, strict=True)):
            sitting = [other for other, of in zip(relevances, self.stretch, strict=True) if of == self.stretch[item]]
            states = not passage.text.rstrip().endswith(("?", "？", "؟")) or len(self.terms[item]) > 30
            if relevance > 0 and (self.terms[item] or passage.text.strip()):
                scores[item] = relevance + self.weights.session * max(sitting) + topics[item]
                scores[item] += self.weights.asked_speaker * (item in speaking) + self.weights.statement * states
        # Sums differ in their last digits: equal ones count as equal, and the newest comes first.
        order = sorted(scores, key=lambda item: (round(scores[item], 9), self.items[item].date), reverse=True)
        unit = covered[best_place[order[0]]] / scores[order[0]] if order else 0.0
        return [(self.items[item].key, unit * scores[item]) for item in order]


def rarity(frequency: float, total: float) -> float:
    return log(1 + max(total - frequency + 0.5, 0.5) / (frequency + 0.5))


WORDS = (
    "tea",
    "green",
    "the",
    "my",
    "I",
    "dog",
    "walked",
    "May",
    "7",
    "2024",
    "Ada",
    "Ada!",
    "Thanks,",
    "Grace",
    "you",
)
texts = st.lists(st.sampled_from((*WORDS, "?", "lake.", "\n")), max_size=12).map(" ".join)
long_texts = st.lists(st.sampled_from(WORDS), min_size=30, max_size=60).map(" ".join)
speakers = st.sampled_from(("", "human", "ai", "user", "Ada", "Grace", "Ada Lovelace"))
turns = st.tuples(st.one_of(texts, texts, long_texts), speakers, st.sampled_from((1, 1, 1, 300, 3000)))
WEIGHTS = (
    Weights(letters=0, standing=0),
    Weights(letters=0, standing=0, passage=10, reach=1, coherence=0),
    Weights(letters=0, standing=0, own=0),
)
queries = st.lists(st.sampled_from((*WORDS, "Who", "in", "lake", "did")), min_size=1, max_size=6).map(" ".join)


def conversations_of(drawn: Sequence[Sequence[tuple[str, str, int]]]) -> list[list[Passage]]:
    """Return turns as passages, each some minutes after the one before it."""
    made: list[list[Passage]] = []
    minutes = number = 0
    for session, spoken in enumerate(drawn):
        made.append([])
        for text, speaker, passed in spoken:
            minutes, number = minutes + passed, number + 1
            date = f"2024-05-{1 + minutes // 1440:02}T{minutes // 60 % 24:02}:{minutes % 60:02}:00.000000+00:00"
            made[-1].append(Passage(f"k{number:03}", text, speaker, date, f"s{session}"))
    return made


@given(
    st.lists(st.lists(turns, min_size=1, max_size=8), min_size=1, max_size=3),
    queries,
    st.sampled_from(WEIGHTS),
    st.sampled_from((0, 0, 60)),
)
def test_a_ranking_is_what_its_definition_says(
    drawn: list[list[tuple[str, str, int]]], query: str, weights: Weights, others: int
) -> None:
    small_talk = [[(WORDS[number % len(WORDS)], "user", 1)] for number in range(others)]
    conversations = conversations_of([*drawn, *small_talk])
    expected = Definition(query, conversations, weights).ranked()
    found = rank_text(query, conversations, weights=weights)
    assert {each.key: each.score for each in found} == pytest.approx(dict(expected), abs=1e-9)
    assert [each.key for each in found] == [key for key, _ in expected]
