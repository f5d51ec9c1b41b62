"""Which format a file is in, and the conversations of a chat file, each message with its line.

A conversation is a list of messages, an object that holds one, or all the messages of a file that has nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from memoranda.errors import InputError
from memoranda_cli.chat_formats import HOLDERS, SHAPES, FileFormat
from memoranda_cli.jsonl import is_marked
from memoranda_cli.records import Record, records

_FORMATS = f"{', '.join(list(FileFormat)[:-1])} or {list(FileFormat)[-1]}"


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in their order with their lines, and what stands beside them.

    ``loose`` says that its messages stand in the file by themselves.
    """

    line: int
    messages: list[Record]
    beside: Mapping[str, Any] = field(default_factory=dict)
    loose: bool = False


def format_of(file: IO[str], name: str) -> FileFormat:
    """Return the format that every line of a file fits; of an empty one, memoranda's own.

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
            raise InputError(f"{name}, line {line} {_told(reasons)}", field="file")
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


def conversations(file: IO[str], name: str, in_format: FileFormat) -> Iterator[Conversation]:
    """Yield the conversations of a file in a chat format. Raises InputError, naming the line, for what is none."""
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
            yield Conversation(line, [Record(line, message) for message in messages], beside)
        if loose and others:
            raise InputError(
                f"{name}, line {line}: there are messages and whole conversations in this file. Split it.", field="file"
            )
    if loose:
        yield Conversation(loose[0].line, loose, loose=True)


def _problem(value: Any, in_format: FileFormat) -> str | None:
    """Return why a value is nothing of a format; None if it may be."""
    if in_format is FileFormat.MEMORANDA:
        if not isinstance(value, dict):
            return "a memory is a JSON object"
        return None if is_marked(value) or "memory_type" in value else "a memory needs 'memory_type'"
    shape, holder = SHAPES[in_format], _holder(value)
    if isinstance(value, dict) and holder is None:
        return shape.unfit_message(value)
    messages, place = (value, "") if holder is None else (value[holder], holder)
    if not isinstance(messages, list):
        return f"{place!r} is no list of messages" if place else "this is no message and no list of messages"
    for position, message in enumerate(messages):
        problem = shape.unfit_message(message)
        if problem is not None:
            return f"{place}[{position}]: {problem}"
    return None if holder is None else shape.unfit_conversation(value)


def _holder(value: Any) -> str | None:
    """Return the key under which a conversation has its messages."""
    return next((key for key in HOLDERS if key in value), None) if isinstance(value, dict) else None


def _told(reasons: Mapping[FileFormat, str | None]) -> str:
    """Return why a line fits no format: of those that it comes near to, if there are any."""
    near = {each: reason for each, reason in reasons.items() if reason and " needs '" not in reason}
    if not near or len(near) == len(reasons):
        return (
            "is no message ('role' or 'from'), no conversation ('messages' or 'conversations') and no memory "
            f"('memory_type'). Pass --format {_FORMATS} if it is one of these, to see what is missing."
        )
    by_reason: dict[str, set[FileFormat]] = {}
    for each, reason in near.items():
        by_reason.setdefault(reason, set()).add(each)
    told = " ".join(f"As {_either(formats)}: {reason}." for reason, formats in by_reason.items())
    return f"fits no format. {told} Correct the line, or pass --format if you know which it is."


def _either(formats: set[FileFormat]) -> str:
    return " or ".join(each for each in FileFormat if each in formats)
