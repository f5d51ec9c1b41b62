"""What is known of the items of a scope beside their words: who said them, and what they tell."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from memoranda_backend.ranking.names import ASSISTANTS, capitalised, is_role
from memoranda_backend.ranking.queries import Query
from memoranda_backend.ranking.scope_arrays import Flags, Ints, ScopeArrays


class AskedPeople:
    """Whom a query names among those who speak in a scope, or are called by name there."""

    def __init__(self, arrays: ScopeArrays, query: Query) -> None:
        self._arrays, self._layout, self._query = arrays, arrays.layout, query
        self.speaker_terms: dict[int, list[int]] = {}
        """The terms of the query that name each speaker, by the number of the speaker."""
        for speaker, code in arrays.speakers.items():
            words = query.stems(speaker) if not is_role(speaker) else frozenset()
            found = [number for number, term in enumerate(query.terms) if term in words]
            if found:
                self.speaker_terms[code] = found
        self._name = ""
        self._perhaps: Flags | None = None

    @cached_property
    def _named(self) -> Flags:
        """Which items the query names the speaker of."""
        named: Flags = np.zeros(len(self._arrays.speakers), np.bool_)
        named[list(self.speaker_terms)] = True
        of_items: Flags = named[self._layout.speaker]
        return of_items

    @property
    def spoken(self) -> set[str]:
        """The names of those who speak, or may, that the query names."""
        return {self._name, *(name for name, code in self._arrays.speakers.items() if code in self.speaker_terms)}

    def called_by_terms(self) -> tuple[list[int], Ints] | None:
        """Return the terms that name a person who is called by name, and at which places; None if nobody is.

        Where nothing tells who speaks, this much is known: people do not call themselves. All others may be theirs, if
        any does, and where two take turns, every other one.
        """
        if self.speaker_terms and self._named.any():
            return None
        asked = sorted(capitalised(self._query.text))
        heard = {name: called for name in asked if (called := self._arrays.calling(name)).greeted}
        if len(heard) != 1:
            return None
        ((self._name, called),) = heard.items()
        self._perhaps = called.perhaps
        words = self._query.stems(self._name)
        naming = [number for number, term in enumerate(self._query.terms) if term in words]
        return naming, self._layout.first_place[called.items]

    @property
    def speaking(self) -> Flags:
        """The items that were said by whom the query is about."""
        speaking = self._named | self._of_asked_person()
        return speaking if self._perhaps is None else speaking | self._perhaps

    def _of_asked_person(self) -> Flags:
        """Return what was said by whom a query in the first person is about: the user, or an assistant.

        Where no assistant is known by its role, what a user says is told by its own first person.
        """
        asked, words = self._query.person
        layout, speakers = self._layout, self._arrays.speakers
        if not asked:
            return np.zeros(len(layout), np.bool_)
        there = set(np.unique(layout.speaker).tolist())
        roles = {code: speaker.casefold() for speaker, code in speakers.items() if code in there}
        names = {code: is_role(speaker) for speaker, code in speakers.items()}
        assistants = [code for code, role in roles.items() if role in ASSISTANTS]
        if assistants:
            users = [code for code, role in roles.items() if not names[code] or role in ("user", "human")]
            return np.isin(layout.speaker, users if asked == "user" else assistants)
        told = self._query.stems(" ".join(words)) if asked == "user" else ()
        return having_any(self._arrays, told, self._query.language)


def standing(arrays: ScopeArrays) -> Flags:
    """Return which items tell what holds from now on, and were not said by an assistant."""
    layout = arrays.layout
    if layout.standing is None:
        names = arrays.speakers.items()
        assistants = [code for speaker, code in names if speaker.casefold() in ASSISTANTS]
        said = layout.states & ~np.isin(layout.speaker, assistants)
        layout.standing = said & arrays.holding[layout.rows]
    return layout.standing


def having_any(arrays: ScopeArrays, terms: Iterable[str], language: str | None) -> Flags:
    """Return which items have any of some stems. It is kept with the layout: few lists are ever asked for."""
    stems, layout = tuple(sorted(set(terms))), arrays.layout
    key = language, stems
    if key not in layout.having:
        found = layout.having[key] = np.zeros(len(layout), np.bool_)
        found[layout.item_at[arrays.places_of_any({language: stems})]] = True
    return layout.having[key]
