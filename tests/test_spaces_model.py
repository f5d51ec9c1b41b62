"""Grants against a small model: nobody reads what was not granted, and nothing that was granted is missing.

Every item has a word of its own. After each step, every kind of handle is asked for everything in every way, and what
it shows is what the model says: for users with and without agents, groups and spaces, publications, items that were
made from others, purges, and a clock that goes on.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import memoranda
from memoranda import HumanMemory, Store, SummaryMemory
from memoranda.errors import NotGrantedError
from memoranda.store import InMemoryStore
from memoranda_context import assemble
from memoranda_spaces import Grantee, Grants, agent, group, user

T = TypeVar("T")

USERS = ("ada", "bob", "cleo")
SPACES = ("acme", "beta")
GROUPS = ("leads",)
TO = (*map(user, USERS), agent("planner", of="ada"), agent("auditor"), *map(group, GROUPS))
LEVELS = {"read": 1, "write": 2, "manage": 3}
BEGAN = datetime(2040, 1, 1, tzinfo=UTC).timestamp()


@dataclass
class Kept:
    """An item of the model: whose it is, or in which space, its word, and what it was made from."""

    id: str
    owner: str | None = None
    space: str | None = None
    sources: tuple[str, ...] = ()
    ends: float | None = None
    by: str | None = None

    @property
    def word(self) -> str:
        return f"canary{self.id}"


@dataclass
class Model:
    """What is granted, who is in which group, and what is stored."""

    now: float = BEGAN
    grants: dict[tuple[str, Grantee], tuple[str, float | None]] = field(default_factory=dict)
    members: set[tuple[str, str]] = field(default_factory=set)
    items: dict[str, Kept] = field(default_factory=dict)

    def live(self, space: str, to: set[Grantee], may: str = "read") -> list[float | None]:
        """Return when the grants end that allow as much."""
        whom = to | {group(name) for name, member in self.members if user(member) in to}
        found = [held for (place, grantee), held in self.grants.items() if place == space and grantee in whom]
        return [until for level, until in found if LEVELS[level] >= LEVELS[may] and (until is None or until > self.now)]

    def until(self, space: str, name: str) -> float | None:
        """Return until when a user may read a space; None for as long as the grants stand."""
        ends = self.live(space, {user(name)})
        return None if None in ends else max(end for end in ends if end is not None)

    def reads(self, kept: Kept, name: str, of: str | None, spaces: bool) -> bool:
        """Return True if a handle shows an item."""
        if kept.ends is not None and kept.ends <= self.now:
            return False
        if kept.space is None:
            return kept.owner == name and of is None
        return spaces and bool(self.live(kept.space, identities(name, of)))

    def drop(self, gone: set[str]) -> None:
        """Remove items, with all that was made from them."""
        while gone:
            for item_id in gone:
                self.items.pop(item_id, None)
            gone = {each.id for each in self.items.values() if gone.intersection(each.sources)}

    def origins(self, kept: Kept) -> set[str]:
        """Return the spaces that an item comes from, at any remove."""
        if kept.space is not None:
            return {kept.space}
        return set().union(*(self.origins(self.items[each]) for each in kept.sources if each in self.items))

    def settle(self, space: str) -> None:
        """Remove what was made from a space by users who may not read it any more, or not for as long."""
        for kept in list(self.items.values()):
            if kept.owner is None or space not in self.origins(kept):
                continue
            may = self.live(space, {user(kept.owner)})
            until = self.until(space, kept.owner) if may else None
            if not may or (until is not None and (kept.ends is None or kept.ends > until)):
                self.drop({kept.id})


def identities(name: str, of: str | None = None) -> set[Grantee]:
    found = {user(name)}
    return found if of is None else {*found, agent(of, of=name), agent(of)}


class SpacesMachine(RuleBasedStateMachine):
    """Changes a store and the model alike, and compares them after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = Model()
        self.number = 0

    def made(self) -> Store:
        return InMemoryStore()

    @initialize()
    def open(self) -> None:
        self.store = self.made()
        self.store.clock = lambda: self.model.now  # type: ignore[method-assign]
        self.run(self.store.init())
        self.grants = Grants(self.store)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.close())
        self.runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def change(self, call: str, **asked: Any) -> None:
        """Change grants, or purge an item, as the operator."""
        if call == "purge":
            self.run(self.store.purge(asked["item"]))
            return
        if asked.get("until") is not None:
            asked["until"] = datetime.fromtimestamp(asked["until"], UTC)
        positional = [asked.pop(key) for key in ("space", "name", "member") if key in asked]
        self.run(getattr(self.grants, call)(*positional, **asked, by="vera"))

    def handle(self, name: str, of: str | None = None, spaces: Any = "granted") -> Any:
        scope = {"user_id": name} if of is None else {"user_id": name, "agent_id": of}
        return self.store.scoped(**scope) if spaces is None else self.store.scoped(**scope, spaces=spaces)

    def new(self, **fields: Any) -> Kept:
        self.number += 1
        return Kept(f"{self.number:04}", **fields)

    def item(self, kept: Kept, kind: type[Any] = HumanMemory, **fields: Any) -> Any:
        return kind(id=kept.id, content=f"I noted that {kept.word} matters.", **fields)

    # Grants and groups

    @rule(
        space=st.sampled_from(SPACES),
        to=st.sampled_from(TO),
        may=st.sampled_from(list(LEVELS)),
        lasts=st.integers(0, 4),
    )
    def give(self, space: str, to: Grantee, may: str, lasts: int) -> None:
        until = None if not lasts else self.model.now + 10 * lasts
        self.change("give", space=space, to=to, may=may, until=until)
        self.model.grants[space, to] = (may, until)
        self.model.settle(space)

    @rule(space=st.sampled_from(SPACES), to=st.sampled_from(TO))
    def revoke(self, space: str, to: Grantee) -> None:
        self.change("revoke", space=space, to=to)
        self.model.grants.pop((space, to), None)
        self.model.settle(space)

    @rule(name=st.sampled_from(GROUPS), member=st.sampled_from(USERS))
    def join(self, name: str, member: str) -> None:
        self.change("join", name=name, member=f"user:{member}")
        self.model.members.add((name, member))

    @rule(name=st.sampled_from(GROUPS), member=st.sampled_from(USERS))
    def leave(self, name: str, member: str) -> None:
        self.change("leave", name=name, member=f"user:{member}")
        self.model.members.discard((name, member))
        for space in SPACES:
            self.model.settle(space)

    @rule(name=st.sampled_from(USERS), to=st.sampled_from(TO), space=st.sampled_from(SPACES))
    def manager_gives(self, name: str, to: Grantee, space: str) -> None:
        allowed = bool(self.model.live(space, identities(name), "manage"))
        grants = Grants(self.handle(name))
        if self.tried(grants.give(space, to=to, may="read"), allowed):
            self.model.grants[space, to] = ("read", None)
            self.model.settle(space)

    # Items

    @rule(name=st.sampled_from(USERS))
    def add_private(self, name: str) -> None:
        kept = self.new(owner=name)
        self.run(self.handle(name).add(self.item(kept)))
        self.model.items[kept.id] = kept

    @rule(space=st.sampled_from(SPACES))
    def operator_adds(self, space: str) -> None:
        kept = self.new(space=space)
        self.run(self.store.space(space).add(self.item(kept)))
        self.model.items[kept.id] = kept

    @rule(name=st.sampled_from(USERS), space=st.sampled_from(SPACES))
    def member_adds(self, name: str, space: str) -> None:
        kept = self.new(space=space, by=name)
        allowed = bool(self.model.live(space, identities(name), "write"))
        if self.tried(self.handle(name).add(self.item(kept), space=space), allowed):
            self.model.items[kept.id] = kept

    @precondition(lambda self: self.model.items)
    @rule(name=st.sampled_from(USERS), data=st.data())
    def derive(self, name: str, data: st.DataObject) -> None:
        there = [kept.id for kept in self.model.items.values() if kept.ends is None or kept.ends > self.model.now]
        if not there:
            return
        sources = tuple(data.draw(st.lists(st.sampled_from(sorted(there)), min_size=1, max_size=2, unique=True)))
        if any(self.model.items[each].owner not in (None, name) for each in sources):
            return  # Nobody makes anything from what lies in another's scope: its id is not known there.
        kept = self.new(owner=name, sources=sources)
        spaces = self.model.origins(kept)
        allowed = all(self.model.live(space, {user(name)}) for space in spaces)
        item = self.item(kept, SummaryMemory, sources=list(sources))
        handle = self.handle(name, spaces=data.draw(st.sampled_from(["granted", None])))
        if self.tried(handle.add(item), allowed):
            ends = [self.model.until(space, name) for space in spaces]
            ends += [self.model.items[each].ends for each in sources]
            kept.ends = min((end for end in ends if end is not None), default=None)
            self.model.items[kept.id] = kept

    @rule(name=st.sampled_from(USERS), space=st.sampled_from(SPACES), data=st.data())
    def derive_in_space(self, name: str, space: str, data: st.DataObject) -> None:
        there = sorted(kept.id for kept in self.model.items.values() if kept.space == space)
        if not there:
            return
        sources = tuple(data.draw(st.lists(st.sampled_from(there), min_size=1, max_size=2, unique=True)))
        kept = self.new(space=space, by=name, sources=sources)
        allowed = bool(self.model.live(space, identities(name), "write"))
        item = self.item(kept, SummaryMemory, sources=list(sources))
        if self.tried(self.handle(name).add(item, space=space), allowed):
            self.model.items[kept.id] = kept

    @precondition(lambda self: self.model.items)
    @rule(name=st.sampled_from(USERS), data=st.data())
    def touch(self, name: str, data: st.DataObject) -> None:
        """Nobody lets what was made from a space live on."""
        made = sorted(kept.id for kept in self.model.items.values() if kept.owner == name and kept.ends is not None)
        if made:
            self.run(self.handle(name, spaces=None).touch([data.draw(st.sampled_from(made))], ttl=10_000))

    @precondition(lambda self: any(kept.owner for kept in self.model.items.values()))
    @rule(space=st.sampled_from(SPACES), data=st.data())
    def publish(self, space: str, data: st.DataObject) -> None:
        own = [kept.id for kept in self.model.items.values() if kept.owner and not kept.sources]
        if not own:
            return
        original = self.model.items[data.draw(st.sampled_from(sorted(own)))]
        name = str(original.owner)
        allowed = bool(self.model.live(space, identities(name), "write"))
        grants = Grants(self.handle(name))
        if self.tried(grants.publish(original.id, space), allowed):
            # Publishing again replaces the copy, which stays the same item.
            copy = next(
                item for item in self.run(self.store.space(space).search(limit=200)) if made_of(item, original.id)
            )
            self.model.items[copy.id] = Published(copy.id, space=space, sources=(original.id,), original=original.word)

    @precondition(lambda self: any(isinstance(kept, Published) for kept in self.model.items.values()))
    @rule(data=st.data())
    def unpublish(self, data: st.DataObject) -> None:
        published = [kept.id for kept in self.model.items.values() if isinstance(kept, Published)]
        copy = self.model.items[data.draw(st.sampled_from(sorted(published)))]
        owner = str(self.model.items[copy.sources[0]].owner)
        assert self.run(Grants(self.handle(owner)).unpublish(copy.sources[0], str(copy.space)))
        self.model.drop({copy.id})

    @precondition(lambda self: self.model.items)
    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        roots = [kept.id for kept in self.model.items.values() if kept.space is not None or not kept.sources]
        if roots:
            gone = self.model.items[data.draw(st.sampled_from(sorted(roots)))]
            self.change("purge", item=gone.id)
            if gone.space is not None:
                self.model.drop({gone.id})
                return
            published = {each.id for each in self.model.items.values() if isinstance(each, Published)}
            self.model.items.pop(gone.id)
            self.model.drop({each for each in published if gone.id in self.model.items[each].sources})

    @rule(seconds=st.integers(1, 25))
    def wait(self, seconds: int) -> None:
        self.model.now += seconds

    def tried(self, work: Coroutine[Any, Any, Any], allowed: bool) -> bool:
        """Do something that the model allows or not, and return whether it does; the store agrees."""
        try:
            self.run(work)
        except NotGrantedError:
            assert not allowed
            return False
        assert allowed
        return True

    # What is compared

    @invariant()
    def every_handle_shows_what_is_granted_and_nothing_else(self) -> None:
        if not self.model.items:
            return
        for name in USERS:
            for of in (None, "planner", "auditor"):
                for spaces in (None, "granted", ["acme"]):
                    self.run(self.compare(name, of, spaces))

    async def compare(self, name: str, of: str | None, spaces: Any) -> None:
        handle = self.handle(name, of, spaces)
        expected = {
            kept.id: kept
            for kept in self.model.items.values()
            if self.model.reads(kept, name, of, spaces is not None)
            and (kept.space is None or spaces == "granted" or kept.space in (spaces or ()))
        }
        everything = list(self.model.items)
        shown = {item.id for item in await handle.search(limit=500)}
        assert shown == expected.keys(), (name, of, spaces)
        assert {item.id for item in await handle.get_many(everything)} == expected.keys()
        assert await handle.count() == len(expected)
        words = " ".join(kept.word for kept in self.model.items.values())
        ranked = {each.item.id for each in await handle.search_ranked(query=words, limit=500)}
        assert ranked == expected.keys()
        own = {each for each, kept in expected.items() if kept.space is None}
        assert {item.id for item in await handle.window()} == own
        assert {item.id async for item in handle.scan()} == own
        if of is None and spaces == "granted":
            await self.compare_further(handle, name, expected, words, everything)

    async def compare_further(
        self, handle: Any, name: str, expected: dict[str, Kept], words: str, everything: list[str]
    ) -> None:
        recalled = {item.id for item in await handle.recall(words, limit=500, min_score=0)}
        assert recalled <= expected.keys()
        prompt = str(await assemble(handle, f"What about {words}?", tokens=4000))
        shown = {kept.word for kept in self.model.items.values() if f"{kept.word} matters" in prompt}
        assert shown <= {kept.word for kept in expected.values()}
        for scope in ({"session_id": f"user:{name}"}, {"task_id": SPACES[0]}, {"agent_id": "planner"}):
            beyond = self.store.scoped(**scope)
            assert await beyond.search(limit=500, archived=None) == []
            assert await beyond.get_many(everything) == []
        for space in SPACES:
            allowed = bool(self.model.live(space, {user(name)}))
            if not allowed:
                for read in (handle.space(space).search(), handle.space(space).count(), handle.space(space).window()):
                    await refused(read)
                continue
            found = {item.id for item in await handle.space(space).search(limit=500)}
            assert found == {each for each, kept in expected.items() if kept.space == space}
        for kept in self.model.items.values():
            if kept.ends is None or kept.ends > self.model.now:
                readers = {reader.who for reader in await self.grants.who_can_read(kept.id)}
                assert (user(name) in readers) is (kept.id in expected), kept


