"""The chat formats: what each looks like, which one a file is in, and the conversations of a file.

A conversation is a list of messages, an object that holds one, or all the messages of a file that has nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO, Any

from memoranda.errors import InputError
from memoranda_userdata import is_marked
from memoranda_userdata.chats.json_records import SPEAKERS, Record, records


class FileFormat(StrEnum):
    """The format of a file to import."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    SHAREGPT = "sharegpt"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    OPENAI_AGENTS = "openai-agents"
    MEM0 = "mem0"
    LANGGRAPH = "langgraph"
    MEMORANDA = "memoranda"


EXPORTS = frozenset(
    {FileFormat.CHATGPT, FileFormat.CLAUDE, FileFormat.OPENAI_AGENTS, FileFormat.MEM0, FileFormat.LANGGRAPH}
)
"""The formats of other programs, which :mod:`memoranda_userdata.chats.export_items` reads."""

TIME_KEYS = ("created_at", "created", "timestamp", "create_time")
"""The keys of a message or a conversation that hold its time."""

SESSION_KEYS = ("session_id", "conversation_id", "thread_id")
USER_KEYS = ("user", "user_id")

HOLDERS = ("messages", "conversations")
"""The keys of a conversation that hold its messages."""

_ABOUT_A_MESSAGE = frozenset({"id", *TIME_KEYS})
_ABOUT_A_CONVERSATION = frozenset({"id", "metadata", *TIME_KEYS, *SESSION_KEYS, *USER_KEYS, *HOLDERS})

