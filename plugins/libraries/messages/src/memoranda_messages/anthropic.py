"""Items as Anthropic messages, and back.

There a user's message holds the results of tools and the text beside them. Here each result and the text are items of
their own, so the payload of an item may be part of a message: a list of blocks is the rest of the message that the
results before it began, an object is a message of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import each, owner_of, wrong
from memoranda.tool_calls import call_arguments, call_name
from memoranda_messages import shapes
from memoranda_messages.payload_json import plain
from memoranda_messages.payloads import (
    READERS,
    Fields,
    Message,
    UsablePayload,
    item_from,
    messages_of,
    refuse_calls_of_others,
)
from memoranda_messages.prompts import with_cache_marks
from memoranda_messages.request import (
    Dropped,
    OutgoingItem,
    Request,
    answer_text,
    legal_tool_name,
    spoken,
    with_first_ids,
)
from memoranda_messages.shapes import JsonObject, arguments_object, calls_of, joined_text

FORMAT = "anthropic"
OPENING = "(The conversation begins with what the assistant said.)"
"""What a user is made to say first where the assistant would open a conversation, which that format refuses."""

_TYPES = {"user": "human", "assistant": "ai", "system": "system"}
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_ID = 64


def from_anthropic(
    messages: Iterable[Any],
    *,
    system: str | Sequence[Any] | None = None,
    metadata: MemoryMetadata | None = None,
) -> list[MemoryItem]:
    """Return items for Anthropic messages, dicts or objects of the SDK, system text first, stamped with the metadata.

    :func:`to_anthropic` gives every message back as it was; a system text that is not a list comes back as one block.
    Raises InputError as :func:`memoranda_messages.from_openai` does; a place in the system text is such as
    ``system[0].text``. What that API refuses is refused here too: results behind other content of their message, and
    results or calls in a message of the wrong role.
    """
    owner = owner_of(metadata)
    names: dict[str, str] = {}
    items = [
        item_from(_read(block, f"system[{position}]"), owner, names, _system_block, block, FORMAT)
        for position, block in enumerate(_system_blocks(system))
    ]
    given = messages_of(messages)
    start = next((at for at, message in enumerate(given) if message.get("role") != "system"), len(given))
    added = given[start : start + 1] == [_opening()] and [each.get("role") for each in given[start + 1 :][:1]] == [
        "assistant"
    ]
    after_results = False
    for position, message in enumerate(given):
        if added and position == start:
            continue
        parts = _parts_of(message, f"messages[{position}]", after_results=after_results)
        read = [item_from(fields, owner, names, _without_payload, part, FORMAT) for fields, part in parts]
        if read[0].memory_type == "ai" and all(item.memory_type == "system" for item in items) and not added:
            read[0].opens = True  # A field that no class knows; only this module reads it.
        after_results = read[-1].memory_type == "tool"
        items += read
    return with_first_ids(items)


def to_anthropic(
    items: Iterable[MemoryItem], *, strict: bool = False, dropped: list[Dropped] | None = None, cache: bool = False
) -> tuple[list[Message], list[Message]]:
    """Return the system blocks and the messages of the Anthropic format, for items given oldest first.

    Results stand right behind their call; those of parallel calls share one user message. System items go to the front,
    unless they came in among the messages; no other item speaks for the system. Blank text is left out, since it is
    refused. Where the assistant would speak first, a user's message that says so is put before it, unless the
    conversation came in like that. What that format has no place for is appended to ``dropped``, or with ``strict`` an
    InputError. Raises InputError as :func:`memoranda_messages.to_openai` does.

    ``cache`` marks where the parts end that the next request repeats, so that the provider's cache reuses them: the
    system text, memories that open the conversation, what was said before the newest question, and the results of tools
    at the end. These are at most four marks, as many as are allowed, and the messages' own are removed.
    """
    request = Request(FORMAT, items, _read, legal=_legal_id, strict=strict, dropped=dropped)
    _settle_hosted_calls(request)
    system: list[Message] = []
    messages: list[Message] = []
    behind_result = False
    first: MemoryItem | None = None
    for outgoing in request.outgoing(behind_calls=True):
        payload = request.payloads.get(outgoing.at)
        if outgoing.item.memory_type == "system" and not (payload and "role" in payload.message):
            system += _filled([payload.message if payload else _system_block(outgoing.item)], outgoing, request)
            continue
        message, joins = _message_of(outgoing, request, payload)
        if not message["content"] and outgoing.item.memory_type != "tool":
            request.report(outgoing.item, "blank text", "repaired")
            continue
        if behind_result and joins and isinstance(messages[-1]["content"], list):
            messages[-1]["content"] += message["content"]
        else:
            messages.append(message)
            first = first or (outgoing.item if message["role"] != "system" else None)
        behind_result = outgoing.item.memory_type == "tool"
    speaking = next((message for message in messages if message["role"] != "system"), None)
    if first is not None and speaking and speaking["role"] == "assistant" and not getattr(first, "opens", False):
        request.report(first, "the assistant's opening", "repaired")
        messages.insert(messages.index(speaking), _opening())
    return with_cache_marks(system, messages) if cache else (system, messages)


def _settle_hosted_calls(request: Request) -> None:
    """Let calls that the provider ran go out only with their results; those of the model's newest turn may wait.

    A call and its result may stand in two messages. Where half of such a pair is missing, none of them is sent.
    """
    request.payloads = {at: payload for at, payload in request.payloads.items() if payload.whole}
    hosted = {
        at: Counter(_hosted_ids(payload.message, "_tool_use", "_tool_result"))
        for at, payload in request.payloads.items()
    }
    newest = max((at for at, item in enumerate(request.items) if item.memory_type != "tool"), default=-1)
    waiting = _hosted_ids(request.payloads[newest].message, "_tool_use") if newest in request.payloads else []
    if any(count % 2 for call_id, count in sum(hosted.values(), Counter()).items() if call_id not in waiting):
        for at in [at for at, own in hosted.items() if any(count % 2 for count in own.values())]:
            request.report(request.items[at], "a call that the provider ran", "incomplete")
            del request.payloads[at]


def _hosted_ids(message: Any, *ends: str) -> list[str]:
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else []
    hosted = [block for block in blocks if str(block.get("type")).endswith(ends)]
    return [str(block.get("tool_use_id") or block.get("id")) for block in hosted]


def _opening() -> Message:
    return {"role": "user", "content": [{"type": "text", "text": OPENING}]}


def _legal_id(name: str) -> str:
    return _NOT_IN_IDS.sub("_", name)[:_MAX_ID]


def _system_blocks(system: Any) -> list[JsonObject]:
    if system is None or isinstance(system, str):
        return [{"type": "text", "text": system}] if system else []
    blocks = [
        shapes.json_object(plain(block), f"system[{position}]")
        for position, block in enumerate(each(system, "system", "blocks"))
    ]
    for position, block in enumerate(blocks):
        if "role" in block:
            raise InputError(f"system[{position}]: a block has no role.", field=f"system[{position}].role")
    return blocks


def _system_block(item: MemoryItem) -> Message:
    return {"type": "text", "text": item.content}


def _parts_of(message: JsonObject, place: str, *, after_results: bool) -> list[tuple[Fields, Any]]:
    """Return the fields of each item of a message, and the part of the message that it is.

    All other content of a message is one item: it starts one round.
    """
    role = shapes.role_of(message, place, _TYPES)
    blocks = shapes.blocks_of(message.get("content"), f"{place}.content")
    results = list(takewhile(lambda block: role == "user" and block.get("type") == "tool_result", blocks))
    if not results:
        return [(_read(message, place), message)]
    # The first result stands for the message, unless it would do so anyway.
    parts: list[Any] = [message | {"content": results[:1]}, *([block] for block in results[1:])]
    if len(message) == 2 and not after_results:
        parts[0] = results[:1]
    if blocks[len(results) :]:
        parts.append(blocks[len(results) :])
    return [(_read(part, f"{place}.content", at), part) for at, part in enumerate(parts)]


def _read(part: Any, place: str, first: int = 0) -> Fields:
    """Return the fields of the item that a message, the rest of a user's message, or a system block is."""
    if isinstance(part, dict) and "role" not in part:
        return {"memory_type": "system", "content": shapes.text(part, "text", place)}
    if isinstance(part, list):
        role, blocks = "user", shapes.blocks_of(part, place)
    else:
        role, place = shapes.role_of(part, place, _TYPES), f"{place}.content"
        blocks = shapes.blocks_of(part.get("content"), place)
        refuse_calls_of_others(part, [], place, "tool_calls", "function_call")
    if role == "user" and [block.get("type") for block in blocks] == ["tool_result"]:
        return _read_result(blocks[0], f"{place}[{first}]")
    calls = []
    for at, block in enumerate(blocks, first):
        kind = str(block.get("type"))
        if kind == "tool_result" or (kind.endswith(("tool_use", "tool_result")) and role != "assistant"):
            rule = "the results of tools come first in a user's message, and calls in an assistant's"
            raise InputError(f"{place}[{at}]: {rule}.", field=f"{place}[{at}]")
        calls += [_read_use(block, f"{place}[{at}]")] if kind == "tool_use" else []
    fields: Fields = {"memory_type": _TYPES[role], "content": joined_text(blocks)}
    return fields | ({"tool_calls": calls} if role == "assistant" else {})


