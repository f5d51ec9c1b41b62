"""Finding facts: by a question, along references, and as a profile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.offloading import import_in_thread
from memoranda.store import Store
from memoranda.tokens import TokenCounter, estimate_tokens
from memoranda.trust import Trust
from memoranda_backend.text import index_terms, query_language, query_words
from memoranda_facts.dates import EVER, in_short
from memoranda_facts.fact_index import FactIndex, words_of
from memoranda_facts.records import short_id
from memoranda_facts.results import Fact
from memoranda_facts.schema import Schema
from memoranda_facts.values import same_text

_FIRST_LOOK = 4
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
        added = [index.knowledge.names.shown(index.slots.subjects[key]) for key in sorted(self.subjects)]
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
    size = _FIRST_LOOK * limit + 20
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
    """Return a fact as a text to be ranked."""
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
