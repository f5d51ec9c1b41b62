"""The conversations of a chat file as items, and the readers of their messages.

An item's id comes from its owner, its session and its place there. So importing the same file again adds
nothing, a conversation that has grown is continued, and another one of the same name is a conflict.

In a conversation with branches, the path that the export shows is the conversation itself. Every other turn belongs to
exactly one branch, which shares the path before its first turn.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, now_text, utc_text
from memoranda.store.backend import check_item
from memoranda_messages import from_anthropic, from_openai, from_responses
from memoranda_userdata import TIMES, Incoming, Stamp, lasting_id
from memoranda_userdata.chats.chat_formats import (
    SESSION_KEYS,
    TIME_KEYS,
    USER_KEYS,
    ChatTranscript,
    FileFormat,
    conversations,
)
from memoranda_userdata.chats.json_records import messages_of

Read = tuple[list[MemoryItem], list[int | None]]
"""Items, and for each the position of its message; None if it stands beside the messages."""

Reader = Callable[[list[Any], Any, MemoryMetadata], Read]
"""Reads messages, a system text that stands beside them, and whose they are."""


def read_openai(messages: list[Any], system: Any, metadata: MemoryMetadata) -> Read:
    """Read messages of the chat API."""
    return from_openai(messages, metadata=metadata), list(range(len(messages)))


def read_responses(messages: list[Any], system: Any, metadata: MemoryMetadata) -> Read:
    """Read items of the Responses API."""
    return from_responses(messages, metadata=metadata), list(range(len(messages)))


def read_sharegpt(messages: list[Any], system: Any, metadata: MemoryMetadata) -> Read:
    """Read ShareGPT's turns."""
    turns = messages_of(messages)
    shares: list[int | None] = [at for at, turn in enumerate(turns) for _ in turn]
    flat = [message for turn in turns for message in turn]
    if system is not None and not isinstance(system, str):
        raise InputError("system: text is needed here.", field="system")
    first = [{"role": "system", "content": system}] if system else []
    return from_openai([*first, *flat], metadata=metadata), [*([None] * len(first)), *shares]


def read_anthropic(messages: list[Any], system: Any, metadata: MemoryMetadata) -> Read:
    """Read messages of Anthropic's API."""
    items = from_anthropic(messages, system=system, metadata=metadata)
    before = len(from_anthropic([], system=system))
    shares: list[int | None] = [at for at, message in enumerate(messages) for _ in range(_parts(message))]
    if len(shares) > len(items) - before:
        # The opening that to_anthropic() puts before an assistant's first words is not a message.
        shares.remove(next(at for at, message in enumerate(messages) if message["role"] != "system"))
    return items, [*([None] * before), *shares]


