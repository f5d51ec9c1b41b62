"""Branches: sessions that share the past of another without copying it."""

from __future__ import annotations

import itertools
from typing import Any

from memoranda.errors import IdConflictError, VersionConflictError
from memoranda.items import BranchMemory, MemoryMetadata, SummaryMemory
from memoranda.store import Capability, InMemoryStore, Store
from memoranda_testing.case import add_texts, moment, needs
from memoranda_testing.expect import SkipCase, contents, equal, raises
from memoranda_testing.model.afresh import copy_into
from memoranda_testing.model.steps import BRANCH, Call, Moved
from memoranda_testing.programs import Calls, HistoryCases, Program, item, items, mine, played, theirs

_FILTERS: dict[str, dict[str, Any]] = {
    "type": {"memory_type": "note"},
    "status": {"status": "draft"},
    "extra": {"where": {"extra.k": 1}},
    "since": {"since": moment(3)},
    "until": {"until": moment(9)},
    "trust": {"min_trust": "user"},
}
_FORKING = (
    *("add", "add", "add_many", "add_many", *["fork"] * 5, "apply", "apply", "purge", "clear"),
    *("restore", "restore", "delete", "update_many"),
)
_BRANCH = f"{BRANCH}1"
_HERE, _THERE = mine(session_id="s"), mine(session_id=_BRANCH)


def forked(store: Calls, session: str, at: str, branch: str = _BRANCH) -> Call:
    """Return a call that forks a session under a name that the program knows."""
    metadata = MemoryMetadata(session_id=branch)
    record = BranchMemory(id=branch, metadata=metadata, archived_by=branch, created_at=moment(0))
    return store.fork(session, at=at, record=record)


def looks(store: Calls) -> Program:
    """Yield reads of the session and of its branch by the methods that show a session."""
    for there in (_HERE, _THERE):
        yield from (store.window(metadata=there), store.payloads(metadata=there), store.count(metadata=there))
        yield from (store.search(metadata=there, limit=100, order=order) for order in ("created", "added"))
        yield store.scan(metadata=there, archived=False, order="added")


def readings(store: Calls, asked: MemoryMetadata, filters: dict[str, Any], turn: int) -> Program:
    """Yield reads of a session by every method that takes these filters, and in every order by turns."""
    orders = ("created", "updated", "added")
    for number, order in enumerate(orders):
        search: dict[str, Any] = {"metadata": asked, "order": order, "mode": "substring", "limit": 50, **filters}
        yield store.search(**search)
        yield (
            store.search(query="TEA", **search),
            store.search(**{**search, "limit": 3, "offset": 2}),
            store.scan(metadata=asked, archived=False, order=order, **filters),
        )[(number + turn) % len(orders)]
    yield store.search_ranked(query="tea 4 milk 7", metadata=asked, mode="text", limit=50, **filters)
    if not filters:
        yield store.owners("task_id", within=asked)
        yield store.owners("namespace", within=asked, counts=False)
    if "status" not in filters:
        yield store.payloads(metadata=asked, limit=50, **filters)
    if not filters.keys() & {"status", "memory_type"}:
        yield store.window(metadata=asked, **filters)


