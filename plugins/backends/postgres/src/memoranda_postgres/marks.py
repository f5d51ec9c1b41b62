"""By what changes of rows are noticed, whoever made them.

A row's *mark* is a hash of its number and of the transaction that wrote it: every change of a row gives it another one.
If the server's snapshot is the one of an earlier look, nothing was written at all.
"""

from __future__ import annotations

from memoranda_postgres.dialect import SEQUENCE

MARK = f"hashint8extended({SEQUENCE}, xmin::text::bigint)"
SNAPSHOT = "pg_current_snapshot()::text || ' ' || pg_postmaster_start_time()::text"


def lists_open_transactions(snapshot: str) -> bool:
    """Return True if a snapshot, as text, lists every open transaction; on a standby it lists none."""
    oldest, following, listed = snapshot.split(" ")[0].split(":")
    return oldest == following or listed != ""
