"""Adding, replacing, versions and compare-and-set."""

from __future__ import annotations

import uuid

from memoranda.errors import ConflictError, IdConflictError, InputError, VersionConflictError
from memoranda.items import HumanMemory, MemoryMetadata
from memoranda.store import Capability, Store
from memoranda_testing.case import Cases, made, needs, note
from memoranda_testing.expect import contents, equal, raises, same_item, that


class AddCases(Cases):
    """Adding stores the item; an id that exists is replaced as a whole."""

    async def test_add_returns_nothing(self, store: Store) -> None:
        """Add returns None; the version is on what is read."""
        equal(await store.add(note("x", self.scope())), None, "what add returned")  # type: ignore[func-returns-value]

    async def test_versions_start_at_one_and_go_up_by_one(self, store: Store) -> None:
        """Each add of the same id raises the version by one, whatever version the item carries."""
        scope = self.scope()
        item = note("x", scope)
        for version, carried in ((1, 0), (2, 0), (3, 77), (4, 3)):
            await store.add(note(f"v{version}", scope, id=item.id, version=carried))
            found = await store.get(item.id)
            equal(
                found and (found.content, found.version), (f"v{version}", version), "content and version after an add"
            )
        (listed,) = await store.search(metadata=scope)
        equal(listed.version, 4, "version in a search")

    async def test_a_new_item_starts_at_version_one_whatever_it_carries(self, store: Store) -> None:
        """The store gives the version, also to an item that was another store's."""
        item = note("imported", self.scope(), version=9)
        await store.add(item)
        found = await store.get(item.id)
        equal(found and found.version, 1, "version of an imported item")

    async def test_replacing_replaces_every_field(self, store: Store) -> None:
        """Nothing of the old item is left: type, status, metadata, times and further fields are the new ones."""
        scope = self.scope(session_id="s", task_id="t", extra={"old": 1})
        old = made(HumanMemory, content="old", name="Ada", metadata=scope, archived_by="summary", mood="calm")
        new = note("new", MemoryMetadata(user_id=scope.user_id, agent_id="a", extra={"new": 2}), 3, id=old.id)
        await store.add(old)
        await store.add(new)
        same_item(await store.get(old.id), new, "get after a replacement", version=2)
        equal(await store.search(metadata=scope), [], "search in the old session")
        equal(contents(await store.search(metadata=new.metadata)), ["new"], "search in the new scope")
        equal(await store.count(metadata=MemoryMetadata(user_id=scope.user_id)), 1, "count after a replacement")

    async def test_add_refuses_the_id_of_another_user(self, store: Store) -> None:
        """An id that belongs to another user is an IdConflictError, and that item stays untouched."""
        mine, theirs = note("mine", self.scope()), self.scope()
        await store.add(mine)
        for intruder in (
            note("taken", theirs, id=mine.id),
            note("taken", MemoryMetadata(session_id=theirs.user_id), id=mine.id),
        ):
            with raises(IdConflictError, "add of another user's id"):
                await store.add(intruder)
            with raises(ConflictError, "add_many of another user's id"):
                await store.add_many([intruder])
        same_item(await store.get(mine.id), mine, "the item that was to be taken over", version=1)
        equal(await store.search(metadata=theirs), [], "search of the intruder")

    async def test_add_refuses_an_id_that_belongs_to_nobody(self, store: Store) -> None:
        """No user (None), the empty text and a named user are three different owners."""
        session = f"conform-{uuid.uuid4().hex}"
        owners = [
            self.owned(MemoryMetadata(session_id=session)),
            self.owned(MemoryMetadata(user_id="", session_id=session)),
            self.scope(session_id=session),
        ]
        for owner in owners:
            item = note("first", owner)
            await store.add(item)
            for other in owners:
                if other is not owner:
                    with raises(IdConflictError, f"add by {other.user_id!r} of an item of {owner.user_id!r}"):
                        await store.add(note("second", other, id=item.id))
            same_item(await store.get(item.id), item, "the first owner's item", version=1)

    async def test_an_id_conflict_says_nothing_of_the_other_item(self, store: Store) -> None:
        """The message names the id alone: it must not reveal the owner."""
        owner = self.scope(session_id="secret-session")
        item = note("secret content", owner)
        await store.add(item)
        with raises(IdConflictError, "add of another user's id") as raised:
            await store.add(note("x", self.scope(), id=item.id))
        message = str(raised.error)
        that(item.id in message, "The message of an id conflict should name the id.")
        for secret in (str(owner.user_id), "secret"):
            that(secret not in message, "The message of an id conflict tells of the other item.")

    async def test_within_protects_what_lies_outside(self, store: Store) -> None:
        """With ``within``, an existing item outside that scope is refused and untouched, one inside is replaced."""
        scope = self.scope(session_id="s1")
        inside, outside = MemoryMetadata(session_id="s1"), MemoryMetadata(session_id="s2")
        item = note("first", scope)
        await store.add(item, within=outside)
        with raises(IdConflictError, "add within another session"):
            await store.add(
                note("moved", MemoryMetadata(user_id=scope.user_id, session_id="s2"), id=item.id), within=outside
            )
        with raises(IdConflictError, "add_many within another session"):
            await store.add_many([note("moved", scope, id=item.id)], within=outside)
        same_item(await store.get(item.id), item, "the protected item", version=1)
        await store.add(note("second", scope, id=item.id), within=inside)
        found = await store.get(item.id)
        equal(found and (found.content, found.version), ("second", 2), "the item replaced within its scope")


