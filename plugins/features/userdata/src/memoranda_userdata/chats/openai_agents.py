"""Sessions of the OpenAI Agents SDK in a SQLite file, read as items of the Responses API."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from memoranda.errors import InputError
from memoranda_userdata.chats.chat_items import read_responses
from memoranda_userdata.chats.threads import Thread, Turn

MESSAGES = "agent_messages"
STRUCTURE = "message_structure"
MAIN = "main"


def rows_of(database: sqlite3.Connection, tables: Mapping[str, frozenset[str]]) -> Iterator[dict[str, Any]]:
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


def thread_of(session: Mapping[str, Any]) -> Thread:
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
