"""Translating asyncpg's errors to memoranda's, and deciding which calls may be retried."""

from __future__ import annotations

from urllib.parse import urlsplit

import asyncpg

from memoranda.errors import CorruptStoreError, InputError, MemoryError, StoreError, StoreUnavailableError

# The server stopped serving this connection before it did anything: it never stops between a commit and its answer. Or
# the driver found the connection closed before it sent anything.
NOT_DONE = (
    asyncpg.AdminShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InternalClientError,
)

# The transaction was rolled back in favour of others.
ROLLED_BACK = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)

READ_ONLY = (asyncpg.ReadOnlySQLTransactionError,)

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.CrashShutdownError,
    asyncpg.InterfaceError,
    OSError,
)

FOREIGN = (asyncpg.PostgresError, *NOT_DONE, *LOST)
"""Every error that is translated; any other is memoranda's own, or a bug that should be seen."""

_REFUSED_LOGIN = (asyncpg.InvalidAuthorizationSpecificationError,)


def location(dsn: str) -> str:
    """Return the host and database of a URL for messages, without anything that could be part of a password."""
    parts = urlsplit(dsn)
    # A password with an unescaped / ? or # extends into a later part of the URL, together with its @.
    if any("@" in part for part in (parts.path, parts.query, parts.fragment)):
        return "PostgreSQL"
    return f"PostgreSQL at {parts.netloc.rpartition('@')[2]}{parts.path}"


def may_retry(error: BaseException, *, repeatable: bool) -> bool:
    """Return True if the call may be repeated: if nothing was done, or if doing it twice is harmless."""
    if isinstance(error, TimeoutError):
        return False
    if isinstance(error, (*NOT_DONE, *ROLLED_BACK, *READ_ONLY)) or isinstance(error.__cause__, NOT_DONE):
        return True
    return repeatable and isinstance(error, LOST)


def translated(error: BaseException, where: str, timeout: float) -> MemoryError:
    """Return the error to raise for a driver's error. It quotes nothing of the statement or its values."""
    if isinstance(error, TimeoutError):
        return StoreUnavailableError(
            f"{where} did not answer within {timeout:g} seconds. A pending write may or may not have been done; "
            f"adding the same item again is safe."
        )
    if isinstance(error, READ_ONLY):
        return StoreUnavailableError(
            f"{where} takes no writes at present: it is read-only. After a failover, try again; with several hosts in "
            f"the URL, target_session_attrs=primary finds the one that takes writes."
        )
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return StoreUnavailableError(
            f"{where}: none of the hosts that answer is what the URL asks for, which is the primary unless "
            f"target_session_attrs says otherwise. After a failover, try again."
        )
    if isinstance(error, _REFUSED_LOGIN):
        return StoreUnavailableError(
            f"{where} refused the login. Check the user and the password, and that the server admits this host."
        )
    if isinstance(error, asyncpg.InvalidCatalogNameError):
        return StoreUnavailableError(f"{where}: there is no such database. Create it, for example with createdb.")
    if isinstance(error, asyncpg.ProtocolViolationError):
        return StoreUnavailableError(
            f"{where} refused the connection's settings. PgBouncer refuses settings like options or search_path "
            f"in the URL: leave them out, name the schema with schema=, or let PgBouncer ignore_startup_parameters."
        )
    if isinstance(error, LOST + NOT_DONE + ROLLED_BACK):
        return StoreUnavailableError(
            f"{where} could not be reached or broke off the call ({_kind(error)}). A pending write may or may not have "
            f"been done; adding the same item again is safe."
        )
    if isinstance(error, asyncpg.PostgresError):
        return _refusal(error, where)
    return StoreError(f"{where} could not do it ({_kind(error)}).")


def _refusal(error: asyncpg.PostgresError, where: str) -> MemoryError:
    if isinstance(error, asyncpg.ProgramLimitExceededError):
        return InputError(
            f"{where} cannot hold this: an id or a scope field is longer than its indexes take (about 2,600 bytes for "
            f"user and session together), or the item is too large. Nothing was changed."
        )
    if isinstance(error, (asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError)):
        return CorruptStoreError(f"{where} reports damaged data ({_kind(error)}). Restore it from a backup.")
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return StoreError(
            f"{where}: the user of this store lacks a privilege. It needs SELECT, INSERT, UPDATE and DELETE on the "
            f"memory tables, USAGE on their sequence, and CREATE on the schema the first time."
        )
    if isinstance(error, (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)):
        return StoreError(
            f"{where}: a pooler in between does not keep prepared statements ({_kind(error)}). Leave "
            f"statement_cache_size out, or set it to 0, also where an asyncpg pool of your own is created."
        )
    if isinstance(error, (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError)):
        return StoreError(
            f"{where}: a memory table is missing or is not as memoranda made it ({_kind(error)}). Open the store "
            f"again, or look at 'memoranda doctor'."
        )
    if error.sqlstate is not None and error.sqlstate[:2] in ("53", "57", "58"):
        return StoreUnavailableError(f"{where} could not do it at present ({_kind(error)}).")
    return StoreError(f"{where} refused the statement ({_kind(error)}).")


def _kind(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None)
    return f"{type(error).__name__}, SQLSTATE {state}" if state else type(error).__name__
