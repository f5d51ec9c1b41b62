"""Writers on every call path, a history of their calls, and a checker that knows what each call promised.

Let :class:`Writers` run while servers are killed, paused and cut off, then compare the history with what is stored::

    writers = Writers([store, other_store])
    async with writers.at_work():
        ...  # break things
    assert await broken_promises(writers.history, store) == []

What a call promises: one that returned has been done, once, and stays; one that raised StoreUnavailableError was done
once or not at all, and as a whole; one that raised VersionConflictError was not done. Any other error is a broken
promise in itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from memoranda.errors import StoreUnavailableError, VersionConflictError
from memoranda.items import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda_summary import SummaryConfig, compact

Outcome = Literal["done", "unknown", "refused", "wrong"]

_CONFIG = SummaryConfig(message_threshold=5, keep_recent=2, templates=("brief",), prompts={"brief": "In short."})
_TURNS = 6
_BATCHES = (7, 80)
_COUNTERS = 2


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what it was about, what was written, how it ended, and when, in seconds since the history began."""

    path: str
    key: str
    outcome: Outcome
    began: float
    ended: float
    detail: str = ""
    ids: tuple[str, ...] = ()


@dataclass
class History:
    """Every call in the order in which they ended, and what was done to the servers meanwhile."""

    calls: list[Call] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    _start: float = field(default_factory=time.monotonic)

    def now(self) -> float:
        """Return the seconds since the history began."""
        return time.monotonic() - self._start

    def event(self, what: str) -> float:
        """Note something that was done to the servers, and return when."""
        moment = self.now()
        self.events.append((moment, what))
        return moment

    def of(self, path: str) -> dict[str, list[Call]]:
        """Return the calls of a path by their keys."""
        found: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            if call.path == path:
                found[call.key].append(call)
        return found

    def first_done(self, after: float) -> float | None:
        """Return when the first call ended well that began after this moment."""
        return min((call.ended for call in self.calls if call.began >= after and call.outcome == "done"), default=None)

    def counts(self) -> dict[str, Counter[str]]:
        """Return how many calls of each path ended in which way."""
        counted: dict[str, Counter[str]] = defaultdict(Counter)
        for call in self.calls:
            counted[call.path][call.outcome] += 1
        return dict(counted)

    def lines(self) -> Iterable[str]:
        """Yield all of it as JSON, one line each, by time."""
        lines = [(call.ended, asdict(call)) for call in self.calls]
        lines += [(moment, {"event": what, "at": moment}) for moment, what in self.events]
        return (json.dumps(line) for _, line in sorted(lines, key=lambda pair: pair[0]))


class _Brief:
    """A model that answers at once."""

    async def summarize(self, prompt: str) -> str:
        """Return the same answer always."""
        return "They talked."


