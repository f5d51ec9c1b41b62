"""The observers: one extracts facts while a program runs; the other tells every prompt what is known of its user."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Any, NamedTuple, Self

from memoranda.errors import InputError, PluginLoadError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Observer, Store
from memoranda.store.owners import is_reserved, space_of
from memoranda.tokens import TokenCounter
from memoranda.trust import Trust, check_trust
from memoranda_facts.extraction.extractors import FactExtractor, installed_extractor, is_spoken
from memoranda_facts.extraction.rule_table import everyday_schema
from memoranda_facts.extraction.running import ExtractionReport, ExtractionRun
from memoranda_facts.facts import Facts
from memoranda_facts.profile_lines import Outdated
from memoranda_facts.schema import Schema
from memoranda_facts.values import Moment

logger = logging.getLogger(__name__)

_SAVED_EVERY = 32
"""After how many items the mark of a user is stored, if there is no pause before."""

_COLLAPSED_AT = 500
"""How many items a mark names one by one before the owner is looked through and the mark is moved."""

_KEPT_USERS = 256
"""How many users are remembered; of any other, the mark is read again when they speak."""


class BackgroundExtraction(Observer):
    """Extracts facts from every item that is added to a store, without holding up the add.

    Use it with ``async with``, around the part of a program that adds items:

    - The facts of an item belong to its user. Items without a user are not read.
    - ``queue_size`` bounds what is waiting. What does not fit is not lost: its owner is looked through later.
    - Nothing is lost when the process is killed: items that were not marked as read are found when it is started again,
      with ``catch_up`` at once, otherwise when something is added for their user.
    - A failure is logged without any content and tried again with the next item of that user; see :attr:`failures`.
    """

    def __init__(
        self,
        store: Store,
        extractor: FactExtractor,
        *,
        schema: Schema | None = None,
        queue_size: int = 1000,
        catch_up: bool = True,
    ) -> None:
        if queue_size < 1:
            raise InputError("queue_size is at least 1.", field="queue_size")
        self.failures: Counter[str] = Counter()
        self.report = ExtractionReport()
        self._store, self._extractor, self._schema = store, extractor, schema
        self._catch_up = catch_up
        self._queue: asyncio.Queue[MemoryItem] = asyncio.Queue(queue_size)
        self._behind: dict[str, None] = {}
        self._runs: dict[str, ExtractionRun] = {}
        self._unsaved: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        if self._catch_up:
            async with aclosing(self._store.owners("user_id", counts=False)) as owners:
                async for owner in owners:
                    if not is_reserved(str(owner.value)):
                        self._behind[str(owner.value)] = None
        self._store.observe(self)
        self._wake.set()
        self._worker = self._loop.create_task(self._work())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Read what is waiting, and stop."""
        if self._worker is not None:
            await self.drain()
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker
            self._worker = None

    async def drain(self) -> None:
        """Wait until everything that was added so far has been read, or has failed."""
        await asyncio.sleep(0)  # What another thread has added arrives.
        await self._idle.wait()

    def gauges(self) -> dict[str, int]:
        """Return the backlog for telemetry: queued items, and users to scan."""
        return {"extraction.backlog": self._queue.qsize() + len(self._behind)}

    def added(self, items: Sequence[MemoryItem]) -> None:
        """Queue what people said, but for what they said in spaces: nobody speaks as the owner of one."""
        spoken = [
            item for item in items if is_spoken(item) and item.metadata.user_id is not None and space_of(item) is None
        ]
        if not spoken or self._loop is None or self._worker is None:
            return
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._take(spoken)
        else:
            self._loop.call_soon_threadsafe(self._take, spoken)

    def _take(self, items: Sequence[MemoryItem]) -> None:
        self._idle.clear()
        for item in items:
            if self._queue.full():
                self._behind[str(item.metadata.user_id)] = None
            else:
                self._queue.put_nowait(item)
        self._wake.set()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._behind or not self._queue.empty():
                await self._next()
            for user in list(self._unsaved):
                await self._guarded(user, self._save(user))
            for user in list(self._runs)[:-_KEPT_USERS]:
                del self._runs[user]
            if not self._behind and self._queue.empty():
                self._idle.set()

    async def _next(self) -> None:
        if self._behind:
            user = next(iter(self._behind))
            del self._behind[user]
            await self._guarded(user, self._look_through(user))
            return
        first = self._queue.get_nowait()
        user = str(first.metadata.user_id)
        if user not in self._runs:
            self._behind[user] = None  # The first that is heard of them: there may be more from before.
        else:
            more = self._queued(user, self._extractor.batch_size - 1)
            await self._guarded(user, self._read(user, [first, *more]))

    def _queued(self, user: str, most: int) -> list[MemoryItem]:
        taken: list[MemoryItem] = []
        for _ in range(self._queue.qsize()):
            item = self._queue.get_nowait()
            if item.metadata.user_id == user and len(taken) < most:
                taken.append(item)
            else:
                self._queue.put_nowait(item)
        return taken

    async def _look_through(self, user: str) -> None:
        run = self._runs.get(user) or ExtractionRun(
            Facts(self._store.scoped(user_id=user), schema=self._schema), self._extractor
        )
        if user not in self._runs and await run.is_complete():
            self._runs[user] = run
            return
        self._queued(user, self._queue.qsize())  # They are among what is looked through.
        self._note(await run.run())
        self._runs[user] = run
        del self._unsaved[user]

    async def _read(self, user: str, items: Sequence[MemoryItem]) -> None:
        run = self._runs[user]
        self._note(await run.read(items))
        self._unsaved[user] += len(items)
        if run.mark is not None and len(run.mark.done) > _COLLAPSED_AT:
            await run.save()
            await self._look_through(user)
        elif self._unsaved[user] >= _SAVED_EVERY:
            await self._save(user)

    async def _save(self, user: str) -> None:
        await self._runs[user].save()
        del self._unsaved[user]

    def _note(self, report: ExtractionReport) -> None:
        total = self.report
        total.read += report.read
        total.proposed += report.proposed
        total.applied += report.applied
        total.unread += report.unread
        total.rejected.update(report.rejected)
        total.usage.add(report.usage)

    async def _guarded(self, user: str, work: object) -> None:
        """Do some work for a user; if it fails, forget the user's state, so that the user is scanned again."""
        try:
            await work  # type: ignore[misc]  # it is a coroutine
        except Exception as error:  # One user's failure must not stop the others.
            self.failures[type(error).__name__] += 1
            self._runs.pop(user, None)
            del self._unsaved[user]
            logger.error("Facts could not be extracted: %s. They are tried again.", type(error).__name__)
            logger.debug("What was raised:", exc_info=error)


