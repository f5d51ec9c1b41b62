"""Writing: each item is sealed for the version that it will have, so that no older text can be put back.

The inner store gives versions. A new item gets the first one, which ``fresh`` makes sure of; an item that replaces
another is compared and set. If another writer was quicker, the versions are looked up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from memoranda.errors import VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.offloading import AT_ONCE, offload
from memoranda.store import Capability, copy_item
from memoranda.store.backend import (
    AS_ADDED,
    Filter,
    Value,
    Write,
    check_owner,
    items_of_ids,
    items_where,
    keep_trust,
    kept,
    metadata_matches,
)
from memoranda_encrypt.base import SealedStore
from memoranda_encrypt.filters import divided_metadata
from memoranda_encrypt.items import Draft
from memoranda_encrypt.keyring import DataKey
from memoranda_encrypt.sealing import is_sealed
from memoranda_encrypt.vectors import VectorSealer

_ATTEMPTS = 200
"""How often a write is tried again that other writers were quicker than: a large batch may lose to many small ones."""


class SealedWriting(SealedStore):
    """The writing half."""

    @property
    def _vectors(self) -> VectorSealer | None:
        embeddings = self.embeddings
        return None if embeddings is None else VectorSealer(embeddings, getattr(self.inner, "_weights", None))

    def _stored_within(self, within: MemoryMetadata | None) -> MemoryMetadata | None:
        """Return what bounds a write, as the inner store can tell it."""
        return divided_metadata(within, self.names)[0]

    async def _inside(self, ids: Sequence[str], within: MemoryMetadata | None) -> Sequence[str]:
        """Return those of the ids whose items lie within what only decrypted items show."""
        extra = divided_metadata(within, self.names)[1]
        if not extra:
            return ids
        asked = MemoryMetadata(extra=extra)
        held = await self._held(ids)
        items = {item.id: item for item in await self._all_opened(list(held.values()))}
        return [each for each in ids if each in items and metadata_matches(asked, items[each].metadata)]

    # Writing

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        draft = Draft(item, self.names)
        key = self.ring.cached(draft.user_id)
        if key is None or self.embeddings is not None or len(draft.body) > AT_ONCE * 400:
            await self._put([draft], Write([copy_item(item)], within))
            return
        stored = draft.sealed(key, 1)
        try:
            await self.below.write(Write([stored], self._stored_within(within), fresh=True))
        except VersionConflictError:
            await self._replace([draft], Write([copy_item(item)], within))
        else:
            self._note([draft])

    async def _apply(self, write: Write) -> int:
        if not write.adds:
            return await self._delete_only(write)
        drafts = await offload(len(write.adds), self._drafts, write.adds)
        return await self._put(drafts, write.but(owned=False))

    def _drafts(self, items: Sequence[MemoryItem]) -> list[Draft]:
        return [Draft(item, self.names) for item in items]

    async def _delete_only(self, write: Write) -> int:
        deletes = await self._inside(write.deletes, write.within)
        removed = (await self.below.write(write.but(within=self._stored_within(write.within), deletes=deletes))).changed
        if removed and write.purge:
            self.forget_decrypted()
        return removed

    async def _put(self, drafts: Sequence[Draft], write: Write) -> int:
        """Write a batch, whose items are most often new."""
        if write.fresh or len({draft.item.id for draft in drafts}) == len(drafts):
            stored = await self._sealed(drafts, [1] * len(drafts))
            try:
                removed = await self._write_inner(write, stored, fresh=True)
            except VersionConflictError:
                if write.fresh:
                    raise
            else:
                self._note(drafts)
                return removed
        return await self._replace(drafts, write)

    def _note(self, drafts: Sequence[Draft]) -> None:
        """Keep what new items say at hand: most are read soon."""
        for draft in drafts[-AT_ONCE:]:
            draft.item.__dict__["version"] = 1
            self._texts.keep(draft.item, draft.said, self.item_types)

    async def _write_inner(self, write: Write, stored: Sequence[MemoryItem], *, fresh: bool) -> int:
        expected = write.expected
        if expected is not None:
            expected = replace(expected, conversation=self._divided(expected.conversation).stored)
        deletes = await self._inside(write.deletes, write.within) if write.deletes else ()
        within = self._stored_within(write.within)
        removed = (
            await self.below.write(
                Write(
                    stored,
                    within,
                    write.hidden,
                    deletes,
                    purge=write.purge,
                    fresh=fresh,
                    new=write.new,
                    expected=expected,
                )
            )
        ).changed
        if removed and write.purge:
            self.forget_decrypted()
        return removed

    async def _replace(self, drafts: Sequence[Draft], write: Write) -> int:
        """Write a batch of which some items replace others."""
        simple = not (write.hidden or write.deletes or write.expected)
        for _ in range(_ATTEMPTS):
            held = await self._held([draft.item.id for draft in drafts])
            existing = await self._compared(held, write.within)
            items = kept(write, existing.get)
            last = [Draft(item, self.names) for item in items]
            versions = [item.version for item in items]
            distinct = len({item.id for item in items}) == len(items)
            try:
                if simple and distinct:
                    await self._compare_and_set(last, versions, held, write.within)
                    return 0
                stored = await self._sealed(last, versions)
                async with self._write_lock.held():
                    removed = await self._write_inner(write, stored, fresh=False)
                    await self._confirm(list((await self._held([item.id for item in stored])).values()), last, versions)
                return removed
            except VersionConflictError:
                await asyncio.sleep(0)
        raise VersionConflictError(drafts[0].item.id, 0, None)

    async def _compare_and_set(
        self,
        drafts: Sequence[Draft],
        versions: Sequence[int],
        held: dict[str, MemoryItem],
        within: MemoryMetadata | None,
    ) -> Sequence[MemoryItem]:
        """Replace items that are as they were seen; ``held`` includes deleted ones, which count as not there."""
        live = {item.id for item in await self.below.read(items_of_ids([draft.item.id for draft in drafts]))}
        expected = [
            version - 1 if draft.item.id in live else 0 for draft, version in zip(drafts, versions, strict=True)
        ]
        stored = await self._sealed(drafts, versions, expected, held)
        updated = (await self.below.write(Write(stored, self._stored_within(within), compared=True))).items
        await self._confirm(updated, drafts, versions)
        return updated

    async def _confirm(self, stored: Sequence[MemoryItem], drafts: Sequence[Draft], versions: Sequence[int]) -> None:
        """Seal items again that were stored as another version than they were sealed for, because of another writer."""
        last = {draft.item.id: (draft, version) for draft, version in zip(drafts, versions, strict=True)}
        for now in stored:
            draft, version = last[now.id]
            if now.version != version and now.payload == draft.item.payload:
                again = await self._sealed([draft], [now.version + 1], [now.version])
                await self.below.write(Write(again, None, compared=True))

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        given = [copy_item(item) for item in items]
        held = await self._held([item.id for item in given])
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
        stored = await self._sealed(drafts, versions, expected, held)
        updated = (await self.below.write(Write(stored, self._stored_within(within), compared=True))).items
        await self._confirm(updated, drafts, versions)
        for item, now in zip(given, updated, strict=True):
            item.__dict__.update(version=now.version, trust=now.trust)
        return given

    # What is held under ids

    async def _held(self, ids: Sequence[str]) -> dict[str, MemoryItem]:
        """Return the stored items of ids, deleted ones too."""
        distinct = list(dict.fromkeys(ids))
        found = {item.id: item for item in await self.below.read(items_of_ids(distinct))}
        missing = [item_id for item_id in distinct if item_id not in found]
        if missing and Capability.DELETE in self.capabilities:
            for start in range(0, len(missing), AT_ONCE):
                some = Value("id", False, "$in", missing[start : start + AT_ONCE])
                async for item in self.below.stream(
                    items_where(Filter(archived=None, further=(some,)), AS_ADDED, deleted=True)
                ):
                    found[item.id] = item
        return found

    async def _compared(self, held: dict[str, MemoryItem], within: MemoryMetadata | None) -> dict[str, MemoryItem]:
        """Return what is held as items to compare with: their owners, versions, times and trust.

        Only where names are hidden, or ``extra`` bounds a write, they have to be decrypted.
        """
        if not held or not (self.names.hidden or (within is not None and within.extra)):
            return held
        opened = await self._all_opened(list(held.values()), keep=True)
        return {**held, **{item.id: item for item in opened}}

    async def _sealed(
        self,
        drafts: Sequence[Draft],
        versions: Sequence[int],
        expected: Sequence[int] | None = None,
        held: dict[str, MemoryItem] | None = None,
    ) -> list[MemoryItem]:
        """Return the drafts sealed for their versions."""
        vectors: Sequence[bytes | None] = [None] * len(drafts)
        if self._vectors is not None:
            vectors = await self._vectors.of(drafts, await self._known_vectors(drafts, held or {}))
        keys = {user: await self.ring.for_writing(user) for user in {draft.user_id for draft in drafts}}
        before = expected or [0] * len(drafts)
        letters = sum([len(draft.body) for draft in drafts])
        weight = max(len(drafts) * 4, letters // 400)
        return await offload(weight, _all_sealed, drafts, keys, versions, vectors, before)

    async def _known_vectors(self, drafts: Sequence[Draft], held: dict[str, MemoryItem]) -> dict[str, bytes]:
        """Return the vectors of items whose content stays the same."""
        if self._vectors is None or not held:
            return {}
        same = [held[draft.item.id] for draft in drafts if draft.item.id in held]
        contents = {draft.item.id: draft.content for draft in drafts}
        found = {}
        sealed = [each for each in same if is_sealed(each)]
        for item in await self._all_opened(sealed, keep=True):
            if item.content == contents[item.id]:
                vectors = self._vectors.opened(held[item.id], self.ring)
                if vectors is not None:
                    found[item.id] = vectors
        return found

    def _typed(self, item: MemoryItem) -> MemoryItem:
        """Return the item as it will be read; a sealed one, as an export of the inner store has it, is opened."""
        if is_sealed(item) and not item.content:
            item = self._opened_now(item)
        return super()._typed(item)


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
