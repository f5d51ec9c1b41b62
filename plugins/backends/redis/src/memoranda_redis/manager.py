"""The short-term memory of an agent: its interactions of the last hours, in Redis."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Self

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, utc_text
from memoranda.shapes import check_text, number, whole_number
from memoranda.store import Finding, Observer
from memoranda.store.backend import Observers, check_item
from memoranda_backend.batching import WriteBatcher
from memoranda_redis._address import DEFAULT_URL, Address
from memoranda_redis._connection import RedisConnection
from memoranda_redis._episodic_entries import ALL, READ, WRITE, examine_entries, recall
from memoranda_redis.episodic import EpisodicMemory, as_metadata, as_timezone, dump_entry, new_memory

DEFAULT_TTL_HOURS = 2.0
URL_VARIABLE = "MEMORANDA_REDIS_URL"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_SECOND = 2**33  # Beyond it, a score can no longer tell two microseconds apart.
_MICROSECOND = timedelta(microseconds=1)

_Entry = tuple[int, str, str, int]


class _Redact(Observer):
    """A plain function as an observer."""

    def __init__(self, change: Callable[[MemoryItem], MemoryItem]) -> None:
        self._change = change

    def before_add(self, item: MemoryItem) -> MemoryItem:
        return self._change(item)


def _observer(redact: Observer | Callable[[MemoryItem], MemoryItem] | str) -> Observer:
    if isinstance(redact, Observer):
        return redact
    if not isinstance(redact, str):
        return _Redact(redact)
    from memoranda.plugins import default_registry  # Plugins are loaded only when one is named.

    return default_registry().observer(redact)


class ShortTermMemoryManager:
    """An agent's interactions of the last hours, kept in Redis until they expire.

    Managers of different agents share a Redis without seeing each other. Every call connects if needed;
    :meth:`connect` only tells early if the server is missing. Many coroutines and event loops may use one manager.

    * ``redis_url`` is ``redis://``, ``rediss://`` (TLS), ``redis+cluster://`` or ``unix://``. Its query may hold the
      driver's options, such as ``ssl_ca_certs``.
    * ``redact`` may change an item before it is stored: an observer, the name of an installed one (``"redact"`` hashes
      e-mail addresses and phone numbers), or a function.
    * ``timezone`` is that of the summaries, by default UTC; a name such as ``"Europe/Berlin"`` works too.
    * ``timeout`` bounds every call with all its retries, in seconds (5 unless given).
    * At most ``max_connections`` (32) are open in each event loop; further callers wait. The URL may hold both options.

    Raises InputError, a ValueError, for an empty agent id and for a URL that cannot be read.
    """

    def __init__(
        self,
        redis_url: str = DEFAULT_URL,
        agent_id: str = "nova",
        *,
        redact: Observer | Callable[[MemoryItem], MemoryItem] | str | None = None,
        timezone: tzinfo | str = UTC,
        timeout: float | None = None,
        max_connections: int | None = None,
    ) -> None:
        if not check_text(agent_id, "agent_id"):
            raise InputError("agent_id must not be empty.", field="agent_id")
        self.agent_id = agent_id
        self.timezone = as_timezone(timezone)
        address = Address.of(redis_url)
        self._connection = RedisConnection(
            address, timeout=timeout, max_connections=max_connections, default_timeout=5.0
        )
        self._prefix = f"agent:{_tagged(agent_id) if address.cluster else agent_id}:episodic:"
        self._index = f"{self._prefix}index"
        self._observers = Observers()
        self._batcher: WriteBatcher[_Entry, str] = WriteBatcher(self._write)
        if redact is not None:
            self.observe(_observer(redact))

    def __repr__(self) -> str:
        return f"ShortTermMemoryManager({self._connection.address.display!r}, agent_id={self.agent_id!r})"

    def observe(self, observer: Observer) -> None:
        """Notify this observer of added and read items from now on; it may change items before they are stored."""
        self._observers.register(observer)

    async def connect(self) -> None:
        """Connect, and check that Redis answers. Calling it again does nothing.

        Raises StoreUnavailableError, a ConnectionError, within ``timeout`` seconds when the server is absent, silent,
        or refuses the user name or password.
        """
        await self._connection.connect()

    async def disconnect(self) -> None:
        """Wait for pending writes and close the connections of every event loop. The next call opens new ones."""
        await self._batcher.settled()
        await self._connection.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.disconnect()

    async def add_interaction(
        self,
        interaction_type: str,
        content: str,
        platform: str | None = None,
        metadata: dict[str, Any] | MemoryMetadata | None = None,
        ttl_hours: float | None = None,
        *,
        timestamp: datetime | str | None = None,
    ) -> EpisodicMemory:
        """Store an interaction and return it as it was stored; it expires after ``ttl_hours`` (2 unless given).

        Entry, index and expiry are written together or not at all. Its time is now, or ``timestamp``; if that
        microsecond is taken, the next free one, so that no interaction replaces another and those of one moment keep
        their order. A write whose answer is lost is repeated and stored once. Concurrent writes share a round trip.

        Raises InputError, a ValueError, for values that cannot be stored, an invalid timestamp, or a TTL that is not a
        positive number; StoreUnavailableError, a ConnectionError, when Redis cannot be reached in time.
        """
        lifetime = _milliseconds(DEFAULT_TTL_HOURS if ttl_hours is None else ttl_hours)
        moment = datetime.now(UTC) if timestamp is None else datetime.fromisoformat(_utc(timestamp))
        owner = as_metadata(metadata, self.agent_id)
        memory = new_memory(interaction_type, content, platform, owner, moment.isoformat(timespec="microseconds"))
        if self._observers:
            memory = self._redacted(memory)
        entry = (_microseconds(moment), *dump_entry(memory), lifetime)
        stored_at = await self._batcher.add(entry)
        memory.__dict__.update(created_at=stored_at, updated_at=stored_at, version=1)
        if self._observers:
            self._observers.added([memory])
        return memory

    async def get_recent(self, hours: float = 2.0, limit: int | None = None) -> list[EpisodicMemory]:
        """Return the interactions of the last ``hours``, newest first; at most ``limit``, all without one.

        The limit does not count expired entries, nor those that another program wrote and that cannot be read; the log
        names the latter. Takes one round trip for any number of entries, and more where one cannot be read.

        Raises InputError, a ValueError, for negative or non-finite hours and for a negative limit; CorruptEntryError,
        a ValueError too, for an entry with an invalid timestamp; StoreUnavailableError, a ConnectionError, when Redis
        cannot be reached in time.
        """
        window = number(hours, "hours") * 3600
        if limit is not None and whole_number(limit, "limit") == 0:
            return []
        since = max(time.time() - window, 0.0)
        memories = await recall(self._read, self.agent_id, since, ALL if limit is None else min(limit, ALL))
        if self._observers:
            self._observers.searched("", memories)
        return memories

    async def get_recent_summaries(
        self, hours: float = 2.0, limit: int | None = None, *, timezone: tzinfo | str | None = None
    ) -> list[str]:
        """Return the interactions of the last ``hours`` as lines for a prompt, newest first.

        A line is ``[HH:MM] type on platform: content``, without ``on …`` if there is no platform. Line ends within it
        become spaces, so that no content looks like another entry. Times are in ``timezone``, by default the manager's.
        Raises what :meth:`get_recent` raises.
        """
        zone = self.timezone if timezone is None else as_timezone(timezone)
        return [memory.summary(zone) for memory in await self.get_recent(hours, limit)]

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Return a finding on the entries of this agent that names the keys of those that cannot be read.

        Nothing is repaired, since an unreadable entry may belong to another program.
        """
        return [await examine_entries(self._read, self.agent_id)]

    async def _read(self, arguments: Sequence[Any]) -> Any:
        return await self._connection.run(READ, [self._index], arguments)

    def _redacted(self, memory: EpisodicMemory) -> EpisodicMemory:
        """Return the interaction as the observers changed it, checked."""
        changed = self._observers.before_add(memory)
        if not isinstance(changed, EpisodicMemory) or changed.metadata.agent_id != self.agent_id:
            raise InputError("An observer turned an interaction into something else; it was not stored.", field="item")
        check_item(changed)
        return changed

    async def _write(self, entries: list[_Entry]) -> list[str]:
        arguments: list[Any] = [self._prefix]
        for entry in entries:
            arguments.extend(entry)
        return [moment.decode() for moment in await self._connection.run(WRITE, [self._index], arguments)]


