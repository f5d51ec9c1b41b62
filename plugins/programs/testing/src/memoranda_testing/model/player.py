"""Play a history step by step on a store and on the model, up to the first difference."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memoranda.errors import MemoryError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store
from memoranda_testing.case import Clock
from memoranda_testing.event_loop import Stepped, cancel_this
from memoranda_testing.expect import NotReachedError, within
from memoranda_testing.model.afresh import copied, unlike_afresh
from memoranda_testing.model.answers import (
    NOT_ENDED,
    NOTHING,
    Answer,
    Difference,
    difference,
    list_difference,
    seen,
    spoil,
)
from memoranda_testing.model.outside import Outside
from memoranda_testing.model.reference import Model, Refused
from memoranda_testing.model.steps import (
    COPY,
    Call,
    Cancelled,
    Copied,
    Moved,
    RankedAfresh,
    Reopened,
    SeenOutside,
    Step,
    Together,
    spelled_out,
)


@dataclass(frozen=True)
class Failure:
    """Where a store and the model differ: the steps so far, the call, both answers, and the difference."""

    steps: tuple[Step, ...]
    call: Call | None
    wanted: Answer
    found: Answer
    difference: Difference
    looks: tuple[Call, ...] = ()
    """Where more than one answer is right: the calls that show it, and those made at once before them."""
    possible: tuple[tuple[Answer, ...], ...] = ()
    """What all of these may answer."""


@dataclass
class Player:
    """Plays steps on the instances of a store and on the model beside it."""

    instances: list[Store]
    clock: Clock
    patience: float = 30.0
    reopen: Callable[[], Awaitable[Store]] | None = None
    outside: Outside | None = None
    going_on: Callable[[], None] = lambda: None
    """Called with each step."""
    model: Model = field(init=False)
    played: list[Step] = field(default_factory=list)
    waits: int = 0
    """How often the last cancelled call waited."""
    _given_up: Cancelled | None = None
    """The last cancelled call, unless it ended by itself."""
    _may_follow: bool = False
    """True while the engine may still carry it out."""
    _done: list[Model] = field(default_factory=list)
    """States that are possible besides the model's: the cancelled call was done earlier."""

    def __post_init__(self) -> None:
        first = self.instances[0]
        self.model = Model(first.capabilities, self.clock, first.default_order)
        for store in self.instances:
            self._set_clock(store)

    def _set_clock(self, store: Store) -> None:
        store.clock = self.clock

    def _failure(
        self, call: Call | None, unlike: Difference, wanted: Answer = NOTHING, found: Answer = NOTHING, **more: Any
    ) -> Failure:
        return Failure(tuple(self.played), call, wanted, found, unlike, **more)

    def _not_ended(self, call: Call | None, what: str = "it") -> Failure:
        return self._failure(
            call, Difference("not ended", f"{what} did not end.", ""), found=Answer(errors=(NOT_ENDED,))
        )

    async def play(self, step: Step) -> Failure | None:
        """Do one step on both and return how they differ, if they do."""
        self.played.append(step)
        self.going_on()
        if isinstance(step, Moved):
            if step.seconds < 0:  # Sweep first: otherwise expired items may or may not come back.
                await self.instances[0].sweep()
                self.model.expire()
            self.clock.now += step.seconds
        elif isinstance(step, Reopened):
            return await self._reopened()
        elif isinstance(step, SeenOutside):
            return await self._seen_outside()
        elif isinstance(step, RankedAfresh):
            return await self._ranked_afresh(step)
        elif isinstance(step, Copied):
            return await self._copied(step)
        elif isinstance(step, Together):
            return await self._together(step)
        elif isinstance(step, Cancelled):
            return await self._cancelled(step)
        else:
            return await self._called(step)
        return None

    async def _called(self, call: Call) -> Failure | None:
        arguments = spelled_out(call.arguments)  # The model stores copies of its own.
        wanted, found = modelled(self.model, call, arguments), await self._answer(call, arguments)
        unlike = difference(wanted, found)
        if self._given_up is None:
            return None if unlike is None else self._failure(call, unlike, wanted, found)
        done = [(model, modelled(model, call)) for model in self._done]
        self._done = [model for model, answer in done if difference(answer, found) is None]
        if unlike is None:
            later = self.model.copy()
            if self._may_follow and not modelled(later, self._given_up.call).errors:
                self._done.append(later)
        elif self._done:
            self.model, self._may_follow = self._done.pop(0), False
        else:
            later = self.model.copy()
            may_follow = self._may_follow and not modelled(later, self._given_up.call).errors
            further = [modelled(later, call)] if may_follow else []
            return self._neither(call, (wanted, *(answer for _, answer in done), *further), found, unlike)
        return None

    def _neither(self, call: Call, possible: Sequence[Answer], found: Answer, unlike: Difference) -> Failure:
        """Return the failure of a call that shows an earlier one half done."""
        assert self._given_up is not None
        given_up = f"after {self._given_up.call.method}() was cancelled at its await number {self._given_up.at}"
        if unlike.kind == "not ended":
            return self._not_ended(call, f"{given_up}, it")
        sentence = f"{given_up}, there is neither the old state nor the new: {unlike.sentence}"
        unlike = replace(unlike, kind="cancelled", sentence=sentence)
        either = tuple((answer,) for answer in possible)
        return self._failure(call, unlike, possible[0], found, looks=(call,), possible=either)

    async def _answer(self, call: Call, arguments: dict[str, Any] | None = None) -> Answer:
        return await answered(self.instances[call.instance % len(self.instances)], call, self.patience, arguments)

    async def _reopened(self) -> Failure | None:
        if self.reopen is None:
            return None
        try:
            async with within(self.patience, "Closing and opening it again"):
                await self.instances[0].close()
                self.instances[0] = await self.reopen()
                self._set_clock(self.instances[0])
                await self.instances[0].init()
        except NotReachedError:
            return self._not_ended(None, "closing and opening it again")
        except Exception as error:  # noqa: BLE001  # whatever a store raises is a result
            return self._failure(None, Difference("error", f"closing and opening it again raised {_named(error)}.", ""))
        return None

    async def _seen_outside(self) -> Failure | None:
        """Compare what another process reads."""
        assert self.outside is not None, "such steps are drawn only then"
        wanted = modelled(self.model, audit(self.model))
        try:
            found = Answer(seen(await self.outside.look(self.clock.now, self.patience)))
        except Exception as error:  # noqa: BLE001  # whatever a store raises is an answer
            found = Answer(errors=(_named(error),))
        unlike = difference(wanted, found)
        if unlike is None:
            return None
        unlike = replace(unlike, kind="outside", sentence=f"read by another process: {unlike.sentence}")
        return self._failure(None, unlike, wanted, found)

    async def _ranked_afresh(self, step: RankedAfresh) -> Failure | None:
        """Compare rankings with those of copies."""
        unlike = await unlike_afresh(self.instances[0], step.owner, step.queries, step.modes)
        if unlike is None:
            return None
        call = Call("search_ranked", {"metadata": step.owner})
        return self._failure(call, Difference("afresh", unlike, "unlike is None"))

    async def _copied(self, step: Copied) -> Failure | None:
        """Compare what each session shows in a copy."""
        model, copy = self.model.copy(), await copied(self.instances[0], step.bounds, deleted=step.restored)
        if step.restored:
            model.handle().restore(metadata=step.bounds)
            await copy.restore(metadata=step.bounds)
        for session in dict.fromkeys(row.item.metadata.session_id for row in model.rows.values()):
            for method, further in (("window", {}), ("scan", {"order": "added"})):
                look = Call(method, {"metadata": MemoryMetadata(session_id=session), **further}, instance=COPY)
                wanted, found = _when(modelled(model, look)), _when(await answered(copy, look, self.patience))
                if wanted != found:
                    line = f"[f'{{item.id!r}} of {{item.created_at}}' for item in found] == {wanted!r}"
                    unlike = Difference("copy", f"in a copy: {list_difference(wanted, found)}", line)
                    return self._failure(look, unlike)
        return None

    async def _together(self, step: Together) -> Failure | None:
        """Make the calls at once, and look for an order that explains the answers and the state."""
        found = await asyncio.gather(*(self._answer(call) for call in step.calls))
        look = audit(self.model)
        state = await self._answer(look)
        for call, answer in zip((*step.calls, look), (*found, state), strict=True):
            if NOT_ENDED in answer.errors:
                return self._not_ended(call)
        nearest: Failure | None = None
        possible: list[tuple[Answer, ...]] = []
        for order in itertools.permutations(range(len(step.calls))):
            model = self.model.copy()
            wanted = {position: modelled(model, step.calls[position]) for position in order}
            expected = modelled(model, look)
            possible.append((*(wanted[position] for position in range(len(order))), expected))
            if any(difference(wanted[position], found[position]) for position in order):
                continue
            unlike = difference(expected, state)
            if unlike is None:
                self.model = model
                return None
            if unlike.kind in ("field", "version", "lifetime"):  # The calls are explained; a field is stored wrongly.
                nearest = self._failure(look, unlike, expected, state)
        if nearest is not None:
            return nearest
        names = ", ".join(answer.errors[0] if answer.errors else _brief(answer.value) for answer in found)
        sentence = f"no order of the {len(step.calls)} calls gives these answers ({names}) and this state."
        unlike, looks = Difference("together", sentence, ""), (*step.calls, look)
        return self._failure(step.calls[0], unlike, found=found[0], looks=looks, possible=tuple(possible))

    async def _cancelled(self, step: Cancelled) -> Failure | None:
        """Cancel the call; later calls may find it done, not done, or done later, but whole."""
        after = self.model.copy()
        wanted = modelled(after, step.call)
        store = self.instances[step.call.instance % len(self.instances)]
        stepped = Stepped(made(store, step.call), step.at, cancel_this)
        task = asyncio.ensure_future(stepped.run())
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wait([task])), self.patience)
        except TimeoutError:
            task.cancel()
            return self._not_ended(step.call, f"cancelled at its await number {step.at}, it")
        self.waits = stepped.waits
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or (error is not None and stepped.waits >= step.at):
            if step.by_item:
                return await self._settled(step, after)
            self._given_up, self._may_follow = step, True
            self._done = [] if wanted.errors else [after]
            return None
        self.model = after
        found = Answer(errors=(_named(error),)) if error is not None else Answer(seen(task.result()))
        other = difference(wanted, found) if stepped.waits < step.at else None
        return None if other is None else self._failure(step.call, other, wanted, found)

    async def _settled(self, step: Cancelled, after: Model) -> Failure | None:
        """Go on with what a cancelled call has done, if each item is as it was before or as it is to be afterwards."""
        states: list[Answer] = []
        while len(states) < 2 or states[-1] != states[-2]:  # What was begun may still be on its way.
            states.append(await self._answer(audit(self.model)))
            if NOT_ENDED in states[-1].errors:
                return self._not_ended(step.call, f"after it was cancelled at its await number {step.at}, a scan")
            await asyncio.sleep(0.01)
        shown = await self._answer(replace(audit(self.model), arguments={"order": "added"}))
        if shown.errors or states[-1].errors:
            unlike = Difference("error", f"it raised {(*shown.errors, *states[-1].errors)[0]}.", "")
            return self._half_done(step, unlike, (audit(self.model),), (self.model, after))
        live = {one.values["id"] for one in shown.value}
        found = {one.values["id"]: (one, one.values["id"] not in live) for one in states[-1].value}
        rows, before = {}, self.model.rows
        for item_id in dict.fromkeys((*before, *after.rows)):
            possible = [before.get(item_id), after.rows.get(item_id)]
            fits = [row for row in possible if (row and (seen(row.item), row.deleted)) == found.get(item_id)]
            if not fits:
                unlike = Difference("cancelled", f"the item {item_id!r} is half changed.", "")
                return self._half_done(step, unlike, self._looks_at(item_id), (self.model, after))
            if fits[0] is not None:
                rows[item_id] = fits[0]
        self.model.rows = rows
        for row in rows.values():
            self.model.will_end(row.item)
        return None

    def _looks_at(self, item_id: str) -> tuple[Call, ...]:
        """Return the calls that show whether an item is there, and whether it is there as a deleted one."""
        whole = audit(self.model)
        among_all = replace(whole, arguments={**whole.arguments, "where": {"id": item_id}})
        return Call("get", {"item_id": item_id}), among_all

    def _half_done(
        self, step: Cancelled, unlike: Difference, looks: tuple[Call, ...], states: Sequence[Model]
    ) -> Failure:
        """Return the failure of a call that was cancelled; ``looks`` show it, and in these states nothing is wrong."""
        sentence = f"after {step.call.method}() was cancelled at its await number {step.at}: {unlike.sentence}"
        possible = tuple(tuple(modelled(state, look) for look in looks) for state in states)
        return self._failure(step.call, replace(unlike, sentence=sentence), looks=looks, possible=possible)


