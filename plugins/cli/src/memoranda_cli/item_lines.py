"""A line of memoranda's own format as an item: as an export wrote it, or as somebody wrote it by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import dump_item, load_item
from memoranda.store.backend import check_item
from memoranda_cli.jsonl import Line
from memoranda_cli.transfer import TIMES, Incoming, Stamp

_WRITTEN = frozenset(dump_item(MemoryItem(content="")))
"""The fields that every line of an export has."""

_TYPES_OF_ROLES = {"user": "human", "assistant": "ai", "gpt": "ai", "developer": "system", "function": "tool"}


def item_of(line: Line, name: str, types: Mapping[str, type[MemoryItem]], stamp: Stamp) -> Incoming:
    """Return the item of a line. Raises InputError, naming the line, for what is none.

    A line of an export has all fields and may have any others. One that leaves fields out was written by hand, and a
    field that its type does not know is a mistake there.
    """
    data = line.data
    undated: tuple[str, ...] = ()
    try:
        if isinstance(data, dict):
            _check_type(data, types)
            undated = tuple(time for time in TIMES if time not in data)
            data = data if "id" in data else {**data, "id": line.lasting_id(*stamp)}
        item = load_item(data, types)
        check_item(item)
    except InputError as error:
        raise InputError(f"{name}, line {line.number}: {error}", field=error.field) from error
    return Incoming(item, line.hidden, undated)


def stamped(incoming: Incoming, stamp: Stamp, place: str) -> Incoming:
    """Return an item with the stamp. Raises InputError if it is somebody else's, or of another session."""
    found = incoming.item.metadata
    given = {"user_id": stamp.user, "session_id": stamp.session}
    for field, value in given.items():
        held = getattr(found, field)
        if value is not None and held not in (None, value):
            what = field.removesuffix("_id")
            raise InputError(f"{place} belongs to the {what} {held!r}, and --{what} names {value!r}.", field=what)
    new = {field: value for field, value in given.items() if value is not None}
    if not new:
        return incoming
    item = incoming.item.model_copy(update={"metadata": found.model_copy(update=new)})
    check_item(item)
    return incoming._replace(item=item)


def _check_type(data: Mapping[str, Any], types: Mapping[str, type[MemoryItem]]) -> None:
    kind = data.get("memory_type")
    if kind is None:
        raise InputError("a memory needs a memory_type, such as human, ai, system or tool.", field="memory_type")
    if data.keys() >= _WRITTEN:
        return
    if isinstance(kind, str) and kind in _TYPES_OF_ROLES and kind not in types:
        raise InputError(f"{kind!r} is a role. The memory_type is {_TYPES_OF_ROLES[kind]!r}.", field="memory_type")
    fields = types.get(kind if isinstance(kind, str) else "", MemoryItem).model_fields
    # Of a name of the metadata the item itself says where it belongs.
    unknown = next((key for key in data if key not in fields and key not in MemoryMetadata.model_fields), None)
    if unknown is not None:
        shown = repr(unknown) if len(unknown) <= 40 else "a key"
        raise InputError(
            f"{shown} is not a field of this type of memory. Values of your own belong in metadata.extra.", field="item"
        )
