"""The ``conversations.json`` of ChatGPT, read as OpenAI messages, and of Claude, read as Anthropic messages.

ChatGPT's has a tree of nodes for each conversation. An assistant's message to another recipient than everybody is a
call of that tool, and the tool's message that follows is its result. An assistant's message of Claude's holds its calls
and their results in one list; here a result is a message of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from memoranda.errors import InputError, quoted
from memoranda_userdata.chats.chat_items import Thread, Turn, in_order, read_anthropic, read_openai
from memoranda_userdata.chats.import_files import Attachments

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


def chatgpt_thread(conversation: Mapping[str, Any], attachments: Attachments) -> Thread:
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


_CLAUDE_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}

MISSING_FILE = "files that are not in the export"


def claude_thread(conversation: Mapping[str, Any]) -> Thread:
    """Return a conversation of the export. Raises InputError for what is not one."""
    session = conversation.get("uuid") or conversation.get("id")
    thread = Thread(session, conversation.get("created_at"), read_anthropic, {})
    last: str | None = None
    for position, message in enumerate(conversation["chat_messages"]):
        place = f"chat_messages[{position}]"
        if not isinstance(message, dict):
            raise InputError(f"{place}: a message is a JSON object.", field="chat_messages")
        turn = _turn(message, place, last, thread.left_out)
        if turn.id in thread.turns:
            raise InputError(f"{place}: another message has the same id.", field="chat_messages")
        thread.turns[turn.id] = turn
        last = turn.id
    shown = conversation.get("current_leaf_message_uuid")
    thread.current = shown if isinstance(shown, str) and shown in thread.turns else last
    return thread


def _turn(message: Mapping[str, Any], place: str, last: str | None, left_out: Counter[str]) -> Turn:
    role = _CLAUDE_ROLES.get(str(message.get("sender")))
    if role is None:
        shown = quoted(message.get("sender"), text=True)
        raise InputError(f"{place}.sender: {shown} is neither 'human' nor 'assistant'.", field="sender")
    turn_id = message.get("uuid")
    if turn_id is None:
        turn_id = place
    if not isinstance(turn_id, str):
        raise InputError(f"{place}.uuid: an id is text.", field="uuid")
    # Exports without branches name no parents; there each message follows the one before it.
    parent = message.get("parent_message_uuid", last)
    turn = Turn(turn_id, parent if isinstance(parent, str) else None, moment=message.get("created_at"))
    turn.messages = list(_messages(role, list(_blocks(message, role, turn_id, place, left_out))))
    if not turn.messages:
        left_out[EMPTY] += 1
    return turn


def _blocks(
    message: Mapping[str, Any], role: str, turn_id: str, place: str, left_out: Counter[str]
) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    given = content if isinstance(content, list) and content else [{"type": "text", "text": message.get("text")}]
    waiting: list[tuple[str, Any]] = []
    for position, block in enumerate(given):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text":
            text = block.get("text")
            if text is not None and not isinstance(text, str):
                raise InputError(f"{place}.content[{position}].text: text is needed here.", field="content")
            if text and text.strip():
                yield {"type": "text", "text": text}
        elif kind == "tool_use" and role == "assistant":
            call_id = str(block.get("id") or f"{turn_id}-{position}")
            waiting.append((call_id, block.get("name")))
            given_to = block.get("input")
            arguments = given_to if isinstance(given_to, dict) else {"input": given_to}
            yield {"type": "tool_use", "id": call_id, "name": str(block.get("name") or "tool"), "input": arguments}
        elif kind == "tool_result" and role == "assistant":
            call_id = _answered(block, waiting, f"{turn_id}-{position}")
            result = {"type": "tool_result", "tool_use_id": call_id, "content": _result_text(block, left_out)}
            yield result | ({"is_error": True} if block.get("is_error") else {})
        elif kind in ("thinking", "redacted_thinking"):
            # Without its signature, which an export does not have, the API refuses it.
            left_out[REASONING] += 1
        else:
            left_out[f"blocks of the type {quoted(kind, text=True)}"] += 1
    yield from _attached(message, left_out)


def _answered(block: Mapping[str, Any], waiting: list[tuple[str, Any]], otherwise: str) -> str:
    """Return the id of the call that a result answers: the one it names, or else the first one of its tool."""
    named = block.get("tool_use_id")
    fitting = (call for call in waiting if call[0] == named or (not named and call[1] == block.get("name")))
    call = next(fitting, None)
    if call is None:
        return str(named or otherwise)
    waiting.remove(call)
    return call[0]


def _result_text(block: Mapping[str, Any], left_out: Counter[str]) -> str:
    content = block.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            left_out["parts of results that are not text"] += 1
    return "\n".join(texts)


def _attached(message: Mapping[str, Any], left_out: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield the texts that were attached; of other files an export has only the names."""
    attached = message.get("attachments")
    for each in attached if isinstance(attached, list) else ():
        text = each.get("extracted_content") if isinstance(each, dict) else None
        if isinstance(text, str) and text.strip():
            name = each.get("file_name")
            yield {"type": "text", "text": f"{name}:\n{text}" if isinstance(name, str) and name else text}
        else:
            left_out[MISSING_FILE] += 1
    files = message.get("files")
    if isinstance(files, list) and files:
        left_out[MISSING_FILE] += len(files)


def _messages(role: str, blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the messages that blocks make up: results are the user's, and what follows them is a message again."""
    some: list[dict[str, Any]] = []
    for block in blocks:
        if some and (block["type"] == "tool_result") != (some[-1]["type"] == "tool_result"):
            yield _message(role, some)
            some = []
        some.append(block)
    if some:
        yield _message(role, some)


def _message(role: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    if blocks[0]["type"] == "tool_result":
        return {"role": "user", "content": blocks}
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return {"role": role, "content": texts[0] if len(blocks) == len(texts) == 1 else blocks}
