"""Memoranda's observer that hashes personal data before it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_redact.redactor import Redactor

__all__ = ["Redactor"]

__getattr__, __dir__ = lazy_names(__name__, {"redactor": ["Redactor"]})
