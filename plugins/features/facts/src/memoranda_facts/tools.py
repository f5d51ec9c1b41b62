"""Tools for the agent's own model: to remember, correct, end and recall facts, without another model call.

They are plain async functions with JSON schemas. Framework adapters and ``memoranda mcp`` offer them as they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memoranda.errors import InputError
from memoranda.shapes import whole_number
from memoranda.trust import Trust
from memoranda_facts.facts import Facts
from memoranda_facts.results import Fact, Receipt, Sources
from memoranda_facts.values import dumped

RULE = "tool"
"""The rule of a fact that a model has recorded with a tool."""

MOST_RECALLED = 50

_DATE = {"type": "string", "description": "A date as exact as it is known: 2026, 2026-03 or 2026-03-05."}
_ID = {"type": "string", "description": "The id of a fact, from recall_facts."}


def _schema(required: tuple[str, ...], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_SUBJECT = {"type": "string", "description": "Who or what it is about, by name."}
_PREDICATE = {"type": "string", "description": "What is said of them, such as lives_in, employer or likes."}

SCHEMAS: Mapping[str, dict[str, Any]] = {
    "remember_fact": _schema(
        ("subject", "predicate", "value"),
        subject=_SUBJECT,
        predicate=_PREDICATE,
        value={"type": "string", "description": "The value, in a few words."},
        since={**_DATE, "description": f"Since when. {_DATE['description']} Leave it out if it is not known."},
    ),
    "correct_fact": _schema(
        ("id",),
        id=_ID,
        value={"type": "string", "description": "What was true instead; leave it out if that is not known."},
    ),
    "end_fact": _schema(
        ("id",), id=_ID, at={**_DATE, "description": f"When it ended; by default now. {_DATE['description']}"}
    ),
    "recall_facts": _schema(
        (),
        query={"type": "string", "description": "A question in your own words; leave it out to list what holds."},
        subject=_SUBJECT,
        predicate=_PREDICATE,
        at={**_DATE, "description": f"What held then, instead of now. {_DATE['description']}"},
        limit={"type": "integer", "minimum": 1, "maximum": MOST_RECALLED, "default": 20},
    ),
}
"""The JSON schema of each tool's arguments."""

DESCRIPTIONS: Mapping[str, str] = {
    "remember_fact": "Record a lasting fact that the person has just stated, such as where they live or what they "
    "like. A newer value replaces an older one where only one can hold.",
    "correct_fact": "Record that a fact was never true, and what was true instead. If it was true and has changed, use "
    "remember_fact with the new value, or end_fact.",
    "end_fact": "Record that a fact was true and has stopped being true.",
    "recall_facts": "Look up what is known to be true now, or at a date, with the ids of the facts. A fact that is "
    "disputed or unsure says so: ask the person before you rely on it.",
}
"""What each tool tells the model about itself."""