def audit(model: Model) -> Call:
    """Return a scan of everything, or of our own part of a shared store."""
    arguments: dict[str, Any] = {"order": "added"}
    if Capability.DELETE in model.capabilities:
        arguments["include_deleted"] = True
    if model.bounds is not None:
        arguments["metadata"] = model.bounds
    return Call("scan", arguments)


def modelled(model: Model, call: Call, arguments: dict[str, Any] | None = None) -> Answer:
    """Return what the model answers; ``arguments`` are the call's, if they are spelled out already."""
    arguments = spelled_out(call.arguments) if arguments is None else arguments
    try:
        return Answer(_shown(model, getattr(model.handle(call.scope), call.method)(**arguments)))
    except Refused as refused:
        return Answer(errors=tuple(kind.__name__ for kind in refused.kinds))
    except MemoryError as error:
        return Answer(errors=(type(error).__name__,))


def _shown(model: Model, value: Any) -> Any:
    """Return an answer of the model in a comparable form; nobody changes its items, so each is written out once."""
    if isinstance(value, list):
        return [_shown(model, inner) for inner in value]
    row = model.rows.get(value.id) if isinstance(value, MemoryItem) else None
    if row is None or row.item is not value:
        return seen(value)
    if row.shown is None or row.shown[0] is not value:
        row.shown = (value, seen(value))
    return row.shown[1]


