"""What calls did, as text: for programs in which more than one answer is right."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from typing import Any

from memoranda.items import BUILTIN_TYPES, MemoryItem
from memoranda_testing.model.answers import Answer, Seen, SeenRank, seen
from memoranda_testing.model.reference import AtMost


async def outcome(*calls: Awaitable[Any] | AsyncIterator[Any]) -> list[str]:
    """Make calls at once, then read those that yield, and return what each answered: a value, or an error's name."""
    answers = iter(await asyncio.gather(*filter(inspect.isawaitable, calls), return_exceptions=True))
    return [told(next(answers) if inspect.isawaitable(call) else await _read(call)) for call in calls]


async def _read(yielding: AsyncIterator[Any]) -> Any:
    try:
        return [each async for each in yielding]
    except Exception as error:  # noqa: BLE001  # whatever a store raises is an answer
        return error


def told(answer: Any) -> str:
    """Return an answer as text that is the same for equal answers alone."""
    if isinstance(answer, BaseException):
        return type(answer).__name__
    return _text(seen(answer))


def outcomes(possible: Sequence[Sequence[Answer]]) -> list[list[str]]:
    """Return what :func:`outcome` may return, if the calls may answer so."""
    found = [list(each) for answers in possible for each in itertools.product(*map(_texts, answers))]
    return [each for place, each in enumerate(found) if each not in found[:place]]


def _texts(answer: Answer) -> Iterator[str]:
    if answer.errors:
        yield from dict.fromkeys(answer.errors)
    elif isinstance(answer.value, AtMost):
        yield from map(repr, range(answer.value.number + 1))
    else:
        yield _text(answer.value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, SeenRank):
        return f"{_text(value.item)} at {value.score:.6f}"
    if isinstance(value, Seen):
        fields = [f"{name}={inner!r}" for name, inner in telling_fields(value.values).items()]
        return f"{value.kind}({', '.join(fields)})"
    return repr(value)


def telling_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the id of an item, and the fields that differ from those of an empty one of its type."""
    kind = BUILTIN_TYPES.get(values["memory_type"], MemoryItem)
    blank = kind(id="x", content="", created_at="0001-01-01", updated_at=values["created_at"])
    empty = seen(blank).values
    told_apart = {name: value for name, value in values["metadata"].items() if repr(value) not in ("None", "()", "{}")}
    fields = {**values, "metadata": told_apart}
    return {name: value for name, value in fields.items() if name == "id" or repr(value) != repr(empty.get(name))}
