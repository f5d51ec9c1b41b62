"""Random histories compared with a model of the contract, beside the cases that are examples."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from random import Random
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import BaseStore, Capability, SearchMode
from memoranda_testing.case import Cases, Reopen, needs, note
from memoranda_testing.expect import ExpectationError, equal, that
from memoranda_testing.model import Call, Cancelled, Generator, Kinds, Many, Stage, check_histories, check_steps
from memoranda_testing.model.contract import cause, sentence
from memoranda_testing.model.histories import told
from memoranda_testing.model.leftovers import held, left_since
from memoranda_testing.model.playing import Player, modelled
from memoranda_testing.model.sizes import HUGE, LARGE, QUICK, large_steps, size_steps
from memoranda_testing.model.steps import Step

_CANCELLED = ("add", "pop", "get", "search", "search_ranked", "scan", "count", "owners", "window")
_CANCELLED_WHOLE = ("add_many", "append", "apply", "update", "update_many")
_AWAITS = 60
"""How many awaits of a call are tried; more than any store of ours has."""

_PLAIN = ("item", "items", "adds", "item_id", "after", "query", "mode", "by")
"""The arguments that make a call what it is."""

_WORDS = ("tea", "milk", "kettle", "saffron", "telescope", "winter", "bicycle", "lemon")


class ModelCases(Cases):
    """Random histories of every method, whose every answer is that of a plain model of the contract."""

    def stage(self, store: BaseStore, reopen: Reopen | None = None, *, instances: int = 1) -> Stage:
        """Return where this case plays its histories."""
        stage = Stage(store, self.exclusive, self.fresh, reopen, self.patience, instances)
        if stage.mark:
            self.owned(MemoryMetadata(namespace=(stage.mark,)))
        return stage

    @property
    def seconds(self) -> float:
        """After how long a case ends before it has seen everything, on an engine that is slow beyond measure."""
        return 600.0 if self.thorough else 60.0

    async def _play(self, stage: Stage, kinds: Kinds, topic: str) -> None:
        """Play histories, and say what there was no time for or no way to."""
        # A number of histories, since what is seen in so many seconds is not the same every time.
        persistent = Capability.PERSISTENT in stage.store.capabilities
        histories, length = 10 if persistent else 30, 30
        if self.thorough:
            histories, length = 50 if persistent else 200, 60
        try:
            played = await check_histories(
                stage, kinds, seed=self.seed, histories=histories, length=length, seconds=self.seconds, topic=topic
            )
        finally:
            for mark in stage.marks:
                self.owned(MemoryMetadata(namespace=(mark,)))
        if played < histories:
            self.unreached(f"{histories - played} of {histories} histories, for want of time")
        if stage.mark:
            self.unreached("calls without any filter: others may have memories in this store")
        if kinds.lifetimes and not kinds.moves_clock:
            self.unreached("a clock that is moved: memories of others would expire by it")
        if not self.thorough:
            self.unreached("longer and more histories: see thorough")

    def _kinds(self, store: BaseStore, **further: bool | int) -> Kinds:
        return Kinds(substring_is_default=store.default_mode == "substring", **further)  # type: ignore[arg-type]

    async def test_random_histories_match_the_model(self, store: BaseStore) -> None:
        """Every answer to random calls of every method, plain and through handles of every scope, is the model's."""
        for capability in (Capability.ATOMIC, Capability.DELETE, Capability.ADD_DELETED, Capability.PURGE):
            if capability not in store.capabilities:
                self.unreached(f"what needs the capability {capability.value!r}")
        await self._play(self.stage(store), self._kinds(store), "calls")

    @needs(Capability.TTL)
    async def test_random_lifetimes_match_the_model(self, store: BaseStore) -> None:
        """With items that expire, by a clock that goes forward and back, every answer is the model's."""
        stage = self.stage(store)
        kinds = self._kinds(
            store, lifetimes=True, moves_clock=stage.moves_clock, clock_goes_back=stage.moves_clock, together=False
        )
        await self._play(stage, kinds, "lifetimes")

    @needs(Capability.PERSISTENT)
    async def test_random_histories_outlive_the_store(self, store: BaseStore, reopen: Reopen | None) -> None:
        """With two stores on the same data, one of which is closed and opened again, every answer is the model's."""
        that(reopen is not None, "The store declares 'persistent': the test class must offer 'reopen' to prove it.")
        stage = self.stage(store, reopen, instances=2)
        kinds = self._kinds(
            store,
            instances=2,
            reopening=True,
            lifetimes=Capability.TTL in store.capabilities,
            moves_clock=stage.moves_clock,
        )
        await self._play(stage, kinds, "reopening")

    async def test_a_call_that_is_cancelled_at_any_await_is_done_or_not(self, store: BaseStore) -> None:
        """Cancelled at its first, second, … await, a call is done as a whole or not at all, and locks nothing."""
        methods: tuple[str, ...] = _CANCELLED
        if Capability.ATOMIC in store.capabilities:
            methods += _CANCELLED_WHOLE
        else:
            self.unreached("batches that are cancelled: the store does not declare the capability 'atomic'")
        if Capability.DELETE in store.capabilities:
            methods += ("delete",)
        ends = time.monotonic() + self.seconds
        stage, kinds = self.stage(store), self._kinds(store, together=False)
        for variant, method in itertools.product(range(4 if self.thorough else 1), methods):
            for at in range(1, _AWAITS):
                if time.monotonic() >= ends:
                    self.unreached(f"{method} and what follows, for want of time")
                    return
                if not await self._cancelled(stage, kinds, method, variant, at):
                    break

    async def _cancelled(self, stage: Stage, kinds: Kinds, method: str, variant: int, at: int) -> bool:
        """Play a short history with a call that is cancelled, and return whether it waited that often."""
        player = await stage.set()
        random = Random(f"{self.seed}/{method}/{variant}")
        generator = Generator(random, stage.store.capabilities, kinds, stage.mark)
        failure = None
        try:
            steps = 0
            while failure is None and steps < 10:
                failure = await player.play(generator.step(player.model))
                steps += 1
            if failure is None:
                call = _longer(generator, method, player, plain=variant == 0)
                failure = await player.play(Cancelled(call, at))
            followed_by = [
                *generator.audits(),
                Call("add", {"item": generator.item(player.model)}),
                *generator.audits(),
            ]
            for step in followed_by:
                failure = failure or await player.play(step)
            waited = player.waits >= at
        finally:
            await stage.strike(player)
        if failure is not None:
            raise ExpectationError(await told(failure, stage, f"the seed {self.seed}, {method}() cancelled"))
        return waited

    async def test_sizes_match_the_model(self, store: BaseStore) -> None:
        """Pages, batches and lists beyond 100, 400, 500, 1,000, 5,000 and 10,000 items are the model's."""
        ends = time.monotonic() + self.seconds
        stage = self.stage(store)
        held_by = store.capabilities
        steps: list[tuple[int, list[Step]]] = [
            (QUICK, list(size_steps(QUICK, stage.mark, held_by))),
            (HUGE, list(large_steps(HUGE, stage.mark, held_by))),
        ]
        if self.thorough:
            steps += [(size, list(size_steps(size, stage.mark, held_by))) for size in (LARGE, HUGE)]
        for size, wanted in steps:
            if size != QUICK and time.monotonic() >= ends:
                self.unreached(f"{size:,} items, for want of time")
                continue
            await check_steps(stage, wanted, f"{size:,} items")

    async def test_answers_depend_on_their_scope_alone(self, store: BaseStore) -> None:
        """Whatever others add, hide or remove changes no answer, order or score, in every mode that is declared."""
        modes: list[SearchMode] = ["text"]
        for mode, capability in (("semantic", Capability.SEMANTIC), ("hybrid", Capability.HYBRID)):
            if capability in store.capabilities:
                modes.append(mode)  # type: ignore[arg-type]  # one of the modes, as the line above says
            else:
                self.unreached(f"rankings of the mode {mode!r}, which the store does not declare")
        for number in range(20 if self.thorough else 3):
            await self._apart(store, modes, Random(f"{self.seed}/apart/{number}"))

    async def _apart(self, store: BaseStore, modes: list[SearchMode], random: Random) -> None:
        """Play one history alone, the same again among others, and store what came of it afresh: all answer alike."""
        history = _history(random)
        quiet, loud, afresh = (self.scope(session_id="s") for _ in range(3))
        alone = await self._answers(store, history, quiet, modes)
        others = [self.scope(session_id="s"), MemoryMetadata(user_id=loud.user_id, session_id="other"), self.scope()]
        among = await self._answers(store, history, loud, modes, others)
        for step, (one, other) in enumerate(zip(alone, among, strict=True)):
            equal(other, one, f"answers in a scope after step {step} of its history, with others at work beside it")
        items = [item async for item in store.scan(metadata=loud, order="added")]
        for item in items:
            held: dict[str, Any] = {"created_at": item.created_at, "archived_by": item.archived_by}
            copied = note(item.content, afresh, id=_own(item, afresh), **held)
            await store.add(copied)
        found = await self._asked(store, afresh, modes)
        equal(among[-1], found, "answers of a scope with a history, and of the same memories stored afresh")

    async def _answers(
        self,
        store: BaseStore,
        history: list[tuple[str, int, str]],
        scope: MemoryMetadata,
        modes: list[SearchMode],
        others: list[MemoryMetadata] | None = None,
    ) -> list[list[object]]:
        answers = []
        for position, (what, number, content) in enumerate(history):
            item = note(content, scope, number, id=f"{scope.user_id}/{number:02}")
            if what == "add":
                await store.add(item)
            elif what == "clear":
                await store.clear(metadata=scope, where={"id": item.id})
            elif what == "archive":
                await store.add(item.model_copy(update={"archived_by": "s"}))
            if others:
                crowd = others[position % len(others)]
                neighbour = note(f"{content} {content} tea", crowd, number, id=f"{scope.user_id}/{position}/theirs")
                await store.add_many([neighbour, note("saffron", crowd, id=f"{neighbour.id}2")])
                if position % 4 == 3:
                    await store.clear(metadata=crowd)
            answers.append(await self._asked(store, scope, modes))
        return answers

    async def _asked(self, store: BaseStore, scope: MemoryMetadata, modes: list[SearchMode]) -> list[object]:
        handle = store.scoped(user_id=str(scope.user_id), session_id="s")
        found: list[object] = [
            [_number(item) for item in await store.search(metadata=scope, limit=100)],
            [_number(item) for item in await handle.window(rounds=3)],
            await handle.count(where={"content": {"$exists": True}}),
        ]
        for mode in modes:
            for query in ("tea with milk", "telescope"):
                ranked = await handle.search_ranked(query=query, mode=mode, limit=5)
                scores = [(round(each.score, 6), _number(each.item), each.item.content) for each in ranked]
                found.append(sorted(scores, reverse=True))
        return found

    async def test_nothing_of_the_store_is_left_after_close(self, store: BaseStore) -> None:
        """After close() no thread, task, file or socket of the store is left."""
        await self._used(store)  # What is made once and shared, such as the loop's threads, is there from here on.
        before = held()
        await self._used(store)
        left = await left_since(before, min(self.patience, 5.0))
        that(
            not left,
            f"After close() these are left: {', '.join(left)}.\nThe contract, {sentence('close', 'left')}\n"
            f"What usually causes it: {cause(None, 'left')}.",
        )
        await store.init()

    async def _used(self, store: BaseStore) -> None:
        """Open the store, use it as most people do, and close it."""
        await store.init()
        scope = self.scope(session_id="s")
        await store.add_many(Many(f"{scope.user_id}/", 30, scope).items())
        await store.search(metadata=scope, query="tea", mode="text")
        async for _ in store.scan(metadata=scope):
            break
        await store.count(metadata=scope)
        await store.clear(metadata=scope)
        await store.close()


def _longer(generator: Generator, method: str, player: Player, *, plain: bool) -> Call:
    """Return a call that has something to do, to several items where it takes them, if one can be drawn."""
    call = generator.call_of(method, player.model)
    for _ in range(60):
        call = generator.call_of(method, player.model)
        if plain:  # Without what may lead it another way.
            call = replace(call, arguments={name: call.arguments[name] for name in _PLAIN if name in call.arguments})
        items = call.arguments.get("items", call.arguments.get("adds"))
        several = items is None or len({item.id for item in items}) > 1
        if several and not modelled(player.model.copy(), call).errors:
            break
    return call


def _history(random: Random) -> list[tuple[str, int, str]]:
    """Return what is added, replaced, archived and removed in a scope, by number."""
    history = []
    for _ in range(12):
        what = random.choice(("add", "add", "add", "add", "clear", "archive"))
        content = " ".join(random.choice(_WORDS) for _ in range(random.randint(1, 5)))
        history.append((what, random.randrange(6), content))
    return history


def _number(item: MemoryItem) -> str:
    return item.id.rpartition("/")[2]


def _own(item: MemoryItem, scope: MemoryMetadata) -> str:
    return f"{scope.user_id}/{_number(item)}"
