"""Branches: sessions that share the past of another without copying it."""

from __future__ import annotations

import itertools
from typing import Any

from memoranda.errors import InputError, TurnConflictError, UnsupportedError
from memoranda.items import AIMemory, BranchMemory, HumanMemory, MemoryMetadata, SummaryMemory, ToolMemory
from memoranda.store import Capability, Store
from memoranda_testing.case import add_texts, moment, needs, note
from memoranda_testing.expect import SkipCase, contents, equal, raises
from memoranda_testing.model.steps import BRANCH, Call, Moved
from memoranda_testing.programs import Calls, HistoryCases, Program, item, items, mine, played

_FILTERS: dict[str, dict[str, Any]] = {
    "type": {"memory_type": "note"},
    "status": {"status": "draft"},
    "extra": {"where": {"extra.k": 1}},
    "since": {"since": moment(3)},
    "until": {"until": moment(9)},
    "trust": {"min_trust": "user"},
}
_BRANCH = f"{BRANCH}1"
_HERE, _THERE = mine(session_id="s"), mine(session_id=_BRANCH)


def forked(store: Calls, session: str, at: str, branch: str = _BRANCH) -> Call:
    """Return a call that forks a session under a name that the program knows."""
    metadata = MemoryMetadata(session_id=branch)
    record = BranchMemory(id=branch, metadata=metadata, archived_by=branch, created_at=moment(0))
    return store.fork(session, at=at, record=record)


def looks(store: Calls) -> Program:
    """Yield reads of the session and of its branch by the methods that show a session."""
    for there in (_HERE, _THERE):
        yield from (store.window(metadata=there), store.payloads(metadata=there), store.count(metadata=there))
        yield from (store.search(metadata=there, limit=100, order=order) for order in ("created", "added"))
        yield store.scan(metadata=there, archived=False, order="added")


def readings(store: Calls, asked: MemoryMetadata, filters: dict[str, Any], turn: int) -> Program:
    """Yield reads of a session by every method that takes these filters, and in every order by turns."""
    orders = ("created", "updated", "added")
    for number, order in enumerate(orders):
        search: dict[str, Any] = {"metadata": asked, "order": order, "mode": "substring", "limit": 50, **filters}
        yield store.search(**search)
        yield (
            store.search(query="TEA", **search),
            store.search(**{**search, "limit": 3, "offset": 2}),
            store.scan(metadata=asked, archived=False, order=order, **filters),
        )[(number + turn) % len(orders)]
    yield store.search_ranked(query="tea 4 milk 7", metadata=asked, mode="text", limit=50, **filters)
    if not filters:
        yield store.owners("task_id", within=asked)
        yield store.owners("namespace", within=asked, counts=False)
    if "status" not in filters:
        yield store.payloads(metadata=asked, limit=50, **filters)
    if not filters.keys() & {"status", "memory_type"}:
        yield store.window(metadata=asked, **filters)


