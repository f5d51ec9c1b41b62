"""What a store can do, as it declares it and as the conformance kit tests it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

SearchMode = Literal["substring", "text", "semantic", "hybrid"]
"""How a query is understood; ``substring`` is a filter, the others rank."""

Access = Literal["create", "change", "read"]
"""What a store is opened for; only ``create`` makes one that is not there, and ``read`` writes nothing at all."""


class Capability(StrEnum):
    """What a store can do. The first six come with the base class; the others are declared."""

    LIFECYCLE = "lifecycle"
    ADD_MANY = "add_many"
    COUNT = "count"
    UPDATE = "update"
    SCAN = "scan"
    TEXT = "text"
    PERSISTENT = "persistent"
    ATOMIC = "atomic"
    DELETE = "delete"
    ADD_DELETED = "add_deleted"
    PURGE = "purge"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"
    TTL = "ttl"
    FORK = "fork"


BASE_CAPABILITIES = frozenset(
    {
        Capability.LIFECYCLE,
        Capability.ADD_MANY,
        Capability.COUNT,
        Capability.UPDATE,
        Capability.SCAN,
        Capability.TEXT,
    }
)
