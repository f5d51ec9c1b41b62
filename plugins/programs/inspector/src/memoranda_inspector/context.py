"""What a model would get of an owner's memories, and what it would not, each item with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memoranda.errors import InputError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda.tokens import estimate_tokens
from memoranda.windowing import as_said
from memoranda_context import AssembledContext, ContextManager, assemble_context
from memoranda_context.explaining import why_incomplete, window_of
from memoranda_context.manager import DEFAULT_BUDGET
from memoranda_context.prompt import WRITERS
from memoranda_inspector.pages import RECORDS, ToolCall, count_items, entry_of, handle_of

LOOKED_AT = 2_000
"""How many items of an owner are looked at together: a page of a window over many conversations."""

FORMATS = {"openai": "OpenAI chat", "responses": "OpenAI Responses", "anthropic": "Anthropic"}
EVERY, NO = "every", "none"
BEFORE_THE_WINDOW = "conversation: before the window, and not among the memories"
NOT_AMONG_THE_MEMORIES = "not among the memories of a new session"

KNOWN = "what is known, and was said before"
FOR_THE_QUESTION = "memories for the question"
ASKED = "the question"

_PARTS = {"system": "system", "summary": "summaries", "tool": "tool results", "human": "user", "ai": "assistant"}


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of a page: the limits, None for one that is not set, and the template of the summaries to show."""

    rounds: int | None = 10
    tokens: int | None = 4000
    template: str = EVERY

    def shows(self, item: MemoryItem) -> bool:
        """Return True unless the item is a summary by another template."""
        if item.memory_type != "summary" or self.template == EVERY:
            return True
        return self.template == getattr(item, "template", "")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An item that is not shown, and why."""

    item: MemoryItem
    reason: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a prompt as a person reads it: which part of the prompt it is, and what it says."""

    part: str
    item: MemoryItem
    calls: list[ToolCall]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the bar: how many tokens, from where to where in percent."""

    name: str
    tokens: int
    start: float
    width: float


@dataclass(slots=True)
class View:
    """A window or a context, as the page shows it.

    ``older`` items lie before those that were looked at, ``newer`` ones behind them, on other pages. A summary stands
    for ``archived`` items.
    """

    setting: Setting
    shown: list[MemoryItem]
    tokens: int
    parts: list[Part]
    left_out: list[LeftOut]
    older: int = 0
    newer: int = 0
    archived: int = 0
    paged: bool = False
    warnings: list[str] = field(default_factory=list)
    assembled: AssembledContext | None = None

    @property
    def stored(self) -> list[MemoryItem]:
        if self.assembled is None:
            return self.shown
        parts = self.assembled.parts
        return [*parts.told, *parts.long_term, *parts.recent, *parts.conversation]

    @property
    def reusable(self) -> int:
        """How many tokens of a prompt a provider's cache can reuse for the next question."""
        return 0 if self.assembled is None else self.assembled.explanation.reusable

    @property
    def reused(self) -> list[Message]:
        """The messages at the beginning of a prompt that a provider's cache can reuse; none of a window."""
        return self._messages()[: self._reused_count]

    @property
    def new(self) -> list[Message]:
        """The messages behind those that a cache can reuse; all of a window."""
        return self._messages()[self._reused_count :]

    @property
    def _reused_count(self) -> int:
        if self.assembled is None:
            return 0
        parts = self.assembled.parts
        return len(self.shown) - bool(parts.question_notes()) - parts.open_round - (parts.query is not None)

    def _messages(self) -> list[Message]:
        """Return what is sent, in order, each with the part of the prompt that it is."""
        names: dict[str, str] = {}
        said: set[str] = set()
        if self.assembled is not None:
            parts = self.assembled.parts
            names = {parts.lasting_notes(): KNOWN, parts.question_notes(): FOR_THE_QUESTION, parts.query or "": ASKED}
            said = {item.id for item in parts.conversation}
        return [
            Message("" if item.id in said else names.get(item.content, ""), item, entry_of(item).calls)
            for item in self.shown
        ]

    @property
    def left_out_count(self) -> int:
        """How many items are left out, those that are not listed included."""
        return len(self.left_out) + self.older + self.newer + self.archived

    def groups(self, containing: str = "") -> dict[str, list[LeftOut]]:
        """Return what is left out by its reason, newest first: items that contain a text, or are said by that name."""
        sought = containing.strip().casefold()
        groups: dict[str, list[LeftOut]] = {}
        for left in reversed(self.left_out):
            if sought in left.item.content.casefold() or sought in (left.item.name or "").casefold():
                groups.setdefault(left.reason, []).append(left)
        return groups

    def payload(self, form: str) -> Any:
        """Return what is sent to a provider. Raises InputError for an unknown format, and for what cannot be sent."""
        if form not in FORMATS:
            raise InputError(f"The formats are {', '.join(FORMATS)}.", field="format")
        sent = WRITERS[form](self.shown) if self.assembled is None else self.assembled.messages(form)
        if form == "anthropic":
            system, messages = sent
            return {"system": system, "messages": messages}
        return {"messages" if form == "openai" else "input": sent}


