"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, ObserverSpec, hookimpl


@hookimpl
def memoranda_observers() -> list[ObserverSpec]:
    """Offer what knows grants, to every store."""
    return [
        ObserverSpec(
            "spaces",
            target="memoranda_spaces.watching:SpacesWatch",
            api=1,
            summary="Knows what is granted, and withdraws what was made from a purged source.",
            auto=True,
        )
    ]


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the commands for spaces and grants."""
    return [
        CommandSpec(
            "spaces",
            target="memoranda_spaces.commands:spaces",
            api=1,
            summary="List spaces, and say who can read an item.",
            section="Memories",
            examples=("spaces list", "spaces who-can-read 4c1f", "spaces publish 4c1f acme-support --by vera"),
        ),
        CommandSpec(
            "grants",
            target="memoranda_spaces.commands:grants",
            api=1,
            summary="List, give and revoke grants, and keep groups.",
            section="Memories",
            examples=(
                "grants list --space acme-support",
                "grants give acme-support --to user:ada --may write --by vera",
                "grants revoke acme-support --to user:ada --by vera",
            ),
        ),
    ]
