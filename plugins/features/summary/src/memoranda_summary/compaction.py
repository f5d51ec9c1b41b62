"""Swapping the older part of a conversation for summaries of it.

Everything goes through the public methods of a store. The swap is one compare-and-set of the new summaries and of the
items that they stand for, all or none: two compactions at once cannot both succeed, and on a store that is ``atomic``
no crash leaves half of one. On another store a crash may leave summaries beside some of what they stand for; nothing
is lost then, and the next :func:`compact` finishes the work without asking the model again.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from memoranda.errors import InputError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, MemoryStatus, SummaryMemory, now_text, utc_text
from memoranda.loops import offload
from memoranda.store.base import Store
from memoranda.store.codec import dump_metadata
from memoranda.store.conditions import json_equal
from memoranda.store.filters import merge_scope
from memoranda.store.records import writing_records
from memoranda.tokens import TokenCounter
from memoranda.trust import lowest_trust
from memoranda.windowing import as_said
from memoranda_messages.sessions import retry_conflicts
from memoranda_summary.generation import DEFAULT_TIMEOUT, SummaryConfig, TriggerResult, ask, check_trigger, split
from memoranda_summary.templates import TemplateAnswer
from memoranda_summary.undoing import ATTEMPTS, archived_by, check_store, expand, may_stand_for, undo

if TYPE_CHECKING:
    from memoranda.plugins.registry import Registry

__all__ = ["CompactionPlan", "CompactionResult", "compact", "expand", "plan", "undo"]


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a compaction did: the summaries that it stored, and the ids of the items that they now stand for.

    Both are empty when there was nothing to do, which is the case when the trigger was not met, when everything older
    is summarised already, and when another process has just done it.
    """

    trigger: TriggerResult
    summaries: tuple[SummaryMemory, ...] = ()
    archived: tuple[str, ...] = ()

    @property
    def compacted(self) -> bool:
        """True if anything was archived."""
        return bool(self.summaries)

    @property
    def summary_id(self) -> str | None:
        """The id that the archived items carry as ``archived_by``; :func:`expand` and :func:`undo` take it."""
        return self.summaries[0].compaction if self.summaries else None


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a compaction would do: ``older`` are the items that it would summarise and archive, empty if none is due.

    ``live`` is everything that the scope shows, and ``turns`` the part of that which counts towards the trigger.
    """

    trigger: TriggerResult
    older: Sequence[MemoryItem]
    turns: Sequence[MemoryItem]
    live: Sequence[MemoryItem]


async def plan(
    store: Store,
    metadata: MemoryMetadata | None,
    config: SummaryConfig,
    *,
    counter: TokenCounter | None = None,
    force: bool = False,
) -> CompactionPlan:
    """Return what :func:`compact` would do with the same arguments, without asking a model or changing anything.

    Raises InputError when the scope mixes users.
    """
    check_store(store)
    live = await _unarchived(store, metadata)
    return await offload(len(live), _planned, live, config, counter, force)


async def compact(
    store: Store,
    metadata: MemoryMetadata | None,
    config: SummaryConfig,
    summarizer: Any,
    *,
    counter: TokenCounter | None = None,
    force: bool = False,
    timeout: float | None = DEFAULT_TIMEOUT,
    registry: Registry | None = None,
) -> CompactionResult:
    """Summarise the older part of a conversation if it has grown too long, and archive what was summarised.

    The conversation is everything in the scope that ``metadata`` names (None: the whole store or scoped handle). The
    summaries take its place in searches and views, before the recent items that are kept; the sources stay readable by
    their ids. A summary is trusted as the least trusted item that the model read for it. Key points and traits that
    the scope already has are not stored again; an earlier summary is summarised along with the rest and archived with
    it. ``force`` compacts below the thresholds too. Lasting summaries do not count towards the thresholds, since
    compaction cannot make them fewer. The other arguments are those of :func:`memoranda_summary.check_trigger` and
    :func:`memoranda_summary.generate_summary`.

    Whole rounds are summarised: at least ``keep_recent`` items are kept, and with them all of the round that the first
    one belongs to. A round that goes on and on, one question and hundreds of calls, is kept until the next one begins.
    A draft keeps its round. What no human takes part in has no rounds, and is cut between tool-call groups.

    Summaries belong to what all their sources have in common: compact each session by itself if sessions are read by
    themselves. Sources that vanish after a ttl still do; the summary has none. Everything older goes into one prompt
    for each template, or into several where that is longer than the configuration's ``max_prompt_tokens``.

    Raises InputError when the scope mixes users; SummaryError and plugin errors as :func:`generate_summary` does;
    VersionConflictError when others keep changing the sources. Nothing was changed then. Running it again, or in
    two processes at once, compacts once.
    """
    check_store(store)

    async def attempt() -> CompactionResult:
        live = await _unarchived(store, metadata)
        if left := await offload(len(live), _left_over, live):
            with writing_records("summary"):
                await store.update_many(left)
            live = await _unarchived(store, metadata)
        planned = await offload(len(live), _planned, live, config, counter, force)
        if not planned.older:
            return CompactionResult(planned.trigger)
        answers = await ask(planned.older, config, summarizer, timeout=timeout, registry=registry, counter=counter)
        return await _swap(store, planned, answers)

    return await retry_conflicts(attempt, ATTEMPTS)


async def _unarchived(store: Store, metadata: MemoryMetadata | None) -> list[MemoryItem]:
    # The past that a forked session shares belongs to another, who decides on it.
    bounds = merge_scope(metadata, store.bounds)
    session = None if bounds is None else bounds.session_id
    found = [item async for item in store.scan(metadata=metadata, archived=False, order="added")]
    return await offload(len(found), _own_part, found, session)


def _own_part(found: Sequence[MemoryItem], session: str | None) -> list[MemoryItem]:
    return as_said([item for item in found if session is None or item.metadata.session_id == session])


def _left_over(live: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the sources that a compaction which was cut short did not come to archive, as they are to be.

    A source that still is what it was when it was summarised was never archived. One that was replaced since, or
    brought back by an undo, has another mark: another version or, after a copy to another store, another content.
    """
    by_id = {item.id: item for item in live}
    left: dict[str, MemoryItem] = {}
    for summary in live:
        if isinstance(summary, SummaryMemory):
            for source, mark in summary.archives.items():
                item = by_id.get(source)
                if item is not None and _mark(item) == mark and may_stand_for(summary, item):
                    left.setdefault(source, archived_by(item, summary.id))
    return list(left.values())


