"""Play many histories, and shrink one that fails to a short program."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from random import Random

from memoranda.store import Store
from memoranda_testing.case import Clock
from memoranda_testing.expect import ExpectationError, NotReachedError, tested
from memoranda_testing.model.contract import cause, sentence
from memoranda_testing.model.generator import Generator
from memoranda_testing.model.player import Failure, modelled
from memoranda_testing.model.program import program
from memoranda_testing.model.reference import Model
from memoranda_testing.model.sandbox import START, Sandbox, lowered
from memoranda_testing.model.shrinking import shrunk
from memoranda_testing.model.steps import Call, Cancelled, Moved, Step, Together
from memoranda_testing.model.values import HistoryOptions

SHRINKING_STEPS = 12_000
"""How many steps are tried to shrink a failure; with fewer, the program that shows it is longer."""

_STATES = 24
"""How many states are followed that are possible after calls at once and calls that were cancelled."""


async def check_histories(
    sandbox: Sandbox,
    options: HistoryOptions,
    *,
    seed: int,
    histories: int,
    length: int,
    topic: str = "",
) -> None:
    """Play random histories; the same seed gives the same ones. Raises what :func:`failed` returns if one fails."""
    for number in range(histories):
        player = await sandbox.player()
        generator = Generator(Random(f"{seed}/{topic}/{number}"), sandbox.store.capabilities, options, sandbox.mark)
        failure = None
        try:
            while failure is None and generator.drawn <= length:
                failure = await player.play(generator.step(player.model))
            for step in generator.survey(player.model) if not options.tenants else ():
                failure = failure or await player.play(step)
        finally:
            await sandbox.close(player)
        if failure is not None:
            raise await failed(failure, sandbox, f"history {number} of the seed {seed}")


async def compare(store: Store, seed: int, calls: int = 150) -> None:
    """Play one history of random steps on a store that is empty and not shared, and leave what it stored.

    A backend's own tests may look at the store afterwards. Raises ExpectationError if an answer differs.
    """
    sandbox = Sandbox(store)
    options = HistoryOptions(
        lifetimes=sandbox.moves_clock,
        moves_clock=sandbox.moves_clock,
        clock_goes_back=sandbox.moves_clock,
        together=False,
        substring_is_default=store.default_mode == "substring",
    )
    await check_histories(sandbox, options, seed=seed, histories=1, length=calls, topic="compare")


async def check_steps(
    sandbox: Sandbox, steps: Iterable[Step] | Callable[[Model], Iterable[Step]], what: str, case: object = None
) -> None:
    """Play these steps on an empty store, or those that are drawn beside the model, one after the other.

    On a shared store they are played in a part of it, where nothing is met that others have.

    Raises what :func:`failed` returns if one fails. If they belong to a fixed ``case``, the report names the sentence
    that this case tests.
    """
    failure, player = None, await sandbox.player()
    try:
        for step in steps(player.model) if callable(steps) else steps:
            failure = await player.play(lowered(step, sandbox.mark))
            if failure is not None:
                break
    finally:
        await sandbox.close(player)
    if failure is not None:
        raise await failed(failure, sandbox, what, case)


async def failed(failure: Failure, sandbox: Sandbox, what: str, case: object = None) -> Exception:
    """Return the error that reports a failure: NotReachedError if a call has not ended, else ExpectationError."""
    kind = NotReachedError if failure.difference.kind == "not ended" else ExpectationError
    return kind(await failure_report(failure, sandbox, what, case))


async def failure_report(failure: Failure, sandbox: Sandbox, what: str, case: object = None) -> str:
    """Return a failure as text: what is wrong, which sentence it breaks, what usually causes it, and a program."""
    again = None
    if failure.difference.kind == "not ended":  # Another attempt would be waited for just as long.
        again = failure
    elif sandbox.fresh is not None or sandbox.can_be_emptied:
        try:
            again = await shrunk(failure, sandbox.attempt, SHRINKING_STEPS)
        except Exception as error:  # noqa: BLE001  # the failure that was found says more than what followed from it
            what += f"; shrinking it ended with {type(error).__name__}"
    least = again or failure
    method = least.call.method if least.call is not None else "close"
    subject = f"{method}()" if least.call is not None else "The store"
    given_up = next((each for each in least.steps if isinstance(each, Cancelled)), None)
    if given_up is not None:
        method, subject = given_up.call.method, "The store"
    note = "" if again is not None else "\nIt could not be brought about a second time in fewer steps."
    return (
        f"{subject}: {least.difference.sentence}\n"
        f"The contract, {sentence(method, least.difference.kind) if case is None else tested(case)}\n"
        f"What usually causes it: {cause(least.call, least.difference.kind)}.\n"
        f"Found by {what}.{note} This program shows it:\n\n{program(least, sandbox.store, _errors(least, sandbox))}\n"
    )


def _errors(failure: Failure, sandbox: Sandbox) -> list[tuple[str, ...]]:
    """Return the names of the errors that each step but the last may raise, in any state that is possible by then."""
    clock = Clock(START)
    states = [Model(sandbox.store.capabilities, clock, sandbox.store.default_order)]
    found: list[tuple[str, ...]] = []
    for step in failure.steps[:-1]:
        if isinstance(step, Moved):
            for model in states if step.seconds < 0 else ():
                model.expire()
            clock.now += step.seconds
        calls = [step] if isinstance(step, Call) else []
        errors = [name for model in states for call in calls for name in modelled(model, call).errors]
        if isinstance(step, Cancelled):  # It is done or not.
            done = [model.copy() for model in states]
            errors += [name for model in done for name in modelled(model, step.call).errors]
            states += done
        elif isinstance(step, Together):  # In any order.
            states = [_in_order(model, order) for model in states for order in itertools.permutations(step.calls)]
        states = states[:_STATES]
        found.append(tuple(dict.fromkeys(errors)))
    return found


def _in_order(model: Model, calls: Sequence[Call]) -> Model:
    """Return the state after these calls."""
    after = model.copy()
    for call in calls:
        modelled(after, call)
    return after
