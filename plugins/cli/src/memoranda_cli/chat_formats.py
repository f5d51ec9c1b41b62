"""What the chat formats look like, and which of them a message or a conversation can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from memoranda_cli.sharegpt import SPEAKERS


class FileFormat(StrEnum):
    """What a file that is imported is written in."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    SHAREGPT = "sharegpt"
    MEMORANDA = "memoranda"


TIME_KEYS = ("created_at", "created", "timestamp", "create_time")
"""Under which keys a message or a conversation says when it was."""

SESSION_KEYS = ("session_id", "conversation_id", "thread_id")
USER_KEYS = ("user", "user_id")

HOLDERS = ("messages", "conversations")
"""Under which key a conversation has its messages."""

_ABOUT_A_MESSAGE = frozenset({"id", *TIME_KEYS})
_ABOUT_A_CONVERSATION = frozenset({"id", "metadata", *TIME_KEYS, *SESSION_KEYS, *USER_KEYS, *HOLDERS})

# How a model was asked is no part of what was said.
_SETTINGS = frozenset(
    {"model", "tools", "tool_choice", "temperature", "top_p", "max_tokens", "stream", "service_tier", "stop"}
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a format knows: who speaks, the keys of a message, and the keys that may stand beside the messages.

    ``spoken`` are the keys of which a message has at least one, ``parts`` the types of the parts of its content.
    """

    speaker_key: str
    speakers: frozenset[str]
    spoken: frozenset[str]
    keys: frozenset[str]
    parts: frozenset[str]
    beside: frozenset[str]

    def unfit_message(self, message: Any) -> str | None:
        """Return why this is no message of the format; None if it may be one."""
        if not isinstance(message, dict):
            return "a message is a JSON object"
        if self.speaker_key not in message:
            return f"a message needs {self.speaker_key!r}"
        speaker = message[self.speaker_key]
        if not isinstance(speaker, str) or speaker not in self.speakers:
            return f"{_shown(speaker)} is not a known {self.speaker_key!r} ({', '.join(sorted(self.speakers))})"
        unknown = _unknown(message, self.keys | _ABOUT_A_MESSAGE)
        if unknown is not None:
            return f"{unknown} is not a known key of a message"
        if self.spoken.isdisjoint(message):
            return "the message says nothing"
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if not isinstance(kind, str) or kind not in self.parts:
                return f"{_shown(kind)} is not a known type of content"
        return None

    def unfit_conversation(self, conversation: Mapping[str, Any]) -> str | None:
        """Return why what stands beside the messages is not of the format; None if it may be."""
        unknown = _unknown(conversation, self.beside | _ABOUT_A_CONVERSATION)
        return None if unknown is None else f"{unknown} is not a known key beside the messages"


SHAPES: Mapping[FileFormat, Shape] = {
    FileFormat.OPENAI: Shape(
        speaker_key="role",
        speakers=frozenset({"system", "developer", "user", "assistant", "tool", "function"}),
        spoken=frozenset({"content", "tool_calls", "function_call", "refusal", "audio"}),
        keys=frozenset(
            {"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio"}
            | {"annotations", "weight", "reasoning", "reasoning_content", "reasoning_details"}
        ),
        parts=frozenset({"text", "refusal", "image_url", "input_audio", "file", "video_url"}),
        beside=_SETTINGS
        | {"functions", "function_call", "parallel_tool_calls", "n", "max_completion_tokens", "stream_options", "seed"}
        | {"response_format", "store", "reasoning_effort", "presence_penalty", "frequency_penalty", "logit_bias"}
        | {"logprobs", "top_logprobs", "verbosity", "modalities", "audio", "prompt_cache_key", "safety_identifier"},
    ),
    FileFormat.ANTHROPIC: Shape(
        speaker_key="role",
        speakers=frozenset({"user", "assistant", "system"}),
        spoken=frozenset({"content"}),
        keys=frozenset({"role", "content", "type", "model", "stop_reason", "stop_sequence", "usage", "container"}),
        parts=frozenset(
            {"text", "image", "document", "search_result", "thinking", "redacted_thinking", "tool_use", "tool_result"}
            | {"server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result"}
            | {"bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result"}
            | {"mcp_tool_use", "mcp_tool_result", "container_upload"}
        ),
        beside=_SETTINGS
        | {"system", "stop_sequences", "top_k", "thinking", "container", "mcp_servers", "context_management"}
        | {"output_config", "anthropic_version", "anthropic_beta", "betas"},
    ),
    FileFormat.SHAREGPT: Shape(
        speaker_key="from",
        speakers=frozenset(SPEAKERS),
        spoken=frozenset({"value"}),
        keys=frozenset({"from", "value", "weight"}),
        parts=frozenset(),
        beside=frozenset({"system", "tools", "model"}),
    ),
}


def _unknown(found: Iterable[str], known: frozenset[str]) -> str | None:
    unknown = next((key for key in found if key not in known), None)
    return None if unknown is None else _shown(unknown)


def _shown(value: Any) -> str:
    """Return a short name as it is; anything longer may be what somebody said."""
    return repr(value) if isinstance(value, str) and len(value) <= 40 else f"a value of type {type(value).__name__}"
