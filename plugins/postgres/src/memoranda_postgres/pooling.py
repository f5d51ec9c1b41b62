"""Finding out whether a pooler, such as PgBouncer, stands between us and the server, and what it keeps.

A pooler in transaction mode gives each transaction to whichever server connection is free. Nothing that lives longer
than a transaction may be relied on there: no session's advisory lock, no ``SET``, no temporary table, no LISTEN, and
of this store none of them is. Prepared statements are what a driver relies on by itself. Some poolers keep
track of them (PgBouncer from 1.21 on); with others they are found missing, now and then, on a busy day.

Neither a version nor a mode is told to clients. But a pooler makes up its own process id for a connection, which is
not the one that the server names; and one that keeps track of prepared statements gives them other names on the server.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from memoranda.store import Finding


@dataclass(frozen=True, slots=True)
class Pooler:
    """Whether a pooler was met, and whether prepared statements can be relied on."""

    met: bool
    keeps_statements: bool


DIRECT = Pooler(met=False, keeps_statements=True)


async def look_for_pooler(connection: Any, timeout: float) -> Pooler:
    """Return what stands between this connection and the server. Needs a transaction."""
    name = f"memoranda_{secrets.token_hex(8)}"
    seen = f"EXISTS (SELECT FROM pg_prepared_statements WHERE name = '{name}')"
    statement = await connection.prepare(f"SELECT pg_backend_pid(), {seen}", name=name, timeout=timeout)
    process, as_named = await statement.fetchrow(timeout=timeout)
    if process == connection.get_server_pid():
        return DIRECT
    if as_named:
        # It would stay with the server's connection, which others get.
        await connection.execute(f"DEALLOCATE {name}", timeout=timeout)
    return Pooler(met=True, keeps_statements=not as_named)


def pooler_finding(pooler: Pooler, cached: int) -> Finding:
    """Return what ``memoranda doctor`` says of it; ``cached`` is how many prepared statements a connection keeps."""
    if not pooler.met:
        return Finding("pooler", True, "none: connections lead to the server itself")
    if pooler.keeps_statements:
        return Finding("pooler", True, "there is one, and it keeps prepared statements; they are used")
    if not cached:
        return Finding(
            "pooler",
            True,
            "there is one that does not keep prepared statements (PgBouncer does from 1.21 on); none are used, and "
            "each call is a transaction of its own, which takes two round trips more",
        )
    return Finding(
        "pooler",
        False,
        f"there is one that does not keep prepared statements, and up to {cached} are used on each connection; calls "
        f"fail now and then unless it is in session mode",
        "Leave statement_cache_size out, or set it to 0, also where an asyncpg pool of your own is created.",
    )
