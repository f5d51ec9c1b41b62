"""Memoranda's inspector: see in a browser what an agent remembers, and why a model was shown it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_inspector.app import Inspector, create_app

__all__ = ["Inspector", "create_app"]

__getattr__, __dir__ = lazy_names(__name__, {"app": ["Inspector", "create_app"]})
