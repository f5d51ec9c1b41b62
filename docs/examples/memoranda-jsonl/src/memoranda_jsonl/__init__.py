"""Memories in a JSON Lines file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_jsonl.store import JsonLinesStore

# Listing plugins imports this package, so the store waits for its first use.
__getattr__, __dir__ = lazy_names(__name__, {"store": ["JsonLinesStore"]})

__all__ = ["JsonLinesStore"]
