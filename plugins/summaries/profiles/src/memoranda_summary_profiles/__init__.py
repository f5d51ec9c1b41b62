"""Memoranda's summary template that learns what people are like and what they prefer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_summary_profiles.template import ProfilesTemplate

# Listing plugins imports this package, so the template waits for its first use.
__getattr__, __dir__ = lazy_names(__name__, {"template": ["ProfilesTemplate"]})

__all__ = ["ProfilesTemplate"]
