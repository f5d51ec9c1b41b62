"""The entry point: says what the plugin offers. Nothing else is imported here."""

from __future__ import annotations

from memoranda.plugins import Backend, hookimpl


@hookimpl
def memoranda_backends() -> list[Backend]:
    """Offer the store for URLs that start with ``jsonl:``."""
    return [
        Backend(
            "jsonl",
            schemes=("jsonl",),
            target="memoranda_jsonl.store:JsonLinesStore",
            api=1,
            summary="A file that only grows, for several processes at once; no server, no library",
        )
    ]
