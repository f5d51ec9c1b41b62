"""Checkpoints before a checkpoint: what is read from them, and which of them a thread still needs.

Stored parents may lead in a circle: whoever puts a checkpoint names its parent. Every walk comes to each of them once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol

from memoranda.items import MemoryItem
from memoranda_langgraph.records import Spot, decoded


async def delta_history(
    read: Callable[[RunnableConfig], Awaitable[CheckpointTuple | None]],
    config: RunnableConfig,
    channels: Sequence[str],
) -> dict[str, DeltaChannelHistory]:
    """Return what was written to channels before a checkpoint, back to where each was last stored whole."""
    writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    seeds: dict[str, Any] = {}
    found = await read(config) if channels else None
    seen: set[str | None] = set()
    while found is not None and found.parent_config is not None and len(seeds) < len(writes):
        seen.add(_id_of(found.config))
        if _id_of(found.parent_config) in seen:
            break
        found = await read(found.parent_config)
        if found is None:
            break
        for write in reversed(found.pending_writes or []):
            if write[1] in writes and write[1] not in seeds:
                writes[write[1]].append(write)
        values = found.checkpoint["channel_values"]
        seeds.update({channel: values[channel] for channel in writes if channel in values and channel not in seeds})
    history: dict[str, DeltaChannelHistory] = {}
    for channel in writes:
        history[channel] = {"writes": writes[channel][::-1]}
        if channel in seeds:
            history[channel]["seed"] = seeds[channel]
    return history


def _id_of(config: RunnableConfig) -> str | None:
    return Spot.of(config).checkpoint


def needed(serde: SerializerProtocol, lane: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the latest of a lane's checkpoints, which come oldest first, and those that its channels are read from."""
    by_id = {Spot.at(item).checkpoint: item for item in lane}
    item = by_id.pop(Spot.at(lane[-1]).checkpoint, None)
    found: list[MemoryItem] = []
    open_channels = set(decoded(serde, lane[-1], "metadata").get("counters_since_delta_snapshot") or ())
    while item is not None and (not found or open_channels):
        found.append(item)
        open_channels -= set(decoded(serde, item, "checkpoint")["channel_values"])
        item = by_id.pop(Spot.at(item).parent, None)
    return found
