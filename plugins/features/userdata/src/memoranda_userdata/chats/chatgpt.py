"""ChatGPT's ``conversations.json``: a tree of nodes for each conversation, read as OpenAI messages.

The roles are those of the export. An assistant's message to another recipient than everybody is a call of that tool,
and the tool's message that follows is its result.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from memoranda.errors import InputError, quoted
from memoranda_userdata.chats.chat_items import read_openai
from memoranda_userdata.chats.import_files import Attachments
from memoranda_userdata.chats.threads import Thread, Turn, in_order

_ROLES = ("system", "user", "assistant", "tool")
_EVERYBODY = (None, "", "all", "user")
_REASONING = ("thoughts", "reasoning_recap")
_TEXT_KEYS = ("text", "result", "user_profile", "user_instructions", "model_set_context")

HIDDEN = "hidden instructions"
EMPTY = "messages without text"
REASONING = "parts of the model's reasoning"
MISSING_IMAGE = "images that are not in the export"
MODEL_IMAGE = "images that a model made"
OTHER_FILE = "attached files"


class _Call(NamedTuple):
    """A call that waits for its result."""

    id: str
    tool: str


Waiting = tuple[_Call, ...]


def thread_of(conversation: Mapping[str, Any], attachments: Attachments) -> Thread:
    """Return a conversation of the export. Raises InputError for what is not one."""
    turns: dict[str, Turn] = {}
    messages: dict[str, Mapping[str, Any]] = {}
    for node_id, node in conversation["mapping"].items():
        if not isinstance(node, dict):
            raise InputError(f"mapping.{node_id}: a node is a JSON object.", field="mapping")
        parent = node.get("parent")
        if parent is not None and not isinstance(parent, str):
            raise InputError(f"mapping.{node_id}.parent: an id is text.", field="mapping")
        turns[node_id] = Turn(node_id, parent)
        if isinstance(node.get("message"), dict):
            messages[node_id] = node["message"]
    session = conversation.get("conversation_id") or conversation.get("id")
    current = conversation.get("current_node")
    thread = Thread(session, conversation.get("create_time"), read_openai, turns)
    thread.current = current if isinstance(current, str) else None
    reader = _Reader(attachments, thread.left_out)
    waiting: dict[str | None, Waiting] = {}
    for turn in in_order(turns):
        before = waiting.get(turn.parent, ())
        said = messages.get(turn.id)
        waiting[turn.id] = before if said is None else reader.read(turn, said, before)
    _join_results(turns)
    return thread


class _Reader:
    """Reads the messages of one conversation, and counts what it leaves out."""

    def __init__(self, attachments: Attachments, left_out: Counter[str]) -> None:
        self._attachments = attachments
        self._left_out = left_out

    def read(self, turn: Turn, message: Mapping[str, Any], waiting: Waiting) -> Waiting:
        """Give a turn its message, and return the calls that wait for a result after it."""
        author = message.get("author")
        role = author.get("role") if isinstance(author, dict) else None
        if role not in _ROLES:
            raise InputError(f"mapping.{turn.id}: {quoted(role, text=True)} is not a role of ChatGPT.", field="mapping")
        assert isinstance(author, dict)
        turn.moment = message.get("create_time")
        about = message.get("metadata") if isinstance(message.get("metadata"), dict) else {}
        parts = list(self._parts(turn, message.get("content"), str(role)))
        self._count_files(about or {}, parts)
        # What the user entered as custom instructions stands under different roles, and is the user's.
        by_user = isinstance(message.get("content"), dict) and "user_instructions" in message["content"]
        hidden = (about or {}).get("is_visually_hidden_from_conversation")
        if role == "system" and parts and hidden and not by_user:
            self._left_out[HIDDEN] += 1
            return waiting
        recipient = message.get("recipient")
        if role == "tool":
            return self._result(turn, parts, str(author.get("name") or ""), waiting)
        if not parts:
            self._left_out[EMPTY] += 1
            return waiting
        if role == "assistant" and recipient not in _EVERYBODY:
            turn.messages = [_call(turn.id, str(recipient), _text(parts))]
            return (*waiting, _Call(turn.id, str(recipient)))
        plain = all(part["type"] == "text" for part in parts)
        spoken_by = "user" if by_user else role
        turn.messages = [{"role": spoken_by, "content": _text(parts) if plain else parts}]
        return () if spoken_by == "user" else waiting

    def _result(self, turn: Turn, parts: list[dict[str, Any]], tool: str, waiting: Waiting) -> Waiting:
        answered = next((call for call in waiting if call.tool == tool), waiting[0] if len(waiting) == 1 else None)
        if answered is None and not parts:
            self._left_out[EMPTY] += 1
            return waiting
        call_id = turn.id if answered is None else answered.id
        turn.messages = [{"role": "tool", "tool_call_id": call_id, "content": _text(parts)}]
        return tuple(call for call in waiting if call != answered)

    def _parts(self, turn: Turn, content: Any, role: str) -> Iterator[dict[str, Any]]:
        """Yield the content as parts of an OpenAI message, without empty text."""
        if content is None:
            return
        if not isinstance(content, dict):
            raise InputError(f"mapping.{turn.id}: content is a JSON object.", field="mapping")
        kind = content.get("content_type")
        if kind in _REASONING:
            self._left_out[REASONING] += 1
            return
        held = content.get("parts")
        given = held if isinstance(held, list) else [content[key] for key in _TEXT_KEYS if content.get(key)]
        if not given and not isinstance(held, list) and not any(key in content for key in _TEXT_KEYS):
            self._left_out[f"content of the type {quoted(kind, text=True)}"] += 1
        for part in given:
            read = self._part(part, role)
            if read is not None:
                yield read

    def _part(self, part: Any, role: str) -> dict[str, Any] | None:
        if isinstance(part, str):
            return {"type": "text", "text": part} if part else None
        kind = part.get("content_type") if isinstance(part, dict) else None
        if kind == "image_asset_pointer":
            return self._image(str(part.get("asset_pointer") or ""), role)
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            return {"type": "text", "text": part["text"]} if part["text"] else None
        self._left_out[f"parts of the type {quoted(kind, text=True)}"] += 1
        return None

    def _image(self, pointer: str, role: str) -> dict[str, Any]:
        # An API takes images from a user only.
        url = self._attachments.image_url(pointer.rpartition("://")[2]) if role == "user" else None
        if url is not None:
            return {"type": "image_url", "image_url": {"url": url}}
        self._left_out[MISSING_IMAGE if role == "user" else MODEL_IMAGE] += 1
        return {"type": "text", "text": "[image]"}

    def _count_files(self, about: Mapping[str, Any], parts: list[dict[str, Any]]) -> None:
        attached = about.get("attachments")
        images = sum(part["type"] == "image_url" or part["text"] == "[image]" for part in parts)
        others = len(attached) - images if isinstance(attached, list) else 0
        if others > 0:
            self._left_out[OTHER_FILE] += others


def _text(parts: list[dict[str, Any]]) -> str:
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def _call(call_id: str, tool: str, given: str) -> dict[str, Any]:
    """Return the message of a call. Its arguments are JSON; any other text is one argument."""
    try:
        is_object = isinstance(json.loads(given), dict)
    except (ValueError, RecursionError):
        is_object = False
    arguments = given if is_object else json.dumps({"input": given}, ensure_ascii=False)
    function = {"name": tool, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def _join_results(turns: dict[str, Turn]) -> None:
    """Add a result that answers no call to the one before it: a tool may send several messages for one call."""
    children = Counter(turn.parent for turn in turns.values())
    for turn in in_order(turns):
        before = turns.get(turn.parent or "")
        while before is not None and not before.messages and children[before.id] == 1:
            before = turns.get(before.parent or "")
        if before is None or children[before.id] > 1 or not _is_result(turn) or not _is_result(before):
            continue
        (said,) = turn.messages
        if said["tool_call_id"] == turn.id:
            first = before.messages[0]
            first["content"] = "\n".join(filter(None, [first["content"], said["content"]]))
            turn.messages = []


def _is_result(turn: Turn) -> bool:
    return len(turn.messages) == 1 and turn.messages[0]["role"] == "tool"
