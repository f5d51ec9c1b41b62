"""What this distribution adds to recollect. Nothing is imported before it is used."""

from __future__ import annotations

from recollect.hookspecs import Backend, ItemTypeSpec, hookimpl


@hookimpl
def recollect_backends() -> list[Backend]:
    """Offer the Redis store."""
    return [
        Backend(
            "redis",
            schemes=("redis", "rediss", "redis+cluster", "rediss+cluster"),
            target="recollect_redis.store:RedisMemoryStore",
            api=1,
            summary="In Redis or a Redis Cluster; items may have a time to live.",
        )
    ]


@hookimpl
def recollect_item_types() -> list[ItemTypeSpec]:
    """Offer the interactions of an agent."""
    return [
        ItemTypeSpec(
            "episodic",
            target="recollect_redis.episodic:EpisodicMemory",
            api=1,
            summary="One interaction of an agent, with its platform.",
        )
    ]
