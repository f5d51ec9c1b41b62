"""What a tool call asks for, in whichever of the usual forms it comes, and the text in content that comes in blocks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.shapes import json_text


def call_name(call: Mapping[str, Any]) -> str:
    """Return the name of the tool that a call asks for, in a flat call or an OpenAI one."""
    return str(_holder(call).get("name") or "")


def call_arguments(call: Mapping[str, Any]) -> str:
    """Return the arguments of a call as JSON text, or whatever text the model wrote instead.

    Raises InputError for arguments that JSON cannot hold.
    """
    holder = _holder(call)
    arguments = holder.get("arguments", holder.get("args", holder.get("input")))
    if isinstance(arguments, str):
        return arguments
    try:
        return json_text({} if arguments is None else arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"The arguments of a tool call of type {type(arguments).__name__} hold what JSON cannot.", field="arguments"
        ) from error


def is_foreign(call: Mapping[str, Any]) -> bool:
    """Whether a call is of another OpenAI kind than a function: one that says what it holds, such as ``custom``."""
    kind = call.get("type")
    return kind not in (None, "function") and isinstance(call.get(str(kind)), Mapping)


def calls_of(item: MemoryItem) -> Sequence[Mapping[str, Any]]:
    """Return the tool calls of an item that speaks for the model, as :func:`memoranda.integrity.call_ids` sees them."""
    calls: Sequence[Mapping[str, Any]] = getattr(item, "tool_calls", None) or () if item.memory_type == "ai" else ()
    return calls


def parsed(arguments: str) -> Any:
    """Return arguments as an object where writing that out again gives the same text, else the text itself."""
    try:
        value = json.loads(arguments)
        return value if isinstance(value, dict) and json_text(value) == arguments else arguments
    except (ValueError, RecursionError):
        return arguments


def joined_text(blocks: Iterable[Any]) -> str:
    """Return what the blocks say, a line for each; refusals are said too, other blocks without text say nothing."""
    texts = [block.get("text", block.get("refusal")) for block in blocks if isinstance(block, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _holder(call: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = call.get("function") or call.get("custom")
    return inner if isinstance(inner, Mapping) else call
