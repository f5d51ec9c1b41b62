"""A checkpoint and its writes as items: what is kept of them verbatim, and what can be asked for."""

from __future__ import annotations

import base64
import math
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from memoranda.errors import CorruptStoreError, InputError
from memoranda.items import MemoryItem, now_text, utc_text
from memoranda.payloads import decode_payload, encode_payload
from memoranda.shapes import checked_json

CHECKPOINT = "langgraph.checkpoint"
WRITE = "langgraph.write"

_METADATA = "metadata."
"""Stands before the names of a checkpoint's metadata, where its own names stand beside them in ``extra``."""

_GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)


class Spot(NamedTuple):
    """Where a checkpoint lies: its thread, its namespace there, and its id."""

    thread: str
    namespace: str
    checkpoint: str | None

    @classmethod
    def of(cls, config: RunnableConfig) -> Spot:
        """Return what a configuration names. Raises InputError if that is no thread."""
        named = config.get("configurable") or {}
        if named.get("thread_id") is None:
            raise InputError(
                "A checkpointer needs a thread: {'configurable': {'thread_id': …}} in the configuration.",
                field="thread_id",
            )
        checkpoint = named.get("checkpoint_id")
        return cls(str(named["thread_id"]), str(named.get("checkpoint_ns") or ""), checkpoint and str(checkpoint))

    @property
    def config(self) -> RunnableConfig:
        """The configuration that names it."""
        return {
            "configurable": {
                "thread_id": self.thread,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": self.checkpoint,
            }
        }


def encoded(serde: SerializerProtocol, values: Mapping[str, Any]) -> str:
    """Return values as a payload, each as the serializer writes it."""
    typed = {name: serde.dumps_typed(value) for name, value in values.items()}
    return encode_payload({name: [kind, base64.b64encode(data).decode()] for name, (kind, data) in typed.items()})


def decoded(serde: SerializerProtocol, item: MemoryItem, name: str) -> Any:
    """Return one of the values of an item's payload. Raises CorruptStoreError if it is not there."""
    try:
        kind, data = decode_payload(item.payload or "null")[name]
        packed = base64.b64decode(data, validate=True)
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise CorruptStoreError(f"The stored item {item.id!r} cannot be read as LangGraph's.") from error
    return serde.loads_typed((kind, packed))


def filterable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a checkpoint's metadata can be asked for: all that is JSON."""
    found = {}
    for name, value in metadata.items():
        try:
            found[f"{_METADATA}{name}"] = checked_json(value, "metadata")
        except InputError:
            continue  # It is kept with the rest, and asked for there.
    return found


def conditions(wanted: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what of a filter on metadata the store can look for, and what is asked of each checkpoint."""
    where, rest = {}, {}
    for name, value in wanted.items():
        plain = isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))
        try:
            if plain:
                where[f"extra.{_METADATA}{name}"] = {"$eq": checked_json(value, "filter")}
                continue
        except InputError:
            pass
        rest[name] = value
    return where, rest


def time_of(checkpoint: Checkpoint) -> str:
    """Return when a checkpoint was made, so that their order in time is the order of their ids.

    LangGraph's ids carry their time; of others the checkpoint's own says it.
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
    held = item.metadata.extra
    spot = Spot(held["thread_id"], held["checkpoint_ns"], held["checkpoint_id"])
    parent = held.get("parent_id")
    return CheckpointTuple(
        config=spot.config,
        checkpoint=decoded(serde, item, "checkpoint"),
        metadata=decoded(serde, item, "metadata"),
        parent_config=spot._replace(checkpoint=parent).config if parent else None,
        pending_writes=[_as_pending(serde, write) for write in sorted(writes, key=_place)],
    )


def _as_pending(serde: SerializerProtocol, write: MemoryItem) -> PendingWrite:
    held = write.metadata.extra
    return held["task_id"], held["channel"], decoded(serde, write, "value")


def _place(write: MemoryItem) -> tuple[str, str, int]:
    held = write.metadata.extra
    return writes_sort_key(held["task_path"], held["task_id"], held["index"])
