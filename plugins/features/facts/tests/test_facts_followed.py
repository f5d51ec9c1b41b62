"""What is known is brought up to date with what changed, and is the same as if it were read anew."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from stepwise import StepwiseStore

from memoranda.items import MemoryMetadata, PayloadChanges
from memoranda.store import InMemoryStore, Store
from memoranda.store.backend import Filter
from memoranda_facts import Facts, Predicate, Schema
from memoranda_sqlite import SQLiteMemoryStore

SCHEMA = Schema([Predicate("lives_in", "one"), Predicate("likes")])
PEOPLE, PLACES = [f"Person {number}" for number in range(40)], ["Oslo", "Lima", "Rome", "Kyoto"]


class CountingStore(StepwiseStore):
    """Counts the entries that are read as changes."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []

    async def _payload_changes(self, wanted: Filter, since: object) -> PayloadChanges:
        changes = await super()._payload_changes(wanted, since)
        self.read.append(len(changes.rows))
        return changes


async def test_questions_read_what_has_changed_and_nothing_else() -> None:
    store = CountingStore()
    facts = Facts(store.scoped(user_id="ada"), schema=SCHEMA)
    for person in PEOPLE:
        await facts.set(person, "lives_in", "Oslo", sources="manual")
    await facts.search("Where does Person 3 live?")
    store.read.clear()
    await facts.search("Where does Person 3 live?")
    await facts.follow("Person 3", "lives_in")
    assert sum(store.read) == 0
    await Facts(store.scoped(user_id="ada"), schema=SCHEMA).set("Person 3", "lives_in", "Lima", sources="manual")
    await Facts(store.scoped(user_id="bob"), schema=SCHEMA).set("Person 3", "lives_in", "Rome", sources="manual")
    store.read.clear()
    assert [fact.object for fact in await facts.search("Where does Person 3 live?")] == ["Lima"]
    assert [fact.object for fact in await facts.follow("Person 3", "lives_in")] == ["Lima"]
    assert sum(store.read) == 1


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_what_is_followed_is_what_is_read_anew(kind: str, tmp_path: Path) -> None:
    store: Store = InMemoryStore() if kind == "memory" else SQLiteMemoryStore(tmp_path / "facts.db")
    async with store:
        handle = store.scoped(user_id="ada")
        followed, other = Facts(handle, schema=SCHEMA), Facts(handle, schema=SCHEMA)
        draw = random.Random(11)
        for step in range(120):
            await changed(draw, other if step % 3 else followed, store)
            if step % 4 == 0:
                fresh = Facts(handle, schema=SCHEMA)
                assert await followed.current() == await fresh.current()
                assert await followed.history() == await fresh.history()
                person = draw.choice(PEOPLE[:8])
                assert await followed.follow(person, "lives_in") == await fresh.follow(person, "lives_in")
                question = f"Where does {person} live?"
                assert await followed.search(question) == await fresh.search(question)
                assert await followed.search(question, history=True) == await fresh.search(question, history=True)


async def changed(draw: random.Random, facts: Facts, store: Store) -> None:
    """Make one change of any kind."""
    person, place = draw.choice(PEOPLE[:8]), draw.choice([*PLACES, *PEOPLE[:2]])
    kind = draw.randrange(12)
    if kind < 5:
        await facts.set(person, "lives_in", place, sources="manual")
    elif kind < 8:
        await facts.set(person, "likes", place, sources="manual")
    elif kind == 8:
        await facts.end(person, "likes", sources="manual")
    elif kind == 9 and (held := await facts.current(person)):
        await facts.retract(held[0], sources="manual")
    elif kind == 10:
        receipt = await facts.set(person, "lives_in", place, sources="manual")
        await facts.undo(receipt)
    elif kind == 11 and (held := await facts.current(person)) and draw.random() < 0.5:
        await store.purge(held[0].id, metadata=MemoryMetadata(user_id="ada"))
    elif draw.random() < 0.1:
        await facts.merge(PEOPLE[0], PEOPLE[7], sources="manual")
