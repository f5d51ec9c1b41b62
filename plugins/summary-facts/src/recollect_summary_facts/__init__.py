"""Recollect's summary template that extracts facts with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect_summary_facts.template import FactsTemplate


def __getattr__(attribute: str) -> Any:
    # Loaded on first use: finding plugins imports this package and should cost nothing.
    if attribute == "FactsTemplate":
        from recollect_summary_facts.template import FactsTemplate

        return FactsTemplate
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")


__all__ = ["FactsTemplate"]
