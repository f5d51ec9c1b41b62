"""The plugin hooks of memoranda-postgres."""

from __future__ import annotations

from memoranda.plugins import Backend, hookimpl


@hookimpl
def memoranda_backends() -> list[Backend]:
    """Return the PostgreSQL store."""
    return [
        Backend(
            "postgres",
            schemes=("postgresql", "postgres"),
            target="memoranda_postgres.store:PostgresMemoryStore",
            api=1,
            summary="PostgreSQL through asyncpg: many processes and machines, text and vector search",
        )
    ]
