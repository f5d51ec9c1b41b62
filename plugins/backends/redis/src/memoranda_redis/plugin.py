"""The plugin hooks of memoranda-redis; nothing is imported before it is used."""

from __future__ import annotations

from memoranda.plugins import Backend, ItemTypeSpec, hookimpl


@hookimpl
def memoranda_backends() -> list[Backend]:
    """Offer the Redis store."""
    return [
        Backend(
            "redis",
            schemes=("redis", "rediss", "redis+cluster", "rediss+cluster"),
            target="memoranda_redis.store:RedisMemoryStore",
            api=1,
            summary="In Redis or a Redis Cluster; items may have a time to live.",
        )
    ]


@hookimpl
def memoranda_item_types() -> list[ItemTypeSpec]:
    """Offer the interactions of an agent."""
    return [
        ItemTypeSpec(
            "episodic",
            target="memoranda_redis.episodic:EpisodicMemory",
            api=1,
            summary="One interaction of an agent, with its platform.",
        )
    ]
