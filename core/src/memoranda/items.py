"""The item models, their metadata and their lifecycle.

Items are plain pydantic models. Times are brought to one UTC form on entry, so that the order of their texts is the
order of time. Fields that a class does not know are kept, so that reading an item and writing it back loses nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from operator import itemgetter
from os import urandom
from typing import Annotated, Any, Generic, NamedTuple, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from memoranda.errors import InputError, unknown_name
from memoranda.trust import Trust

logger = logging.getLogger(__name__)

# Pydantic looks for plugins of its own when the first model of a process is made, in the metadata of everything that is
# installed, and only once. If some distribution's metadata cannot be read, this model fails, and ours do not.
try:
    create_model("Probe", value=(int, 0))
except Exception as error:  # noqa: BLE001 - foreign metadata may be wrong in any way
    logger.warning(
        "Pydantic found no plugins of its own: the metadata of an installed distribution cannot be read (%s). "
        "'memoranda plugins' may say which.",
        type(error).__name__,
    )


def _held_by(value: Any) -> Any:
    """Return the fields that were set of an object of a provider's SDK, for JSON."""
    if not isinstance(value, BaseModel):
        raise TypeError("not an object of an SDK")
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)


_encode = json.JSONEncoder(separators=(",", ":"), default=_held_by).encode


def _payload_text(value: Any) -> str | None:
    """Return a payload as an item stores it: text and None unchanged, anything else as ASCII JSON."""
    if value is None or isinstance(value, str):
        return value
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(value).__name__
        raise InputError(f"A payload of type {kind} holds what JSON cannot.", field="payload") from error


class MemoryStatus(StrEnum):
    """Where an item stands: a draft is accepted or discarded, an accepted item can be discarded."""

    DRAFT = "draft"
    ACCEPTED = "accepted"
    DISCARD = "discard"


_NEXT_STATUS: Mapping[MemoryStatus, frozenset[MemoryStatus]] = {
    MemoryStatus.DRAFT: frozenset({MemoryStatus.ACCEPTED, MemoryStatus.DISCARD}),
    MemoryStatus.ACCEPTED: frozenset({MemoryStatus.DISCARD}),
    MemoryStatus.DISCARD: frozenset(),
}


def utc_text(moment: str | datetime) -> str:
    """Return a time as ISO-8601 text in UTC with six decimals, whose text order is time order.

    A time without a zone is taken as UTC. Raises ValueError when the text cannot be read as a time.
    """
    if isinstance(moment, str):
        # The form this function itself writes needs no work; stores hand it back with every row.
        written = moment[7:20:3] == "-T::." and moment[26:] == "+00:00"
        try:
            read = datetime.fromisoformat(moment if written else moment.strip())
        except ValueError:
            raise ValueError("the text is no ISO-8601 time") from None  # Python's own message repeats the text.
        if written and moment[11:13] != "24":  # Midnight has two names from Python 3.14 on.
            return moment
        moment = read
    if not isinstance(moment, datetime):
        raise ValueError("a time is ISO-8601 text or a datetime")
    if moment.utcoffset() is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError as error:
        raise ValueError("the time lies outside the years 1 to 9999 in UTC") from error


def now_text() -> str:
    """Return the present time in the form of :func:`utc_text`."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


_RANDOM_BITS = ~(0xF << 76 | 0x3 << 62)
_UUID_VERSION_4 = 0x4 << 76 | 0x2 << 62


def new_id() -> str:
    """Return a random id, a UUID of version 4 as hex, in a third of the time that ``uuid`` takes."""
    return f"{int.from_bytes(urandom(16), 'big') & _RANDOM_BITS | _UUID_VERSION_4:032x}"


def _same_as_created(values: dict[str, Any]) -> str:
    """A new item was last changed when it was made."""
    return str(values.get("created_at") or now_text())


def _input_error(model: str, error: ValidationError) -> InputError:
    """Return the error that names the wrong field of a model, without repeating its value."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return InputError(f"{model}.{field}: {first['msg']}.", field=field or None)


