"""Finding facts: by a question, along references and as a profile, in an index of what they are about."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.loops import import_in_thread
from memoranda.store import Store
from memoranda.tokens import TokenCounter, estimate_tokens
from memoranda.trust import Trust
from memoranda_backend.text import index_terms, query_language, query_words
from memoranda_facts.knowledge import Key, Knowledge, Names
from memoranda_facts.records import short_id
from memoranda_facts.results import Fact
from memoranda_facts.schema import Schema
from memoranda_facts.timeline import Timeline
from memoranda_facts.values import EVER, Ref, in_short, same_text

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
        return [*self._known.all_of(subject), *self._aliases.get(same_text(subject), ())]

    def mentioned(self, words: Sequence[str]) -> set[str]:
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
        return self.knowledge.schema

    def _facts(self, slots: Iterable[Key]) -> list[Fact]:
        placed = sorted(set(slots), key=self.slots.places.__getitem__)
        return [fact for key in placed for fact in self.knowledge.of_slot(key, self._moment, history=self._history)]

    def of_entry(self, entry_id: str) -> Fact | None:
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
        return self.names.root(str(fact.object)) if isinstance(fact.object, (str, Ref)) else None

    def terms_of(self, fact: Fact) -> FactTerms:
        found = self.slots.terms.get(fact.entries)
        if found is None:
            said = [*self.schema.names_of(fact.predicate), str(fact.object), *map(str, fact.qualifiers.values())]
            found = self.slots.terms[fact.entries] = FactTerms(
                frozenset(index_terms(" ".join(self.slots.names_of(fact.subject)))),
                frozenset(index_terms(" ".join(said).replace("_", " "))),
            )
        return found


_FIRST_PAGE_FACTOR = 4
"""How many entries are ranked first for each fact that is wanted; several entries may be one fact, or none any more."""

_FEW_ANSWERS = 200
"""Up to how many facts about known subjects are ranked by themselves, without the store."""

_STEM = 4
"""How many letters two forms of a word share at least."""

_ENDING = 3
"""How many letters their ends have at most."""

_NAME = re.compile(r"(?<=\w[\s,;'’\-])\b[A-Z]\w+")
"""A word with a capital that does not begin its sentence."""


def _shares_a_word(name: str, words: list[str]) -> bool:
    """Return True if a name has one of the words, perhaps in another form: "lives" and "live", "worked" and "works"."""
    return any(_same_but_for_its_end(each, word) for each in words_of(name) for word in words)


def _same_but_for_its_end(one: str, other: str) -> bool:
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return shared >= _STEM and max(len(one), len(other)) - shared <= _ENDING


class Question:
    """A query, with the other names of what it asks for."""

    def __init__(self, query: str, index: FactIndex) -> None:
        self._index = index
        words = words_of(query)
        padded = f" {' '.join(words)} "

        def mentions(name: str) -> bool:
            named = " ".join(words_of(name))
            return bool(named) and f" {named} " in padded

        self.subjects = index.slots.mentioned(words)
        added = [index.knowledge.names.display_name(index.slots.subjects[key]) for key in sorted(self.subjects)]
        for predicate in index.slots.predicates:
            names = index.schema.names_of(predicate)
            if any(mentions(name) or _shares_a_word(name, words) for name in names):
                added.append(predicate.replace("_", " "))
        self.text = " ".join([query, *(name for name in added if not mentions(name))])
        asked = query_words(self.text, query_language(self.text))
        self._terms = [frozenset((term, *words)) for term, words in asked.items()]
        self._names = [frozenset(index_terms(name)) for name in _NAME.findall(query)]

    def answers(self) -> list[Fact] | None:
        """Return the facts that answer it, in any order; None if it names no known subject: then any may."""
        if not self.subjects:
            return None
        return [fact for fact in self._index.naming(self.subjects) if self.is_answered_by(fact)]

    def is_answered_by(self, fact: Fact) -> bool:
        """Return True if a fact is about what is asked, and not only about whom.

        It shares a word with the question beyond the names of its subject. If the question is about known subjects, it
        is about one of them; if it names others alone, there is no answer.
        """
        named = self._index.names.root(fact.subject), self._index.object_of(fact)
        if self.subjects and self.subjects.isdisjoint(named):
            return False
        about, said = self._index.terms_of(fact)
        if not self.subjects and any(name.isdisjoint(said | about) for name in self._names):
            return False
        asked = [forms for forms in self._terms if forms.isdisjoint(about)]
        return not asked or not all(map(said.isdisjoint, asked))


async def ranked_facts(
    store: Store, place: MemoryMetadata, question: Question, index: FactIndex, limit: int
) -> list[Fact]:
    """Return those of the facts that answer a question, in the order in which the store ranks their entries."""
    answers = question.answers()
    if answers is not None and len(answers) <= _FEW_ANSWERS:
        return await _ranked_alone(question, answers, limit)
    most = limit if answers is None else min(limit, len(answers))
    size = _FIRST_PAGE_FACTOR * limit + 20
    while index.slots.places and most:
        ranked = await store.search_ranked(
            query=question.text, metadata=place, memory_type="fact", archived=True, limit=size, mode="text"
        )
        found: dict[str, Fact] = {}
        for each in ranked:
            fact = index.of_entry(each.item.id)
            if fact is not None and question.is_answered_by(fact):
                found[fact.id] = fact
        if len(found) >= most or len(ranked) < size:
            return list(found.values())[:limit]
        size *= 4
    return []


async def _ranked_alone(question: Question, answers: Sequence[Fact], limit: int) -> list[Fact]:
    """Return a few answers in their order among each other, which takes the same time however much else is known."""
    if len(answers) < 2:
        return list(answers)[:limit]
    await import_in_thread("memoranda_backend.ranking.ranking")
    from memoranda_backend.ranking import Passage, rank_text

    by_id = {fact.id: fact for fact in answers}
    said = [Passage(fact.id, _sentence(fact), date=fact.recorded_at, session=fact.id) for fact in answers]
    return [by_id[each.key] for each in rank_text(question.text, [[each] for each in said], limit=limit)]


def _sentence(fact: Fact) -> str:
    said = [fact.subject, fact.predicate.replace("_", " "), str(fact.object), *map(str, fact.qualifiers.values())]
    return " ".join(said)


def profile_text(facts: Iterable[Fact], schema: Schema, tokens: int, counter: TokenCounter | None) -> str:
    """Return facts as lines, as many as fit into so many tokens.

    Pinned predicates come first, then what is trusted most, then the latest.
    """
    count = counter or estimate_tokens
    places = {same_text(each.name): place for place, each in enumerate(schema.predicates) if each.pinned}
    latest_first = sorted(facts, key=lambda fact: fact.recorded_at, reverse=True)
    ordered = sorted(
        latest_first,
        key=lambda fact: (places.get(same_text(fact.predicate), len(places)), -Trust(fact.trust).rank),
    )
    lines: list[str] = []
    for fact in ordered:
        notes = [f"since {in_short(fact.valid_from)}"] if fact.valid_from and fact.valid_from != EVER else []
        notes += [] if fact.state == "holds" else [fact.state]
        about = " ".join(f"{fact.subject} {fact.predicate.replace('_', ' ')}: {fact.object}".split())
        noted = f" ({', '.join(notes)})" if notes else ""
        line = f"- {about}{noted} [{short_id(fact.id)}]"
        if count(MemoryItem(content="\n".join([*lines, line]))) <= tokens:
            lines.append(line)
    return "\n".join(lines)
