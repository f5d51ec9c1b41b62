"""Names that a package imports on first use.

A plugin's package is imported whenever plugins are listed, so its ``__init__`` must not import a driver. It can still
offer its classes, or, with ``names_of_stub(__file__)``, all that an ``__init__.pyi`` beside it lists:

    __getattr__, __dir__ = lazy_names(__name__, {"store": ["PaperStore"]})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any


def lazy_names(
    package: str,
    homes: Mapping[str, Iterable[str]],
    modules: Iterable[str] = (),
    hint: Callable[[str], str] = lambda name: "",
    extras: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package whose names live in these modules of it.

    A module whose name contains a dot is taken as it is, any other as a module of the package. ``modules`` are those of
    the package that are public themselves. ``dir()`` then lists all of these and what is in ``__all__``, no more.
    ``hint`` returns what the AttributeError says about any other name, such as where to find it. ``extras`` says what
    to install for packages that only some of the names need: leave those names out of ``__all__``, since a star import
    must not need them.
    """
    home_of = {name: home if "." in home else f"{package}.{home}" for home, names in homes.items() for name in names}
    public = frozenset(modules)

    def get_name(name: str) -> Any:
        if name in public:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}. {hint(name)}".rstrip(". "))
        try:
            found = getattr(import_module(home_of[name]), name)
        except ModuleNotFoundError as error:
            extra = next((extras[other] for other in extras if f"{error.name}.".startswith(f"{other}.")), None)
            if extra is None:
                raise
            said = f"{name} needs {error.name}, which is not installed. Try: pip install '{extra}'"
            raise ModuleNotFoundError(said, name=error.name) from None
        setattr(sys.modules[package], name, found)  # The next use finds it without this function.
        return found

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]).get("__all__", ()), *home_of, *public})

    return get_name, list_names


def names_of_stub(file: str) -> dict[str, list[str]]:
    """Return what the stub of a package imports, by module: lines like ``from package.module import Name as Name``."""
    homes: dict[str, list[str]] = {}
    with open(f"{file}i", encoding="utf-8") as stub:  # noqa: PTH123 - importing pathlib takes longer than all the rest
        for line in stub:
            if line.startswith("from "):
                _, home, _, name, *_ = line.split()
                homes.setdefault(home, []).append(name)
    return homes
