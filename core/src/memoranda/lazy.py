"""Names that a package imports when they are first used.

A plugin's package is imported whenever plugins are listed, so its ``__init__`` must not import a driver. It can still
offer its classes:

    __getattr__, __dir__ = lazy_names(__name__, {"store": ["PaperStore"]})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Iterable[str]], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package whose names live in these modules of it.

    A module whose name contains a dot is taken as it is, any other as a module of the package. ``modules`` are those of
    the package that are public themselves. ``dir()`` then lists all of these and what is in ``__all__``, no more.
    """
    home_of = {name: home if "." in home else f"{package}.{home}" for home, names in homes.items() for name in names}

    public = frozenset(modules)

    def get_name(name: str) -> Any:
        if name in public:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, found)  # The next use does not come here again.
        return found

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]).get("__all__", ()), *home_of, *public})

    return get_name, list_names