class _Model(BaseModel):
    """A model whose construction fails with an :class:`InputError` that names the field."""

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise _input_error(type(self).__name__, error) from error

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Return the fields to show in the repr: those that differ from the defaults."""
        unusual = []
        for name, usual in _usual_fields(type(self)):
            value = self.__dict__.get(name, usual)
            if value is not usual and (type(value) is not type(usual) or value != usual):
                unusual.append((name, value))
        return [*unusual, *(getattr(self, "__pydantic_extra__", None) or {}).items()]


@cache
def _usual_fields(model: type[BaseModel]) -> list[tuple[str, Any]]:
    """Return the fields that texts of a model show, each with its default if that is always the same."""
    made: dict[int, Any] = {id(list): [], id(dict): {}}  # By id, since a default factory need not be hashable.
    fields = model.__pydantic_fields__.items()
    return [(name, made.get(id(field.default_factory), field.default)) for name, field in fields if field.repr]


UtcText = Annotated[str, BeforeValidator(utc_text)]


def _checked_namespace(value: Any) -> Any:
    """Refuse a single text, which would be split into characters."""
    if isinstance(value, str):
        raise ValueError("a namespace is a tuple of texts, such as ('users', 'ada'), not one text")
    return () if value is None else value


Namespace = Annotated[tuple[str, ...], BeforeValidator(_checked_namespace)]


class MemoryMetadata(_Model):
    """The owner of a memory: who and what it belongs to. Frozen.

    ``namespace`` is a place in a hierarchy of your own, such as ``("users", "ada", "prefs")``, beside the four ids; the
    empty one is the root. As a filter, ``None`` means any, ``extra`` matches as a subset, and a namespace matches by
    its beginning, element by element: the place itself and all that lies below it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_id: str | None = None
    session_id: str | None = None
    task_id: str | None = None
    agent_id: str | None = None
    namespace: Namespace = ()
    extra: dict[str, Any] = Field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.user_id, self.session_id, self.task_id, self.agent_id, self.namespace))


SCOPE_FIELDS = tuple(name for name in MemoryMetadata.model_fields if name not in ("namespace", "extra"))
"""The ids among the metadata, from the broadest to the narrowest; each is a text or None."""

ids_of = itemgetter(*SCOPE_FIELDS)
"""Return the ids among the fields of metadata, given as a dict."""


def _checked_lifetime(value: Any) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 < value < float("inf")):
        raise ValueError("a lifetime is a finite number of seconds above 0")
    return value


def _utc_or_none(moment: Any) -> str | None:
    return None if moment is None else utc_text(moment)


METADATA_FIELDS = frozenset(MemoryMetadata.model_fields)
"""The names that no field of an item may have."""


def _check_owner_is_not_beside(names: Iterable[str], model: str) -> None:
    """Raise InputError for a metadata field given to the item itself, where it would have no effect."""
    if not METADATA_FIELDS.isdisjoint(names):
        name = min(METADATA_FIELDS.intersection(names))
        raise InputError(
            f"{model} has no field {name!r}: it belongs to the metadata. Write metadata=MemoryMetadata({name}=…).",
            field=name,
        )


class MemoryItem(_Model):
    """One memory.

    ``version`` counts the changes in the store: 0 for an item that was never stored. ``name`` says who spoke, if the
    type is not enough. ``archived_by`` holds the id of the summary that replaces this item; an archived item is kept:
    it can be read by its id, but searches do not show it by default. ``ttl`` is the item's lifetime in seconds from the
    moment it is stored, and ``expires_at`` its end; the store computes it unless it is given.

    Items of one conversation with the same ``group`` are shown all or none, such as a model's reasoning and the call it
    led to. ``group_size``, if it is known, is the number of items in the group, so that a missing one is noticed.
    ``payload`` is the item as a provider sent it, as JSON text: text is kept byte for byte, anything else is encoded.
    ``payload_format`` names its format, by which :mod:`memoranda_messages` recognises its own.

    ``trust`` says whose words these are (see :class:`memoranda.trust.Trust`); None is what the type says. ``origin`` is
    where they come from: a tool, a web page, a client.
    """

    # Non-finite numbers must survive the dump to be refused by name instead of turning into null.
    model_config = ConfigDict(extra="allow", validate_assignment=True, ser_json_inf_nan="constants")

    id: str = Field(default_factory=new_id, min_length=1)
    content: str
    memory_type: str = "item"
    status: MemoryStatus = MemoryStatus.ACCEPTED
    metadata: MemoryMetadata = Field(default_factory=MemoryMetadata)
    created_at: UtcText = Field(default_factory=now_text)
    updated_at: UtcText = Field(default_factory=_same_as_created)
    version: int = Field(default=0, ge=0)
    name: str | None = None
    archived_by: str | None = None
    ttl: Annotated[float | None, BeforeValidator(_checked_lifetime)] = None
    expires_at: Annotated[str | None, BeforeValidator(_utc_or_none)] = None
    group: str | None = None
    group_size: int | None = None
    payload: Annotated[str | None, BeforeValidator(_payload_text)] = None
    payload_format: str | None = None
    trust: Annotated[str | None, BeforeValidator(lambda given: None if given is None else Trust(given).value)] = None
    origin: str | None = None

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        _check_owner_is_not_beside(cls.model_fields, cls.__name__)

    def __init__(self, /, **data: Any) -> None:
        _check_owner_is_not_beside(data, type(self).__name__)
        super().__init__(**data)

    def __setattr__(self, name: str, value: Any) -> None:
        _check_owner_is_not_beside((name,), type(self).__name__)
        try:
            super().__setattr__(name, value)
        except ValidationError as error:
            raise _input_error(type(self).__name__, error) from error

    def transition(self, status: MemoryStatus | str) -> Self:
        """Move to another status, touch ``updated_at`` and return the same item.

        A draft may be accepted or discarded, an accepted item discarded; anything else, staying put included, raises
        InputError and changes nothing.
        """
        try:
            wanted = MemoryStatus(status)
        except ValueError:
            raise unknown_name("status", status, MemoryStatus, field="status") from None
        if wanted not in _NEXT_STATUS[self.status]:
            raise InputError(f"An item that is {self.status} cannot become {wanted}.", field="status")
        self.status = wanted
        self.updated_at = now_text()
        return self


