"""Items as the items of OpenAI's Responses API, and back."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import owner_of, wrong
from memoranda.tool_calls import call_arguments, call_name
from memoranda_messages import shapes
from memoranda_messages.payloads import (
    OUTPUTS,
    READERS,
    Fields,
    Message,
    UsablePayload,
    item_from,
    messages_of,
    refuse_calls_of_others,
)
from memoranda_messages.request import (
    Dropped,
    OutgoingItem,
    Request,
    answer_text,
    legal_tool_name,
    spoken,
    with_first_ids,
)
from memoranda_messages.shapes import JsonObject, calls_of, is_foreign, joined_text, parsed

FORMAT = "responses"
REASONING = "reasoning"
_TYPES = {"user": "human", "assistant": "ai", "system": "system", "developer": "system"}
_ROLES = {"ai": "assistant", "system": "system"}
MAX_ID = 64
"""How many characters the id of a call may have."""

_ALONE = frozenset(
    {REASONING, "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
    | {"mcp_list_tools", "compaction", "compaction_trigger", "item_reference"}
)
"""What the model, or the server for it, put there whole: nothing answers it, and only this API has a place for it."""

_SETTINGS = frozenset({"additional_tools", "configuration_update"})
"""What the developer says to the API and not in words."""

_INPUTS = _SETTINGS | frozenset(OUTPUTS.values())


def from_responses(items: Iterable[Any], *, metadata: MemoryMetadata | None = None) -> list[MemoryItem]:
    """Return memory items for items of the Responses API, dicts or objects of the SDK, inputs and outputs alike.

    One becomes one, in their order, stamped with the metadata; :func:`to_responses` gives every one back as it was. A
    model's reasoning and what it led to, up to the next input, are a ``group``, and so are a program and the calls that
    it makes. Raises InputError for what is not such an item or could not be stored, naming the place, such as
    ``items[3].call_id``.
    """
    owner = owner_of(metadata)
    names: dict[str, str] = {}
    groups = _Groups()
    found = []
    for position, given in enumerate(messages_of(items, "items")):
        fields = _read(given, f"items[{position}]")
        item = item_from(fields, owner, names, _without_payload, given, FORMAT)
        item.group = groups.group_of(given, item)
        found.append(item)
    sizes = Counter(item.group for item in found)
    for item in found:
        if item.group is not None and sizes[item.group] > 1:
            item.group_size = sizes[item.group]
    return with_first_ids(found)


def to_responses(
    items: Iterable[MemoryItem], *, strict: bool = False, dropped: list[Dropped] | None = None
) -> list[Message]:
    """Return the input of the Responses API for items given oldest first; order is kept.

    Only items of the type ``system`` have a role with authority. Reasoning goes out only before what it led to. What
    this API has no place for is appended to ``dropped``, or with ``strict`` an InputError. Raises InputError as
    :func:`memoranda_messages.to_openai` does.
    """
    request = Request(FORMAT, items, _read, legal=lambda name: name[:MAX_ID], strict=strict, dropped=dropped)
    _settle_kinds(request)
    answered_by: dict[str, str] = {}
    sent: list[tuple[Message, MemoryItem]] = []
    for outgoing in request.outgoing(behind_calls=False):
        payload = request.payloads.get(outgoing.at)
        if outgoing.item.memory_type == "tool":
            written = [_result(outgoing, payload, answered_by[outgoing.ids[0]], request.blocks.get(outgoing.at, ()))]
        elif request.has_nothing_to_say(outgoing.at):
            written = []
        else:
            written = _from_fields(outgoing.item, outgoing.ids, partial(request.tool_name, outgoing.item), payload)
            if blocks := request.blocks.get(outgoing.at):
                written[0]["content"] = [*_text_blocks(written[0]["content"]), *blocks]
            calls = [each for each in written if _kind(each) in OUTPUTS]
            answered_by |= {
                call_id: OUTPUTS[_kind(call)] for call, call_id in zip(calls, outgoing.ids, strict=bool(outgoing.ids))
            }
        sent += [(message, outgoing.item) for message in written]
    return _followed_reasoning(_distinct(sent, request), request)


def _kind(given: JsonObject) -> str:
    kind = given.get("type")
    return str(kind or ("message" if "role" in given else "item_reference"))


def _read(given: JsonObject, place: str) -> Fields:
    shapes.text(given, "type", place)
    kind = _kind(given)
    if kind == "message":
        return _read_message(given, place)
    if kind in OUTPUTS and (kind != "tool_search_call" or given.get("call_id")):
        return {"memory_type": "ai", "content": "", "tool_calls": [_read_call(given, kind, place)]}
    if kind in OUTPUTS.values() and (kind != "tool_search_output" or given.get("call_id")):
        return _read_output(given, kind, place)
    if kind in _ALONE or kind in ("tool_search_call", "tool_search_output"):
        if kind == "item_reference":
            shapes.needed_text(given, "id", place)
        return {"memory_type": "ai", "content": ""}
    if kind in _SETTINGS:
        return {"memory_type": "system", "content": ""}
    name = repr(kind) if len(kind) <= 40 else "this"
    raise InputError(f"{place}.type: {name} is not a known type of item.", field=f"{place}.type")


def _read_message(given: JsonObject, place: str) -> Fields:
    role = shapes.role_of(given, place, _TYPES)
    content = given.get("content")
    blocks = [] if isinstance(content, str) else shapes.blocks_of(content, f"{place}.content")
    refuse_calls_of_others(given, blocks, place, "tool_calls", "function_call", "tool_use", "tool_result")
    if not isinstance(content, str):
        content = joined_text(blocks)
    return {"memory_type": _TYPES[role], "content": content}


def _read_call(given: JsonObject, kind: str, place: str) -> JsonObject:
    call_id = shapes.needed_text(given, _id_key(given, kind), place)
    if kind == "custom_tool_call":
        custom = {"name": shapes.text(given, "name", place), "input": shapes.text(given, "input", place)}
        return {"id": call_id, "type": "custom", "custom": custom}
    if kind in ("function_call", "mcp_approval_request"):
        arguments: Any = parsed(shapes.text(given, "arguments", place))
        return {"id": call_id, "name": shapes.text(given, "name", place), "arguments": arguments}
    asked = ("action", "actions", "operation", "arguments", "code")
    return {
        "id": call_id,
        "name": kind.removesuffix("_call"),
        "arguments": {key: given[key] for key in asked if given.get(key) is not None},
    }


def _read_output(given: JsonObject, kind: str, place: str) -> Fields:
    output = given.get("result" if kind == "program_output" else "output")
    if kind == "mcp_approval_response":
        output = "approved" if given.get("approve") else "declined"
    elif kind == "shell_call_output":
        chunks = shapes.objects(output, f"{place}.output")
        output = "\n".join(str(chunk[key]) for chunk in chunks for key in ("stdout", "stderr") if chunk.get(key))
    elif isinstance(output, list):
        output = joined_text(shapes.blocks_of(output, f"{place}.output"))
    elif kind == "computer_call_output" or output is None:
        output = ""
    elif not isinstance(output, str):
        raise wrong(f"{place}.output", "text or a list of objects", output)
    return {
        "memory_type": "tool",
        "content": output,
        "tool_call_id": shapes.needed_text(given, _id_key(given, kind), place),
        "tool_name": shapes.text(given, "name", place),
        "is_error": kind == "apply_patch_call_output" and given.get("status") == "failed",
    }


def _id_key(given: JsonObject, kind: str) -> str:
    """Return under which key an item has the id of its call."""
    if kind == "mcp_approval_response":
        return "approval_request_id"
    if kind == "mcp_approval_request" or (kind == "local_shell_call_output" and "call_id" not in given):
        return "id"
    return "call_id"


class _Groups:
    """Which of the items that come in belong together."""

    def __init__(self) -> None:
        self._reasoned: str | None = None
        self._led_to_something = False
        self._programs: dict[str, str] = {}

    def group_of(self, given: JsonObject, item: MemoryItem) -> str | None:
        kind = _kind(given)
        if kind == REASONING:
            if self._reasoned is None or self._led_to_something:
                own = given.get("id")
                self._reasoned = own if isinstance(own, str) and own else uuid.uuid4().hex
            self._led_to_something = False
        elif item.memory_type == "ai":
            self._led_to_something = True
        else:
            self._reasoned = None
        if kind == "program":
            return self._programs.setdefault(str(given["call_id"]), self._reasoned or str(given["call_id"]))
        caller = given.get("caller")
        if isinstance(caller, dict) and caller.get("type") == "program":
            return self._programs.get(str(caller.get("caller_id")), str(caller.get("caller_id")))
        return self._reasoned


def _without_payload(item: MemoryItem) -> Any:
    """Return what an item that is sent alone and has no payload is sent as."""
    if item.memory_type == "tool":
        return {"type": "function_call_output", "call_id": getattr(item, "tool_call_id", ""), "output": item.content}
    sent = _from_fields(item, [call["id"][:MAX_ID] for call in calls_of(item)], legal_tool_name)
    return sent[0] if len(sent) == 1 else sent


def _settle_kinds(request: Request) -> None:
    """Let a call of a kind that only this API has go out as it came only if every result of it does so too."""
    for link in request.links:
        payload, result = request.payloads.get(link.caller), request.payloads.get(link.result)
        if payload is None or _kind(payload.message) in ("function_call", "custom_tool_call"):
            continue
        if result is None or not result.whole or _kind(result.message) != OUTPUTS.get(_kind(payload.message)):
            del request.payloads[link.caller]


def _from_fields(
    item: MemoryItem, ids: Sequence[str], tool_name: Callable[[str], str], payload: UsablePayload | None = None
) -> list[Message]:
    """Return the input entries of an item that is not a result: its payload, or its text and then its calls."""
    if payload and ids:
        calls = [payload.message | {_id_key(payload.message, _kind(payload.message)): ids[0]}]
    else:
        named = zip(calls_of(item), ids, strict=True)
        calls = [_written_call(call, call_id, tool_name(call_name(call))) for call, call_id in named]
    if payload and payload.whole:
        return calls or [dict(payload.message)]
    if calls and not item.content:
        return calls
    return [{"role": _ROLES.get(item.memory_type, "user"), "content": spoken(item)}, *calls]


def _written_call(call: Any, call_id: str, name: str) -> Message:
    if is_foreign(call):
        return {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": call_arguments(call)}
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": call_arguments(call)}


def _text_blocks(text: str) -> list[Message]:
    return [{"type": "input_text", "text": text}] if text else []


def _result(
    outgoing: OutgoingItem, payload: UsablePayload | None, kind: str, blocks: Sequence[Message] = ()
) -> Message:
    if payload and payload.whole and _kind(payload.message) == kind and not outgoing.further:
        message: Message = payload.message | {_id_key(payload.message, kind): outgoing.ids[0]}
        return message
    output: Any = answer_text(outgoing)
    if blocks and not outgoing.further:
        output = [*_text_blocks(output), *blocks]
    return {"type": kind, "call_id": outgoing.ids[0], "output": output}


def _distinct(sent: Iterable[tuple[Message, MemoryItem]], request: Request) -> list[tuple[Message, MemoryItem]]:
    """Return what is sent with each id of the API once: what comes again goes without it, or not at all."""
    seen: set[str] = set()
    distinct = []
    for message, item in sent:
        kind, own = _kind(message), message.get("id")
        if isinstance(own, str) and own and _id_key(message, kind) != "id":
            if own in seen:
                request.report(item, "id", "repaired")
                if kind in _ALONE:
                    continue
                message = {key: value for key, value in message.items() if key != "id"}
            seen.add(own)
        distinct.append((message, item))
    return distinct


def _followed_reasoning(sent: Sequence[tuple[Message, MemoryItem]], request: Request) -> list[Message]:
    """Return what is sent without reasoning whose outcome is not there, which the API refuses.

    Reasoning that was given last of all has none yet, and goes out as it came.
    """
    ends_open = bool(sent) and sent[-1][1] is request.last
    lone = lone_reasoning([message for message, _ in sent], ends_open=ends_open)
    for at in sorted(lone, reverse=True):
        request.report(sent[at][1], REASONING, "incomplete")
    return [message for at, (message, _) in enumerate(sent) if at not in lone]


def lone_reasoning(messages: Sequence[Any], *, ends_open: bool) -> set[int]:
    """Return the positions of reasoning that nothing follows which it may have led to: the API refuses it.

    With ``ends_open``, the outcome of the last reasoning is still to come. What this release does not know may be one.
    """
    lone: set[int] = set()
    follows = ends_open
    for at in reversed(range(len(messages))):
        message = messages[at]
        kind = _kind(message) if isinstance(message, dict) else ""
        if kind == REASONING:
            if not follows:
                lone.add(at)
        else:
            follows = not _is_input(message, kind)
    return lone


def _is_input(message: Any, kind: str) -> bool:
    """Return True for what a model is given: a message that is not its own, a result, or a setting."""
    if kind == "message":
        return isinstance(message, dict) and message.get("role") != "assistant"
    return kind in _INPUTS


READERS[FORMAT] = _read
