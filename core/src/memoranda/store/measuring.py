"""Reports calls to observers that measure, by giving a store a class whose methods do so: others pay nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import cache, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, signature
from typing import Any

from memoranda.plugins.observers import Call
from memoranda.store.observers import log_failure


def measure(store: Any) -> None:
    """Report the public calls of a store or handle to its observers that measure, if there are any."""
    store._arounds = store._observers.arounds
    if store._arounds and not hasattr(store.search, "reports"):
        store.__class__ = _measured(store.__class__)


@cache
def _measured(cls: Any) -> Any:
    methods = {name: getattr(cls, name) for name in dir(cls) if not name.startswith("_")}
    calls = {name: each for name, each in methods.items() if iscoroutinefunction(each) or isasyncgenfunction(each)}
    reported = {name: _reported(each, list(signature(each).parameters)[1:]) for name, each in calls.items()}
    return type(cls)(cls.__name__, (cls,), {"__module__": cls.__module__, **reported})


def _told(functions: list[Any], *given: Any) -> list[Any]:
    """Call each function, and return what is to be called later. What one raises is logged and changes nothing."""
    returned = []
    for function in functions:
        try:
            if (later := function(*given)) is not None:
                returned.append(later)
        except Exception as error:  # noqa: BLE001 - a mistake of an observer must not hide what a store does
            log_failure(function, error)
    return returned


def _reported(method: Any, names: list[str]) -> Any:
    @wraps(method)
    async def call(self: Any, *given: Any, **named: Any) -> Any:
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

    reported: Any = stream if isasyncgenfunction(method) else call
    reported.reports = True
    return reported
