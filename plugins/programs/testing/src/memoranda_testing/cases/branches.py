"""Branches: sessions that share the past of another without copying it."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from memoranda.errors import InputError, TurnConflictError, UnsupportedError
from memoranda.items import AIMemory, HumanMemory, MemoryMetadata, SummaryMemory, ToolMemory
from memoranda.store import Capability, Order, Store, copy_item
from memoranda_testing.case import Cases, add_texts, moment, needs, note
from memoranda_testing.expect import SkipCase, contents, equal, raises

_FILTERS: dict[str, dict[str, Any]] = {
    "type": {"memory_type": "note"},
    "status": {"status": "draft"},
    "extra": {"where": {"extra.k": 1}},
    "since": {"since": moment(3)},
    "until": {"until": moment(9)},
    "trust": {"min_trust": "user"},
}
_ORDERS: tuple[Order, ...] = ("created", "updated", "added")


async def _readings(store: Store, asked: MemoryMetadata, filters: dict[str, Any]) -> dict[str, list[str]]:
    """Return what each method that reads shows of a session, as contents."""
    found: dict[str, list[str]] = {}
    for order in _ORDERS:
        search: dict[str, Any] = {"metadata": asked, "order": order, "mode": "substring", "limit": 50, **filters}
        found[f"search({order})"] = contents(await store.search(**search))
        found[f"search(query, {order})"] = contents(await store.search(query="TEA", **search))
        found[f"search(page, {order})"] = contents(await store.search(**{**search, "limit": 3, "offset": 2}))
        scanned = store.scan(metadata=asked, archived=False, order=order, **filters)
        found[f"scan({order})"] = contents([item async for item in scanned])
    ranked = await store.search_ranked(query="tea 4 milk 7", metadata=asked, mode="text", limit=50, **filters)
    found["search_ranked"] = sorted(contents(each.item for each in ranked))  # Neighbours count, and are others.
    if not filters:
        found["owners"] = [repr(owner) async for owner in store.owners(by="task_id", within=asked)]
        found["owners without counts"] = [
            repr(owner) async for owner in store.owners(by="namespace", within=asked, counts=False)
        ]
    if "status" not in filters:
        found["payloads"] = [each.content for each in await store.payloads(metadata=asked, limit=50, **filters)]
        if "memory_type" not in filters:
            found["window"] = contents(await store.window(metadata=asked, **filters))
    return found


class BranchCases(Cases):
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
    async def test_a_branch_reads_like_a_session_that_holds_all_of_it(self, store: Store) -> None:
        """By every filter and in every order, as deep as it may be, with items whose times go back and forth."""
        mine, other = self.scope(), self.scope(session_id="t")
        session, there, whole = "s", mine.model_copy(update={"session_id": "s"}), []
        for number in range(24):
            own = {"extra": {"k": number % 3}, "task_id": "t" if number % 5 else None, "namespace": ("a", str(number))}
            item = note(
                f"{('tea', 'milk')[number % 2]} {number}",
                there.model_copy(update=own),
                number // 2 ^ 5,
                memory_type=("note", "diary")[number // 4 % 2],
                status=("accepted", "draft")[number // 2 % 2],
                trust=("user", "external", None)[number % 3],
                payload=f"payload {number}" if number % 4 else None,
                payload_format="test" if number % 4 else None,
            )
            whole.append(copy_item(item))
            await store.add(item)
            if number % 3 == 2:
                session = await store.fork(session, at=item.id)
                there = mine.model_copy(update={"session_id": session})
        for item in whole:
            metadata = item.metadata.model_copy(update={"user_id": other.user_id, "session_id": other.session_id})
            item.__dict__.update(id=f"{item.id}-copy", metadata=metadata)
        await store.add_many(whole)
        for count in (0, 1, 2):
            for names in itertools.combinations(_FILTERS, count):
                filters = {key: value for name in names for key, value in _FILTERS[name].items()}
                branch, plain = [await _readings(store, asked, filters) for asked in (there, other)]
                for name, found in branch.items():
                    equal(found, plain[name], f"{name} of a branch, beside that of a session, with {filters}")

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
    async def test_a_summary_that_is_gone_hides_nothing_from_a_branch(self, store: Store) -> None:
        """What a summary stood for is shown again by a branch that shares both, once the summary is removed."""
        scope = self.scope(session_id="s")
        items = await add_texts(store, scope, "a", "b")
        summary = SummaryMemory(content="both", metadata=scope)
        await store.add(summary)
        await store.add_many([item.model_copy(update={"archived_by": summary.id}) for item in items])
        branch = await store.fork("s", at=summary.id)
        equal(await self.shown(store, scope, branch), ["both"], "the branch")
        await store.apply(deletes=[summary.id])
        equal(await self.shown(store, scope, branch), ["a", "b"], "the branch without the summary")

    @needs(Capability.FORK)
    async def test_rounds_and_calls_go_on_across_a_fork(self, store: Store) -> None:
        """A tool call before the fork can be answered after it, in the same round."""
        scope = self.scope(session_id="s")
        call = AIMemory(content="", metadata=scope, tool_calls=[{"id": "c", "name": "look"}])
        await store.add_many(
            [HumanMemory(content="old", metadata=scope), HumanMemory(content="q", metadata=scope), call]
        )
        branch = await store.fork("s", at=call.id)
        there = MemoryMetadata(user_id=scope.user_id, session_id=branch)
        result = ToolMemory(content="r", metadata=there, tool_call_id="c")
        await store.add_many([result, AIMemory(content="done", metadata=there)])
        shown = await store.window(metadata=there, rounds=1)
        equal(contents(shown), ["q", "", "r", "done"], "the last round of the branch")
        equal({item.metadata.session_id for item in shown}, {branch}, "the session of what a window shows")
        equal(contents(await store.window(metadata=scope, rounds=1)), ["q"], "the last round of the session")

    @needs(Capability.FORK)
    async def test_a_summary_on_one_side_hides_nothing_on_the_other(self, store: Store) -> None:
        """What a session archives after a fork is still shown by the branch, and its summary is not."""
        scope = self.scope(session_id="s")
        items = await add_texts(store, scope, "a", "b", "c")
        branch = await store.fork("s", at=items[1].id)
        summary = SummaryMemory(content="all of it", metadata=scope)
        await store.add(summary)
        for item in items:
            await store.add(item.model_copy(update={"archived_by": summary.id}))
        equal(await self.shown(store, scope, "s"), ["all of it"], "the session")
        equal(await self.shown(store, scope, branch), ["a", "b"], "the branch")
        again = await store.fork("s", at=summary.id)
        equal(await self.shown(store, scope, again), ["all of it"], "a branch that was forked behind the summary")

    @needs(Capability.FORK)
    async def test_an_item_of_the_past_is_one_item(self, store: Store) -> None:
        """Deleting or changing it by its id is seen on both sides; pop on a branch takes only its own items."""
        scope = self.scope(session_id="s")
        items = await add_texts(store, scope, "a", "b", "c")
        branch = await store.fork("s", at=items[2].id)
        there = MemoryMetadata(user_id=scope.user_id, session_id=branch)
        await add_texts(store, there, "x")
        await store.apply(adds=[note("B", scope, id=items[1].id)], deletes=[items[0].id])
        equal(await self.shown(store, scope, branch), ["B", "c", "x"], "the branch")
        popped = [await store.pop(metadata=there), await store.pop(metadata=there)]
        equal([item and item.content for item in popped], ["x", None], "what is popped from the branch")
        equal(await self.shown(store, scope, branch), ["B", "c"], "the branch with its past alone")

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
    async def test_a_summary_that_is_gone_leaves_the_past_to_branches(self, store: Store) -> None:
        """What a later summary stands for is shown by the branch, also when the summary is gone."""
        scope = self.scope(session_id="s")
        items = await add_texts(store, scope, "a", "b", "c")
        branch = await store.fork("s", at=items[1].id)
        (summary,) = await add_texts(store, scope, "all of it")
        await store.add_many([item.model_copy(update={"archived_by": summary.id}) for item in items])
        await store.apply(deletes=[summary.id])
        equal(await self.shown(store, scope, branch), ["a", "b"], "the branch")

    @needs(Capability.FORK)
    async def test_removing_a_part_of_a_branch_leaves_where_it_comes_from(self, store: Store) -> None:
        """Only what the filter names is gone, through a handle as well; the branch still has its past."""
        scope = self.scope(session_id="s")
        (first,) = await add_texts(store, scope, "a")
        branch = await store.fork("s", at=first.id)
        there = MemoryMetadata(user_id=scope.user_id, session_id=branch)
        own = [note("x", there, 1), note("y", there, 2), note("z", there, 3)]
        await store.add_many(own)
        child = await store.fork(branch, at=own[1].id)
        equal(await store.clear(metadata=there, until=own[1].created_at), 1, "how many were removed")
        equal(await self.shown(store, scope, branch), ["a", "y", "z"], "the branch")
        handle = store.scoped(user_id=str(scope.user_id), session_id=branch)
        equal(await handle.clear(since=own[2].created_at, until=moment(4)), 1, "how many a handle removed")
        equal(await self.shown(store, scope, branch), ["a", "y"], "the branch after a part of it was cleared")
        equal(await self.shown(store, scope, child), ["a", "y"], "the branch of the branch")

    @needs(Capability.FORK, Capability.TTL)
    async def test_an_expired_fork_point_still_bounds_the_past(self, store: Store) -> None:
        """What has expired is as if it had been purged."""
        scope = self.scope(session_id="s")
        (first,) = await add_texts(store, scope, "a")
        last = note("soon gone", scope)
        await store.add(last, ttl=600)
        branch = await store.fork("s", at=last.id)
        await store.touch([last.id], ttl=0.01)
        while await store.get(last.id) is not None:  # noqa: ASYNC110 - the store's clock decides
            await asyncio.sleep(0.01)
        await add_texts(store, scope, "b")
        equal(await self.shown(store, scope, branch), [first.content], "the branch")
        await store.sweep()
        await add_texts(store, scope, "c")
        equal(await self.shown(store, scope, branch), [first.content], "the branch after a sweep")

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
