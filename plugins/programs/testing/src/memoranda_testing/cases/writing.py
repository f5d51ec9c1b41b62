"""Adding, batches, turns, versions and compare-and-set; items that are added as deleted, as copies of other stores."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

from memoranda.errors import InputError, VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Observer, Store
from memoranda.store.backend import MAX_KEY_BYTES
from memoranda_testing.case import Cases, needs, note
from memoranda_testing.expect import contents, equal, raises, that
from memoranda_testing.programs import Calls, HistoryCases, Program, item, items, mine, played, theirs


def again(held: MemoryItem, version: int = 0, metadata: MemoryMetadata | None = None) -> MemoryItem:
    """Return another item of the same id."""
    return item(f"{held.content} again", 9, metadata or held.metadata, id=held.id, version=version)


class Redactor(Observer):
    """Changes what is added."""

    def before_add(self, item: MemoryItem) -> MemoryItem:
        item.content = item.content.replace("secret", "***")
        return item


class AddCases(HistoryCases):
    """Adding stores an item, or several at once; an id that exists is replaced as a whole."""

    async def test_observers_change_items_before_they_are_stored(self, store: Store) -> None:
        """Every way of adding goes through before_add; the caller's item is not changed."""
        scope = self.scope()
        store.observe(Redactor())
        items = [note(f"secret {number}", scope, number) for number in range(4)]
        await store.add(items[0])
        await store.add_many([items[1]])
        await store.update(items[2])
        await store.scoped(user_id=str(scope.user_id)).apply(adds=[items[3]])
        equal(contents(await store.search(metadata=scope)), ["*** 3", "*** 2", "*** 1", "*** 0"], "what is stored")
        equal(contents(items), [f"secret {number}" for number in range(4)], "the caller's items")

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

    async def test_a_store_that_takes_deleted_items_can_restore_them(self, store: Store) -> None:
        """The capability ``add_deleted`` is nothing without ``delete``."""
        held = store.capabilities
        that(
            Capability.ADD_DELETED not in held or Capability.DELETE in held, "Nobody can restore what arrives deleted."
        )


class BatchCases(HistoryCases):
    """get_many, apply, pop and keep_created."""

    @needs(Capability.ATOMIC)
    @played
    def test_a_batch_is_all_or_none(self, store: Calls) -> Program:
        """If one part meets a conflict, nothing was deleted and nothing added, however large the batch is."""
        yield store.add_many([item("old"), item("other", metadata=theirs())])
        yield store.apply(adds=[item("new"), item("other")], deletes=["old"])
        many = [*items(*(f"new {number}" for number in range(1_100 if self.is_brief else 4_200))), item("other")]
        yield from (store.add_many(many), store.apply(adds=many, deletes=["old"]), store.update_many(many))


class InputCases(Cases):
    """Items that cannot be stored, and those that only just can."""

    async def test_what_no_store_can_hold_is_refused(self, store: Store) -> None:
        """NUL characters, lone surrogates and what JSON lacks are InputErrors that name the field."""
        scope = self.scope()
        unstorable: dict[str, Callable[[], MemoryItem]] = {
            "content": partial(note, "a\0b", scope),
            "name": partial(note, "x", scope, name="\udfff"),
            "metadata.extra": lambda: note("x", MemoryMetadata(user_id=scope.user_id, extra={"k": [float("nan")]})),
            "mood": partial(note, "x", scope, mood={"k": b"bytes"}),
        }
        for field, build in unstorable.items():
            for write in (store.add, store.update, lambda item: store.add_many([item])):
                with raises(InputError, f"an item of which {field} cannot be stored") as raised:
                    await write(build())
                that(field in f"{raised.error.field} {raised.error}", f"The error does not name {field}.")
        equal(await store.count(metadata=scope), 0, "count after refusals")

    async def test_ids_are_as_long_as_every_index_can_hold(self, store: Store) -> None:
        """The longest ids are kept and found, in any script."""
        for letter in ("x", "ж", "😀"):
            longest = uuid.uuid4().hex
            longest += letter * ((MAX_KEY_BYTES - len(longest)) // len(letter.encode()))
            owner = self.scope(user_id=longest, session_id=longest, task_id=longest, agent_id=longest)
            await store.add(note("kept", owner, id=longest))
            equal([item.id for item in await store.search(metadata=owner)], [longest], "items of the longest ids")
            await store.scoped(user_id=longest).clear()
            if Capability.PURGE in store.capabilities:
                await store.scoped(user_id=longest).purge()
