"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import Backend, hookimpl


@hookimpl
def memoranda_backends() -> list[Backend]:
    """Offer the SQLite store."""
    return [
        Backend(
            "sqlite",
            schemes=("sqlite",),
            target="memoranda_sqlite.store:SQLiteMemoryStore",
            api=1,
            summary="memories in one SQLite file",
        )
    ]
