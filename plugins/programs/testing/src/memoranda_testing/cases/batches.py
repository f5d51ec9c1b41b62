"""Batches and turns: several at once, all or none, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from memoranda.errors import TurnConflictError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, ToolMemory
from memoranda.store import Capability, Store
from memoranda_testing.case import moment, needs, note
from memoranda_testing.cases.histories import HistoryCases
from memoranda_testing.expect import contents, equal, that
from memoranda_testing.model.steps import Call
from memoranda_testing.programs import Calls, Program, item, items, mine, played, refused, theirs


class BatchCases(HistoryCases):
    """get_many, apply, pop and keep_created."""

    @played
    def test_several_items_are_read_at_once(self, store: Calls) -> Program:
        """In the order of the ids, each once; those that are not there, or not in scope, are left out."""
        many = [f"tea {number}" for number in range(1200)]
        yield store.add_many([*items("a", "b", "c", *many), item("other", metadata=theirs())])
        ids = ["c", "nobody", "a", "other", "c"]
        yield from (store.get_many(ids), store.get_many(ids, metadata=mine()), store.get_many(many), store.get_many([]))
        yield store.scoped(user_id="ada").get_many(ids)

    @refused
    def test_what_is_no_list_of_ids_is_refused(self, store: Calls) -> Iterator[Call]:
        """A text is no list of its letters, and a number no id."""
        yield from (store.get_many(ids) for ids in ("abc", [1]))

    @played
    def test_adds_and_deletes_go_together(self, store: Calls) -> Program:
        """One call removes some items, stores others, and returns how many were removed."""
        yield store.add_many(items("old", "kept"))
        yield store.apply(adds=[item("new", 2)], deletes=["old", "nobody", "old"])
        yield from (store.apply(), store.apply(adds=[item("kept")], deletes=["kept"]))

    @played
    def test_a_batch_cannot_reach_out_of_its_scope(self, store: Calls) -> Program:
        """Deleting passes over what lies outside; adding over it is refused."""
        yield store.add(item("other", metadata=theirs()))
        handle = store.scoped(user_id="ada")
        yield from (handle.apply(deletes=["other"]), store.apply(deletes=["other"], within=mine()))
        yield handle.apply(adds=[item("other")])

    @needs(Capability.ATOMIC)
    @played
    def test_a_batch_is_all_or_none(self, store: Calls) -> Program:
        """If one part meets a conflict, nothing was deleted and nothing added, however large the batch is."""
        yield store.add_many([item("old"), item("other", metadata=theirs())])
        yield store.apply(adds=[item("new"), item("other")], deletes=["old"])
        many = [*items(*(f"new {number}" for number in range(1_100 if self.is_brief else 4_200))), item("other")]
        yield from (store.add_many(many), store.apply(adds=many, deletes=["old"]), store.update_many(many))

    @needs(Capability.PURGE)
    @played
    def test_a_batch_can_purge(self, store: Calls) -> Program:
        """What is purged leaves nothing behind, and its id is free."""
        yield store.add(item("gone"))
        yield store.apply(deletes=["gone"], purge=True)
        yield store.add(item("gone", metadata=theirs()))

    @played
    def test_a_replacement_can_keep_the_time_of_its_making(self, store: Calls) -> Program:
        """keep_created leaves created_at as it was and replaces all else, in every way of adding."""
        yield store.add_many(items(*"abc", second=1))
        for call, batch in ((store.add, item("A", 9, id="a")), (store.add_many, [item("B", 9, id="b")])):
            yield call(batch, keep_created=True)
        yield store.apply(adds=[item("C", 9, id="c"), item("new", 9)], keep_created=True)

    @played
    def test_the_newest_is_taken_out(self, store: Calls) -> Program:
        """pop() takes the item that was added last, of those that match, until there is none; it can be for good."""
        yield store.add(item("other", metadata=theirs()))
        for text, second in (("a", 5), ("b", 1), ("c", 3), ("d", 2)):
            yield store.add(item(text, second, status="draft" if text == "c" else "accepted"))
        yield store.pop(metadata=mine(), purge=True)
        yield store.pop(metadata=mine(), where={"status": "accepted"})
        yield from (store.scoped(user_id="ada").pop() for _ in range(3))
        yield store.restore(metadata=mine())

    async def test_each_item_is_popped_once(self, store: Store) -> None:
        """However many callers pop at the same time, no item is returned twice and none is lost."""
        scope = self.scope()
        await store.add_many([note(f"{number}", scope, number) for number in range(20)])
        popped = await asyncio.gather(*(store.pop(metadata=scope) for _ in range(30)))
        texts = sorted(item.content for item in popped if item is not None)
        equal(texts, sorted(f"{number}" for number in range(20)), "what was popped")
        equal(await store.count(metadata=scope), 0, "count afterwards")


class TurnCases(HistoryCases):
    """append: a turn is whole."""

    def turn(self, scope: MemoryMetadata, name: str) -> list[MemoryItem]:
        """Return an answer that uses a tool."""
        calls: list[dict[str, Any]] = [{"id": f"call-{name}", "name": "look", "args": {}}]
        return [
            AIMemory(content="", metadata=scope, tool_calls=calls, created_at=moment(1)),
            ToolMemory(content=name, metadata=scope, tool_call_id=f"call-{name}", created_at=moment(0)),
            AIMemory(content=f"said {name}", metadata=scope, created_at=moment(2)),
        ]

    @played
    def test_a_turn_follows_what_was_read(self, store: Calls) -> Program:
        """append takes the head that was read and returns the new one; an empty conversation has none."""
        place = mine(session_id="s")
        yield from (store.head(metadata=place), store.append([item("hello", metadata=place)], after=None))
        turn = [each.model_copy(update={"id": f"{number}"}) for number, each in enumerate(self.turn(place, "one"))]
        yield from (store.append(turn, after=after) for after in ("hello", "hello"))
        yield from (store.head(metadata=place), store.window(metadata=place))

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

    @played
    def test_conversations_do_not_wait_for_each_other(self, store: Calls) -> Program:
        """The head is that of one session of one user; other sessions may go on, and summaries do not count."""
        place = mine(session_id="s")
        for text, metadata in (("hello", place), ("hi", mine(session_id="t")), ("bare", mine()), ("again", mine())):
            yield store.append([item(text, metadata=metadata)], after=None)
        yield store.add(SummaryMemory(id="summary", content="all of it", metadata=place, created_at=moment(1)))
        yield store.append([item("next", metadata=place)], after="hello")

    @played
    def test_a_turn_that_cannot_be_one_is_refused(self, store: Calls) -> Program:
        """Items of two sessions, no items, and ids that exist are refused; nothing is stored."""
        place = mine(session_id="s")
        yield store.add(item("there", metadata=place))
        there, new = item("there", 5, place), item("new", metadata=place)
        batches: list[list[MemoryItem]] = [
            [],
            [new, item("other", metadata=mine(session_id="t"))],
            [new, there],
            [new, new],
        ]
        yield from (store.append(batch, after="there") for batch in batches)
        yield store.append([there, there], after=None)
        yield store.append([item("there", metadata=theirs(session_id="s"))] * 2, after=None)
