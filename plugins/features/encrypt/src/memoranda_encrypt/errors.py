"""What can go wrong with keys and sealed items. No message holds a key or anything of an item's content."""

from __future__ import annotations

from memoranda.errors import CorruptStoreError, StoreError


class KeyRingError(StoreError):
    """The key ring or its master key cannot be used; the message says why and what to do."""


class PlainStoreError(StoreError):
    """A store of plain items was opened as an encrypted one."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"{store} holds items, and none of them is encrypted. Run 'memoranda encrypt' first, or open it without "
            f"encryption."
        )


class UnsealingError(CorruptStoreError):
    """A stored item cannot be decrypted. ``item_id`` names it."""

    def __init__(self, item_id: str, reason: str) -> None:
        super().__init__(f"The stored item {item_id!r} cannot be decrypted: {reason}")
        self.item_id = item_id


class DamagedItemError(UnsealingError):
    """The text or a readable field of a sealed item is not what was stored."""

    def __init__(self, item_id: str, version: int) -> None:
        super().__init__(
            item_id,
            f"its text, or a field that is stored beside it, is not what was sealed as version {version}. It was "
            f"damaged, changed, or copied there from another item, owner or version; restore it from a backup.",
        )


class NotSealedError(UnsealingError):
    """An item lies in an encrypted store without a seal."""

    def __init__(self, item_id: str) -> None:
        super().__init__(
            item_id, "it is not encrypted. Run 'memoranda encrypt' if the store held items before, or remove it."
        )


class MissingKeyError(UnsealingError):
    """The key ring does not have the key of an item."""

    def __init__(self, item_id: str, key_id: str, ring: str) -> None:
        super().__init__(
            item_id, f"the key ring {ring} has no key {key_id!r}. Open the store with the ring it was made with."
        )
        self.key_id = key_id


class DestroyedKeyError(UnsealingError):
    """The key of an item was destroyed, so that no copy of the item can be read again."""

    def __init__(self, item_id: str, key_id: str, at: str) -> None:
        super().__init__(
            item_id, f"its key {key_id!r} was destroyed at {at}, when its user was forgotten. Purge the item."
        )
        self.key_id = key_id
