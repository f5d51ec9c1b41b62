"""A checkpoint and its writes as items: what is kept of them verbatim, and what can be asked for."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from memoranda.errors import CorruptStoreError, InputError
from memoranda.items import MemoryItem, now_text, utc_text
from memoranda.shapes import check_text
from memoranda_langgraph.opaque import comparable, is_plain, packed, packed_json, unpacked, unpacked_json
from memoranda_langgraph.serializing import RefusedTypeError
from memoranda_messages.payload_json import decode_payload, encode_payload

CHECKPOINT = "langgraph.checkpoint"
WRITE = "langgraph.write"

_METADATA = "metadata."
"""Stands before the names of a checkpoint's metadata, where its own names stand beside them in ``extra``."""

_SMALL = 10**6

_MOST_PUSHED = 60
"""How many names of metadata the store looks for at once. It takes a few conditions more, which others need."""

_GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)


class Spot(NamedTuple):
    """Where a checkpoint lies: its thread, its namespace there, its id, and the id of the one before it."""

    thread: str
    namespace: str
    checkpoint: str | None
    parent: str | None = None

    @classmethod
    def of(cls, config: RunnableConfig) -> Spot:
        """Return what a configuration names. Raises InputError if that is no thread."""
        named = config.get("configurable") or {}
        if named.get("thread_id") is None:
            raise InputError(
                "A checkpointer needs a thread: {'configurable': {'thread_id': …}} in the configuration.",
                field="thread_id",
            )
        checkpoint = named.get("checkpoint_id") or None  # An empty one names none, as in LangGraph's own savers.
        return cls(str(named["thread_id"]), str(named.get("checkpoint_ns") or ""), checkpoint and str(checkpoint))

    @classmethod
    def at(cls, item: MemoryItem) -> Spot:
        """Return where an item lies that has been stored. Raises CorruptStoreError."""
        return cls(*_kept(item, "spot", (str, str, str, (str, NoneType))))

    @property
    def kept(self) -> dict[str, Any]:
        """What an item keeps of it: all, and the id so that it can be compared."""
        return {"spot": packed_json(self), "checkpoint_id": comparable(self.checkpoint or "")}

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


class Place(NamedTuple):
    """Where a write stands among those of its checkpoint, and what it was written to."""

    task_path: str
    task_id: str
    position: int
    channel: str

    @classmethod
    def at(cls, item: MemoryItem) -> Place:
        """Return where a write stands that has been stored. Raises CorruptStoreError."""
        return cls(*_kept(item, "write", (str, str, int, str)))

    @property
    def kept(self) -> dict[str, Any]:
        """What an item keeps of it."""
        return {"write": packed_json(self)}


def _kept(item: MemoryItem, name: str, types: Sequence[Any]) -> Sequence[Any]:
    """Return what an item keeps of where it lies, each part of its type. Raises CorruptStoreError."""
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

    Raises CorruptStoreError if it is not there, and RefusedTypeError, which says where, if its types are not allowed.
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
    """Return what of a checkpoint's metadata the store can look for: texts, small numbers, true and false."""
    return {
        f"{_METADATA}{name}": kept
        for name, value in metadata.items()
        if _is_sought(name) and (kept := _sought(value)) is not None
    }


def _is_sought(name: Any) -> bool:
    """Whether the store looks for a name. One with a dot may lead into a nested value."""
    return isinstance(name, str) and name.isprintable() and is_plain(name) and "." not in name


def _sought(value: Any) -> str | int | None:
    """Return a value as the store looks for it; None if it does not."""
    if isinstance(value, str):
        try:
            return comparable(check_text(value, "metadata"))
        except InputError:
            return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # They are equal, so that one finds the other.
    return value if isinstance(value, int) and abs(value) < _SMALL else None


def conditions(wanted: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what of a filter on metadata the store can look for, and what is asked of each checkpoint."""
    where: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in wanted.items():
        sought = _sought(value) if _is_sought(name) and len(where) < _MOST_PUSHED else None
        if sought is None:
            rest[name] = value
        else:
            where[f"extra.{_METADATA}{name}"] = {"$eq": sought}
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
    spot = Spot.at(item)
    placed = sorted([(Place.at(write), write) for write in writes], key=lambda pair: writes_sort_key(*pair[0][:3]))
    return CheckpointTuple(
        config=spot.config,
        checkpoint=decoded(serde, item, "checkpoint"),
        metadata=decoded(serde, item, "metadata"),
        parent_config=Spot(spot.thread, spot.namespace, spot.parent).config if spot.parent else None,
        pending_writes=[(place.task_id, place.channel, decoded(serde, write, "value")) for place, write in placed],
    )
