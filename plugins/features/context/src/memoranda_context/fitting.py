"""Fitting what was fetched for a context into its token budget, with a decision for every item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from operator import attrgetter

from memoranda.integrity import call_ids, whole_groups
from memoranda.items import MemoryItem
from memoranda.windowing import rounds_within
from memoranda_context.budget import Counts
from memoranda_context.prompt import (
    NOTES,
    PROFILE_HEADING,
    AssembledContext,
    Decision,
    Explanation,
    Parts,
    long_term_entry,
    profile_entries,
    recent_entry,
    told_entry,
)
from memoranda_context.remembering import DOES_NOT_FIT

ALREADY = "it is in the context already"
_FOUND = "the search found it"
_NEWEST = "it is one of the newest"
IS_QUERY = "it is the query"
INCOMPLETE = "its tool call or one of its results is not in the context"


@dataclass(slots=True)
class Fetched:
    """The items to choose from, and the warnings of fetching them."""

    soul: str = ""
    conversation: list[MemoryItem] = field(default_factory=list)
    copies: list[MemoryItem] = field(default_factory=list)
    recent: list[MemoryItem] = field(default_factory=list)
    long_term: list[MemoryItem] = field(default_factory=list)
    """What the search found, best first."""
    newest: list[MemoryItem] = field(default_factory=list)
    """What fills the remaining room, newest first."""
    profile: str = ""
    told: list[MemoryItem] = field(default_factory=list)
    """What the user said before that is worth knowing whatever is asked, oldest first."""
    remarks: Mapping[str, str] = field(default_factory=dict)
    """What stands behind the words of items that hold no longer, by id."""
    open_round: int = 0
    """How many of the last items of the conversation are a round that goes on."""
    left_out: list[tuple[MemoryItem, str]] = field(default_factory=list)
    """What was found and is not worth its tokens, each with the reason."""
    unsupported: Sequence[str] = ()
    timezone: tzinfo = UTC
    warnings: list[str] = field(default_factory=list)


class Fitting:
    """Fits one context into its budget."""

    def __init__(self, fetched: Fetched, query: str | None, budget: int, count: Counts, long_term_limit: int) -> None:
        self._fetched = fetched
        self._budget = budget
        self._count = count
        self._long_term_limit = long_term_limit
        self._decisions: list[Decision] = []
        self._warnings = fetched.warnings
        self._said: Sequence[MemoryItem] = ()
        self._parts = Parts(
            soul=fetched.soul,
            query=query,
            timezone=fetched.timezone,
            unsupported=tuple(fetched.unsupported),
            remarks=fetched.remarks,
        )

    def context(self) -> AssembledContext:
        left = self._fit_profile(self._budget - self._keep_always())
        left = self._fit_told(left)
        left = self._fit_conversation(left)
        left = self._fit_recent(left - self._count.of_text(NOTES))
        self._fit_long_term(left)
        for item, reason in self._fetched.left_out:
            self._decisions.append(Decision("long-term", item.id, False, reason, self._count(item)))
        self._make_whole()
        tokens = self._shrink()
        reusable = self._parts.tokens(self._count, reusable=True)
        explanation = Explanation(tuple(self._decisions), tuple(self._warnings), tokens, self._budget, reusable)
        return AssembledContext(self._parts, explanation)

    def _keep_always(self) -> int:
        soul, query = 0, 0
        if self._parts.soul.strip():
            soul = self._count.of_text(self._parts.soul)
        if soul:
            self._decisions.append(Decision("soul", "soul", True, "the soul is always kept", soul))
        if self._parts.query is not None:
            query = self._count.of_text(self._parts.query)
            self._decisions.append(Decision("query", "query", True, "the query is always kept", query))
        if soul + query > self._budget:
            self._warnings.append(
                f"The soul and the query take {soul + query} tokens, more than the budget of {self._budget}."
            )
        return soul + query

    def _fit_profile(self, left: int) -> int:
        profile = self._fetched.profile
        if not profile:
            return left
        tokens = self._count.of_text("\n".join([NOTES, PROFILE_HEADING, profile_entries(profile)]))
        fits = tokens <= left
        reason = "it is what is known" if fits else DOES_NOT_FIT
        self._decisions.append(Decision("profile", "profile", fits, reason, tokens))
        if fits:
            self._parts = replace(self._parts, profile=profile)
        return left - tokens if fits else left

    def _fit_told(self, left: int) -> int:
        """Keep what the user said before, the newest first if not all of it fits."""
        told = self._fetched.told[::-1]
        if not told:
            return left
        kept: list[MemoryItem] = []
        left -= self._count.of_text(NOTES)
        costs = self._count.of_texts(*self._parts.written(told, told_entry))
        for item, tokens in zip(told, costs, strict=True):
            fits = tokens <= left
            if fits:
                kept.append(item)
                left -= tokens
            reason = "it is worth knowing" if fits else DOES_NOT_FIT
            self._decisions.append(Decision("told", item.id, fits, reason, tokens))
        self._parts = replace(self._parts, told=kept[::-1])
        return left

    def _fit_conversation(self, left: int) -> int:
        items = self._fetched.conversation
        for item in self._fetched.copies:
            self._decisions.append(Decision("conversation", item.id, False, ALREADY, self._count(item)))
        if items and items[-1].memory_type == "human" and items[-1].content == self._parts.query:
            item = items[-1]
            self._decisions.append(Decision("conversation", item.id, False, IS_QUERY, self._count(item)))
            items = items[:-1]
        tokens = self._count.of_each(items)
        kept = items if sum(tokens) <= left else rounds_within(items, max(left, 0), self._count)
        chosen = {id(item) for item in kept}
        for item, size in zip(reversed(items), reversed(tokens), strict=True):
            fits = id(item) in chosen
            reason = "it is part of the conversation" if fits else DOES_NOT_FIT
            self._decisions.append(Decision("conversation", item.id, fits, reason, size))
        self._said = items
        self._parts = replace(self._parts, conversation=kept, open_round=self._fetched.open_round)
        return left - sum(self._count.of_each(kept))

    def _fit_recent(self, left: int) -> int:
        if not self._fetched.recent:
            return left
        shown = {item.id for item in [*self._parts.conversation, *self._parts.told]}
        kept: list[MemoryItem] = []
        full = False
        for item in reversed(self._fetched.recent):
            tokens = self._count.of_text(recent_entry(item, self._parts.timezone))
            if item.id in shown:
                self._decisions.append(Decision("recent", item.id, False, ALREADY, tokens))
                continue
            shown.add(item.id)
            full = full or tokens > left
            if not full:
                kept.append(item)
                left -= tokens
            reason = DOES_NOT_FIT if full else "it is recent"
            self._decisions.append(Decision("recent", item.id, not full, reason, tokens))
        self._parts = replace(self._parts, recent=kept[::-1])
        return left

    def _fit_long_term(self, left: int) -> None:
        """Keep what was found, best first, then the newest; half a tool-call group takes no room from the others."""
        why = self._unshown()
        wanted = {item.id: item for item in [*self._fetched.newest, *self._fetched.long_term] if item.id in why}
        entries = self._parts.written(list(wanted.values()), long_term_entry)
        costs = dict(zip(wanted, self._count.of_texts(*entries), strict=True))
        # Items of one time stay in the order of the store: it puts a call before its result.
        in_order = list(reversed(wanted.values()))
        in_order.sort(key=attrgetter("created_at"))
        left_out = dict.fromkeys(_halves(in_order), INCOMPLETE)
        while True:
            kept, late = self._fitting([item_id for item_id in why if item_id not in left_out], costs, left)
            chosen = [item for item in in_order if item.id in kept]
            halves = _halves(chosen)
            if not halves:
                break
            left_out |= dict.fromkeys(halves, INCOMPLETE)
        left_out |= dict.fromkeys(late, DOES_NOT_FIT)
        for item_id, found in why.items():
            if item_id in kept or item_id in left_out:
                reason = left_out.get(item_id, found)
                self._decisions.append(Decision("long-term", item_id, item_id in kept, reason, costs[item_id]))
        self._parts = replace(self._parts, long_term=chosen)

    def _unshown(self) -> dict[str, str]:
        """Return the ids of what the context does not show yet, and why it should, in the order of priority.

        The newest are often turns of the conversation, which may have other ids there, or the query itself.
        """
        conversation = self._parts.conversation
        shown = {item.id for item in [*conversation, *self._parts.recent, *self._parts.told]}
        known = {(item.memory_type, item.content) for item in conversation} | {("human", self._parts.query)}
        wanted: dict[str, str] = {}
        already: list[MemoryItem] = []
        for item in self._fetched.long_term:
            if item.id in shown:
                already.append(item)
            else:
                wanted[item.id] = _FOUND
        for item in self._fetched.newest:
            if item.id in shown or item.id in wanted:
                continue
            if not (item.memory_type == "tool" or call_ids(item)) and (item.memory_type, item.content) in known:
                already.append(item)
            else:
                wanted[item.id] = _NEWEST
        for item in already:
            tokens = self._count.of_text(long_term_entry(item))
            self._decisions.append(Decision("long-term", item.id, False, ALREADY, tokens))
        return wanted

    def _fitting(self, ids: Sequence[str], costs: Mapping[str, int], left: int) -> tuple[set[str], set[str]]:
        """Return what fits, each in its turn until the limit is reached, and what does not."""
        kept: set[str] = set()
        late: set[str] = set()
        for item_id in ids:
            if len(kept) == self._long_term_limit:
                break
            fits = costs[item_id] <= left
            (kept if fits else late).add(item_id)
            left -= costs[item_id] if fits else 0
        return kept, late

    def _make_whole(self) -> None:
        said = self._parts.conversation
        conversation = whole_groups(said, self._said)
        self._parts = replace(self._parts, conversation=conversation, open_round=_open_part(self._parts, conversation))
        if len(conversation) < len(said):
            whole = {id(item) for item in conversation}
            for item in said:
                if id(item) not in whole:
                    self._drop(item, INCOMPLETE)

    def _shrink(self) -> int:
        """Drop what comes last by priority while headings and line ends make the whole exceed the budget.

        Returns the tokens of what is left.
        """
        while (tokens := self._parts.tokens(self._count)) > self._budget:
            if self._parts.long_term:
                last = self._last_by_priority()
                remaining = [item for item in self._parts.long_term if item is not last]
                self._parts = replace(self._parts, long_term=whole_groups(remaining))
                dropped = {id(item) for item in self._parts.long_term}
                for item in [*remaining, last]:
                    if id(item) not in dropped:
                        self._drop(item, DOES_NOT_FIT if item is last else INCOMPLETE)
            elif self._parts.recent:
                self._drop(self._parts.recent[0], DOES_NOT_FIT)
                self._parts = replace(self._parts, recent=self._parts.recent[1:])
            elif self._parts.unsupported:
                self._parts = replace(self._parts, unsupported=())
            elif self._parts.told:
                self._drop(self._parts.told[0], DOES_NOT_FIT)
                self._parts = replace(self._parts, told=self._parts.told[1:])
            elif self._parts.profile:
                self._decisions = [each for each in self._decisions if each.source != "profile"]
                cost = self._count.of_text(self._parts.profile)
                self._decisions.append(Decision("profile", "profile", False, DOES_NOT_FIT, cost))
                self._parts = replace(self._parts, profile="")
            else:
                break
        return tokens

    def _last_by_priority(self) -> MemoryItem:
        kept = {id(item) for item in self._parts.long_term}
        return [item for item in [*self._fetched.long_term, *self._fetched.newest] if id(item) in kept][-1]

    def _drop(self, item: MemoryItem, reason: str) -> None:
        for position, decision in enumerate(self._decisions):
            if decision.kept and decision.item_id == item.id:
                self._decisions[position] = decision._replace(kept=False, reason=reason)
                return


def _open_part(parts: Parts, conversation: Sequence[MemoryItem]) -> int:
    start = len(parts.conversation) - parts.open_round
    open_items = {id(item) for item in list(parts.conversation)[start:]}
    return len([item for item in conversation if id(item) in open_items])


def _halves(items: Sequence[MemoryItem]) -> list[str]:
    """Return the ids of items, oldest first, whose tool-call group is not complete among them."""
    whole = whole_groups(items)
    if len(whole) == len(items):
        return []
    shown = {id(item) for item in whole}
    return [item.id for item in items if id(item) not in shown]
