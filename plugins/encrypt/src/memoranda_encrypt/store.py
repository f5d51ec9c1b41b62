"""The encrypted store: reading, and everything that only passes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager

from memoranda.items import MemoryItem, MemoryMetadata, Payload
from memoranda.offloading import AT_ONCE, filter_weight, offload
from memoranda.store import BaseStore, Capability, Finding, Order, Owner, RankedItem, SearchMode
from memoranda.store.backend import Filter, Listing, Page, Value
from memoranda_encrypt.base import Unsealed
from memoranda_encrypt.errors import UnsealingError
from memoranda_encrypt.keyring import KeyRing
from memoranda_encrypt.ranking import Ranking
from memoranda_encrypt.writing import SealedWriting

_FIRST = 200
"""How many of the newest items are decrypted first where some are sought by what they say."""


class EncryptedStore(SealedWriting):
    """A store around another, which never sees what is said.

    Content, names, payloads, tool calls and results, ``extra`` and vectors are encrypted with the key of their user;
    ids, owners, types, statuses, times and trust stay readable for the inner store. Searches by what items say decrypt
    the scope and rank it in memory. Capabilities are those of the inner store.

    ``unsealed="read"`` also reads items that are not encrypted, while a store is being encrypted in place.

    An item that cannot be decrypted raises UnsealingError, which names it; items of a forgotten user, whose key was
    destroyed, are left out of whatever returns several.
    """

    def __init__(self, inner: BaseStore, ring: KeyRing, *, unsealed: Unsealed = "refuse") -> None:
        super().__init__(inner, ring, unsealed=unsealed)
        self._ranking = Ranking(self)
        for name in ("erase", "unerased", "reindex"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))

    def forget_decrypted(self) -> None:
        """Wipe what is at hand of decrypted items, as closing does; the next reads decrypt again."""
        super().forget_decrypted()
        self._ranking.forget()

    # Reading

    async def _get(self, item_id: str) -> MemoryItem | None:
        stored = await self.inner._get(item_id)
        if stored is None:
            return None
        self._follow()
        return self._texts.restored(stored, self.item_types) or await self._opened(stored)

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        return await self._all_opened(await self.inner._get_many(ids))

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        parts = self._divided(wanted)
        if parts.rest is None:
            return await self._all_opened(await self.inner._search(parts.stored, page))
        if page.end <= _FIRST:
            newest = await self.inner._search(parts.stored, Page(_FIRST, order=page.order))
            found = await self._matching(newest, parts.rest)
            if len(found) >= page.end or len(newest) < _FIRST:
                return found[page.offset : page.end]
        stored = await self.inner._search(parts.stored, Page(order=page.order))
        return (await self._matching(stored, parts.rest))[page.offset : page.end]

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
        if parts.rest is None:
            return await self.inner._count(parts.stored, include_deleted)
        return len([None async for _ in self._scan(wanted, include_deleted, "added")])

    def _one_state(self) -> AbstractAsyncContextManager[bool]:
        return self.inner._one_state()

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        async for stored in self._scanned(wanted, include_deleted, order):
            yield stored[1]

    async def _scanned(
        self, wanted: Filter, include_deleted: bool, order: Order
    ) -> AsyncGenerator[tuple[MemoryItem, MemoryItem], None]:
        """Yield each item that matches with its stored form."""
        parts = self._divided(wanted)
        some: list[MemoryItem] = []
        async for stored in self.inner._scan(parts.stored, include_deleted, order):
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
        if parts.rest is None and not self.names.hidden:
            async for owner in self.inner._owners(listing, parts.stored):
                yield owner
            return
        items = [item async for item in self._scan(wanted, False, "added")]
        for owner in await offload(len(items), listing.of, items):
            yield owner

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        self._follow()
        return await self._ranking.rank(query, wanted, limit, mode)

    async def _place(self, item_id: str) -> int | None:
        return await self.inner._place(item_id)

    async def _soonest_expiry(self) -> str | None:
        return await self.inner._soonest_expiry()

    # Removing

    async def _clear(self, wanted: Filter) -> int:
        parts = self._divided(wanted)
        if parts.rest is None:
            return await self.inner._clear(parts.stored)
        ids = [item.id for item in await self._search(wanted, Page())]
        return sum([await self.inner._clear(some) for some in _of_ids(parts.stored, ids)])

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        inside = await self._inside([item_id], within)
        return bool(inside) and await self.inner._delete(item_id, self._stored_within(within))

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        parts = self._divided(wanted)
        if parts.rest is None:
            return await self.inner._restore(item_id, parts.stored)
        ids = await self._ids_with_deleted(wanted, item_id)
        return sum([await self.inner._restore(None, some) for some in _of_ids(parts.stored, ids)])

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        parts = self._divided(wanted)
        if parts.rest is None:
            purged = await self.inner._purge(item_id, parts.stored, deleted_only)
        else:
            ids = await self._ids_with_deleted(wanted, item_id)
            purged = sum([await self.inner._purge(None, some, deleted_only) for some in _of_ids(parts.stored, ids)])
        if purged:
            self.forget_decrypted()
        return purged

    async def _sweep(self, wanted: Filter) -> int:
        parts = self._divided(wanted)
        return await self.inner._sweep(parts.stored) if parts.rest is None else await super()._sweep(wanted)

    async def _ids_with_deleted(self, wanted: Filter, item_id: str | None) -> list[str]:
        hides = Capability.DELETE in self.capabilities
        asked = wanted if item_id is None else wanted.also(Value("id", False, "$eq", item_id))
        return [item.id async for item in self._scan(asked, hides, "added")]

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        parts = self._divided(wanted)
        if parts.rest is not None:
            popped = await super()._pop(wanted, purge)
        else:
            # Opened first: an item that cannot be read is not taken.
            newest = await self.inner._search(parts.stored, Page(1, order="added"))
            await self._all_opened(newest)
            stored = await self.inner._pop(parts.stored, purge)
            popped = None if stored is None else await self._opened(stored)
        if popped is not None and purge:
            self.forget_decrypted()
        return popped

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        return await self.inner._touch(await self._inside(ids, within), ttl, now, self._stored_within(within))

    # Health

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Examine the inner store, and open every item: which cannot be read, and whose key was destroyed."""
        self._ensure_open()
        examine = getattr(self.inner, "doctor", None)
        findings: list[Finding] = [] if examine is None else list(await examine(repair))
        unreadable: list[str] = []
        forgotten = opened = 0
        hides = Capability.DELETE in self.capabilities
        async for stored in self.inner._scan(Filter(archived=None), hides, "added"):
            try:
                if await self._all_opened([stored]):
                    opened += 1
                else:
                    forgotten += 1
            except UnsealingError as error:
                unreadable.append(error.item_id)
        named = ", ".join(map(repr, unreadable[:10])) + ("…" if len(unreadable) > 10 else "")
        detail = f"{opened:,} items can be decrypted"
        detail += f", {forgotten:,} are of forgotten users" if forgotten else ""
        remedy = f"Cannot be decrypted: {named}. Restore them from a backup, or purge them." if unreadable else ""
        return [*findings, Finding("encryption", not unreadable, detail + ".", remedy)]

    async def destroy_keys(self, user_id: str) -> int:
        """Destroy the keys of a user, for good, and return how many they were. See :meth:`KeyRing.destroy`."""
        self._ensure_open()
        self._alone()
        destroyed: int = await offload(1 << 30, self.ring.destroy, user_id)
        self.forget_decrypted()
        return destroyed


def _passing(items: Sequence[MemoryItem], rest: Filter) -> list[MemoryItem]:
    return [item for item in items if rest.matches(item)]


def _of_ids(stored: Filter, ids: Sequence[str]) -> list[Filter]:
    """Return filters for these ids, a few hundred at a time."""
    return [
        stored.also(Value("id", False, "$in", list(ids[start : start + AT_ONCE])))
        for start in range(0, len(ids), AT_ONCE)
    ]
