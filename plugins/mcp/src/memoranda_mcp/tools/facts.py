"""The tools for facts: remember_fact, correct_fact, end_fact, recall_facts, as memoranda-facts defines them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from memoranda_facts.tools import DESCRIPTIONS, MOST_RECALLED, FactTools
from memoranda_mcp.memory import ScopedMemory
from memoranda_mcp.tools.memories import Outcome
from memoranda_mcp.tools.tool import Arguments, Report, Tool

Name = Annotated[str, Field(min_length=1, max_length=1000)]
Value = Annotated[str, Field(min_length=1, max_length=10_000)]
Date = Annotated[str | None, Field(max_length=64, description="As exact as it is known: 2026, 2026-03 or 2026-03-05.")]
FactId = Annotated[Name, Field(description="The id of a fact, from recall_facts.")]


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


class RememberFactArguments(Arguments):
    """What remember_fact takes."""

    subject: Annotated[Name, Field(description="Who or what it is about, by name.")]
    predicate: Annotated[Name, Field(description="What is said of them, such as lives_in, employer or likes.")]
    value: Annotated[Value, Field(description="The value, in a few words.")]
    since: Date = None


class CorrectFactArguments(Arguments):
    """What correct_fact takes."""

    id: FactId
    value: Annotated[Value | None, Field(description="What was true instead; leave it out if that is not known.")] = (
        None
    )


class EndFactArguments(Arguments):
    """What end_fact takes."""

    id: FactId
    at: Date = None


class RecallFactsArguments(Arguments):
    """What recall_facts takes."""

    query: Annotated[
        Value | None, Field(description="A question in your own words; leave it out to list what holds.")
    ] = None
    subject: Name | None = None
    predicate: Name | None = None
    at: Date = None
    limit: Annotated[int, Field(ge=1, le=MOST_RECALLED)] = 20


async def _run(name: str, memory: ScopedMemory, given: Arguments) -> dict[str, Any]:
    tools = {tool.name: tool for tool in FactTools(memory.facts).all(read_only=memory.rights.read_only)}
    answer = await tools[name](**given.model_dump(exclude_none=True))
    if not tools[name].reads:
        await memory.subscriptions.check()
    return answer


def _tool(name: str, title: str, arguments: type[Arguments], outcome: type[Outcome], **hints: bool) -> Tool:
    async def run(memory: ScopedMemory, given: Any, report: Report) -> Outcome:
        return outcome.model_validate(await _run(name, memory, given))

    return Tool(name, title, DESCRIPTIONS[name], arguments, outcome, run, **hints)


FACTS = [
    _tool("remember_fact", "Record a fact", RememberFactArguments, Change),
    _tool("correct_fact", "Correct a fact", CorrectFactArguments, Change, destroys=True),
    _tool("end_fact", "End a fact", EndFactArguments, Change, destroys=True),
    _tool("recall_facts", "Recall facts", RecallFactsArguments, Facts, reads=True),
]
