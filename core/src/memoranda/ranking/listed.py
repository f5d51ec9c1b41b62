"""A scope that is held in memory, which answers the questions of the policy by looking at every item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from itertools import compress, islice
from typing import Any

from memoranda.items import MemoryItem
from memoranda.ranking.candidates import (
    Around,
    Best,
    Frequencies,
    OnDay,
    Question,
    Size,
    SpokenBy,
    Whole,
    WithLetters,
    best_hits,
)
from memoranda.ranking.passages import Passage
from memoranda.ranking.terms import index_terms
from memoranda.ranking.turns import conversation_key, passage_of


class ListedScope:
    """The items of a scope, newest first, which go by their places in it.

    ``terms_at`` gives the index terms of the item at a place, and ``wanted`` says which items are searched for.
    """

    def __init__(
        self,
        scope: Sequence[MemoryItem],
        terms_at: Callable[[int], Sequence[str]],
        wanted: Callable[[MemoryItem], bool],
    ) -> None:
        self._scope = scope
        self._terms_at = terms_at
        self._wanted = wanted
        self._having: dict[str, list[int]] = {}
        self.items: dict[str, MemoryItem] = {}
        """The items of all passages that were given, by their keys."""

    def answer(self, question: Question) -> Any:
        """Return the answer to a question of the policy."""
        scope = self._scope
        match question:
            case Size():
                return len(scope)
            case Whole():
                return [self._window(places) for places in self._conversations(range(len(scope))).values()]
            case Frequencies(terms):
                self._list(terms)
                return {term: len(places) for term, places in self._having.items()}
            case Best(told, most, matching):
                return self._best([(self._having[term], tells) for term, tells in told.items()], most, matching)
            case OnDay(day, most):
                return self._first(most, (item.created_at.startswith(day) for item in scope))
            case SpokenBy(term, most):
                names = {item.name for item in scope if item.name}
                named = {name for name in names if term in index_terms(name)}
                return self._first(most, (item.name in named for item in scope)) if named else []
            case WithLetters(letters, most):
                return self._first(most, (letters in item.content.casefold() for item in scope))
            case Around(keys, turns):
                return self._around(keys, turns)
        raise AssertionError(f"a list of items has no answer to {question!r}")

    def _conversations(self, places: Iterable[int]) -> dict[object, list[int]]:
        """Return which of the places belong to each conversation."""
        conversations: dict[object, list[int]] = {}
        for place in places:
            conversations.setdefault(conversation_key(self._scope[place]), []).append(place)
        return conversations

    def _list(self, terms: Iterable[str]) -> None:
        """Note which items have each term."""
        self._having = {term: [] for term in terms}
        sought = frozenset(self._having)
        for place in range(len(self._scope)):
            has = self._terms_at(place)
            if not sought.isdisjoint(has):
                for term in sought.intersection(has):
                    self._having[term].append(place)

    def _best(self, having: list[tuple[list[int], float]], most: int, matching: bool) -> list[int]:
        if matching:
            found = {place for places, _ in having for place in places}
            chosen = {place for place in found if self._wanted(self._scope[place])}
            having = [([place for place in places if place in chosen], tells) for places, tells in having]
        return best_hits(having, most, lambda places, room: nsmallest(room, places))

    def _first(self, most: int, chosen: Iterable[bool]) -> list[int]:
        return list(islice(compress(range(len(self._scope)), chosen), most))

    def _around(self, places: Sequence[int], turns: int) -> list[list[Passage]]:
        sessions = {self._scope[place].metadata.session_id for place in places}
        # Most items are of other sessions, which is told sooner than all that a conversation has in common.
        same = [place for place, item in enumerate(self._scope) if item.metadata.session_id in sessions]
        hits = frozenset(places)
        return [
            self._window(said[max(0, at - turns) : at + turns + 1])
            for said in self._conversations(same).values()
            for at, place in enumerate(said)
            if place in hits
        ]

    def _window(self, places: Sequence[int]) -> list[Passage]:
        """Return the passages of places that are given newest first."""
        passages = []
        for place in reversed(places):
            item = self._scope[place]
            self.items[item.id] = item
            passages.append(passage_of(item, self._terms_at(place)))
        return passages
