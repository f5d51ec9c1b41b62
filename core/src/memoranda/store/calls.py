"""Public calls of a store, and the steps of a request, reported to functions that measure them.

A store that is measured, or a handle, has functions of its own in the place of its methods; all others pay nothing. The
steps are waiting for a connection, a statement, embedding: an engine marks the methods that do them with :func:`step`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from functools import cache, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, signature
from types import MethodType
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

logger = logging.getLogger(__name__)

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

End = Callable[[Any, BaseException | None], object]
"""Called when a call has ended: with the result and None, or with None and the error."""

_new: Any = tuple.__new__  # Makes a named tuple in half the time.

_ANSWERED_BY_OBSERVERS = ("shown", "known", "outdated")
"""What a store asks its observers, or tells them, is part of the call that shows it."""


class Call(NamedTuple):
    """A public call of a store or handle. A streaming call ends with its last item; its result is their number."""

    operation: str
    store: Any
    streams: bool
    parameters: Sequence[str]
    given: Sequence[Any]
    named: Mapping[str, Any]

    @property
    def arguments(self) -> dict[str, Any]:
        """What was given, by name; lists where iterators were given."""
        return {**dict(zip(self.parameters, self.given, strict=False)), **self.named}


Around = Callable[[Call], End | None]
"""Called before a call begins; returns what to call when it has ended, or None to ignore it."""


def measure(store: Any, around: Around) -> None:
    """Call a function before every public call of a store or handle; what it returns is called after it.

    What either raises is logged and changes nothing. A handle is measured by itself: see ``attached`` of
    :class:`memoranda.store.Observer`.
    """
    if not store.measured_by:
        for name, function in _reporting(type(store)).items():  # type: ignore[arg-type]  # a class is hashable
            store.__dict__[name] = MethodType(function, store)
    store.measured_by = [*store.measured_by, around]


async def report_call(
    store: S, function: Callable[Concatenate[S, P], Awaitable[T]], /, *given: P.args, **named: P.kwargs
) -> T:
    """Call an async function with a store and further arguments, and return its result.

    Where the store is measured, it is reported as a call of the function's name.
    """
    if not getattr(store, "measured_by", ()):
        return await function(store, *given, **named)
    reported: Callable[..., Awaitable[T]] = _reported(function)
    return await reported(store, *given, **named)


@cache
def _reporting(cls: type) -> Mapping[str, Any]:
    """Return the functions that report, by the names of the public methods that they call."""
    names = [name for name in dir(cls) if not name.startswith("_") and name not in _ANSWERED_BY_OBSERVERS]
    methods = {name: getattr(cls, name) for name in names}
    calls = {name: each for name, each in methods.items() if iscoroutinefunction(each) or isasyncgenfunction(each)}
    return {name: _reported(each) for name, each in calls.items()}


def _reported(method: Any) -> Any:
    operation, names = method.__name__, list(signature(method).parameters)[1:]
    takes_several = not {"items", "adds", "deletes", "ids"}.isdisjoint(names)

    @wraps(method)
    async def call(self: Any, *given: Any, **named: Any) -> Any:
        if takes_several:  # Whoever measures may count them.
            given, named = tuple(map(_listed, given)), {name: _listed(each) for name, each in named.items()}
        ends = _called(self.measured_by, _new(Call, (operation, self, False, names, given, named)))
        try:
            result = await method(self, *given, **named)
        except BaseException as error:
            _called(ends, None, error)
            raise
        _called(ends, result, None)
        return result

    @wraps(method)
    async def stream(self: Any, *given: Any, **named: Any) -> AsyncGenerator[Any, None]:
        ends, count = _called(self.measured_by, Call(operation, self, True, names, given, named)), 0
        try:
            async with aclosing(method(self, *given, **named)) as items:
                async for item in items:
                    count += 1
                    yield item
        except BaseException as error:
            _called(ends, *((count, None) if isinstance(error, GeneratorExit) else (None, error)))
            raise
        _called(ends, count, None)

    return stream if isasyncgenfunction(method) else call


def _listed(given: Any) -> Any:
    return list(given) if isinstance(given, Iterator) else given


def _called(functions: Iterable[Any], *given: Any) -> list[Any]:
    """Call each function, and return what is to be called later."""
    returned = []
    for function in functions:
        try:
            if (later := function(*given)) is not None:
                returned.append(later)
        except Exception as error:
            # The traceback may quote memory content, so it is kept for DEBUG.
            name = getattr(function, "__qualname__", type(function).__name__)
            logger.error("The observer %s failed: %s.", name, type(error).__name__)
            logger.debug("What the observer raised:", exc_info=error)
    return returned


Begin = Callable[[str], End | None]
"""Called with the name of a step before it begins; returns what to call when it has ended, or None to ignore it."""

WATCHING: ContextVar[Begin | None] = ContextVar("memoranda_steps", default=None)
"""What the steps of this task are reported to. Whoever measures a call sets it meanwhile."""


def step(name: str) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
    """Decorate an async method of an engine that does one step of a request, such as a statement."""

    def decorated(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @wraps(method)
        def call(*given: P.args, **named: P.kwargs) -> Awaitable[T]:
            begin = WATCHING.get()
            return method(*given, **named) if begin is None else reported(begin, name, method(*given, **named))

        return call

    return decorated


async def reported(begin: Begin, name: str, work: Awaitable[T]) -> T:
    """Await some work, report it as a step and return its result."""
    end = begin(name)
    if end is None:
        return await work
    try:
        result = await work
    except BaseException as error:
        end(None, error)
        raise
    end(result, None)
    return result
