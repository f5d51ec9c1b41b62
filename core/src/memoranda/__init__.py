"""memoranda: memory for agents. Items, filters and windows here; everything else comes as plugins.

``__init__.pyi`` lists the names. Each is imported when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from memoranda.lazy import lazy_names, names_of_stub

__version__ = "0.1.0"


def _where(name: str) -> str:
    from memoranda.plugins.installing import where_to_import

    return where_to_import(name)


_names = names_of_stub(__file__)

__getattr__, __dir__ = lazy_names(
    __name__,
    _names,
    modules=(
        *("embeddings", "errors", "history", "integrity", "items", "lazy", "opening", "plugins", "shapes", "store"),
        *("sync", "tokens", "tool_calls", "loops", "urls", "windowing"),
    ),
    hint=_where,
)

__all__ = ["__version__", *(name for names in _names.values() for name in names)]
