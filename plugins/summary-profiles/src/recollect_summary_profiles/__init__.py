"""Recollect's summary template that learns what people are like and what they prefer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect_summary_profiles.template import ProfilesTemplate


def __getattr__(attribute: str) -> Any:
    # Loaded on first use: finding plugins imports this package and should cost nothing.
    if attribute == "ProfilesTemplate":
        from recollect_summary_profiles.template import ProfilesTemplate

        return ProfilesTemplate
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")


__all__ = ["ProfilesTemplate"]
