"""Random histories, compared with a model of the contract."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from memoranda.store import Capability, Order, SearchMode, Store
from memoranda_testing.case import Reopen, needs, note, required
from memoranda_testing.expect import ExpectationError, SkipCase, that
from memoranda_testing.model import (
    Call,
    Cancelled,
    Generator,
    HistoryOptions,
    Outside,
    Sandbox,
    check_steps,
    leaks,
)
from memoranda_testing.model.alike_steps import alike_owners, apart, random_searches
from memoranda_testing.model.change_steps import Changes, straddling_steps
from memoranda_testing.model.combination_steps import Combinations
from memoranda_testing.model.histories import failed
from memoranda_testing.model.lifetime_steps import first_steps_after_an_end, lifetime_steps, lonely_ends
from memoranda_testing.model.meaning_steps import QUERIES, Meanings, meaning_difference
from memoranda_testing.model.player import Player, modelled
from memoranda_testing.model.program import call_text
from memoranda_testing.model.recipe import sendable
from memoranda_testing.model.sandbox import lowered, within_bounds
from memoranda_testing.model.size_steps import HUGE, LARGE, QUICK, large_steps, size_steps
from memoranda_testing.model.state_steps import By, States
from memoranda_testing.model.steps import RankedAfresh, Step
from memoranda_testing.programs import Calls, HistoryCases, Program, item, items, mine, played

_CANCELLED = (
    *("add", "update", "pop", "get", "get_many", "search", "search_ranked", "scan", "count", "owners"),
    *("window", "payloads", "head"),
)
_BATCHES = ("add_many", "append", "apply", "update_many")
_AWAITS = 60
"""How many awaits of a call are tried; more than any store of ours has."""

_ALIKE: tuple[dict[str, Any], ...] = (
    *({"k": [1, 2]}, {"k": [2, 1]}, {"k": [1, 2, 2]}, {"K": [1, 2]}, {"k": {"a": [1, 2]}}),
    *({"k": {"A": [1, 2]}}, {"k": {"a": [2, 1]}}, {"k": "a"}, {"K": "a"}),
)
"""Values that differ only in the order or the number of a list's elements, or in the case of a key."""

_ORDERS: tuple[Order | None, ...] = (None, "added")

_PLAIN = ("item", "items", "adds", "deletes", "item_id", "ids", "ttl", "after", "query", "mode", "by")
"""The arguments that make a call what it is."""


