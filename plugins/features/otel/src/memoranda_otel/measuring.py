"""An observer that measures the public calls of a store and of its handles."""

from __future__ import annotations

from abc import ABC, abstractmethod

from memoranda.store import Observer, Store
from memoranda.store.calls import Call, End, measure

__all__ = ["Call", "Measuring"]


class Measuring(Observer, ABC):
    """An observer that measures: it is told of calls, and of nothing else.

    What :meth:`around`, or what it returned, raises is logged and changes nothing. Of two that are equal, a store has
    the first.
    """

    only_removals = True  # A store need not prepare anything for the methods of observers that change items.

    @abstractmethod
    def around(self, call: Call) -> End | None:
        """Take note of a call before it begins; return what to call when it has ended, or None to ignore it."""

    def attached(self, store: Store) -> None:
        """Let a store or handle report its calls here, each once."""
        if not any(getattr(around, "__self__", None) == self for around in store.measured_by):
            measure(store, self.around)
