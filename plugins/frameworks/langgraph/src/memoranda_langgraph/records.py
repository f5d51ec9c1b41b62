"""Checkpoints and writes as items: what is stored verbatim, what can be searched, and which ancestors are needed."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from memoranda.errors import CorruptStoreError, InputError
from memoranda.items import MemoryItem, now_text, utc_text
from memoranda.shapes import check_text
from memoranda_langgraph.serializing import (
    RefusedTypeError,
    comparable,
    is_safe,
    packed,
    packed_json,
    unpacked,
    unpacked_json,
)
from memoranda_messages.payload_json import decode_payload, encode_payload

CHECKPOINT = "langgraph.checkpoint"
WRITE = "langgraph.write"

_METADATA = "metadata."
"""The prefix of a checkpoint's own metadata in ``extra``, beside the names that this module uses."""

_SMALL = 10**6

_MOST_CONDITIONS = 60
"""How many conditions on metadata the store gets at once; it accepts a few more, which other conditions need."""

_GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)


class CheckpointKey(NamedTuple):
    """Identifies a checkpoint: its thread, its namespace there, its id, and the id of its parent."""

    thread: str
    namespace: str
    checkpoint: str | None
    parent: str | None = None

    @classmethod
    def of(cls, config: RunnableConfig) -> CheckpointKey:
        """Return the key that a configuration names. Raises InputError if it names no thread."""
        named = config.get("configurable") or {}
        if named.get("thread_id") is None:
            raise InputError(
                "A checkpointer needs a thread: {'configurable': {'thread_id': …}} in the configuration.",
                field="thread_id",
            )
        checkpoint = named.get("checkpoint_id") or None  # An empty id counts as none, as in LangGraph's own savers.
        return cls(str(named["thread_id"]), str(named.get("checkpoint_ns") or ""), checkpoint and str(checkpoint))

    @classmethod
    def at(cls, item: MemoryItem) -> CheckpointKey:
        """Return the key of a stored item. Raises CorruptStoreError."""
        return cls(*_stored_parts(item, "spot", (str, str, str, (str, NoneType))))

    @property
    def extra(self) -> dict[str, Any]:
        """The key as an item stores it, and the checkpoint's id in a form that can be compared."""
        return {"spot": packed_json(self), "checkpoint_id": comparable(self.checkpoint or "")}

    @property
    def config(self) -> RunnableConfig:
        """The configuration that names the checkpoint."""
        return {
            "configurable": {
                "thread_id": self.thread,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": self.checkpoint,
            }
        }


class WriteKey(NamedTuple):
    """Identifies a write among those of its checkpoint, with the channel that it was written to."""

    task_path: str
    task_id: str
    position: int
    channel: str

    @classmethod
    def at(cls, item: MemoryItem) -> WriteKey:
        """Return the key of a stored write. Raises CorruptStoreError."""
        return cls(*_stored_parts(item, "write", (str, str, int, str)))

    @property
    def extra(self) -> dict[str, Any]:
        """The key as an item stores it."""
        return {"write": packed_json(self)}


def _stored_parts(item: MemoryItem, name: str, types: Sequence[Any]) -> Sequence[Any]:
    """Return the parts of a key that an item stores, each of its type. Raises CorruptStoreError."""
    try:
        parts: list[Any] = unpacked_json(item.metadata.extra[name])
        if all(map(isinstance, parts, types)) and len(parts) == len(types):
            return parts
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _unreadable(item) from error
    raise _unreadable(item)


def _unreadable(item: MemoryItem) -> CorruptStoreError:
    return CorruptStoreError(f"The stored item {item.id!r} cannot be read as LangGraph's.")


def encoded(serde: SerializerProtocol, values: Mapping[str, Any]) -> str:
    """Return values as a payload, each as the serializer writes it."""
    typed = {name: serde.dumps_typed(value) for name, value in values.items()}
    return encode_payload({name: [kind, packed(data)] for name, (kind, data) in typed.items()})


