"""The classes of item types: the core's and those that plugins offer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from memoranda.errors import PluginError
from memoranda.items import BUILTIN_TYPES, MemoryItem

logger = logging.getLogger(__name__)

_BUILTIN = frozenset(BUILTIN_TYPES.values())


class ItemTypes(Mapping[str, type[MemoryItem]]):
    """Item types by name: the core's, and those that plugins offer, which ``load`` imports on first use.

    A type whose plugin fails counts as not installed: its items keep every field.
    """

    def __init__(self, offered: Iterable[str], load: Callable[[str], Any]) -> None:
        self._load = load
        self._classes: dict[str, type[MemoryItem] | None] = {**dict.fromkeys(offered), **BUILTIN_TYPES}

    def __getitem__(self, name: str) -> type[MemoryItem]:
        found = self._classes[name]
        if found is None:
            found = self._classes[name] = self._loaded(name)
        if found is MemoryItem:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """Return the class of a name, or the default; called for every item that is read."""
        found = self._classes.get(name, default)
        return found if found is default or found in _BUILTIN else super().get(name, default)

    def __iter__(self) -> Iterator[str]:
        return (name for name in list(self._classes) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _loaded(self, name: str) -> type[MemoryItem]:
        try:
            loaded = self._load(name)
        except PluginError as error:
            logger.warning("Items of type %r are read as plain items: %s", name, error)
            return MemoryItem
        return loaded if isinstance(loaded, type) and issubclass(loaded, MemoryItem) else MemoryItem
