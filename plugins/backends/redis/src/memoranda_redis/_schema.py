"""Opening the data of a store: its schema version, migrations, and what a wrapper has noted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from memoranda.errors import CorruptStoreError, SchemaTooNewError
from memoranda.store.backend import Opening
from memoranda_redis._connection import Run, Script

MIGRATIONS: tuple[Callable[[Run], Awaitable[None]], ...] = ()
"""Migration n leads from schema version n + 1 to n + 2. Several processes may run one at once, and one that was
interrupted runs again, so each must be idempotent. A released migration never changes."""

_OPEN = Script(
    """
local found = redis.call('GET', KEYS[1] .. 'schema')
if found then return found end
if ARGV[2] ~= 'read' then redis.call('SET', KEYS[1] .. 'schema', ARGV[1]) end
return ARGV[1]
"""
)
"""Keys: the base. Arguments: the schema version of this release, and what the store is opened for. Returns the version
of the data."""

_MIGRATED = Script(
    """
local key = KEYS[1] .. 'schema'
if tonumber(redis.call('GET', key)) < tonumber(ARGV[1]) then redis.call('SET', key, ARGV[1]) end
"""
)
"""Keys: the base. Arguments: the schema version that the data has now."""

READ_MARK = Script("return redis.call('GET', KEYS[1] .. 'wrapper')")
"""Keys: the base. Returns what a wrapper, such as encryption, has noted in the store."""

WRITE_MARK = Script(
    """
if ARGV[1] == '' then redis.call('DEL', KEYS[1] .. 'wrapper') else redis.call('SET', KEYS[1] .. 'wrapper', ARGV[1]) end
"""
)
"""Keys: the base. Arguments: the text to note; an empty one removes it."""


async def bring_up_to_date(run: Run, opening: Opening, base: str) -> None:
    """Note the schema version in a new store, and migrate one of an earlier release.

    Raises SchemaTooNewError for one of a later release, and CorruptStoreError if another program uses the key.
    """
    latest = len(MIGRATIONS) + 1
    found = _version(await run(_OPEN, [latest, opening.access]), opening.label, base)
    if found > latest:
        raise SchemaTooNewError(opening.label, found, latest)
    for version, migration in enumerate(MIGRATIONS[found - 1 :], found + 1):
        await migration(run)
        await run(_MIGRATED, [version])


def _version(written: bytes, label: str, base: str) -> int:
    try:
        version = int(written)
    except ValueError:
        version = 0
    if version < 1:
        raise CorruptStoreError(
            f"{label} has a schema version that is not a positive number. Another program uses the key "
            f"{base}schema; choose another namespace, or restore a backup."
        )
    return version