class IsolationCases(HistoryCases):
    """Whatever others do, a tenant sees and changes exactly what is theirs."""

    async def test_random_tenants_never_meet(self, store: Store) -> None:
        """Random calls through the handles of several users, whose ids look alike, give the model's answers."""
        options = self._history_options(store, tenants=True, together=False)
        await self._play_histories(self._sandbox(store), options, "tenants", histories=self._often(20), length=20)

    async def test_owners_that_look_alike_are_apart(self, store: Store) -> None:
        """Owners whose names differ in case, spaces, wildcards, their ends or where they are split share nothing."""
        sandbox = self._sandbox(store)
        for field, owners in alike_owners()[:: 2 if self.is_brief else 1]:
            await check_steps(sandbox, apart(sandbox.calls, field, owners), "names that look alike")

    @played
    def test_values_that_look_alike_are_apart(self, store: Calls) -> Program:
        """Lists in another order, and keys in another case, are other values of extra."""
        for number, extra in enumerate(_ALIKE):
            yield store.add(item("tea", 0, mine(extra=extra), id=f"{number}"))
        for number, extra in enumerate(_ALIKE):
            wanted, (key, value) = mine(extra=extra), next(iter(extra.items()))
            reads = (store.search, store.scan, store.count, store.payloads, store.window, store.head)
            yield from (read(metadata=wanted) for read in reads)
            yield store.search_ranked(query="tea", mode="text", metadata=wanted)
            yield store.get(f"{(number + 1) % len(_ALIKE)}", metadata=wanted)
            yield store.search(where={f"extra.{key}": value})
        yield from (store.clear(metadata=mine(extra=extra)) for extra in _ALIKE[::4])

    @played
    def test_a_limit_counts_what_matches(self, store: Calls) -> Program:
        """The only match is found with any limit, however many newer items do not match."""
        yield store.add(item("saffron"))
        yield store.add_many(items(*(f"tea {number}" for number in range(1, 221))))
        for limit in (1, 2, 5, 20):
            yield from (store.search(query="saffron", mode="substring", limit=limit, order=each) for each in _ORDERS)
            yield store.search_ranked(query="saffron", mode="text", limit=limit)

    async def test_random_filters_match_the_model(self, store: Store) -> None:
        """Random searches over random items find what Filter.matches says, in the same order."""
        sandbox = self._sandbox(store)
        for number in range(self._often(60)):
            steps = random_searches(sandbox.calls, Random(f"{self.seed}/filters/{number}"))
            await check_steps(sandbox, steps, f"the searches {number} of the seed {self.seed}")

    async def test_every_two_filters_hold_together(self, store: Store) -> None:
        """Every two filters bound every method at once, and many threes a read, as arguments and by a handle."""
        sandbox = self._sandbox(store)
        for number in range(3 if self.thorough else 1):
            drawn = Combinations(sandbox.calls, Random(f"{self.seed}/pairs/{number}"), store.capabilities)
            steps = partial(drawn.steps, share=3 if self.is_brief else 1)
            await check_steps(sandbox, steps, f"the combinations {number} of the seed {self.seed}")

    @needs(Capability.SEMANTIC)
    async def test_every_two_filters_hold_in_a_search_by_meaning(self, store: Store) -> None:
        """A search by meaning returns the best that match of the ranking of everything, whatever was changed before."""
        sandbox, share = self._sandbox(store), 3 if self.is_brief else 2
        for in_a_crowd in (False, True):
            drawn = Combinations(sandbox.calls, Random(f"{self.seed}/meaning"), store.capabilities)
            player = await sandbox.player()
            try:
                steps = drawn.steps_in_a_crowd if in_a_crowd else drawn.steps
                for written in steps(player.model, share):
                    call = lowered(written, sandbox.mark)
                    assert isinstance(call, Call)
                    if call.writes:
                        failure = await player.play(call)
                        that(failure is None, f"{call_text(call)} is not done as the contract says.")
                    elif call.method == "search_ranked":
                        ranked = replace(call, arguments={**call.arguments, "mode": "semantic"})
                        unlike = await meaning_difference(player.instances[0], player.model, ranked)
                        that(unlike is None, f"{call_text(ranked)}: {unlike}")
            finally:
                await sandbox.close(player)

    @needs(Capability.SEMANTIC)
    async def test_meaning_depends_on_what_is_stored_alone(self, store: Store) -> None:
        """Whatever was changed and however, items are ranked by meaning as if they had just been added."""
        sandbox = self._sandbox(store)
        drawn = Meanings(sandbox.calls)
        modes: list[SearchMode] = ["semantic"]
        if Capability.HYBRID in store.capabilities:
            modes.append("hybrid")
        compared, steps = RankedAfresh(drawn.owner, QUERIES, tuple(modes)), list[Step]()
        for call in drawn.steps():
            # After removals, the copies that are compared would take the places that have become free.
            steps += [call] if "deletes" in call.arguments else [call, compared]
        await check_steps(sandbox, steps, "meanings")

    async def test_batches_that_straddle_a_scope_end_at_its_bounds(self, store: Store) -> None:
        """Of a batch through a handle, what lies outside is refused or passed over, and stays as it is."""
        sandbox = self._sandbox(store)
        await check_steps(
            sandbox, straddling_steps(sandbox.calls, atomic=Capability.ATOMIC in store.capabilities), "batches"
        )

    async def test_a_few_are_found_among_many(self, store: Store) -> None:
        """A filter that a few of more than a thousand items match finds, counts and removes these few."""
        sandbox = self._sandbox(store)
        drawn = Combinations(sandbox.calls, Random(f"{self.seed}/crowd"), store.capabilities)
        steps = partial(drawn.steps_in_a_crowd, share=3 if self.is_brief else 1)
        await check_steps(sandbox, steps, f"a crowd, the seed {self.seed}")


