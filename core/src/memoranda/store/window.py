"""Read a window over a conversation, and no more of it than the window needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain

from memoranda.integrity import answers_another_agent, conversation_of, tied_items, whole_among
from memoranda.items import MemoryItem
from memoranda.loops import filter_weight, offload
from memoranda.shapes import whole_number
from memoranda.store.branch_layer import as_one_session
from memoranda.store.codec import copy_items
from memoranda.store.engine import Engine
from memoranda.store.filters import EVERYTHING, Filter, Page
from memoranda.store.requests import AS_ADDED, items_where
from memoranda.store.values import Value
from memoranda.tokens import TokenCounter, estimate_tokens
from memoranda.windowing import STAYING, as_said, check_rounds, items_of_rounds, newest, rounds_of, rounds_within, stays

_FIRST_LOOK = 64
"""How many of the newest items are read first, where tokens are asked for."""

_PER_ROUND = 3
"""How many items are read first for each round that is asked for."""

_FURTHER = 4
"""How many times more are read where those do not tell the window."""

ONLY_STAYING = Value("memory_type", False, "$in", list(STAYING))
"""The condition on what every window of a conversation shows: system items and summaries."""


class _Wanted:
    """How much of a conversation is wanted.

    ``is_one`` says that there is one conversation alone, whose rounds do not overlap.
    """

    def __init__(
        self,
        rounds: int | None,
        tokens: int | None,
        limit: int | None,
        counter: TokenCounter | None,
        *,
        is_one: bool,
    ) -> None:
        self.is_one = is_one
        self.rounds = None if rounds is None else check_rounds(rounds, "rounds")
        self.tokens = None if tokens is None else whole_number(tokens, "tokens")
        self.limit = None if limit is None else whole_number(limit, "limit")
        self.count = counter or estimate_tokens
        self._cut_into_rounds: Sequence[MemoryItem] = ()
        self._rounds: list[list[int]] = []
        self._searched_for_ties: Sequence[MemoryItem] = ()
        self._tied: list[MemoryItem] = []

    def _rounds_of(self, said: Sequence[MemoryItem]) -> list[list[int]]:
        """Return the rounds of what was read, which are looked for once."""
        if said is not self._cut_into_rounds:
            self._cut_into_rounds, self._rounds = said, rounds_of(said)
        return self._rounds

    def _tied_of(self, said: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return what was read of calls, results and groups, which is looked for once."""
        if said is not self._searched_for_ties:
            self._searched_for_ties, self._tied = said, tied_items(said)
        return self._tied

    def _items_of(self, said: Sequence[MemoryItem], rounds: Sequence[Sequence[int]]) -> list[MemoryItem]:
        """Return the items of the last rounds, and those that stay."""
        if not self.is_one or not rounds:
            return items_of_rounds(said, rounds)
        start = rounds[0][0]  # Nothing but what stays lies between the rounds of one conversation.
        return [*filter(stays, said[:start]), *said[start:]]

    def has_enough(self, said: Sequence[MemoryItem]) -> bool:
        """Return True if no older item could be in the window, except system items and summaries.

        Of each conversation, the first round that was read may have begun earlier, or only with its first human item:
        which rounds are the last is known of those behind.
        """
        limit = EVERYTHING if self.limit is None else self.limit
        latest = [] if len(said) < limit else [place for place, item in enumerate(said) if not stays(item)]
        enough = len(latest) >= limit
        if self.rounds is None and self.tokens is None:
            return enough
        found = self._rounds_of(said)
        if self.is_one:
            known = found[1:]
        else:  # The first one of each stays.
            begun = {conversation_of(said[places[0]]): places for places in reversed(found)}
            unknown = max([_from_human(said, places)[0] for places in begun.values()], default=-1)
            known = [places for places in found if places[0] > unknown]
        if self.rounds is not None and len(known) >= self.rounds:
            return True
        places = [*chain.from_iterable(known)]
        if self.tokens is not None:
            counted = [*places, *(_from_human(said, found[0]) if self.is_one and found else ())]
            staying = [self.count(item) for item in said if stays(item)]
            if sum(staying) + sum([self.count(said[place]) for place in counted]) > self.tokens:
                return True
        elif self.is_one and self.rounds is not None and len(found) < self.rounds:
            return enough
        return enough and set(places).issuperset(latest[len(latest) - (self.limit or 0) :])

    def is_told_by(self, said: Sequence[MemoryItem]) -> bool:
        """Return True if these items determine the window and the calls that its results answer."""
        return self.has_enough(said) and not answers_another_agent(self._tied_of(said))

    def cut(
        self, said: Sequence[MemoryItem], staying: Sequence[MemoryItem] = (), earlier: Sequence[MemoryItem] = ()
    ) -> list[MemoryItem]:
        """Return the window of a conversation, or of as much of it as :meth:`has_enough` asks for.

        ``staying`` are system items and summaries before those, and ``earlier`` are items before them that have a group
        with some of them.
        """
        found: Sequence[MemoryItem] = said
        if self.rounds is not None:
            rounds = self._rounds_of(said)
            if self.rounds < len(rounds):
                found = self._items_of(said, rounds[len(rounds) - self.rounds :])
        found = [*staying, *found]
        if self.tokens is not None:
            found = rounds_within(found, self.tokens, self.count)
        if self.limit is not None and self.limit < len(found):
            found = newest(as_said(found), self.limit)
        return as_said(whole_among(found, [*tied_items([*earlier, *staying]), *self._tied_of(said)]))


