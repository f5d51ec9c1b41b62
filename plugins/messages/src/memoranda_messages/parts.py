"""Names what a payload holds beside its item's own fields: images, thinking, searches that the provider ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.payloads import decode_payload

OUTPUTS: Mapping[str, str] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
    "mcp_approval_request": "mcp_approval_response",
    "program": "program_output",
}
"""What answers each kind of call of the Responses API. The first two can be written from an item's fields."""

_CHAT = {"assistant": {"name", "refusal", "tool_calls"}, "tool": {"name", "tool_call_id"}}
_HELD: Mapping[str, AbstractSet[str]] = {
    "text": {"text"},
    "input_text": {"text"},
    "output_text": {"text"},
    "refusal": {"refusal"},
    "tool_use": {"name", "input"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "function": {"function"},
    "function_call": {"call_id", "name", "arguments"},
    "custom": {"custom"},
    "custom_tool_call": {"call_id", "name", "input"},
    "function_call_output": {"call_id", "name", "output"},
    "custom_tool_call_output": {"call_id", "name", "output"},
}
"""The keys of each kind of part that a format's reader compares with the fields of the item."""

_RARE = (OUTPUTS.keys() | set(OUTPUTS.values())) - _HELD.keys()
_HELD_IF_RARE = frozenset(
    {"call_id", "name", "arguments", "action", "actions", "operation", "code", "output", "result", "approve", "reason"}
    | {"approval_request_id", "caller", "fingerprint", "execution", "namespace", "server_label"}
)
_MARKS = {"type", "id", "status", "index", "model", "usage", "stop_reason", "stop_sequence"}
_HARMLESS = (
    {"image", "image_url", "input_image", "computer_screenshot", "document", "file", "input_file", "search_result"}
    | {"container_upload", "audio", "input_audio", "thinking", "redacted_thinking", "reasoning", "reasoning_content"}
    | {"annotations", "citations", "logprobs", "cache_control", "prompt_cache_breakpoint", "extra_content", "phase"}
)
"""What any payload may add: it brings in no role, no call and no result."""


def unvouched_parts(message: Any, in_format: str) -> list[str]:
    """Return the names, sorted, of what a payload may hold only if its item's ``provider_parts`` name it.

    Whatever is not known to be harmless is among them: calls that the provider ran itself, their results, all that is
    new.
    """
    return sorted(set(_parts(message, in_format)) - _HARMLESS)


def lost_parts(item: MemoryItem, in_format: str) -> list[str]:
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
            parts = _parts(decode_payload(item.payload), item.payload_format)
            lost += [name for name in parts if name not in _RARE and name != "function_call"]
        except (InputError, RecursionError):
            lost.append("payload")
    return list(dict.fromkeys(lost))


def _parts(given: Any, in_format: str) -> Iterator[str]:
    """Yield the names of what a message, a block or a list of them holds beside the fields of an item."""
    if isinstance(given, list):
        for part in given:
            yield from _parts(part, in_format)
    if not isinstance(given, dict):
        return
    untyped = "message" if "role" in given else "function" if "function" in given else "an object without a type"
    kind = str(given.get("type") or untyped)
    held = _HELD.get(kind, _HELD_IF_RARE)
    if kind == "message":
        chat = _CHAT.get(str(given.get("role")), {"name"}) if in_format == "openai" else set()
        held = {"role", "content"} | chat
    elif kind not in _HELD:
        yield kind
        if kind not in _RARE:
            return
    for key, value in given.items():
        if key in ("content", "output", "tool_calls") and key in held:
            yield from _parts(value, in_format)
        elif key in ("function", "custom") and key in held and isinstance(value, dict):
            yield from value.keys() - {"name", "arguments", "input"}
        elif key not in held and key not in _MARKS and value not in (None, [], {}, "", False):
            yield key
