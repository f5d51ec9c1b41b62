"""Reports calls to observers that measure, by giving a store a class whose methods do so: others pay nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import cache, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, signature
from typing import Any, TypeVar

from memoranda.plugins.observers import Call
from memoranda.store.observers import log_failure

F = TypeVar("F", bound=Callable[..., Any])


def measure(store: Any) -> None:
    """Report the public calls of a store or handle to its observers that measure, if there are any."""
    store._arounds = [observer.around for observer in store._observers.measuring]
    if store._arounds and not hasattr(store.search, "reports"):
        store.__class__ = _measured(store.__class__)


@cache
def _measured(cls: Any) -> Any:
    methods = {name: getattr(cls, name) for name in dir(cls) if not name.startswith("_")}
    calls = [each for each in methods.items() if iscoroutinefunction(each[1]) or isasyncgenfunction(each[1])]
    reporting = {name: reported(call) for name, call in calls}
    return type(cls)(cls.__name__, (cls,), {"__module__": cls.__module__, **reporting})


def _told(functions: Sequence[Any], *given: Any) -> list[Any]:
    """Call each function, and return what is to be called later. What one raises is logged and changes nothing."""
    returned = []
    for function in functions:
        try:
            if (later := function(*given)) is not None:
                returned.append(later)
        except Exception as error:  # noqa: BLE001 - a mistake of an observer must not hide what a store does
            log_failure(function, error)
    return returned


def reported(method: F) -> F:
    """Return an async method of a store, or a function whose first argument is one, that reports its calls."""
    names = list(signature(method).parameters)[1:]
    takes_several = not {"items", "adds", "deletes", "ids"}.isdisjoint(names)

    @wraps(method)
    async def call(self: Any, *given: Any, **named: Any) -> Any:
        if takes_several:  # Observers may want to count them.
            given = tuple(list(each) if isinstance(each, Iterator) else each for each in given)
            named = {name: list(each) if isinstance(each, Iterator) else each for name, each in named.items()}
        ends = _told(self._arounds, Call(method.__name__, self, False, names, given, named))
        try:
            result = await method(self, *given, **named)
        except BaseException as error:
            _told(ends, None, error)
            raise
        _told(ends, result, None)
        return result

    @wraps(method)
    async def stream(self: Any, *given: Any, **named: Any) -> AsyncGenerator[Any, None]:
        ends, count = _told(self._arounds, Call(method.__name__, self, True, names, given, named)), 0
        try:
            async with aclosing(method(self, *given, **named)) as items:
                async for item in items:
                    count += 1
                    yield item
        except BaseException as error:
            _told(ends, *((count, None) if isinstance(error, GeneratorExit) else (None, error)))
            raise
        _told(ends, count, None)

    reporting: Any = stream if isasyncgenfunction(method) else call
    reporting.reports = True
    return reporting  # type: ignore[no-any-return]  # it has the signature of the method
