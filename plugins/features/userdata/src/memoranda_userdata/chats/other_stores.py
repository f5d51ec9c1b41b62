"""What the stores of others hold: sessions of the OpenAI Agents SDK, memories of mem0, values of LangGraph."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memoranda.errors import InputError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda_userdata.chats.chat_items import Thread, Turn, moment_text, read_responses

MESSAGES = "agent_messages"
STRUCTURE = "message_structure"
MAIN = "main"


def openai_agents_rows(database: sqlite3.Connection, tables: Mapping[str, frozenset[str]]) -> Iterator[dict[str, Any]]:
    """Yield the sessions of a file, each with its messages and, if it has any, its branches of them."""
    sessions = database.execute(f"SELECT session_id, min(id) FROM {MESSAGES} GROUP BY session_id ORDER BY 2").fetchall()
    for session, _ in sessions:
        found = database.execute(
            f"SELECT id, message_data, created_at FROM {MESSAGES} WHERE session_id = ? ORDER BY id", [session]
        )
        messages = [{"id": row[0], "data": row[1], "created_at": row[2]} for row in found]
        yield {"session_id": session, MESSAGES: messages, "branches": _branches(database, tables, session)}


def _branches(database: sqlite3.Connection, tables: Mapping[str, frozenset[str]], session: str) -> dict[str, list[int]]:
    """Return the messages of each branch, in order. Only the SDK's advanced session has branches."""
    found: dict[str, list[int]] = {}
    if {"branch_id", "message_id", "sequence_number"} <= tables.get(STRUCTURE, frozenset()):
        rows = database.execute(
            f"SELECT branch_id, message_id FROM {STRUCTURE} WHERE session_id = ? ORDER BY sequence_number", [session]
        )
        for branch, message in rows:
            found.setdefault(branch, []).append(message)
    return found


def openai_agents_thread(session: Mapping[str, Any]) -> Thread:
    """Return a session of the file. Raises InputError for what is not an item of the SDK."""
    thread = Thread(session["session_id"], None, read_responses, {})
    last: str | None = None
    for row in session[MESSAGES]:
        turn = Turn(str(row["id"]), last, [_item(row)], row["created_at"])
        thread.turns[turn.id] = turn
        last = turn.id
    branches = {name: [str(each) for each in ids] for name, ids in session["branches"].items()}
    if branches:
        _connect(thread.turns, branches)
    shown = branches.get(MAIN)
    thread.current = shown[-1] if shown else last
    return thread


def _item(row: Mapping[str, Any]) -> dict[str, Any]:
    try:
        item = json.loads(row["data"])
    except (TypeError, ValueError, RecursionError):
        raise InputError(f"message {row['id']}: this is not JSON.", field=MESSAGES) from None
    if not isinstance(item, dict):
        raise InputError(f"message {row['id']}: an item is a JSON object.", field=MESSAGES)
    if "__enc__" in item:
        raise InputError(
            f"message {row['id']}: it is encrypted. Read it with the SDK's EncryptedSession.", field=MESSAGES
        )
    return item


def _connect(turns: Mapping[str, Turn], branches: Mapping[str, list[str]]) -> None:
    """Give each turn the one before it in its branches; where a branch begins, they share what lies before."""
    followed: dict[str, str | None] = {}
    for ids in branches.values():
        before: str | None = None
        for each in ids:
            if each not in turns:
                raise InputError(f"message {each}: a branch names it, and it is not there.", field=STRUCTURE)
            if followed.setdefault(each, before) != before:
                raise InputError(f"message {each}: it follows different messages in two branches.", field=STRUCTURE)
            before = each
    for turn_id, parent in followed.items():
        turns[turn_id].parent = parent


_MINUTE = 60
_TYPES = {"user": HumanMemory, "assistant": AIMemory}
_OF_MEM0 = frozenset(
    {"id", "memory", "hash", "score", "metadata", "role", "actor_id", "user_id", "agent_id", "run_id", "app_id"}
    | {"created_at", "updated_at", "expiration_date", "categories", "attributed_to"}
)
LANGGRAPH_TABLE = "store"


def mem0_entries(value: Mapping[str, Any]) -> list[Any]:
    """Return the entries of an answer of ``get_all``, or one entry by itself."""
    results = value.get("results")
    return results if isinstance(results, list) else [value]