class Writers:
    """Coroutines that write through every call path of the stores they are given, and record how each call ended.

    ``pause`` is how long each rests between calls. ``name`` keeps the ids of several writers of one store apart; the
    counters, which all of them raise by compare-and-set, are shared.
    """

    def __init__(self, stores: Sequence[Store], *, name: str = "w", pause: float = 0.01) -> None:
        self.history = History()
        self._stores = stores
        self._name = name
        self._pause = pause
        self._ended = False
        self._numbers: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None, None]:
        """Write for as long as the block lasts, and let every call that has begun end."""
        paths: list[Callable[[Store], Awaitable[None]]] = [
            self._add, self._add_many, self._update, self._compact, self._forget,
        ]  # fmt: skip
        tasks = [asyncio.create_task(self._repeat(path, store)) for store in self._stores for path in paths]
        try:
            yield
        finally:
            self._ended = True
            await asyncio.gather(*tasks)

    async def _repeat(self, path: Callable[[Store], Awaitable[None]], store: Store) -> None:
        while not self._ended:
            await path(store)
            await asyncio.sleep(self._pause)

    def _new(self, path: str) -> str:
        self._numbers[path] += 1
        return f"{path}-{self._name}-{self._numbers[path]}"

    async def _call(
        self, path: str, key: str, work: Awaitable[Any], detail: str = "", ids: tuple[str, ...] = ()
    ) -> tuple[Outcome, Any]:
        """Await a call and note how it ended."""
        began = self.history.now()
        outcome: Outcome = "done"
        answer = None
        try:
            answer = await work
        except StoreUnavailableError:
            outcome = "unknown"
        except VersionConflictError:
            outcome = "refused"
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what the checker is there to find
            outcome, detail = "wrong", f"{type(error).__module__}.{type(error).__name__}: {error}"
        self.history.calls.append(Call(path, key, outcome, began, self.history.now(), detail, ids))
        return outcome, answer

    async def _add(self, store: Store) -> None:
        """Add an item, and then once more, which is its next version."""
        key = self._new("add")
        for content in ("first", "second"):
            item = HumanMemory(id=key, content=content, metadata=MemoryMetadata(user_id="adds"))
            await self._call("add", key, store.add(item), content)

    async def _add_many(self, store: Store) -> None:
        key = self._new("add_many")
        size = _BATCHES[self._numbers["add_many"] % len(_BATCHES)]
        scope = MemoryMetadata(user_id="batches", session_id=key)
        items = [HumanMemory(id=f"{key}.{number}", content="x", metadata=scope) for number in range(size)]
        await self._call("add_many", key, store.add_many(items), ids=tuple(item.id for item in items))

    async def _update(self, store: Store) -> None:
        """Raise a counter that others raise as well."""
        key = f"counter-{self._numbers['update'] % _COUNTERS}"
        self._numbers["update"] += 1

        async def raised() -> None:
            there = await store.get(key)
            if there is None:
                there = HumanMemory(id=key, content="0", metadata=MemoryMetadata(user_id="counters"))
            await store.update(there.model_copy(update={"content": str(int(there.content) + 1)}))

        await self._call("update", key, raised())

    async def _compact(self, store: Store) -> None:
        """Compact a conversation, and again until it is known to be done."""
        key = self._new("compact")
        scope = MemoryMetadata(user_id="compactions", session_id=key)
        items = [
            HumanMemory(id=f"{key}.{number}", content=f"turn {number}", metadata=scope) for number in range(_TURNS)
        ]
        ids = tuple(item.id for item in items)
        outcome, _ = await self._call("prepare", key, store.add_many(items), ids=ids)
        while outcome in ("unknown", "done"):
            work = compact(store, scope, _CONFIG, _Brief())
            outcome, _ = await self._call("compact", key, work, ids=ids)
            if outcome == "done" or self._ended:
                return

    async def _forget(self, store: Store) -> None:
        """Purge a user, and again until it is known to be done."""
        key = self._new("forget")
        scope = MemoryMetadata(user_id=key)
        items = [HumanMemory(id=f"{key}.{number}", content="secret", metadata=scope) for number in range(5)]
        ids = tuple(item.id for item in items)
        outcome, _ = await self._call("prepare", key, store.add_many(items), ids=ids)
        while outcome in ("unknown", "done"):
            outcome, purged = await self._call("forget", key, store.purge(metadata=scope), ids=ids)
            if outcome == "done" and purged not in (0, len(items)):
                self.history.calls[-1] = _wrong(self.history.calls[-1], f"it counted {purged} of {len(items)}")
            if outcome == "done" or self._ended:
                return


def _wrong(call: Call, why: str) -> Call:
    return Call(call.path, call.key, "wrong", call.began, call.ended, why, call.ids)


