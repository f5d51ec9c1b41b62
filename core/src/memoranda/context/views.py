"""What a search of a conversation shows, worked out on a store's own entries, so that only what is shown is copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from memoranda.integrity import CallKey, answered_keys, call_keys, conversation_of, whole_groups
from memoranda.items import MemoryItem
from memoranda.store.codec import copy_item
from memoranda.store.conditions import InBranch
from memoranda.store.filters import Filter
from memoranda.store.forked import as_one_session
from memoranda.store.pages import Page
from memoranda.store.shelf import BY, Entry, Row
from memoranda.turns import AT_ONCE
from memoranda.windowing import as_said, last_rounds, newest


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
        if not (extra or sought or not all(each.bounds_scope for each in wanted.further)):
            return wanted
        scope = wanted.metadata.model_copy(update={"extra": {}}) if wanted.metadata and extra else wanted.metadata
        return replace(wanted.scope(), metadata=scope)

    def of(self, entries: Sequence[Entry], scope: Filter) -> list[MemoryItem]:
        """Return copies of what is shown of these entries; ``scope`` is what is still to be asked of all of them."""
        found = [entry for entry in entries if scope.matches(entry.item)]
        found.sort(key=BY[self.page.order])
        items = as_one_session([entry.item for entry in found], self.session)
        said = items
        if self.scope() is self.wanted:
            matching = said = as_said(items)
        else:
            further = tuple([each for each in self.wanted.further if not isinstance(each, InBranch)])
            matches = replace(self.wanted, further=further).matches
            matching = as_said([item for entry, item in zip(found, items, strict=True) if matches(entry.item)])
            if self.page.order != "added":
                said = [items[at] for at in sorted(range(len(found)), key=lambda at: found[at].added)]
        shown = last_rounds(matching, self.rounds) if self.rounds else matching
        shown = shown[: len(shown) - self.page.offset] if self.page.offset < len(shown) else []
        if not self.page.limit:
            shown = []
        elif self.listing:
            shown = shown[-self.page.limit :]
        else:
            shown = whole_groups(newest(shown, self.page.limit), said)
        return [copy_item(item) for item in shown]

    def of_newest(self, row: Row) -> list[MemoryItem] | None:
        """Return what :meth:`of` does of a row, from its newest entries alone; None where these do not tell.

        They tell if the last rounds, or as many items as the limit, lie in them, and with every result its call: what
        a result answers is the latest call of its id before it, whatever there was earlier.
        """
        page = self.page
        if page.order != "added" or page.offset or not page.limit or self.listing or not row.as_added:
            return None
        if len(row.staying) > AT_ONCE or self.scope() is not self.wanted:
            return None
        tail = _Tail(row, self.wanted)
        count = tail.read(self.rounds, page.limit)
        staying = [entry for entry in row.staying if self.wanted.matches(entry.item)]
        if count is None or any(entry.item.group is not None for entry in staying):
            return None
        kinds = {entry.item.memory_type for entry in staying}
        if len(kinds) > 1 and not tail.is_whole and not _is_at_the_beginning(row, staying):
            return None  # Summaries come behind the system items at the beginning, which the newest do not show.
        said = as_said([entry.item for entry in sorted([*staying, *tail.entries])])
        beyond = {id(entry.item) for entry in tail.entries[count:]}
        shown = newest([item for item in said if id(item) not in beyond] if beyond else said, page.limit)
        return [copy_item(item) for item in whole_groups(shown, said if len(shown) < len(said) else None)]


def _is_at_the_beginning(row: Row, staying: Sequence[Entry]) -> bool:
    """Whether a row begins with all the system items among those that stay."""
    systems = [entry.added for entry in staying if entry.item.memory_type == "system"]
    return systems == [entry.added for entry in row[: len(systems)]]


class _Tail:
    """The newest entries of a row that match, without those that stay: only as many as are needed."""

    def __init__(self, row: Row, wanted: Filter) -> None:
        self.entries: list[Entry] = []
        """Newest first."""
        self.is_whole = False
        """Whether these are all that there are."""
        self._row = row
        self._wanted = wanted
        self._unanswered: set[CallKey] = set()

    def read(self, rounds: int, limit: int) -> int | None:
        """Read what is needed for the last rounds, at most ``limit`` items, and return how many entries those are.

        None if they cannot be told from the newest entries. There are more entries than that only if these lack a call.
        """
        entries, named = self.entries, self._wanted.metadata
        several = named is None or named.user_id is None or named.session_id is None
        humans, end, enough, lacking = 0, 0, False, True
        coming = self._coming()
        for item in coming:
            if item.group is not None:
                return None  # Its others may be anywhere.
            if rounds:
                if several and conversation_of(item) != conversation_of(entries[0].item):
                    return None  # Each has rounds of its own.
                if item.memory_type == "human":
                    if humans == rounds:
                        enough = True
                        break  # Only now is it known that the round after it begins where it seems to.
                    humans += 1
                    end, lacking = len(entries), bool(self._unanswered)
            if len(entries) >= limit and (humans < rounds or end == len(entries) or not rounds):
                enough, end, lacking = True, len(entries), bool(self._unanswered)
                break
        if not enough:
            return len(entries) if self.is_whole else None
        if not lacking:
            del entries[end:]
            return end
        while self._unanswered and next(coming, None) is not None:
            pass
        return None if self._unanswered and not self.is_whole else end

    def _coming(self) -> Iterator[MemoryItem]:
        matches, entries, unanswered = self._wanted.matches, self.entries, self._unanswered
        for entry in islice(reversed(self._row), AT_ONCE):
            item = entry.item
            kind = item.memory_type
            if kind in ("system", "summary") or not matches(item):
                continue
            entries.append(entry)
            if kind == "tool":
                unanswered.update(answered_keys(item))
            elif kind == "ai" and unanswered:
                unanswered.difference_update(call_keys(item))
            yield item
        self.is_whole = len(self._row) <= AT_ONCE
