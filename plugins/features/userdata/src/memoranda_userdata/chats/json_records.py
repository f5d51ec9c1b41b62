"""The values of a JSON or JSON Lines file with their lines, and ShareGPT's turns as OpenAI messages.

A call in ShareGPT has no id. It is the JSON of a turn from ``function_call``, or stands between ``<tool_call>`` and
``</tool_call>`` in the text of a turn that a tool answers. The turns that follow hold the results, in order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

from memoranda.errors import InputError
from memoranda_commands.files import parsed

_BETWEEN = re.compile(r"[\s,]*")


class Record(NamedTuple):
    """One value of a file and the line where it begins."""

    line: int
    value: Any


def records(file: IO[str], name: str) -> Iterator[Record]:
    """Yield the values of the lines of a file, or those of the one list in it; any other document is one value.

    Raises InputError, naming the line, for what is not JSON.
    """
    file.seek(0)
    first = next((text for text in file if text.strip()), None)
    if first is None:
        return
    several = any(text.strip() for text in file) and _is_json(first)
    file.seek(0)
    if not several:
        yield from _of_document(file.read(), name)
        return
    for number, text in enumerate(file, 1):
        if text.strip():
            yield Record(number, parsed(text, name, number))


def _of_document(text: str, name: str) -> Iterator[Record]:
    value = parsed(text, name)
    begins = len(text) - len(text.lstrip())
    line = 1 + text.count("\n", 0, begins)
    if not isinstance(value, list):
        yield Record(line, value)
        return
    decoder, ends = json.JSONDecoder(), begins + 1
    for element in value:
        before, begins = begins, _BETWEEN.match(text, ends).end()  # type: ignore[union-attr]  # it matches anything
        line += text.count("\n", before, begins)
        ends = decoder.raw_decode(text, begins)[1]
        yield Record(line, element)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


SPEAKERS: Mapping[str, str] = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "function_call": "call",
    "tool_call": "call",
    "observation": "tool",
    "tool": "tool",
    "function_response": "tool",
    "tool_response": "tool",
}
"""The role of each speaker: one of OpenAI's, or ``call`` for a tool call of the assistant."""

_CALL = re.compile(r"\s*<tool_call>\s*(.*?)\s*</tool_call>\s*", re.DOTALL)
_RESPONSE = re.compile(r"\s*<tool_response>\s*(.*?)\s*</tool_response>\s*", re.DOTALL)

Message = dict[str, Any]


def messages_of(turns: Sequence[Mapping[str, Any]]) -> list[list[Message]]:
    """Return the messages of each turn. Raises InputError, whose field is ``messages[N]``, for what is not a turn."""
    found: list[list[Message]] = []
    waiting: list[str] = []
    number = 0
    for position, turn in enumerate(turns):
        place = f"messages[{position}]"
        text = turn.get("value")
        if not isinstance(text, str):
            raise InputError(f"{place}.value: text is needed here.", field=f"{place}.value")
        role = SPEAKERS[turn["from"]]
        if role == "tool":
            answers = _answers(text, len(waiting), place)
            found.append([{"role": "tool", "content": each, "tool_call_id": waiting.pop(0)} for each in answers])
            continue
        answered = position + 1 < len(turns) and SPEAKERS[turns[position + 1]["from"]] == "tool"
        calls = []
        if role == "call" or (role == "assistant" and answered):
            calls = list(_calls(text, place, alone=role == "call"))
        if waiting:
            raise InputError(f"{place}: a call before this turn has no result.", field=place)
        if not calls:
            found.append([{"role": role, "content": text}])
            continue
        waiting = [f"call_{number + each}" for each in range(1, len(calls) + 1)]
        number += len(calls)
        spoken = "" if role == "call" else _CALL.sub("", text)
        called = [
            {"id": call_id, "type": "function", "function": function}
            for call_id, function in zip(waiting, calls, strict=True)
        ]
        found.append([{"role": "assistant", "content": spoken or None, "tool_calls": called}])
    return found


def _calls(text: str, place: str, *, alone: bool) -> Iterator[Message]:
    """Yield the functions that a turn calls: all of its text is JSON, or each is marked in it."""
    for given in [text] if alone and not _CALL.search(text) else _CALL.findall(text):
        try:
            read = json.loads(given)
        except (ValueError, RecursionError):
            raise InputError(f"{place}.value: a call is JSON with a name and arguments.", field=place) from None
        for call in read if isinstance(read, list) else [read]:
            if not isinstance(call, dict) or not isinstance(call.get("name"), str) or not call["name"]:
                raise InputError(f"{place}.value: a call needs a name.", field=place)
            arguments = call.get("arguments", call.get("parameters", {}))
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
            yield {"name": call["name"], "arguments": arguments}


def _answers(text: str, waiting: int, place: str) -> list[str]:
    if not waiting:
        raise InputError(f"{place}: this is a result, and there is no call before it.", field=place)
    marked = _RESPONSE.findall(text) if not _RESPONSE.sub("", text) else []
    answers = marked or [text]
    if len(answers) > waiting:
        raise InputError(f"{place}: {len(answers)} results for {waiting} calls.", field=place)
    return answers
