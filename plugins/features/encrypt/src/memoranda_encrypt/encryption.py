"""What the parts of the encryption layer ask of it."""

from __future__ import annotations

from typing import Protocol

from memoranda.store import Capability, Ranker
from memoranda.store.backend import Engine
from memoranda.store.lifetime_layer import Lifetimes
from memoranda_encrypt.keyring import KeyRing
from memoranda_encrypt.opened_items import ItemOpener
from memoranda_encrypt.vectors import VectorSealer


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

    @property
    def hides_deleted(self) -> bool:
        """True if the engine keeps deleted items, which a scan can include."""
        ...

    @property
    def vectors(self) -> VectorSealer | None:
        """What makes vectors before anything is encrypted; None in a store without an embedder."""
        ...

    async def ranker(self) -> Ranker:
        """Return what ranks text in this store."""
        ...