def decoded(serde: SerializerProtocol, item: MemoryItem, name: str) -> Any:
    """Return one of the values of an item's payload.

    Raises CorruptStoreError if it is missing, and RefusedTypeError, which says where, if its types are not allowed.
    """
    try:
        kind, data = decode_payload(item.payload or "null")[name]
        data = unpacked(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(item) from error
    try:
        value = serde.loads_typed((kind, data))
    except RefusedTypeError as error:
        place = f"The {name} in the stored item {item.id!r} of {item.metadata.session_id!r}"
        raise RefusedTypeError(error.types, place) from None
    if name != "value" and not isinstance(value, dict):
        raise _unreadable(item)
    return value


def filterable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a checkpoint's metadata that the store can search: texts, small numbers and booleans."""
    return {
        f"{_METADATA}{name}": searchable
        for name, value in metadata.items()
        if _is_searchable_name(name) and (searchable := _searchable(value)) is not None
    }


def _is_searchable_name(name: Any) -> bool:
    """Return True if the store can search by a name. One with a dot may lead into a nested value."""
    return isinstance(name, str) and name.isprintable() and is_safe(name) and "." not in name


def _searchable(value: Any) -> str | int | None:
    """Return a value as the store searches for it; None if it cannot."""
    if isinstance(value, str):
        try:
            return comparable(check_text(value, "metadata"))
        except InputError:
            return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1.0 equals 1, so each must find the other.
    return value if isinstance(value, int) and abs(value) < _SMALL else None


def conditions(wanted: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a filter on metadata into conditions for the store, and the rest, which is tested on each checkpoint."""
    where: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in wanted.items():
        searchable = _searchable(value) if _is_searchable_name(name) and len(where) < _MOST_CONDITIONS else None
        if searchable is None:
            rest[name] = value
        else:
            where[f"extra.{_METADATA}{name}"] = {"$eq": searchable}
    return where, rest


def time_of(checkpoint: Checkpoint) -> str:
    """Return when a checkpoint was made, so that checkpoints sort by time as they do by id.

    LangGraph's ids carry their time; for other ids the checkpoint's own timestamp counts.
    """
    try:
        made = uuid.UUID(checkpoint["id"])
        if made.version == 6:
            return utc_text(_GREGORIAN + timedelta(microseconds=_ticks(made) // 10))
        return utc_text(checkpoint["ts"])
    except (KeyError, ValueError, AttributeError, OverflowError):
        return _readable(checkpoint.get("ts"))


def _ticks(made: uuid.UUID) -> int:
    """Return the time of an id of version 6, in tenths of microseconds."""
    return (made.int >> 80) << 12 | (made.int >> 64) & 0xFFF


def _readable(time: Any) -> str:
    try:
        return utc_text(time)
    except ValueError:
        return now_text()


def as_tuple(serde: SerializerProtocol, item: MemoryItem, writes: Sequence[MemoryItem]) -> CheckpointTuple:
    """Return a checkpoint as LangGraph reads it, its writes in the order in which they were applied."""
    key = CheckpointKey.at(item)
    keyed = sorted([(WriteKey.at(write), write) for write in writes], key=lambda pair: writes_sort_key(*pair[0][:3]))
    return CheckpointTuple(
        config=key.config,
        checkpoint=decoded(serde, item, "checkpoint"),
        metadata=decoded(serde, item, "metadata"),
        parent_config=CheckpointKey(key.thread, key.namespace, key.parent).config if key.parent else None,
        pending_writes=[(each.task_id, each.channel, decoded(serde, write, "value")) for each, write in keyed],
    )


async def delta_history(
    read: Callable[[RunnableConfig], Awaitable[CheckpointTuple | None]],
    config: RunnableConfig,
    channels: Sequence[str],
) -> dict[str, DeltaChannelHistory]:
    """Return what was written to channels before a checkpoint, back to where each was last stored whole.

    Stored parents may form a cycle, since callers name them: every walk visits each checkpoint once.
    """
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
    return CheckpointKey.of(config).checkpoint


def needed_checkpoints(serde: SerializerProtocol, items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the latest checkpoint of a namespace and those that its channels are read from.

    ``items`` are all checkpoints of the namespace, oldest first.
    """
    by_id = {CheckpointKey.at(item).checkpoint: item for item in items}
    item = by_id.pop(CheckpointKey.at(items[-1]).checkpoint, None)
    found: list[MemoryItem] = []
    open_channels = set(decoded(serde, items[-1], "metadata").get("counters_since_delta_snapshot") or ())
    while item is not None and (not found or open_channels):
        found.append(item)
        open_channels -= set(decoded(serde, item, "checkpoint")["channel_values"])
        item = by_id.pop(CheckpointKey.at(item).parent, None)
    return found
