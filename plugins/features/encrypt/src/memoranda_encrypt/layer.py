"""The layer of encryption: the engine inside never sees what is said."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from memoranda.errors import InputError, StoreClosedError, UnsupportedError
from memoranda.items import BUILTIN_TYPES, Changes, MemoryItem, MemoryMetadata, Payload
from memoranda.loops import ITEMS_PER_TURN, CallsUnderWay, filter_weight, offload
from memoranda.store import Capability, Finding, Owner, Ranker, Store
from memoranda.store.backend import (
    AS_ADDED,
    EVERY_ITEM,
    Change,
    Engine,
    Expiry,
    Filter,
    Layer,
    Listing,
    Opened,
    Opening,
    Page,
    Query,
    Value,
    Write,
    Written,
    items_of_ids,
    items_where,
)
from memoranda_encrypt.items import VectorSealer
from memoranda_encrypt.keyring import KeyRing
from memoranda_encrypt.masters import UnsealingError
from memoranda_encrypt.opened_items import ItemOpener, Leftovers
from memoranda_encrypt.ranking import Ranking
from memoranda_encrypt.sealing import Admission, Unsealed, is_plain, is_sealed
from memoranda_encrypt.writing import SealedWrites

_NEWEST_FIRST = 200
"""How many of the newest items are decrypted first where some are sought by what they say."""

_NO_ITEM = Filter(archived=None, further=(Expiry("0001-01-01T00:00:00.000000+00:00", expired=True),))

T = TypeVar("T")


class EncryptionLayer(Layer):
    """Encrypts what is stored; put into a store by ``memoranda.open(url, encrypt=ring)``.

    Content, names, payloads, tool calls and results, ``extra`` and vectors are encrypted with the key of their user;
    ids, owners, types, statuses, times and trust stay readable for the engine. Searches by what items say decrypt the
    scope and look there. ``unsealed="read"`` also shows items that are not encrypted, while a store is being encrypted
    in place.

    An item that cannot be decrypted raises UnsealingError, which names it. Items of a forgotten user, whose key was
    destroyed, and items without a seal are left out of whatever returns several, and raise where they are named.

    ``store`` is the one that the layer belongs to, and ``types`` returns the classes that items are read as.
    """

    name = "encryption"
    packer = None

    def __init__(
        self,
        inner: Engine,
        store: Store,
        ring: KeyRing,
        *,
        unsealed: Unsealed = "refuse",
        types: Callable[[], Mapping[str, type[MemoryItem]]] | None = None,
    ) -> None:
        if not isinstance(ring, KeyRing):
            raise InputError("Encryption takes a KeyRing.", field="encrypt")
        if unsealed not in ("refuse", "read"):
            raise InputError("unsealed is 'refuse' or 'read'.", field="unsealed")
        super().__init__(inner)
        self._store: Store = weakref.proxy(store)
        self.ring = ring
        self.opener = ItemOpener(ring, unsealed, types or (lambda: self._store.item_types), lambda: self._store.label)
        self.lifetimes = store.lifetimes
        self.writes = SealedWrites(self)
        self._ranking = Ranking(self)
        self.opener.forgetting.append(self._ranking.forget)
        self._leftovers = Leftovers(self)
        self._opening: Opening | None = None
        self._has_plain = False
        self._calls = CallsUnderWay()

    # Lifecycle

    async def open(self, opening: Opening) -> Opened:
        """Open the engine inside, and check that its items are those of the ring."""
        if opening.access != "create" and not self.ring.exists:
            self.ring.open(create=False)
        # Built-in classes need no validation, and would not find what they need in a sealed item.
        opened = await self.inner.open(replace(opening, item_types=lambda: BUILTIN_TYPES))
        try:
            await self.admit(None if opened.mark is None else json.loads(opened.mark))
        except BaseException:
            await self.inner.close()
            raise
        self._opening = opening
        return replace(opened, mark=None)  # It is this layer that it asks for.

    async def admit(self, mark: Mapping[str, Any] | None) -> None:
        """Open the ring, which is to be that of the items of the open engine: see :class:`Admission`."""
        store = self._store
        admission = Admission(self.inner, self.ring, store.label, is_read_only=store.access == "read")
        self._has_plain = await admission.admit(mark, self.opener.unsealed)
        self.opener.begin()

    async def close(self) -> None:
        """Wait for writes under way, forget keys and what was decrypted, and close the engine inside."""
        await self._calls.ended()
        self.opener.end()
        await self.inner.close()

    def forget_decrypted(self) -> None:
        """Wipe the cache of decrypted items, as closing does; the next reads decrypt again."""
        self.opener.forget()

    def derived_id(self, text: str, *, digits: int) -> str:
        """Return an id that is made from a text and the key of the ring's hashes: nobody can guess it without."""
        return self.ring.hashed("derived id", text)[:digits]

    def unwrapped(self, item: MemoryItem) -> MemoryItem:
        """Return an item to be stored; a sealed one, from an export of ciphertext, is opened."""
        return self.opener.opened_now(item) if is_sealed(item) and not item.content else item

    @property
    def vectors(self) -> VectorSealer | None:
        """What makes vectors here, before anything is encrypted; None in a store without an embedder."""
        embeddings = getattr(self._store, "embeddings", None)
        return None if embeddings is None else VectorSealer(embeddings, getattr(self._store, "weights", None))

    def all_stored(self, wanted: Filter = EVERY_ITEM) -> AsyncGenerator[MemoryItem, None]:
        """Yield what the engine has of items, deleted ones too. The filter is asked of the engine as it is."""
        return self.inner.stream(items_where(wanted, AS_ADDED, deleted=Capability.DELETE in self.capabilities))

    async def ranker(self) -> Ranker:
        """Return what ranks text in this store."""
        assert self._opening is not None, "only open stores are searched"
        return await self._opening.ranker()

    # Reading

    async def read(self, query: Query[T]) -> list[T]:
        """Return what the query asks for, decrypted."""
        found: Any
        if query.form == "places":
            return await self.inner.read(query)
        if query.ids is not None:
            found = await self._of_ids(query.ids)
        elif query.ranking is not None:
            self.opener.follow()
            text, mode = query.ranking
            found = await self._ranking.rank(text, query.wanted, query.page.limit, mode)
        else:
            found = await self._search(query.wanted, query.page)
            if query.form == "payloads":
                found = list(map(Payload.of, found))
        return found  # type: ignore[no-any-return]  # The form of the query says what it is.

    async def _of_ids(self, ids: Sequence[str]) -> list[MemoryItem]:
        stored = await self.inner.read(items_of_ids(ids))
        if len(ids) > 1:
            return await self.opener.all_opened(stored)
        return [await self.opener.opened(each) for each in stored]

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        parts = self.opener.divided(wanted)
        if parts.rest is None:
            return await self._page(wanted, parts.stored, page)
        if page.end <= _NEWEST_FIRST:
            newest = await self.inner.read(items_where(parts.stored, Page(_NEWEST_FIRST, order=page.order)))
            found = await self._matching(newest, parts.rest)
            if len(found) >= page.end or len(newest) < _NEWEST_FIRST:
                return found[page.offset : page.end]
        stored = await self.inner.read(items_where(parts.stored, Page(order=page.order)))
        return (await self._matching(stored, parts.rest))[page.offset : page.end]

    async def _page(self, wanted: Filter, stored: Filter, page: Page) -> list[MemoryItem]:
        """Return a page of the items that are shown: what is left out takes no place on it."""
        if await self._shows_all(wanted):
            held = await self.inner.read(items_where(stored, page))
            opened = await self.opener.all_opened(held)
            if len(opened) == len(held):
                return opened
        everything = await self.inner.read(items_where(stored, Page(order=page.order)))
        return (await self.opener.all_opened(everything))[page.offset : page.end]

    async def _matching(self, stored: Sequence[MemoryItem], rest: Filter) -> list[MemoryItem]:
        found: list[MemoryItem] = []
        for start in range(0, len(stored), ITEMS_PER_TURN):
            items = await self.opener.all_opened(stored[start : start + ITEMS_PER_TURN])
            letters = sum([len(item.content) for item in items])
            weight = max(filter_weight(len(items)), letters // 2_000)
            found += await offload(weight, _passing, items, rest)
        return found

    async def changes(self, query: Query[T], since: object) -> Changes[T]:
        """Return all that matches: what has changed cannot be told without decrypting it."""
        return await Engine.changes(self, query, None)

    async def count(self, query: Query[MemoryItem]) -> int:
        """Return how many items match and are shown."""
        parts = self.opener.divided(query.wanted)
        if parts.rest is not None:
            return len([None async for _ in self.stream(query._replace(page=AS_ADDED))])
        if await self._shows_all(query.wanted, include_deleted=query.deleted):
            return await self.inner.count(items_where(parts.stored, deleted=query.deleted))
        held = self.inner.stream(items_where(parts.stored, AS_ADDED, deleted=query.deleted))
        return sum([self._shows(stored) async for stored in held])

    async def _shows_all(self, wanted: Filter, *, include_deleted: bool = False) -> bool:
        """Return True if all matching stored items are shown, so that the engine can count them."""
        self.opener.follow()
        if self._has_plain and self.opener.unsealed == "refuse":
            return False
        return not await self._leftovers.is_possible(wanted, include_deleted=include_deleted)

    def _shows(self, stored: MemoryItem) -> bool:
        """Return True if a stored item is neither a forgotten user's, nor without a seal where that is refused."""
        return not self._leftovers.is_one(stored) and (not is_plain(stored) or self.opener.unsealed == "read")

    async def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match, decrypted."""
        parts = self.opener.divided(query.wanted)
        some: list[MemoryItem] = []
        async for stored in self.inner.stream(items_where(parts.stored, query.page, deleted=query.deleted)):
            some.append(stored)
            if len(some) >= ITEMS_PER_TURN // 4:
                for item in await self._opened_and_passing(some, parts.rest):
                    yield item
                some = []
        for item in await self._opened_and_passing(some, parts.rest):
            yield item

    async def _opened_and_passing(self, stored: Sequence[MemoryItem], rest: Filter | None) -> list[MemoryItem]:
        opened = await self.opener.all_opened(stored)
        return opened if rest is None else _passing(opened, rest)

    async def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners of the items that match and are shown, in order."""
        wanted = query.wanted
        parts = self.opener.divided(wanted)
        if parts.rest is None and not self.opener.names.hidden and await self._shows_all(wanted):
            async for owner in self.inner.owners(listing, items_where(parts.stored)):
                yield owner
            return
        items = [item async for item in self.stream(items_where(wanted, AS_ADDED))]
        for owner in await offload(len(items), listing.of, items):
            yield owner

    # Writing

    async def write(self, write: Write) -> Written:
        """Carry out a write, sealed."""
        if write.vectors is not None:
            raise UnsupportedError(
                self._store.label, "vectors that were made elsewhere", remedy="Add the items without them."
            )
        with self._calls.call():
            if write.change is not None:
                return await self._changed(write.change)
            if write.compared:
                return await self.writes.update(write)
            if len(write.adds) == 1 and write.is_plain:
                await self.writes.add(write)
                return Written()
            return Written(await self.writes.apply(write))

    async def _changed(self, change: Change) -> Written:
        if change.action == "touch":
            return await self._touch(change)
        if change.action == "mark":
            raise UnsupportedError(self._store.label, "another wrapper around its encryption")
        parts = self.opener.divided(change.wanted)
        if change.action == "pop":
            return await self._pop(change, parts.stored, parts.rest)
        if parts.rest is None:
            written = await self._change(replace(change, wanted=parts.stored))
        else:
            written = await self._changed_each(change, parts.stored)
        if written.changed and change.action == "purge":
            self.opener.forget()
        return written

    async def _change(self, change: Change) -> Written:
        return await self.inner.write(Write(change=change))

    async def _changed_each(self, change: Change, stored: Filter) -> Written:
        deleted = change.action != "delete" and Capability.DELETE in self.capabilities
        named = () if change.ids is None else (Value("id", False, "$in", list(change.ids)),)
        found = self.stream(items_where(change.wanted.also(*named), AS_ADDED, deleted=deleted))
        ids, changed = [item.id async for item in found], 0
        for start in range(0, len(ids), ITEMS_PER_TURN):
            some = stored.also(Value("id", False, "$in", ids[start : start + ITEMS_PER_TURN]))
            changed += (await self._change(replace(change, wanted=some, ids=None))).changed
        if change.action != "sweep":
            return Written(changed)
        return Written(changed, next_expiry=(await self._change(Change("sweep", _NO_ITEM))).next_expiry)

    async def _pop(self, change: Change, stored: Filter, rest: Filter | None) -> Written:
        # Opened first: an item that cannot be read is not taken.
        newest = await self.inner.read(items_where(stored, Page(1, order="added")))
        if rest is not None or len(await self.opener.all_opened(newest)) < len(newest):
            popped = await self._pop_shown(change)
        else:
            taken = (await self._change(replace(change, wanted=stored))).items
            popped = [await self.opener.opened(each) for each in taken]
        if popped and change.purge:
            self.opener.forget()
        return Written(len(popped), popped)

    async def _pop_shown(self, change: Change) -> list[MemoryItem]:
        """Take the newest matching item, decrypting to see which match."""
        while newest := await self._search(change.wanted, Page(1, order="added")):
            taken = await self.inner.write(Write(deletes=[newest[0].id], purge=change.purge))
            if taken.changed:
                return newest
            await asyncio.sleep(0)  # Another call took it: let that one finish, and this one be cancelled.
        return []

    async def _touch(self, change: Change) -> Written:
        within = change.wanted.metadata
        inside = await self.writes.inside(change.ids or (), within)
        stored = Filter(metadata=self.writes.bounds(within), archived=None)
        return await self._change(replace(change, wanted=stored, ids=inside))

    # Health

    def ensure_open(self) -> None:
        """Raise StoreClosedError unless the store is open."""
        if not self._store.is_open:
            raise StoreClosedError(self._store.label, opened=self._opening is not None)

    def ensure_writable(self) -> None:
        """Raise an error unless the store is open for writing."""
        self.ensure_open()
        if self._store.access == "read":
            raise UnsupportedError(self._store.label, "writing", remedy="It was opened for reading only.")

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Open every item, and return how many cannot be read and how many have lost their key."""
        self.ensure_open()
        counted, unreadable = Counter[str](), list[str]()
        async for stored in self.all_stored():
            try:
                counted[await self._state_of(stored)] += 1
            except UnsealingError as error:
                unreadable.append(error.item_id)
        return [_finding(counted, unreadable)]

    async def _state_of(self, stored: MemoryItem) -> str:
        """Return whether an item is plain, of a forgotten user, or opened. Raises UnsealingError if damaged."""
        if is_plain(stored):
            return "plain"
        return "opened" if await self.opener.all_opened([stored]) else "forgotten"

    async def count_unreadable(self, user_id: str) -> int:
        """Return how many stored items of a user are not shown: their key was destroyed, or they have no seal."""
        self.ensure_open()
        theirs = Filter(metadata=MemoryMetadata(user_id=user_id), archived=None)
        if await self._shows_all(theirs, include_deleted=True):
            return 0
        held = self.all_stored(self.opener.divided(theirs).stored)
        return sum([not self._shows(each) async for each in held])

    async def destroy_keys(self, user_id: str) -> int:
        """Destroy the keys of a user, for good, and return how many they were. See :meth:`KeyRing.destroy`."""
        self.ensure_writable()
        destroyed: int = await offload(1 << 30, self.ring.destroy, user_id)
        self.forget_decrypted()
        return destroyed


def _finding(counted: Counter[str], unreadable: Sequence[str]) -> Finding:
    sealed = counted["opened"] + counted["forgotten"] + len(unreadable)
    detail = f"{sealed:,} items are sealed, {counted['opened']:,} items can be decrypted"
    detail += f", {counted['forgotten']:,} are of forgotten users" if counted["forgotten"] else ""
    detail += f", {counted['plain']:,} are not encrypted" if counted["plain"] else ""
    named = ", ".join(map(repr, unreadable[:10])) + ("…" if len(unreadable) > 10 else "")
    remedies = [f"Cannot be decrypted: {named}. Restore them from a backup, or purge them."] if unreadable else []
    remedies += ["Run 'memoranda encrypt' to encrypt the rest."] if counted["plain"] else []
    return Finding("encryption", not remedies, detail + ".", " ".join(remedies))


def _passing(items: Sequence[MemoryItem], rest: Filter) -> list[MemoryItem]:
    return [item for item in items if rest.matches(item)]
