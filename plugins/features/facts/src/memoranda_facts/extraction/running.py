"""Reading what has not been read yet, and applying what an extractor proposes.

Candidates are stored first and items are marked as read afterwards: a process that is killed between the two reads some
items again, which changes nothing, and loses none.

One small item for each owner and extractor, the mark, says what has been read: the last item, in the order of adding,
up to which all have, and those behind it that were read out of turn. Losing it costs a second reading, which changes
nothing: candidates have keys.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from inspect import signature
from itertools import groupby

from memoranda.errors import InputError, VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata, PayloadChanges
from memoranda.loops import LoopLock
from memoranda.store import Store
from memoranda.store.records import writing_records
from memoranda_facts.extraction.extractors import (
    Extraction,
    FactExtractor,
    Usage,
    Utterance,
    in_its_turn,
    is_confirmation,
    is_spoken,
    utterance,
)
from memoranda_facts.facts import Facts
from memoranda_facts.log import owner_handle
from memoranda_facts.records import FOLDER
from memoranda_facts.results import Candidate

MARK_TYPE = "fact-mark"
MARK_FORMAT = "memoranda-fact-mark/1"

_REMEMBERED = 16
"""How many of the last items are named: if some are purged, another still shows where to go on."""


@dataclass(slots=True)
class Mark:
    """What has been read: everything up to one of ``through``, latest first, except ``unread``; and ``done``."""

    through: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    version: int = 0

    def advance(self, item_ids: Iterable[str]) -> None:
        """Move the mark behind these items, given in the order of adding."""
        for item_id in item_ids:
            self.through.insert(0, item_id)
            self.done.discard(item_id)
        del self.through[_REMEMBERED:]


class Marks:
    """The mark of one extractor for one owner."""

    def __init__(self, store: Store, owner: MemoryMetadata, extractor: str) -> None:
        self._store = store
        self._named = json.dumps([owner.user_id, owner.agent_id, list(owner.namespace), extractor])
        self._metadata = MemoryMetadata(
            user_id=owner.user_id, agent_id=owner.agent_id, namespace=(*owner.namespace, FOLDER, "marks")
        )

    @property
    def _id(self) -> str:
        return f"{MARK_TYPE}-{self._store.derived_id(self._named)}"

    async def load(self) -> Mark:
        """Return the mark as it is stored; an empty one if there is none, or none that can be read."""
        item = await self._store.get(self._id)
        if item is None:
            return Mark()
        try:
            held = json.loads(item.payload or "")
            return Mark(list(held["through"]), set(held["unread"]), set(held["done"]), item.version)
        except (ValueError, TypeError, KeyError):
            return Mark(version=item.version)

    async def save(self, mark: Mark) -> None:
        """Store a mark. If another process has stored one meanwhile, what either has read counts as read."""
        while True:
            try:
                with writing_records(MARK_TYPE):
                    mark.version = (await self._store.update(self._item(mark))).version
                return
            except VersionConflictError:
                other = await self.load()
                mark.done |= other.done
                mark.version = other.version

    def _item(self, mark: Mark) -> MemoryItem:
        held = {"through": mark.through, "unread": sorted(mark.unread), "done": sorted(mark.done)}
        return MemoryItem(
            id=self._id,
            content="",
            memory_type=MARK_TYPE,
            metadata=self._metadata,
            version=mark.version,
            archived_by=self._id,  # No search shows it.
            payload=json.dumps(held, separators=(",", ":")),
            payload_format=MARK_FORMAT,
        )


_READ = ("human", "ai")
_REMEMBERED_SESSIONS = 1_000
_LOOKED_BACK = 16
"""How many of the newest items are looked at for the one before an utterance."""


@dataclass(slots=True)
class ExtractionReport:
    """What a run did: how many utterances it read, how many facts were proposed, and how many of those were new.

    ``rejected`` counts the proposals that were refused, by reason; ``unread`` the utterances that could not be read and
    will be tried again; ``changes`` are the ids of the changes, which :meth:`Facts.undo` takes.
    """

    read: int = 0
    proposed: int = 0
    applied: int = 0
    unread: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)
    changes: list[str] = field(default_factory=list)


Progress = Callable[[int, ExtractionReport], None]
"""Called after each batch with how many more utterances were read, and the report so far."""


class ExtractionRun:
    """Reads the utterances of one owner with one extractor."""

    def __init__(self, facts: Facts, extractor: FactExtractor) -> None:
        self.facts = facts
        self.extractor = extractor
        self._store, owner = owner_handle(facts.store)
        self._marks = Marks(self._store, owner, extractor.name)
        self.mark: Mark | None = None
        self._seen: PayloadChanges | None = None
        self._reading = LoopLock()
        self._times: dict[str | None, str] = {}

    async def waiting(self) -> int:
        """Return how many utterances have not been read, as far as the mark says."""
        mark = await self._marks.load()
        async with aclosing(self._unread(mark)) as unread:
            return sum([1 async for each, _ in unread if each is not None])

    async def run(self, progress: Progress | None = None) -> ExtractionReport:
        """Read everything that has not been read, oldest first, and return what came of it.

        The mark is stored after every batch, so that a run that is stopped goes on there the next time. Raises what the
        extractor raises; what was stored before stays.
        """
        report, mark = ExtractionReport(), await self._marks.load()
        batch, passed = list[Utterance](), list[str]()
        async with aclosing(self._unread(mark)) as unread:
            async for each, item_id in unread:
                passed.append(item_id)
                if each is not None:
                    batch.append(each)
                if len(batch) >= self.extractor.batch_size:
                    await self._step(batch, passed, mark, report, progress)
                    batch, passed = [], []
        if passed:
            await self._step(batch, passed, mark, report, progress)
        self.mark = mark
        return report

    async def read_on(self) -> ExtractionReport:
        """Like :meth:`run`, but where only a few items are new, look at those alone and not at all that were read."""
        async with self._reading.held():
            try:
                report = await self._read_news() if await self._has_news() else ExtractionReport()
            except BaseException:
                self._seen = None
                raise
            if report.unread:  # They are tried again the next time.
                self._seen = None
            return report

    async def _has_news(self) -> bool:
        """Return False if nothing was added or changed since the last time. A store that cannot tell is looked at."""
        before = self._seen
        if before is not None and before.state is None:
            return True
        changes = await self._store.payload_changes(before, memory_type=_READ, archived=None)
        self._seen = changes._replace(rows={})
        return before is None or changes.gone is None or bool(changes.rows)

    async def _read_news(self) -> ExtractionReport:
        report, mark = ExtractionReport(), await self._marks.load()
        newest = await self._store.search(memory_type=_READ, limit=_LOOKED_BACK, order="added", archived=None)
        if newest and newest[0].id in mark.through[:1] and not mark.unread:
            return report
        places = [place for place, item in enumerate(newest) if item.id in mark.through]
        if not places or mark.unread:
            return await self.run()
        new = newest[: places[0]][::-1]
        last = {item.metadata.session_id: item for item in reversed(newest[places[0] :])}
        times = {session: item.created_at for session, item in last.items()}
        batch = list[Utterance]()
        for each in new:
            item = in_its_turn(each, times)
            if is_spoken(item) and item.id not in mark.done:
                batch.append(utterance(item, last.get(item.metadata.session_id)))
            last[item.metadata.session_id] = item
        await self._step(batch, [item.id for item in new], mark, report, None)
        return report

    async def read(self, items: Sequence[MemoryItem]) -> ExtractionReport:
        """Read some items that were just added, after a :meth:`run`; :meth:`save` marks them as read."""
        report = ExtractionReport()
        mark = self.mark = self.mark or await self._marks.load()
        if len(self._times) > _REMEMBERED_SESSIONS:
            self._times.clear()
        spoken = [item for item in [in_its_turn(each, self._times) for each in items] if is_spoken(item)]
        said = [utterance(item, await self._before(item)) for item in spoken]
        unread = await self._read(said, report)
        mark.done |= {each.item.id for each in said} - unread
        mark.unread |= unread
        return report

    async def save(self) -> None:
        """Store which items have been read."""
        if self.mark is not None:
            await self._marks.save(self.mark)

    async def is_complete(self) -> bool:
        """Return True if a run would find nothing to read; it looks at two items, not at all of them."""
        mark = await self._marks.load()
        newest = await self._store.search(memory_type=_READ, limit=1, order="added", archived=None)
        return not newest or (newest[0].id in mark.through[:1] and not mark.unread)

    async def _step(
        self,
        batch: Sequence[Utterance],
        passed: Sequence[str],
        mark: Mark,
        report: ExtractionReport,
        progress: Progress | None,
    ) -> None:
        unread = await self._read(batch, report)
        mark.unread = (mark.unread - {each.item.id for each in batch}) | unread
        mark.advance(passed)
        await self._marks.save(mark)
        if progress is not None:
            progress(len(batch), report)

    async def _read(self, said: Sequence[Utterance], report: ExtractionReport) -> set[str]:
        if not said:
            return set()
        found = await self._extract(said)
        report.read += len(said) - len(found.unread)
        report.unread += len(found.unread)
        report.proposed += len(found.candidates)
        report.rejected.update(found.rejected)
        report.usage.add(found.usage)
        for _, proposed in groupby(found.candidates, key=lambda each: each.sources[0].item_id):
            await self._apply(list(proposed), report)
        return found.unread

    async def _extract(self, said: Sequence[Utterance]) -> Extraction:
        """Extract with what holds before, unless the extractor does not take that."""
        if "known" not in signature(self.extractor.extract).parameters:
            return await self.extractor.extract(said)
        return await self.extractor.extract(said, known=await self.facts.current())

    async def _apply(self, proposed: Sequence[Candidate], report: ExtractionReport) -> None:
        """Apply the candidates of one item as one change; if one of them is refused, the others each by itself."""
        try:
            receipt = await self.facts.apply(proposed)
        except InputError:
            if len(proposed) > 1:
                for each in proposed:
                    await self._apply([each], report)
            else:
                report.rejected["refused by the schema or without its source"] += 1
            return
        if receipt.new:
            report.applied += len(receipt.entries)
            report.changes.append(receipt.id)

    async def _unread(self, mark: Mark) -> AsyncGenerator[tuple[Utterance | None, str], None]:
        """Yield each utterance that has not been read, and the id of every item behind the mark, as they were added."""
        there = {item.id for item in await self._store.get_many(mark.through)}
        start = next((item_id for item_id in mark.through if item_id in there), None)
        last: dict[str | None, MemoryItem] = {}
        self._times.clear()
        async with aclosing(self._store.scan(memory_type=_READ, order="added")) as items:
            async for each in items:
                item = in_its_turn(each, self._times)
                before = last.get(item.metadata.session_id)
                last[item.metadata.session_id] = item
                behind = start is None
                if item.id == start:
                    start = None
                wanted = (behind and item.id not in mark.done) or item.id in mark.unread
                if wanted and is_spoken(item):
                    yield utterance(item, before), item.id
                elif behind:
                    yield None, item.id

    async def _before(self, item: MemoryItem) -> MemoryItem | None:
        """Return the item before an utterance in its conversation, if it is one that agrees; only that needs it."""
        if not is_confirmation(item.content):
            return None
        session = item.metadata.session_id
        latest = await self._store.search(
            metadata=None if session is None else MemoryMetadata(session_id=session),
            memory_type=_READ,
            limit=_LOOKED_BACK,
            order="added",
        )
        conversation = [each for each in latest if each.metadata.session_id == session]
        ids = [each.id for each in conversation]
        behind = conversation[ids.index(item.id) + 1 :] if item.id in ids else []
        return behind[0] if behind else None
