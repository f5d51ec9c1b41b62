"""The entry point: names what this distribution adds to memoranda; it is imported when it is used."""

from __future__ import annotations

from memoranda.plugins import ItemTypeSpec, ObserverSpec, hookimpl


@hookimpl
def memoranda_item_types() -> list[ItemTypeSpec]:
    """Offer the item type of receipts."""
    target = "memoranda_receipts.records:ReceiptMemory"
    return [ItemTypeSpec("receipt", target=target, api=1, summary="What a model was shown at one moment.")]


@hookimpl
def memoranda_observers() -> list[ObserverSpec]:
    """Offer the observer that records every window and context."""
    target = "memoranda_receipts.recording:Recorder"
    return [ObserverSpec("receipts", target=target, api=1, summary="Records what models are shown.")]
