"""The encrypted store: reading, and everything that only passes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager

from memoranda.items import MemoryItem, MemoryMetadata, Payload
from memoranda.offloading import AT_ONCE, filter_weight, offload
from memoranda.store import Finding, Order, Owner, RankedItem, SearchMode, Store
from memoranda.store.backend import (
    AS_ADDED,
    Change,
    Expiry,
    Filter,
    Listing,
    Page,
    Value,
    Write,
    items_of_ids,
    items_where,
    place_of,
)
from memoranda_encrypt.errors import UnsealingError
from memoranda_encrypt.keyring import KeyRing
from memoranda_encrypt.leftovers import Leftovers
from memoranda_encrypt.marks import Unsealed
from memoranda_encrypt.ranking import Ranking
from memoranda_encrypt.sealing import is_plain
from memoranda_encrypt.writing import SealedWriting

_FIRST = 200
"""How many of the newest items are decrypted first where some are sought by what they say."""


class EncryptedStore(SealedWriting):
    """A store around another, which never sees what is said.

    Content, names, payloads, tool calls and results, ``extra`` and vectors are encrypted with the key of their user;
    ids, owners, types, statuses, times and trust stay readable for the inner store. Searches by what items say decrypt
    the scope and rank it in memory. Capabilities are those of the inner store.

    The inner store says in itself that it is encrypted, and cannot be opened or written to without encryption from then
    on. ``unsealed="read"`` also shows items that are not encrypted, while a store is being encrypted in place.

    An item that cannot be decrypted raises UnsealingError, which names it. Items of a forgotten user, whose key was
    destroyed, and items without a seal are left out of whatever returns several, and raise where they are named.
    """

    def __init__(self, inner: Store, ring: KeyRing, *, unsealed: Unsealed = "refuse") -> None:
        super().__init__(inner, ring, unsealed=unsealed)
        self._ranking = Ranking(self)
        self._leftovers = Leftovers(self)
        for name in ("erase", "unerased", "reindex"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))

    def forget_decrypted(self) -> None:
        """Wipe what is at hand of decrypted items, as closing does; the next reads decrypt again."""
        super().forget_decrypted()
        self._ranking.forget()

    # Reading

    async def _get(self, item_id: str) -> MemoryItem | None:
        stored = next(iter(await self.below.read(items_of_ids([item_id]))), None)
        if stored is None:
            return None
        self._follow()
        return self._texts.restored(stored, self.item_types) or await self._opened(stored)

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        return await self._all_opened(await self.below.read(items_of_ids(ids)))

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        parts = self._divided(wanted)
        if parts.rest is None:
            return await self._page(wanted, parts.stored, page)
        if page.end <= _FIRST:
            newest = await self.below.read(items_where(parts.stored, Page(_FIRST, order=page.order)))
            found = await self._matching(newest, parts.rest)
            if len(found) >= page.end or len(newest) < _FIRST:
                return found[page.offset : page.end]
        stored = await self.below.read(items_where(parts.stored, Page(order=page.order)))
        return (await self._matching(stored, parts.rest))[page.offset : page.end]

    async def _page(self, wanted: Filter, stored: Filter, page: Page) -> list[MemoryItem]:
        """Return a page of the items that are shown: what is left out takes no place on it."""
        if await self._shows_all(wanted):
            held = await self.below.read(items_where(stored, page))
            opened = await self._all_opened(held)
            if len(opened) == len(held):
                return opened
        everything = await self.below.read(items_where(stored, Page(order=page.order)))
        return (await self._all_opened(everything))[page.offset : page.end]

    async def _matching(self, stored: Sequence[MemoryItem], rest: Filter) -> list[MemoryItem]:
        found: list[MemoryItem] = []
        for start in range(0, len(stored), AT_ONCE):
            items = await self._all_opened(stored[start : start + AT_ONCE])
            letters = sum([len(item.content) for item in items])
            weight = max(filter_weight(len(items)), letters // 2_000)
            found += await offload(weight, _passing, items, rest)
        return found

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        return list(map(Payload.of, await self._search(wanted, page)))

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        parts = self._divided(wanted)
        if parts.rest is not None:
            return len([None async for _ in self._scan(wanted, include_deleted, "added")])
        if await self._shows_all(wanted, include_deleted=include_deleted):
            return await self.below.count(items_where(parts.stored, deleted=include_deleted))
        held = self.below.stream(items_where(parts.stored, AS_ADDED, deleted=include_deleted))
        return sum([self._shows(stored) async for stored in held])

    async def _shows_all(self, wanted: Filter, *, include_deleted: bool = False) -> bool:
        """Return True if each stored item that matches is shown, so that the inner store may count them."""
        self._follow()
        if self._has_plain and self._unsealed == "refuse":
            return False
        return not await self._leftovers.is_possible(wanted, include_deleted=include_deleted)

    def _shows(self, stored: MemoryItem) -> bool:
        """Return True if a stored item is neither a forgotten user's, nor without a seal where that is refused."""
        return not self._leftovers.is_one(stored) and (not is_plain(stored) or self._unsealed == "read")

    def _one_state(self) -> AbstractAsyncContextManager[bool]:
        return self.below.snapshot()

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        async for stored in self._scanned(wanted, include_deleted, order):
            yield stored[1]

    async def _scanned(
        self, wanted: Filter, include_deleted: bool, order: Order
    ) -> AsyncGenerator[tuple[MemoryItem, MemoryItem], None]:
        """Yield each item that matches with its stored form."""
        parts = self._divided(wanted)
        some: list[MemoryItem] = []
        async for stored in self.below.stream(items_where(parts.stored, Page(order=order), deleted=include_deleted)):
            some.append(stored)
            if len(some) >= AT_ONCE // 4:
                for pair in await self._pairs(some, parts.rest):
                    yield pair
                some = []
        for pair in await self._pairs(some, parts.rest):
            yield pair

    async def _pairs(self, stored: Sequence[MemoryItem], rest: Filter | None) -> list[tuple[MemoryItem, MemoryItem]]:
        by_id = {each.id: each for each in stored}
        opened = await self._all_opened(stored, keep=True)
        return [(by_id[item.id], item) for item in opened if rest is None or rest.matches(item)]

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        parts = self._divided(wanted)
        if parts.rest is None and not self.names.hidden and await self._shows_all(wanted):
            async for owner in self.below.owners(listing, items_where(parts.stored)):
                yield owner
            return
        items = [item async for item in self._scan(wanted, False, "added")]
        for owner in await offload(len(items), listing.of, items):
            yield owner

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        self._follow()
        return await self._ranking.rank(query, wanted, limit, mode)

    async def _place(self, item_id: str) -> int | None:
        return next(iter(await self.below.read(place_of(item_id))), None)

    async def _soonest_expiry(self) -> str | None:
        if self.access == "read":
            return None  # Nothing is swept.
        no_item = Filter(archived=None, further=(Expiry("0001-01-01T00:00:00.000000+00:00", expired=True),))
        return (await self.below.write(Write(change=Change("sweep", no_item)))).next_expiry

    # Removing

    async def _change(self, change: Change) -> int:
        """Change stored items, and return how many were."""
        return (await self.below.write(Write(change=change))).changed

    async def _clear(self, wanted: Filter) -> int:
        parts = self._divided(wanted)
        if parts.rest is None:
            return await self._change(Change("delete", parts.stored))
        ids = [item.id for item in await self._search(wanted, Page())]
        return sum([await self._change(Change("delete", some)) for some in _of_ids(parts.stored, ids)])

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        stored = Filter(metadata=self._stored_within(within), archived=None)
        inside = await self._inside([item_id], within)
        return bool(inside) and await self._change(Change("delete", stored, [item_id])) > 0

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        parts = self._divided(wanted)
        if parts.rest is None:
            return await self._change(Change("restore", parts.stored, None if item_id is None else [item_id]))
        ids = await self._ids_with_deleted(wanted, item_id)
        return sum([await self._change(Change("restore", some)) for some in _of_ids(parts.stored, ids)])

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        parts = self._divided(wanted)
        if parts.rest is None:
            changes = [Change("purge", parts.stored, None if item_id is None else [item_id], deleted_only)]
        else:
            chosen = _of_ids(parts.stored, await self._ids_with_deleted(wanted, item_id))
            changes = [Change("purge", some, None, deleted_only) for some in chosen]
        purged = sum([await self._change(change) for change in changes])
        if purged:
            self.forget_decrypted()
        return purged

    async def _sweep(self, wanted: Filter) -> int:
        parts = self._divided(wanted)
        if parts.rest is not None:
            return await super()._sweep(wanted)
        return await self._change(Change("sweep", parts.stored))

    async def _ids_with_deleted(self, wanted: Filter, item_id: str | None) -> list[str]:
        asked = wanted if item_id is None else wanted.also(Value("id", False, "$eq", item_id))
        return [item.id async for item in self._scan(asked, self.hides_deleted, "added")]

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        parts = self._divided(wanted)
        # Opened first: an item that cannot be read is not taken.
        newest = await self.below.read(items_where(parts.stored, Page(1, order="added")))
        if parts.rest is not None or len(await self._all_opened(newest)) < len(newest):
            popped = await super()._pop(wanted, purge)
        else:
            taken = (await self.below.write(Write(change=Change("pop", parts.stored, purge=purge)))).items
            popped = await self._opened(taken[0]) if taken else None
        if popped is not None and purge:
            self.forget_decrypted()
        return popped

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        stored = Filter(metadata=self._stored_within(within), archived=None)
        inside = await self._inside(ids, within)
        return await self._change(Change("touch", stored, inside, ttl=ttl, now=now))

    # Health

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Examine the inner store, and open every item: which cannot be read, and whose key was destroyed."""
        self._ensure_open()
        examine = getattr(self.inner, "doctor", None)
        findings: list[Finding] = [] if examine is None else list(await examine(repair))
        counted, unreadable = Counter[str](), list[str]()
        async for stored in self.below.stream(items_where(Filter(archived=None), AS_ADDED, deleted=self.hides_deleted)):
            try:
                counted[await self._state_of(stored)] += 1
            except UnsealingError as error:
                unreadable.append(error.item_id)
        return [*findings, _finding(counted, unreadable)]

    async def _state_of(self, stored: MemoryItem) -> str:
        """Return if a stored item is plain, of a forgotten user, or opened. Raises UnsealingError if it is damaged."""
        if is_plain(stored):
            return "plain"
        return "opened" if await self._all_opened([stored]) else "forgotten"

    async def count_unreadable(self, user_id: str) -> int:
        """Return how many stored items of a user are not shown: their key was destroyed, or they have no seal."""
        self._ensure_open()
        theirs = Filter(metadata=MemoryMetadata(user_id=user_id), archived=None)
        if await self._shows_all(theirs, include_deleted=True):
            return 0
        held = self.below.stream(items_where(self._divided(theirs).stored, AS_ADDED, deleted=self.hides_deleted))
        return sum([not self._shows(stored) async for stored in held])

    async def destroy_keys(self, user_id: str) -> int:
        """Destroy the keys of a user, for good, and return how many they were. See :meth:`KeyRing.destroy`."""
        self._ensure_open()
        self._ensure_writable()
        destroyed: int = await offload(1 << 30, self.ring.destroy, user_id)
        self.forget_decrypted()
        return destroyed


def _finding(counted: Counter[str], unreadable: Sequence[str]) -> Finding:
    """Return what an examination of all stored items has found."""
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


def _of_ids(stored: Filter, ids: Sequence[str]) -> list[Filter]:
    """Return filters for these ids, a few hundred at a time."""
    return [
        stored.also(Value("id", False, "$in", list(ids[start : start + AT_ONCE])))
        for start in range(0, len(ids), AT_ONCE)
    ]