def _planned(
    live: Sequence[MemoryItem], config: SummaryConfig, counter: TokenCounter | None, force: bool
) -> CompactionPlan:
    turns = _turns(live)
    trigger = check_trigger(turns, config, counter=counter)
    older, _ = split(turns, config.keep_recent, whole_rounds=True)
    nothing_new = all(isinstance(item, SummaryMemory) for item in older)
    if nothing_new or not (trigger.triggered or force):
        older = []
    if len({item.metadata.user_id for item in older}) > 1:
        raise InputError(
            "This scope holds the items of several users, which must not end in one summary. Name a user.",
            field="metadata",
        )
    return CompactionPlan(trigger, older, turns, live)


def _turns(live: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the turns of a scope: all items but lasting summaries, and summaries that a crash left with their sources.

    The latter were written before the summary that knows what to archive; they are replaced by the compaction that
    starts over.
    """
    ids = {item.id for item in live}

    def is_left_behind(summary: SummaryMemory) -> bool:
        knowing = summary.compaction or summary.id
        return knowing not in ids and any(source in ids for source in summary.sources)

    return [item for item in live if not (isinstance(item, SummaryMemory) and (item.lasting or is_left_behind(item)))]


async def _swap(store: Store, planned: CompactionPlan, answers: Sequence[TemplateAnswer]) -> CompactionResult:
    """Store the summaries and archive what they stand for, all or none."""
    made = await offload(len(planned.older), _new_summaries, answers, planned, store.derived_id)
    changed = await offload(len(planned.older), _changed, made, planned.older)
    with writing_records("summary"):
        written = await store.update_many(changed)
    # Letting go of thousands of items takes its time: those of the store, of this function and of its caller have a
    # turn each.
    await asyncio.sleep(0)
    stored = {item.id: item for item in written}
    summaries = tuple(item for new in made if isinstance(item := stored[new.id], SummaryMemory))
    del changed, written, stored
    await asyncio.sleep(0)
    return CompactionResult(planned.trigger, summaries, tuple(item.id for item in planned.older))


def _changed(made: Sequence[SummaryMemory], older: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return what a compaction writes, in its order.

    The first summary knows what is archived. It is written after its siblings and before the sources, so that where a
    crash can stop in between, the next run either starts over or has all it needs to finish.
    """
    return [*made[1:], made[0], *(archived_by(item, made[0].compaction) for item in older)]


def _new_summaries(
    answers: Sequence[TemplateAnswer], planned: CompactionPlan, derived_id: Callable[[str], str]
) -> list[SummaryMemory]:
    """Return the summaries to store, complete; the one that stands for everything that is archived comes first.

    Their ids are the same wherever they are made from the same items; ``derived_id`` is that of the store.
    """
    older = planned.older
    scope = _common_metadata(older)
    names = [answer.name for answer in answers]
    compaction = derived_id(_text_of(dump_metadata(scope), names, [[item.id, item.version] for item in older]))
    shown = [item for item in planned.live if isinstance(item, SummaryMemory)]
    left_behind = {item.id: item.version for item in shown if item.compaction == compaction}
    archived = {item.id for item in older}
    known = [item for item in shown if item.id not in left_behind and item.id not in archived]
    found = list(_found(answers, older, known)) or [_placeholder(names[0], older)]
    found.sort(key=lambda pair: pair[0].lasting)  # A key point stands for less than a summary of the whole does.
    moment, written = _moment(older, planned.turns), now_text()
    made = []
    for position, (item, identity) in enumerate(found):
        new_id = derived_id(_text_of(compaction, item.template, identity or position)) if position else compaction
        values = {
            "id": new_id,
            "metadata": scope,
            "created_at": moment,
            "updated_at": written,
            "version": left_behind.get(new_id, 0),
            "compaction": compaction,
            "archives": {} if position else {source.id: _mark(source) for source in older},
            "archived_by": None,
            "memory_type": "summary",
            "status": MemoryStatus.ACCEPTED,
        }
        made.append(item.model_copy(update=values))
    return made


def _found(
    answers: Sequence[TemplateAnswer], older: Sequence[MemoryItem], known: Sequence[SummaryMemory]
) -> Iterator[tuple[SummaryMemory, str | None]]:
    """Yield what the answers hold and the scope does not know yet, each with its identity."""
    sources = [item.id for item in older]
    for answer in answers:
        identify = answer.template.identity
        identities = {identify(item) for item in known if item.template == answer.name}
        for item in answer.items():
            identity = identify(item)
            if identity is not None and identity in identities:
                continue
            identities.add(identity)
            named = set(item.sources)
            # A template of a third party may say anything; only what was given is ever a source.
            own = [source for source in sources if source in named] or sources
            yield item.model_copy(update={"template": answer.name, "sources": own}), identity


def _placeholder(template: str, older: Sequence[MemoryItem]) -> tuple[SummaryMemory, None]:
    """Return what stands for sources in which no template found anything new."""
    content = f"Nothing new was found in {len(older)} earlier messages."
    sources = [item.id for item in older]
    return SummaryMemory(content=content, template=template, sources=sources, trust=lowest_trust(older)), None


def _moment(older: Sequence[MemoryItem], turns: Sequence[MemoryItem]) -> str:
    """Return a time that sorts a summary after its sources and before what follows them.

    It is the time of the last source. Where what follows has the same time, a summary that is added now would come
    behind it; the microsecond before is taken then.
    """
    last = older[-1]
    following = turns[next(position for position, item in enumerate(turns) if item is last) + 1 :]
    if not following or following[0].created_at > last.created_at:
        return last.created_at
    try:
        return utc_text(datetime.fromisoformat(following[0].created_at) - timedelta(microseconds=1))
    except OverflowError:
        return last.created_at


def _common_metadata(items: Sequence[MemoryItem]) -> MemoryMetadata:
    """Return what all items have in common; a filter that they all match, it matches too."""
    first = items[0].metadata
    fields: dict[str, Any] = {}
    for name in SCOPE_FIELDS:
        value = getattr(first, name)
        fields[name] = value if all(getattr(item.metadata, name) == value for item in items) else None
    extra = {
        key: value
        for key, value in first.extra.items()
        if all(key in item.metadata.extra and json_equal(value, item.metadata.extra[key]) for item in items)
    }
    return MemoryMetadata(**fields, namespace=_common_place(items), extra=extra)


def _common_place(items: Sequence[MemoryItem]) -> tuple[str, ...]:
    """Return the narrowest namespace that all items lie in or below."""
    places = [item.metadata.namespace for item in items]
    common = itertools.takewhile(lambda elements: len(set(elements)) == 1, zip(*places, strict=False))
    return tuple(elements[0] for elements in common)


def _mark(item: MemoryItem) -> str:
    """Return a hash of what an item says, for a field that an encrypted store seals."""
    return hashlib.sha256(_text_of(item.version, item.content).encode()).hexdigest()[:12]


def _text_of(*parts: Any) -> str:
    """Return a text that is the same wherever it is made from the same parts."""
    return json.dumps(parts, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
