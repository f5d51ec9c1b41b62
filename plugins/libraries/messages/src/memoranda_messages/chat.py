"""Items as messages of OpenAI's chat completions, which many providers take, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import owner_of, wrong
from memoranda.tool_calls import call_arguments, call_name
from memoranda_messages import shapes
from memoranda_messages.payloads import (
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
    legal_participant_name,
    legal_tool_name,
    spoken,
    with_first_ids,
)
from memoranda_messages.shapes import JsonObject, calls_of, is_foreign, joined_text, parsed

FORMAT = "openai"
_TYPES = {
    "system": "system",
    "developer": "system",
    "user": "human",
    "assistant": "ai",
    "tool": "tool",
    "function": "tool",
}
_ROLES = {"system": "system", "ai": "assistant", "tool": "tool"}
_MAX_ID = 40


def from_openai(messages: Iterable[Any], *, metadata: MemoryMetadata | None = None) -> list[MemoryItem]:
    """Return items for OpenAI chat messages, dicts or objects of the SDK, in their order, stamped with the metadata.

    :func:`to_openai` gives every message back as it was. Raises InputError for what is not such a message or could not
    be stored, naming the place, such as ``messages[3].tool_calls[0].id``.
    """
    owner = owner_of(metadata)
    names: dict[str, str] = {}
    items = []
    for position, message in enumerate(messages_of(messages)):
        fields = _read(message, f"messages[{position}]")
        items.append(item_from(fields, owner, names, _without_payload, message, FORMAT))
    return with_first_ids(items)


def to_openai(
    items: Iterable[MemoryItem], *, strict: bool = False, dropped: list[Dropped] | None = None
) -> list[Message]:
    """Return OpenAI chat messages for items given oldest first; only items of the type ``system`` have that role.

    Results stand right behind their call, even where other items came in between. What that format has no place for,
    such as another provider's images or the ``is_error`` of a failed result, is appended to ``dropped``, and with
    ``strict`` it is an InputError; names and ids that OpenAI refuses are changed, which is reported as well. Raises
    InputError, naming the place, for what is not an item and for calls that JSON cannot hold.
    """
    request = Request(FORMAT, items, _read, legal=lambda name: name[:_MAX_ID], strict=strict, dropped=dropped)
    messages: list[Message] = []
    by_name: str | None = None
    for outgoing in request.outgoing(behind_calls=True):
        payload = request.payloads.get(outgoing.at)
        if outgoing.item.memory_type == "tool":
            messages.append(_result(outgoing, payload, by_name=by_name))
            continue
        if request.has_nothing_to_say(outgoing.at):
            continue
        if payload and payload.whole:
            message = payload.message | _ids_in(payload.message, outgoing.ids)
        else:
            message = _from_fields(outgoing.item, outgoing.ids, partial(request.tool_name, outgoing.item), payload)
            if blocks := request.blocks.get(outgoing.at):
                said = [{"type": "text", "text": message["content"]}] if message["content"] else []
                message["content"] = [*said, *blocks]
        by_name = message["function_call"]["name"] if message.get("function_call") else None
        if isinstance(message.get("name"), str):
            _repair_name(message, outgoing.item, request)
        messages.append(message)
    return messages


def _read(message: JsonObject, place: str) -> Fields:
    role = shapes.role_of(message, place, _TYPES)
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        blocks = shapes.blocks_of(content, f"{place}.content")
        refuse_calls_of_others({}, blocks, f"{place}.content", "tool_use", "tool_result")
        content = joined_text(blocks)
    if role != "assistant":
        refuse_calls_of_others(message, [], place, "tool_calls", "function_call")
    fields: Fields = {"memory_type": _TYPES[role], "content": content or ""}
    name = shapes.text(message, "name", place) or message.get("name")
    if role == "tool":
        return fields | {"tool_call_id": shapes.text(message, "tool_call_id", place), "tool_name": name or ""}
    if role == "function":
        name = shapes.needed_text(message, "name", place)
        return fields | {"tool_call_id": _id_by_name(name), "tool_name": name}
    if role == "assistant":
        fields["content"] = "\n".join(filter(None, [fields["content"], *_otherwise_said(message, place)]))
        fields["tool_calls"] = _read_calls(message, place)
    return fields | {"name": name}


def _otherwise_said(message: JsonObject, place: str) -> tuple[str, str]:
    """Return a model's refusal and the transcript of its audio, which stand beside its content."""
    audio = message.get("audio")
    if audio is not None and not isinstance(audio, dict):
        raise wrong(f"{place}.audio", "an object", audio)
    return shapes.text(message, "refusal", place), shapes.text(audio or {}, "transcript", f"{place}.audio")


