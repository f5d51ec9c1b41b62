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
from dataclasses import replace
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store, copy_item
from memoranda_testing.case import Cases, Reopen, moment, required
from memoranda_testing.expect import ExpectationError, SkipCase, shown
from memoranda_testing.model.histories import check_histories, check_steps
from memoranda_testing.model.player import answered
from memoranda_testing.model.program import call_text
from memoranda_testing.model.sandbox import Sandbox, within_bounds
from memoranda_testing.model.steps import BRANCH, Call, Moved, Step
from memoranda_testing.model.values import HistoryOptions

Program = Iterator[Step]


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


class Calls:
    """Writes calls down instead of making them: ``store.search(limit=3)`` is the call, to be made later."""

    def __init__(self, scope: MemoryMetadata | None = None, instance: int = 0) -> None:
        self._scope = scope
        self._instance = instance

    def scoped(self, **scope: Any) -> Calls:
        """Return a handle that is bound to a scope, which writes its calls down as well."""
        return Calls(MemoryMetadata(**scope), self._instance)

    def another(self) -> Calls:
        """Return another store on the same data; its case takes ``reopen``."""
        return Calls(self._scope, 1)

    def __getattr__(self, method: str) -> Callable[..., Call]:
        signature = inspect.signature(getattr(Store, method))

        def called(*args: Any, **kwargs: Any) -> Call:
            given = dict(zip(list(signature.parameters)[1:], args, strict=False))
            return Call(method, {**given, **kwargs}, self._scope, self._instance)

        return called


def mine(**fields: Any) -> MemoryMetadata:
    """Return metadata of the user whom most programs are about."""
    return MemoryMetadata(**{"user_id": "ada", **fields})


def theirs(**fields: Any) -> MemoryMetadata:
    """Return metadata of another user."""
    return MemoryMetadata(**{"user_id": "bob", **fields})


def item(content: str, second: int = 0, metadata: MemoryMetadata | None = None, **fields: Any) -> MemoryItem:
    """Return a note of a second of a fixed day, whose id is its content if none is given."""
    plain = {"id": content, "memory_type": "note", "created_at": moment(second), "metadata": metadata or mine()}
    return MemoryItem(content=content, **{**plain, **fields})


def items(*contents: str, second: int | None = None, **fields: Any) -> list[MemoryItem]:
    """Return a note for each content, a second apart, or all of one second."""
    return [item(text, number if second is None else second, **fields) for number, text in enumerate(contents)]


def played(program: Callable[..., Program]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Make a case of a program; the first line of its docstring is the sentence of the contract that it tests.

    One that takes ``reopen`` may open the data again, and use two stores on it.
    """

    opens_again = "reopen" in inspect.signature(program).parameters

    @functools.wraps(program)
    async def case(self: HistoryCases, store: Store, reopen: Reopen | None = None) -> None:
        if opens_again:
            sandbox = self._sandbox(store, required(reopen), instances=2)
            steps = list(program(self, Calls(), reopen))
        else:
            sandbox, steps = self._sandbox(store), list(program(self, Calls()))
        if not sandbox.moves_clock and any(isinstance(step, Moved) for step in steps):
            raise SkipCase("it moves the clock, by which memories of others in this store would expire")
        await check_steps(sandbox, list(_with_reads(steps, sandbox)), "this case", program)

    return case


def refused(program: Callable[[Any, Calls], Iterator[Call]]) -> Callable[[Any, Store], Coroutine[Any, Any, None]]:
    """Make a case of calls that make no sense: each is an InputError."""

    @functools.wraps(program)
    async def case(self: HistoryCases, store: Store) -> None:
        mark = self._sandbox(store).mark
        for call in program(self, Calls()):
            answer = await answered(store, _below(call, mark), self.patience)
            if answer.errors != ("InputError",):
                found = f"raised {answer.errors[0]}" if answer.errors else f"returned {shown(answer.value)}"
                raise ExpectationError(f"{call_text(call)} is to raise InputError, and {found}.")

    return case


def _with_reads(steps: list[Step], sandbox: Sandbox) -> Iterator[Step]:
    """Yield the steps as this sandbox plays them: what is stored is read after every write, and in the end.

    Of many writes in a row, only the first are followed by a read.
    """
    store, hidden = Calls(), Capability.DELETE in sandbox.store.capabilities
    everything = store.scan(order="added", **({"include_deleted": True} if hidden else {}))
    in_a_row = 0
    for step in steps:
        yield _below(step, sandbox.mark)
        in_a_row = in_a_row + 1 if isinstance(step, Call) and step.writes else 0
        if 0 < in_a_row <= _READ_IN_A_ROW:
            yield _below(everything, sandbox.mark)
    for read in (everything, store.search(limit=100), store.search(limit=100, order="added"), store.count()):
        yield _below(read, sandbox.mark)


def _below(step: Any, mark: str) -> Any:
    """Return the step as it is played in a shared store: ids and places of its own, and no look beyond them."""
    if not mark or not isinstance(step, Call):
        return step
    arguments = {name: _argument_below(name, value, mark) for name, value in step.arguments.items()}
    scope = None if step.scope is None else _argument_below("metadata", step.scope, mark)
    return within_bounds(replace(step, arguments=arguments, scope=scope), MemoryMetadata(namespace=(mark,)))


def _argument_below(name: str, value: Any, mark: str) -> Any:
    if isinstance(value, MemoryMetadata):
        # Others may have a conversation with the same names.
        user = value.user_id and f"{mark}{value.user_id}"
        session = _argument_below("session_id", value.session_id, mark)
        return value.model_copy(update={"namespace": (mark, *value.namespace), "user_id": user, "session_id": session})
    if isinstance(value, MemoryItem):
        lower = copy_item(value)
        lower.__dict__.update(id=_id_below(value.id, mark), metadata=_argument_below(name, value.metadata, mark))
        lower.__dict__["archived_by"] = value.archived_by and _id_below(value.archived_by, mark)
        return lower
    if isinstance(value, (list, tuple, set)) and name in ("items", "adds", "ids", "deletes", "deleted"):
        return [_argument_below(name, inner, mark) for inner in value]
    is_id = name in ("item_id", "after", "at", "ids", "deletes", "deleted")
    is_branch = name == "session_id" and isinstance(value, str) and value.startswith(BRANCH)
    return _id_below(value, mark) if is_branch or (is_id and isinstance(value, str)) else value


def _id_below(item_id: str, mark: str) -> str:
    """Return an id of its own; that of a forked session still begins like one."""
    beginning = BRANCH if item_id.startswith(BRANCH) else ""
    return f"{beginning}{mark}{item_id.removeprefix(BRANCH)}"


__all__ = ["Calls", "HistoryCases", "Program", "item", "items", "mine", "played", "refused", "theirs"]
