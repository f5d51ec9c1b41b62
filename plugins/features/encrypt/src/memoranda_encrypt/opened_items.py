"""How stored items are opened: their keys are loaded, and what was opened last is kept at hand."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from memoranda.errors import StoreClosedError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.loops import ITEMS_PER_TURN, offload
from memoranda.store import Capability, Ranker, copy_item, dump_item, load_item
from memoranda.store.backend import EVERY_ITEM, Engine, Filter, Listing, items_where
from memoranda.store.fields import TRUSTED
from memoranda.store.lifetimes import Lifetimes
from memoranda_encrypt.filters import Divided, StoredNames, divided
from memoranda_encrypt.items import Draft, Said, VectorSealer, built, open_body
from memoranda_encrypt.keyring import LOOK_AGAIN, KeyRing
from memoranda_encrypt.masters import DestroyedKeyError
from memoranda_encrypt.sealing import Unsealed, is_plain, is_sealed, key_id_of, sealed_text

logger = logging.getLogger(__name__)

MOST_OPENED = 4_096
MOST_BYTES = 8 << 20
"""How many texts that were opened last are kept, and how many bytes they have together."""

_CHARACTERS_PER_SLICE = 200_000
"""How much text is decrypted in one turn of the event loop."""

_SEALED = ("name", "group", "group_size", "payload_format", "origin")
"""Fields that every item has, and that hold nothing in a stored one."""

_state_of = itemgetter(
    *("payload", "version", "memory_type", "status", "created_at", "updated_at", "archived_by"),
    *("trust", "ttl", "expires_at", *_SEALED),
)
_owner_of = itemgetter(*SCOPE_FIELDS, "namespace")


class _Opened(NamedTuple):
    """What a stored item says, and the state in which it says so."""

    state: tuple[Any, ...]
    owner: tuple[Any, ...]
    said: Said
    cls: type[MemoryItem] | None
    """The class of the item if its content is all that it says, and nothing was stored beside what is authenticated."""


class OpenedTexts:
    """What the items that were read or written last say. The same state of a stored item opens to the same text."""

    def __init__(self) -> None:
        self._texts: dict[str, _Opened] = {}
        self._size = 0
        self._lock = threading.Lock()
        self.keeps = True
        """False while the store is closed: a call that was under way leaves nothing behind."""

    def clear(self) -> None:
        with self._lock:
            self._texts.clear()
            self._size = 0

    def restored(self, stored: MemoryItem, types: Mapping[str, type[MemoryItem]]) -> MemoryItem | None:
        """Return the item of a stored one, if what it says in this state is known."""
        held = stored.__dict__
        found = self._texts.get(held["id"])
        if found is None or found[0] != _state_of(held):
            return None
        metadata = held["metadata"].__dict__
        if found[1] != _owner_of(metadata):
            return None
        if found[3] is type(stored) and not stored.__pydantic_extra__ and not metadata["extra"]:
            held["content"] = found[2]
            held["payload"] = None
            return stored
        return built(stored, found[2], types)

    def keep(self, stored: MemoryItem, said: Said, types: Mapping[str, type[MemoryItem]]) -> None:
        size = len(said)
        if size > MOST_BYTES // 16 or not self.keeps:
            return
        held = stored.__dict__
        state, item_id = _state_of(held), held["id"]
        is_plain = type(said) is str and not any(state[-len(_SEALED) :])
        cls = types.get(held["memory_type"], MemoryItem) if is_plain else None
        opened = _Opened(state, _owner_of(held["metadata"].__dict__), said, cls if cls in TRUSTED else None)
        with self._lock:
            self._drop(item_id)
            self._texts[item_id] = opened
            self._size += size
            while len(self._texts) > MOST_OPENED or self._size > MOST_BYTES:
                self._drop(next(iter(self._texts)))

    def _drop(self, item_id: str) -> None:
        found = self._texts.pop(item_id, None)
        if found is not None:
            self._size -= len(found.said)


class ItemOpener:
    """Opens stored items with the keys of a ring. ``unsealed="read"`` also shows those that are not encrypted (yet).

    ``types`` returns the classes that items are read as, and ``label`` how messages name the store.
    """

    def __init__(
        self,
        ring: KeyRing,
        unsealed: Unsealed,
        types: Callable[[], Mapping[str, type[MemoryItem]]],
        label: Callable[[], str],
    ) -> None:
        self.ring = ring
        self.unsealed = unsealed
        self.forgetting: list[Callable[[], None]] = []
        """Called when what is at hand of decrypted items is wiped."""
        self._types = types
        self._label = label
        self._texts = OpenedTexts()
        self._epoch = -1
        self._warned = False
        self._is_closed = False
        self._names: StoredNames | None = None

    @property
    def names(self) -> StoredNames:
        if self._names is None:
            self._names = StoredNames(self.ring)
        return self._names

    def begin(self) -> None:
        self._names = None
        self._texts.keeps = True
        self._is_closed = False

    def end(self) -> None:
        self._is_closed = True
        self._texts.keeps = False
        self.forget()
        self.ring.close()
        if self._names is not None:
            self._names.forget()

    def forget(self) -> None:
        self._texts.clear()
        for forget in self.forgetting:
            forget()

    def follow(self) -> None:
        """Wipe what is at hand if keys have changed since the last look."""
        self._refuse_if_closed()
        self.ring.look(LOOK_AGAIN)
        if self._epoch != self.ring.epoch:
            self.forget()
            self._epoch = self.ring.epoch

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise StoreClosedError(self._label())

    def divided(self, wanted: Any) -> Divided:
        """Return the two parts of a filter: see :func:`memoranda_encrypt.filters.divided`."""
        return divided(wanted, self.names)

    def keep_new(self, drafts: Sequence[Draft]) -> None:
        """Keep what new items say at hand: most are read soon."""
        types = self._types()
        for draft in drafts[-ITEMS_PER_TURN:]:
            draft.item.__dict__["version"] = 1
            self._texts.keep(draft.item, draft.said, types)

    async def opened(self, stored: MemoryItem) -> MemoryItem:
        """Return the item of a stored one. Raises UnsealingError, naming it, if that cannot be."""
        self.follow()
        found = self._texts.restored(stored, self._types())
        if found is not None:
            return found
        if self.unsealed == "read" and not is_sealed(stored):
            return self._as_typed(stored)
        key_id = key_id_of(sealed_text(stored))
        if self.ring.known(key_id) is None:
            await self.ring.load([(key_id, stored.id)])
        if len(stored.payload or "") > _CHARACTERS_PER_SLICE:
            return await asyncio.to_thread(self._open_one, stored)
        return self._open_one(stored)

    def opened_now(self, stored: MemoryItem) -> MemoryItem:
        """Return the item of a stored one, whatever it takes to unwrap its key."""
        return self._open_one(copy_item(stored))

    def _open_one(self, stored: MemoryItem) -> MemoryItem:
        key_id = key_id_of(sealed_text(stored))
        key = self.ring.known(key_id)
        if key is None:  # The store was closed meanwhile, or so many keys were loaded that this one had to go.
            self._refuse_if_closed()
            key = self.ring.load_now({key_id: stored.id})[key_id]
        said, types = open_body(stored, key), self._types()
        self._texts.keep(stored, said, types)
        return built(stored, said, types)

    def _as_typed(self, stored: MemoryItem) -> MemoryItem:
        """Return an item that is not encrypted as the class that it is read as."""
        types = self._types()
        cls = types.get(stored.memory_type, MemoryItem)
        return stored if type(stored) is cls else load_item(dump_item(stored), types)

    async def all_opened(self, stored: Sequence[MemoryItem], *, keep: bool = False) -> list[MemoryItem]:
        """Return the items of stored ones, without those whose user was forgotten: as if they had been purged.

        The stored ones may become these, unless they are to be kept. Raises UnsealingError, naming the first that is
        damaged or whose key is missing.
        """
        self.follow()
        if keep:
            stored = [copy_item(each) for each in stored]
        restored, types = self._texts.restored, self._types()
        found = [restored(each, types) for each in stored]
        left = [each for each, item in zip(stored, found, strict=True) if item is None]
        if left:
            left = await self._with_keys(left)
            letters = sum([len(each.payload or "") for each in left])
            weight = max(len(left) * 4, letters * ITEMS_PER_TURN // _CHARACTERS_PER_SLICE)
            opened = {item.id: item for item in await offload(weight, self._open_each, left)}
            found = [opened.get(each.id) if item is None else item for each, item in zip(stored, found, strict=True)]
        return [item for item in found if item is not None]

    async def _with_keys(self, stored: list[MemoryItem]) -> list[MemoryItem]:
        """Return the stored items that can be opened then: all but those of forgotten users, and those without a seal.

        One item that another program has stored without a seal must not make the others unreadable.
        """
        needed: dict[str, str] = {}
        for each in stored:
            if is_sealed(each):
                needed.setdefault(key_id_of(sealed_text(each)), each.id)
        gone: set[str] = set()
        for key_id, item_id in needed.items():
            if self.ring.known(key_id) is None:
                try:
                    await self.ring.load([(key_id, item_id)])
                except DestroyedKeyError:
                    gone.add(key_id)
        if not gone and all(map(is_sealed, stored)):
            return stored
        return [each for each in stored if self._reads(each, gone)]

    def _reads(self, stored: MemoryItem, gone: Collection[str]) -> bool:
        """Return True if a stored item is shown where the keys of these ids are gone."""
        if not is_plain(stored):
            return key_id_of(sealed_text(stored)) not in gone
        if self.unsealed == "refuse" and not self._warned:
            self._warned = True
            logger.warning(
                "%s holds items that are not encrypted; they are left out. Run 'memoranda encrypt'.",
                self._label(),
            )
        return self.unsealed == "read"

    def _open_each(self, stored: Sequence[MemoryItem]) -> list[MemoryItem]:
        return [self._open_one(each) if is_sealed(each) else self._as_typed(each) for each in stored]


class Encryption(Protocol):
    """An engine that is encrypted, and the means to read and write it: :class:`memoranda_encrypt.EncryptionLayer`."""

    inner: Engine
    """The engine that keeps what is encrypted."""

    ring: KeyRing
    opener: ItemOpener
    lifetimes: Lifetimes

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the engine can do."""
        ...

    def all_stored(self, wanted: Filter = EVERY_ITEM) -> AsyncGenerator[MemoryItem, None]:
        """Yield what the engine has of items, deleted ones too."""
        ...

    @property
    def vectors(self) -> VectorSealer | None:
        """What makes vectors before anything is encrypted; None in a store without an embedder."""
        ...

    async def ranker(self) -> Ranker:
        """Return what ranks text in this store."""
        ...