def _read_use(block: JsonObject, place: str) -> JsonObject:
    given = block.get("input")
    if given is not None and not isinstance(given, dict):
        raise wrong(f"{place}.input", "an object", given)
    return {
        "id": shapes.needed_text(block, "id", place),
        "name": shapes.text(block, "name", place),
        "arguments": given or {},
    }


def _read_result(block: JsonObject, place: str) -> Fields:
    content = block.get("content")
    if content is not None and not isinstance(content, str):
        content = joined_text(shapes.blocks_of(content, f"{place}.content"))
    return {
        "memory_type": "tool",
        "content": content or "",
        "tool_call_id": shapes.text(block, "tool_use_id", place),
        "tool_name": "",
        "is_error": bool(block.get("is_error")),
    }


def _without_payload(item: MemoryItem) -> Any:
    """Return the part of a conversation that an item without payload is."""
    if item.memory_type == "tool":
        return [_result_block(item, getattr(item, "tool_call_id", ""), item.content)]
    return _from_fields(item, [_legal_id(call["id"]) for call in calls_of(item)], legal_tool_name)


def _from_fields(item: MemoryItem, ids: Sequence[str], tool_name: Callable[[str], str]) -> Message:
    """Return the message of an item that is not a result, from its fields."""
    text = spoken(item)
    blocks: list[Message] = [{"type": "text", "text": text}] if text.strip() else []
    named = zip(calls_of(item), ids, strict=True)
    blocks += [_use_block(call, call_id, tool_name(call_name(call))) for call, call_id in named]
    return {"role": "assistant" if item.memory_type == "ai" else "user", "content": blocks}


