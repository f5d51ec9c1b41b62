"""The items of an export of another program, and a report of what was left out and refused.

An item's id comes from its owner, its conversation and the message's own id. So importing an export again adds
nothing, and a newer export adds what is new. What the user edited away is a branch of the session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from memoranda.errors import InputError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata, now_text
from memoranda.store.backend import check_item
from memoranda.store.branch_layer import MARK
from memoranda_userdata import TIMES, Incoming, Stamp, lasting_id
from memoranda_userdata.chats import assistants, other_stores
from memoranda_userdata.chats.chat_formats import FileFormat
from memoranda_userdata.chats.chat_items import Branch, ChatItem, Thread, Turn, branches, id_text, in_order, moment_text
from memoranda_userdata.chats.import_files import Attachments
from memoranda_userdata.chats.json_records import Record


@dataclass(slots=True)
class Entry:
    """One conversation, or one memory without a conversation: where it is, and what becomes of it.

    ``number`` counts the entries of the file from 1, since a whole export may stand in one line.
    """

    number: int
    line: int
    session: str | None = None
    items: int = 0
    branches: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    refused: str = ""

    def sentence(self) -> str:
        """Return what becomes of it."""
        if self.refused:
            return f"refused: {self.refused}"
        counts = [_counted(self.items, "item", "items")]
        if self.branches:
            counts.append(_counted(self.branches, "branch", "branches"))
        lost = f"; left out: {listed(self.left_out)}" if self.left_out else ""
        return ", ".join(counts) + lost

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "entry": self.number,
            "line": self.line,
            "session": self.session,
            "items": self.items,
            "branches": self.branches,
            "left_out": dict(self.left_out),
            "refused": self.refused or None,
        }


@dataclass(slots=True)
class Report:
    """The entries of a file in their order. With ``collects``, what is refused is noted, and the rest is read on."""

    collects: bool = False
    entries: list[Entry] = field(default_factory=list)

    @contextmanager
    def entry(self, line: int, name: str) -> Iterator[Entry]:
        """Give the entry of a line to fill in. An InputError in the block names the line, or is noted."""
        found = Entry(len(self.entries) + 1, line)
        self.entries.append(found)
        try:
            yield found
        except InputError as error:
            if not self.collects:
                raise InputError(f"{name}, line {line}, entry {found.number}: {error}", field=error.field) from error
            found.refused = str(error)

    @property
    def refused(self) -> int:
        """How many entries are refused."""
        return sum(bool(entry.refused) for entry in self.entries)

    @property
    def left_out(self) -> Counter[str]:
        """What is left out, of all entries."""
        return sum((entry.left_out for entry in self.entries), Counter[str]())


def listed(left_out: Counter[str]) -> str:
    """Return what is left out, in words."""
    return ", ".join(f"{what} ({number:,})" for what, number in left_out.most_common())


def _counted(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


NO_BRANCHES = "items of other branches, which this store cannot keep"


@dataclass(frozen=True, slots=True)
class Destination:
    """Who the items are for, and what the store offers: derived ids and branches."""

    stamp: Stamp
    derived_id: Callable[[str], str]
    forks: bool


def export_items(
    records: Iterator[Record],
    name: str,
    in_format: FileFormat,
    destination: Destination,
    attachments: Attachments,
    report: Report,
) -> Iterator[ChatItem]:
    """Yield the items of an export in the order of the file, and fill in the report.

    Raises InputError, naming the line, for what is refused, unless the report collects that.
    """
    seen: dict[str, int] = {}
    for line, value in records:
        if in_format is FileFormat.MEM0:
            for entry in other_stores.mem0_entries(value):
                yield from _memory(line, name, report, partial(_mem0, entry, destination))
        elif in_format is FileFormat.LANGGRAPH:
            yield from _memory(line, name, report, partial(_langgraph, value, destination))
        else:
            found: list[ChatItem] = []
            with report.entry(line, name) as noted:
                thread = _thread(value, in_format, attachments)
                session = _session(thread, destination, seen, noted.number)
                noted.session, noted.left_out = session, thread.left_out
                found = [ChatItem(line, each) for each in _ThreadItems(thread, session, destination, noted).all()]
            yield from found


def _thread(value: Any, in_format: FileFormat, attachments: Attachments) -> Thread:
    if in_format is FileFormat.CHATGPT:
        return assistants.chatgpt_thread(value, attachments)
    return (
        assistants.claude_thread(value) if in_format is FileFormat.CLAUDE else other_stores.openai_agents_thread(value)
    )


def _session(thread: Thread, destination: Destination, seen: dict[str, int], number: int) -> str:
    given = destination.stamp.session
    if given is not None and seen:
        raise InputError(
            "this is a second conversation, and --session names one. Leave it out: each gets a session of its own.",
            field="session",
        )
    session = given or id_text(thread.session, "its id")
    if session is None:
        raise InputError("the conversation has no id.", field="id")
    if session in seen:
        raise InputError(f"it has the same id as the conversation of entry {seen[session]}.", field="id")
    seen[session] = number
    return session


class _Place(NamedTuple):
    """The last item of a turn, and its session."""

    item: str
    session: str


class _ThreadItems:
    """The items of one conversation: those of the path that is shown, then each branch with its record before it."""

    def __init__(self, thread: Thread, session: str, destination: Destination, noted: Entry) -> None:
        self._thread = thread
        self._user = destination.stamp.user
        self._session = session
        self._forks = destination.forks
        self._id = partial(lasting_id, destination.derived_id, self._user, session)
        self._noted = noted
        self._places: dict[str, _Place] = {}
        self._moments = _moments(thread)

    def all(self) -> Iterator[Incoming]:
        """Yield the items. Raises InputError for what is not understood."""
        for number, branch in enumerate(branches(self._thread.turns, self._thread.current)):
            own = list(self._own(branch))
            if not own:
                continue
            first = branch.path[branch.shared]
            origin = self._origin(branch)
            if number and origin is not None and not self._forks:
                self._noted.left_out[NO_BRANCHES] += len(own)
                continue
            session = self._session
            if number:
                self._noted.branches += 1
                session = self._id("start", first.id)
            if number and origin is not None:
                session = MARK + self._id("branch", first.id)
                yield self._record(session, origin, own[0][1])
            owner = MemoryMetadata(user_id=self._user, session_id=session)
            for turn, incoming in own:
                incoming.item.metadata = owner
                check_item(incoming.item)
                self._places[turn.id] = _Place(incoming.item.id, session)
                self._noted.items += 1
                yield incoming

    def _own(self, branch: Branch) -> Iterator[tuple[Turn, Incoming]]:
        """Yield the items of a path that no earlier branch has. All of it is read: a result names an earlier call."""
        messages = [message for turn in branch.path for message in turn.messages]
        of_turn = [at for at, turn in enumerate(branch.path) for _ in turn.messages]
        items, shares = self._thread.read(messages, None, MemoryMetadata(user_id=self._user))
        now = now_text()
        before = None
        position = 0
        for item, message in zip(items, shares, strict=True):
            at = of_turn[message or 0]
            position = position + 1 if at == before else 0
            before = at
            if at < branch.shared:
                continue
            turn = branch.path[at]
            moment = self._moments[turn.id]
            item.id = self._id("message", turn.id, position)
            item.created_at = item.updated_at = moment or now
            item.message_id = turn.id  # An extra field, to find the message again.
            yield turn, Incoming(item, undated=() if moment else TIMES)

    def _origin(self, branch: Branch) -> _Place | None:
        """Return the last item that a branch shares with others; None if it shares none."""
        shared = reversed(branch.path[: branch.shared])
        return next((self._places[turn.id] for turn in shared if turn.id in self._places), None)

    def _record(self, session: str, origin: _Place, first: Incoming) -> Incoming:
        record = BranchMemory(
            id=session,
            metadata=MemoryMetadata(user_id=self._user, session_id=session),
            archived_by=session,
            parent=origin.session,
            at=origin.item,
            created_at=first.item.created_at,
        )
        return Incoming(record, undated=first.undated)


def _moments(thread: Thread) -> dict[str, str | None]:
    """Return a time for each turn, none before that of its parent; all None if none is known.

    A store shows a conversation in the order of its times, and that must be the order of the path. What has no time
    gets that of the turn before it, or the earliest one of all: the same on every path that leads through it.
    """
    known = {
        turn.id: moment_text(turn.moment, f"the time of message {turn.id}")
        for turn in thread.turns.values()
        if turn.moment is not None
    }
    if thread.begins is not None:
        begins: str | None = moment_text(thread.begins, "the time of the conversation")
    else:
        begins = min(known.values(), default=None)
    found: dict[str, str | None] = {}
    for turn in in_order(thread.turns):
        before = found.get(turn.parent or "", begins)
        own = known.get(turn.id)
        found[turn.id] = before if before is None or own is None else max(before, own)
    return found


def _memory(line: int, name: str, report: Report, read: Callable[[Entry], Incoming]) -> Iterator[ChatItem]:
    """Yield the one item of a memory that belongs to no conversation, unless it is refused."""
    found: list[ChatItem] = []
    with report.entry(line, name) as noted:
        incoming = read(noted)
        check_item(incoming.item)
        noted.items, noted.session = 1, incoming.item.metadata.session_id
        found.append(ChatItem(line, incoming))
    yield from found


def _mem0(entry: Any, destination: Destination, noted: Entry) -> Incoming:
    item, left_out = other_stores.mem0_item(entry, destination.stamp.user)
    noted.left_out.update(left_out)
    return Incoming(item, undated=_undated(item, entry))


def _langgraph(row: Any, destination: Destination, noted: Entry) -> Incoming:
    item = other_stores.langgraph_item(row, destination.stamp.user, partial(lasting_id, destination.derived_id))
    return Incoming(item, undated=_undated(item, row))


def _undated(item: MemoryItem, given: Any) -> tuple[str, ...]:
    return tuple(time for time in TIMES if given.get(time) is None and given.get("created_at") is None)
