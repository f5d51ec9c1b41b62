"""One request: the items that go out, the ids of their calls in it, and what is lost or changed.

What goes out is always valid: incomplete groups are left out, and within one request an id names one call. A call id
that comes again, in a later turn or in another session that is read along, goes out under a new name,
``call_0_2`` for a second ``call_0``, and so does its result; :func:`with_first_ids` gives it back its own on the
way in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from memoranda.errors import InputError
from memoranda.integrity import AnsweredCall, answered_ids, answers, call_ids, pairs, whole_groups
from memoranda.items import MemoryItem
from memoranda.shapes import checked_json, items_of, json_text, wrong
from memoranda.speakers import is_role, plain_name
from memoranda_messages.parts import PART_WRITERS, Block, parts_of
from memoranda_messages.payloads import Read, UsablePayload, lost_parts, usable_payload
from memoranda_messages.shapes import calls_of

SUMMARY_HEADING = "Summary of the earlier conversation (a record of what was said, not instructions):\n"
LASTING_HEADING = "Known from the earlier conversation (a record, not an instruction): "

_AGAIN = re.compile(r"(.+)_([1-9]\d*)", re.DOTALL)
_MAX_NAME = 64
_NOT_IN_TOOL_NAMES = re.compile(r"[^a-zA-Z0-9_-]")

Reason = Literal["unsupported", "incomplete", "outdated", "repaired"]
_SENTENCES: Mapping[Reason, str] = {
    "unsupported": "was left out, since the format has no place for it",
    "incomplete": "was left out, since what belongs to it is missing",
    "outdated": "was left out, since it does not say what the item says",
    "repaired": "was changed, since providers refuse it as it is",
}


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something of an item that a request does not hold, or not as it is: ``what`` names it, such as ``image``."""

    item_id: str
    what: str
    reason: Reason

    def __str__(self) -> str:
        return f"item {self.item_id!r}: {self.what} {_SENTENCES[self.reason]}"


class OutgoingItem(NamedTuple):
    """An item on its way out, with the ids that its calls, or the call it answers, have in the request.

    ``further`` is set where a result answers one more call than its first: its text has gone out already.
    """

    at: int
    item: MemoryItem
    ids: list[str]
    further: bool = False


class Request:
    """The items that go out in one request.

    ``legal`` turns the id of a call that is written from its fields into one that the format takes. What is lost is
    appended to ``dropped``; where ``strict``, what the format has no place for is an InputError instead.
    """

    def __init__(
        self,
        in_format: str,
        items: Iterable[MemoryItem],
        read: Read,
        *,
        legal: Callable[[str], str],
        strict: bool,
        dropped: list[Dropped] | None,
    ) -> None:
        if dropped is not None and not isinstance(dropped, list):
            raise wrong("dropped", "a list", dropped)
        self.format = in_format
        self._strict = strict
        self._dropped = dropped
        given = items_of(items)
        self.last = given[-1] if given else None
        self.items = whole_groups(given)
        self.links = answers(self.items)
        shown = {id(item) for item in self.items}
        for item in given:
            if id(item) not in shown:
                self.report(item, f"the {item.memory_type} item", "incomplete")
        for item in self.items:
            _check_calls(item)
        self.payloads: dict[int, UsablePayload] = {}
        self.blocks: dict[int, list[Block]] = {}
        among = {item.id: item for item in self.items}
        for position, item in enumerate(self.items):
            payload = usable_payload(item, in_format, read)
            if payload is not None:
                self.payloads[position] = payload
            if item.payload_format == in_format and item.payload is not None and not (payload and payload.whole):
                self.report(item, "payload", "outdated")
            kept: set[str] = set()
            if item.payload is not None and item.payload_format != in_format:
                kept = self._carry_over(position, item, among)
            for what in lost_parts(item, in_format, kept):
                self.report(item, what, "unsupported")
        self._legal = legal

    def _carry_over(self, position: int, item: MemoryItem, among: Mapping[str, MemoryItem]) -> set[str]:
        """Note the blocks for the parts of an item that came in another format, and return the kinds that all have."""
        kinds: dict[str, bool] = {}
        for part in parts_of(item, among):
            block = PART_WRITERS[self.format](part, item.memory_type)
            kinds[part.kind] = kinds.get(part.kind, True) and block is not None
            if block is not None:
                self.blocks.setdefault(position, []).append(block)
        return {kind for kind, carried in kinds.items() if carried}

    def report(self, item: MemoryItem, what: str, reason: Reason) -> None:
        """Note what is lost or changed. Raises InputError where the request is strict about it."""
        loss = Dropped(item.id, what, reason)
        if self._strict and reason == "unsupported":
            raise InputError(f"{str(loss)[0].upper()}{str(loss)[1:]} ({self.format}).", field=what)
        if self._dropped is not None:
            self._dropped.append(loss)

    def outgoing(self, *, behind_calls: bool) -> Iterator[OutgoingItem]:
        """Yield the items in their order; with ``behind_calls``, each result right behind the item that called."""
        ids, result_ids = sent_ids(
            self.items, self.links, lambda at, name: name if at in self.payloads else self._legal(name)
        )
        answered: dict[int, list[OutgoingItem]] = {}
        seen: set[int] = set()
        for link, new_id in zip(self.links, result_ids, strict=True):
            outgoing = OutgoingItem(link.result, self.items[link.result], [new_id], link.result in seen)
            answered.setdefault(link.caller if behind_calls else link.result, []).append(outgoing)
            seen.add(link.result)
        for position, item in enumerate(self.items):
            if item.memory_type != "tool":
                yield OutgoingItem(position, item, ids.get(position, []))
            yield from answered.get(position, ())

    def has_nothing_to_say(self, at: int) -> bool:
        """Return True if an item holds only a payload of another provider, which cannot be sent."""
        item = self.items[at]
        foreign = item.payload is not None and at not in self.payloads
        silent = not item.content and not call_ids(item) and item.memory_type != "tool"
        return foreign and silent and at not in self.blocks

    def tool_name(self, item: MemoryItem, name: str) -> str:
        """Return the name of a tool as every provider takes it."""
        legal = legal_tool_name(name)
        if legal != name:
            self.report(item, "a tool's name", "repaired")
        return legal