@dataclass
class Published(Kept):
    """A copy, which has the word of its original."""

    original: str = ""

    @property
    def word(self) -> str:
        return self.original


def made_of(item: Any, source: str) -> bool:
    return source in (getattr(item, "sources", None) or ())


async def refused(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except NotGrantedError:
        return
    raise AssertionError("This was shown without a grant.")


class TwoProcesses(SpacesMachine):
    """Grants are changed, and items purged, by another process on the same file."""

    def made(self) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        url = f"sqlite:///{Path(self.folder.name) / 'agent.db'}"
        worker = Path(__file__).with_name("spaces_worker.py")
        self.other = subprocess.Popen(
            [sys.executable, str(worker), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.other.stdout is not None
        assert self.other.stdout.readline() == "ready\n"
        return memoranda.open(url)

    def change(self, call: str, **asked: Any) -> None:
        assert self.other.stdin is not None
        assert self.other.stdout is not None
        to = asked.get("to")
        if isinstance(to, Grantee) and to.agent is not None:
            super().change(call, **asked)  # Texts name no agent of one user.
            return
        asked["now"] = self.model.now
        self.other.stdin.write(json.dumps({"call": call, **asked}, default=str) + "\n")
        self.other.stdin.flush()
        assert self.other.stdout.readline() == "done\n"

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "other"):
            assert self.other.stdin is not None
            assert self.other.stdout is not None
            self.other.stdin.close()
            self.other.wait(timeout=30)
            self.other.stdout.close()
            self.folder.cleanup()


EXAMPLES = settings().max_examples // 2
STEPS = min(40, max(20, EXAMPLES))
"""Steps of each example, after each of which everything is read: few by default, and 40 with `--everything`."""

in_full = pytest.mark.timeout(1800)
"""In full, thousands of steps take minutes where the machine has other things to do."""

TestSpaces = in_full(SpacesMachine.TestCase)
TestSpaces.settings = settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None)
TestTwoProcesses = in_full(TwoProcesses.TestCase)
TestTwoProcesses.settings = settings(max_examples=max(EXAMPLES // 5, 1), stateful_step_count=STEPS, deadline=None)
