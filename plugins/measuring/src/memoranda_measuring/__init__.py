"""Observers that measure what a store does."""

from __future__ import annotations

from memoranda_measuring.measuring import Call, Measuring

__all__ = ["Call", "Measuring"]