class BranchCases(HistoryCases):
    """fork: a new session that continues another from any item."""

    async def shown(self, store: Store, scope: MemoryMetadata, session: str) -> list[str]:
        """Return what a session shows, in the order of adding."""
        asked = MemoryMetadata(user_id=scope.user_id, session_id=session)
        window = contents(await store.window(metadata=asked))
        found = contents(await store.search(metadata=asked, limit=1000, order="added", mode="substring"))[::-1]
        equal(found, window, "a search of the session beside its window")
        kept = [payload.content for payload in await store.payloads(metadata=asked)]
        equal(kept, window, "the payloads of the session beside its window")
        scanned = [item async for item in store.scan(metadata=asked, archived=False, order="added")]
        equal(contents(scanned), window, "a scan of the session beside its window")
        return window

    @needs(Capability.FORK)
    async def test_a_branch_shares_the_past_and_goes_its_own_way(self, store: Store) -> None:
        """Nothing is copied: one record is all that is added. Each side sees its own continuation alone."""
        scope = self.scope(session_id="s")
        items = await add_texts(store, scope, "a", "b", "c")
        before = await store.count(metadata=MemoryMetadata(user_id=scope.user_id))
        branch = await store.fork("s", at=items[1].id)
        equal(await store.count(metadata=MemoryMetadata(user_id=scope.user_id)), before + 1, "count after a fork")
        await add_texts(store, MemoryMetadata(user_id=scope.user_id, session_id=branch), "x", "y")
        await add_texts(store, scope, "d")
        equal(await self.shown(store, scope, "s"), ["a", "b", "c", "d"], "the session")
        equal(await self.shown(store, scope, branch), ["a", "b", "x", "y"], "the branch")
        asked = MemoryMetadata(user_id=scope.user_id, session_id=branch)
        equal(contents(await store.search(metadata=asked, query="a", mode="substring")), ["a"], "a search in the past")
        ranked = await store.search(metadata=asked, query="b x", mode="text")
        equal({"b", "x"} & {*contents(ranked)}, {"b", "x"}, "a ranked search")
        equal({"c", "d"} & {*contents(ranked)}, set(), "what a ranked search has no business with")

    @needs(Capability.FORK)
    @played
    def test_a_branch_reads_like_a_session_that_holds_all_of_it(self, store: Calls) -> Program:
        """By every filter and in every order, as deep as it may be, with items whose times go back and forth."""
        session = "s"
        for number in range(24):
            own = {"extra": {"k": number % 3}, "task_id": "t" if number % 5 else None, "namespace": ("a", str(number))}
            fields: dict[str, Any] = {
                "memory_type": ("note", "diary")[number // 4 % 2],
                "status": ("accepted", "draft")[number // 2 % 2],
                "trust": ("user", "external", None)[number % 3],
                "payload": f"payload {number}" if number % 4 else None,
                "payload_format": "test" if number % 4 else None,
            }
            text = f"{('tea', 'milk')[number % 2]} {number}"
            yield store.add(item(text, number // 2 ^ 5, mine(session_id=session, **own), id=f"{number}", **fields))
            if number % 3 == 2:
                branch = f"{BRANCH}{number}"
                yield forked(store, session, f"{number}", branch)
                session = branch
        chosen = [names for count in (0, 1, 2) for names in itertools.combinations(_FILTERS, count)]
        for turn, names in enumerate(chosen):
            filters = {key: value for name in names for key, value in _FILTERS[name].items()}
            yield from readings(store, mine(session_id=session), filters, turn)

    @needs(Capability.FORK)
    async def test_many_changes_do_not_move_the_end_of_a_past(self, store: Store) -> None:
        """However often a store has tidied up since, a branch shares what it shared when it was made."""
        scope, other = self.scope(session_id="s"), self.scope()
        gone = await add_texts(store, scope, "v", "w", "x", "y", "z")
        first, _, _ = await add_texts(store, scope, "a", "b", "c")
        await store.apply(deletes=[item.id for item in gone], purge=Capability.PURGE in store.capabilities)
        branch = await store.fork("s", at=first.id)
        changed = note("0", other)
        for number in range(100 if self.is_brief else 1_100):
            await store.add(note(str(number), other, id=changed.id))
        equal(await self.shown(store, scope, branch), ["a"], "the branch")
        equal(await self.shown(store, scope, "s"), ["a", "b", "c"], "the session")

    @needs(Capability.FORK)
    @played
    def test_a_summary_that_is_gone_hides_nothing_from_a_branch(self, store: Calls) -> Program:
        """What a summary stood for is shown again by a branch that shares both, once the summary is removed."""
        yield store.add_many([*items("a", "b", metadata=_HERE), SummaryMemory(id="s", content="both", metadata=_HERE)])
        yield store.add_many(items("a", "b", metadata=_HERE, archived_by="s"))
        yield from (forked(store, "s", "s"), *looks(store), store.apply(deletes=["s"]), *looks(store))

    @needs(Capability.FORK)
    @played
    def test_rounds_and_calls_go_on_across_a_fork(self, store: Calls) -> Program:
        """A tool call before the fork can be answered after it, in the same round."""
        asked = [HumanMemory(id=text, content=text, metadata=_HERE) for text in ("old", "q")]
        call = AIMemory(id="call", content="", metadata=_HERE, tool_calls=[{"id": "c", "name": "look"}])
        yield from (store.add_many([*asked, call]), forked(store, "s", "call"))
        result = ToolMemory(id="r", content="r", metadata=_THERE, tool_call_id="c")
        yield store.add_many([result, AIMemory(id="done", content="done", metadata=_THERE)])
        yield from (store.window(metadata=there, rounds=rounds) for there in (_HERE, _THERE) for rounds in (1, 2))

    @needs(Capability.FORK)
    @played
    def test_a_summary_on_one_side_hides_nothing_on_the_other(self, store: Calls) -> Program:
        """What a session archives after a fork is still shown by the branch, and its summary is not, gone or not."""
        yield from (store.add_many(items(*"abc", metadata=_HERE)), forked(store, "s", "b"))
        yield store.add(SummaryMemory(id="all", content="all of it", metadata=_HERE))
        yield store.add_many(items(*"abc", metadata=_HERE, archived_by="all"))
        yield from (*looks(store), forked(store, "s", "all", f"{BRANCH}2"))
        yield store.window(metadata=mine(session_id=f"{BRANCH}2"))
        yield from (store.apply(deletes=["all"]), *looks(store))

    @needs(Capability.FORK)
    @played
    def test_an_item_of_the_past_is_one_item(self, store: Calls) -> Program:
        """Deleting or changing it by its id is seen on both sides; pop on a branch takes only its own items."""
        yield from (store.add_many(items(*"abc", metadata=_HERE)), forked(store, "s", "c"))
        yield store.add(item("x", metadata=_THERE))
        yield store.apply(adds=[item("B", metadata=_HERE, id="b")], deletes=["a"])
        yield from (*looks(store), store.pop(metadata=_THERE), store.pop(metadata=_THERE), *looks(store))

    @needs(Capability.FORK)
    async def test_forks_stay_with_their_owner(self, store: Store) -> None:
        """Another's session of the same name is no part of the past, and a user cannot fork what they cannot see."""
        mine, theirs = self.scope(session_id="s"), self.scope(session_id="s")
        items = await add_texts(store, mine, "a", "b")
        others = await add_texts(store, theirs, "secret")
        handle = store.scoped(user_id=str(mine.user_id))
        with raises(InputError, "forking at another's item"):
            await handle.fork("s", at=others[0].id)
        with raises(InputError, "forking at an item of another session"):
            await store.fork("t", at=items[0].id)
        branch = await handle.fork("s", at=items[1].id)
        equal(contents(await store.window(metadata=MemoryMetadata(session_id=branch))), ["a", "b"], "the branch")
        foreign = store.scoped(user_id=str(theirs.user_id))
        equal(
            await foreign.window(metadata=MemoryMetadata(session_id=branch)), [], "the branch through another's handle"
        )
        await store.clear(metadata=MemoryMetadata(user_id=mine.user_id))
        equal(await store.window(metadata=MemoryMetadata(session_id=branch)), [], "the branch of a user who is gone")
        equal(await self.shown(store, theirs, "s"), ["secret"], "the other's session")

    @needs(Capability.FORK)
    @played
    def test_removing_a_part_of_a_branch_leaves_where_it_comes_from(self, store: Calls) -> Program:
        """Only what the filter names is gone, through a handle as well; the branch still has its past."""
        yield from (store.add(item("a", 9, _HERE)), forked(store, "s", "a"))
        yield store.add_many([item(text, second, _THERE) for second, text in enumerate("xyz", 1)])
        yield forked(store, _BRANCH, "y", f"{BRANCH}2")
        yield from (store.clear(metadata=_THERE, since=moment(1), until=moment(2)), *looks(store))
        yield store.scoped(user_id="ada", session_id=_BRANCH).clear(since=moment(3), until=moment(4))
        yield from (*looks(store), store.window(metadata=mine(session_id=f"{BRANCH}2")))

    @needs(Capability.FORK, Capability.TTL)
    @played
    def test_an_expired_fork_point_still_bounds_the_past(self, store: Calls) -> Program:
        """What has expired is as if it had been purged."""
        yield from (store.add(item("a", metadata=_HERE)), store.add(item("soon gone", metadata=_HERE), ttl=600.0))
        yield from (forked(store, "s", "soon gone"), Moved(601), store.add(item("b", metadata=_HERE)), *looks(store))
        yield from (store.sweep(), store.add(item("c", metadata=_HERE)), *looks(store))

    @needs(Capability.FORK)
    async def test_a_turn_is_appended_to_a_branch(self, store: Store) -> None:
        """The head of a branch is its own, so that what goes on in the session is no conflict."""
        scope = self.scope(session_id="s")
        (first,) = await add_texts(store, scope, "a")
        branch = await store.fork("s", at=first.id)
        there = MemoryMetadata(user_id=scope.user_id, session_id=branch)
        head = await store.head(metadata=there)
        await add_texts(store, scope, "b")
        await store.append([note("x", there)], after=head)
        with raises(TurnConflictError, "appending to a branch that has gone on"):
            await store.append([note("y", there)], after=head)
        equal(await self.shown(store, scope, branch), ["a", "x"], "the branch")

    @needs(Capability.FORK)
    async def test_a_handle_forks_and_ends_its_own_sessions(self, store: Store) -> None:
        """What a handle forks carries its scope, and what it clears is its own."""
        mine, theirs = self.scope(session_id="s"), self.scope(session_id="s")
        handle = store.scoped(user_id=str(mine.user_id))
        items = await add_texts(store, mine, "a", "b")
        others = await add_texts(store, theirs, "c", "d")
        foreign = await store.fork("s", at=others[0].id)
        branch = await handle.fork("s", at=items[0].id)
        there = MemoryMetadata(session_id=branch)
        await handle.add(note("x", there))
        equal(contents(await handle.window(metadata=there)), ["a", "x"], "the branch through the handle")
        bound = store.scoped(user_id=str(mine.user_id), session_id=branch)
        equal(contents(await bound.window()), ["a", "x"], "the branch through a handle of its own")
        equal(await handle.clear(metadata=MemoryMetadata(session_id="s")), 2, "number that the handle tells")
        equal(contents(await handle.window(metadata=there)), ["x"], "the branch after the end of the session")
        equal(await self.shown(store, theirs, "s"), ["c", "d"], "the other's session")
        equal(await self.shown(store, theirs, foreign), ["c"], "the other's branch")

    async def test_a_store_that_cannot_fork_says_so(self, store: Store) -> None:
        """Without the capability it is refused by name."""
        if Capability.FORK in store.capabilities:
            raise SkipCase("the store declares the capability 'fork'")
        with raises(UnsupportedError, "fork without the capability"):
            await store.fork("s", at="x")
