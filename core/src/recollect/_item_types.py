"""The classes of item types, where plugins offer further ones."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from recollect.errors import PluginError, PluginNotFoundError
from recollect.hookspecs import ItemTypeSpec
from recollect.items import BUILTIN_TYPES, MemoryItem

if TYPE_CHECKING:
    from recollect.plugins import Registry

logger = logging.getLogger(__name__)


class ItemTypes(Mapping[str, type[MemoryItem]]):
    """Item types by name. One whose plugin fails is as good as not installed: its items keep every field."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._loaded: dict[str, type[MemoryItem]] = dict(BUILTIN_TYPES)

    def __getitem__(self, name: str) -> type[MemoryItem]:
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        found = self._loaded[name]
        if found is MemoryItem:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter({*BUILTIN_TYPES, *(spec.name for spec in self._registry.specs(ItemTypeSpec))})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _load(self, name: str) -> type[MemoryItem]:
        try:
            loaded = self._registry.load(self._registry.find(ItemTypeSpec, name))
        except PluginNotFoundError:
            return MemoryItem
        except PluginError as error:
            logger.warning("Items of type %r are read as plain items: %s", name, error)
            return MemoryItem
        return loaded if isinstance(loaded, type) and issubclass(loaded, MemoryItem) else MemoryItem
