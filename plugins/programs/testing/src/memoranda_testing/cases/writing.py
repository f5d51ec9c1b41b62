"""Adding, replacing, versions and compare-and-set; items that are added as deleted, as copies of other stores."""

from __future__ import annotations

import asyncio

from memoranda.errors import IdConflictError, VersionConflictError
from memoranda.items import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store
from memoranda_testing.case import made, needs, note
from memoranda_testing.cases.histories import HistoryCases
from memoranda_testing.cases.observers import Recorder
from memoranda_testing.cases.removing import searches
from memoranda_testing.expect import contents, equal, raises, that
from memoranda_testing.programs import Calls, Program, item, items, mine, played, theirs


def again(held: MemoryItem, version: int = 0, metadata: MemoryMetadata | None = None) -> MemoryItem:
    """Return another item of the same id."""
    return item(f"{held.content} again", 9, metadata or held.metadata, id=held.id, version=version)


class AddCases(HistoryCases):
    """Adding stores the item; an id that exists is replaced as a whole."""

    @played
    def test_versions_start_at_one_and_go_up_by_one(self, store: Calls) -> Program:
        """Each add of the same id raises the version by one, whatever version the item carries."""
        yield from (store.add(item("tea", version=carried)) for carried in (9, 0, 77, 3))
        yield store.get("tea")

    @played
    def test_replacing_replaces_every_field(self, store: Calls) -> Program:
        """Nothing of the old item is left: type, status, metadata, times and further fields are the new ones."""
        old = mine(session_id="s", task_id="t", extra={"old": 1})
        fields = {"id": "x", "created_at": "2024-03-01T00:00:00+00:00", "metadata": old}
        yield store.add(made(HumanMemory, content="old", name="Ada", archived_by="summary", mood="calm", **fields))
        yield store.add(item("new", 3, mine(agent_id="a", extra={"new": 2}), id="x"))
        yield store.search(metadata=old)

    @played
    def test_add_refuses_the_id_of_another_user(self, store: Calls) -> Program:
        """No user, the empty text and a named user are different owners: the id is a conflict, the item untouched."""
        owners = [MemoryMetadata(session_id="s"), MemoryMetadata(user_id="", session_id="s"), mine(session_id="s")]
        for held, owner in zip(items(*"abc"), owners, strict=True):
            yield store.add(held.model_copy(update={"metadata": owner}))
            for other in (*owners, theirs()):
                if other is not owner:
                    yield store.add(again(held, metadata=other))
                    yield store.add_many([again(held, metadata=other)])

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

    @played
    def test_within_protects_what_lies_outside(self, store: Calls) -> Program:
        """With ``within``, an existing item outside that scope is refused and untouched, one inside is replaced."""
        held, outside = item("tea", metadata=mine(session_id="s1")), MemoryMetadata(session_id="s2")
        yield store.add(held, within=outside)
        for metadata in (mine(session_id="s2"), held.metadata):
            yield store.add(again(held, metadata=metadata), within=outside)
            yield store.add_many([again(held, metadata=metadata)], within=outside)
            yield store.update(again(held, 1, metadata), within=outside)
        yield store.update(again(held, 1), within=MemoryMetadata(session_id="s1"))
        yield store.add(again(held), within=MemoryMetadata(session_id="s1"))


