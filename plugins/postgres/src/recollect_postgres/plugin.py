"""What recollect-postgres offers to recollect."""

from __future__ import annotations

from recollect.hookspecs import Backend, hookimpl


@hookimpl
def recollect_backends() -> list[Backend]:
    """Return the PostgreSQL store."""
    return [
        Backend(
            "postgres",
            schemes=("postgresql", "postgres"),
            target="recollect_postgres.store:PostgresMemoryStore",
            api=1,
            summary="PostgreSQL through asyncpg: many processes and machines, text and vector search",
        )
    ]
