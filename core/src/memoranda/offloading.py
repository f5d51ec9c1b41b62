"""The event loop's turns: nothing that looks at many items may keep others waiting for long.

Work on a snapshot goes into a thread, which Python makes give way every few milliseconds. Changes stay on the loop,
where they need no locks, and are made in slices.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from importlib import import_module
from typing import ParamSpec, TypeVar

ITEMS_PER_TURN = 500
"""How many items are looked at, or checked before they are stored, in one turn: a few milliseconds of work, and less
than a thread is worth. Larger arguments are copied, so that the caller may change them while a thread works on."""

ITEMS_FILTERED_PER_TURN = 2_000
"""How many items are asked in one turn whether they match a filter, which is a fraction of the work of ranking them."""

ITEMS_RANKED_PER_TURN = 3_000
"""How many items are ranked in one turn whose words are known: arrays are compared in a few milliseconds."""

ITEMS_CHANGED_PER_TURN = 200
"""How many items are changed in one turn."""

TEXTS_EMBEDDED_PER_TURN = 100
"""How many short texts are embedded in one turn by an embedder that works in the process."""

LETTERS_SPLIT_PER_TURN = 25_000
"""How much text is divided into words in one turn."""

LETTERS_SEARCHED_PER_TURN = 1_000_000
"""How much text is searched for a substring in one turn."""

_A_FEW, _BRIEF = 10, 0.003
_BREATH = 0.0001
"""How many seconds a thread sleeps to give way: long enough for another one to take the interpreter."""

P = ParamSpec("P")
T = TypeVar("T")


async def offload(size: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Return what the work returns: done at once for a few items, in a thread for many.

    The work is given all that it needs and changes nothing that others see. When the caller is cancelled, a thread goes
    on to its end and its result is dropped.
    """
    if size <= ITEMS_PER_TURN:
        return work(*arguments, **named)
    return await asyncio.to_thread(work, *arguments, **named)


async def import_in_thread(module: str) -> None:
    """Import a module in a thread, unless that was done: one that is only needed at times may take a while."""
    found = sys.modules.get(module)
    if found is None or getattr(found.__spec__, "_initializing", False):  # Another thread is in the middle of it.
        await asyncio.to_thread(import_module, module)


def filter_weight(count: int) -> int:
    """Return the weight of filtering ``count`` items, for :func:`offload`."""
    return count * ITEMS_PER_TURN // ITEMS_FILTERED_PER_TURN


def word_weight(letters: int) -> int:
    """Return the weight of dividing a text of so many letters into words, for :func:`offload`."""
    return letters * ITEMS_PER_TURN // LETTERS_SPLIT_PER_TURN


def ranking_weight(count: int, new: Iterable[str]) -> int:
    """Return the weight of ranking ``count`` items, for :func:`offload`; ``new`` texts are divided into words first.

    The texts are read only as far as decides it: to measure all texts of a large scope would hold the loop, too.
    """
    weight, letters = count * ITEMS_PER_TURN // ITEMS_RANKED_PER_TURN, 0
    for text in new:
        if weight + word_weight(letters) > ITEMS_PER_TURN:
            break
        weight, letters = weight + 1, letters + len(text)
    return weight + word_weight(letters)


def give_way() -> None:
    """Let other threads have their turn. For long work in a thread, every few milliseconds.

    Python takes the interpreter from a thread only after five milliseconds, and never within one call of C code.
    """
    time.sleep(_BREATH)


async def in_slices(items: Sequence[T], size: int) -> AsyncGenerator[Sequence[T], None]:
    """Yield the items in slices, with a turn of the event loop between two of them."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]


async def in_short_steps(items: Sequence[T]) -> AsyncGenerator[Sequence[T], None]:
    """Yield the items a few at a time, with a turn of the event loop whenever a few milliseconds have passed."""
    began = time.perf_counter()
    for start in range(0, len(items), _A_FEW):
        if time.perf_counter() - began > _BRIEF:
            await asyncio.sleep(0)
            began = time.perf_counter()
        yield items[start : start + _A_FEW]
