"""Branches: sessions that share the past of another without copying it."""

from __future__ import annotations

import asyncio
import random

from memoranda.errors import InputError, TurnConflictError, UnsupportedError
from memoranda.items import AIMemory, BranchMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, ToolMemory
from memoranda.store import BaseStore, Capability, InMemoryStore
from memoranda_testing.case import Cases, needs, note
from memoranda_testing.expect import SkipCase, contents, equal, raises


class BranchCases(Cases):
    """fork: a new session that goes on from somewhere in another."""

    async def said(self, store: BaseStore, scope: MemoryMetadata, *texts: str) -> list[MemoryItem]:
        """Add what was said, one after the other, and return it."""
        items = [note(text, scope) for text in texts]
        for item in items:
            await store.add(item)
        return items

    async def shown(self, store: BaseStore, scope: MemoryMetadata, session: str) -> list[str]:
        """Return what a session shows, in the order in which it was said."""
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
    async def test_a_branch_shares_the_past_and_goes_its_own_way(self, store: BaseStore) -> None:
        """Nothing is copied: one record is all that is added. Each side sees its own continuation alone."""
        scope = self.scope(session_id="s")
        items = await self.said(store, scope, "a", "b", "c")
        before = await store.count(metadata=MemoryMetadata(user_id=scope.user_id))
        branch = await store.fork("s", at=items[1].id)
        equal(await store.count(metadata=MemoryMetadata(user_id=scope.user_id)), before + 1, "count after a fork")
        await self.said(store, MemoryMetadata(user_id=scope.user_id, session_id=branch), "x", "y")
        await self.said(store, scope, "d")
        equal(await self.shown(store, scope, "s"), ["a", "b", "c", "d"], "the session")
        equal(await self.shown(store, scope, branch), ["a", "b", "x", "y"], "the branch")
        asked = MemoryMetadata(user_id=scope.user_id, session_id=branch)
        equal(contents(await store.search(metadata=asked, query="a", mode="substring")), ["a"], "a search in the past")
        ranked = await store.search(metadata=asked, query="b x", mode="text")
        equal({"b", "x"} & {*contents(ranked)}, {"b", "x"}, "a ranked search")
        equal({"c", "d"} & {*contents(ranked)}, set(), "what a ranked search has no business with")

    @needs(Capability.FORK)
    async def test_branches_can_be_forked_anywhere(self, store: BaseStore) -> None:
        """At one of their own items, or at one of the past that they share."""
        scope = self.scope(session_id="s")
        items = await self.said(store, scope, "a", "b", "c", "d")
        first = await store.fork("s", at=items[2].id)
        own = await self.said(store, MemoryMetadata(user_id=scope.user_id, session_id=first), "x", "y")
        later = await store.fork(first, at=own[0].id)
        earlier = await store.fork(first, at=items[0].id)
        for session, text in ((later, "p"), (earlier, "q")):
            await self.said(store, MemoryMetadata(user_id=scope.user_id, session_id=session), text)
        equal(await self.shown(store, scope, later), ["a", "b", "c", "x", "p"], "a branch of a branch")
        equal(await self.shown(store, scope, earlier), ["a", "q"], "a branch of its past")

    @needs(Capability.FORK)
    async def test_rounds_and_calls_go_on_across_a_fork(self, store: BaseStore) -> None:
        """A call before the fork is answered behind it, and a round goes on."""
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
    async def test_a_summary_on_one_side_hides_nothing_on_the_other(self, store: BaseStore) -> None:
        """What a session archives after a fork is still shown by the branch, and its summary is not."""
        scope = self.scope(session_id="s")
        items = await self.said(store, scope, "a", "b", "c")
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
    async def test_clearing_one_side_leaves_the_other_what_it_shows(self, store: BaseStore) -> None:
        """Whichever is cleared or purged, parent or branch, others lose nothing."""
        for remove in ("clear", "purge"):
            if remove == "purge" and Capability.PURGE not in store.capabilities:
                continue
            scope = self.scope(session_id="s")
            items = await self.said(store, scope, "a", "b", "c", "d")
            long, short = await store.fork("s", at=items[2].id), await store.fork("s", at=items[0].id)
            for session, text in ((long, "x"), (short, "y")):
                await self.said(store, MemoryMetadata(user_id=scope.user_id, session_id=session), text)
            removed = await getattr(store, remove)(metadata=scope)
            equal(removed, 4, f"number that a {remove} of the session tells")
            equal(await self.shown(store, scope, "s"), [], "the session")
            equal(await self.shown(store, scope, long), ["a", "b", "c", "x"], "the long branch")
            equal(await self.shown(store, scope, short), ["a", "y"], "the short branch")
            await getattr(store, remove)(metadata=MemoryMetadata(user_id=scope.user_id, session_id=long))
            equal(await self.shown(store, scope, long), [], "the long branch after its end")
            equal(await self.shown(store, scope, short), ["a", "y"], "the short branch after the end of the long one")

    @needs(Capability.FORK)
    async def test_an_item_of_the_past_is_one_item(self, store: BaseStore) -> None:
        """Deleting or changing it by its id is seen on both sides; popping a branch takes its own alone."""
        scope = self.scope(session_id="s")
        items = await self.said(store, scope, "a", "b", "c")
        branch = await store.fork("s", at=items[2].id)
        there = MemoryMetadata(user_id=scope.user_id, session_id=branch)
        await self.said(store, there, "x")
        await store.apply(adds=[note("B", scope, id=items[1].id)], deletes=[items[0].id])
        equal(await self.shown(store, scope, branch), ["B", "c", "x"], "the branch")
        popped = [await store.pop(metadata=there), await store.pop(metadata=there)]
        equal([item and item.content for item in popped], ["x", None], "what is popped from the branch")
        equal(await self.shown(store, scope, branch), ["B", "c"], "the branch with its past alone")

    @needs(Capability.FORK, Capability.PURGE)
    async def test_a_purged_fork_point_does_not_take_the_past_along(self, store: BaseStore) -> None:
        """Where the item is gone that a session was forked at, what came before it is still the past."""
        scope = self.scope(session_id="s")
        items = [note(text, scope, second) for second, text in enumerate("abc")]
        await store.add_many(items)
        branch = await store.fork("s", at=items[1].id)
        await store.purge(items[1].id)
        equal(await self.shown(store, scope, branch), ["a"], "the branch")

    @needs(Capability.FORK)
    async def test_forks_stay_with_their_owner(self, store: BaseStore) -> None:
        """Another's session of the same name is no part of the past, and nobody forks what he cannot see."""
        mine, theirs = self.scope(session_id="s"), self.scope(session_id="s")
        items = await self.said(store, mine, "a", "b")
        others = await self.said(store, theirs, "secret")
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
    async def test_the_end_of_a_compacted_session_takes_no_past_along(self, store: BaseStore) -> None:
        """What a later summary stands for is shown by the branch, also when session and summary are gone or back."""
        scope = self.scope(session_id="s")
        items = await self.said(store, scope, "a", "b", "c")
        branch = await store.fork("s", at=items[1].id)
        (summary,) = await self.said(store, scope, "all of it")
        await store.add_many([item.model_copy(update={"archived_by": summary.id}) for item in items])
        await store.clear(metadata=scope)
        equal(await self.shown(store, scope, branch), ["a", "b"], "the branch of a session that was cleared")
        if Capability.DELETE in store.capabilities:
            await store.restore(metadata=scope)
            equal(await self.shown(store, scope, branch), ["a", "b"], "the branch of a session that came back")

    @needs(Capability.FORK)
    async def test_removing_a_part_of_a_branch_leaves_where_it_comes_from(self, store: BaseStore) -> None:
        """Only what the filter names is gone, from the branch alone; its own branches lose nothing."""
        scope = self.scope(session_id="s")
        (first,) = await self.said(store, scope, "a")
        branch = await store.fork("s", at=first.id)
        there = MemoryMetadata(user_id=scope.user_id, session_id=branch)
        own = [note("x", there, 1), note("y", there, 2)]
        await store.add_many(own)
        child = await store.fork(branch, at=own[1].id)
        equal(await store.clear(metadata=there, until=own[1].created_at), 1, "how many were removed")
        equal(await self.shown(store, scope, branch), ["a", "y"], "the branch")
        equal(await self.shown(store, scope, child), ["a", "x", "y"], "the branch of the branch")
        await store.clear(metadata=there)
        equal(await self.shown(store, scope, child), ["a", "x", "y"], "the branch of a branch that is gone")

    @needs(Capability.FORK, Capability.PURGE, Capability.TTL)
    async def test_what_has_expired_is_nobodys_past(self, store: BaseStore) -> None:
        """A purge removes what has expired first, and still leaves the branch what it shows."""
        scope = self.scope(session_id="s")
        (first,) = await self.said(store, scope, "a")
        middle = await store.fork("s", at=first.id)
        there = MemoryMetadata(user_id=scope.user_id, session_id=middle)
        await store.add(note("soon gone", there), ttl=0.001)
        (last,) = await self.said(store, there, "x")
        branch = await store.fork(middle, at=last.id)
        await asyncio.sleep(0.01)
        await store.purge(metadata=there)
        equal(await self.shown(store, scope, branch), ["a", "x"], "the branch of a branch that was purged")

    @needs(Capability.FORK)
    async def test_a_turn_is_appended_to_a_branch(self, store: BaseStore) -> None:
        """The head of a branch is its own, so that what goes on in the session is no conflict."""
        scope = self.scope(session_id="s")
        (first,) = await self.said(store, scope, "a")
        branch = await store.fork("s", at=first.id)
        there = MemoryMetadata(user_id=scope.user_id, session_id=branch)
        head = await store.head(metadata=there)
        await self.said(store, scope, "b")
        await store.append([note("x", there)], after=head)
        with raises(TurnConflictError, "appending to a branch that has gone on"):
            await store.append([note("y", there)], after=head)
        equal(await self.shown(store, scope, branch), ["a", "x"], "the branch")

    @needs(Capability.FORK)
    async def test_records_that_lead_in_a_circle_are_followed_once(self, store: BaseStore) -> None:
        """Whoever may add items may add these: reading and removing come to an end, and show what is his."""
        scope, other = self.scope(), self.scope(session_id="s")
        (secret,) = await self.said(store, other, "secret")
        names = [f"branch-{scope.user_id}-{number}" for number in range(3)]
        for name, parent, at in zip(names, [*names[1:], names[0]], ["none", "none", secret.id], strict=True):
            there = MemoryMetadata(user_id=scope.user_id, session_id=name)
            await store.add(BranchMemory(id=name, metadata=there, archived_by=name, parent=parent, at=at))
        own = f"branch-{scope.user_id}"
        there = MemoryMetadata(user_id=scope.user_id, session_id=own)
        await store.add(BranchMemory(id=own, metadata=there, archived_by=own, parent="s", at=secret.id))
        for name in (*names, own):
            await self.said(store, MemoryMetadata(user_id=scope.user_id, session_id=name), f"in {name}")
            shown = await store.window(metadata=MemoryMetadata(session_id=name))
            equal("secret" in contents(shown), False, "another's past in a session of one's own making")
            equal(f"in {name}" in contents(shown), True, "what was said in the session itself")
        for name in (*names, own):
            await store.clear(metadata=MemoryMetadata(user_id=scope.user_id, session_id=name))
        equal(await self.shown(store, other, "s"), ["secret"], "the other's session")

    @needs(Capability.FORK)
    async def test_a_handle_forks_and_ends_its_own_sessions(self, store: BaseStore) -> None:
        """What a handle forks carries its scope, and what it clears is passed on to its own branches alone."""
        mine, theirs = self.scope(session_id="s"), self.scope(session_id="s")
        handle = store.scoped(user_id=str(mine.user_id))
        items = await self.said(store, mine, "a", "b")
        others = await self.said(store, theirs, "c", "d")
        foreign = await store.fork("s", at=others[0].id)
        branch = await handle.fork("s", at=items[0].id)
        there = MemoryMetadata(session_id=branch)
        await handle.add(note("x", there))
        equal(contents(await handle.window(metadata=there)), ["a", "x"], "the branch through the handle")
        equal(await handle.clear(metadata=MemoryMetadata(session_id="s")), 2, "number that the handle tells")
        equal(contents(await handle.window(metadata=there)), ["a", "x"], "the branch after the end of the session")
        equal(await self.shown(store, theirs, "s"), ["c", "d"], "the other's session")
        equal(await self.shown(store, theirs, foreign), ["c"], "the other's branch")

    @needs(Capability.FORK)
    async def test_copies_of_branches_are_branches(self, store: BaseStore) -> None:
        """What is scanned in the order of adding and added elsewhere shows the same, branch by branch."""
        scope = self.scope(session_id="s")
        items = await self.said(store, scope, "a", "b", "c")
        branch = await store.fork("s", at=items[1].id)
        there = MemoryMetadata(user_id=scope.user_id, session_id=branch)
        own = await self.said(store, there, "x", "y")
        nested, early = await store.fork(branch, at=own[0].id), await store.fork(branch, at=items[0].id)
        sessions = ("s", branch, nested, early)
        shown = {session: await self.shown(store, scope, session) for session in sessions}
        for asked in (MemoryMetadata(user_id=scope.user_id), *(MemoryMetadata(session_id=name) for name in sessions)):
            copied = [item async for item in store.scan(metadata=asked, order="added")]
            target = InMemoryStore()
            await target.add_many(copied)
            for session in sessions if asked.user_id else (str(asked.session_id),):
                equal(await self.shown(target, scope, session), shown[session], "a session in the copy")

    @needs(Capability.FORK)
    async def test_random_forks_show_what_copies_would(self, store: BaseStore) -> None:
        """However sessions are forked, added to and cleared, each shows what it would if the past had been copied."""
        rng = random.Random(20250503)
        scope = self.scope(session_id="s")
        model: dict[str, list[str]] = {"s": []}
        ids: dict[str, str] = {}
        for step in range(60):
            session = rng.choice(list(model))
            act = rng.choice(("say", "say", "say", "fork", "clear")) if model[session] else "say"
            if act == "say":
                place = MemoryMetadata(user_id=scope.user_id, session_id=session)
                (item,) = await self.said(store, place, f"{step}")
                ids[item.content] = item.id
                model[session].append(item.content)
            elif act == "fork":
                at = rng.randrange(len(model[session]))
                branch = await store.fork(session, at=ids[model[session][at]])
                model[branch] = model[session][: at + 1]
            elif rng.random() < 0.3:
                remove = store.purge if Capability.PURGE in store.capabilities and rng.random() < 0.5 else store.clear
                await remove(metadata=MemoryMetadata(user_id=scope.user_id, session_id=session))
                if session.startswith("branch-"):
                    del model[session]
                else:
                    model[session] = []
            for name, wanted in model.items():
                equal(await self.shown(store, scope, name), wanted, f"the session {name!r} after step {step}")

    async def test_a_store_that_cannot_fork_says_so(self, store: BaseStore) -> None:
        """Without the capability it is refused by name."""
        if Capability.FORK in store.capabilities:
            raise SkipCase("the store declares the capability 'fork'")
        with raises(UnsupportedError, "fork without the capability"):
            await store.fork("s", at="x")