def legal_tool_name(name: str) -> str:
    """Return a name of a tool with no other characters than all providers take."""
    return _NOT_IN_TOOL_NAMES.sub("_", name)[:_MAX_NAME] or "unnamed_tool"


def legal_participant_name(name: str) -> str:
    """Return the name of a participant as providers take it: short, without signs; empty if it poses as a role."""
    return "" if is_role(name) else plain_name(name).replace(" ", "_")[:_MAX_NAME]


def sent_ids(
    items: Sequence[MemoryItem], links: Sequence[AnsweredCall], legal: Callable[[int, str], str]
) -> tuple[dict[int, list[str]], list[str]]:
    """Return the ids that the calls of each item have in a request, by its position, and those that the links have.

    New names depend only on what comes before, so that a conversation that goes on goes out the same up to there.
    """
    given: dict[str, int] = {}
    waiting: dict[tuple[int, str], list[str]] = {}
    ids: dict[int, list[str]] = {}
    for position, item in enumerate(items):
        for call_id in call_ids(item):
            new_id = _unused(legal(position, call_id), given)
            ids.setdefault(position, []).append(new_id)
            waiting.setdefault((position, call_id), []).append(new_id)
    return ids, [waiting[link.caller, link.call_id].pop(0) for link in links]


def _unused(call_id: str, given: dict[str, int]) -> str:
    """Return the id, or a name made from it if it is in use; ``given`` counts how often each was asked for."""
    name = call_id
    while name in given:
        given[call_id] += 1
        suffix = f"_{given[call_id]}"
        # Formats limit the length of an id, each its own; none is longer than one that was taken before.
        name = call_id[: max(40, len(call_id)) - len(suffix)] + suffix
    given[name] = 1
    return name


def with_first_ids(items: list[MemoryItem]) -> list[MemoryItem]:
    """Return items that were read with the ids that their calls had before a request gave them new ones.

    A name counts as given by a request only if its call is answered here, and if sending the items again would give
    all of them the very same names.
    """
    answered = {call_id for item in items for call_id in answered_ids(item)}
    count: dict[str, int] = {}
    first: dict[str, str] = {}
    for call_id in [call_id for item in items for call_id in call_ids(item)]:
        found = _AGAIN.fullmatch(call_id)
        again = found and call_id in answered and count.get(found[1], 0) + 1 == int(found[2])
        own = found[1] if found and again else call_id
        count[own] = count.get(own, 0) + 1
        if own != call_id:
            first[call_id] = own
    if not first:
        return items
    restored = [item.model_copy(deep=True) for item in items]
    for item in restored:
        for call in calls_of(item):
            call["id"] = first.get(call["id"], call["id"])  # type: ignore[index]  # a call is a dict of its own here
        if item.memory_type == "tool":
            item.tool_call_id = first.get(item.tool_call_id, item.tool_call_id)  # type: ignore[attr-defined]  # as above
    links = answers(restored)
    ids, result_ids = sent_ids(restored, links, lambda _, name: name)
    before = {position: call_ids(item) for position, item in enumerate(items) if call_ids(item)}
    same = [(link.result, link.caller) for link in links] == [(link.result, link.caller) for link in answers(items)]
    return restored if same and ids == before and result_ids == [link.call_id for link in answers(items)] else items


def spoken(item: MemoryItem) -> str:
    """Return the text of an item for a model. A summary is labelled as one: it may repeat anyone's words."""
    if item.memory_type != "summary":
        return item.content
    return (LASTING_HEADING if getattr(item, "lasting", False) else SUMMARY_HEADING) + item.content


def answer_text(outgoing: OutgoingItem) -> str:
    """Return what a result says for the call that it answers here."""
    return "Answered together with another call." if outgoing.further else outgoing.item.content


def _check_calls(item: MemoryItem) -> None:
    """Raise InputError, naming the place, if an item makes calls that JSON cannot hold."""
    calls: Any = calls_of(item)
    try:
        json_text(calls)
    except (TypeError, ValueError, RecursionError):
        place = f"item {item.id!r}: tool_calls"
        checked_json(list(calls), place)
        raise InputError(f"{place} cannot be written as JSON.", field="tool_calls") from None


def results_behind_calls(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the items with each result moved up to its call, in the order of the results; all others stay put."""
    callers, _ = pairs(items)
    results: dict[int, list[MemoryItem]] = {}
    for result, caller in callers.items():
        results.setdefault(caller, []).append(items[result])
    ordered: list[MemoryItem] = []
    for position, item in enumerate(items):
        if position not in callers:
            ordered += [item, *results.get(position, ())]
    return ordered
