"""Check that the answers of a scope depend on that scope alone.

A history is played in a scope alone, then in another scope with others at work beside it, and its result is stored anew
in a third. All three must answer alike: what others add, hide or remove changes no answer, order or score.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, RankedItem, SearchMode, Store
from memoranda_testing.case import note
from memoranda_testing.expect import shown
from memoranda_testing.model import histories
from memoranda_testing.model.contract import cause, sentence
from memoranda_testing.model.player import made
from memoranda_testing.model.program import composed, step_lines
from memoranda_testing.model.steps import Call

_WORDS = ("tea", "milk", "kettle", "saffron", "telescope", "winter", "bicycle", "lemon")
_EVENTS = ("add", "add", "add two", "add two", "update", "update", "clear", "archive")
_SECOND = "lemon kettle"
"""The content of the other item of two."""
_LENGTH, _LONG, _WORDS_AT_MOST = 16, 4_000, 8


@dataclass(frozen=True)
class Event:
    """Something done in the scope, such as "add", or by others (come, hide, go), or all the questions (ask)."""

    what: str
    number: int = 0
    content: str = ""
    place: int = 0
    """Its position in the history, which tells it from other events."""

    @property
    def is_own(self) -> bool:
        """True if it happens in the scope itself."""
        return self.what in ("add", "add two", "update", "archive", "clear", "restore")


@dataclass(frozen=True)
class Cast:
    """The scopes in which a history is played."""

    alone: MemoryMetadata
    among: MemoryMetadata
    afresh: MemoryMetadata
    others: tuple[MemoryMetadata, ...]

    @classmethod
    def of(cls, scope: Callable[..., MemoryMetadata]) -> Cast:
        """Return new scopes, each with a new user."""
        alone, among, afresh = (scope(session_id="s") for _ in range(3))
        others = (scope(session_id="s"), MemoryMetadata(user_id=among.user_id, session_id="other"), scope())
        return cls(alone, among, afresh, others)

    @classmethod
    def named(cls) -> Cast:
        """Return scopes with readable names."""
        names = iter(("alone", "among", "afresh", "somebody", "everybody"))
        return cls.of(lambda **fields: MemoryMetadata(user_id=next(names), **fields))


@dataclass(frozen=True)
class Clash:
    """Two scopes that should answer alike and do not: the events, the question and both answers."""

    events: tuple[Event, ...]
    question: int
    wanted: object
    found: object
    copies: tuple[MemoryItem, ...] | None = None
    """The items stored anew, if those give the other answer."""


def drawn(random: Random, capabilities: frozenset[Capability]) -> tuple[Event, ...]:
    """Return a history: what is added, replaced, archived and removed in a scope, and what others do meanwhile."""
    own: list[Event] = []
    gone: list[int] = []
    for place in range(_LENGTH):
        what, number = random.choice(_EVENTS), random.randrange(5)
        if gone and Capability.DELETE in capabilities and random.random() < 0.5:
            what, number = "restore", gone.pop()
        gone += [number] if what == "clear" else []
        content = " ".join(random.choice(_WORDS) for _ in range(random.randint(1, 5)))
        if random.random() < 0.2:  # So long that it has a vector for each of several passages.
            content = " ".join([content] * (_LONG // len(content)))
        own.append(Event(what, number, content, place))
    events: list[Event] = []
    for event in own:
        events += [event, replace(event, what="come")]
        if event.place % 4 == 3:
            for_good = event.place % 8 == 7 and Capability.PURGE in capabilities
            events.append(replace(event, what="go" if for_good else "hide"))
        events.append(Event("ask", place=event.place))
    return tuple(events)


def _call(event: Event, scope: MemoryMetadata, others: Sequence[MemoryMetadata]) -> Call:
    """Return what an event does."""
    if event.is_own:
        item = note(event.content, scope, event.number, id=_id(event, scope))
        if event.what == "clear":
            return Call("clear", {"metadata": scope, "where": {"id": item.id}})
        if event.what == "restore":
            return Call("restore", {"item_id": item.id})
        if event.what == "add two":
            return Call("add_many", {"items": [_second(event, scope), item]})
        return Call("add", {"item": item.model_copy(update={"archived_by": "s"}) if event.what == "archive" else item})
    crowd = others[event.place % len(others)]
    if event.what != "come":
        return Call("purge" if event.what == "go" else "clear", {"metadata": crowd})
    theirs = f"{scope.user_id}/{event.place}/theirs"
    neighbour = note(f"{event.content} {event.content} tea", crowd, event.number, id=theirs)
    return Call("add_many", {"items": [neighbour, note("saffron", crowd, id=f"{theirs}2")]})


def _second(event: Event, scope: MemoryMetadata) -> MemoryItem:
    """Return another item that is added in the same batch."""
    other = replace(event, number=(event.number + 1) % 5)
    return note(_SECOND, scope, other.number, id=_id(other, scope))


def _id(event: Event, scope: MemoryMetadata) -> str:
    return f"{scope.user_id}/{event.number:02}"


async def updated(store: Store, item_id: str, content: str) -> None:
    """Give the item of this id other content, if there is one."""
    item = await store.get(item_id)
    if item is not None:
        await store.update(item.model_copy(update={"content": content}))


def _questions(scope: MemoryMetadata, modes: Sequence[SearchMode]) -> list[Call]:
    asked = [
        Call("search", {"metadata": scope, "limit": 100}),
        Call("window", {"rounds": 3}, scope),
        Call("count", {"where": {"content": {"$exists": True}}}, scope),
    ]
    ranked = [
        Call("search_ranked", {"query": query, "mode": mode, "limit": 5}, scope)
        for mode in modes
        for query in ("tea with milk", "telescope")
    ]
    return [*asked, *ranked]


def comparable(found: Any) -> Any:
    """Return an answer in a form that is the same in every scope: numbers of items, and scores to six digits."""
    if isinstance(found, list) and any(isinstance(each, RankedItem) for each in found):
        return sorted(((round(each.score, 6), _number(each.item), each.item.content) for each in found), reverse=True)
    return [_number(each) for each in found] if isinstance(found, list) else found


def _number(item: MemoryItem) -> str:
    return item.id.rpartition("/")[2]


@dataclass(frozen=True)
class Trial:
    """Plays events on a store, each time in new scopes, and compares the answers."""

    store: Store
    modes: Sequence[SearchMode]
    cast: Callable[[], Cast]
    tidy: Callable[[], Awaitable[None]]
    """Removes what was written so far."""

    async def clash(self, events: Sequence[Event], only: int | None = None) -> Clash | None:
        """Return the first difference; with ``only``, ask only that question."""
        cast = self.cast()
        alone = await self._played([event for event in events if event.is_own or event.what == "ask"], cast.alone, only)
        among = await self._played(events, cast.among, only, cast.others)
        asked = [position for position, event in enumerate(events) if event.what == "ask"]
        for position, wanted, found in zip(asked, alone, among, strict=True):
            for question in wanted:
                if wanted[question] != found[question]:
                    return Clash(tuple(events[: position + 1]), question, wanted[question], found[question])
        return await self._afresh(tuple(events), cast, among[-1] if among else {}, only)

    async def _played(
        self, events: Sequence[Event], scope: MemoryMetadata, only: int | None, others: Sequence[MemoryMetadata] = ()
    ) -> list[dict[int, object]]:
        """Return the answers each time that everything is asked, by number of the question."""
        answers = []
        for event in events:
            if event.what == "ask":
                answers.append(await self._asked(scope, only))
            elif event.what == "update":
                await updated(self.store, _id(event, scope), event.content)
            else:
                await made(self.store, _call(event, scope, others))
        return answers

    async def _asked(self, scope: MemoryMetadata, only: int | None) -> dict[int, object]:
        questions = enumerate(_questions(scope, self.modes))
        return {
            number: comparable(await made(self.store, question))
            for number, question in questions
            if only in (None, number)
        }

    async def _afresh(
        self, events: tuple[Event, ...], cast: Cast, answers: dict[int, object], only: int | None
    ) -> Clash | None:
        """Store the result of a history anew, and compare the answers with its own last ones."""
        copies = _copies([item async for item in self.store.scan(metadata=cast.among, order="added")], cast.afresh)
        for copied in copies:
            await self.store.add(copied)
        wanted = await self._asked(cast.afresh, only)
        unlike = [number for number in answers if answers[number] != wanted[number]]
        if not unlike:
            return None
        readable = _copies(copies, Cast.named().afresh)
        return Clash(events, unlike[0], wanted[unlike[0]], answers[unlike[0]], tuple(readable))

    async def again(self, events: Sequence[Event], like: Clash) -> Clash | None:
        """Return the same difference with other events, in a store that is tidied first."""
        await self.tidy()
        found = await self.clash(events, like.question)
        return found if found is not None and (found.copies is None) is (like.copies is None) else None


def _copies(items: Sequence[MemoryItem], scope: MemoryMetadata) -> list[MemoryItem]:
    """Return the same memories in another scope, as if each were new."""
    return [
        note(
            item.content,
            scope,
            id=f"{scope.user_id}/{_number(item)}",
            created_at=item.created_at,
            archived_by=item.archived_by,
        )
        for item in items
    ]


async def _shrunk(clash: Clash, trial: Trial) -> Clash | None:
    """Return the shortest history found that shows the same; None if it cannot be reproduced."""
    left = histories.SHRINKING_STEPS
    last = [event for event in clash.events[:-1] if event.what != "ask"]
    best = await trial.again([*last, clash.events[-1]], clash) or await trial.again(clash.events, clash)
    while best is not None:
        for events in _plainer(best.events):
            left -= 2 * len(events)
            found = await trial.again(events, best) if left > 0 else None
            if found is not None:
                best = found
                break
        else:
            break
    return best


def _plainer(events: tuple[Event, ...]) -> Iterator[tuple[Event, ...]]:
    """Yield histories with fewer events, many at a time first, then with fewer words; the last question stays."""
    size = (len(events) - 1) // 2
    while size:
        for start in range(0, len(events) - 1, size):
            yield (*events[:start], *events[min(start + size, len(events) - 1) :])
        size //= 2
    for place, event in enumerate(events):
        words = event.content.split()
        plainer = []
        if event.what == "add two":
            second = replace(event, what="add", number=(event.number + 1) % 5, content=_SECOND)
            plainer = [replace(event, what="add"), second]
        if len(words) > _WORDS_AT_MOST:
            plainer.append(replace(event, content=" ".join(dict.fromkeys(words))))
        elif len(words) > 1:
            fewer = [words[:gone] + words[gone + 1 :] for gone in range(len(words))]
            plainer += [replace(event, content=" ".join(each)) for each in fewer]
        for each in plainer:
            yield (*events[:place], each, *events[place + 1 :])


async def clash_report(clash: Clash, trial: Trial, what: str) -> str:
    """Return a difference as text: what is wrong, which sentence it breaks, what usually causes it, and a program."""
    again = await _shrunk(clash, trial)
    least = again or clash
    method = _questions(Cast.named().among, trial.modes)[least.question].method
    kind = "apart" if least.copies is None else "afresh"
    whose = (
        "a scope with others at work beside it does not answer as the same scope alone does"
        if kind == "apart"
        else "a scope with a history does not answer as the same memories do that are stored afresh"
    )
    note_on = "" if again is not None else "\nIt could not be brought about a second time in fewer steps."
    return (
        f"{method}(): {whose}: expected {shown(least.wanted)}, found {shown(least.found)}.\n"
        f"The contract, {sentence(method, kind)}\n"
        f"What usually causes it: {cause(None, kind)}.\n"
        f"Found by {what}.{note_on} This program shows it:\n\n{composed(trial.store, _lines(least, trial.modes))}\n"
    )


def _lines(clash: Clash, modes: Sequence[SearchMode]) -> list[str]:
    """Return the body of a program that plays both sides and compares them."""
    cast = Cast.named()
    among = _side(clash, cast.among, cast.others, modes, "among")
    if clash.copies is not None:
        copies = [line for item in clash.copies for line in step_lines(Call("add", {"item": item}))]
        question = step_lines(_questions(cast.afresh, modes)[clash.question])[0]
        last = ["# The same memories, stored afresh:", *copies, f"afresh = {question}"]
        return [
            "# A scope with a history:",
            *among,
            *last,
            "assert comparable(among) == comparable(afresh), (among, afresh)",
        ]
    own = replace(clash, events=tuple(event for event in clash.events if event.is_own or event.what == "ask"))
    alone = ["# A scope by itself:", *_side(own, cast.alone, (), modes, "alone")]
    return [
        *alone,
        "# The same in another, with others beside it:",
        *among,
        "assert comparable(among) == comparable(alone), (among, alone)",
    ]


def _side(
    clash: Clash, scope: MemoryMetadata, others: Sequence[MemoryMetadata], modes: Sequence[SearchMode], name: str
) -> list[str]:
    lines: list[str] = []
    question = step_lines(_questions(scope, modes)[clash.question])[0]
    for event in clash.events[:-1]:
        if event.what == "update":
            lines.append(f"await updated(store, {_id(event, scope)!r}, {event.content!r})")
        else:
            lines += [question] if event.what == "ask" else step_lines(_call(event, scope, others))
    return [*lines, f"{name} = {question}"]
