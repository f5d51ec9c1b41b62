"""What a search of a conversation shows, worked out on a store's own entries, so that only what is shown is copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from memoranda.integrity import are_side_by_side, conversation_of, linked_by_calls, whole_groups
from memoranda.items import MemoryItem
from memoranda.store.codec import copy_item
from memoranda.store.conditions import InBranch
from memoranda.store.filters import Filter
from memoranda.store.forked import as_one_session
from memoranda.store.pages import Page
from memoranda.store.shelf import BY, Entry, Row, matching, passing
from memoranda.turns import AT_ONCE
from memoranda.windowing import STAYING, as_said, last_rounds, newest

_FURTHER = 32
"""How many earlier entries are read at a time in search of the calls that results answer."""


@dataclass(slots=True)
class View:
    """What is asked of a conversation; ``rounds`` is 0 for all of them, and a ``listing`` pairs no calls with results.

    ``session`` is the one session that is read, if it is one: rounds and calls go on where it was forked.
    """

    wanted: Filter
    rounds: int
    page: Page
    listing: bool
    session: str | None

    def scope(self) -> Filter:
        """Return a filter for everything that was said where this one looks; that is itself if it asks for no more.

        A keyword picks from the middle of a conversation; whose result is whose shows only in the whole of it.
        """
        wanted = self.wanted
        extra = wanted.metadata is not None and wanted.metadata.extra
        sought = wanted.query or wanted.memory_type is not None or wanted.status is not None
        if not extra and not sought and (not wanted.further or all(each.bounds_scope for each in wanted.further)):
            return wanted
        scope = wanted.metadata.model_copy(update={"extra": {}}) if wanted.metadata and extra else wanted.metadata
        return replace(wanted.scope(), metadata=scope)

    def of(self, entries: Sequence[Entry], scope: Filter) -> list[MemoryItem]:
        """Return copies of what is shown of these entries; ``scope`` is what is still to be asked of all of them."""
        found = matching(entries, scope)
        found.sort(key=BY[self.page.order])
        items = as_one_session([entry.item for entry in found], self.session)
        said = items
        if self.scope() is self.wanted:
            chosen = said = as_said(items)
        else:
            further = tuple([each for each in self.wanted.further if not isinstance(each, InBranch)])
            matches = replace(self.wanted, further=further).matches
            chosen = as_said([item for entry, item in zip(found, items, strict=True) if matches(entry.item)])
            if self.page.order != "added":
                said = [items[at] for at in sorted(range(len(found)), key=lambda at: found[at].added)]
        shown = last_rounds(chosen, self.rounds) if self.rounds else chosen
        shown = shown[: len(shown) - self.page.offset] if self.page.offset < len(shown) else []
        if not self.page.limit:
            shown = []
        elif self.listing:
            shown = shown[-self.page.limit :]
        else:
            shown = whole_groups(newest(shown, self.page.limit), said)
        return [copy_item(item) for item in shown]

    def of_newest(self, row: Row) -> list[MemoryItem] | None:
        """Return what :meth:`of` does of a row, if no more than its scope is asked; None where its newest do not tell.

        They tell if the last rounds, or as many items as the limit, lie in them, and with every result its call: what
        a result answers is the latest call of its id before it, whatever there was earlier.
        """
        page, wanted = self.page, self.wanted
        if page.order != "added" or page.offset or not page.limit or self.listing or not row.as_added:
            return None
        tail = _Tail(row, wanted)
        if len(row.staying) > AT_ONCE or not tail.read(self.rounds, page.limit):
            return None
        staying = matching(row.staying, wanted)
        if [entry for entry in staying if entry.item.group is not None]:
            return None
        if len(staying) > 1 and not tail.is_whole and not _is_at_the_beginning(row, staying):
            return None  # Summaries come behind the system items at the beginning, which the newest do not show.
        shown = said = _said(staying, tail.entries)
        if len(said) <= page.limit and are_side_by_side(said):
            return [copy_item(item) for item in said]
        linked = linked_by_calls(said)
        while linked.unclaimed and not tail.is_whole:
            if not tail.read_on():
                return None
            said = _said(staying, tail.entries + tail.earlier)
            linked = linked_by_calls(said)
        shown = newest(shown, page.limit)
        return [copy_item(item) for item in whole_groups(shown, said if len(shown) < len(said) else None, linked)]


def _is_at_the_beginning(row: Row, staying: Sequence[Entry]) -> bool:
    """Whether what stays is of one kind, or a row begins with all the system items of it."""
    systems = [entry.added for entry in staying if entry.item.memory_type == "system"]
    return len(systems) == len(staying) or systems == [entry.added for entry in row[: len(systems)]]


def _said(staying: Sequence[Entry], others: Sequence[Entry]) -> list[MemoryItem]:
    """Return the items of those that stay and of others, which are newest first, as they were said."""
    entries = [*staying, *reversed(others)]
    if staying and others and staying[-1].added > others[-1].added:
        entries.sort()
    items = [entry[2] for entry in entries]
    return as_said(items) if [entry for entry in staying if entry.item.memory_type == "summary"] else items


class _Tail:
    """The newest entries of a row that match, without those that stay: only as many as are needed."""

    def __init__(self, row: Row, wanted: Filter) -> None:
        self.entries: list[Entry] = []
        """Newest first."""
        self.earlier: list[Entry] = []
        """Those before them that had to be read too, newest first."""
        self.is_whole = False
        """Whether these are all that there are."""
        self._is_short = len(row) <= AT_ONCE
        self._wanted = wanted.metadata
        self._coming = passing(islice(reversed(row), AT_ONCE), wanted)

    def read(self, rounds: int, limit: int) -> bool:
        """Read the last rounds, at most ``limit`` items; False where the newest entries do not tell them."""
        entries, named = self.entries, self._wanted
        several = named is None or named.user_id is None or named.session_id is None
        humans = end = 0
        for entry in self._coming:
            held = entry[2].__dict__
            kind = held["memory_type"]
            if kind in STAYING:
                continue
            if held["group"] is not None:
                return False  # Its others may be anywhere.
            entries.append(entry)
            if rounds:
                if several and conversation_of(entry[2]) != conversation_of(entries[0][2]):
                    return False  # Each has rounds of its own.
                if kind == "human":
                    if humans == rounds:  # Only now is it known that the round after it begins where it seems to.
                        self.earlier = entries[end:]
                        del entries[end:]
                        return True
                    humans += 1
                    end = len(entries)
            # Of several conversations, another's round may have begun later than the one that the limit ends in.
            if len(entries) >= limit and (not rounds or (not several and (humans < rounds or end == len(entries)))):
                return True
        self.is_whole = self._is_short
        return self.is_whole

    def read_on(self) -> bool:
        """Read some earlier entries; False where there are more than may be looked at."""
        some = list(islice(self._coming, _FURTHER))
        self.earlier += [entry for entry in some if entry.item.memory_type not in STAYING]
        self.is_whole = self._is_short and len(some) < _FURTHER
        return self.is_whole or len(some) == _FURTHER
