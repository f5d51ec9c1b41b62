"""The facts of one moment by what they are about, so that a question need not look at all of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from memoranda_backend.text import index_terms
from memoranda_facts.knowledge import Key, Knowledge, Names
from memoranda_facts.results import Fact
from memoranda_facts.schema import Schema
from memoranda_facts.timeline import Timeline
from memoranda_facts.values import Ref, same_text

_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text in the form in which names are looked for in a question."""
    return _WORD.findall(text.casefold())


class FactTerms(NamedTuple):
    """The terms of a fact: of the names of its subject, and of what it says."""

    about: frozenset[str]
    said: frozenset[str]


class SlotIndex:
    """The slots of what is known: by their subjects, by what their values name, and by the names of their subjects.

    It is brought up to date with what is new, so that a question after a change need not look at all facts.
    """

    def __init__(self, knowledge: Knowledge, names: Names) -> None:
        self.names, self._schema, self._known = names, knowledge.schema, knowledge.names
        self._timelines: Mapping[Key, Timeline] = {}
        self.places: dict[Key, int] = {}
        """The slots, in the order in which they were first recorded."""
        self.of_subject: dict[str, list[Key]] = {}
        """The slots of each subject, by its key."""
        self.naming: dict[str, dict[Key, None]] = {}
        """The slots that ever had a value that may be a subject, by the key of that."""
        self.predicates: dict[str, None] = {}
        self.subjects: dict[str, str] = {}
        """Every subject that is known, by its key, as it is shown."""
        self._keys_of_names: dict[str, set[str]] = {}
        self._longest_name = 0
        self.terms: dict[tuple[str, ...], FactTerms] = {}
        """The terms of facts, by their entries."""
        self._add(knowledge.timelines)

    def follows(self, knowledge: Knowledge, names: Names) -> bool:
        """Bring the index up to date, and return True if it could be: nothing is gone, and names mean the same."""
        if (names, knowledge.names, knowledge.schema) != (self.names, self._known, self._schema):
            return False
        timelines, known = knowledge.timelines, self._timelines
        if timelines is not known:
            self._add({key: each for key, each in timelines.items() if known.get(key) is not each})
            self._timelines = timelines
        return len(self.places) == len(timelines)

    def _add(self, timelines: Mapping[Key, Timeline]) -> None:
        for key, timeline in timelines.items():
            if key not in self.places:
                self.places[key] = len(self.places)
                self.predicates[timeline.predicate] = None
                self.of_subject.setdefault(self.names.root(timeline.subject), []).append(key)
                self._name(key[0], timeline.subject)
            for value in {record.value for record in timeline.active if isinstance(record.value, (str, Ref))}:
                self.naming.setdefault(self.names.root(str(value)), {})[key] = None

    def _name(self, key: str, shown: str) -> None:
        if key in self.subjects:
            return
        self.subjects[key] = shown
        for name in self.names_of(shown):
            words = words_of(name)
            if words:
                self._keys_of_names.setdefault(" ".join(words), set()).add(key)
                self._longest_name = max(self._longest_name, len(words))

    @cached_property
    def _aliases(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for alias, name in self._schema.subjects.items():
            found.setdefault(same_text(name), []).append(alias)
        return found

    def names_of(self, subject: str) -> list[str]:
        """Return every name of a subject, those that the schema lists among them."""
        return [*self._known.all_of(subject), *self._aliases.get(same_text(subject), ())]

    def mentioned(self, words: Sequence[str]) -> set[str]:
        """Return the keys of the subjects that a question of these words names."""
        found: set[str] = set()
        for first in range(len(words)):
            for end in range(first + 1, min(len(words), first + self._longest_name) + 1):
                found |= self._keys_of_names.get(" ".join(words[first:end]), set())
        return found


class FactIndex:
    """The facts of one moment by what they are about; with ``history``, all that there ever were."""

    def __init__(self, knowledge: Knowledge, slots: SlotIndex, moment: str, *, history: bool = False) -> None:
        self.knowledge, self.slots, self.names = knowledge, slots, slots.names
        self._moment, self._history = moment, history

    @property
    def schema(self) -> Schema:
        """The schema of the facts."""
        return self.knowledge.schema

    def _facts(self, slots: Iterable[Key]) -> list[Fact]:
        """Return the facts of some slots, in the order of these."""
        placed = sorted(set(slots), key=self.slots.places.__getitem__)
        return [fact for key in placed for fact in self.knowledge.of_slot(key, self._moment, history=self._history)]

    def of_entry(self, entry_id: str) -> Fact | None:
        """Return the fact that an entry is part of."""
        key = self.knowledge.place(entry_id)
        found = [] if key is None else self._facts([key])
        return next((fact for fact in reversed(found) if entry_id in fact.entries), None)

    def of_slots(self, subjects: Iterable[str], predicate: str) -> list[Fact]:
        """Return the facts of some subjects, given by their keys, that have a predicate; in their order."""
        slots = [key for subject in subjects for key in self.slots.of_subject.get(subject, ()) if key[1] == predicate]
        return self._facts(slots)

    def naming(self, subjects: Collection[str]) -> list[Fact]:
        """Return the facts that are about some subjects, given by their keys, or name one as their object."""
        about = [key for subject in subjects for key in self.slots.of_subject.get(subject, ())]
        named = [key for subject in subjects for key in self.slots.naming.get(subject, ())]
        found = self._facts(about) + [fact for fact in self._facts(named) if self.object_of(fact) in subjects]
        return list({fact.id: fact for fact in found}.values())

    def object_of(self, fact: Fact) -> str | None:
        """Return the key of the subject that the object of a fact may be."""
        return self.names.root(str(fact.object)) if isinstance(fact.object, (str, Ref)) else None

    def terms_of(self, fact: Fact) -> FactTerms:
        """Return the terms of a fact."""
        found = self.slots.terms.get(fact.entries)
        if found is None:
            said = [*self.schema.names_of(fact.predicate), str(fact.object), *map(str, fact.qualifiers.values())]
            found = self.slots.terms[fact.entries] = FactTerms(
                frozenset(index_terms(" ".join(self.slots.names_of(fact.subject)))),
                frozenset(index_terms(" ".join(said).replace("_", " "))),
            )
        return found
