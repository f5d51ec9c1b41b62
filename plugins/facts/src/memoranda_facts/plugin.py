"""The entry point: names what this distribution adds to memoranda; it is imported when it is used."""

from __future__ import annotations

from memoranda.plugins import ItemTypeSpec, hookimpl


@hookimpl
def memoranda_item_types() -> list[ItemTypeSpec]:
    """Offer the item type of facts."""
    return [
        ItemTypeSpec(
            "fact",
            target="memoranda_facts.records:FactMemory",
            api=1,
            summary="A change of what is known about a subject.",
        )
    ]