def _id_by_name(name: str) -> str:
    """Return an id for a call of the old form, which has none: a ``function`` message names whom it answers."""
    return f"function_call_{name}"


def _read_calls(message: JsonObject, place: str) -> list[JsonObject]:
    calls = [
        _read_call(call, f"{place}.tool_calls[{position}]")
        for position, call in enumerate(shapes.objects(message.get("tool_calls"), f"{place}.tool_calls"))
    ]
    old = message.get("function_call")
    if old is None:
        return calls
    place = f"{place}.function_call"
    if not isinstance(old, dict):
        raise wrong(place, "an object", old)
    if calls:
        raise InputError(f"{place}: a message has either this or tool_calls.", field=place)
    name = shapes.needed_text(old, "name", place)
    return [{"id": _id_by_name(name), "name": name, "arguments": parsed(shapes.text(old, "arguments", place))}]


def _read_call(call: JsonObject, place: str) -> JsonObject:
    """Return a function call as id, name and arguments; other kinds of call stay as they are."""
    call_id = shapes.needed_text(call, "id", place)
    for kind in ("function", "custom"):
        inner = call.get(kind)
        if inner is not None and not isinstance(inner, dict):
            raise wrong(f"{place}.{kind}", "an object", inner)
        shapes.text(inner or {}, "name", f"{place}.{kind}")
    shapes.text(call, "name", place)
    shapes.text(call, "type", place)
    if is_foreign(call):
        return call
    return {"id": call_id, "name": call_name(call), "arguments": parsed(call_arguments(call))}


def _without_payload(item: MemoryItem) -> Message:
    """Return the message of an item that is sent alone and has no payload."""
    if item.memory_type == "tool":
        return {"role": "tool", "content": item.content, "tool_call_id": getattr(item, "tool_call_id", "")}
    return _from_fields(item, [call["id"][:_MAX_ID] for call in calls_of(item)], legal_tool_name)


def _from_fields(
    item: MemoryItem, ids: Sequence[str], tool_name: Callable[[str], str], payload: UsablePayload | None = None
) -> Message:
    """Return the message of an item that is not a result, from its fields; of its payload only the calls are used."""
    message: Message = {"role": _ROLES.get(item.memory_type, "user"), "content": spoken(item)}
    if item.name is not None:
        message["name"] = item.name
    if ids:
        message["content"] = item.content or None
        message |= (_ids_in(payload.message, ids) if payload else {}) or {
            "tool_calls": [
                _written_call(call, call_id, tool_name(call_name(call)))
                for call, call_id in zip(calls_of(item), ids, strict=True)
            ]
        }
    return message


def _written_call(call: Any, call_id: str, name: str) -> Message:
    if is_foreign(call):
        return {**call, "id": call_id}
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": call_arguments(call)}}


def _ids_in(message: JsonObject, ids: Sequence[str]) -> Message:
    """Return the calls of a payload, under the ids that they have in this request."""
    calls = message.get("tool_calls")
    if not calls:
        return {}
    return {"tool_calls": [call | {"id": call_id} for call, call_id in zip(calls, ids, strict=True)]}


def _result(outgoing: OutgoingItem, payload: UsablePayload | None, *, by_name: str | None) -> Message:
    """Return the message of a result, in the form that its call has; ``by_name`` is whom one of the old form called."""
    role = "tool" if by_name is None else "function"
    identity = {"tool_call_id": outgoing.ids[0]} if by_name is None else {"name": by_name}
    if payload and payload.whole and payload.message["role"] == role and not outgoing.further:
        message: Message = payload.message | identity
        return message
    return {"role": role, "content": answer_text(outgoing), **identity}


def _repair_name(message: Message, item: MemoryItem, request: Request) -> None:
    """Give a participant a name that OpenAI takes, or none."""
    legal = legal_participant_name(message["name"])
    if not legal or legal != message["name"]:
        request.report(item, "name", "repaired")
    if legal:
        message["name"] = legal
    else:
        del message["name"]


READERS[FORMAT] = _read
