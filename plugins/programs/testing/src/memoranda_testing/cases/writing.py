"""Adding, batches, turns, versions and compare-and-set; items that are added as deleted, as copies of other stores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from memoranda.errors import IdConflictError, TurnConflictError, VersionConflictError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ToolMemory
from memoranda.store import Capability, Store
from memoranda_testing.case import moment, needs, note
from memoranda_testing.cases.observers import Recorder
from memoranda_testing.expect import contents, equal, raises, that
from memoranda_testing.model.steps import Call
from memoranda_testing.programs import Calls, HistoryCases, Program, item, items, mine, played, refused, theirs


def again(held: MemoryItem, version: int = 0, metadata: MemoryMetadata | None = None) -> MemoryItem:
    """Return another item of the same id."""
    return item(f"{held.content} again", 9, metadata or held.metadata, id=held.id, version=version)


class AddCases(HistoryCases):
    """Adding stores an item, or several at once; an id that exists is replaced as a whole."""

    async def test_an_id_conflict_says_nothing_of_the_other_item(self, store: Store) -> None:
        """The message names the id alone: it must not reveal the owner."""
        owner = self.scope(session_id="secret-session")
        held = note("secret content", owner)
        await store.add(held)
        with raises(IdConflictError, "add of another user's id") as raised:
            await store.add(note("x", self.scope(), id=held.id))
        message = str(raised.error)
        that(held.id in message, "The message of an id conflict should name the id.")
        for secret in (str(owner.user_id), "secret"):
            that(secret not in message, "The message of an id conflict tells of the other item.")

    async def test_batches_come_from_any_iterable(self, store: Store) -> None:
        """A generator, or a view of a list, is stored whole, as a list is."""
        scope = self.scope()
        await store.add_many(note(str(number), scope, number) for number in range(1_200))
        found = await store.search(metadata=scope, limit=2_000)
        updated = await store.update_many(reversed(found))
        wanted = [(str(number), 2) for number in range(1_200)]
        equal([(each.content, each.version) for each in updated], wanted, "what an update of a batch returned")

    @played
    def test_add_many_checks_all_before_it_writes_any(self, store: Calls) -> Program:
        """An item that cannot be stored keeps the whole batch out."""
        yield store.add_many([*items("a", "b"), item("c\0", id="c")])

    @needs(Capability.ATOMIC)
    @played
    def test_add_many_within_a_scope_reaches_into_the_batch(self, store: Calls) -> Program:
        """An id that occurs twice, first outside ``within``, is refused as two calls of add would refuse it."""
        first = item("tea", metadata=mine(session_id="s1", extra={"colour": "red"}))
        batch = [first, again(first, metadata=mine(session_id="s2", extra={"colour": "blue"}))]
        for within in ({"session_id": "s2"}, {"extra": {"colour": "blue"}}, {"session_id": "s1"}):
            yield store.add_many(batch, within=MemoryMetadata(**within))


class UpdateCases(HistoryCases):
    """Compare-and-set on the version."""

    async def test_a_version_conflict_names_both_versions(self, store: Store) -> None:
        """The error says which version was expected and which one was found, or None."""
        held = note("tea", self.scope(), version=3)
        for found in (None, 1):
            with raises(VersionConflictError, "update of a version that is not there") as raised:
                await store.update(held)
            equal((raised.error.expected, raised.error.found), (3, found), "expected and found version")
            await store.add(held)

    @played
    def test_update_many_changes_nothing_outside_within(self, store: Calls) -> Program:
        """Wherever in a batch an item lies outside, the batch is refused, and that item stays as it is."""
        inside, outside = mine(session_id="s"), mine(session_id="other")
        for place in range(3):
            batch = [item(f"{place}{number}", metadata=inside) for number in range(3)]
            batch[place] = batch[place].model_copy(update={"metadata": outside})
            yield store.add_many(batch)
            yield store.update_many([again(each, 1, inside) for each in batch], within=inside)

    @played
    def test_update_many_is_all_or_none(self, store: Calls) -> Program:
        """One stale version or another user's id, deleted or not, wherever it stands, keeps the whole batch out."""
        held, taken = items(*"abc"), [item(name, metadata=theirs()) for name in ("theirs", "hidden")]
        yield store.add_many([*held, *taken])
        yield store.delete("hidden")
        for stale in range(3):
            batch = [again(each, 5 if number == stale else 1) for number, each in enumerate(held)]
            yield store.update_many([item("new", 9), *batch])
        for version, other in zip((1, 0), taken, strict=True):
            yield store.update_many([again(held[0], 1), again(other, version, mine())])
        yield store.restore()


