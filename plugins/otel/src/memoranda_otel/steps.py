"""The steps of a call: waiting for a connection, the statement, embedding, ranking.

A store says which of its objects do them: ``steps()`` returns pairs of an object and the methods that do a part of a
call, each with the name of the step. The object gets a class whose methods report to the observer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

End = Callable[[Any, BaseException | None], None]

Begin = Callable[[str], End | None]
"""Called with the name of a step before it begins; returns what is called at its end, or None."""


def report_steps(part: Any, steps: Mapping[str, str], begin: Begin) -> None:
    """Have an object report these methods, by name, as these steps, unless it does so already."""
    cls: Any = type(part)
    fresh = {name: step for name, step in steps.items() if not hasattr(getattr(cls, name, None), "is_step")}
    if part is not None and fresh:
        reporting = {name: _reporting(getattr(cls, name), step, begin) for name, step in fresh.items()}
        own = {"__slots__": (), "__module__": cls.__module__, **reporting}
        part.__class__ = type(cls)(cls.__name__, (cls,), own)


def _reporting(method: Any, step: str, begin: Begin) -> Any:
    @wraps(method)
    async def reported(self: Any, *given: Any, **named: Any) -> Any:
        end = begin(step)
        if end is None:
            return await method(self, *given, **named)
        try:
            result = await method(self, *given, **named)
        except BaseException as error:
            end(None, error)
            raise
        end(result, None)
        return result

    reported.is_step = True  # type: ignore[attr-defined]  # a mark
    return reported
