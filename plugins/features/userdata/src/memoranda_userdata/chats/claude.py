"""Claude's ``conversations.json``: the messages of each conversation, read as Anthropic messages.

An assistant's message there holds its calls and their results in one list. Here a result is a message of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from memoranda.errors import InputError, quoted
from memoranda_userdata.chats.chat_items import read_anthropic
from memoranda_userdata.chats.threads import Thread, Turn

_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}

EMPTY = "messages without text"
REASONING = "parts of the model's reasoning"
MISSING_FILE = "files that are not in the export"


def thread_of(conversation: Mapping[str, Any]) -> Thread:
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
    role = _ROLES.get(str(message.get("sender")))
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
    """Yield the content of a message as blocks of the Messages API."""
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
