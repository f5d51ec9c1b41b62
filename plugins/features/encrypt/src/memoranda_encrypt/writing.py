"""Writing: each item is sealed for the version that it will have, so that no older text can be put back.

The engine gives versions. A new item gets the first one, which ``fresh`` makes sure of; an item that replaces
another is compared and set. If another writer was quicker, the versions are looked up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memoranda.errors import VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.loops import ITEMS_PER_TURN, LoopLock, offload
from memoranda.store import Capability, copy_item
from memoranda.store.backend import (
    EVERY_ITEM,
    Expiry,
    Filter,
    Page,
    Value,
    Write,
    Written,
    check_owner,
    items_of_ids,
    items_where,
    keep_trust,
    metadata_matches,
    next_versions,
)
from memoranda_encrypt.filters import divided_metadata
from memoranda_encrypt.items import Draft
from memoranda_encrypt.keyring import DataKey
from memoranda_encrypt.sealing import is_sealed, key_id_of, sealed_text

if TYPE_CHECKING:
    from memoranda_encrypt.opened_items import Encryption

_ATTEMPTS = 200
"""How often a write is tried again that other writers were quicker than: a large batch may lose to many small ones."""


class SealedWrites:
    """Carries out the writes of an encryption layer."""

    def __init__(self, layer: Encryption) -> None:
        self._layer = layer
        self._opener = layer.opener
        # A batch is written, and then looked at: no other may come in between.
        self._batch_lock = LoopLock()

    def bounds(self, within: MemoryMetadata | None) -> MemoryMetadata | None:
        """Return what bounds a write, as the engine can tell it."""
        return divided_metadata(within, self._opener.names)[0]

    async def inside(self, ids: Sequence[str], within: MemoryMetadata | None) -> Sequence[str]:
        extra = divided_metadata(within, self._opener.names)[1]
        if not extra:
            return ids
        asked = MemoryMetadata(extra=extra)
        held = await self.held(ids)
        items = {item.id: item for item in await self._opener.all_opened(list(held.values()))}
        return [each for each in ids if each in items and metadata_matches(asked, items[each].metadata)]

    # Writing

    async def add(self, write: Write) -> None:
        item, opener = write.adds[0], self._opener
        draft = Draft(item, opener.names)
        key = opener.ring.cached(draft.user_id)
        if key is None or self._layer.vectors is not None or len(draft.body) > ITEMS_PER_TURN * 400:
            await self._put([draft], write.but(adds=[copy_item(item)]))
            return
        stored = draft.sealed(key, 1)
        try:
            await self._layer.inner.write(Write([stored], self.bounds(write.within), fresh=True, now=write.now))
        except VersionConflictError:
            await self._replace([draft], write.but(adds=[copy_item(item)]))
        else:
            opener.keep_new([draft])

    async def apply(self, write: Write) -> int:
        if not write.adds:
            return await self._delete_only(write)
        drafts = await offload(len(write.adds), self._drafts, write.adds)
        return await self._put(drafts, write.but(owned=False))

    def _drafts(self, items: Sequence[MemoryItem]) -> list[Draft]:
        return [Draft(item, self._opener.names) for item in items]

    async def _delete_only(self, write: Write) -> int:
        deletes = await self.inside(write.deletes, write.within)
        within = self.bounds(write.within)
        removed = (await self._layer.inner.write(write.but(within=within, deletes=deletes))).changed
        if removed and write.purge:
            self._opener.forget()
        return removed

    async def _put(self, drafts: Sequence[Draft], write: Write) -> int:
        if write.fresh or len({draft.item.id for draft in drafts}) == len(drafts):
            stored = await self.sealed(drafts, [1] * len(drafts))
            try:
                removed = await self._write_inner(write, stored, fresh=True)
            except VersionConflictError:
                if write.fresh:
                    raise
            else:
                self._opener.keep_new(drafts)
                return removed
        return await self._replace(drafts, write)

    async def _write_inner(self, write: Write, stored: Sequence[MemoryItem], *, fresh: bool) -> int:
        expected = write.expected
        if expected is not None:
            expected = replace(expected, conversation=self._opener.divided(expected.conversation).stored)
        deletes = await self.inside(write.deletes, write.within) if write.deletes else ()
        within = self.bounds(write.within)
        removed = (
            await self._layer.inner.write(
                Write(
                    stored,
                    within,
                    write.hidden,
                    deletes,
                    purge=write.purge,
                    fresh=fresh,
                    new=write.new,
                    expected=expected,
                    now=write.now,
                )
            )
        ).changed
        if removed and write.purge:
            self._opener.forget()
        return removed

    async def _replace(self, drafts: Sequence[Draft], write: Write) -> int:
        simple = not (write.hidden or write.deletes or write.expected)
        for _ in range(_ATTEMPTS):
            held = await self.held([draft.item.id for draft in drafts], write.now)
            existing = await self._compared(held, write.within)
            items = next_versions(write, existing.get)
            last = [Draft(item, self._opener.names) for item in items]
            versions = [item.version for item in items]
            distinct = len({item.id for item in items}) == len(items)
            try:
                if simple and distinct:
                    await self._compare_and_set(last, versions, held, write)
                    return 0
                stored = await self.sealed(last, versions)
                async with self._batch_lock.held():
                    removed = await self._write_inner(write, stored, fresh=False)
                    await self._confirm(list((await self.held([item.id for item in stored])).values()), last, versions)
                return removed
            except VersionConflictError:
                await asyncio.sleep(0)
        raise VersionConflictError(drafts[0].item.id, 0, None)

    async def _compare_and_set(
        self,
        drafts: Sequence[Draft],
        versions: Sequence[int],
        held: dict[str, MemoryItem],
        write: Write,
    ) -> None:
        """Replace items that are unchanged since they were read; deleted ones in ``held`` count as missing."""
        shown = await self._layer.inner.read(items_of_ids([draft.item.id for draft in drafts]))
        live = {item.id for item in _unexpired(shown, write.now)}
        expected = [
            version - 1 if draft.item.id in live else 0 for draft, version in zip(drafts, versions, strict=True)
        ]
        stored = await self.sealed(drafts, versions, expected, held)
        compared = Write(stored, self.bounds(write.within), compared=True, now=write.now)
        await self._confirm((await self._layer.inner.write(compared)).items, drafts, versions)

    async def _confirm(self, stored: Sequence[MemoryItem], drafts: Sequence[Draft], versions: Sequence[int]) -> None:
        """Seal items again if another writer made them a different version than they were sealed for."""
        last = {draft.item.id: (draft, version) for draft, version in zip(drafts, versions, strict=True)}
        for now in stored:
            draft, version = last[now.id]
            if now.version != version and now.payload == draft.item.payload:
                again = await self.sealed([draft], [now.version + 1], [now.version])
                await self._layer.inner.write(Write(again, None, compared=True))

    async def update(self, write: Write) -> Written:
        within, given = write.within, [copy_item(item) for item in write.adds]
        held = await self.held([item.id for item in given], write.now)
        existing = await self._compared(held, within)
        expected = [item.version for item in given]
        for item in given:
            before = existing.get(item.id)
            if within is not None and within.extra:
                check_owner(before, item, within)
            item.__dict__["version"] = 1 if before is None else before.version + 1
            if before is not None:
                keep_trust(before, item)
        versions = [item.version for item in given]
        drafts = self._drafts(given)
        stored = await self.sealed(drafts, versions, expected, held)
        compared = Write(stored, self.bounds(within), compared=True, now=write.now)
        updated = (await self._layer.inner.write(compared)).items
        await self._confirm(updated, drafts, versions)
        for item, now in zip(given, updated, strict=True):
            item.__dict__.update(version=now.version, trust=now.trust)
        return Written(0, given)

    # What is held under ids

    async def held(self, ids: Sequence[str], now: str = "") -> dict[str, MemoryItem]:
        """Return the stored items of ids, deleted ones too; those that have expired by now hold no id."""
        distinct = list(dict.fromkeys(ids))
        found = {item.id: item for item in await self._layer.inner.read(items_of_ids(distinct))}
        missing = [item_id for item_id in distinct if item_id not in found]
        if missing and Capability.DELETE in self._layer.capabilities:
            for start in range(0, len(missing), ITEMS_PER_TURN):
                some = Value("id", False, "$in", missing[start : start + ITEMS_PER_TURN])
                async for item in self._layer.all_stored(EVERY_ITEM.also(some)):
                    found[item.id] = item
        return {item.id: item for item in _unexpired(found.values(), now)}

    async def _compared(self, held: dict[str, MemoryItem], within: MemoryMetadata | None) -> dict[str, MemoryItem]:
        """Return the held items for comparison: with owners, versions, times and trust.

        Only where names are hidden, or ``extra`` bounds a write, they have to be decrypted.
        """
        if not held or not (self._opener.names.hidden or (within is not None and within.extra)):
            return held
        opened = await self._opener.all_opened(list(held.values()), keep=True)
        return {**held, **{item.id: item for item in opened}}

    async def resealed(
        self, items: Sequence[MemoryItem], versions: Sequence[int], expected: Sequence[int]
    ) -> Sequence[MemoryItem]:
        """Return items sealed for these versions, with the keys for new items."""
        return await self.sealed(self._drafts(items), versions, expected)

    async def sealed(
        self,
        drafts: Sequence[Draft],
        versions: Sequence[int],
        expected: Sequence[int] | None = None,
        held: dict[str, MemoryItem] | None = None,
    ) -> list[MemoryItem]:
        vectors: Sequence[bytes | None] = [None] * len(drafts)
        if self._layer.vectors is not None:
            vectors = await self._layer.vectors.of(drafts, await self._known_vectors(drafts, held or {}))
        keys = {user: await self._key_of(user) for user in {draft.user_id for draft in drafts}}
        before = expected or [0] * len(drafts)
        letters = sum([len(draft.body) for draft in drafts])
        weight = max(len(drafts) * 4, letters // 400)
        return await offload(weight, _all_sealed, drafts, keys, versions, vectors, before)

    async def _key_of(self, user_id: str | None) -> DataKey:
        """Return the key for new items of a user.

        A user gets a first key only where nothing of theirs is sealed with another. Otherwise the ring is an older
        copy, and what it seals could not be read once the newest one is back: raises MissingKeyError.
        """
        ring = self._opener.ring
        key = ring.cached(user_id)
        if key is not None:
            return key
        if user_id is not None and not await asyncio.to_thread(ring.knows, user_id):
            theirs = Filter(metadata=MemoryMetadata(user_id=user_id), archived=None)
            stored = items_where(self._opener.divided(theirs).stored, Page(1))
            for item in filter(is_sealed, await self._layer.inner.read(stored)):
                await ring.load([(key_id_of(sealed_text(item)), item.id)])
        return await ring.for_writing(user_id)

    async def _known_vectors(self, drafts: Sequence[Draft], held: dict[str, MemoryItem]) -> dict[str, bytes]:
        if self._layer.vectors is None or not held:
            return {}
        same = [held[draft.item.id] for draft in drafts if draft.item.id in held]
        contents = {draft.item.id: draft.content for draft in drafts}
        found = {}
        sealed = [each for each in same if is_sealed(each)]
        for item in await self._opener.all_opened(sealed, keep=True):
            if item.content == contents[item.id]:
                vectors = self._layer.vectors.opened(held[item.id], self._opener.ring)
                if vectors is not None:
                    found[item.id] = vectors
        return found


def _unexpired(items: Iterable[MemoryItem], now: str) -> list[MemoryItem]:
    """Return the items that have not expired by now; all of them where nothing expires."""
    return list(filter(Expiry(now).matches, items)) if now else list(items)


def _all_sealed(
    drafts: Sequence[Draft],
    keys: dict[str | None, DataKey],
    versions: Sequence[int],
    vectors: Sequence[bytes | None],
    expected: Sequence[int],
) -> list[MemoryItem]:
    together = zip(drafts, versions, vectors, expected, strict=True)
    return [
        draft.sealed(keys[draft.user_id], version, packed, expected=before)
        for draft, version, packed, before in together
    ]
