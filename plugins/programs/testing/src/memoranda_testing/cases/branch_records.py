"""Branch records: where they come from, what can be read through one, and how they are copied."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import Any

from memoranda.errors import IdConflictError, InputError, VersionConflictError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.store import Capability, InMemoryStore, Observer, Store
from memoranda_testing.case import Cases, add_texts, needs, note
from memoranda_testing.expect import SkipCase, contents, equal, raises, that
from memoranda_testing.model.afresh import copied
from memoranda_testing.programs import HistoryCases


def record_of(branch: str, user_id: str | None, parent: str, at: str, **fields: Any) -> BranchMemory:
    """Return a record that did not come from fork()."""
    metadata = fields.pop("metadata", MemoryMetadata(user_id=user_id, session_id=branch))
    return BranchMemory(id=branch, metadata=metadata, archived_by=branch, parent=parent, at=at, **fields)


async def shown(store: Store, session: str, **scope: Any) -> list[str]:
    """Return what a session shows."""
    return contents(await store.window(metadata=MemoryMetadata(session_id=session, **scope)))


def _writes(
    store: Store, item: MemoryItem, there: MemoryMetadata, many: Sequence[MemoryItem]
) -> Iterator[Awaitable[object]]:
    """Yield every way of writing an item."""
    yield store.add(item)
    yield store.add(item, keep_created=True)
    yield store.add_many([note("b", there), item])
    yield store.add_many([*many, item])
    yield store.append([item], after=None)
    yield store.apply(adds=[item])
    yield store.update(item)
    yield store.update_many([item])


class BranchRecordCases(Cases):
    """A branch record comes from fork() alone, and gives access to nothing that its creator could not read."""

    async def test_no_way_of_writing_takes_a_record(self, store: Store) -> None:
        """Whatever it is called and whatever class it has: add, add_many, append, apply, update and observers."""
        scope = self.scope(session_id="s")
        (item,) = await add_texts(store, scope, "a")
        name = f"branch-{scope.user_id}"
        there = MemoryMetadata(user_id=scope.user_id, session_id=name)
        record = record_of(name, scope.user_id, "s", item.id, places={"s": 10**6})
        fields = {"parent": "s", "at": item.id, "places": {"s": 10**6}}
        plain = MemoryItem(id=name, content="", memory_type="branch", archived_by=name, metadata=there, **fields)
        disguised = record.model_copy(update={"memory_type": "note"})
        many = [note(f"{number}", there) for number in range(2000)]
        handle = store.scoped(user_id=str(scope.user_id))
        for forged in (record, plain, disguised, record.model_copy(update={"version": 1})):
            for target in (store, handle):
                for number, way in enumerate(_writes(target, forged, there, many)):
                    with raises(InputError, f"writing a record, way {number}"):
                        await way
        equal(await store.count(metadata=there), 0, "number of items in a session that was not forked")

    async def test_an_observer_makes_no_record(self, store: Store) -> None:
        """What an observer turns into a record is refused as well."""
        scope = self.scope(session_id="s")
        (item,) = await add_texts(store, scope, "a")
        handle = store.scoped(user_id=str(scope.user_id))
        name = f"branch-{scope.user_id}"

        class Forger(Observer):
            def before_add(self, item: MemoryItem) -> MemoryItem:
                return record_of(item.id, item.metadata.user_id, "s", "x")

        handle.observe(Forger())
        with raises(InputError, "a record that an observer made"):
            await handle.add(note("b", MemoryMetadata(session_id=name), id=name))
        equal(await store.get(name), None, "the record")
        equal(contents([item]), ["a"], "what was said")

    @needs(Capability.FORK)
    async def test_a_handle_of_a_branch_cannot_go_elsewhere(self, store: Store) -> None:
        """A handle of the branch alone cannot fork, nor write its record again with another past."""
        scope = self.scope(session_id="s")
        items = await add_texts(store, scope, "a", "b")
        other = MemoryMetadata(user_id=scope.user_id, session_id="diary")
        (secret,) = await add_texts(store, other, "secret")
        branch = await store.fork("s", at=items[0].id)
        handle = store.scoped(user_id=str(scope.user_id), session_id=branch)
        alone = store.scoped(session_id=branch)
        forged = record_of(branch, scope.user_id, "diary", secret.id)
        for bound in (handle, alone):
            own = await bound.get(branch)
            assert isinstance(own, BranchMemory)
            with raises(InputError, "the record of a branch, given back with another past"):
                await bound.add(own.model_copy(update={"parent": "diary", "at": secret.id, "places": {"diary": 10**6}}))
            with raises(InputError, "forking another session"):
                await bound.fork("diary", at=secret.id)
            with raises(InputError, "forking a branch through a handle that is bound to it"):
                await bound.fork(branch, at=items[0].id)
            with raises(InputError, "a record with another past"):
                await bound.fork("diary", at=secret.id, record=forged)
            equal(contents(await bound.window()), ["a"], "the branch")
        if Capability.PURGE in store.capabilities:
            await handle.purge(branch)
            with raises(InputError, "a record with another past instead of one that was purged"):
                await handle.fork("diary", at=secret.id, record=forged)
            with raises(InputError, "the past of a record that was purged"):
                await handle.fork(branch, at=items[0].id, record=record_of(branch, scope.user_id, "s", items[0].id))
            made = record_of(branch, scope.user_id, "", "", earlier={"diary": secret.id})
            await handle.fork("", at="", record=made)
            equal(contents(await handle.window()), [], "a branch of whose past nothing is left")

    @needs(Capability.FORK)
    async def test_a_handle_leads_no_further_than_it_reaches(self, store: Store) -> None:
        """What a handle of a namespace, an agent or a task forks shares what lies in its scope, for every reader."""
        victim = self.scope(session_id="s")
        await add_texts(store, victim, "mine", "mine, too")
        scopes: list[dict[str, Any]] = [{"namespace": ("evil",)}, {"agent_id": "evil"}, {"task_id": "evil"}]
        for bound in scopes:
            handle = store.scoped(**bound)
            bait = note("bait", victim)
            await handle.add(bait)
            branch = await handle.fork("s", at=bait.id)
            for reader in (store, handle, store.scoped(session_id=branch), store.scoped(user_id=str(victim.user_id))):
                equal(await shown(reader, branch), ["bait"], f"a branch that a handle of {bound} made")
            stamped = MemoryMetadata(user_id=victim.user_id, session_id=f"{branch}-2", **bound)
            made = record_of(f"{branch}-2", None, "s", bait.id, metadata=stamped)
            again = await handle.fork("s", at=bait.id, record=made)
            equal(await shown(store.scoped(session_id=again), again), ["bait"], "a branch that was copied there")
        left = await store.count(metadata=MemoryMetadata(user_id=victim.user_id))
        removed = await store.scoped(user_id=str(victim.user_id)).clear()
        equal(removed, left, "number that a clear of everything tells")
        equal(await store.count(metadata=MemoryMetadata(user_id=victim.user_id)), 0, "what is left of a user")

    @needs(Capability.FORK)
    async def test_another_users_items_are_never_shared(self, store: Store) -> None:
        """A record names items of its user alone, in sessions of whatever name."""
        mine, theirs = self.scope(session_id="s"), self.scope(session_id="s")
        (own,) = await add_texts(store, mine, "a")
        (secret,) = await add_texts(store, theirs, "secret")
        name = f"branch-{mine.user_id}"
        handle = store.scoped(user_id=str(mine.user_id))
        for target in (store, handle):
            with raises(InputError, "a record at another's item"):
                await target.fork("s", at=secret.id, record=record_of(name, mine.user_id, "s", secret.id))
            with raises(InputError, "a record at one's own item and then another's"):
                mixed = record_of(name, mine.user_id, "s", own.id, earlier={"t": secret.id})
                await target.fork("s", at=own.id, record=mixed)
        with raises(InputError, "a record of another user through a handle"):
            await handle.fork("s", at=own.id, record=record_of(name, theirs.user_id, "s", own.id))
        await handle.fork("s", at=own.id, record=record_of(name, mine.user_id, "s", own.id, places={"s": 10**6}))
        await add_texts(store, mine, "later")
        for reader in (store, handle, store.scoped(session_id=name)):
            equal(await shown(reader, name), ["a"], "a branch with invented places")
        equal(await shown(store.scoped(user_id=str(theirs.user_id)), name), [], "the branch for another user")

    @needs(Capability.FORK)
    async def test_a_record_must_be_one(self, store: Store) -> None:
        """Its id is its session's and its archived_by, and begins like that of every branch."""
        scope = self.scope(session_id="s")
        (item,) = await add_texts(store, scope, "a")
        name = f"branch-{scope.user_id}"
        good = record_of(name, scope.user_id, "s", item.id)
        wrong: list[Any] = [
            record_of(f"session-{scope.user_id}", scope.user_id, "s", item.id),
            good.model_copy(update={"archived_by": None}),
            good.model_copy(update={"archived_by": item.id}),
            good.model_copy(update={"metadata": scope}),
            good.model_copy(update={"id": f"{name}-2"}),
            good.model_copy(update={"memory_type": "note"}),
            note("a", scope, id=name),
            "branch",
        ]
        for record in wrong:
            with raises(InputError, f"the record {record!r}"):
                await store.fork("s", at=item.id, record=record)
        with raises(InputError, "a record at an item that is not there"):
            await store.fork("s", at="nowhere", record=good)
        equal(await store.get(name), None, "the record")

    @needs(Capability.FORK)
    async def test_a_record_that_is_there_stays_as_it_is(self, store: Store) -> None:
        """Forking the same branch again changes nothing; another branch of this id is a conflict."""
        mine, theirs = self.scope(session_id="s"), self.scope(session_id="s")
        items = await add_texts(store, mine, "a", "b", "c")
        (other,) = await add_texts(store, theirs, "x")
        branch = await store.fork("s", at=items[1].id)
        (record,) = [
            item async for item in store.scan(metadata=MemoryMetadata(session_id=branch), memory_type="branch")
        ]
        assert isinstance(record, BranchMemory)
        for _ in range(2):
            equal(await store.fork(record.parent, at=record.at, record=record), branch, "the branch once more")
        stored = await store.get(branch)
        equal(stored and stored.version, 1, "version of the record")
        with raises(VersionConflictError, "a branch of the same id with another past"):
            await store.fork("s", at=items[0].id, record=record)
        with raises(VersionConflictError, "a branch of the same id with another time"):
            changed = record.model_copy(update={"created_at": items[0].created_at})
            await store.fork(record.parent, at=record.at, record=changed)
        with raises(IdConflictError, "a branch of another user's id"):
            await store.fork("s", at=other.id, record=record_of(branch, theirs.user_id, "s", other.id))
        equal(await shown(store, branch), ["a", "b"], "the branch")

    @needs(Capability.FORK)
    async def test_a_part_of_a_store_is_copied_with_its_branches(self, store: Store) -> None:
        """A record names what the same scan yields, so that copies of a time or a status can be made."""
        scope = self.scope(session_id="s")
        said_then = (("a", "accepted"), ("b", "draft"), ("c", "accepted"), ("d", "draft"))
        items = [note(text, scope, second, status=status) for second, (text, status) in enumerate(said_then)]
        await store.add_many(items)
        branch = await store.fork("s", at=items[-1].id)
        user = MemoryMetadata(user_id=scope.user_id)
        since = await copied(store, user, since=items[2].created_at)
        equal(await shown(since, branch), ["c", "d"], "the branch in a copy of what was created since")
        accepted = await copied(store, user, status=MemoryStatus.ACCEPTED)
        equal(await shown(accepted, branch), ["a", "c"], "the branch in a copy of what is accepted")

    async def test_a_store_that_cannot_fork_keeps_records(self, store: Store) -> None:
        """They come and go with copies, and show nothing."""
        if Capability.FORK in store.capabilities:
            raise SkipCase("the store declares the capability 'fork'")
        scope = self.scope(session_id="s")
        source = InMemoryStore()
        items = await add_texts(source, scope, "a", "b")
        branch = await source.fork("s", at=items[0].id)
        for target, origin in ((store, source), (InMemoryStore(), store)):
            asked = MemoryMetadata(user_id=scope.user_id)
            for item in [item async for item in origin.scan(metadata=asked, order="added")]:
                if isinstance(item, BranchMemory):
                    await target.fork(item.parent, at=item.at, record=item)
                else:
                    await target.add(item)
            wanted = [] if target is store else ["a"]
            equal(await shown(target, branch, user_id=scope.user_id), wanted, "the branch")

    @needs(Capability.FORK, Capability.PURGE)
    async def test_forgetting_a_user_takes_every_record(self, store: Store) -> None:
        """Wherever it was forked: nothing of a user is left, even after a clear."""
        scope = self.scope(session_id="s")
        (first,) = await add_texts(store, scope, "a")
        branch = await store.fork("s", at=first.id)
        (own,) = await add_texts(store, MemoryMetadata(user_id=scope.user_id, session_id=branch), "x")
        nested = await store.scoped(user_id=str(scope.user_id)).fork(branch, at=own.id)
        user = MemoryMetadata(user_id=scope.user_id)
        await store.clear(metadata=MemoryMetadata(session_id="s", user_id=scope.user_id))
        hides = Capability.DELETE in store.capabilities
        left = await store.count(metadata=user, include_deleted=hides)
        equal(await store.purge(metadata=user), left, "number that a purge tells")
        equal(await store.count(metadata=user, include_deleted=hides), 0, "what is left")
        for session in (branch, nested):
            that(await store.get(session) is None, "A record outlived its user.")


_FORKING = (
    *("add", "add", "add_many", "add_many", *["fork"] * 5, "apply", "apply", "purge", "clear"),
    *("restore", "restore", "delete", "update_many"),
)


class BranchHistoryCases(HistoryCases):
    """Random histories of sessions that are forked."""

    @needs(Capability.FORK)
    async def test_random_forks_show_what_lists_would(self, store: Store) -> None:
        """However sessions are forked, added to with any times, cleared, purged and restored; and so do copies."""
        options = self._history_options(store, writes=_FORKING, copies=True, together=False)
        await self._play_histories(self._sandbox(store), options, "forks", histories=self._often(20), length=20)
