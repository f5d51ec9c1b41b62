"""Expectations whose failures read as sentences, inside pytest and outside it."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from memoranda.items import MemoryItem

_SHOWN = 300


class ExpectationError(AssertionError):
    """A store did not do what the contract says."""


class NotReachedError(Exception):
    """A case could not be played to its end, so it says neither that the store is right nor that it is wrong.

    A store conforms only if every case was played to its end.
    """


class SkipCase(Exception):  # noqa: N818  # not an error: a case that does not apply, with the reason
    """A case that does not apply to this store; the message says why."""


def with_sentence(reason: str, case: Any) -> str:
    """Return why a case failed, with the sentence of the contract that it tests, unless the reason names one."""
    if "The contract, " in reason:
        return reason
    return f"{reason}\nThe contract, {tested(case)}"


def tested(case: object) -> str:
    """Return the sentence of the contract that a case tests: the first line of its docstring."""
    documented = (inspect.getdoc(case) or "").split("\n", 1)[0]
    return f"as this case tests it: “{documented}”"


def shown(value: Any) -> str:
    """Return a short form of a value for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def that(condition: object, what: str) -> None:
    """Fail with this sentence unless the condition holds."""
    if not condition:
        raise ExpectationError(what)


def equal(found: Any, wanted: Any, what: str) -> None:
    """Fail unless both are equal; ``what`` names what was checked."""
    if found != wanted:
        raise ExpectationError(f"{what}: {_difference(found, wanted)}")


def _difference(found: Any, wanted: Any) -> str:
    """Return how two values differ: of lists that are too long to be shown, from where on."""
    is_long = max(len(repr(wanted)), len(repr(found))) > _SHOWN
    if not (is_long and isinstance(wanted, list) and isinstance(found, list)):
        return f"expected {shown(wanted)}, found {shown(found)}."
    least = min(len(wanted), len(found))
    at = next((place for place in range(least) if wanted[place] != found[place]), least)
    parts = [shown(each[at : at + 3]) for each in (wanted, found)]
    lengths = f"{len(wanted)} elements are expected and {len(found)} were found"
    return f"{lengths}; from position {at} on expected {parts[0]}, found {parts[1]}."


def contents(items: Iterable[MemoryItem]) -> list[str]:
    """Return the contents of the items, in their order."""
    return [item.content for item in items]


def same_item(found: MemoryItem | None, wanted: MemoryItem, what: str, *, version: int | None = None) -> None:
    """Fail unless the store returned this item: same class, same fields, and the version if it is given."""
    if found is None:
        raise ExpectationError(f"{what}: the item {wanted.id!r} is not there.")
    that(type(found) is type(wanted), f"{what}: expected a {type(wanted).__name__}, found {type(found).__name__}.")
    # Dumped by pydantic, not by our codec: a codec that loses a field would lose it on both sides.
    after, before = found.model_dump(mode="json"), wanted.model_dump(mode="json")
    for name in sorted(before.keys() | after.keys()):
        if name == "version":
            continue
        that(name in after, f"{what}: the field {name!r} was lost.")
        that(name in before, f"{what}: the field {name!r} came from nowhere.")
        exactly(after[name], before[name], f"{what}: field {name!r}")
    if version is not None:
        equal(found.version, version, f"{what}: version")


def exactly(found: Any, wanted: Any, what: str) -> None:
    """Fail unless two JSON values are the same: true is not 1, 1 is not 1.0, 0.0 is not -0.0; keys have an order."""
    that(type(found) is type(wanted), f"{what}: expected {shown(wanted)}, found {shown(found)}.")
    if isinstance(wanted, dict):
        equal(list(found), list(wanted), f"{what} keys")
        for key in wanted:
            exactly(found[key], wanted[key], f"{what}[{key!r}]")
    elif isinstance(wanted, list):
        equal(len(found), len(wanted), f"{what} length")
        for position, pair in enumerate(zip(found, wanted, strict=True)):
            exactly(*pair, f"{what}[{position}]")
    else:
        equal(found, wanted, what)
        if isinstance(wanted, float):
            equal(math.copysign(1, found), math.copysign(1, wanted), f"{what} sign")


@asynccontextmanager
async def within(seconds: float, what: str) -> AsyncIterator[None]:
    """Raise NotReachedError if the block takes longer; a TimeoutError of the store's own passes through.

    That a call is slow proves nothing: it may wait for a lock that nobody gives back, or for a busy machine.
    """
    waiting = asyncio.timeout(seconds)
    try:
        async with waiting:
            yield
    except TimeoutError:
        if not waiting.expired():
            raise
        raise not_ended(what, seconds) from None


def not_ended(what: str, seconds: float) -> NotReachedError:
    """Return the error of something that has not ended after so many seconds."""
    return NotReachedError(
        f"{what} did not end within {seconds:g} seconds. It may wait for a lock, a connection or a slot of a pool that "
        f"is never given back. If it is only slow, run the kit with a longer timeout."
    )


class Raised:
    """What a block raised; see :func:`raises`."""

    error: Any = None


@contextmanager
def raises(kind: type[Exception] | tuple[type[Exception], ...], what: str) -> Iterator[Raised]:
    """Fail unless the block raises such an error; any other exception counts as the wrong one."""
    names = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
    raised = Raised()
    try:
        yield raised
    except kind as error:
        raised.error = error
        return
    except (SkipCase, ExpectationError, NotReachedError):
        raise
    except Exception as error:
        raise ExpectationError(f"{what}: expected {names}, but {type(error).__name__} was raised: {error}") from error
    raise ExpectationError(f"{what}: expected {names}, but nothing was raised.")