class AddManyCases(HistoryCases):
    """Several items at once."""

    async def test_add_many_stores_all(self, store: Store) -> None:
        """Every item is stored with version 1, from any iterable."""
        scope = self.scope()
        await store.add_many(note(str(number), scope, number) for number in range(4000))
        found = await store.search(metadata=scope, limit=5000)
        wanted = [(str(number), 1) for number in reversed(range(4000))]
        equal([(each.content, each.version) for each in found], wanted, "search after add_many")

    @played
    def test_add_many_with_an_id_twice_keeps_the_last(self, store: Calls) -> Program:
        """An id that occurs twice is added and then replaced, as two calls of add would; no items are no error."""
        first = item("first")
        yield store.add_many([first, item("other"), again(first)])
        yield store.add_many([])

    @played
    def test_add_many_checks_all_before_it_writes_any(self, store: Calls) -> Program:
        """An item that cannot be stored keeps the whole batch out."""
        yield store.add_many([*items("a", "b"), item("c\0", id="c")])

    @needs(Capability.ATOMIC)
    @played
    def test_add_many_is_all_or_none(self, store: Calls) -> Program:
        """On an atomic store, a conflict in the batch leaves nothing of it behind and replaces nothing."""
        held, taken = item("tea"), item("theirs", metadata=theirs())
        yield store.add_many([held, taken])
        yield store.add_many([item("new"), again(held), again(taken, metadata=mine()), item("last")])
        yield store.add_many([item("new"), again(item("new"), metadata=theirs())])

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

    @played
    def test_update_of_a_stale_version_is_refused(self, store: Calls) -> Program:
        """The version that is there gives the next one; one behind or ahead is refused, and 0 means that none is."""
        held = item("tea")
        yield from (store.update(again(held, version)) for version in (3, 0, 0, 1, 1, 3, 2))

    async def test_a_version_conflict_names_both_versions(self, store: Store) -> None:
        """The error says which version was expected and which one was found, or None."""
        held = note("tea", self.scope(), version=3)
        for found in (None, 1):
            with raises(VersionConflictError, "update of a version that is not there") as raised:
                await store.update(held)
            equal((raised.error.expected, raised.error.found), (3, found), "expected and found version")
            await store.add(held)

    @played
    def test_update_refuses_the_id_of_another_user(self, store: Calls) -> Program:
        """Knowing id and version is not enough to take an item over."""
        held = item("tea")
        yield store.add(held)
        yield from (store.update(again(held, version, theirs())) for version in (0, 1))

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
    def test_an_updated_item_keeps_its_place_among_ties(self, store: Calls) -> Program:
        """Updating does not move an item among items of the same time."""
        held = items(*"abc", second=9)
        yield store.add_many(held)
        yield store.update(again(held[0], 1))

    @played
    def test_update_many_changes_all(self, store: Calls) -> Program:
        """Items are returned in the order given, each with its new version; new and old ones may be mixed."""
        held = items(*"abc")
        yield store.add_many(held)
        yield store.update_many([*(again(each, 1) for each in reversed(held)), item("new", 20)])
        yield from (store.update_many(batch) for batch in ([], [item("x"), again(item("x"))]))

    async def test_update_many_takes_many(self, store: Store) -> None:
        """A thousand items are compared and set at once."""
        scope = self.scope()
        first = await store.update_many([note(str(number), scope, number) for number in range(1000)])
        updated = await store.update_many(reversed(first))
        wanted = [(str(number), 2) for number in reversed(range(1000))]
        equal([(each.content, each.version) for each in updated], wanted, "what a second update returned")

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
    @played
    def test_what_arrives_deleted_is_hidden_everywhere(self, store: Calls) -> Program:
        """No read shows it but those that ask for what is deleted; restored, it is whole and in its place."""
        tea = [f"tea {number}" for number in range(4)]
        archived = item("tea archived", 1, archived_by="summary")
        yield store.add_many([*items(*tea, second=9), archived], deleted=[tea[0], tea[2], archived.id])
        yield from searches(store, "tea")
        yield from (store.get(tea[2]), store.count(), store.count(include_deleted=True), store.restore())
        yield from searches(store, "tea 2")

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
    @played
    def test_what_arrives_deleted_replaces_what_is_there(self, store: Calls) -> Program:
        """A visible item of the id is hidden by it, a hidden one stays so; adding it once more brings it back."""
        yield store.add_many([item("old tea", number, id=name) for number, name in enumerate("abc")])
        yield store.delete("b")
        yield store.add_many(
            [item("new tea", number, id=name) for number, name in enumerate("abc")], deleted=["a", "b"]
        )
        yield from searches(store, "tea")
        yield from (store.restore("b"), store.add(item("newest tea", id="a")), store.restore())

    @needs(Capability.ADD_DELETED, Capability.ATOMIC)
    @played
    def test_what_arrives_deleted_is_refused_as_a_whole(self, store: Calls) -> Program:
        """Another user's id, visible or hidden, is an IdConflictError, and nothing of the batch is stored."""
        taken = items("visible", "hidden", metadata=theirs())
        yield store.add_many(taken, deleted=["hidden"])
        for other in taken:
            yield store.add_many([item("first"), item("mine", id=other.id), item("last")], deleted=["first", other.id])

    @needs(Capability.ADD_DELETED)
    @played
    def test_a_scope_stamps_and_bounds_what_arrives_deleted(self, store: Calls) -> Program:
        """A handle hides what it adds under its own scope, and cannot hide what lies outside."""
        handle = store.scoped(user_id="ada", session_id="mine")
        yield store.add(item("outside", metadata=mine(session_id="other")))
        for text in ("inside", "outside"):
            yield handle.add_many([item(text, metadata=mine(session_id="mine"))], deleted=[text])
        yield from (handle.restore(), handle.search())

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
