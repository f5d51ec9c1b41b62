"""What this distribution adds to recollect."""

from __future__ import annotations

from recollect.hookspecs import Backend, hookimpl


@hookimpl
def recollect_backends() -> list[Backend]:
    """Offer the SQLite store."""
    return [
        Backend(
            "sqlite",
            schemes=("sqlite",),
            target="recollect_sqlite.store:SQLiteMemoryStore",
            api=1,
            summary="memories in one SQLite file",
        )
    ]
