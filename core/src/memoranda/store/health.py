"""What a store finds when it looks at its own health: ``memoranda doctor`` shows these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

Progress = Callable[[int, int], None]
"""Called now and then with the number of items done and of all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``remedy`` says what to do about it where ``ok`` is false."""

    name: str
    ok: bool
    detail: str = ""
    remedy: str = ""


@runtime_checkable
class Examinable(Protocol):
    """A store that can examine itself. With ``repair`` it also mends what it can do without losing anything."""

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Return what was looked at, in a useful order; after a repair, as it is now."""
        ...


@runtime_checkable
class Reindexable(Protocol):
    """A store that can build its search indexes again from what is stored."""

    async def reindex(self, progress: Progress | None = None) -> int:
        """Build the indexes again and return the number of items in them; a store may leave ``progress`` out."""
        ...


@runtime_checkable
class Erasing(Protocol):
    """A store whose engine may keep what was purged on its disk for a while, and that knows whether it does."""

    async def unerased(self) -> str:
        """Return why what was purged is not off the disk yet, as a sentence; empty if it is."""
        ...

    async def erase(self) -> str:
        """Do now what takes long, such as writing a file anew, and return what :meth:`unerased` then says."""
        ...
