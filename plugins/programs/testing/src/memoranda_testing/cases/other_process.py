"""What a persistent store is to other processes, and what it is where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memoranda.errors import StoreNotFoundError
from memoranda.items import MemoryItem
from memoranda.store import Capability, Store
from memoranda_testing.case import Cases, Reopen, needs, note, required
from memoranda_testing.expect import SkipCase, equal, raises, that, within
from memoranda_testing.model.outside import Outside
from memoranda_testing.model.recipe import Recipe, made_by, recipe_of, sendable
from memoranda_testing.model.steps import Call

_HELD_AT = (1, 2, 3, 5, 8)
"""At which of its awaits a write of the other process stops."""


class OtherProcessCases(Cases):
    """A persistent store keeps its data where other processes find them."""

    @asynccontextmanager
    async def _another_process(self, store: Store, reopen: Reopen | None) -> AsyncIterator[Outside]:
        if not self.any_loop:
            raise SkipCase("the store is made on something that belongs to this process")
        outside = await Outside.begin(await sendable(required(reopen), type(store)))
        try:
            yield outside
        finally:
            await outside.end()

    @needs(Capability.PERSISTENT)
    async def test_another_process_sees_what_is_stored(self, store: Store, reopen: Reopen | None) -> None:
        """A process that opens the same data finds what was acknowledged, and not what was removed."""
        scope = self.scope(session_id="s")
        kept, gone = note("kept", scope, 1), note("gone", scope, 2)
        await store.add_many([kept, gone])
        await store.apply(deletes=[gone.id], purge=Capability.PURGE in store.capabilities)
        async with self._another_process(store, reopen) as another:
            seen = {item.id: item for item in await another.look(metadata=scope, patience=self.patience)}
            that(
                kept.id in seen,
                "Another process that opens the same data does not find what was stored. Data that lie in one process "
                "are not 'persistent'.",
            )
            equal(seen[kept.id].content, "kept", "what another process reads")
            if Capability.PURGE in store.capabilities:
                that(gone.id not in seen, "Another process finds what was purged.")
            await self._beside_a_held_call(store, another, [Call("add", {"item": note("theirs", scope, 3)})], 1)
            equal(await store.count(metadata=scope), 2, "count after another process has added an item")

    @needs(Capability.PERSISTENT)
    async def test_two_processes_write_at_once(self, store: Store, reopen: Reopen | None) -> None:
        """A write is done beside one of another process that is half done, and of two updates of a version one is."""
        scope = self.scope(session_id="s")
        counter = note("0", scope)
        await store.add(counter)
        async with self._another_process(store, reopen) as another:
            for version, at in enumerate(_HELD_AT, 1):
                theirs = [note(f"theirs {at} {number}", scope, number) for number in range(20)]
                mine = note(f"mine {at}", scope, 30)
                calls = [Call("add_many", {"items": theirs}), Call("add", {"item": mine})]
                equal(
                    await self._beside_a_held_call(store, another, calls, at),
                    ["", ""],
                    "the errors of two processes that add",
                )
                ids = [item.id for item in (*theirs, mine)]
                found = await store.get_many(ids)
                equal([item.id for item in found], ids, "what two processes have added at once")
                if Capability.ATOMIC in store.capabilities:
                    await self._update_at_once(store, another, counter, version, at)

    async def _update_at_once(self, store: Store, another: Outside, counter: MemoryItem, version: int, at: int) -> None:
        """Let two processes update the same version."""
        updates = [
            Call("update", {"item": counter.model_copy(update={"content": whose, "version": version})})
            for whose in ("theirs", "mine")
        ]
        errors = await self._beside_a_held_call(store, another, updates, at)
        equal(sorted(errors), ["", "VersionConflictError"], "the errors of two processes that update one version")
        found = await store.get(counter.id)
        assert found is not None
        equal((found.content, found.version), (("theirs", "mine")[errors.index("")], version + 1), "what was updated")

    async def _beside_a_held_call(self, store: Store, another: Outside, calls: list[Call], at: int) -> list[str]:
        """Make the second call while the other process is in the middle of the first; return what each has raised."""
        await another.hold(calls[0], at, self.patience)
        writing = [asyncio.ensure_future(_raised(store, call)) for call in calls[1:]]
        if writing:
            await asyncio.wait(writing, timeout=0.3)  # It may have to wait for the other one.
        theirs = await another.outcome(self.patience)
        async with within(self.patience, "A write beside one of another process"):
            return [theirs, *await asyncio.gather(*writing)]

    @needs(Capability.PERSISTENT)
    async def test_asking_for_a_store_that_is_not_there_makes_nothing(
        self, store: Store, reopen: Reopen | None
    ) -> None:
        """Neither exists() nor opening a store to read or change it makes one; the latter raises StoreNotFoundError."""
        await store.add(note("tea", self.scope()))  # What writes late has made its file by now.
        recipe = recipe_of(await made_by(required(reopen), type(store)))
        made = None if recipe is None else recipe.absent()
        if made is None:
            raise SkipCase("no argument of the store names a file, so the kit cannot name one that is not there")
        absent, path = made
        before = sorted(path.parent.iterdir())
        await self._is_not_there(absent, "before anything was opened")
        for access in ("read", "change"):
            refused = absent()
            refused.access = access
            with raises(StoreNotFoundError, f"init() with access={access!r} where there is no store"):
                await refused.init()
            await self._is_not_there(absent, f"after it was to be opened with access={access!r}")
        equal(sorted(path.parent.iterdir()), before, "the files beside it, after it was only asked for")

    async def _is_not_there(self, absent: Recipe, when: str) -> None:
        that(not await absent().exists(), f"exists() says that there is a store, and there is none, {when}.")


async def _raised(store: Store, call: Call) -> str:
    """Make the call, and return the name of the error that it raises, or nothing."""
    try:
        await getattr(store, call.method)(**call.arguments)
    except Exception as error:  # noqa: BLE001  # it is the result
        return type(error).__name__
    return ""