async def window_view(store: Store, metadata: MemoryMetadata | None, setting: Setting, newer: int = 0) -> View:
    """Return the window of a setting, and what is left out of it.

    The window of one session is the store's own. That of many conversations would take all of their items to be
    exact, so from :data:`LOOKED_AT` items on it is cut from a page of them, behind which ``newer`` items lie.
    """

    def counted(item: MemoryItem) -> int:
        return estimate_tokens(item) if setting.shows(item) else 0

    total = await count_items(store, metadata)
    is_one = metadata is not None and None not in (metadata.user_id, metadata.session_id)
    paged = total > LOOKED_AT and not is_one
    newer = newer if paged else 0
    page = await store.search(metadata=metadata, limit=LOOKED_AT, offset=newer, order="added", mode="substring")
    looked_at = page[::-1]
    rounds, tokens = setting.rounds, setting.tokens
    exact = [] if paged else await store.window(metadata=metadata, rounds=rounds, tokens=tokens, counter=counted)
    known = {item.id for item in looked_at}
    said = as_said([*(item for item in exact if item.id not in known), *looked_at])
    cut = window_of(said, rounds=rounds, tokens=tokens, count=counted)
    window = cut.shown if paged else exact
    inside, reasons = {item.id for item in window}, {item.id: reason for item, reason in cut.left_out}
    left_out = [
        LeftOut(item, reasons.get(item.id) or why_incomplete(item), estimate_tokens(item))
        for item in looked_at
        if item.id not in inside
    ]
    left_out += _by_template(window, setting)
    live = len({item.id for item in [*looked_at, *window]})
    archived = await _archived(store, metadata) if total > live else 0
    older = max(total - archived - live - newer, 0)
    shown = [item for item in window if setting.shows(item)]
    parts = bar((_PARTS.get(item.memory_type, item.memory_type), estimate_tokens(item)) for item in shown)
    return View(setting, shown, sum(part.tokens for part in parts), parts, left_out, older, newer, archived, paged)


async def why_unseen(store: Store, item: MemoryItem, setting: Setting) -> str:
    """Return why a model would not see an item now, in the window of its session; empty if it would."""
    if item.archived_by is not None:
        return "a summary stands for it"
    session = MemoryMetadata(user_id=item.metadata.user_id, session_id=item.metadata.session_id)
    view = await window_view(store, session, setting)
    if any(shown.id == item.id for shown in view.shown):
        return ""
    reasons = (left.reason for left in view.left_out if left.item.id == item.id)
    return next(reasons, f"older than the newest {LOOKED_AT:,} items of its session")


async def _archived(store: Store, metadata: MemoryMetadata | None) -> int:
    return sum([item.memory_type not in RECORDS async for item in store.scan(metadata=metadata, archived=True)])


def _by_template(window: Sequence[MemoryItem], setting: Setting) -> list[LeftOut]:
    reason = (
        "no summaries are wanted" if setting.template == NO else f"only summaries by “{setting.template}” are wanted"
    )
    return [LeftOut(item, reason, estimate_tokens(item)) for item in window if not setting.shows(item)]


async def assembled_view(
    store: Store, metadata: MemoryMetadata | None, window: View, question: str, soul: Path | None
) -> View:
    """Return the prompt that an agent would send for a question: in this session, or for other owners in a new one."""
    context, warnings = await _assembled(store, metadata, question, window.setting.tokens, soul)
    explanation = context.explain()
    ids = [decision.item_id for decision in explanation.decisions]
    items = {item.id: item for item in await store.get_many(ids, metadata=metadata)}
    # What was dropped from one place may stand in another.
    kept = {decision.item_id for decision in explanation.kept}
    goes_on = metadata is not None and metadata.session_id is not None
    usual = BEFORE_THE_WINDOW if goes_on else NOT_AMONG_THE_MEMORIES
    left_out = {
        item.id: LeftOut(item, usual, estimate_tokens(item))
        for item in as_said([*window.shown, *(left.item for left in window.left_out)])
        if item.id not in kept
    }
    for decision in explanation.dropped:
        if decision.item_id in items and decision.item_id not in kept:
            reason = f"{decision.source}: {decision.reason}"
            left_out[decision.item_id] = LeftOut(items[decision.item_id], reason, decision.tokens)
    return replace(
        window,
        shown=list(context.parts.items()),
        tokens=context.tokens,
        parts=bar(explanation.costs.items()),
        left_out=list(left_out.values()),
        warnings=[*warnings, *explanation.warnings],
        assembled=context,
    )


async def _assembled(
    store: Store, metadata: MemoryMetadata | None, question: str, tokens: int | None, soul: Path | None
) -> tuple[AssembledContext, list[str]]:
    budget = DEFAULT_BUDGET if tokens is None else tokens
    if metadata is None or metadata.session_id is None:
        manager = ContextManager(soul, long_term=store, token_budget=budget)
        return await manager.assemble_context(question, metadata=metadata), []
    system, warnings = "", []
    try:
        system = "" if soul is None else await asyncio.to_thread(soul.read_text, encoding="utf-8")
    except (OSError, ValueError) as error:
        warnings.append(f"The soul file {str(soul)!r} cannot be read: {type(error).__name__}.")
    named = {name: value for name in SCOPE_FIELDS if (value := getattr(metadata, name)) is not None}
    handle = handle_of(store, named)
    return await assemble_context(handle, question, system=system, tokens=budget, receipt=False), warnings


def bar(costs: Iterable[tuple[str, int]]) -> list[Part]:
    """Return how many tokens each part takes, and where it stands in a bar of all."""
    sums: dict[str, int] = {}
    for name, tokens in costs:
        sums[name] = sums.get(name, 0) + tokens
    total = sum(sums.values()) or 1
    parts, start = [], 0.0
    for name, tokens in sums.items():
        width = 100 * tokens / total
        parts.append(Part(name, tokens, round(start, 2), round(width, 2)))
        start += width
    return parts


def differences(one: View, other: View) -> dict[str, list[MemoryItem]]:
    """Return what each of two views shows and the other does not."""
    ids = [{item.id for item in view.stored} for view in (one, other)]
    return {
        "A": [item for item in one.stored if item.id not in ids[1]],
        "B": [item for item in other.stored if item.id not in ids[0]],
    }
