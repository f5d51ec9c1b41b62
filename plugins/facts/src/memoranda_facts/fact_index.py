"""The facts of one moment by what they are about, so that a question need not look at all of them.

An index is built once for a state of the facts, and used until something changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from memoranda_facts.knowledge import Knowledge, Names
from memoranda_facts.results import Fact
from memoranda_facts.schema import Schema
from memoranda_facts.values import Ref, same_text
from memoranda_text import index_terms

_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text in the form in which names are looked for in a question."""
    return _WORD.findall(text.casefold())


class FactTerms(NamedTuple):
    """The terms of a fact: of the names of its subject, and of what it says."""

    about: frozenset[str]
    said: frozenset[str]


class FactIndex:
    """Some facts, and the subjects and predicates of all that is known. The facts are those of one moment, or all."""

    def __init__(self, knowledge: Knowledge, facts: Sequence[Fact], names: Names) -> None:
        self.knowledge, self.facts, self.names = knowledge, facts, names
        self._terms: dict[str, FactTerms] = {}

    def is_of(self, knowledge: Knowledge, facts: Sequence[Fact]) -> bool:
        """Return True if it was built for this state."""
        return self.knowledge is knowledge and self.facts is facts

    @property
    def schema(self) -> Schema:
        """The schema of the facts."""
        return self.knowledge.schema

    @cached_property
    def by_entry(self) -> dict[str, Fact]:
        """The facts by the ids of their entries."""
        return {entry: fact for fact in self.facts for entry in fact.entries}

    @cached_property
    def predicates(self) -> list[str]:
        """Every predicate that is known."""
        return list({timeline.predicate: None for timeline in self.knowledge.timelines.values()})

    @cached_property
    def subjects(self) -> dict[str, str]:
        """Every subject that is known, by its key, as it is shown."""
        return {key[0]: timeline.subject for key, timeline in self.knowledge.timelines.items()}

    @cached_property
    def _keys_of_names(self) -> dict[str, set[str]]:
        """The keys of subjects by each of their names."""
        found: dict[str, set[str]] = {}
        for key, shown in self.subjects.items():
            for name in self.names_of(shown):
                found.setdefault(" ".join(words_of(name)), set()).add(key)
        found.pop("", None)
        return found

    @cached_property
    def _longest_name(self) -> int:
        return max((name.count(" ") + 1 for name in self._keys_of_names), default=0)

    @cached_property
    def _aliases(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for alias, name in self.schema.subjects.items():
            found.setdefault(same_text(name), []).append(alias)
        return found

    def names_of(self, subject: str) -> list[str]:
        """Return every name of a subject, those that the schema lists among them."""
        return [*self.knowledge.names.all_of(subject), *self._aliases.get(same_text(subject), ())]

    def mentioned(self, words: Sequence[str]) -> set[str]:
        """Return the keys of the subjects that a question of these words names."""
        found: set[str] = set()
        for first in range(len(words)):
            for end in range(first + 1, min(len(words), first + self._longest_name) + 1):
                found |= self._keys_of_names.get(" ".join(words[first:end]), set())
        return found

    @cached_property
    def _by_slot(self) -> dict[tuple[str, str], list[tuple[int, Fact]]]:
        """The facts by their subject and predicate, each with its place among all."""
        found: dict[tuple[str, str], list[tuple[int, Fact]]] = {}
        for place, fact in enumerate(self.facts):
            key = self.names.root(fact.subject), same_text(fact.predicate)
            found.setdefault(key, []).append((place, fact))
        return found

    def of_slots(self, subjects: Iterable[str], predicate: str) -> list[Fact]:
        """Return the facts of some subjects, given by their keys, that have a predicate; in their order."""
        placed = [each for subject in subjects for each in self._by_slot.get((subject, predicate), ())]
        return [fact for _, fact in sorted(placed, key=lambda each: each[0])]

    @cached_property
    def _naming(self) -> dict[str, list[Fact]]:
        """The facts by their subject, and by the subject that their object names."""
        found: dict[str, list[Fact]] = {}
        for fact in self.facts:
            for key in {self.names.root(fact.subject), self.object_of(fact)} - {None}:
                found.setdefault(str(key), []).append(fact)
        return found

    def naming(self, subjects: Iterable[str]) -> list[Fact]:
        """Return the facts that are about some subjects, given by their keys, or name one as their object."""
        found = [fact for subject in subjects for fact in self._naming.get(subject, ())]
        return list({fact.id: fact for fact in found}.values())

    def object_of(self, fact: Fact) -> str | None:
        """Return the key of the subject that the object of a fact may be."""
        return self.names.root(str(fact.object)) if isinstance(fact.object, (str, Ref)) else None

    def terms_of(self, fact: Fact) -> FactTerms:
        """Return the terms of a fact."""
        found = self._terms.get(fact.id)
        if found is None:
            said = [*self.schema.names_of(fact.predicate), str(fact.object), *map(str, fact.qualifiers.values())]
            found = self._terms[fact.id] = FactTerms(
                frozenset(index_terms(" ".join(self.names_of(fact.subject)))),
                frozenset(index_terms(" ".join(said).replace("_", " "))),
            )
        return found