def _message_of(outgoing: OutgoingItem, request: Request, payload: UsablePayload | None) -> tuple[Message, bool]:
    """Return the message of an item, and True if it continues the message of the results before it."""
    item = outgoing.item
    blocks = request.blocks.get(outgoing.at, [])
    if item.memory_type == "tool":
        if payload and not outgoing.further:
            message = payload.message if isinstance(payload.message, dict) else {"content": payload.message}
            block = message["content"][0] | {"tool_use_id": outgoing.ids[0]}
            return {**message, "role": "user", "content": [block]}, isinstance(payload.message, list)
        block = _result_block(item, outgoing.ids[0], answer_text(outgoing))
        if blocks and not outgoing.further:
            said = [{"type": "text", "text": item.content}] if item.content.strip() else []
            block["content"] = [*said, *blocks]
        return {"role": "user", "content": [block]}, True
    if payload:
        message = payload.message if isinstance(payload.message, dict) else {"role": "user", "content": payload.message}
        content = message.get("content", [])
        if not isinstance(content, str):
            uses = iter(outgoing.ids)
            content = [
                block | {"id": next(uses)} if block.get("type") == "tool_use" else block for block in content or []
            ]
        return message | {"content": _filled(content, outgoing, request)}, isinstance(payload.message, list)
    message = _from_fields(item, outgoing.ids, partial(request.tool_name, item))
    content = message["content"]
    message["content"] = [*blocks, *content] if item.memory_type == "ai" else [*content, *blocks]
    return message, False


def _filled(content: Any, outgoing: OutgoingItem, request: Request) -> Any:
    """Return content without blank text."""
    if isinstance(content, str):
        return content if content.strip() else ""
    filled = [block for block in content if block.get("type") != "text" or str(block.get("text") or "").strip()]
    if len(filled) < len(content) and filled:
        request.report(outgoing.item, "blank text", "repaired")
    return filled


def _result_block(item: MemoryItem, call_id: str, text: str) -> Message:
    block: Message = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    return block | ({"is_error": True} if getattr(item, "is_error", False) else {})


def _use_block(call: Any, call_id: str, name: str) -> Message:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments_object(call_arguments(call))}


READERS[FORMAT] = _read