class AddDeletedCases(HistoryCases):
    """``add_many(items, deleted=ids)``."""

    @needs(Capability.ADD_DELETED)
    async def test_what_arrives_deleted_is_seen_by_nobody_meanwhile(self, store: Store) -> None:
        """A reader sees none of the items at any moment while they are written."""
        scope = self.scope()
        batches = [[note("hidden", scope, second) for second in range(20)] for _ in range(10)]
        writing = True
        seen: list[str] = []

        async def watch() -> None:
            while writing:
                seen.extend(contents(await store.search(metadata=scope)))
                seen.extend(["by its id" for batch in batches if await store.get(batch[0].id) is not None])
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        try:
            for batch in batches:
                await store.add_many(batch, deleted=[item.id for item in batch])
        finally:
            writing = False
            await watching
        equal(seen, [], "what a reader saw of items that arrive deleted")

    @needs(Capability.ADD_DELETED)
    async def test_observers_change_what_arrives_deleted_and_are_not_told_of_it(self, store: Store) -> None:
        """Redaction applies to hidden items, and observers that mirror what is added never receive them."""
        scope = self.scope()
        recorder = Recorder(scope.user_id)
        store.observe(recorder)
        shown, hidden = note("shown secret", scope, 1), note("hidden secret", scope, 2)
        await store.add_many([shown, hidden], deleted=[hidden.id])
        equal(recorder.recorded, [("added", ["shown ***"])], "what the observer was notified of")
        await store.restore(hidden.id)
        equal(contents(await store.search(metadata=scope)), ["hidden ***", "shown ***"], "what was stored")

    async def test_a_store_that_takes_deleted_items_can_restore_them(self, store: Store) -> None:
        """The capability ``add_deleted`` is nothing without ``delete``."""
        held = store.capabilities
        that(
            Capability.ADD_DELETED not in held or Capability.DELETE in held, "Nobody can restore what arrives deleted."
        )

    @played
    def test_an_id_that_is_not_among_the_items_is_refused(self, store: Calls) -> Program:
        """add_many deletes nothing that is stored, and without the capability nothing arrives deleted."""
        yield store.add(item("stored"))
        yield from (store.add_many(batch, deleted=["stored"]) for batch in ([item("x")], []))
        yield store.add_many([item("x")], deleted=["x"])


class BatchCases(HistoryCases):
    """get_many, apply, pop and keep_created."""

    @refused
    def test_what_is_no_list_of_ids_is_refused(self, store: Calls) -> Iterator[Call]:
        """A text is no list of its letters, and a number no id."""
        yield from (store.get_many(ids) for ids in ("abc", [1]))

    @needs(Capability.ATOMIC)
    @played
    def test_a_batch_is_all_or_none(self, store: Calls) -> Program:
        """If one part meets a conflict, nothing was deleted and nothing added, however large the batch is."""
        yield store.add_many([item("old"), item("other", metadata=theirs())])
        yield store.apply(adds=[item("new"), item("other")], deletes=["old"])
        many = [*items(*(f"new {number}" for number in range(1_100 if self.is_brief else 4_200))), item("other")]
        yield from (store.add_many(many), store.apply(adds=many, deletes=["old"]), store.update_many(many))

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