class ModelCases(HistoryCases):
    """Random histories of every method, whose every answer is that of a plain model of the contract."""

    async def _play(self, sandbox: Sandbox, options: HistoryOptions, topic: str) -> None:
        """Play histories, and note what cannot be checked on this store."""
        # A number of histories, since what is seen in so many seconds is not the same every time.
        persistent = Capability.PERSISTENT in sandbox.store.capabilities
        histories, length = self._often(8 if options.reopening else 12 if persistent else 30), 30
        if self.thorough:
            histories, length = 50 if persistent else 200, 60
        await self._play_histories(sandbox, options, topic, histories=histories, length=length)
        if sandbox.mark:
            self.unchecked("calls without any filter: others may have memories in this store")
        if Capability.FORK not in sandbox.store.capabilities:
            self.unchecked("sessions that are forked, which needs the capability 'fork'")
        if options.lifetimes and not options.moves_clock:
            self.unchecked("a clock that is moved: memories of others would expire by it")
        if not self.thorough:
            self.unchecked("longer and more histories: see thorough")

    async def test_random_histories_match_the_model(self, store: Store) -> None:
        """Every answer to random calls of every method, plain and through handles of every scope, is the model's."""
        for capability in (Capability.ATOMIC, Capability.DELETE, Capability.ADD_DELETED, Capability.PURGE):
            if capability not in store.capabilities:
                self.unchecked(f"what needs the capability {capability.value!r}")
        await self._play(self._sandbox(store), self._history_options(store), "calls")

    async def test_every_change_reaches_every_read(self, store: Store) -> None:
        """Whatever changes in an item, by whichever method, each method that reads answers as the model does."""
        sandbox = self._sandbox(store)
        await check_steps(sandbox, Changes(sandbox.calls).steps(4 if self.is_brief else 1), "changes")

    async def test_every_method_does_right_by_every_state(self, store: Store) -> None:
        """On items that are absent, live, archived, deleted, brought back or another's, each method is the model's."""
        sandbox = self._sandbox(store)
        states = States(sandbox.calls, store.capabilities)
        others: tuple[By, ...] = ("user", "extra", "place", "store")
        rounds = [(by,) for by in others] if self.thorough else [] if self.is_brief else [others]
        for ways in (("handle",), *rounds):
            await check_steps(sandbox, states.steps(*ways, share=3 if self.is_brief else 1), "states")

    async def test_many_changes_leave_the_rest_as_it_is(self, store: Store) -> None:
        """After more than a thousand changes of one item, the others are still there, deleted ones too."""
        sandbox = self._sandbox(store)
        states = States(sandbox.calls, store.capabilities)
        await check_steps(sandbox, states.steps_after_many_changes(100 if self.is_brief else 1_100), "changes")

    @needs(Capability.PERSISTENT)
    async def test_every_change_reaches_every_read_of_others(self, store: Store, reopen: Reopen | None) -> None:
        """Whatever one store changes, another one on the same data answers as the model does."""
        sandbox = self._sandbox(store, required(reopen), instances=2)
        changes = Changes(sandbox.calls).steps(8)
        steps = [call if call.writes else replace(call, instance=1) for call in changes if isinstance(call, Call)]
        await check_steps(sandbox, steps, "changes by another store")

    @needs(Capability.TTL)
    async def test_random_lifetimes_match_the_model(self, store: Store) -> None:
        """With items that expire, by a clock that goes forward and back, every answer is the model's."""
        sandbox = self._sandbox(store)
        options = self._history_options(
            store, lifetimes=True, moves_clock=sandbox.moves_clock, clock_goes_back=sandbox.moves_clock, together=False
        )
        await self._play(sandbox, options, "lifetimes")

    @needs(Capability.TTL)
    async def test_every_lifetime_ends_at_its_moment(self, store: Store) -> None:
        """However an item got its lifetime, and whatever changed it, the item is there until its end, and then gone."""
        sandbox = self._sandbox(store)
        if not sandbox.moves_clock:
            raise SkipCase("it moves the clock, by which memories of others would expire")
        for steps in (lifetime_steps, first_steps_after_an_end, lonely_ends):
            await check_steps(sandbox, steps(sandbox.calls), "lifetimes")

    @needs(Capability.PERSISTENT)
    async def test_random_histories_outlive_the_store(self, store: Store, reopen: Reopen | None) -> None:
        """With two stores on the same data, one closed and reopened now and then, every answer is the model's."""
        reopen = required(reopen)
        sandbox = self._sandbox(store, reopen, instances=2)
        sandbox.outside = await self._outside(store, reopen)
        options = self._history_options(
            store,
            instances=2,
            outside=sandbox.outside is not None,
            reopening=True,
            lifetimes=Capability.TTL in store.capabilities,
            moves_clock=sandbox.moves_clock,
        )
        try:
            await self._play(sandbox, options, "reopening")
        finally:
            if sandbox.outside is not None:
                await sandbox.outside.end()

    async def _outside(self, store: Store, reopen: Reopen) -> Outside | None:
        """Return another process that can look at the data; None if it cannot, which a case of its own tells."""
        if not self.exclusive:
            self.unchecked("another process beside histories: it would see memories of others")
            return None
        item = note("seen from outside", self.scope())
        await store.add(item)
        await store.close()
        outside, found = None, []
        try:
            outside = await Outside.begin(await sendable(reopen, type(store)))
            found = await outside.look(patience=self.patience)
        except Exception as error:  # noqa: BLE001  # such as a pool that belongs to this process
            self.unchecked(f"another process, which raised {type(error).__name__}")
        await store.init()
        await self.clean(store)
        if outside is None or item.id in [each.id for each in found]:
            return outside
        self.unchecked("another process beside histories: it does not see what is stored")
        await outside.end()
        return None

    async def test_a_call_that_is_cancelled_at_any_await_is_done_or_not(self, store: Store) -> None:
        """Cancelled at its first, second, … await, a call is done as a whole or not at all, and locks nothing."""
        held = store.capabilities
        is_atomic = Capability.ATOMIC in held
        if not is_atomic:
            self.unchecked("batches that are done whole: the store does not declare the capability 'atomic'")
        whole = [*_CANCELLED, *(_BATCHES if is_atomic else ()), *(["delete"] if Capability.DELETE in held else ())]
        needed = {"restore": Capability.DELETE, "purge": Capability.PURGE, "touch": Capability.TTL}
        by_item = ["clear", *(() if is_atomic else _BATCHES), *(name for name in needed if needed[name] in held)]
        sandbox, options = self._sandbox(store), self._history_options(store, together=False)
        for variant, method in itertools.product(range(4 if self.thorough else 1), [*whole, *by_item]):
            for at in range(1, _AWAITS):
                if not await self._cancelled(sandbox, options, method, variant, at, by_item=method in by_item):
                    break

    async def _cancelled(
        self, sandbox: Sandbox, options: HistoryOptions, method: str, variant: int, at: int, *, by_item: bool
    ) -> bool:
        """Play a short history with a call that is cancelled, and return whether it waited that often."""
        player = await sandbox.player()
        random = Random(f"{self.seed}/{method}/{variant}")
        generator = Generator(random, sandbox.store.capabilities, options, sandbox.mark)
        failure, call = None, Call("exists")
        try:
            items = {item.id: item for item in [generator.item(player.model) for _ in range(8)]}
            failure = await player.play(Call("add_many", {"items": list(items.values())}))
            while failure is None and generator.drawn < 3:
                failure = await player.play(generator.step(player.model))
            if failure is None:
                call = _longer(generator, method, player, plain=variant == 0)
                failure = await player.play(Cancelled(call, at, by_item))
            followed_by = [
                *generator.audits(),
                Call("add", {"item": generator.item(player.model)}),
                *generator.audits(),
                call,  # It may find a lock that the first one holds for ever.
                *generator.audits(),
            ]
            for step in followed_by:
                failure = failure or await player.play(step)
            waited = player.waits >= at
        finally:
            await sandbox.close(player)
        if failure is not None:
            raise await failed(failure, sandbox, f"the seed {self.seed}, {method}() cancelled")
        return waited

    async def test_sizes_match_the_model(self, store: Store) -> None:
        """Pages, batches and lists beyond 100, 400, 500, 1,000, 5,000 and 10,000 items are the model's."""
        sandbox = self._sandbox(store)
        histories = [size_steps(sandbox.calls, QUICK)]
        if self.is_brief:
            self.unchecked("batches of 10,000 items: see brief")
        persistent = Capability.PERSISTENT in store.capabilities  # Others have no engine whose batches have an end.
        if not self.is_brief or persistent:
            histories.append(large_steps(sandbox.calls, LARGE if self.is_brief else HUGE))
        if self.thorough:
            histories += [size_steps(sandbox.calls, size) for size in ((LARGE, HUGE) if persistent else (LARGE,))]
        for steps in histories:
            await check_steps(sandbox, steps, "many items")

    async def test_nothing_of_the_store_is_left_after_close(self, store: Store) -> None:
        """After close() no thread, task, file or socket of the store is left."""
        calls = leaks.everyday(self.scope(session_id="s"))
        await leaks.used(store, calls)  # What is made once and shared is there from here on.
        left = await leaks.left_by(store, calls)
        if left:
            raise ExpectationError(await leaks.leak_report(store, left, calls))
        await store.init()


def _longer(generator: Generator, method: str, player: Player, *, plain: bool) -> Call:
    """Draw a call that changes or finds something, with several items if it takes them."""
    call = generator.call_of(method, player.model)
    for _ in range(60):
        call = generator.call_of(method, player.model)
        if plain:  # Without what may lead it another way; on a shared store, it still looks at nothing of others.
            kept = {name: call.arguments[name] for name in _PLAIN if name in call.arguments}
            call = within_bounds(replace(call, arguments=kept), generator.world.bounds)
        items = call.arguments.get("items", call.arguments.get("adds"))
        several = items is None or len({item.id for item in items}) > 1
        answer = modelled(player.model.copy(), call)
        # An apply() that adds and removes could be left halfway.
        done = answer.value and items if method == "apply" else answer.value or not call.writes or items
        if several and not answer.errors and done:
            break
    return call