# The settings of a request are not part of the conversation.
_SETTINGS = frozenset(
    {"model", "tools", "tool_choice", "temperature", "top_p", "max_tokens", "stream", "service_tier", "stop"}
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The roles and keys of a format, and the keys that may stand beside the messages.

    A message has at least one of the ``spoken`` keys; ``parts`` are the types of the parts of its content.
    """

    speaker_key: str
    speakers: frozenset[str]
    spoken: frozenset[str]
    keys: frozenset[str]
    parts: frozenset[str]
    beside: frozenset[str]

    def unfit_message(self, message: Any) -> str | None:
        """Return why this is not a message of the format; None if it may be one."""
        if not isinstance(message, dict):
            return "a message is a JSON object"
        if self.speaker_key not in message:
            return f"a message needs {self.speaker_key!r}"
        speaker = message[self.speaker_key]
        if not isinstance(speaker, str) or speaker not in self.speakers:
            return f"{_quoted(speaker)} is not a known {self.speaker_key!r} ({', '.join(sorted(self.speakers))})"
        unknown = _unknown(message, self.keys | _ABOUT_A_MESSAGE)
        if unknown is not None:
            return f"{unknown} is not a known key of a message"
        if self.spoken.isdisjoint(message):
            return "the message says nothing"
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if not isinstance(kind, str) or kind not in self.parts:
                return f"{_quoted(kind)} is not a known type of content"
        return None

    def unfit_conversation(self, conversation: Mapping[str, Any]) -> str | None:
        """Return why the keys beside the messages do not fit the format; None if they may."""
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
    return None if unknown is None else _quoted(unknown)


def _quoted(value: Any) -> str:
    """Return a short name as it is; anything longer may be content, which no message repeats."""
    return repr(value) if isinstance(value, str) and len(value) <= 40 else f"a value of type {type(value).__name__}"


_FORMATS = f"{', '.join(list(FileFormat)[:-1])} or {list(FileFormat)[-1]}"


@dataclass(frozen=True, slots=True)
class ChatTranscript:
    """Messages in their order with their lines, and what stands beside them.

    ``loose`` is True if its messages stand in the file by themselves.
    """

    line: int
    messages: list[Record]
    beside: Mapping[str, Any] = field(default_factory=dict)
    loose: bool = False


def format_of(file: IO[str], name: str) -> FileFormat:
    """Return the format that every line of a file fits; for an empty file, memoranda's own.

    Messages of text alone are the same in OpenAI's format and in Anthropic's, and are read as OpenAI's. Raises
    InputError, naming the line, for one that fits no format, and for one that fits another than those before it.
    """
    left = set(FileFormat)
    decided = 0
    for line, value in records(file, name):
        if is_marked(value):
            return FileFormat.MEMORANDA
        reasons = {each: _problem(value, each) for each in FileFormat}
        fitting = {each for each in FileFormat if reasons[each] is None}
        if not fitting:
            raise InputError(f"{name}, line {line} {_why_unfit(reasons)}", field="file")
        if not left & fitting:
            raise InputError(
                f"{name}, line {line} is in the format {_either(fitting)}, but line {decided} is in {_either(left)}. "
                f"Split the file, or name the format with --format to find the lines that do not fit it.",
                field="file",
            )
        if not left <= fitting:
            left &= fitting
            decided = line
    if not decided:
        return FileFormat.MEMORANDA
    if FileFormat.OPENAI in left and FileFormat.ANTHROPIC in left:
        left.discard(FileFormat.ANTHROPIC)
    if len(left) > 1:
        raise InputError(
            f"{name}, line {decided} may be in the format {_either(left)}. Pass --format with the right one.",
            field="file",
        )
    return left.pop()


def conversations(file: IO[str], name: str, in_format: FileFormat) -> Iterator[ChatTranscript]:
    """Yield the conversations of a file in a chat format. Raises InputError, naming the line, for what does not fit."""
    loose: list[Record] = []
    others = False
    for record in records(file, name):
        line, value = record
        problem = _problem(value, in_format)
        if problem is not None:
            raise InputError(f"{name}, line {line} is not in the format {in_format}: {problem}.", field="file")
        holder = _holder(value)
        if isinstance(value, dict) and holder is None:
            loose.append(record)
        else:
            others = True
            messages = value if holder is None else value[holder]
            beside = {} if holder is None else {key: each for key, each in value.items() if key != holder}
            yield ChatTranscript(line, [Record(line, message) for message in messages], beside)
        if loose and others:
            raise InputError(
                f"{name}, line {line}: there are messages and whole conversations in this file. Split it.", field="file"
            )
    if loose:
        yield ChatTranscript(loose[0].line, loose, loose=True)


def export_records(file: IO[str], name: str, in_format: FileFormat) -> Iterator[Record]:
    """Yield the conversations or memories of an export. Raises InputError, naming the line, for anything else."""
    for record in records(file, name):
        problem = _unfit_export(record.value, in_format)
        if problem is not None:
            raise InputError(f"{name}, line {record.line} is not in the format {in_format}: {problem}.", field="file")
        yield record


def _problem(value: Any, in_format: FileFormat) -> str | None:
    """Return why a value is not in a format; None if it may be."""
    if in_format is FileFormat.MEMORANDA:
        if not isinstance(value, dict):
            return "a memory is a JSON object"
        return None if is_marked(value) or "memory_type" in value else "a memory needs 'memory_type'"
    if in_format in EXPORTS:
        return _unfit_export(value, in_format)
    shape, holder = SHAPES[in_format], _holder(value)
    if isinstance(value, dict) and holder is None:
        return shape.unfit_message(value)
    messages, place = (value, "") if holder is None else (value[holder], holder)
    if not isinstance(messages, list):
        return f"{place!r} is not a list of messages" if place else "this is neither a message nor a list of messages"
    for position, message in enumerate(messages):
        problem = shape.unfit_message(message)
        if problem is not None:
            return f"{place}[{position}]: {problem}"
    return None if holder is None else shape.unfit_conversation(value)


def _unfit_export(value: Any, in_format: FileFormat) -> str | None:
    """Return why a value is not a conversation or memory of an export; None if it may be one."""
    held = value if isinstance(value, dict) else {}
    if in_format is FileFormat.CHATGPT:
        return None if isinstance(held.get("mapping"), dict) else "a conversation of ChatGPT needs 'mapping'"
    if in_format is FileFormat.CLAUDE:
        return None if isinstance(held.get("chat_messages"), list) else "a conversation of Claude needs 'chat_messages'"
    if in_format is FileFormat.OPENAI_AGENTS:
        return None if "agent_messages" in held else "a session needs 'agent_messages'; these are in a SQLite file"
    if in_format is FileFormat.MEM0:
        is_memory = isinstance(held.get("memory"), str) or isinstance(held.get("results"), list)
        return None if is_memory else "a memory of mem0 needs 'memory'"
    is_value = "value" in held and "key" in held and ("prefix" in held or "namespace" in held)
    return None if is_value else "a value of LangGraph needs 'value', 'key' and 'namespace'"


def _holder(value: Any) -> str | None:
    """Return the key under which a conversation has its messages."""
    return next((key for key in HOLDERS if key in value), None) if isinstance(value, dict) else None


def _why_unfit(reasons: Mapping[FileFormat, str | None]) -> str:
    """Return why a line fits no format: by the formats that it is close to, if there are any."""
    near = {each: reason for each, reason in reasons.items() if reason and " needs '" not in reason}
    if not near or len(near) == len(reasons) - len(EXPORTS):
        return (
            "is not a message ('role' or 'from'), a conversation ('messages', 'conversations', 'mapping' or "
            "'chat_messages') or a memory ('memory_type' or 'memory'). "
            f"Pass --format {_FORMATS} if it is one of these, to see what is missing."
        )
    by_reason: dict[str, set[FileFormat]] = {}
    for each, reason in near.items():
        by_reason.setdefault(reason, set()).add(each)
    problems = " ".join(f"As {_either(formats)}: {reason}." for reason, formats in by_reason.items())
    return f"fits no format. {problems} Correct the line, or pass --format if you know which it is."


def _either(formats: set[FileFormat]) -> str:
    return " or ".join(each for each in FileFormat if each in formats)
