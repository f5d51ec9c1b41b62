"""Fixed cases as programs: a case yields calls, and the reference says what the store must answer to each.

A program is written as if it used a store::

    @played
    def test_limits_cut_the_result(self, store: Calls) -> Program:
        \"\"\"0 returns nothing, n the newest n.\"\"\"
        yield store.add_many(items("a", "b", "c"))
        yield from (store.search(limit=limit) for limit in (0, 1, 2, 3, 4))

No expectation is written down: every answer is compared with the answer of :class:`~memoranda_testing.model.Model`, and
all that is stored is compared after every write and read in several ways at the end.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from memoranda.items import MemoryMetadata
from memoranda.store import Store
from memoranda_testing.case import Cases, Reopen, required
from memoranda_testing.expect import SkipCase
from memoranda_testing.model.histories import check_histories, check_steps
from memoranda_testing.model.sandbox import Sandbox
from memoranda_testing.model.steps import Call, Calls, Moved, Program, Step, item, items, mine, theirs
from memoranda_testing.model.values import HistoryOptions

_READ_IN_A_ROW = 50
"""How many writes in a row are followed by a read each; more only make a store tidy up."""


class HistoryCases(Cases):
    """The base of cases that play histories on the store and on the model, and compare every answer."""

    def _sandbox(self, store: Store, reopen: Reopen | None = None, *, instances: int = 1) -> Sandbox:
        """Return where this case plays its histories."""
        sandbox = Sandbox(
            store, self.exclusive, self.fresh, reopen, self.patience, instances, going_on=lambda: self.going_on()
        )
        if sandbox.mark:
            self.owned(MemoryMetadata(namespace=(sandbox.mark,)))
        return sandbox

    def _often(self, times: int) -> int:
        """Return how often a random case is played that is played so many times by default."""
        return max(1, times // 5) if self.is_brief else times

    async def _play_histories(
        self, sandbox: Sandbox, options: HistoryOptions, topic: str, *, histories: int, length: int
    ) -> None:
        """Play histories of random calls."""
        try:
            await check_histories(sandbox, options, seed=self.seed, histories=histories, length=length, topic=topic)
        finally:
            for mark in sandbox.marks:
                self.owned(MemoryMetadata(namespace=(mark,)))

    def _history_options(self, store: Store, **further: bool | int | tuple[str, ...]) -> HistoryOptions:
        """Return the options for histories on this store."""
        return HistoryOptions(substring_is_default=store.default_mode == "substring", **further)  # type: ignore[arg-type]


def played(program: Callable[..., Program]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Make a case of a program; the first line of its docstring is the sentence of the contract that it tests.

    One that takes ``reopen`` may open the data again, and use two stores on it.
    """

    opens_again = "reopen" in inspect.signature(program).parameters

    @functools.wraps(program)
    async def case(self: HistoryCases, store: Store, reopen: Reopen | None = None) -> None:
        if opens_again:
            sandbox = self._sandbox(store, required(reopen), instances=2)
            steps = list(program(self, sandbox.calls, reopen))
        else:
            sandbox = self._sandbox(store)
            steps = list(program(self, sandbox.calls))
        if not sandbox.moves_clock and any(isinstance(step, Moved) for step in steps):
            raise SkipCase("it moves the clock, by which memories of others in this store would expire")
        await check_steps(sandbox, list(_with_reads(steps, sandbox.calls)), "this case", program)

    return case


def _with_reads(steps: list[Step], store: Calls) -> Iterator[Step]:
    """Yield the steps, and reads of what is stored after every write, and in the end.

    Of many writes in a row, only the first are followed by a read.
    """
    everything, in_a_row = store.everything(), 0
    for step in steps:
        yield step
        in_a_row = in_a_row + 1 if isinstance(step, Call) and step.writes else 0
        if 0 < in_a_row <= _READ_IN_A_ROW:
            yield everything
    yield from (everything, store.search(limit=100), store.search(limit=100, order="added"), store.count())


__all__ = ["Calls", "HistoryCases", "Program", "item", "items", "mine", "played", "theirs"]