async def broken_promises(history: History, store: Store) -> list[str]:
    """Return a sentence for each call of the history that what is in the store contradicts."""
    there = {item.id: item async for item in store.scan(include_deleted=True)}
    summaries = Counter(item.metadata.session_id for item in there.values() if item.memory_type == "summary")
    broken = [f"{call.path} {call.key}: {call.detail}" for call in history.calls if call.outcome == "wrong"]
    for key, calls in history.of("add").items():
        broken += _added(key, calls, there)
    for key, calls in history.of("add_many").items():
        broken += _all_or_none(f"add_many {key}", calls[0], there)
    for key, calls in history.of("update").items():
        broken += _raised(key, calls, there)
    compactions, removals = history.of("compact"), history.of("forget")
    for key, (call, *_) in history.of("prepare").items():
        if key in removals:
            tried = removals[key]
            broken += [f"{each}{_told([call, *tried])}" for each in _removed(key, call, tried, there)]
        else:
            broken += _all_or_none(f"add_many {key}", call, there)
            tried = compactions.get(key, [])
            broken += [f"{each}{_told([call, *tried])}" for each in _compacted(key, call, tried, there, summaries[key])]
    return broken


def _told(calls: Sequence[Call]) -> str:
    """Return how calls ended one after the other, and when, for whoever looks for the reason."""
    ended = (f"{call.path} {call.outcome} {call.began:.2f} to {call.ended:.2f}" for call in calls)
    return f" ({', '.join(ended)})"


def _ways(calls: Sequence[Call]) -> tuple[int, int]:
    """Return how often the calls were done at least and at most."""
    done = sum(call.outcome == "done" for call in calls)
    return done, done + sum(call.outcome == "unknown" for call in calls)


def _added(key: str, calls: Sequence[Call], there: Mapping[str, MemoryItem]) -> list[str]:
    least, most = _ways(calls)
    version = there[key].version if key in there else 0
    if not least <= version <= most:
        return [f"add {key}: it was done {least} to {most} times and is at version {version}"]
    last_done = max((at for at, call in enumerate(calls) if call.outcome == "done"), default=None)
    # What was not answered may have been done, also after what came later.
    possible = {call.detail for call in calls if call.outcome == "unknown"}
    if last_done is not None:
        possible.add(calls[last_done].detail)
    if version and there[key].content not in possible:
        return [f"add {key}: it holds what was replaced, {there[key].content!r}"]
    return []


def _all_or_none(what: str, call: Call, there: Mapping[str, MemoryItem]) -> list[str]:
    found = [there[item_id] for item_id in call.ids if item_id in there]
    if len(found) not in (0, len(call.ids)):
        return [f"{what}: {len(found)} of {len(call.ids)} items are there"]
    if call.outcome == "done" and not found:
        return [f"{what}: it was done, and nothing is there"]
    if call.path == "add_many" and any(item.version != 1 for item in found):
        return [f"{what}: it was done twice"]
    return []


def _raised(key: str, calls: Sequence[Call], there: Mapping[str, MemoryItem]) -> list[str]:
    least, most = _ways(calls)
    count = int(there[key].content) if key in there else 0
    version = there[key].version if key in there else 0
    if not least <= count <= most or version != count:
        return [f"update {key}: it was raised {least} to {most} times, is at {count} and has version {version}"]
    return []


def _compacted(
    key: str, prepared: Call, calls: Sequence[Call], there: Mapping[str, MemoryItem], summaries: int
) -> list[str]:
    if not calls:
        return []
    archived = sum(there[item_id].archived_by is not None for item_id in calls[0].ids if item_id in there)
    if (summaries, archived) not in ((0, 0), (1, _TURNS - _CONFIG.keep_recent)):
        return [f"compact {key}: there are {summaries} summaries and {archived} archived items"]
    # What was not answered may have been done, also after the compaction found nothing to do.
    is_prepared = prepared.outcome == "done" and any(item_id in there for item_id in calls[0].ids)
    if calls[-1].outcome == "done" and is_prepared and not summaries:
        return [f"compact {key}: it was done, and there is no summary"]
    return []


def _removed(key: str, prepared: Call, calls: Sequence[Call], there: Mapping[str, MemoryItem]) -> list[str]:
    left = sum(item_id in there for item_id in calls[0].ids)
    if calls[-1].outcome == "done" and left and prepared.outcome == "done":
        return [f"forget {key}: it was done, and {left} items are there"]
    if left not in (0, len(calls[0].ids)):
        return [f"forget {key}: {left} of {len(calls[0].ids)} items are left"]
    return []
