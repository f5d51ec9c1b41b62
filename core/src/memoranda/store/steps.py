"""The steps of a request: waiting for a connection, a statement, embedding.

An engine marks the methods that do them with :func:`step`. They are reported to whatever watches the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from memoranda.store.calls import End

P = ParamSpec("P")
T = TypeVar("T")

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
