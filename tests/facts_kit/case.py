"""The base of the cases of facts."""

from __future__ import annotations

from collections.abc import Iterable

from memoranda.items import HumanMemory, MemoryItem
from memoranda.store import Store
from memoranda_facts import Fact, Facts, Predicate, Schema
from memoranda_testing.case import Cases

SCHEMA = Schema(
    [
        Predicate("name", "one", pinned=True),
        Predicate("lives_in", "one", aliases=("home", "residence")),
        Predicate("employer", "one", refers=True),
        Predicate("city", "one"),
        Predicate("likes", "many", normalise=lambda value: str(value).lower()),
        Predicate("visited", "event"),
    ],
    subjects={"Countess of Lovelace": "Ada"},
)
"""What the cases declare."""


class FactsCases(Cases):
    """Cases that each work for a user of their own."""

    facts_class: type[Facts] = Facts
    """The class that is tested."""

    def handle(self, store: Store) -> Store:
        """Return a handle of a new user."""
        return store.scoped(user_id=self.user())

    @staticmethod
    def stranger(handle: Store) -> Store:
        """Return a handle for what strangers say to the same user, such as the pages of a website."""
        return handle.scoped(session_id="website", trust="external", origin="website")

    def facts(self, handle: Store) -> Facts:
        """Return the facts of a handle's user."""
        return self.facts_class(handle, schema=SCHEMA)


async def said(
    handle: Store, content: str, created_at: str = "2026-01-05T12:00:00+00:00", ttl: float | None = None
) -> MemoryItem:
    """Add a message of the user, with a lifetime in seconds if it has one, and return it."""
    item = HumanMemory(content=content, created_at=created_at)
    await handle.add(item, ttl=ttl)
    return item


def objects(facts: Iterable[Fact]) -> list[str]:
    """Return the objects of facts as texts, in their order."""
    return [str(fact.object) for fact in facts]


def states(facts: Iterable[Fact]) -> dict[str, str]:
    """Return the states of facts by their objects."""
    return {str(fact.object): fact.state for fact in facts}
