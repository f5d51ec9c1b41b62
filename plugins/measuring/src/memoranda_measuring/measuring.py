"""A function around every public call of a store.

A store that is measured gets a class of its own, whose methods report; all other stores pay nothing.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import cache, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, signature
from typing import Any, NamedTuple

from memoranda.store import Observer

logger = logging.getLogger(__name__)

_new: Any = tuple.__new__  # Makes a name tuple in half the time.

End = Callable[[Any, BaseException | None], object]
"""Called when a call has ended: with the result and None, or with None and the error."""


class Call(NamedTuple):
    """A public call of a store or handle. One that streams lasts until its last item; its result is their number."""

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


class Measuring(Observer, ABC):
    """An observer that measures: it is told of calls, and of nothing else.

    What :meth:`around`, or what it returned, raises is logged and changes nothing. Of two that are equal, a store has
    the first. A measured store, or handle, has a method more: ``await store.report_call(function, …)`` calls an async
    function with the store and further arguments, and reports that as a call of the function's name.
    """

    only_removals = True  # A store need not prepare anything for the methods of observers that change items.

    @abstractmethod
    def around(self, call: Call) -> End | None:
        """Take note of a call before it begins; return what to call when it has ended, or None to ignore it."""

    def attached(self, store: Any) -> None:
        """Let a store or handle report its calls here, each once."""
        arounds = store.__dict__.setdefault("measured_by", [])
        if not any(around.__self__ == self for around in arounds):
            arounds.append(self.around)
        if not hasattr(type(store), "reports_calls"):
            store.__class__ = _reporting(type(store))  # type: ignore[arg-type]  # a class is hashable


@cache
def _reporting(cls: Any) -> Any:
    # What a store asks its observers, or tells them, is part of the call that shows it.
    names = [name for name in dir(cls) if not name.startswith("_") and name not in ("shown", "known", "outdated")]
    methods = {name: getattr(cls, name) for name in names}
    calls = {name: each for name, each in methods.items() if iscoroutinefunction(each) or isasyncgenfunction(each)}
    reported = {name: _reported(each) for name, each in calls.items()} | {"report_call": _report_call}
    return type(cls)(cls.__name__, (cls,), {"__module__": cls.__module__, "reports_calls": True, **reported})


async def _report_call(store: Any, function: Any, *given: Any, **named: Any) -> Any:
    return await _reported(function)(store, *given, **named)


def _listed(given: Any) -> Any:
    return list(given) if isinstance(given, Iterator) else given


def _reported(method: Any) -> Any:
    operation, names = method.__name__, list(signature(method).parameters)[1:]
    takes_several = not {"items", "adds", "deletes", "ids"}.isdisjoint(names)

    @wraps(method)
    async def call(self: Any, *given: Any, **named: Any) -> Any:
        if takes_several:  # Observers may count them.
            given, named = tuple(map(_listed, given)), {name: _listed(each) for name, each in named.items()}
        ends = _told(self.measured_by, _new(Call, (operation, self, False, names, given, named)))
        try:
            result = await method(self, *given, **named)
        except BaseException as error:
            _told(ends, None, error)
            raise
        _told(ends, result, None)
        return result

    @wraps(method)
    async def stream(self: Any, *given: Any, **named: Any) -> AsyncGenerator[Any, None]:
        ends, count = _told(self.measured_by, Call(operation, self, True, names, given, named)), 0
        try:
            async with aclosing(method(self, *given, **named)) as items:
                async for item in items:
                    count += 1
                    yield item
        except BaseException as error:
            _told(ends, *((count, None) if isinstance(error, GeneratorExit) else (None, error)))
            raise
        _told(ends, count, None)

    return stream if isasyncgenfunction(method) else call


def _told(functions: Iterable[Any], *given: Any) -> list[Any]:
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
