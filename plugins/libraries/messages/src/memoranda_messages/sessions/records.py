"""What a framework keeps beside messages: its sessions, its state, its agents.

A record is an item without content whose payload is JSON. It is archived from birth, so that no window, search or
recall shows it; export and forget reach it like any other item of its owner. Its id is derived from its kind, its name
and what the handle is bound to, so that of two processes that create the same record, one is refused.

Only :func:`write_records` stores a record: every other write of one is refused. A handle with a trust has records of
its own, under other ids and in another place, so that what a stranger keeps is never taken for a user's.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from memoranda.errors import CorruptStoreError, InputError, TurnConflictError, VersionConflictError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, now_text
from memoranda.store import EVERYTHING, Capability, Store
from memoranda.store.records import writing_records
from memoranda_messages.payload_json import decode_payload, encode_payload

_DIGITS = 64
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


class DerivedIds:
    """The ids of what is stored through one handle: equal names have equal ids, and every owner has other ones.

    Two users who store something under the same name have two items, so an id also depends on the ids that the handle
    is bound to. Its namespace is not among them: give it as a part. An id is a digest, since names may be longer; in an
    encrypted store it is made with a key, so that it confirms no guess of a name or of an owner.
    """

    def __init__(self, store: Store, *framework: str) -> None:
        bounds = store.bounds or MemoryMetadata()
        self._derived_id = store.derived_id
        self._bound = _encode([*framework, *(getattr(bounds, name) for name in SCOPE_FIELDS)])

    def id_of(self, *parts: str | int | tuple[str, ...]) -> str:
        """Return the id of what these parts name."""
        return self._derived_id(self._bound + _encode(parts), digits=_DIGITS)


T = TypeVar("T")

ATTEMPTS = 50
_LONGEST_PAUSE = 0.05


async def finished(change: Coroutine[Any, Any, T]) -> T:
    """Return the result of a change. If the caller is cancelled meanwhile, this is raised once the change is done.

    A runner that is cancelled therefore knows that its last write has finished or failed, and never both.
    """
    task = asyncio.ensure_future(change)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # Marks it as retrieved: the caller gets the cancellation instead.
        raise cancelled
    return task.result()


async def retry_conflicts(change: Callable[[], Awaitable[T]], attempts: int = ATTEMPTS) -> T:
    """Return the result of a change that reads, decides and writes; it is called again if another process came first.

    Another process came first if the change raises VersionConflictError or TurnConflictError. After the last attempt
    the error is raised.
    """
    for attempt in range(1, attempts):
        try:
            return await change()
        except (VersionConflictError, TurnConflictError):
            await asyncio.sleep(random.random() * min(0.001 * 2**attempt, _LONGEST_PAUSE))
    return await change()


async def replaced(store: Store, gone: Sequence[str], items: Sequence[MemoryItem] = ()) -> None:
    """Remove the items of these ids, for good if the store can, and store others instead, all or none.

    Those that have the id of a stored item keep its place in the order.
    """
    purge = Capability.PURGE in store.capabilities
    await finished(store.apply(adds=items, deletes=gone, keep_created=True, purge=purge))


RECORD = "session.record"
"""The ``memory_type`` of records."""

_PLACE = "sessions"


@dataclass(frozen=True, slots=True)
class Record:
    """A stored record: ``value`` is its JSON, ``version`` what a later write names to replace this very state."""

    kind: str
    name: str
    value: Any
    version: int
    updated_at: str
    extra: Mapping[str, Any]


class Records:
    """The records of one framework: ``Records(store.scoped(user_id="ada"), "adk")``.

    A record is stamped with what the handle is bound to: bind a handle to a user to have that user's records.
    """

    def __init__(self, store: Store, framework: str) -> None:
        bounds = store.bounds or MemoryMetadata()
        self._store = store.own
        self._bounds = bounds
        self._framework = framework
        self._ids = DerivedIds(store, framework)
        # A handle with a trust is not believed by the others, so its records lie apart from theirs.
        trust = getattr(store, "trust", None)
        self._apart = () if trust is None else (str(trust),)
        self._top = (*bounds.namespace, _PLACE, framework, *self._apart)

    def id_of(self, kind: str, name: str) -> str:
        """Return the item id of a record."""
        return self._ids.id_of(kind, name, self._bounds.namespace, *self._apart)

    def place(self, kind: str) -> MemoryMetadata:
        """Return the namespace of the records of a kind."""
        return MemoryMetadata(namespace=(*self._top, kind))

    def item(
        self,
        kind: str,
        name: str,
        value: Any,
        *,
        version: int = 0,
        extra: Mapping[str, Any] | None = None,
        updated_at: str | None = None,
    ) -> MemoryItem:
        """Return a record as the item that replaces the one of this version; 0 stands for a record that is new.

        Give it to :meth:`Conversation.append` to write it together with messages, or to :func:`write_records` with
        other items, all or none. ``extra`` are values to search by (see :meth:`list`). Times are now unless
        ``updated_at`` is given.
        """
        own = self.id_of(kind, name)
        moment = updated_at or now_text()
        return MemoryItem(
            id=own,
            content="",
            memory_type=RECORD,
            metadata=self._bounds.model_copy(
                update={
                    "namespace": self.place(kind).namespace,
                    "extra": {**(extra or {}), "record": _ascii(name)},
                }
            ),
            created_at=moment,
            updated_at=moment,
            version=version,
            archived_by=own,
            payload=encode_payload({"name": name, "value": value}),
            payload_format=f"{self._framework}.{kind}",
        )

    def record(self, item: MemoryItem) -> Record:
        """Return the record that an item holds. Raises CorruptStoreError if it holds none, or is not of its type."""
        _check_type(item)
        try:
            held = decode_payload(item.payload or "")
            name, value = held["name"], held["value"]
        except (InputError, KeyError, TypeError) as error:
            raise CorruptStoreError(f"The stored item {item.id!r} cannot be read as a record.") from error
        extra = {key: each for key, each in item.metadata.extra.items() if key != "record"}
        return Record(item.metadata.namespace[-1], name, value, item.version, item.updated_at, extra)

    async def find(self, kind: str, name: str) -> MemoryItem | None:
        """Return the item of a record, or None if there is none.

        Raises CorruptStoreError if the item in its place is no record. It is neither believed nor overwritten.
        """
        item = await self._store.get(self.id_of(kind, name))
        if item is not None:
            _check_type(item)
        return item

    async def get(self, kind: str, name: str) -> Record | None:
        """Return a record, or None if there is none. Raises CorruptStoreError like :meth:`find`."""
        item = await self.find(kind, name)
        return None if item is None else self.record(item)

    async def list(
        self,
        kind: str,
        *,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Record]:
        """Return the records of a kind, the latest ``updated_at`` first; ``where`` asks for values of ``extra``."""
        found = await self._store.search(
            metadata=self.place(kind),
            memory_type=RECORD,
            where=where,
            archived=True,
            order="updated",
            limit=EVERYTHING if limit is None else limit,
            offset=offset,
            mode="substring",
        )
        return [self.record(item) for item in found]

    async def put(
        self, kind: str, name: str, value: Any, *, version: int = 0, extra: Mapping[str, Any] | None = None
    ) -> Record:
        """Store a record instead of the one of this version, and return it; 0 stands for a record that is new.

        Raises VersionConflictError if another version is stored, and changes nothing then.
        """
        item = self.item(kind, name, value, version=version, extra=extra)
        (stored,) = await write_records(self._store, [item])
        return self.record(stored)

    async def change(
        self,
        kind: str,
        name: str,
        changed: Callable[[Any], Any],
        *,
        extra: Mapping[str, Any] | None = None,
    ) -> Record:
        """Store what ``changed`` makes of a record's value, None for a missing one, and return the record.

        If another process changes it meanwhile, ``changed`` is called again with the new value. ``extra`` replaces the
        values to search by; without it they stay.
        """

        async def attempt() -> Record:
            stored = await self.get(kind, name)
            kept = stored.extra if extra is None and stored else extra
            value = changed(stored.value if stored else None)
            return await self.put(kind, name, value, version=stored.version if stored else 0, extra=kept)

        return await retry_conflicts(attempt)

    async def remove(self, kind: str, name: str) -> bool:
        """Remove a record, for good if the store can, and return True if there was one."""
        own = self.id_of(kind, name)
        if Capability.PURGE in self._store.capabilities:
            return bool(await finished(self._store.purge(own)))
        return await finished(self._store.delete(own))


async def write_records(store: Store, items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Store records, and other items with them, all or none, and return them as they are stored.

    Each replaces the item of its version, as in :meth:`memoranda.store.Store.update_many`. The write has finished
    or failed when the call ends, even if that is cancelled.
    """
    with writing_records(RECORD):
        return await finished(store.update_many(items))


def _check_type(item: MemoryItem) -> None:
    """Raise CorruptStoreError for an item in the place of a record that no adapter wrote there."""
    if item.memory_type != RECORD:
        raise CorruptStoreError(
            f"The item {item.id!r} stands in the place of a record, but its memory_type is {item.memory_type!r} and "
            f"not {RECORD!r}, so no adapter wrote it. It was not read, and nothing was changed. Delete it to go on."
        )


def _ascii(name: str) -> str:
    """Return a name as every store can hold and compare it."""
    return json.dumps(name)[1:-1]
