"""Branch records: where they come from, what can be read through one, and how they are copied."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from memoranda.errors import IdConflictError, InputError, VersionConflictError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.store import Capability, InMemoryStore, Observer, Store
from memoranda_testing.case import Cases, add_texts, needs, note
from memoranda_testing.expect import ExpectationError, SkipCase, contents, equal, raises, that


def record_of(branch: str, user_id: str | None, parent: str, at: str, **fields: Any) -> BranchMemory:
    """Return a record that did not come from fork()."""
    metadata = fields.pop("metadata", MemoryMetadata(user_id=user_id, session_id=branch))
    return BranchMemory(id=branch, metadata=metadata, archived_by=branch, parent=parent, at=at, **fields)


async def copied(
    store: Store, asked: MemoryMetadata | None = None, *, deleted: bool = False, **filters: Any
) -> InMemoryStore:
    """Return a copy of what a store holds, made with public methods."""
    target = InMemoryStore()
    async for item in store.scan(metadata=asked, include_deleted=deleted, order="added", **filters):
        hidden = deleted and await store.get(item.id) is None
        if isinstance(item, BranchMemory):
            await target.fork(item.parent, at=item.at, record=item, deleted=hidden)
        else:
            await target.add_many([item], deleted=[item.id] if hidden else [])
    return target


async def shown(store: Store, session: str, **scope: Any) -> list[str]:
    """Return what a session shows."""
    return contents(await store.window(metadata=MemoryMetadata(session_id=session, **scope)))


async def _same_in_copies(store: Store, asked: MemoryMetadata, sessions: Sequence[str]) -> None:
    copy = await copied(store, asked)
    copy_of_copy = await copied(copy)
    for session in sessions:
        wanted = await shown(store, session)
        equal(await shown(copy, session), wanted, "a session in the copy")
        equal(await shown(copy_of_copy, session), wanted, "a session in the copy of the copy")


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
    async def test_copies_of_branches_are_branches(self, store: Store) -> None:
        """What is scanned and forked again elsewhere shows the same, branch by branch, with ids and times."""
        scope = self.scope(session_id="s")
        items = await add_texts(store, scope, "a", "b", "c")
        branch = await store.fork("s", at=items[1].id)
        own = await add_texts(store, MemoryMetadata(user_id=scope.user_id, session_id=branch), "x", "y")
        nested, early = await store.fork(branch, at=own[0].id), await store.fork(branch, at=items[0].id)
        await add_texts(store, MemoryMetadata(user_id=scope.user_id, session_id=nested), "z")
        sessions = ("s", branch, nested, early)
        whole = MemoryMetadata(user_id=scope.user_id)
        await _same_in_copies(store, whole, sessions)
        for session in sessions:
            await _same_in_copies(store, MemoryMetadata(session_id=session), (session,))
        record, there = await store.get(nested), await (await copied(store, whole)).get(nested)
        assert record is not None
        assert there is not None
        equal((there.created_at, there.metadata), (record.created_at, record.metadata), "the record in the copy")
        await store.apply(deletes=[branch])
        await _same_in_copies(store, whole, sessions)
        for gone in (own[0].id, items[1].id, items[0].id):
            await store.apply(deletes=[gone])
            await _same_in_copies(store, whole, sessions)
            if Capability.DELETE in store.capabilities:
                back = await copied(store, whole, deleted=True)
                for place in (store, back):
                    await place.restore(metadata=whole)
                for session in sessions:
                    wanted = await shown(store, session, user_id=scope.user_id)
                    equal(await shown(back, session, user_id=scope.user_id), wanted, "a copy with deleted items")
                await store.apply(deletes=[gone, branch])

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


_HISTORIES = 40

Step = tuple[str, int, int, int]
"""What is done, in which session, to which of its items, and for a new one the second of its time."""


_ACTS = ("say", "say", "say", "fork", "fork", "delete", "purge", "bring back", "clear", "end", "bring back", "replace")
_NEEDED = {"purge": Capability.PURGE, "end": Capability.PURGE, "bring back": Capability.DELETE}


def _steps(random: Random, capabilities: frozenset[Capability]) -> list[Step]:
    acts = [act for act in _ACTS if act not in _NEEDED or _NEEDED[act] in capabilities]
    length = random.randint(4, 18)
    return [
        (random.choice(acts), random.randint(0, 5), random.randint(0, 9), random.randint(0, 99)) for _ in range(length)
    ]


@dataclass
class _Model:
    """Sessions as plain lists: which items belong to which session, and which of them branches share."""

    sessions: list[str] = field(default_factory=lambda: ["s", "t"])
    order: list[str] = field(default_factory=list)
    """All ids, in the order of adding; purged ones are out."""
    owner: dict[str, str] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    pasts: dict[str, list[str]] = field(default_factory=dict)
    """What the branches share, hidden or not; one whose record is hidden is among the hidden, too."""

    def whole(self, session: str) -> list[str]:
        """Return what a session shows, hidden items included."""
        past = [] if session in self.hidden else self.pasts.get(session, [])
        return [each for each in self.order if each in past or self.owner[each] == session]

    def shown(self, session: str) -> list[str]:
        """Return what a session shows."""
        return [each for each in self.whole(session) if each not in self.hidden]

    def own(self, session: str) -> list[str]:
        """Return what belongs to a session, hidden or not."""
        return [each for each in self.order if self.owner[each] == session]

    def remove(self, ids: Sequence[str], *, hides: bool) -> None:
        """Hide items and records, or remove them for good where nothing is hidden."""
        if hides:
            self.hidden.update(ids)
        else:
            self.purge(ids)
            for each in ids:
                self.pasts.pop(each, None)

    def purge(self, ids: Sequence[str]) -> None:
        """Remove ids."""
        self.order = [each for each in self.order if each not in ids]


class BranchHistoryCases(Cases):
    """Random histories of sessions that are forked, compared with lists."""

    @needs(Capability.FORK)
    async def test_random_forks_show_what_lists_would(self, store: Store) -> None:
        """However sessions are forked, added to with any times, cleared, purged and restored; and so do copies."""
        for number in range(_HISTORIES):
            steps = _steps(Random(f"{self.seed}/forks/{number}"), store.capabilities)
            try:
                await _play(store, self.scope(), steps)
            except ExpectationError as error:
                raise await self._shortest(store, steps, error) from error

    async def _shortest(self, store: Store, steps: list[Step], error: ExpectationError) -> ExpectationError:
        """Remove every step that the failure does not need, and return the error of the rest."""
        position = 0
        while position < len(steps):
            fewer = [*steps[:position], *steps[position + 1 :]]
            try:
                await _play(store, self.scope(), fewer)
                position += 1
            except ExpectationError as found:
                steps, error = fewer, found
        return error


async def _play(store: Store, scope: MemoryMetadata, steps: Sequence[Step]) -> None:
    model = _Model()
    names = {"s": f"{scope.user_id}-s", "t": f"{scope.user_id}-t"}
    for number, step in enumerate(steps):
        await _do(store, step, str(number), scope, model, names)
        await _compare(store, scope, model, names, f"after step {number} of {steps}")
    await _compare_reads(store, scope, model, names, f"after {steps}")
    user = MemoryMetadata(user_id=scope.user_id)
    await _compare(await copied(store, user), scope, model, names, f"in a copy after {steps}")
    if Capability.DELETE not in store.capabilities:
        return
    everything = await copied(store, user, deleted=True)
    await everything.restore(metadata=user)
    await store.restore(metadata=user)
    model.hidden.clear()
    await _compare(store, scope, model, names, f"after all was brought back that {steps} left")
    await _compare(everything, scope, model, names, f"in a copy of all that {steps} left, brought back")


async def _compare(store: Store, scope: MemoryMetadata, model: _Model, names: dict[str, str], when: str) -> None:
    for session in model.sessions:
        asked = MemoryMetadata(user_id=scope.user_id, session_id=names[session])
        found = contents(await store.search(metadata=asked, order="added", limit=100, mode="substring"))[::-1]
        equal(found, model.shown(session), f"the session {session!r} {when}")


async def _compare_reads(store: Store, scope: MemoryMetadata, model: _Model, names: dict[str, str], when: str) -> None:
    hides = Capability.DELETE in store.capabilities
    for session in model.sessions:
        asked = MemoryMetadata(user_id=scope.user_id, session_id=names[session])
        wanted, record = model.shown(session), session in model.pasts and session not in model.hidden
        scanned = [item async for item in store.scan(metadata=asked, archived=False, order="added")]
        found = {
            "window": contents(await store.window(metadata=asked)),
            "payloads": [payload.content for payload in await store.payloads(metadata=asked)],
            "scan": contents(scanned),
        }
        for name, shows in found.items():
            equal(shows, wanted, f"{name} of the session {session!r} {when}")
        equal(await store.count(metadata=asked), len(wanted) + record, f"count of the session {session!r} {when}")
        if hides and session not in model.hidden:
            number = await store.count(metadata=asked, include_deleted=True)
            equal(number, len(model.whole(session)) + record, f"count of all of the session {session!r} {when}")


async def _do(
    store: Store, step: Step, content: str, scope: MemoryMetadata, model: _Model, names: dict[str, str]
) -> None:
    act, position, place, second = step
    hides = Capability.DELETE in store.capabilities
    session = model.sessions[position % len(model.sessions)]
    there = MemoryMetadata(user_id=scope.user_id, session_id=names[session])
    shown = model.shown(session)
    if act == "say" or (act in ("fork", "delete", "purge", "replace") and not shown):
        await store.add(note(content, there, second, id=f"{scope.user_id}-{content}"))
        model.order.append(content)
        model.owner[content] = session
        return
    chosen = shown[place % len(shown)] if shown else ""
    item_id = f"{scope.user_id}-{chosen}"
    if act == "fork":
        branch = f"branch {content}"
        names[branch] = await store.fork(names[session], at=item_id)
        whole = model.whole(session)
        model.pasts[branch] = whole[: whole.index(chosen) + 1]
        model.sessions.append(branch)
    elif act == "delete":
        await store.apply(deletes=[item_id])
        model.remove([chosen], hides=hides)
    elif act == "purge":
        await store.purge(item_id)
        model.purge([chosen])
    elif act == "replace":
        there = MemoryMetadata(user_id=scope.user_id, session_id=names[model.owner[chosen]])
        await store.add(note(chosen, there, second, id=item_id))
    elif act == "clear":
        record = session in model.pasts and session not in model.hidden
        gone = [each for each in model.own(session) if each not in model.hidden]
        equal(await store.clear(metadata=there), len(gone) + record, f"number that a clear of {session!r} tells")
        model.remove([*gone, *([session] if record else [])], hides=hides)
    elif act == "end":
        record, gone = session in model.pasts, model.own(session)
        equal(await store.purge(metadata=there), len(gone) + record, f"number that a purge of {session!r} tells")
        model.purge(gone)
        model.pasts.pop(session, None)
    else:
        await store.restore(metadata=there)
        model.hidden.difference_update([*model.own(session), session])
