"""Keep the event loop responsive while many items are processed.

Work on a snapshot runs in a thread, which Python interrupts every few milliseconds. Changes stay on the loop, where
they need no locks, and are made in slices.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from importlib import import_module
from typing import ParamSpec, TypeVar

ITEMS_PER_TURN = 500
"""Items read or checked in one turn: a few milliseconds of work, too little to be worth a thread. Larger arguments are
copied, so that the caller may change them while a thread works."""

ITEMS_FILTERED_PER_TURN = 2_000
"""Items compared with a filter in one turn; filtering takes a fraction of the work of ranking."""

ITEMS_RANKED_PER_TURN = 3_000
"""Items ranked in one turn if their words are known: arrays are compared in a few milliseconds."""

ITEMS_CHANGED_PER_TURN = 200
"""Items changed in one turn."""

TEXTS_EMBEDDED_PER_TURN = 100
"""Short texts embedded in one turn by an embedder that runs in the process."""

LETTERS_SPLIT_PER_TURN = 25_000
"""Characters divided into words in one turn."""

LETTERS_SEARCHED_PER_TURN = 1_000_000
"""Characters searched for a substring in one turn."""

_A_FEW, _BRIEF = 10, 0.003
_BREATH = 0.0001
"""How many seconds a thread sleeps to give way: long enough for another one to take the interpreter."""

P = ParamSpec("P")
T = TypeVar("T")


async def offload(size: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run the work at once for a few items, in a thread for many, and return its result.

    The work is given all that it needs and changes nothing that others see. When the caller is cancelled, a thread goes
    on to its end and its result is dropped.
    """
    if size <= ITEMS_PER_TURN:
        return work(*arguments, **named)
    return await asyncio.to_thread(work, *arguments, **named)


async def import_in_thread(module: str) -> None:
    """Import a module in a thread, unless it is imported already: a large one would block the event loop."""
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
    texts = iter(new)
    while weight + word_weight(letters) <= ITEMS_PER_TURN:
        text = next(texts, None)
        if text is None:
            break
        weight, letters = weight + 1, letters + len(text)
    return weight + word_weight(letters)


def give_way() -> None:
    """Let other threads run; long work in a thread calls this every few milliseconds.

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
