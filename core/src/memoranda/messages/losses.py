"""What of an item a format has no place for: images, files, thinking, and whatever else came from another provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.payloads import decode_payload

# What an item's own fields hold, and what only means something to the provider that gave it.
_HELD = frozenset(
    {"role", "type", "id", "call_id", "status", "index", "model", "usage", "stop_reason", "stop_sequence", "name"}
    | {"content", "text", "refusal", "tool_calls", "tool_call_id", "function_call", "function", "custom", "arguments"}
    | {"input", "output", "tool_use_id", "is_error", "code", "result", "approval_request_id", "approve", "reason"}
    | {"action", "actions", "operation", "execution", "namespace", "caller", "fingerprint", "server_label"}
)
_TEXTS = frozenset({"text", "input_text", "output_text", "refusal"})
_CALLS = frozenset(
    {"tool_use", "tool_result", "function", "custom", "message", "function_call", "function_call_output"}
    | {"custom_tool_call", "custom_tool_call_output", "computer_call", "computer_call_output", "local_shell_call"}
    | {"local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output"}
    | {"tool_search_call", "tool_search_output", "mcp_approval_request", "mcp_approval_response"}
    | {"program", "program_output"}
)


def unheld(item: MemoryItem, in_format: str) -> list[str]:
    """Return the names of what would be lost if an item went out in a format; empty for the format it came in."""
    if item.payload_format == in_format and item.payload is not None:
        return []
    lost = []
    if in_format != "anthropic" and getattr(item, "is_error", False) is True:
        lost.append("is_error")
    if in_format != "openai" and item.name and item.memory_type != "tool":
        lost.append("name")
    if item.payload is not None and item.payload_format is not None:
        try:
            lost += _parts(decode_payload(item.payload), item)
        except InputError:
            lost.append("payload")
    return list(dict.fromkeys(lost))


def _parts(given: Any, item: MemoryItem) -> Iterator[str]:
    """Yield the names of the parts of a message, a block or a list of them that the item's fields do not hold."""
    if isinstance(given, list):
        for part in given:
            yield from _parts(part, item)
    if not isinstance(given, dict):
        return
    kind = given.get("type")
    if isinstance(kind, str) and kind not in _TEXTS | _CALLS:
        yield kind  # An image, a document, thinking, a search: the whole of it.
        return
    for key, value in given.items():
        if key == "audio" and isinstance(value, dict):
            yield key
        elif (key in ("content", "output") and isinstance(value, (list, dict))) or key == "tool_calls":
            yield from _parts(value, item)
        elif key not in _HELD and value not in (None, [], {}, "", False):
            yield key
