"""Ranked search: words, neighbours, speakers, dates and meaning, for every backend.

``__init__.pyi`` lists the names. Each is imported when it is first used: plugins are listed far more often than used.
"""

from __future__ import annotations

from memoranda.lazy import lazy_names, names_of_stub

_names = names_of_stub(__file__)

__getattr__, __dir__ = lazy_names(__name__, _names)

__all__ = [name for names in _names.values() for name in names]
