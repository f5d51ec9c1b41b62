"""The tools for facts: look_up_facts, set_fact, end_fact."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from memoranda.errors import InputError
from memoranda_facts import Fact as StoredFact
from memoranda_facts.tools import MOST_RECALLED, FactTools
from memoranda_mcp.memory import Outcome, ScopedMemory
from memoranda_mcp.tools.tool import Report, tool

Name = Annotated[str, Field(min_length=1, max_length=1000)]
Value = Annotated[str, Field(min_length=1, max_length=10_000)]
Date = Annotated[str | None, Field(max_length=64, description="As exact as it is known: 2026, 2026-03 or 2026-03-05.")]


class Fact(Outcome):
    """A fact as an assistant sees it."""

    id: str
    subject: str
    predicate: str
    value: Any
    since: str | None = None
    until: str | None = None
    state: str = Field(description="holds; disputed and unsure need the person's word.")
    trust: str
    qualifiers: dict[str, Any] | None = None


class Facts(Outcome):
    """What is known."""

    facts: list[Fact]
    more: int = Field(default=0, description="How many more there are; narrow the question to see them.")


class Change(Outcome):
    """What a change did."""

    change: str
    replaced: list[Fact] = Field(default=[])
    disputed: list[Fact] = Field(default=[])


@tool("Look up facts", reads=True)
async def look_up_facts(
    memory: ScopedMemory,
    report: Report,
    *,
    query: Annotated[
        Value | None, Field(description="A question in your own words; leave it out to list what holds.")
    ] = None,
    subject: Annotated[Name | None, Field(description="Only facts about this person or thing, by name.")] = None,
    predicate: Annotated[Name | None, Field(description="Only this property, such as lives_in.")] = None,
    at: Annotated[Date, Field(description="What was true then, instead of now: 2026, 2026-03 or 2026-03-05.")] = None,
    limit: Annotated[int, Field(ge=1, le=MOST_RECALLED)] = 20,
) -> Facts:
    """Look up what is true now of a person or a thing, or was true at a date, with the ids of the facts.

    Facts are single properties with a history: where someone lives or works, their name, birthday, family, diet,
    likes. A fact that is disputed or unsure says so: ask the person before you rely on it.
    """
    found = await FactTools(memory.facts).recall_facts(query, subject, predicate, at, limit)
    return Facts.model_validate(found)


@tool("Record a fact")
async def set_fact(
    memory: ScopedMemory,
    report: Report,
    *,
    subject: Annotated[Name, Field(description="Who or what it is about, by name.")],
    predicate: Annotated[Name, Field(description="What is said of them, such as lives_in, employer or likes.")],
    value: Annotated[Value, Field(description="The value, in a few words.")],
    since: Annotated[Date, Field(description="Since when: 2026, 2026-03 or 2026-03-05.")] = None,
    corrects: Annotated[
        Name | None, Field(description="The id of a fact that was never true, and that this one is right instead of.")
    ] = None,
) -> Change:
    """Record that something is true of a person or a thing, as subject, predicate and value.

    Use it as soon as the person states such a property or that it has changed: they live in, moved to, work for, are
    called, have, like, are allergic to. A new value replaces the old one where only one can hold, and the old one stays
    in the history.
    """
    tools = FactTools(memory.facts)
    if corrects is None:
        changed = await tools.remember_fact(subject, predicate, value, since)
    elif since is not None:
        raise InputError("Leave `since` out with `corrects`: the right value holds since the wrong one did.")
    else:
        wrong = await _found(memory, corrects, "corrects")
        if wrong.id not in {fact.id for fact in await memory.facts.history(subject, predicate)}:
            raise InputError(
                "The fact that `corrects` names is not about this subject and predicate. Nothing was changed.",
                field="corrects",
            )
        changed = await tools.correct_fact(wrong.id, value)
    await memory.subscriptions.check()
    return Change.model_validate(changed)


@tool("End a fact", destroys=True)
async def end_fact(
    memory: ScopedMemory,
    report: Report,
    *,
    id: Annotated[Name, Field(description="The id of a fact, from look_up_facts.")],
    at: Annotated[Date, Field(description="When it ended, by default now: 2026, 2026-03 or 2026-03-05.")] = None,
    never_true: Annotated[bool, Field(description="It did not end: it was wrong from the start.")] = False,
) -> Change:
    """Record that a fact is no longer true and nothing takes its place: they quit, left, sold it, stopped doing it.

    With `never_true`, that it was wrong from the start. If there is a new value, use set_fact.
    """
    tools = FactTools(memory.facts)
    if never_true and at is not None:
        raise InputError("Leave `at` out with `never_true`: what never was has not ended.", field="at")
    fact = await _found(memory, id, "id")
    changed = await (tools.correct_fact(fact.id) if never_true else tools.end_fact(fact.id, at))
    await memory.subscriptions.check()
    return Change.model_validate(changed)


async def _found(memory: ScopedMemory, fact_id: str, field: str) -> StoredFact:
    """Return the fact of an id. Raises InputError if there is none."""
    fact = await memory.facts.get(fact_id)
    if fact is None:
        raise InputError("There is no fact with this id. Ids come from look_up_facts.", field=field)
    return fact


FACTS = (look_up_facts, set_fact, end_fact)