def mem0_item(entry: Any, user: str | None) -> tuple[MemoryItem, list[str]]:
    """Return the item of an entry that ``get_all`` returned, and what of it is left out.

    The text was written by a model, so only a ``role``, which mem0 stores with words as they were said, makes it
    somebody's own.
    """
    if not isinstance(entry, dict) or not isinstance(entry.get("memory"), str) or not entry["memory"]:
        raise InputError("a memory needs 'memory', its text.", field="memory")
    if not isinstance(entry.get("id"), str) or not entry["id"]:
        raise InputError("a memory needs 'id'.", field="id")
    extra = entry.get("metadata") or {}
    if not isinstance(extra, dict):
        raise InputError("metadata: this is a JSON object.", field="metadata")
    owner = MemoryMetadata(
        user_id=_owner(entry, "user_id") or user,
        session_id=_owner(entry, "run_id"),
        agent_id=_owner(entry, "agent_id"),
        extra=extra,
    )
    kind = _TYPES.get(str(entry.get("role")), MemoryItem)
    fields: dict[str, Any] = {"id": entry["id"], "content": entry["memory"], "metadata": owner}
    if entry.get("expiration_date"):
        fields["expires_at"] = moment_text(entry["expiration_date"], "expiration_date")
    if isinstance(entry.get("actor_id"), str):
        fields["name"] = entry["actor_id"]
    unknown = [key for key in entry if key not in _OF_MEM0]
    left_out = [f"values of the key {key[:40]!r}" for key in [*unknown, "categories"] if entry.get(key)]
    return kind(**fields, **_times(entry)), left_out


def _owner(entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f"{key}: an id is text.", field=key)
    return value


def _times(entry: Mapping[str, Any]) -> dict[str, str]:
    created, updated = entry.get("created_at"), entry.get("updated_at")
    found = {} if created is None else {"created_at": moment_text(created, "created_at")}
    if updated is not None:
        found["updated_at"] = moment_text(updated, "updated_at")
    return found


def langgraph_rows(database: sqlite3.Connection, columns: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table of a LangGraph store."""
    names = [name for name in _LANGGRAPH_COLUMNS if name in columns]
    rows = database.execute(f"SELECT {', '.join(names)} FROM {LANGGRAPH_TABLE} ORDER BY created_at, prefix, key")
    for row in rows:
        found = dict(zip(names, row, strict=True))
        value = found["value"]
        found["value"] = value.decode() if isinstance(value, bytes) else value
        yield found


_LANGGRAPH_COLUMNS = ("prefix", "key", "value", "created_at", "updated_at", "expires_at", "ttl_minutes")


def langgraph_item(row: Any, user: str | None, lasting_id: Callable[..., str]) -> MemoryItem:
    """Return the item of a row, or of LangGraph's own ``Item.dict()``: a value with its key, in its namespace."""
    value = row.get("value")
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InputError("value: this is a JSON object.", field="value")
    key, place = row.get("key"), row.get("namespace", row.get("prefix"))
    namespace = place.split(".") if isinstance(place, str) else place
    if (
        not isinstance(key, str)
        or not isinstance(namespace, list)
        or not all(isinstance(each, str) for each in namespace)
    ):
        raise InputError("a value of LangGraph needs 'key' and 'namespace' or 'prefix'.", field="key")
    fields: dict[str, Any] = _times(row)
    if row.get("expires_at") is not None:
        fields["expires_at"] = moment_text(row["expires_at"], "expires_at")
        minutes = row.get("ttl_minutes")
        if minutes is not None and not isinstance(minutes, (int, float)):
            raise InputError("ttl_minutes: this is a number.", field="ttl_minutes")
        fields["ttl"] = None if minutes is None else minutes * _MINUTE
    return MemoryItem(
        id=lasting_id("langgraph", user, namespace, key),
        content="\n".join(_texts(value, "")),
        name=key,
        metadata=MemoryMetadata(user_id=user, namespace=tuple(namespace), extra=value),
        **fields,
    )


def _texts(value: Any, name: str) -> Iterator[str]:
    """Yield what a value says, a line for each of its values; one that stands alone needs no name."""
    leaves = list(_leaves(value, name))
    yield from [text for _, text in leaves] if len(leaves) == 1 else [f"{place}: {text}" for place, text in leaves]


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    elif value is not None:
        yield name, value if isinstance(value, str) else json.dumps(value)