@dataclass(frozen=True, slots=True)
class FactTool:
    """A tool: call it with the arguments that its schema describes. ``reads`` is True if it changes nothing.

    Wrong arguments raise InputError, with a sentence that a model can act on.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    reads: bool
    function: Callable[..., Awaitable[dict[str, Any]]]

    async def __call__(self, **arguments: Any) -> dict[str, Any]:
        """Check the names of the arguments, and return the result as JSON can hold it."""
        known = self.schema["properties"]
        missing = [name for name in self.schema["required"] if arguments.get(name) is None]
        unknown = [name for name in arguments if name not in known]
        if missing or unknown:
            wrong = f"{missing[0]!r} is missing" if missing else f"{unknown[0]!r} is not an argument"
            raise InputError(f"{wrong}. The arguments of {self.name}: {', '.join(known)}.", field="arguments")
        given = {name: value for name, value in arguments.items() if value is not None}
        for name, value in given.items():
            if not isinstance(value, {"string": str, "integer": int}[known[name]["type"]]):
                raise InputError(f"{name!r} must be a {known[name]['type']}.", field=name)
        return await self.function(**given)


class FactTools:
    """The tools of one :class:`Facts`. ``sources`` returns what supports a change: such as the person's last item.

    Without ``sources``, what a tool records is the model's own word: it is trusted as an agent is, and never replaces
    what the user said without a dispute.
    """

    def __init__(self, facts: Facts, sources: Callable[[], Sources] | None = None) -> None:
        self.facts = facts
        self._sources = sources

    def all(self, *, read_only: bool = False) -> list[FactTool]:
        """Return the tools; with ``read_only`` those that change nothing."""
        tools = [
            FactTool(name, DESCRIPTIONS[name], SCHEMAS[name], name == "recall_facts", getattr(self, name))
            for name in SCHEMAS
        ]
        return [tool for tool in tools if tool.reads or not read_only]

    async def remember_fact(self, subject: str, predicate: str, value: str, since: str | None = None) -> dict[str, Any]:
        """Record a fact, and return what came of it."""
        receipt = await self.facts.set(subject, predicate, value, valid_from=since, **self._provenance())
        return await self._outcome(receipt)

    async def correct_fact(self, id: str, value: str | None = None) -> dict[str, Any]:
        """Record that a fact was never true."""
        await self._find(id)
        return await self._outcome(await self.facts.correct(id, value, **self._provenance()))

    async def end_fact(self, id: str, at: str | None = None) -> dict[str, Any]:
        """Record that a fact has stopped being true."""
        fact = await self._find(id)
        receipt = await self.facts.end(fact.subject, fact.predicate, fact.object, at=at, **self._provenance())
        return await self._outcome(receipt)

    async def recall_facts(
        self,
        query: str | None = None,
        subject: str | None = None,
        predicate: str | None = None,
        at: str | None = None,
        limit: int = 20,
    ) -> dict[str, Any]:
        """Return what holds, best first for a query."""
        limit = min(whole_number(limit, "limit", least=1), MOST_RECALLED)
        if query is not None:
            found = await self.facts.search(query, limit=limit)
            held = {fact.id for fact in await self._held(subject, predicate, at)}
            found = [fact for fact in found if fact.id in held]
        else:
            found = await self._held(subject, predicate, at)
        return {"facts": [described(fact) for fact in found[:limit]], "more": max(0, len(found) - limit)}

    async def _held(self, subject: str | None, predicate: str | None, at: str | None) -> list[Fact]:
        return await self.facts.state(valid=at, subject=subject, predicate=predicate)

    async def _find(self, fact_id: str) -> Fact:
        fact = await self.facts.get(fact_id)
        if fact is None:
            raise InputError("There is no fact with this id. Ids come from recall_facts.", field="id")
        return fact

    def _provenance(self) -> dict[str, Any]:
        if self._sources is not None:
            return {"sources": self._sources(), "rule": RULE}
        return {"sources": "manual", "rule": RULE, "trust": Trust.AGENT}

    async def _outcome(self, receipt: Receipt) -> dict[str, Any]:
        return {
            "change": receipt.id,
            "replaced": [described(fact) for fact in await self._facts(receipt.replaced)],
            "disputed": [described(fact) for fact in await self._facts(receipt.disputed)],
        }

    async def _facts(self, ids: tuple[str, ...]) -> list[Fact]:
        found = [await self.facts.get(fact_id) for fact_id in ids]
        return [fact for fact in found if fact is not None]


def described(fact: Fact) -> dict[str, Any]:
    """Return a fact as JSON holds it; what is not known is left out."""
    value = dumped(fact.object)
    whole = {
        "id": fact.id,
        "subject": fact.subject,
        "predicate": fact.predicate,
        "value": next(iter(value.values())) if isinstance(value, dict) else value,
        "since": None if fact.valid_from == ".." else fact.valid_from,
        "until": fact.valid_to,
        "state": fact.state,
        "trust": str(fact.trust),
        "qualifiers": dict(fact.qualifiers) or None,
    }
    return {name: held for name, held in whole.items() if held is not None}