def _parts(message: Mapping[str, Any]) -> int:
    """Return how many items an Anthropic message becomes: each result is one, and all other content is one."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    results = sum(block.get("type") == "tool_result" for block in blocks)
    return results + (len(blocks) > results) if results else 1


READERS: Mapping[FileFormat, Reader] = {
    FileFormat.OPENAI: read_openai,
    FileFormat.ANTHROPIC: read_anthropic,
    FileFormat.SHAREGPT: read_sharegpt,
}

_PLACE = re.compile(r"messages\[(\d+)\]\.?")
_DIGITS = 8
"""A text of more digits than a date has is a number of seconds."""

_UNITS = (1e17, 1e9), (1e14, 1e6), (1e11, 1e3)
"""From which number on a time is in nano-, micro- or milliseconds: as seconds it would lie after the year 5000."""


class ChatItem(NamedTuple):
    """An item of a chat file and the line it comes from."""

    line: int
    incoming: Incoming


def chat_items(
    file: IO[str], name: str, in_format: FileFormat, stamp: Stamp, derived_id: Callable[[str], str]
) -> Iterator[ChatItem]:
    """Yield the items of a chat file, in the order of the file; ``derived_id`` is that of the store they are meant for.

    Raises InputError, naming the line, for what is not understood and for what contradicts the stamp.
    """
    seen: dict[tuple[str | None, str], int] = {}
    copies: dict[str, int] = {}
    for conversation in conversations(file, name, in_format):
        place = f"{name}, line {conversation.line}"
        if stamp.session is not None and seen:
            raise InputError(
                f"{place} is a second conversation, and --session names one. Leave it out: each gets a session of its "
                f"own.",
                field="session",
            )
        user = _user(conversation.beside, stamp.user, place)
        session = _session(conversation, stamp.session, place)
        if session is None:
            messages = [each.value for each in conversation.messages]
            same = lasting_id(derived_id, in_format, user, conversation.beside, messages)
            copies[same] = copies.get(same, 0) + 1
            session = same if copies[same] == 1 else lasting_id(derived_id, same, copies[same])
        if (user, session) in seen:
            raise InputError(f"{place} has the same id as the conversation in line {seen[user, session]}.", field="id")
        seen[user, session] = conversation.line
        metadata = MemoryMetadata(user_id=user, session_id=session)
        for position, made in enumerate(_items(conversation, name, in_format, metadata)):
            made.incoming.item.id = lasting_id(derived_id, user, session, position)
            yield made


def _items(
    conversation: ChatTranscript, name: str, in_format: FileFormat, metadata: MemoryMetadata
) -> Iterator[ChatItem]:
    lines = [message.line for message in conversation.messages]
    try:
        about = [_about(message.value, f"messages[{at}]") for at, message in enumerate(conversation.messages)]
        begins = _about(conversation.beside, "").moment
        messages = [each.value for each in about]
        items, shares = READERS[in_format](messages, conversation.beside.get("system"), metadata)
    except InputError as error:
        raise _located(error, conversation, name) from error
    moments = _in_order([each.moment for each in about], begins)
    now = now_text()
    for item, message in zip(items, shares, strict=True):
        # What stands beside the messages, such as Anthropic's system text, comes before the first of them.
        line = conversation.line if message is None else lines[message]
        moment = moments[message or 0] if moments else begins
        item.created_at = item.updated_at = moment or now
        if message is not None and about[message].id is not None:
            item.message_id = about[message].id  # An extra field, to find the message again.
        try:
            check_item(item)
        except InputError as error:
            raise InputError(f"{name}, line {line}: {error}", field=error.field) from error
        yield ChatItem(line, Incoming(item, undated=() if moment else TIMES))


class _About(NamedTuple):
    """A message without its id and time, and these two."""

    value: dict[str, Any]
    id: str | None
    moment: str | None


def _about(value: Mapping[str, Any], place: str) -> _About:
    rest = {key: each for key, each in value.items() if key not in ("id", *TIME_KEYS)}
    moments = {moment_text(value[key], f"{place}.{key}") for key in TIME_KEYS if value.get(key) is not None}
    if len(moments) > 1:
        raise InputError(f"{place}: it has two times that differ.", field=place)
    return _About(rest, id_text(value.get("id"), f"{place}.id"), moments.pop() if moments else None)


def id_text(value: Any, place: str) -> str | None:
    """Return an id as text; None for none. Raises InputError if it is neither text nor a whole number."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InputError(f"{place}: an id is text or a whole number.", field=place)
    return str(value)