STORED = "stored"
"""The name that stands for no extractor."""


class KnownFacts(Observer):
    """Answers what is known of a user, and which items say what holds no longer.

    ``value`` is the name of an installed extractor, or an extractor. It reads what was added when somebody asks, so
    that an add waits for nothing and an answer lacks nothing. ``"stored"`` reads nothing: it answers with the facts
    that are there, set by hand or extracted elsewhere. Only what users said themselves counts: what tools, assistants
    or strangers said is recorded with their trust and never among the answers. Of a space nothing is known:
    nobody there speaks as its owner.
    """

    only_removals = True

    def __init__(self, value: str | FactExtractor = "rules") -> None:
        self._extractor = None if value == STORED else _extractor(value)
        self._schema = everyday_schema()
        self._kept: OrderedDict[MemoryMetadata, _Reading] = OrderedDict()

    async def known(
        self,
        handle: Store,
        owner: MemoryMetadata | None,
        *,
        tokens: int,
        counter: TokenCounter | None = None,
        min_trust: str | None = None,
        at: Moment | None = None,
    ) -> list[str]:
        """Return what holds of the owner as lines; see :meth:`memoranda_facts.Facts.profile_lines`."""
        facts = await self._facts(handle, owner)
        if facts is None or not tokens:
            return []
        return await facts.profile_lines(tokens=tokens, counter=counter, min_trust=_least(min_trust), at=at)

    async def outdated(
        self,
        handle: Store,
        owner: MemoryMetadata | None,
        ids: Iterable[str],
        *,
        min_trust: str | None = None,
        at: Moment | None = None,
    ) -> dict[str, str]:
        """Return remarks on the items that say what holds no longer; see :meth:`memoranda_facts.Facts.outdated`."""
        facts = await self._facts(handle, owner)
        if facts is None:
            return {}
        found = await facts.outdated(ids, min_trust=_least(min_trust), at=at)
        return {item_id: _joined(remarks) for item_id, remarks in found.items()}

    async def _facts(self, handle: Store, owner: MemoryMetadata | None) -> Facts | None:
        """Return the facts of a user after reading what was added since; None where there is no user, as in a space."""
        if owner is None or owner.user_id is None or space_of(owner) is not None:
            return None
        facts, run = self._reading_of(handle, owner)
        if handle.access == "read" or run is None:
            return facts
        try:
            await run.read_on()
        except Exception as error:  # A prompt without the newest facts is better than none.
            logger.error("Facts could not be extracted: %s. They are tried again.", type(error).__name__)
            logger.debug("What was raised:", exc_info=error)
        return facts

    def _reading_of(self, handle: Store, owner: MemoryMetadata) -> _Reading:
        theirs = MemoryMetadata(user_id=owner.user_id, agent_id=owner.agent_id, namespace=owner.namespace)
        reading = self._kept.get(theirs)
        if reading is None:
            facts = _FactsAsRead(_owned(handle, theirs), schema=self._schema)
            run = None if self._extractor is None else ExtractionRun(facts, self._extractor)
            reading = self._kept[theirs] = _Reading(facts, run)
            if len(self._kept) > _KEPT_USERS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(theirs)
        return reading


