"""What a store keeps of the scopes that were searched last, up to a number of bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

ScopeT = TypeVar("ScopeT")


class KeptScopes(Generic[ScopeT]):
    """Scopes by what a search asks of them. Several threads may use it."""

    def __init__(self) -> None:
        self._scopes: dict[Hashable, ScopeT] = {}
        self._sizes: dict[Hashable, int] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Drop everything: it may hold purged content."""
        with self._lock:
            self._scopes, self._sizes = {}, {}

    def of(self, key: Hashable, make: Callable[[], ScopeT]) -> ScopeT:
        """Return the scope of a key, made if it is not kept."""
        with self._lock:
            scope = self._scopes.pop(key) if key in self._scopes else make()
            self._scopes[key] = scope  # The most recently searched one is last.
            return scope

    def measured(self, key: Hashable, scope: ScopeT, size: int, most: int) -> None:
        """Note the bytes of a scope; while all take more than ``most``, drop the least recently searched others."""
        with self._lock:
            if self._scopes.get(key) is not scope:
                return
            self._sizes[key] = size
            held = sum(self._sizes.values())
            for other in [each for each in self._scopes if each != key]:
                if held <= most:
                    break
                del self._scopes[other]
                held -= self._sizes.pop(other, 0)
