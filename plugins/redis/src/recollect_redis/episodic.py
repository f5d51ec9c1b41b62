"""An interaction as a memory item, and its form in Redis."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from recollect.errors import CorruptStoreError, InputError
from recollect.items import MemoryItem, MemoryMetadata, MemoryStatus, utc_text
from recollect.records import SCOPE_FIELDS, bare_item, checked_json, further_values, make_metadata

# Every character that some reader takes for the end of a line, and the other control characters but the tab.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]+")

_STORED_SCOPE = tuple(name for name in SCOPE_FIELDS if name != "agent_id")  # The agent is in the key.


class CorruptEntryError(CorruptStoreError, ValueError):
    """An entry in Redis that is no interaction: its timestamp or another part cannot be read."""

    def __init__(self, agent_id: str, reason: str) -> None:
        super().__init__(f"An entry in the episodic memory of the agent {agent_id!r} cannot be read: {reason}.")


class EpisodicMemory(MemoryItem):
    """One interaction of an agent: what kind it was, on which platform, and what was said or done.

    ``created_at`` is its time in UTC and :attr:`timestamp` the same as a datetime. ``metadata.agent_id`` is the agent;
    ``metadata.extra`` holds the dict that was given with the interaction. Raises ValueError for an invalid timestamp.
    """

    memory_type: str = "episodic"
    interaction_type: str = ""
    platform: str | None = None

    @property
    def timestamp(self) -> datetime:
        """When it happened, as a datetime in UTC."""
        return datetime.fromisoformat(self.created_at)

    def summary(self, timezone: tzinfo = UTC) -> str:
        """Return ``[HH:MM] type on platform: content`` on one line, with the time in the given zone."""
        where = f" on {one_line(self.platform)}" if self.platform else ""
        clock = self.timestamp.astimezone(timezone)
        return f"[{clock:%H:%M}] {one_line(self.interaction_type)}{where}: {one_line(self.content)}"


def one_line(text: str) -> str:
    """Return the text with line ends and control characters as spaces, so that it cannot start a line of its own."""
    return _CONTROL.sub(" ", text).strip()


def as_timezone(zone: tzinfo | str) -> tzinfo:
    """Return the time zone, which may be named as in ``"Europe/Berlin"``. Raises InputError when there is none."""
    if isinstance(zone, tzinfo):
        return zone
    try:
        return UTC if zone == "UTC" else ZoneInfo(zone)
    except (KeyError, ValueError, TypeError, OSError):
        raise InputError(f"{zone!r} is no time zone; one looks like 'Europe/Berlin'.", field="timezone") from None


def dump_entry(memory: EpisodicMemory) -> tuple[str, str]:
    """Return the JSON members of an entry: the id, by which a write is recognised, and all others.

    The timestamp is missing: it is decided where the entry is written. Fields that have their default are left out.
    """
    further = further_values(memory)
    entry = {"interaction_type": further.pop("interaction_type"), "content": memory.content}
    platform = further.pop("platform")
    if platform is not None:
        entry["platform"] = platform
    if memory.status is not MemoryStatus.ACCEPTED:
        entry["status"] = memory.status.value
    for name in _STORED_SCOPE:
        value = getattr(memory.metadata, name)
        if value is not None:
            entry[name] = value
    if memory.metadata.extra:
        entry["metadata"] = checked_json(memory.metadata.extra, "metadata")
    if further:
        entry["more"] = further
    return _json({"id": memory.id})[1:-1], _json(entry)[1:-1]


def load_entry(text: bytes, agent_id: str) -> EpisodicMemory:
    """Return the interaction that an entry holds. Raises CorruptEntryError, which is a ValueError."""
    try:
        entry = json.loads(text)
        moment = utc_text(entry["timestamp"])
        more = entry.get("more", {})
        scope = {name: entry.get(name) for name in _STORED_SCOPE}
        extra = entry.get("metadata", {})
        fields: dict[str, Any] = {
            "id": entry["id"],
            "content": entry["content"],
            "memory_type": "episodic",
            "status": MemoryStatus(entry.get("status", "accepted")),
            "metadata": make_metadata({**scope, "agent_id": agent_id, "extra": extra}),
            "created_at": moment,
            "updated_at": moment,
            "version": 1,
            "name": more.pop("name", None),
            "archived_by": more.pop("archived_by", None),
            "interaction_type": entry["interaction_type"],
            "platform": entry.get("platform"),
        }
        if not (
            type(fields["id"]) is type(fields["content"]) is type(fields["interaction_type"]) is str
            and type(extra) is type(more) is dict
            and all(value is None or type(value) is str for value in (fields["platform"], *scope.values()))
        ):
            raise TypeError("a part is of the wrong type")
    except KeyError as error:
        raise CorruptEntryError(agent_id, f"it has no {error.args[0]}") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptEntryError(agent_id, "its timestamp or another part is invalid") from error
    return bare_item(EpisodicMemory, fields, more)


def as_metadata(metadata: dict[str, Any] | MemoryMetadata | None, agent_id: str) -> MemoryMetadata:
    """Return metadata stamped with the agent: a dict becomes ``extra``. Raises InputError for another agent's."""
    if metadata is None:
        return MemoryMetadata(agent_id=agent_id)
    if isinstance(metadata, MemoryMetadata):
        if metadata.agent_id not in (None, agent_id):
            raise InputError("metadata.agent_id names another agent than this memory's.", field="metadata.agent_id")
        return metadata.model_copy(update={"agent_id": agent_id})
    if not isinstance(metadata, dict):
        raise InputError(f"metadata must be a dict, not {type(metadata).__name__}.", field="metadata")
    return MemoryMetadata(agent_id=agent_id, extra=checked_json(metadata, "metadata"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
