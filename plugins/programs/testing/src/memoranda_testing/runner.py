"""Run the conformance kit without pytest: for ``memoranda conform URL`` and your own programs."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from memoranda.errors import MemoryError
from memoranda.store import Store
from memoranda_testing.case import Cases
from memoranda_testing.cases import TOPICS, case_names
from memoranda_testing.expect import NotReachedError, SkipCase, not_ended, with_sentence
from memoranda_testing.model.recipe import OpenStore, made_by

_TIDYING = 120.0
"""Seconds for removing what a case wrote; a store that hangs must not hang the run."""


class Outcome(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_REACHED = "not reached"
    """The case was not played to its end, so the store does not conform; it need not be wrong."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case ended, why it failed or was skipped, and how long it took."""

    name: str
    topic: str
    title: str
    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {
            "name": self.name,
            "topic": self.topic,
            "title": self.title,
            "outcome": self.outcome.value,
            "reason": self.reason,
            "seconds": round(self.seconds, 4),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """All results of one run, in the order of the cases."""

    store: str
    capabilities: tuple[str, ...]
    results: tuple[CaseResult, ...]

    def of(self, outcome: Outcome) -> list[CaseResult]:
        """Return the results with this outcome."""
        return [result for result in self.results if result.outcome is outcome]

    @property
    def conforms(self) -> bool:
        """True if every case that is not skipped was played to its end and passed, and there is one."""
        return {result.outcome for result in self.results} - {Outcome.SKIPPED} == {Outcome.PASSED}

    @property
    def seconds(self) -> float:
        """The seconds that all cases took together."""
        return sum(result.seconds for result in self.results)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "store": self.store,
            "conforms": self.conforms,
            "capabilities": list(self.capabilities),
            "passed": len(self.of(Outcome.PASSED)),
            "failed": len(self.of(Outcome.FAILED)),
            "skipped": len(self.of(Outcome.SKIPPED)),
            "not_reached": len(self.of(Outcome.NOT_REACHED)),
            "seconds": round(self.seconds, 4),
            "cases": [result.to_json() for result in self.results],
        }


async def check_store(
    open_store: OpenStore,
    *,
    exclusive: bool = False,
    select: Callable[[str], bool] | None = None,
    timeout: float = 120.0,
    thorough: bool = False,
    seed: int = 0,
    on_result: Callable[[CaseResult], None] | None = None,
    topics: Sequence[type[Cases]] = TOPICS,
) -> Report:
    """Run the cases one after the other, each on a store opened for it, and return all results.

    - ``exclusive``: every opening gives an empty store that is not shared. Without it, cases stay in places of their
      own and remove what they wrote, and those that move the clock are skipped.
    - ``select`` chooses cases by name.
    - ``timeout`` ends a case as not reached that takes longer, in seconds, or whose next step does. The verdict of a
      case that was played to its end never depends on how long that took.
    - ``thorough`` plays more and longer histories, with ten times the timeout.
    - ``seed`` chooses those histories; the reason of a case that passed says what it did not check.
    - ``on_result`` is called with each result at once.
    - ``topics`` are the groups of cases.

    An error in a case is a failed case. Only a store that cannot be opened at all raises.
    """
    first = await _opened(open_store)
    name, capabilities = repr(first), tuple(sorted(capability.value for capability in first.capabilities))
    await first.close()
    results = []
    chosen = [(topic, case) for topic in topics for case in case_names(topic) if select is None or select(case)]
    for topic, case in chosen:
        cases = topic()
        cases.exclusive, cases.thorough, cases.seed = exclusive, thorough, seed
        cases.patience = min(Cases.patience, timeout / 4)
        result = await _run(cases, case, open_store, type(first), timeout * (10 if thorough else 1))
        results.append(result)
        if on_result is not None:
            on_result(result)
    return Report(name, capabilities, tuple(results))


def run_conformance(
    open_store: OpenStore,
    *,
    exclusive: bool = False,
    select: Callable[[str], bool] | None = None,
    timeout: float = 120.0,
    thorough: bool = False,
    seed: int = 0,
    on_result: Callable[[CaseResult], None] | None = None,
) -> Report:
    """Do what :func:`check_store` does, from a program without an event loop."""
    return asyncio.run(
        check_store(
            open_store,
            exclusive=exclusive,
            select=select,
            timeout=timeout,
            thorough=thorough,
            seed=seed,
            on_result=on_result,
        )
    )


async def _opened(open_store: OpenStore, kind: type[Store] | None = None) -> Store:
    store = await made_by(open_store, kind)
    await store.init()
    return store


async def _run(cases: Cases, name: str, open_store: OpenStore, kind: type[Store], timeout: float) -> CaseResult:
    case = getattr(cases, name)
    started = time.perf_counter()
    outcome, reason = Outcome.PASSED, ""
    clock = asyncio.timeout(timeout)
    loop = asyncio.get_running_loop()
    cases.going_on = lambda: clock.reschedule(loop.time() + timeout)  # type: ignore[method-assign]  # of this one
    try:
        async with clock:
            await _on_store(cases, case, open_store, kind)
        reason = cases.not_checked
    except SkipCase as skip:
        outcome, reason = Outcome.SKIPPED, str(skip)
    except NotReachedError as error:
        outcome, reason = Outcome.NOT_REACHED, str(error)
    except Exception as error:  # noqa: BLE001  # whatever a store raises is a result, and the other cases go on
        if clock.expired():
            outcome, reason = Outcome.NOT_REACHED, str(not_ended("It", timeout))
        else:
            outcome, reason = Outcome.FAILED, with_sentence(_reason(error), case)
    return CaseResult(
        name.removeprefix("test_"),
        _sentence(type(cases)),
        _sentence(case),
        outcome,
        reason,
        time.perf_counter() - started,
    )


async def _on_store(
    cases: Cases, case: Callable[..., Awaitable[None]], open_store: OpenStore, kind: type[Store]
) -> None:
    """Run one case, and remove what it wrote even if it fails."""
    store = await _opened(open_store, kind)

    async def reopen() -> Store:
        return await made_by(open_store, kind)

    further = {"reopen": reopen} if "reopen" in inspect.signature(case).parameters else {}
    cases.fresh = reopen if cases.exclusive else None
    try:
        await case(store, **further)
    except BaseException:
        with suppress(Exception):  # What the case raised says more than what followed from it.
            await _tidied(cases, store)
        raise
    await _tidied(cases, store)


async def _tidied(cases: Cases, store: Store) -> None:
    async with asyncio.timeout(_TIDYING):
        await store.init()
        await cases.clean(store)
        await store.close()


def _sentence(documented: Any) -> str:
    return (inspect.getdoc(documented) or "").split("\n", 1)[0]


def _reason(error: Exception) -> str:
    if isinstance(error, (AssertionError, MemoryError)):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {error}"


__all__ = ["CaseResult", "OpenStore", "Outcome", "Report", "check_store", "run_conformance"]
