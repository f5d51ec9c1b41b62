"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, ItemTypeSpec, ObserverSpec, hookimpl


@hookimpl
def memoranda_observers() -> list[ObserverSpec]:
    """Offer the guard, and the redaction of personal data."""
    return [
        ObserverSpec(
            "guard",
            target="memoranda_guard.guard:Guard",
            api=1,
            summary="Judges every item by a policy before it is stored.",
            required=True,
        ),
        ObserverSpec(
            "redact",
            target="memoranda_guard.redactor:Redactor",
            api=1,
            summary="Hashes e-mail addresses and phone numbers before an item is stored.",
        ),
    ]


@hookimpl
def memoranda_item_types() -> list[ItemTypeSpec]:
    """Offer the type of items in quarantine."""
    target = "memoranda_guard.quarantine:QuarantinedMemory"
    return [ItemTypeSpec("quarantined", target=target, api=1, summary="An item that a policy keeps apart.")]


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the command for the quarantine."""
    return [
        CommandSpec(
            "quarantine",
            target="memoranda_guard.commands:quarantine",
            api=1,
            summary="List, approve or reject items that a policy keeps apart.",
            section="Memories",
            examples=("quarantine list --user ada", "quarantine approve 4c1f --by vera", "quarantine reject 4c1f"),
        )
    ]