def moment_text(value: Any, place: str) -> str:
    """Return a time that is ISO-8601 text or a number of seconds, or of a smaller unit, since 1970."""
    try:
        if isinstance(value, str) and not (value.isdecimal() and len(value) > _DIGITS):
            return utc_text(value)
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError("a time is text or a number")
        number = float(value)
        seconds = number / next((unit for bound, unit in _UNITS if abs(number) >= bound), 1)
        return utc_text(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{place}: this is not a time (ISO-8601, or seconds since 1970).", field=place) from None


def _in_order(moments: Sequence[str | None], begins: str | None) -> list[str | None]:
    """Return a time for each message, none before the one of the message that it follows; all None if none is known.

    A store shows a conversation in the order of its times, and that must be the order of the file.
    """
    latest = begins or next((moment for moment in moments if moment is not None), None)
    ordered = []
    for moment in moments:
        latest = max(latest, moment) if latest is not None and moment is not None else latest
        ordered.append(latest)
    return ordered


def _user(beside: Mapping[str, Any], given: str | None, place: str) -> str | None:
    tags = beside.get("metadata")
    named = [beside.get(key) for key in USER_KEYS] + ([tags.get("user_id")] if isinstance(tags, dict) else [])
    return _agreed([given, *(id_text(each, f"{place}: user") for each in named)], "user", place)


def _session(conversation: ChatTranscript, given: str | None, place: str) -> str | None:
    """Return the session of a conversation: the one that is named, else the conversation's own id."""
    named = [id_text(conversation.beside.get(key), f"{place}: {key}") for key in SESSION_KEYS]
    return _agreed([given, *named], "session", place) or id_text(conversation.beside.get("id"), f"{place}: id")


def _agreed(named: Sequence[str | None], what: str, place: str) -> str | None:
    found = list(dict.fromkeys(each for each in named if each is not None))
    if len(found) > 1:
        raise InputError(
            f"{place} names the {what} {found[1]!r}, and --{what} or another key names {found[0]!r}.", field=what
        )
    return found[0] if found else None


def _located(error: InputError, conversation: ChatTranscript, name: str) -> InputError:
    found = _PLACE.match(error.field or "")
    line, text = conversation.line, str(error)
    if found and int(found[1]) < len(conversation.messages):
        line = conversation.messages[int(found[1])].line
        text = text.removeprefix(found[0]).removeprefix(": ") if conversation.loose else text
    return InputError(f"{name}, line {line}: {text}", field=error.field)


@dataclass(slots=True)
class Turn:
    """One step of a conversation: the messages it consists of, if any, and the turn before it."""

    id: str
    parent: str | None
    messages: list[dict[str, Any]] = field(default_factory=list)
    moment: Any = None


@dataclass(slots=True)
class Thread:
    """A conversation of an export: its turns by their ids, and the last turn of the path that is shown.

    ``left_out`` counts what is not imported, by what it is.
    """

    session: Any
    begins: Any
    read: Reader
    turns: dict[str, Turn]
    current: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)


class Branch(NamedTuple):
    """A path from the first turn to a last one, of which the first ``shared`` turns belong to earlier branches."""

    path: list[Turn]
    shared: int


def in_order(turns: Mapping[str, Turn]) -> list[Turn]:
    """Return the turns, each after its parent. Raises InputError if there are turns that lead to themselves."""
    found: list[Turn] = []
    children = _children(turns)
    waiting = deque(_roots(turns))
    while waiting:
        turn = waiting.popleft()
        found.append(turn)
        waiting.extend(children.get(turn.id, ()))
    if len(found) < len(turns):
        raise InputError("its messages form a circle.", field="parent")
    return found


def branches(turns: Mapping[str, Turn], current: str | None) -> list[Branch]:
    """Return the path to the current turn, then the other branches, each after the one that it shares turns with.

    Without a current turn, the path is the one that takes the last turn wherever there are several.
    """
    ordered = in_order(turns)
    if not ordered:
        return []
    children = _children(turns)
    if current in turns:
        main = _path(turns, turns[str(current)])
    else:
        main = _to_the_end([_roots(turns)[-1]], children)
    found = [Branch(main, 0)]
    taken = {turn.id for turn in main}
    for turn in ordered:
        if turn.id in taken:
            continue
        before = _path(turns, turn)[:-1]
        path = _to_the_end([*before, turn], children)
        taken.update(each.id for each in path)
        found.append(Branch(path, len(before)))
    return found


def _roots(turns: Mapping[str, Turn]) -> list[Turn]:
    return [turn for turn in turns.values() if turn.parent not in turns]


def _children(turns: Mapping[str, Turn]) -> dict[str, list[Turn]]:
    found: dict[str, list[Turn]] = {}
    for turn in turns.values():
        if turn.parent in turns:
            found.setdefault(str(turn.parent), []).append(turn)
    return found


def _path(turns: Mapping[str, Turn], last: Turn) -> list[Turn]:
    path = [last]
    while path[-1].parent in turns:
        path.append(turns[str(path[-1].parent)])
    return path[::-1]


def _to_the_end(path: list[Turn], children: Mapping[str, list[Turn]]) -> list[Turn]:
    while following := children.get(path[-1].id):
        path.append(following[-1])
    return path