class Payload(NamedTuple):
    """An item's payload without the item. Only the item's fields show if it still agrees with them."""

    item_id: str
    content: str
    text: str | None
    format: str | None
    trust: str | None = None

    @classmethod
    def of(cls, item: MemoryItem) -> Self:
        """Return the payload of an item."""
        return cls(item.id, item.content, item.payload, item.payload_format, item.trust)


RowT = TypeVar("RowT")


class Changes(NamedTuple, Generic[RowT]):
    """What has changed among items, or their payloads, since a state of a store.

    ``rows`` are new or changed, by numbers that the store gives its items in the order of adding; ``gone`` are numbers
    that may have been there before and do not count any more. None means that ``rows`` are all there are. ``state`` is
    what to ask with next time, and of use for nothing else.
    """

    state: object
    rows: dict[int, RowT]
    gone: Collection[int] | None

    @classmethod
    def of_all(cls, rows: Iterable[RowT]) -> Changes[RowT]:
        """Return all rows, in their order, from where it cannot be told what has changed."""
        return cls(None, dict(enumerate(rows)), None)


PayloadChanges = Changes[Payload]
"""What has changed among payloads."""


class SystemMemory(MemoryItem):
    """An instruction to the model. Views keep it whatever else they leave out."""

    memory_type: str = "system"


class HumanMemory(MemoryItem):
    """A person's message. It starts a round."""

    memory_type: str = "human"


def _checked_calls(calls: Any) -> Any:
    """Refuse tool calls without an id, which no result could answer."""
    if calls is None:
        return []
    if isinstance(calls, Iterable) and not isinstance(calls, (str, bytes, Mapping)):
        calls = list(calls)
    for position, call in enumerate(calls if isinstance(calls, list) else ()):
        call_id = call.get("id") if isinstance(call, Mapping) else None
        if not isinstance(call_id, str) or not call_id:
            raise ValueError(f"tool call {position} needs a dict with a non-empty text under 'id'")
    return calls


class AIMemory(MemoryItem):
    """A model's message, with the tools it called; every call is a dict with an ``id``."""

    memory_type: str = "ai"
    tool_calls: Annotated[list[dict[str, Any]], BeforeValidator(_checked_calls)] = Field(default_factory=list)


class ToolMemory(MemoryItem):
    """The result of a tool call; ``also_answers`` are the ids of further calls that the same item answers."""

    memory_type: str = "tool"
    tool_call_id: str = ""
    tool_name: str = ""
    is_error: bool = False
    also_answers: list[str] = Field(default_factory=list)


class SummaryMemory(MemoryItem):
    """A summary of items that were archived. Views keep it whatever else they leave out.

    ``sources`` are the ids of the items it was made from, oldest first. A ``lasting`` one (a fact, a trait) is never
    summarised again; any other goes into the next summary of its conversation. ``compaction`` is the id of the first
    summary of those that were made together; on that one, ``archives`` maps the id of every archived item to a mark of
    its state at that time.
    """

    memory_type: str = "summary"
    template: str = ""
    sources: list[str] = Field(default_factory=list)
    lasting: bool = False
    compaction: str = ""
    archives: dict[str, str] = Field(default_factory=dict)


class BranchMemory(MemoryItem):
    """The origin of a forked session; its id is the session's. Only ``fork`` makes one.

    ``parent`` is the session whose past it shares, up to the item ``at``; ``earlier`` holds the sessions before that
    one, each with its last shared item. ``places`` says up to where each session is shared, in the order of adding of
    the store that has the record, and nowhere else. The record is archived by itself, so that no search shows it.
    """

    memory_type: str = "branch"
    content: str = ""
    parent: str = ""
    at: str = ""
    earlier: dict[str, str] = Field(default_factory=dict)
    places: dict[str, int] = Field(default_factory=dict)


def sources_of(item: MemoryItem) -> list[str]:
    """Return the ids of the items that an item was made from."""
    found = item.__dict__.get("sources")
    if found is None and item.__pydantic_extra__:
        found = item.__pydantic_extra__.get("sources")
    return [source for source in found if isinstance(source, str)] if isinstance(found, (list, tuple)) else []


BUILTIN_TYPES: Mapping[str, type[MemoryItem]] = {
    "system": SystemMemory,
    "human": HumanMemory,
    "ai": AIMemory,
    "tool": ToolMemory,
    "summary": SummaryMemory,
    "branch": BranchMemory,
}
