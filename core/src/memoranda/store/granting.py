"""What a handle needs to look up grants: the plugin that knows them, and what its layers stand on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from memoranda.errors import PluginNotFoundError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.plugins.registry import default_registry
from memoranda.store.engine import Layer
from memoranda.store.filters import Filter, Page
from memoranda.store.owners import DIRECTORY, Spaces
from memoranda.store.requests import items_where
from memoranda.store.scope_layer import ScopeLayer
from memoranda.trust import Trust

logger = logging.getLogger(__name__)


class Surroundings(NamedTuple):
    """What a layer around a scope is given.

    ``own`` is the layer of the scope. ``beside`` answers requests in any scope, without observers. ``spaces`` are those
    that the handle reaches.
    """

    own: ScopeLayer
    beside: Layer
    spaces: Spaces | None


class Granting(Protocol):
    """The plugin that knows what is granted, such as memoranda-spaces. It observes the store."""

    def reading_layer(self, around: Surroundings) -> Layer:
        """Return the layer of a handle that reads spaces beside its own scope."""
        ...

    def space_layer(self, of: MemoryMetadata, around: Surroundings) -> Layer:
        """Return the layer of a handle that is bound to a space; ``of`` is the scope of its user."""
        ...

    def stamps(self, of: MemoryMetadata, trust: Trust | None) -> tuple[Trust, str]:
        """Return the trust and the origin for what a user writes into a space."""
        ...

    async def readers(self, item: MemoryItem) -> Sequence[tuple[str, str, str | None]]:
        """Return who can read an item now: their names, each with the reason, and when that ends."""
        ...


@runtime_checkable
class ChecksGrants(Protocol):
    """A layer that passes only granted requests, such as that of a handle bound to a space by a grant."""

    async def check_grant(self, may: str) -> None:
        """Raise NotGrantedError unless the level ``"read"``, ``"write"`` or ``"manage"`` is granted now."""
        ...


async def follow_grants(root: Any) -> None:
    """Let the plugin observe a store that has grants, so that it withdraws what depends on what is purged.

    A store that :func:`memoranda.open` made is observed already. Without the plugin, what depends on it stays.
    """
    if any(hasattr(observer, "reading_layer") for observer in root.observers):
        return
    records = Filter(metadata=MemoryMetadata(user_id=DIRECTORY), archived=None)
    if await root.unobserved.read(items_where(records, Page(1))):
        try:
            granting(root)
        except PluginNotFoundError:
            logger.warning("Items are purged from a store with spaces, and memoranda-spaces is not there to follow it.")


def granting(root: Any) -> Granting:
    """Return the observer of a store that knows grants. Raises PluginNotFoundError if none is installed."""
    for observer in root.observers:
        if hasattr(observer, "reading_layer"):
            known: Granting = observer
            return known
    made: Any = default_registry().observer("spaces")
    root.observe(made)
    return granting(root)
