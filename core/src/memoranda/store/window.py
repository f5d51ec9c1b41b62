"""Reading a window over a conversation: no more of it than the window needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from memoranda.integrity import whole_groups
from memoranda.items import MemoryItem
from memoranda.shapes import whole_number
from memoranda.store.filters import Filter
from memoranda.store.forked import as_one_session
from memoranda.store.pages import EVERYTHING, Page
from memoranda.store.values import Value
from memoranda.tokens import TokenCounter, estimate_tokens
from memoranda.turns import aside, sifting
from memoranda.windowing import as_said, check_rounds, last_rounds, newest, rounds_of, rounds_within, stays

_FIRST_LOOK = 64
_FURTHER = 4

_STAYING = Value("memory_type", False, "$in", ["system", "summary"])

Search = Callable[[Filter, Page], Awaitable[list[MemoryItem]]]


class _Wanted:
    """How much of a conversation is wanted."""

    def __init__(self, rounds: int | None, tokens: int | None, limit: int | None, counter: TokenCounter | None) -> None:
        self.rounds = None if rounds is None else check_rounds(rounds, "rounds")
        self.tokens = None if tokens is None else whole_number(tokens, "tokens")
        self.limit = None if limit is None else whole_number(limit, "limit")
        self.count = counter or estimate_tokens

    def has_enough(self, said: Sequence[MemoryItem]) -> bool:
        """Whether older items than these could not be in the window, system items and summaries apart."""
        if self.limit is not None and sum(not stays(item) for item in said) >= self.limit:
            return True
        if self.tokens is not None and sum(self.count(item) for item in said) > self.tokens:
            return True
        if self.rounds is None:
            return False
        found = rounds_of(said)
        # A round of which only the end was read began earlier than it seems.
        return len(found) > self.rounds and all(
            said[positions[0]].memory_type == "human" for positions in found[len(found) - self.rounds :]
        )

    def cut(self, said: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the window of a conversation, or of as much of it as :meth:`has_enough` asks for."""
        found = list(said)
        if self.rounds is not None:
            found = last_rounds(found, self.rounds)
        if self.tokens is not None:
            found = rounds_within(found, self.tokens, self.count)
        if self.limit is not None:
            found = newest(found, self.limit)
        return whole_groups(found, said)


async def read_window(
    search: Search,
    wanted: Filter,
    *,
    rounds: int | None,
    tokens: int | None,
    limit: int | None,
    counter: TokenCounter | None,
    session: str | None = None,
) -> list[MemoryItem]:
    """Return what :meth:`memoranda.store.BaseStore.window` promises, from a store's own search.

    ``session`` is the one session that is read, if it is one: rounds and calls go on where it was forked.
    """
    much = _Wanted(rounds, tokens, limit, counter)
    bounded = any(bound is not None for bound in (rounds, tokens, limit))
    size = _FIRST_LOOK if bounded else EVERYTHING
    while True:
        said = as_one_session((await search(wanted, Page(size, order="added")))[::-1], session)
        if len(said) < size:
            return await aside(sifting(len(said)), much.cut, as_said(said))
        if await aside(len(said), much.has_enough, said):
            break
        size *= _FURTHER
    known = {item.id for item in said}
    staying = as_one_session((await search(wanted.also(_STAYING), Page(order="added")))[::-1], session)
    whole = as_said([*(item for item in staying if item.id not in known), *said])
    return await aside(sifting(len(whole)), much.cut, whole)