class Leftovers:
    """Tells if the engine may be asked how much there is, or if its items have to be looked at.

    Forgetting a user purges the items and destroys the keys, so that there is nothing left to look for. A backup brings
    the items back. The engine would count them, and list their owner.

    What was found of a user holds until keys are destroyed again: until then, only a backup that is restored while the
    store is open brings items back.
    """

    def __init__(self, layer: Encryption) -> None:
        self._layer = layer
        self._epoch = -1
        self._destroyed: frozenset[str] = frozenset()
        self._owners: frozenset[str] = frozenset()
        self._found: dict[str, bool] = {}

    async def _follow(self) -> None:
        """Learn which keys were destroyed, if any may have been since the last time."""
        ring = self._layer.ring
        if self._epoch != ring.epoch:
            epoch = ring.epoch
            keys: dict[str, str] = await offload(1 << 30, ring.destroyed)
            if self._destroyed != keys.keys():
                self._destroyed, self._owners = frozenset(keys), frozenset(keys.values())
                self._found.clear()
            self._epoch = epoch

    async def is_possible(self, wanted: Filter, *, include_deleted: bool) -> bool:
        """Return True if items that match a filter may be a forgotten user's."""
        await self._follow()
        if not self._destroyed:
            return False
        user = None if wanted.metadata is None else wanted.metadata.user_id
        if user is not None:
            return await self._has_any(user)
        if include_deleted or self._layer.opener.names.hidden:
            return True  # The engine lists neither the owners of deleted items, nor names that are hidden.
        users = self._layer.inner.owners(Listing("user_id", counts=False), items_where(Filter(archived=None)))
        return any([await self._has_any(str(owner.value)) async for owner in users])

    async def _has_any(self, user_id: str) -> bool:
        if self._layer.ring.owner(user_id) not in self._owners:
            return False
        if user_id not in self._found:
            theirs = self._layer.opener.divided(Filter(metadata=MemoryMetadata(user_id=user_id), archived=None)).stored
            self._found[user_id] = any([self.is_one(stored) async for stored in self._layer.all_stored(theirs)])
        return self._found[user_id]

    def is_one(self, stored: MemoryItem) -> bool:
        """Return True if the key of a stored item was destroyed."""
        return is_sealed(stored) and key_id_of(sealed_text(stored)) in self._destroyed
