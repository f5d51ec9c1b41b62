"""What reading and writing an encrypted store share: the inner store, the keys, and the items that were opened last."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from memoranda.embeddings import Embeddings
from memoranda.errors import InputError, StoreClosedError, StoreNotFoundError
from memoranda.items import BUILTIN_TYPES, SCOPE_FIELDS, MemoryItem
from memoranda.offloading import AT_ONCE, offload
from memoranda.store import BaseStore, Capability, Store, copy_item
from memoranda.store.fields import TRUSTED
from memoranda_encrypt.errors import DestroyedKeyError
from memoranda_encrypt.filters import Divided, divided
from memoranda_encrypt.items import Said, built, open_body
from memoranda_encrypt.keyring import LOOK_AGAIN, KeyRing
from memoranda_encrypt.marks import PREFIX, Unsealed, admitted
from memoranda_encrypt.owners import StoredNames
from memoranda_encrypt.sealing import is_plain, is_sealed, key_id_of, sealed_text

logger = logging.getLogger(__name__)

MOST_OPENED = 4_096
MOST_BYTES = 8 << 20
"""How many texts that were opened last are kept, and how many bytes they have together."""

_LETTERS_AT_ONCE = 200_000
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
        """Forget all of them."""
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
        """Keep what a stored item says."""
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


class SealedStore(BaseStore):
    """The inner store behind keys. ``unsealed="read"`` also shows items that are not encrypted (yet)."""

    def __init__(self, inner: Store, ring: KeyRing, *, unsealed: Unsealed = "refuse") -> None:
        if not isinstance(inner, Store) or not isinstance(ring, KeyRing):
            raise InputError("An encrypted store takes a store of memoranda and a KeyRing.", field="encrypt")
        if unsealed not in ("refuse", "read"):
            raise InputError("unsealed is 'refuse' or 'read'.", field="unsealed")
        super().__init__()
        self.inner = inner
        self.below = inner.bottom
        self.ring = ring
        self._unsealed = unsealed
        self.capabilities = inner.capabilities
        self.item_types = inner.item_types
        self.reranker = inner.reranker
        self.access = inner.access
        self._label = inner._label
        # The base class has these for all stores of a class; here they are those of the inner store.
        self.__dict__.update(default_mode=inner.default_mode, default_order=inner.default_order)
        self._texts = OpenedTexts()
        self._epoch = -1
        self._has_plain = False
        self._warned = False
        self._names: StoredNames | None = None

    def __repr__(self) -> str:
        return f"EncryptedStore({self.inner!r})"

    @property
    def embeddings(self) -> Embeddings | None:
        """The embedder of the inner store, which embeds here, before anything is encrypted."""
        found: Embeddings | None = getattr(self.inner, "embeddings", None)
        return found

    @property
    def hides_deleted(self) -> bool:
        """True if the inner store keeps deleted items, which a scan can include."""
        return Capability.DELETE in self.capabilities

    @property
    def names(self) -> StoredNames:
        """How the inner store names owners."""
        if self._names is None:
            self._names = StoredNames(self.ring)
        return self._names

    # Lifecycle

    async def _exists(self) -> bool:
        self._prepare()
        return await self.inner.exists()

    async def _alike(self) -> Sequence[str]:
        try:
            await self.inner.init()
        except StoreNotFoundError as error:
            return error.alike
        await self.inner.close()  # Another process has made it meanwhile.
        return ()

    def _prepare(self) -> None:
        """Let the inner store follow this one, and read items as built-in classes, which need no validation."""
        inner = self.inner
        inner.item_types, inner.access, inner.wrapper = BUILTIN_TYPES, self.access, PREFIX
        inner._label = self._label
        inner.clock = lambda: self.clock()

    async def _init(self) -> None:
        self._prepare()
        is_new = not self.ring.exists
        try:
            if is_new and self.access != "create":
                self.ring.open(create=False)
            await self.inner.init()
            try:
                self._has_plain = await admitted(self.inner, self.ring, self.label, self._unsealed)
            except BaseException:
                await self.inner.close()
                raise
        except BaseException:
            self.inner.wrapper = None
            raise
        self._names = None
        self._texts.keeps = True

    async def _read_mark(self) -> str | None:
        return None  # It is the inner store that says that it is encrypted.

    async def _close(self) -> None:
        self._texts.keeps = False
        self.forget_decrypted()
        self.ring.close()
        if self._names is not None:
            self._names.forget()
        await self.inner.close()
        self.inner.wrapper = None

    def forget_decrypted(self) -> None:
        """Wipe what is at hand of decrypted items."""
        self._texts.clear()

    def _follow(self) -> None:
        """Wipe what is at hand if keys have changed since the last look."""
        self._refuse_if_closed()
        self.ring.look(LOOK_AGAIN)
        if self._epoch != self.ring.epoch:
            self.forget_decrypted()
            self._epoch = self.ring.epoch

    def _refuse_if_closed(self) -> None:
        """Raise StoreClosedError for a call that was under way when the store was closed."""
        if self._state == "closed":
            raise StoreClosedError(self.label)

    def derived_id(self, text: str, *, digits: int = 32) -> str:
        """Return an id that is made from a text and the key of the ring's hashes: nobody can guess it without."""
        return self.ring.hashed("derived id", text)[:digits]

    def _divided(self, wanted: Any) -> Divided:
        return divided(wanted, self.names)

    # Opening items

    async def _opened(self, stored: MemoryItem) -> MemoryItem:
        """Return the item of a stored one. Raises UnsealingError, naming it, if that cannot be."""
        self._follow()
        found = self._texts.restored(stored, self.item_types)
        if found is not None:
            return found
        if self._unsealed == "read" and not is_sealed(stored):
            return self._as_typed(stored)
        key_id = key_id_of(sealed_text(stored))
        if self.ring.known(key_id) is None:
            await self.ring.load([(key_id, stored.id)])
        if len(stored.payload or "") > _LETTERS_AT_ONCE:
            return await asyncio.to_thread(self._open_one, stored)
        return self._open_one(stored)

    def _open_one(self, stored: MemoryItem) -> MemoryItem:
        key_id = key_id_of(sealed_text(stored))
        key = self.ring.known(key_id)
        if key is None:  # The store was closed meanwhile, or so many keys were loaded that this one had to go.
            self._refuse_if_closed()
            key = self.ring.load_now({key_id: stored.id})[key_id]
        said = open_body(stored, key)
        self._texts.keep(stored, said, self.item_types)
        return built(stored, said, self.item_types)

    def _opened_now(self, stored: MemoryItem) -> MemoryItem:
        """Return the item of a stored one, whatever it takes to unwrap its key."""
        return self._open_one(copy_item(stored))

    def _as_typed(self, stored: MemoryItem) -> MemoryItem:
        """Return an item that is not encrypted as the class that it is read as."""
        from memoranda.store import dump_item, load_item

        cls = self.item_types.get(stored.memory_type, MemoryItem)
        return stored if type(stored) is cls else load_item(dump_item(stored), self.item_types)

    async def _all_opened(self, stored: Sequence[MemoryItem], *, keep: bool = False) -> list[MemoryItem]:
        """Return the items of stored ones, without those whose user was forgotten: as if they had been purged.

        The stored ones may become these, unless they are to be kept. Raises UnsealingError, naming the first that is
        damaged or whose key is missing.
        """
        self._follow()
        if keep:
            stored = [copy_item(each) for each in stored]
        restored, types = self._texts.restored, self.item_types
        found = [restored(each, types) for each in stored]
        left = [each for each, item in zip(stored, found, strict=True) if item is None]
        if left:
            left = await self._with_keys(left)
            letters = sum([len(each.payload or "") for each in left])
            weight = max(len(left) * 4, letters * AT_ONCE // _LETTERS_AT_ONCE)
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
        if self._unsealed == "refuse" and not self._warned:
            self._warned = True
            logger.warning("%s holds items that are not encrypted; they are left out. Run 'memoranda encrypt'.", self)
        return self._unsealed == "read"

    def _open_each(self, stored: Sequence[MemoryItem]) -> list[MemoryItem]:
        return [self._open_one(each) if is_sealed(each) else self._as_typed(each) for each in stored]
