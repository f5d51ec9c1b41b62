"""Whether facts keep up with a life: after a change, only the current value holds, and nothing else has ended.

A case is a line of five parts between bars: a language, what a person said before, what they said later, the values
that have ended by then, and the values that hold. ``;`` separates values, ``Name/`` stands before a value of somebody
else, and ``predicate: `` before one that only counts by that predicate. A case without an ended value is one that ends
nothing: a wish, a question, somebody else's change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memoranda import HumanMemory
from memoranda.store import InMemoryStore
from memoranda_facts import Fact, Facts
from memoranda_facts.extraction import ExtractionRun, FactExtractor, everyday_schema

USER = "somebody"
BEFORE, LATER = "2026-01-10T09:00:00+00:00", "2026-06-20T09:00:00+00:00"


@dataclass(frozen=True, slots=True)
class Change:
    """A case: what was said before and later, and what has ended and what holds then."""

    language: str
    before: str
    later: str
    ended: tuple[str, ...]
    holding: tuple[str, ...]


@dataclass(slots=True)
class Staleness:
    """What came of some cases.

    ``current`` counts the changes after which only the current value holds: what has ended was known before and holds
    no more, and what holds now does. ``wrong`` counts the values that have ended by mistake, of ``kept``.
    """

    changes: int = 0
    current: int = 0
    kept: int = 0
    wrong: int = 0
    failed: list[Change] = field(default_factory=list)

    @property
    def current_share(self) -> float:
        """The share of changes after which only the current value holds."""
        return self.current / self.changes if self.changes else 1.0

    @property
    def wrong_share(self) -> float:
        """The share of values that have ended by mistake."""
        return self.wrong / self.kept if self.kept else 0.0


def read_changes(path: Path) -> list[Change]:
    """Return the cases of a file; empty lines and lines that begin with ``#`` are left out."""
    lines = [line for line in path.read_text("utf-8").splitlines() if line.strip() and not line.startswith("#")]
    cases = []
    for line in lines:
        language, before, later, ended, holding = (part.strip() for part in line.split("|"))
        cases.append(Change(language, before, later, _values(ended), _values(holding)))
    return cases


async def staleness(changes: Iterable[Change], extractor: FactExtractor) -> Staleness:
    """Return how well an extractor keeps up with changes, each of a person of its own."""
    result = Staleness()
    for change in changes:
        before, later = await _read(change, extractor)
        kept = [value for value in change.holding if _has(before, value)]
        lost = [value for value in kept if not _has(later, value)]
        result.kept += len(kept)
        result.wrong += len(lost)
        if change.ended:
            result.changes += 1
            known = all(_has(before, value) for value in change.ended)
            stale = any(_has(later, value) for value in change.ended)
            is_current = known and not stale and all(_has(later, value) for value in change.holding)
            result.current += is_current
            if not is_current:
                result.failed.append(change)
        elif lost:
            result.failed.append(change)
    return result


async def _read(change: Change, extractor: FactExtractor) -> tuple[list[Fact], list[Fact]]:
    """Return what holds before a change and after it."""
    handle = InMemoryStore().scoped(user_id=USER, session_id="s")
    facts = Facts(handle, schema=everyday_schema())
    run = ExtractionRun(facts, extractor)
    found = []
    for text, moment in ((change.before, BEFORE), (change.later, LATER)):
        await handle.add(HumanMemory(content=text, created_at=moment))
        await run.run()
        found.append(await facts.current())
    return found[0], found[1]


def _values(text: str) -> tuple[str, ...]:
    return tuple(value.strip() for value in text.split(";") if value.strip())


def _has(facts: Sequence[Fact], wanted: str) -> bool:
    subject, _, said = wanted.rpartition("/")
    predicate, _, value = said.rpartition(": ")
    return any(
        fact.subject.casefold() == (subject or USER).casefold()
        and predicate in ("", fact.predicate)
        and f" {value} ".casefold() in f" {fact.object} ".casefold()
        for fact in facts
    )