def _tagged(agent_id: str) -> str:
    """Return the agent id as a hash tag, which keeps the agent's keys in one slot, with its own braces escaped."""
    escaped = agent_id.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
    return f"{{{escaped}}}"


def _utc(timestamp: datetime | str) -> str:
    try:
        return utc_text(timestamp)
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError("timestamp must be a datetime or ISO-8601 text.", field="timestamp") from error


def _microseconds(moment: datetime) -> int:
    micros = (moment - _EPOCH) // _MICROSECOND
    if not 0 <= micros < _LAST_SECOND * 1_000_000:
        raise InputError("timestamp must lie between the years 1970 and 2242.", field="timestamp")
    return micros


def _milliseconds(hours: float) -> int:
    milliseconds = number(hours, "ttl_hours") * 3_600_000
    if not 0 < milliseconds < ALL:
        raise InputError(
            f"ttl_hours must be above 0 and below a quarter of a million years, not {hours!r}.", field="ttl_hours"
        )
    return max(1, round(milliseconds))


_shared: dict[tuple[str, str], ShortTermMemoryManager] = {}


def get_short_term_memory(redis_url: str | None = None, agent_id: str = "nova") -> ShortTermMemoryManager:
    """Return the shared manager of this agent, so that a program shares its connections.

    Without a URL, the environment's ``MEMORANDA_REDIS_URL`` is used, else ``redis://localhost:6379/0``.
    """
    url = redis_url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    return _shared.setdefault((url, agent_id), ShortTermMemoryManager(url, agent_id))