async def answered(store: Store, call: Call, patience: float, arguments: dict[str, Any] | None = None) -> Answer:
    """Return what the store answers; then change what the caller holds, which must not change the store."""
    arguments = spelled_out(call.arguments) if arguments is None else arguments
    given = [seen(value) for value in arguments.values() if not _is_long(value)]
    try:
        async with within(patience, f"{call.method}()"):
            found = await made(store, call, arguments)
    except NotReachedError:
        return Answer(errors=(NOT_ENDED,))
    except Exception as error:  # noqa: BLE001  # whatever a store raises is an answer
        return Answer(errors=(_named(error),))
    answer = seen(found)
    if [seen(value) for value in arguments.values() if not _is_long(value)] != given:
        return Answer(errors=("a changed argument",))
    if not arguments.get("shared"):  # Those are the store's own, which callers leave as they are.
        spoil(found)
    for value in arguments.values():
        if isinstance(value, (MemoryItem, list)):
            spoil(value)
    return Answer(answer)


async def made(store: Store, call: Call, arguments: dict[str, Any] | None = None) -> Any:
    """Make the call on a store and return its result; what is yielded is collected in a list."""
    arguments = spelled_out(call.arguments) if arguments is None else arguments
    scope = call.scope
    handle: Store = store if scope is None else store.scoped(**scope_arguments(scope))
    given = getattr(handle, call.method)(**arguments)
    if call.method in ("scan", "owners"):
        return [one async for one in given]
    return await given


def scope_arguments(scope: Any) -> dict[str, Any]:
    """Return the arguments of ``scoped()`` that name this scope."""
    named = {name: getattr(scope, name) for name in ("user_id", "session_id", "task_id", "agent_id")}
    given: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    return {**given, **({"namespace": scope.namespace} if scope.namespace else {})}


def _is_long(value: Any) -> bool:
    """Return True for a batch that is not looked at before and after a call: small ones show what is changed."""
    return isinstance(value, list) and len(value) > 20


def _named(error: BaseException) -> str:
    return type(error).__name__


def _when(answer: Answer) -> list[str]:
    """Return the ids of items with the times of their making; a copy has versions of its own."""
    return [f"{one.id} of {one.values['created_at']}" for one in answer.value or ()]


def _brief(value: Any) -> str:
    return getattr(value, "id", None) or repr(value)


async def replayed(player: Player, steps: Sequence[Step]) -> Failure | None:
    """Play these steps and return the first failure."""
    for step in steps:
        failure = await player.play(step)
        if failure is not None:
            return failure
    return None
