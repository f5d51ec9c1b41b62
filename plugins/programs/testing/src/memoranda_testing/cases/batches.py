"""Batches and turns: several at once, all or none, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from memoranda.errors import ConflictError, IdConflictError, InputError, TurnConflictError, VersionConflictError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, ToolMemory
from memoranda.store import Capability, Store
from memoranda_testing.case import Cases, moment, needs, note
from memoranda_testing.expect import contents, each_raises, equal, raises, same_item, that


class BatchCases(Cases):
    """get_many, apply, pop and keep_created."""

    async def test_several_items_are_read_at_once(self, store: Store) -> None:
        """In the order of the ids, each once; those that are not there, or not in scope, are left out."""
        mine, theirs = self.scope(), self.scope()
        items = [note(text, mine) for text in "abc"]
        other = note("other", theirs)
        await store.add_many([*items, other])
        ids = [items[2].id, "nobody", items[0].id, other.id, items[2].id]
        equal(contents(await store.get_many(ids)), ["c", "a", "other"], "items by their ids")
        equal(contents(await store.get_many(ids, metadata=mine)), ["c", "a"], "items of one user")
        handle = store.scoped(user_id=str(mine.user_id))
        found = await handle.get_many(ids)
        equal(contents(found), ["c", "a"], "items of a handle")
        same_item(found[1], items[0], "an item read among others", version=1)
        many = [note(f"{number}", mine, number) for number in range(1200)]
        await store.add_many(many)
        equal(contents(await store.get_many([item.id for item in many])), contents(many), "twelve hundred items")
        equal(await store.get_many([]), [], "no ids")
        await each_raises(InputError, "of no list of ids", text=store.get_many("abc"), other=store.get_many([1]))  # type: ignore[list-item]  # the mistake under test

    async def test_adds_and_deletes_go_together(self, store: Store) -> None:
        """One call removes some items, stores others, and returns how many were removed."""
        scope = self.scope()
        old, kept = note("old", scope, 0), note("kept", scope, 1)
        await store.add_many([old, kept])
        removed = await store.apply(adds=[note("new", scope, 2)], deletes=[old.id, "nobody", old.id])
        equal(removed, 1, "number removed")
        equal(contents(await store.search(metadata=scope)), ["new", "kept"], "what is stored")
        equal(await store.apply(), 0, "nothing to do")
        with raises(InputError, "the same id added and deleted"):
            await store.apply(adds=[note("x", scope, id=kept.id)], deletes=[kept.id])

    async def test_a_batch_cannot_reach_out_of_its_scope(self, store: Store) -> None:
        """Deleting passes over what lies outside; adding over it is refused."""
        mine, theirs = self.scope(), self.scope()
        other = note("theirs", theirs)
        await store.add(other)
        handle = store.scoped(user_id=str(mine.user_id))
        equal(await handle.apply(deletes=[other.id]), 0, "number deleted through another's handle")
        equal(await store.apply(deletes=[other.id], within=mine), 0, "number deleted within another scope")
        with raises(IdConflictError, "adding over another's item"):
            await handle.apply(adds=[MemoryItem(id=other.id, content="mine")])
        same_item(await store.get(other.id), other, "the other's item", version=1)

    @needs(Capability.ATOMIC)
    async def test_a_batch_is_all_or_none(self, store: Store) -> None:
        """If one part meets a conflict, nothing was deleted and nothing added."""
        mine, theirs = self.scope(), self.scope()
        old, other = note("old", mine), note("theirs", theirs)
        await store.add_many([old, other])
        with raises(IdConflictError, "a batch with a conflict in it"):
            await store.apply(adds=[note("new", mine), note("x", mine, id=other.id)], deletes=[old.id])
        equal(contents(await store.search(metadata=mine)), ["old"], "what is stored afterwards")
        size = 1_100 if self.is_brief else 4_200
        many = [*(note(f"new {number}", mine) for number in range(size)), note("x", mine, id=other.id)]
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.add_many(many),
            lambda: store.apply(adds=many, deletes=[old.id]),
            lambda: store.update_many(many),
        ]
        for call in calls:
            with raises(ConflictError, "a large batch with a conflict at its end"):
                await call()
            equal(
                contents(await store.search(metadata=mine)), ["old"], "what is stored after a large batch was refused"
            )

    @needs(Capability.PURGE)
    async def test_a_batch_can_purge(self, store: Store) -> None:
        """What is purged leaves nothing behind, and its id is free."""
        mine, theirs = self.scope(), self.scope()
        item = note("gone", mine)
        await store.add(item)
        equal(await store.apply(deletes=[item.id], purge=True), 1, "number purged")
        equal(await store.count(metadata=mine, include_deleted=True), 0, "count with deleted ones")
        await store.add(note("another's now", theirs, id=item.id))
        found = await store.get(item.id)
        equal(found and found.version, 1, "the version of a new item")

    async def test_a_replacement_can_keep_the_time_of_its_making(self, store: Store) -> None:
        """keep_created leaves created_at as it was and replaces all else, in every way of adding."""
        scope = self.scope()
        items = [note(text, scope, 1) for text in "abc"]
        await store.add_many(items)
        await store.add(note("A", scope, 9, id=items[0].id), keep_created=True)
        await store.add_many([note("B", scope, 9, id=items[1].id)], keep_created=True)
        await store.apply(adds=[note("C", scope, 9, id=items[2].id)], keep_created=True)
        await store.add(note("new", scope, 9), keep_created=True)
        found = await store.search(metadata=scope)
        equal([(item.content, item.created_at) for item in found][1:], [(text, moment(1)) for text in "CBA"], "times")
        equal(found[0].created_at, moment(9), "the time of a new item")
        equal({item.version for item in found[1:]}, {2}, "versions")

    async def test_the_newest_is_taken_out(self, store: Store) -> None:
        """pop() takes the item that was added last, of those that match, until there is none."""
        scope, other = self.scope(), self.scope()
        await store.add(note("other", other))
        for text, second in (("a", 5), ("b", 1), ("c", 3)):
            await store.add(note(text, scope, second, status="draft" if text == "c" else "accepted"))
        first = await store.pop(metadata=scope, where={"status": "accepted"})
        equal(first and first.content, "b", "the last that was accepted")
        handle = store.scoped(user_id=str(scope.user_id))
        found = [await handle.pop(), await handle.pop(), await handle.pop()]
        equal([item and item.content for item in found], ["c", "a", None], "what is popped through a handle")
        equal(await store.count(metadata=other), 1, "count of the other user")

    async def test_each_item_is_popped_once(self, store: Store) -> None:
        """However many callers pop at the same time, no item is returned twice and none is lost."""
        scope = self.scope()
        await store.add_many([note(f"{number}", scope, number) for number in range(20)])
        popped = await asyncio.gather(*(store.pop(metadata=scope) for _ in range(30)))
        texts = sorted(item.content for item in popped if item is not None)
        equal(texts, sorted(f"{number}" for number in range(20)), "what was popped")
        equal(await store.count(metadata=scope), 0, "count afterwards")

    @needs(Capability.PURGE, Capability.DELETE)
    async def test_what_is_popped_can_be_gone_for_good(self, store: Store) -> None:
        """Without purge it can be restored, with purge there is nothing left."""
        scope = self.scope()
        await store.add_many([note("kept", scope, 0), note("gone", scope, 1)])
        await store.pop(metadata=scope, purge=True)
        await store.pop(metadata=scope)
        equal(await store.count(metadata=scope, include_deleted=True), 1, "count with deleted ones")
        equal(await store.restore(metadata=scope), 1, "number restored")


class TurnCases(Cases):
    """append: a turn is whole."""

    def turn(self, scope: MemoryMetadata, name: str) -> list[MemoryItem]:
        """Return an answer that uses a tool."""
        calls: list[dict[str, Any]] = [{"id": f"call-{name}", "name": "look", "args": {}}]
        return [
            AIMemory(content="", metadata=scope, tool_calls=calls, created_at=moment(1)),
            ToolMemory(content=name, metadata=scope, tool_call_id=f"call-{name}", created_at=moment(0)),
            AIMemory(content=f"said {name}", metadata=scope, created_at=moment(2)),
        ]

    async def test_a_turn_follows_what_was_read(self, store: Store) -> None:
        """append takes the head that was read and returns the new one; an empty conversation has none."""
        scope = self.scope(session_id="s")
        equal(await store.head(metadata=scope), None, "the head of an empty conversation")
        question = HumanMemory(content="hello", metadata=scope)
        head = await store.append([question], after=None)
        equal(head, question.id, "the head after the first turn")
        turn = self.turn(scope, "one")
        equal(await store.append(turn, after=head), turn[-1].id, "the head after the second")
        equal(await store.head(metadata=scope), turn[-1].id, "the head that is read")
        equal(contents(await store.window(metadata=scope)), ["hello", "", "one", "said one"], "the conversation")

    async def test_two_answers_to_one_message_cannot_mix(self, store: Store) -> None:
        """Of many answers to the same message one is stored; the others are a conflict and leave nothing."""
        scope = self.scope(session_id="s")
        head = await store.append([HumanMemory(content="hello", metadata=scope)], after=None)
        handle = store.scoped(user_id=str(scope.user_id), session_id="s")
        turns = [self.turn(scope, f"{number}") for number in range(6)]
        done = await asyncio.gather(
            *((handle if number % 2 else store).append(turn, after=head) for number, turn in enumerate(turns)),
            return_exceptions=True,
        )
        heard = [number for number, outcome in enumerate(done) if isinstance(outcome, str)]
        equal(len(heard), 1, "how many were heard")
        that(
            all(isinstance(outcome, (str, TurnConflictError)) for outcome in done),
            f"The others must get a TurnConflictError, not {[type(outcome).__name__ for outcome in done]}.",
        )
        wanted = ["hello", "", f"{heard[0]}", f"said {heard[0]}"]
        equal(contents(await store.window(metadata=scope)), wanted, "the conversation")
        equal(await store.count(metadata=scope), 4, "count of the conversation")

    async def test_conversations_do_not_wait_for_each_other(self, store: Store) -> None:
        """The head is that of one session of one user; other sessions may go on, and summaries do not count."""
        scope = self.scope(session_id="s")
        other = MemoryMetadata(user_id=scope.user_id, session_id="t")
        bare = MemoryMetadata(user_id=scope.user_id)
        head = await store.append([HumanMemory(content="hello", metadata=scope)], after=None)
        await store.append([HumanMemory(content="hi", metadata=other)], after=None)
        await store.append([HumanMemory(content="no session", metadata=bare)], after=None)
        await store.add(SummaryMemory(content="all of it", metadata=scope))
        await store.append(self.turn(scope, "one"), after=head)
        with raises(TurnConflictError, "an append to a conversation that is not empty any more"):
            await store.append([HumanMemory(content="again", metadata=bare)], after=None)

    async def test_a_turn_that_cannot_be_one_is_refused(self, store: Store) -> None:
        """Items of two sessions, no items, and ids that exist are refused; nothing is stored."""
        scope = self.scope(session_id="s")
        other = MemoryMetadata(user_id=scope.user_id, session_id="t")
        item = note("there", scope)
        await store.add(item)
        await each_raises(
            InputError,
            "of no turn",
            nothing=store.append([], after=None),
            two=store.append([note("x", scope), note("y", other)], after=item.id),
        )
        with raises((VersionConflictError, ConflictError), "an append of an id that exists"):
            await store.append([note("new", scope), note("again", scope, id=item.id)], after=item.id)
        with raises((VersionConflictError, ConflictError), "an append of one id twice"):
            await store.append([note("new", scope, id="twice" + item.id)] * 2, after=item.id)
        with raises(TurnConflictError, "an append of an id that exists to a conversation that has gone on"):
            await store.append([note("again", scope, id=item.id)] * 2, after=None)
        with raises(IdConflictError, "an append of another user's id, twice"):
            await store.append([note("mine", self.scope(session_id="s"), id=item.id)] * 2, after=None)
        equal(contents(await store.search(metadata=MemoryMetadata(user_id=scope.user_id))), ["there"], "what is stored")