class _Reading(NamedTuple):
    """The facts of a user, and what reads on for them, if anything does."""

    facts: Facts
    run: ExtractionRun | None


class _FactsAsRead(Facts):
    """The facts that an observer keeps: reading them asks no observer, which would ask itself."""

    async def _before_reading(self) -> None:
        await self.settle()


def _joined(remarks: Sequence[Outdated]) -> str:
    """Return the remarks on one item. They say what they are about where it says more than that."""
    is_all_it_says = len(remarks) == 1 and not remarks[0].is_part
    texts = [str(each) if is_all_it_says else each.named for each in remarks]
    return "; ".join(dict.fromkeys(texts))


def _extractor(value: object) -> FactExtractor:
    if isinstance(value, FactExtractor):
        return value
    if not isinstance(value, str):
        raise InputError(f"facts is the name of a fact extractor or one, not {type(value).__name__}.", field="facts")
    try:
        return installed_extractor(value)
    except PluginLoadError as error:
        if not isinstance(error.__cause__, TypeError):
            raise
        raise InputError(
            f"The fact extractor {value!r} needs options: make one, and give it as facts=… instead of its name.",
            field="facts",
        ) from None


def _owned(handle: Store, owner: MemoryMetadata) -> Store:
    """Return a handle of an owner that writes facts with the trust of their sources, whatever the given one stamps."""
    store: Store = handle.root
    scope: dict[str, Any] = {"user_id": owner.user_id, "agent_id": owner.agent_id, "namespace": owner.namespace or None}
    return store.scoped(**{name: value for name, value in scope.items() if value is not None})


def _least(min_trust: str | None) -> Trust:
    """Return how far a source is trusted at least: as the user, or further if that is asked for."""
    return Trust.USER if min_trust is None else max(Trust.USER, check_trust(min_trust, "min_trust"))
