"""An interaction as a memory item, and its form in Redis."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from memoranda.errors import CorruptStoreError, InputError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, MemoryStatus, utc_text
from memoranda.shapes import check_text, checked_json, json_text
from memoranda.speakers import is_role, plain_name, speaker
from memoranda.store.backend import bare_item, bare_metadata, check_metadata, fields_of, make_metadata

# Every character that some reader takes for a line end, and all other control characters except the tab.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]+")

_STATUSES = {status.value: status for status in MemoryStatus}
_STORED_SCOPE = tuple(name for name in SCOPE_FIELDS if name != "agent_id")  # The agent is in the key.
_TEXT_OR_NONE = frozenset((str, type(None)))


class CorruptEntryError(CorruptStoreError, ValueError):
    """An entry in Redis that is not an interaction: its timestamp or another part cannot be read."""

    def __init__(self, agent_id: str, key: str, reason: str) -> None:
        super().__init__(
            f"The entry {key!r} in the episodic memory of the agent {agent_id!r} cannot be read: {reason}."
        )


class InvalidTimestampError(CorruptEntryError):
    """An entry in Redis with an invalid timestamp."""

    def __init__(self, agent_id: str, key: str) -> None:
        super().__init__(agent_id, key, "its timestamp is invalid")


class EpisodicMemory(MemoryItem):
    """One interaction of an agent: its type, its platform, and what was said or done.

    ``created_at`` is its time in UTC, :attr:`timestamp` the same as a datetime. ``metadata.agent_id`` names the agent;
    ``metadata.extra`` holds the dict given with the interaction. Raises ValueError for an invalid timestamp.
    """

    memory_type: str = "episodic"
    interaction_type: str = ""
    platform: str | None = None

    @property
    def timestamp(self) -> datetime:
        """The time of the interaction, as a datetime in UTC."""
        return datetime.fromisoformat(self.created_at)

    def summary(self, timezone: tzinfo = UTC) -> str:
        """Return ``[HH:MM] type on platform: content`` on one line, with the time in the given zone."""
        where = f" on {plain_name(self.platform)}" if self.platform else ""
        clock = self.timestamp.astimezone(timezone)
        kind = plain_name(self.interaction_type)
        return f"[{clock:%H:%M}] {speaker(self) if is_role(kind) else kind}{where}: {one_line(self.content)}"


_FIELDS = fields_of(EpisodicMemory)


def one_line(text: str) -> str:
    """Replace line ends and control characters with spaces, so that the text stays on one line."""
    return _CONTROL.sub(" ", text).strip()


def as_timezone(zone: tzinfo | str) -> tzinfo:
    """Return the time zone, which may be a name like ``"Europe/Berlin"``. Raises InputError for an unknown one."""
    if isinstance(zone, tzinfo):
        return zone
    try:
        return UTC if zone == "UTC" else ZoneInfo(zone)
    except (KeyError, ValueError, TypeError, OSError):
        raise InputError(f"{zone!r} is not a time zone; one looks like 'Europe/Berlin'.", field="timezone") from None


def dump_entry(memory: EpisodicMemory) -> tuple[str, str]:
    """Return the JSON members of a checked interaction: the id, by which a write is recognised, and all others.

    The script that writes the entry adds the timestamp. Fields with their default value are left out.
    """
    metadata = memory.metadata
    more = _FIELDS.values(memory)
    entry: dict[str, Any] = {"interaction_type": more.pop("interaction_type"), "content": memory.content}
    platform = more.pop("platform")
    if platform is not None:
        entry["platform"] = platform
    if memory.status is not MemoryStatus.ACCEPTED:
        entry["status"] = memory.status.value
    for name in _STORED_SCOPE:
        value = getattr(metadata, name)
        if value is not None:
            entry[name] = value
    if metadata.extra:
        entry["metadata"] = metadata.extra
    if more:
        entry["more"] = more
    return f'"id":{json_text(memory.id)}', json_text(entry)[1:-1]


def read_entry(text: bytes, agent_id: str, key: str) -> EpisodicMemory:
    """Return the interaction that the text at a key holds. Raises CorruptEntryError, which is a ValueError."""
    try:
        entry = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise CorruptEntryError(agent_id, key, "it is not JSON") from error
    return load_entry(entry, agent_id, key)


def load_entry(entry: Any, agent_id: str, key: str = "") -> EpisodicMemory:
    """Return the interaction that an entry holds.

    Raises CorruptEntryError, which is a ValueError; InvalidTimestampError for an invalid timestamp.
    """
    try:
        written = entry["timestamp"]
    except (KeyError, TypeError, IndexError) as error:
        raise CorruptEntryError(agent_id, key, "it is not an interaction") from error
    try:
        moment = utc_text(written)
    except ValueError as error:
        raise InvalidTimestampError(agent_id, key) from error
    try:
        get = entry.get
        extra, more = get("metadata") or {}, get("more", {})
        user_id, session_id, task_id = get("user_id"), get("session_id"), get("task_id")
        # All fields at once, and then those that differ: this is done for every entry that is read.
        fields = _FIELDS.blank.copy()
        # Entries of programs without ids are distinguished by their time, as in their key.
        fields["id"] = item_id = get("id", f"{agent_id}:{moment}")
        fields["content"] = content = entry["content"]
        fields["memory_type"] = "episodic"
        fields["status"] = _STATUSES[get("status", "accepted")]
        fields["created_at"] = fields["updated_at"] = moment
        fields["version"] = 1
        if not (
            type(item_id) is type(content) is str
            and type(extra) is type(more) is dict
            and type(user_id) in _TEXT_OR_NONE
            and type(session_id) in _TEXT_OR_NONE
            and type(task_id) in _TEXT_OR_NONE
        ):
            raise TypeError("a part is of the wrong type")
        fields["metadata"] = bare_metadata(
            {
                "user_id": user_id,
                "session_id": session_id,
                "task_id": task_id,
                "agent_id": agent_id,
                "namespace": (),
                "extra": extra,
            }
        )
        more["interaction_type"], more["platform"] = entry["interaction_type"], get("platform")
        if not content.isascii():
            content.encode()  # JSON can hold a lone surrogate, which cannot be encoded.
        _FIELDS.take(fields, more)
        return bare_item(EpisodicMemory, fields, more)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CorruptEntryError(agent_id, key, "a part is missing or invalid") from error


def _made(base: dict[str, Any], further: dict[str, Any]) -> EpisodicMemory:
    """Return the interaction of these fields, whose types are checked. Raises TypeError or ValueError for others."""
    _FIELDS.fill(base, further)
    return bare_item(EpisodicMemory, base, further)


def new_memory(
    interaction_type: str, content: str, platform: str | None, metadata: MemoryMetadata, moment: str
) -> EpisodicMemory:
    """Return a new interaction. Raises InputError, naming the part that no store can hold.

    The metadata is checked already; checking the texts takes less time than the model's own validation.
    """
    fields = {
        "id": uuid.uuid4().hex,
        "content": check_text(content, "content"),
        "memory_type": "episodic",
        "status": MemoryStatus.ACCEPTED,
        "metadata": metadata,
        "created_at": moment,
        "updated_at": moment,
        "version": 0,
    }
    given = {
        "interaction_type": check_text(interaction_type, "interaction_type"),
        "platform": None if platform is None else check_text(platform, "platform"),
    }
    return _made(fields, given)


def as_metadata(metadata: dict[str, Any] | MemoryMetadata | None, agent_id: str) -> MemoryMetadata:
    """Return checked metadata stamped with the agent: a dict becomes ``extra``.

    Raises InputError for what no store can hold and for the metadata of another agent.
    """
    scope: dict[str, Any] = dict.fromkeys(SCOPE_FIELDS)
    extra: Any = metadata
    if isinstance(metadata, MemoryMetadata):
        check_metadata(metadata)
        if metadata.agent_id not in (None, agent_id):
            raise InputError("metadata.agent_id names another agent than this memory's.", field="metadata.agent_id")
        scope = {name: getattr(metadata, name) for name in SCOPE_FIELDS}
        extra = metadata.extra
    elif metadata is not None and not isinstance(metadata, dict):
        raise InputError(f"metadata must be a dict, not {type(metadata).__name__}.", field="metadata")
    scope["agent_id"] = agent_id
    return make_metadata({**scope, "extra": checked_json(extra, "metadata") if extra else {}})