class AddManyCases(Cases):
    """Several items at once."""

    async def test_add_many_stores_all(self, store: Store) -> None:
        """Every item is stored with version 1, from any iterable."""
        scope = self.scope()
        items = [note(str(number), scope, number) for number in range(4000)]
        await store.add_many(item for item in items)
        found = await store.search(metadata=scope, limit=5000)
        equal(contents(found), [str(number) for number in reversed(range(4000))], "search after add_many")
        equal({item.version for item in found}, {1}, "versions after add_many")

    async def test_add_many_of_nothing_does_nothing(self, store: Store) -> None:
        """An empty batch is no error."""
        equal(await store.add_many([]), None, "what add_many([]) returned")  # type: ignore[func-returns-value]

    async def test_add_many_with_an_id_twice_keeps_the_last(self, store: Store) -> None:
        """An id that occurs twice is added and then replaced, as two calls of add would."""
        scope = self.scope()
        first = note("first", scope, 1)
        await store.add_many([first, note("other", scope, 1), note("second", scope, 1, id=first.id)])
        found = await store.get(first.id)
        equal(found and (found.content, found.version), ("second", 2), "the item that occurred twice")
        equal(contents(await store.search(metadata=scope)), ["other", "second"], "search after add_many")

    async def test_add_many_checks_all_before_it_writes_any(self, store: Store) -> None:
        """An item that cannot be stored keeps the whole batch out."""
        scope = self.scope()
        with raises(InputError, "add_many with a NUL in the third item"):
            await store.add_many([note("a", scope), note("b", scope), note("c\0", scope)])
        equal(await store.count(metadata=scope), 0, "count after a refused batch")

    @needs(Capability.ATOMIC)
    async def test_add_many_is_all_or_none(self, store: Store) -> None:
        """On an atomic store, a conflict in the batch leaves nothing of it behind and replaces nothing."""
        scope, owner = self.scope(), self.scope()
        taken, mine = note("theirs", owner), note("mine", scope)
        await store.add_many([taken, mine])
        batch = [
            note("new", scope),
            note("mine again", scope, id=mine.id),
            note("x", scope, id=taken.id),
            note("y", scope),
        ]
        with raises(IdConflictError, "add_many with another user's id in the middle"):
            await store.add_many(batch)
        equal(contents(await store.search(metadata=scope)), ["mine"], "search after a refused batch")
        same_item(await store.get(mine.id), mine, "the item that was to be replaced", version=1)
        same_item(await store.get(taken.id), taken, "the other user's item", version=1)

    @needs(Capability.ATOMIC)
    async def test_add_many_refuses_one_id_for_two_users(self, store: Store) -> None:
        """A batch that gives one new id to two users is a conflict and leaves nothing behind."""
        first, second = self.scope(), self.scope()
        item = note("first", first)
        with raises(IdConflictError, "add_many with one id for two users"):
            await store.add_many([item, note("second", second, id=item.id)])
        equal(await store.get(item.id), None, "get after a refused batch")

    @needs(Capability.ATOMIC)
    async def test_add_many_within_a_scope_reaches_into_the_batch(self, store: Store) -> None:
        """An id that occurs twice, first outside ``within``, is refused as two calls of add would refuse it."""
        scope = self.scope(session_id="s1", extra={"colour": "red"})
        first = note("first", scope)
        again = note("again", scope.model_copy(update={"session_id": "s2", "extra": {"colour": "blue"}}), id=first.id)
        for within in (MemoryMetadata(session_id="s2"), MemoryMetadata(extra={"colour": "blue"})):
            with raises(IdConflictError, "add_many with an id twice, first outside the scope to stay within"):
                await store.add_many([first, again], within=within)
            equal(await store.get(first.id), None, "get after a refused batch")
        await store.add_many([first, again], within=MemoryMetadata(session_id="s1"))
        found = await store.get(first.id)
        equal(found and (found.content, found.version), ("again", 2), "the item that occurred twice")


