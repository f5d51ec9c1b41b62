"""Provider messages as items: what :mod:`memoranda.messages` offers as ``from_openai`` and ``from_anthropic``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memoranda import shapes
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.messages.tool_calls import call_arguments, call_name, is_foreign, joined_text
from memoranda.shapes import JsonObject, json_text

_OPENAI_ROLES = ("system", "developer", "user", "assistant", "tool")
_OPENAI_FIELDS = {"role", "content", "name", "tool_calls", "tool_call_id"}
_ANTHROPIC_ROLES = ("user", "assistant")


def from_openai(messages: Iterable[Mapping[str, Any]], *, metadata: MemoryMetadata | None = None) -> list[MemoryItem]:
    """Return items for OpenAI chat messages, in their order, stamped with the metadata.

    Raises InputError for whatever is no such message or could not be stored, naming the place, such as
    ``messages[3].tool_calls[0].id``.
    """
    owner = shapes.owner_of(metadata)
    items: list[MemoryItem] = []
    tool_names: dict[str, str] = {}
    for position, given in enumerate(shapes.each(messages, "messages", "messages")):
        place = f"messages[{position}]"
        item = _from_openai(shapes.json_object(given, place), place, owner, tool_names)
        for call in getattr(item, "tool_calls", ()):
            tool_names[call["id"]] = call_name(call)
        items.append(item)
    return items


def from_anthropic(
    messages: Iterable[Mapping[str, Any]],
    *,
    system: str | Sequence[Mapping[str, Any]] | None = None,
    metadata: MemoryMetadata | None = None,
) -> list[MemoryItem]:
    """Return items for Anthropic messages, system text first, stamped with the metadata.

    Raises InputError as :func:`from_openai` does; a place in the system text is such as ``system[0].text``.
    """
    owner = shapes.owner_of(metadata)
    items: list[MemoryItem] = [
        SystemMemory(content=block.get("text") or "", metadata=owner, **_kept("anthropic", block, {"type", "text"}))
        for block in _system_blocks(system)
    ]
    tool_names: dict[str, str] = {}
    for position, given in enumerate(shapes.each(messages, "messages", "messages")):
        place = f"messages[{position}]"
        message = shapes.json_object(given, place)
        role = shapes.role_of(message, place, _ANTHROPIC_ROLES)
        blocks = shapes.blocks_of(message.get("content"), f"{place}.content")
        if role == "assistant":
            item = _assistant(blocks, f"{place}.content", owner)
            tool_names |= {call["id"]: call_name(call) for call in item.tool_calls}
            items.append(item)
        else:
            items += _from_user(blocks, f"{place}.content", owner, tool_names)
    return items


def _from_openai(
    message: JsonObject, place: str, metadata: MemoryMetadata, tool_names: Mapping[str, str]
) -> MemoryItem:
    role = shapes.role_of(message, place, _OPENAI_ROLES)
    content = message.get("content")
    kept = {key: value for key, value in message.items() if key not in _OPENAI_FIELDS}
    if content is not None and not isinstance(content, str):
        kept["content"] = content
        content = joined_text(shapes.blocks_of(content, f"{place}.content"))
    name = shapes.text(message, "name", place) or message.get("name")
    shared: dict[str, Any] = {"content": content or "", "metadata": metadata, "name": name}
    if role == "developer":
        kept["role"] = role
    further: dict[str, Any] = {"openai": kept} if kept else {}
    if role in ("system", "developer"):
        return SystemMemory(**shared, **further)
    if role == "user":
        return HumanMemory(**shared, **further)
    if role == "assistant":
        calls = [
            _openai_call(call, f"{place}.tool_calls[{position}]")
            for position, call in enumerate(shapes.objects(message.get("tool_calls"), f"{place}.tool_calls"))
        ]
        return AIMemory(**shared, tool_calls=calls, **further)
    call_id = shapes.text(message, "tool_call_id", place)
    return ToolMemory(**shared, tool_call_id=call_id, tool_name=tool_names.get(call_id, ""), **further)


def _openai_call(call: JsonObject, place: str) -> JsonObject:
    """Return an OpenAI function call as id, name and arguments; other kinds of call stay as they are."""
    call_id = shapes.needed_text(call, "id", place)
    for kind in ("function", "custom"):
        inner = call.get(kind)
        if inner is not None and not isinstance(inner, dict):
            raise shapes.wrong(f"{place}.{kind}", "an object", inner)
        shapes.text(inner or {}, "name", f"{place}.{kind}")
    shapes.text(call, "name", place)
    shapes.text(call, "type", place)
    if is_foreign(call):
        return call
    return {"id": call_id, "name": call_name(call), "arguments": _parsed(call_arguments(call))}


def _parsed(arguments: str) -> Any:
    """Return arguments as an object where writing that out again gives the same text, else the text itself."""
    try:
        parsed = json.loads(arguments)
        return parsed if isinstance(parsed, dict) and json_text(parsed) == arguments else arguments
    except (ValueError, RecursionError):
        return arguments


def _system_blocks(system: Any) -> list[JsonObject]:
    if system is None or isinstance(system, str):
        blocks = shapes.blocks_of(system or None, "system")
    else:
        blocks = shapes.each(system, "system", "blocks")
    blocks = [shapes.json_object(block, f"system[{position}]") for position, block in enumerate(blocks)]
    for position, block in enumerate(blocks):
        shapes.text(block, "text", f"system[{position}]")
    return blocks


def _assistant(blocks: Sequence[JsonObject], place: str, metadata: MemoryMetadata) -> AIMemory:
    texts = [block for block in blocks if block.get("type") == "text"]
    uses = [block for block in blocks if block.get("type") == "tool_use"]
    calls = [
        _tool_use(block, f"{place}[{position}]")
        for position, block in enumerate(blocks)
        if block.get("type") == "tool_use"
    ]
    plain = len(texts) <= 1 and list(blocks) == [*texts, *uses] and all(len(block) <= 4 for block in blocks)
    plain = plain and all(set(block) == {"type", "text"} for block in texts)
    # Thinking, citations, several texts: kept as they came, since only then do they go out the same.
    further: dict[str, Any] = {} if plain else {"anthropic": {"blocks": list(blocks)}}
    return AIMemory(content=joined_text(blocks), tool_calls=calls, metadata=metadata, **further)


def _tool_use(block: JsonObject, place: str) -> JsonObject:
    given = block.get("input")
    if given is not None and not isinstance(given, dict):
        raise shapes.wrong(f"{place}.input", "an object", given)
    return {
        "id": shapes.needed_text(block, "id", place),
        "name": shapes.text(block, "name", place),
        "arguments": given or {},
    }


def _from_user(
    blocks: Sequence[JsonObject], place: str, metadata: MemoryMetadata, tool_names: Mapping[str, str]
) -> list[MemoryItem]:
    """Return the results in a user's message, then all that was said in it as one item: it starts one round."""
    items: list[MemoryItem] = [
        _from_result(block, f"{place}[{position}]", metadata, tool_names)
        for position, block in enumerate(blocks)
        if block.get("type") == "tool_result"
    ]
    said = [block for block in blocks if block.get("type") != "tool_result"]
    if said:
        further: dict[str, Any] = {"anthropic": {"blocks": said}}
        if items:
            further["anthropic"]["with_results"] = True
        elif len(said) == 1 and said[0].get("type") == "text":
            further = _kept("anthropic", said[0], {"type", "text"})
        items.append(HumanMemory(content=joined_text(said), metadata=metadata, **further))
    return items


def _from_result(block: JsonObject, place: str, metadata: MemoryMetadata, tool_names: Mapping[str, str]) -> ToolMemory:
    call_id = shapes.text(block, "tool_use_id", place)
    content = block.get("content") or ""
    plain = isinstance(content, str)
    return ToolMemory(
        content=content if plain else joined_text(shapes.blocks_of(content, f"{place}.content")),
        tool_call_id=call_id,
        tool_name=tool_names.get(call_id, ""),
        is_error=bool(block.get("is_error")),
        metadata=metadata,
        **_kept("anthropic", block, {"type", "tool_use_id", "is_error", *(["content"] if plain else [])}),
    )


def _kept(provider: str, message: JsonObject, known: set[str]) -> dict[str, Any]:
    """Return the fields of a message that items have no place for, under the provider's name."""
    rest = {key: value for key, value in message.items() if key not in known}
    return {provider: rest} if rest else {}
