"""The keys of a store: one for each user, one for items without a user, and one for keyed hashes.

A data key encrypts items and is wrapped by the master key. Wrapped keys lie in a file of their own, never in the store:
a backup of the store brings back no key that was destroyed.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from memoranda.errors import InputError
from memoranda.items import now_text
from memoranda.shapes import check_text
from memoranda_encrypt.key_file import KeyFile, KeyRow, State, put_setting
from memoranda_encrypt.masters import DestroyedKeyError, KeyRingError, MasterKey, MissingKeyError

MOST_KEYS = 4_096
"""How many unwrapped keys are held at a time; the least recently used one goes first."""

LOOK_AGAIN = 0.05
"""After how many seconds a reader looks if another process has destroyed or rotated keys. A writer always looks."""

GRACE = 3_600.0
"""How long a retired key is kept at least: a write that was sealed with it may still wait for a lock."""

_INDEX = "index"
_SIZE = 32


class DataKey(NamedTuple):
    """An unwrapped key."""

    id: str
    cipher: AESGCM


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """What ``memoranda keys list`` shows of a key. ``user_id`` is None for the key of items without a user.

    The user of a destroyed key is not known any more: ``owner`` is a keyed hash of the name.
    """

    id: str
    user_id: str | None
    owner: str
    state: State
    master: str
    created_at: str
    changed_at: str


class KeyRing:
    """Data keys in a file, wrapped by a master key.

    - ``master`` wraps new keys; ``retired_masters`` are those that wrapped keys before, until :meth:`rewrap` is done.
    - ``path`` is the file, which is made with its first key; ``":memory:"`` is for tests. Keep it apart from the store
      and its backups: see "Backups included" in the how-to "Forget a user".
    - ``hide_owners`` stores keyed hashes of users, sessions, tasks, agents and namespaces instead of their names.
    - ``indexed`` are keys of ``metadata.extra`` whose values get a blind index: the store can compare them, and sees
      which are equal, but not what they are.

    Both options belong to the ring: they are fixed when it is made, and None takes what it has. Several stores may
    share a ring; destroying a user's key then reaches all of them.
    """

    def __init__(
        self,
        master: MasterKey,
        path: str | os.PathLike[str] = ":memory:",
        *,
        retired_masters: Sequence[MasterKey] = (),
        hide_owners: bool | None = None,
        indexed: Iterable[str] | None = None,
    ) -> None:
        if not isinstance(master, MasterKey):
            raise InputError(
                "master must have name, wrap() and unwrap(): see memoranda_encrypt.MasterKey.", field="master"
            )
        self._file = KeyFile(path)
        self._master = master
        self._masters = {each.name: each for each in (*retired_masters, master)}
        self._asked: dict[str, Any] = {
            "hide_owners": hide_owners,
            "indexed": None if indexed is None else sorted(indexed),
        }
        self._lock = threading.RLock()
        self.epoch = 0
        """Goes up when keys that may be held elsewhere are no longer good."""
        self._wipe()

    def _wipe(self) -> None:
        self.epoch += 1
        self._by_id: dict[str, DataKey] = {}
        self._by_user: dict[str | None, DataKey] = {}
        self._secret = b""
        self._seen: bytes | None = None
        self._looked = float("-inf")

    def __repr__(self) -> str:
        return f"KeyRing({self._file.path!r}, master={self._master.name!r})"

    @property
    def label(self) -> str:
        """How messages name this ring."""
        return repr(self._file.path)

    @property
    def path(self) -> str:
        """The file of the ring."""
        return self._file.path

    @property
    def master(self) -> MasterKey:
        """The master key that wraps new keys."""
        return self._master

    @property
    def exists(self) -> bool:
        """True if the ring has been made."""
        return self._file.exists

    # Opening

    def open(self, *, create: bool = True) -> None:
        """Open the ring and check that its master key fits. Raises KeyRingError if not, or if there is no ring."""
        if not create and not self._file.exists:
            raise KeyRingError(
                f"There is no key ring at {self.label}. Give the path of the one that the store was made with."
            )
        with self._lock:
            self._file.open()
            self._index_secret()
            if self._settings is None:
                raise KeyRingError(f"The key ring {self.label} has lost its settings.")
            for name, asked in self._asked.items():
                if asked is not None and asked != self._settings[name]:
                    raise KeyRingError(
                        f"The key ring {self.label} was made with {name}={self._settings[name]!r}, and that cannot "
                        f"change. Copy the store into one with a new ring instead."
                    )

    def close(self) -> None:
        """Forget all unwrapped keys. The ring opens again when it is used."""
        with self._lock:
            self._wipe()
            self._file.close()

    @property
    def hide_owners(self) -> bool:
        """True if the store has keyed hashes instead of owners' names."""
        self._index_secret()
        return bool(self._settings and self._settings["hide_owners"])

    @property
    def indexed(self) -> tuple[str, ...]:
        """The keys of ``metadata.extra`` that have a blind index."""
        self._index_secret()
        return tuple(self._settings["indexed"]) if self._settings else ()

    _settings: dict[str, Any] | None = None

    def _index_secret(self) -> bytes:
        """Return the key of keyed hashes, made with the ring."""
        with self._lock:
            if not self._secret:
                row = self._file.active(_INDEX)
                if row is None and self._file.all():
                    row = self._file.active(_INDEX)  # Another process may have made the ring between the two looks.
                    if row is None:
                        raise KeyRingError(
                            f"The key ring {self.label} is damaged: it has keys, and not the one of its hashes. "
                            f"Restore it from its backup."
                        )
                if row is None:
                    chosen = {"hide_owners": bool(self._asked["hide_owners"]), "indexed": self._asked["indexed"] or []}
                    if self._file.setting("options") is None:
                        self._file.set("options", json.dumps(chosen))
                    row = self._file.add(self._new_row(_INDEX, None))
                self._secret = self._unwrapped(row)[0]
                self._settings = json.loads(self._file.setting("options") or "null")
            return self._secret

    # Keyed hashes

    def hashed(self, purpose: str, text: str) -> str:
        """Return a keyed hash of a text, of 128 bits; different for each purpose."""
        message = f"{purpose}\0{text}".encode()
        return hmac.new(self._index_secret(), message, hashlib.sha256).hexdigest()[:32]

    @property
    def fingerprint(self) -> str:
        """Identifies this ring. It never changes and reveals nothing about a key."""
        return self.hashed("ring", "")

    def has(self, key_id: str) -> bool:
        """Return True if the ring has a key of this id, or had one that was destroyed."""
        return self._file.by_id(key_id) is not None

    def knows(self, user_id: str) -> bool:
        """Return True if the ring has a key of a user, or had one that was retired or destroyed."""
        return bool(self._file.all(self.owner(user_id)))

    def destroyed(self) -> dict[str, str]:
        """Return the ids of all data keys that were destroyed, each with the keyed hash of its user."""
        return {row.id: row.owner for row in self._file.all() if row.state == "destroyed" and row.owner != _INDEX}

    def owner(self, user_id: str | None) -> str:
        """Return the keyed hash that the keys of a user have."""
        return self.hashed("no user", "") if user_id is None else self.hashed("user's key", user_id)

    # Keys

    def cached(self, user_id: str | None) -> DataKey | None:
        """Return the cached key for new items of a user, after checking the file for changes."""
        self.look()
        return self._by_user.get(user_id)

    def known(self, key_id: str) -> DataKey | None:
        """Return the cached key with this id."""
        return self._by_id.get(key_id)

    def look(self, within: float = 0.0) -> None:
        """Drop cached keys if another process changed the ring; do not look again ``within`` seconds."""
        now = time.monotonic()
        if now - self._looked < within:
            return
        with self._lock:
            state = self._file.state()
            if self._seen is not None and state != self._seen:
                secret, settings = self._secret, self._settings
                self._wipe()
                self._secret, self._settings = secret, settings
            self._seen, self._looked = state, now

    async def for_writing(self, user_id: str | None) -> DataKey:
        """Return the key for new items of a user; the first call stores a new one in the file."""
        key = self.cached(user_id)
        return await asyncio.to_thread(self._load_active, user_id) if key is None else key

    def _load_active(self, user_id: str | None) -> DataKey:
        with self._lock:
            owner = self.owner(user_id)
            row = self._file.active(owner)
            if row is None:
                row = self._file.add(self._new_row(owner, user_id))
                if self._seen == self._file.before:  # What is at hand is still good: only this key is new.
                    self._seen = self._file.after()
            key, name = self._unwrapped(row)
            if name != _name(user_id):
                raise KeyRingError(f"The key ring {self.label} is damaged: the key {row.id!r} is another user's.")
            return self._keep(DataKey(row.id, AESGCM(key)), user_id)

    async def load(self, needed: Iterable[tuple[str, str]]) -> None:
        """Unwrap the keys of these ids, each given with an item that needs it, so that :meth:`known` returns them.

        Raises MissingKeyError or DestroyedKeyError, naming the item.
        """
        missing = {key_id: item_id for key_id, item_id in needed if key_id not in self._by_id}
        if missing:
            await asyncio.to_thread(self.load_now, missing)

    def load_now(self, missing: Mapping[str, str]) -> dict[str, DataKey]:
        """Do what :meth:`load` does, in this thread, and return the keys; items are given by the ids of their keys."""
        found = {}
        for key_id, item_id in missing.items():
            with self._lock:
                row = self._file.by_id(key_id)
                if row is None:
                    raise MissingKeyError(item_id, key_id, self.label)
                if row.wrapped is None:
                    raise DestroyedKeyError(item_id, key_id, row.changed_at)
                found[key_id] = self._keep(DataKey(row.id, AESGCM(self._unwrapped(row)[0])))
        return found

    def _keep(self, key: DataKey, *user: str | None) -> DataKey:
        self._by_id[key.id] = key
        for user_id in user:
            self._by_user[user_id] = key
        while len(self._by_id) > MOST_KEYS:
            del self._by_id[next(iter(self._by_id))]
        while len(self._by_user) > MOST_KEYS:
            del self._by_user[next(iter(self._by_user))]
        return key

    def _new_row(self, owner: str, user_id: str | None) -> KeyRow:
        key_id, now = secrets.token_hex(8), now_text()
        wrapped = self._master.wrap(secrets.token_bytes(_SIZE) + _name(user_id), _context(key_id, owner))
        return KeyRow(key_id, owner, self._master.name, wrapped, "active", now, now)

    def _unwrapped(self, row: KeyRow) -> tuple[bytes, bytes]:
        master = self._masters.get(row.master)
        if master is None:
            raise KeyRingError(
                f"The key ring {self.label} was wrapped by the master key {row.master!r}, and was opened with "
                f"{self._master.name!r}. Open it with that one."
            )
        try:
            opened = master.unwrap(row.wrapped or b"", _context(row.id, row.owner))
        except KeyRingError:
            opened = b""
        except Exception as error:
            raise KeyRingError(f"The master key {row.master!r} failed with {type(error).__name__}.") from error
        if len(opened) < _SIZE:
            raise KeyRingError(f"The key {row.id!r} in the key ring {self.label} is damaged. Restore the ring.")
        return opened[:_SIZE], opened[_SIZE:]

    # The life of keys

    def list(self) -> list[KeyInfo]:
        """Return all data keys, oldest first. Each is unwrapped, since the user's name is wrapped with it."""
        found = []
        for row in self._file.all():
            if row.owner != _INDEX:
                name = b"" if row.wrapped is None else self._unwrapped(row)[1]
                user = name[1:].decode() if name[:1] == b"u" else None
                found.append(KeyInfo(row.id, user, row.owner, row.state, row.master, row.created_at, row.changed_at))
        return found

    def rewrap(self) -> int:
        """Wrap all keys that another master key has wrapped with this one, and return how many they were.

        What was done stays done if it is broken off; calling it again completes it.
        """
        rows = [row for row in self._file.all() if row.wrapped is not None and row.master != self._master.name]
        for row in rows:
            opened = b"".join(self._unwrapped(row))
            self._file.rewrap(row, self._master.name, self._master.wrap(opened, _context(row.id, row.owner)))
        return len(rows)

    def begin_rotation(self, user_id: str | None = None) -> str | None:
        """Retire the key of a user, or all data keys without one, unless a rotation is under way.

        Returns whose keys are rotated: a user, or None for all.
        """
        if user_id is not None:
            check_text(user_id, "user_id")
        owner = None if user_id is None else self.owner(user_id)
        with self._lock, self._file.transaction() as connection:
            begun = connection.execute("SELECT value FROM settings WHERE name = 'rotating'").fetchone()
            if begun is not None:
                found: str | None = json.loads(begun[0])
                return found
            where, values = ("owner <> ?", (_INDEX,)) if owner is None else ("owner = ?", (owner,))
            sql = f"UPDATE keys SET state = 'retired', changed_at = ? WHERE state = 'active' AND {where}"
            connection.execute(sql, (now_text(), *values))
            put_setting(connection, "rotating", json.dumps(user_id))
        self._wipe()
        return user_id

    def end_rotation(self, used: Iterable[str], *, grace: float = GRACE) -> int:
        """Note that nothing waits for re-encryption, destroy retired keys that nothing uses, and return how many.

        Keys that were retired less than ``grace`` seconds ago stay for the next time.
        """
        kept = set(used)
        late = time.time() - grace
        old = [row for row in self._file.all() if row.state == "retired" and row.id not in kept]
        gone = [row.id for row in old if _seconds(row.changed_at) <= late]
        destroyed = self._file.destroy(gone) if gone else 0
        self._file.set("rotating", None)
        if destroyed:
            self._wipe()
        return destroyed

    @property
    def rotating(self) -> bool:
        """True if a rotation of data keys is under way."""
        return self._file.setting("rotating") is not None

    def destroy(self, user_id: str) -> int:
        """Destroy all keys of a user, for good, and return how many they were: no copy of an item can be read again."""
        check_text(user_id, "user_id")
        owner = self.owner(user_id)
        with self._lock:
            destroyed = self._file.destroy([row.id for row in self._file.all(owner)])
            self._wipe()
        return destroyed


def _name(user_id: str | None) -> bytes:
    return b"n" if user_id is None else b"u" + user_id.encode()


def _context(key_id: str, owner: str) -> bytes:
    return f"memoranda data key {key_id} of {owner}".encode()


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
