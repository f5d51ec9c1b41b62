"""Memoranda's summary template that extracts key points with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_summary_facts.template import FactsTemplate

# Listing plugins imports this package, so the template waits for its first use.
__getattr__, __dir__ = lazy_names(__name__, {"template": ["FactsTemplate"]})

__all__ = ["FactsTemplate"]
