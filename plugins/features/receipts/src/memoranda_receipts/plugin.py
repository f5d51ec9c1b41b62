"""The entry point: names what this distribution adds to memoranda; it is imported when it is used."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, ItemTypeSpec, ObserverSpec, WrapperSpec, hookimpl


@hookimpl
def memoranda_item_types() -> list[ItemTypeSpec]:
    """Offer the item types of receipts and of earlier versions."""
    receipt, revision = "memoranda_receipts.records:ReceiptMemory", "memoranda_receipts.revisions:RevisionMemory"
    return [
        ItemTypeSpec("receipt", target=receipt, api=1, summary="What a model was shown at one moment."),
        ItemTypeSpec("revision", target=revision, api=1, summary="An earlier version of an item."),
    ]


@hookimpl
def memoranda_wrappers() -> list[WrapperSpec]:
    """Offer the store that keeps earlier versions."""
    target = "memoranda_receipts.revisions:with_revisions"
    summary = "Keeps earlier versions of items, and reads a scope as it was."
    return [WrapperSpec("revisions", prefix="revisions", target=target, api=1, summary=summary)]


@hookimpl
def memoranda_observers() -> list[ObserverSpec]:
    """Offer the observer that records every window and context, and give every store the one that cleans receipts."""
    recorder, watch = "memoranda_receipts.recording:Recorder", "memoranda_receipts.purging:PurgeWatch"
    summary = "Takes the content of purged items out of receipts."
    return [
        ObserverSpec("receipts", target=recorder, api=1, summary="Records what models are shown."),
        ObserverSpec("receipts-purge", target=watch, api=1, summary=summary, auto=True),
    ]


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