class UpdateCases(Cases):
    """Compare-and-set on the version."""

    async def test_update_returns_the_item_with_its_new_version(self, store: Store) -> None:
        """An item that was read can be changed; the result is what get returns."""
        item = note("first", self.scope())
        await store.add(item)
        read = await store.get(item.id)
        assert read is not None
        read.content = "second"
        updated = await store.update(read)
        same_item(updated, read, "what update returned", version=2)
        same_item(await store.get(item.id), read, "get after update", version=2)
        equal(read.version, 1, "the version of the caller's own item")

    async def test_update_of_a_stale_version_is_refused(self, store: Store) -> None:
        """A version that is behind or ahead is a VersionConflictError that says both, and changes nothing."""
        scope = self.scope()
        item = note("first", scope)
        await store.add(item)
        await store.add(note("second", scope, id=item.id))
        for version in (0, 1, 3):
            with raises(VersionConflictError, f"update of version {version} over 2") as raised:
                await store.update(note("stale", scope, id=item.id, version=version))
            equal((raised.error.expected, raised.error.found), (version, 2), "expected and found version")
        found = await store.get(item.id)
        equal(found and (found.content, found.version), ("second", 2), "the item after refused updates")

    async def test_update_of_version_nought_makes_a_new_item(self, store: Store) -> None:
        """Version 0 means that there must be no such item yet."""
        item = note("new", self.scope())
        updated = await store.update(item)
        equal(updated.version, 1, "the version of a new item")
        same_item(await store.get(item.id), item, "get of the new item", version=1)
        with raises(VersionConflictError, "update of version 0 over an existing item"):
            await store.update(item)

    async def test_update_of_what_is_not_there_is_refused(self, store: Store) -> None:
        """A version above 0 of an unknown id is a VersionConflictError that found None; nothing is made."""
        item = note("gone", self.scope(), version=3)
        with raises(VersionConflictError, "update of an unknown id") as raised:
            await store.update(item)
        equal(raised.error.found, None, "the version found")
        equal(await store.get(item.id), None, "get after a refused update")

    async def test_update_refuses_the_id_of_another_user(self, store: Store) -> None:
        """Knowing id and version is not enough to take an item over."""
        item, intruder = note("mine", self.scope()), self.scope()
        await store.add(item)
        for version in (0, 1):
            with raises(ConflictError, "update of another user's item"):
                await store.update(note("taken", intruder, id=item.id, version=version))
        same_item(await store.get(item.id), item, "the item that was to be taken over", version=1)

    async def test_update_refuses_what_lies_outside_within(self, store: Store) -> None:
        """An item outside ``within`` raises IdConflictError, whatever its version."""
        scope = self.scope(session_id="s1")
        item = note("mine", scope)
        await store.add(item)
        with raises(IdConflictError, "update within another session"):
            await store.update(note("x", scope, id=item.id, version=1), within=MemoryMetadata(session_id="s2"))
        same_item(await store.get(item.id), item, "the protected item", version=1)
        updated = await store.update(note("y", scope, id=item.id, version=1), within=MemoryMetadata(session_id="s1"))
        equal(updated.version, 2, "the version after an update within its scope")

    async def test_update_many_changes_nothing_outside_within(self, store: Store) -> None:
        """Wherever in a batch an item lies outside, the batch is refused, and that item stays as it is."""
        scope = self.scope(session_id="s")
        outside = scope.model_copy(update={"session_id": "other"})
        for place in range(3):
            items = [note(f"tea {number}", outside if number == place else scope, number) for number in range(3)]
            await store.add_many(items)
            changed = [note("milk", scope, number, id=item.id, version=1) for number, item in enumerate(items)]
            with raises(ConflictError, f"update_many() whose item number {place} lies outside of within"):
                await store.update_many(changed, within=scope)
            found = await store.get(items[place].id)
            equal(found and (found.content, found.version), (f"tea {place}", 1), "the item that lies outside")
            if Capability.ATOMIC in store.capabilities:
                held = await store.get_many([item.id for item in items])
                equal(contents(held), contents(items), "the batch that was refused")

    async def test_an_updated_item_keeps_its_place_among_ties(self, store: Store) -> None:
        """Updating does not move an item among items of the same time."""
        scope = self.scope()
        items = [note(str(number), scope, 9) for number in range(3)]
        await store.add_many(items)
        await store.update(note("0 again", scope, 9, id=items[0].id, version=1))
        equal(contents(await store.search(metadata=scope)), ["2", "1", "0 again"], "search after an update")

    async def test_update_many_changes_all(self, store: Store) -> None:
        """Items are returned in the order given, each with its new version; new and old ones may be mixed."""
        scope = self.scope()
        items = [note(str(number), scope, number) for number in range(3)]
        await store.add_many(items)
        batch = [note(f"{item.content}!", scope, id=item.id, version=1) for item in reversed(items)]
        updated = await store.update_many([*batch, note("new", scope, 9)])
        equal(
            [(item.content, item.version) for item in updated], [("2!", 2), ("1!", 2), ("0!", 2), ("new", 1)], "result"
        )
        equal(contents(await store.search(metadata=scope)), ["new", "2!", "1!", "0!"], "search after update_many")
        equal(await store.update_many([]), [], "what update_many([]) returned")

    async def test_update_many_takes_many(self, store: Store) -> None:
        """A thousand items are compared and set at once."""
        scope = self.scope()
        made = await store.update_many([note(str(number), scope, number) for number in range(1000)])
        updated = await store.update_many(reversed(made))
        equal([item.content for item in updated], [str(number) for number in reversed(range(1000))], "the order given")
        equal({item.version for item in updated}, {2}, "versions after a second update")

    async def test_update_many_is_all_or_none(self, store: Store) -> None:
        """One stale version, wherever it stands, keeps the whole batch out."""
        scope = self.scope()
        items = [note(str(number), scope, number) for number in range(3)]
        await store.add_many(items)
        for stale in range(3):
            batch = [
                note("changed", scope, id=item.id, version=5 if number == stale else 1)
                for number, item in enumerate(items)
            ]
            with raises(VersionConflictError, f"update_many with a stale item at {stale}"):
                await store.update_many([note("new", scope, 9), *batch])
            found = await store.search(metadata=scope)
            equal([(item.content, item.version) for item in found], [("2", 1), ("1", 1), ("0", 1)], "after a refusal")

    async def test_update_many_refuses_another_users_item_as_a_whole(self, store: Store) -> None:
        """One item of another user keeps the whole batch out."""
        scope = self.scope()
        mine, theirs = note("mine", scope), note("theirs", self.scope())
        await store.add_many([mine, theirs])
        with raises(ConflictError, "update_many with another user's item"):
            await store.update_many(
                [note("x", scope, id=mine.id, version=1), note("x", scope, id=theirs.id, version=1)]
            )
        same_item(await store.get(mine.id), mine, "one's own item after a refusal", version=1)
        same_item(await store.get(theirs.id), theirs, "the other user's item", version=1)

    @needs(Capability.DELETE)
    async def test_update_many_refuses_another_users_hidden_id_as_a_whole(self, store: Store) -> None:
        """An id that a deleted item of another user holds keeps the whole batch out."""
        scope = self.scope()
        mine, theirs = note("mine", scope), note("theirs", self.scope())
        await store.add_many([mine, theirs])
        await store.delete(theirs.id)
        with raises(ConflictError, "update_many with the id of another user's deleted item"):
            await store.update_many([note("x", scope, id=mine.id, version=1), note("x", scope, id=theirs.id)])
        same_item(await store.get(mine.id), mine, "one's own item after a refusal", version=1)
        await store.restore(theirs.id)
        same_item(await store.get(theirs.id), theirs, "the other user's item", version=1)

    async def test_update_many_refuses_an_id_twice(self, store: Store) -> None:
        """An id that occurs twice is an InputError and changes nothing."""
        scope = self.scope()
        item = note("x", scope)
        with raises(InputError, "update_many with an id twice"):
            await store.update_many([item, note("y", scope, id=item.id)])
        equal(await store.get(item.id), None, "get after a refusal")
