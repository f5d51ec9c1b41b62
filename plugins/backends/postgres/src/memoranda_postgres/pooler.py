"""Detecting a pooler, such as PgBouncer, between us and the server, and whether it supports prepared statements.

A pooler in transaction mode gives each transaction to any free server connection. Nothing that outlives a transaction
is reliable there: session-level advisory locks, ``SET``, temporary tables, LISTEN. This store uses none of them, but
the driver uses prepared statements. Some poolers keep track of them (PgBouncer from 1.21 on); with others they are
missing now and then, under load.

A client cannot see the version or mode of a pooler. But a pooler reports a process id of its own, not the server's, and
one that keeps track of prepared statements gives them other names on the server.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from memoranda.store import Finding


@dataclass(frozen=True, slots=True)
class Pooler:
    """True if there is a pooler, and whether prepared statements are reliable."""

    present: bool
    keeps_statements: bool


DIRECT = Pooler(present=False, keeps_statements=True)


async def look_for_pooler(connection: Any, timeout: float) -> Pooler:
    """Return the pooler between this connection and the server. Needs a transaction."""
    name = f"memoranda_{secrets.token_hex(8)}"
    seen = f"EXISTS (SELECT FROM pg_prepared_statements WHERE name = '{name}')"
    statement = await connection.prepare(f"SELECT pg_backend_pid(), {seen}", name=name, timeout=timeout)
    process, as_named = await statement.fetchrow(timeout=timeout)
    if process == connection.get_server_pid():
        return DIRECT
    if as_named:
        # It would stay on the server's connection, which other clients get.
        await connection.execute(f"DEALLOCATE {name}", timeout=timeout)
    return Pooler(present=True, keeps_statements=not as_named)


def pooler_finding(pooler: Pooler, cached: int) -> Finding:
    """Return the finding of ``memoranda doctor``; ``cached`` is the size of a connection's statement cache."""
    if not pooler.present:
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