class BranchCases(HistoryCases):
    """fork: a new session that continues another from any item."""

    @needs(Capability.FORK)
    @played
    def test_a_branch_reads_like_a_session_that_holds_all_of_it(self, store: Calls) -> Program:
        """By every filter and in every order, as deep as it may be, with items whose times go back and forth."""
        session = "s"
        for number in range(24):
            own = {"extra": {"k": number % 3}, "task_id": "t" if number % 5 else None, "namespace": ("a", str(number))}
            fields: dict[str, Any] = {
                "memory_type": ("note", "diary")[number // 4 % 2],
                "status": ("accepted", "draft")[number // 2 % 2],
                "trust": ("user", "external", None)[number % 3],
                "payload": f"payload {number}" if number % 4 else None,
                "payload_format": "test" if number % 4 else None,
            }
            text = f"{('tea', 'milk')[number % 2]} {number}"
            yield store.add(item(text, number // 2 ^ 5, mine(session_id=session, **own), id=f"{number}", **fields))
            if number % 3 == 2:
                branch = f"{BRANCH}{number}"
                yield forked(store, session, f"{number}", branch)
                session = branch
        chosen = [names for count in (0, 1, 2) for names in itertools.combinations(_FILTERS, count)]
        for turn, names in enumerate(chosen):
            filters = {key: value for name in names for key, value in _FILTERS[name].items()}
            yield from readings(store, mine(session_id=session), filters, turn)

    @needs(Capability.FORK)
    @played
    def test_many_changes_do_not_move_the_end_of_a_past(self, store: Calls) -> Program:
        """However often a store has tidied up since, a branch shares what it shared when it was made."""
        yield from (store.add(item(text, metadata=_HERE)) for text in "vwxyzabc")
        yield from (store.apply(deletes=list("vwxyz"), purge=True), store.apply(deletes=list("vwxyz")))
        yield forked(store, "s", "a")
        for number in range(100 if self.is_brief else 1_100):
            yield store.add(item(f"{number}", metadata=theirs(), id="changed"))
        yield from looks(store)

    @needs(Capability.FORK)
    @played
    def test_a_summary_that_is_gone_hides_nothing_from_a_branch(self, store: Calls) -> Program:
        """What a summary stood for is shown again by a branch that shares both, once the summary is removed."""
        yield store.add_many([*items("a", "b", metadata=_HERE), SummaryMemory(id="s", content="both", metadata=_HERE)])
        yield store.add_many(items("a", "b", metadata=_HERE, archived_by="s"))
        yield from (forked(store, "s", "s"), *looks(store), store.apply(deletes=["s"]), *looks(store))

    @needs(Capability.FORK)
    @played
    def test_a_summary_on_one_side_hides_nothing_on_the_other(self, store: Calls) -> Program:
        """What a session archives after a fork is still shown by the branch, and its summary is not, gone or not."""
        yield from (store.add_many(items(*"abc", metadata=_HERE)), forked(store, "s", "b"))
        yield store.add(SummaryMemory(id="all", content="all of it", metadata=_HERE))
        yield store.add_many(items(*"abc", metadata=_HERE, archived_by="all"))
        yield from (*looks(store), forked(store, "s", "all", f"{BRANCH}2"))
        yield store.window(metadata=mine(session_id=f"{BRANCH}2"))
        yield from (store.apply(deletes=["all"]), *looks(store))

    @needs(Capability.FORK, Capability.TTL)
    @played
    def test_an_expired_fork_point_still_bounds_the_past(self, store: Calls) -> Program:
        """What has expired is as if it had been purged."""
        yield from (store.add(item("a", metadata=_HERE)), store.add(item("soon gone", metadata=_HERE), ttl=600.0))
        yield from (forked(store, "s", "soon gone"), Moved(601), store.add(item("b", metadata=_HERE)), *looks(store))
        yield from (store.sweep(), store.add(item("c", metadata=_HERE)), *looks(store))

    @needs(Capability.FORK)
    async def test_a_record_that_is_there_stays_as_it_is(self, store: Store) -> None:
        """Forking the same branch again changes nothing; another branch of this id is a conflict."""
        mine, theirs = self.scope(session_id="s"), self.scope(session_id="s")
        items = await add_texts(store, mine, "a", "b", "c")
        (other,) = await add_texts(store, theirs, "x")
        branch = await store.fork("s", at=items[1].id)
        held = MemoryMetadata(session_id=branch)
        (record,) = [item async for item in store.scan(metadata=held, memory_type="branch")]
        assert isinstance(record, BranchMemory)
        for _ in range(2):
            equal(await store.fork(record.parent, at=record.at, record=record), branch, "the branch, forked again")
        stored = await store.get(branch)
        equal(stored and stored.version, 1, "version of the record")
        with raises(VersionConflictError, "a branch of the same id with another past"):
            await store.fork("s", at=items[0].id, record=record)
        foreign = record.model_copy(update={"metadata": MemoryMetadata(user_id=theirs.user_id, session_id=branch)})
        with raises(IdConflictError, "a branch of another user's id"):
            await store.fork("s", at=other.id, record=foreign)
        equal(contents(await store.window(metadata=held)), ["a", "b"], "the branch")

    async def test_a_store_that_cannot_fork_keeps_records(self, store: Store) -> None:
        """They come and go with copies, and show nothing."""
        if Capability.FORK in store.capabilities:
            raise SkipCase("the store declares the capability 'fork'")
        scope, source = self.scope(session_id="s"), InMemoryStore()
        items = await add_texts(source, scope, "a", "b")
        there = MemoryMetadata(user_id=scope.user_id, session_id=await source.fork("s", at=items[0].id))
        for origin, target, wanted in ((source, store, list[str]()), (store, InMemoryStore(), ["a"])):
            await copy_into(target, origin, MemoryMetadata(user_id=scope.user_id))
            equal(contents(await target.window(metadata=there)), wanted, "the branch")

    @needs(Capability.FORK)
    async def test_random_forks_show_what_lists_would(self, store: Store) -> None:
        """However sessions are forked, added to with any times, cleared, purged and restored; and so do copies."""
        options = self._history_options(store, writes=_FORKING, copies=True, together=False)
        await self._play_histories(self._sandbox(store), options, "forks", histories=self._often(20), length=20)