def _from_human(said: Sequence[MemoryItem], places: Sequence[int]) -> Sequence[int]:
    """Return the positions of a round from its first human item on, or all if it has none."""
    return places[next((at for at, place in enumerate(places) if said[place].memory_type == "human"), 0) :]


async def read_window(
    engine: Engine,
    wanted: Filter,
    *,
    rounds: int | None,
    tokens: int | None,
    limit: int | None,
    counter: TokenCounter | None,
    session: str | None = None,
    looked_at: list[list[MemoryItem]] | None = None,
) -> list[MemoryItem]:
    """Return what :meth:`memoranda.store.Store.window` promises, from an engine.

    ``session`` is the one that is read, if it is one: its rounds go on where it forked. ``looked_at`` gets all reads.
    """
    # Only this package's own code looks at items that are not shown, so that they need not be copied.
    shared = looked_at is None and counter is None

    async def read(what: Filter, page: Page, staying: bool) -> list[MemoryItem]:
        found = await engine.read(items_where(what, page, shared=shared, staying=staying))
        said = as_one_session(found[::-1], session)
        if looked_at is not None:
            looked_at.append(said)
        return said

    owner = wanted.metadata
    is_one = owner is not None and owner.user_id is not None and owner.session_id is not None
    much = _Wanted(rounds, tokens, limit, counter, is_one=is_one)
    shown = await _window(read, wanted, much, reads_staying=looked_at is None and engine.reads_staying)
    if shared and engine.shares_items:
        return await offload(len(shown), copy_items, shown)
    return shown


async def _window(
    read: Callable[[Filter, Page, bool], Awaitable[list[MemoryItem]]],
    wanted: Filter,
    much: _Wanted,
    *,
    reads_staying: bool,
) -> list[MemoryItem]:
    """Return the window of a conversation, oldest first; ``read`` returns the items that it needs."""
    guesses = [_FIRST_LOOK] if much.tokens is not None else []
    guesses += [] if much.limit is None else [much.limit + _PER_ROUND]
    guesses += [] if much.rounds is None else [_PER_ROUND * much.rounds + 2]
    size = min(guesses, default=EVERYTHING)

    while True:
        found = await read(wanted, Page(size, order="added"), reads_staying)
        if len(found) < size:
            return await offload(filter_weight(len(found)), much.cut, found)
        staying, said = found[: len(found) - size], found[len(found) - size :]
        if await offload(len(said), much.is_told_by, said):
            break
        size *= _FURTHER
    if not reads_staying:
        known = {item.id for item in said}
        staying = [item for item in await read(wanted.also(ONLY_STAYING), AS_ADDED, False) if item.id not in known]
    weight = filter_weight(len(staying) + len(said))
    shown = await offload(weight, much.cut, said, staying)
    # A group that says how many it is has lost nothing: else it would not be shown.
    groups = sorted({item.group for item in shown if item.group is not None and item.group_size is None})
    if not groups:
        return shown
    known = {item.id for item in (*staying, *said)}
    members = await read(wanted.also(Value("group", False, "$in", groups)), AS_ADDED, False)
    return await offload(weight, much.cut, said, staying, [item for item in members if item.id not in known])
