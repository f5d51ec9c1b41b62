"""The entry point: names what this distribution adds to memoranda; it is imported when it is used."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, ItemTypeSpec, ObserverSpec, hookimpl


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


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the command."""
    return [
        CommandSpec(
            "receipts",
            target="memoranda_receipts.commands:app",
            api=1,
            summary="What models were shown, replayed and compared.",
            section="Memories",
            examples=(
                "receipts list --user ada --session trip",
                "receipts list --user ada --item 4c1f",
                "receipts replay 8f2c --user ada --format openai",
                "receipts diff 8f2c 91d0 --user ada",
            ),
        )
    ]
