"""Observers that measure what a store does: a function around every public call of it and of its handles."""

from __future__ import annotations

from memoranda.store.calls import Call
from memoranda_measuring.measuring import Measuring

__all__ = ["Call", "Measuring"]
