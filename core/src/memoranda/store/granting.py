"""What a handle needs to look up grants: the plugin that knows them, and what its layers stand on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.plugins.registry import default_registry
from memoranda.store.engine import Layer
from memoranda.store.scope_layer import ScopeLayer
from memoranda.store.spaces import Spaces
from memoranda.trust import Trust


class Surroundings(NamedTuple):
    """What a layer around a scope is given.

    ``own`` is the layer of the scope. ``beside`` answers requests in any scope, without observers. ``spaces`` are those
    that the handle reaches. ``expires`` takes note of an item that is given an end on its way.
    """

    own: ScopeLayer
    beside: Layer
    spaces: Spaces | None
    expires: Callable[[MemoryItem], None]


class Granting(Protocol):
    """The plugin that knows what is granted, such as memoranda-spaces. It observes the store."""

    def reading_layer(self, around: Surroundings) -> Layer:
        """Return the layer of a handle that reads spaces beside its own scope."""
        ...

    def space_layer(self, of: MemoryMetadata, around: Surroundings) -> Layer:
        """Return the layer of a handle that is bound to a space; ``of`` is the scope of whoever uses it."""
        ...

    def stamps(self, of: MemoryMetadata, trust: Trust | None) -> tuple[Trust, str]:
        """Return the trust and the origin of what somebody writes into a space."""
        ...


@runtime_checkable
class ChecksGrants(Protocol):
    """A layer that lets pass what is granted, such as that of a handle which is bound to a space by a grant."""

    async def check_grant(self, may: str) -> None:
        """Raise NotGrantedError unless as much is granted now: ``"read"``, ``"write"`` or ``"manage"``."""
        ...


def granting(root: Any) -> Granting:
    """Return the observer of a store that knows grants. Raises PluginNotFoundError if none is installed."""
    for observer in root.observers:
        if hasattr(observer, "reading_layer"):
            known: Granting = observer
            return known
    made: Any = default_registry().observer("spaces")
    root.observe(made)
    return granting(root)
