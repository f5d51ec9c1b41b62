"""``memoranda keys``, ``encrypt`` and ``decrypt``. Only the command imports this module."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import agree, counted, items_text, measured_progress, report, say
from memoranda_encrypt import opening, sealing
from memoranda_encrypt.keyring import KeyInfo, KeyRing
from memoranda_encrypt.masters import LocalMasterKey
from memoranda_encrypt.opening import ring_of, with_encryption

if TYPE_CHECKING:
    from memoranda.store import Progress, Store

keys = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Make, list, rotate and destroy the keys of encrypted stores."
)


@dataclass(frozen=True, slots=True)
class Keys:
    """Where the keys are."""

    keys_file: Annotated[str | None, option("--keys FILE", "The key ring; otherwise that of MEMORANDA_KEYS.")] = None
    master_key: Annotated[
        str | None, option("--master-key FILE", "The master key; otherwise that of the environment.")
    ] = None

    def ring(self) -> KeyRing:
        """Return the key ring, which may be a new one."""
        return ring_of(self.keys_file, self.master_key)

    def existing_ring(self) -> KeyRing:
        """Return the key ring, which must exist."""
        ring = self.ring()
        ring.open(create=False)
        return ring


User = Annotated[str | None, option("--user -u USER", "Only the keys of this user.")]


@keys.command()
def new(
    file: Annotated[str, argument("FILE", "The file to make. Keep it apart from all backups.")],
) -> None:
    """Make a file with a new master key, readable by its owner only."""
    LocalMasterKey.make_file(file)
    say(
        f"{file} holds a new master key. Without it, nothing that it protects can be read: keep a copy in a safe place."
    )


@keys.command("list")
@options.grouped("where", Keys)
def list_(where: Keys, as_json: options.Json = False) -> None:
    """Show the data keys of a ring: whose they are, and if they are active, retired or destroyed."""
    found = where.existing_ring().list()
    report(
        {"keys": [asdict(each) for each in found]},
        f"{counted(len(found), 'key')}.",
        as_json=as_json,
        columns=(("key", {"no_wrap": True}), "user", "state", "since", "master key"),
        rows=[(each.id, _whose(each), each.state, each.changed_at, each.master) for each in found],
    )


@keys.command()
@options.grouped("where", Keys)
@options.on_store
def rotate(
    where: Keys,
    user: User = None,
    new_master_key: Annotated[
        str | None, option("--new-master-key FILE", "Only wrap the keys anew, with this master key.")
    ] = None,
    *,
    target: options.Target,
) -> None:
    """Give users new data keys and encrypt their items with them, or wrap all keys with a new master key.

    Readers and writers go on meanwhile. If it is interrupted, run it again: it goes on where it was.
    """
    ring = where.existing_ring()
    if new_master_key is not None:
        fresh = KeyRing(LocalMasterKey.from_file(new_master_key), ring.path, retired_masters=[ring.master])
        fresh.open(create=False)
        count = fresh.rewrap()
        fresh.close()
        target.report({"rewrapped": count}, f"{count:,} keys are wrapped with the new master key. Destroy the old one.")
        return
    done = _converted(target, "rotating", lambda store, note: opening.rotate(store, user, progress=note), ring)
    target.report(asdict(done), f"{items_text(done.items)} encrypted with new keys; {done.keys:,} old keys destroyed.")


@keys.command()
@options.grouped("where", Keys)
def destroy(
    user: Annotated[str, argument("USER", "The user's id.")],
    where: Keys,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Destroy the keys of a user. No item of theirs can be read again, in any store, backup or export of ciphertext."""
    ring = where.existing_ring()
    count = len([each for each in ring.list() if each.user_id == user and each.state != "destroyed"])
    if not count:
        raise CommandError(f"The key ring {ring.label} has no key of {user!r}.", ExitCode.NOT_FOUND)
    agree(f"Destroy {count:,} keys of {user!r}? Nothing can bring them back.", yes=yes)
    destroyed = ring.destroy(user)
    document = {"user_id": user, "keys_destroyed": destroyed}
    report(document, f"{destroyed:,} keys of {user!r} are destroyed.", as_json=as_json)


@options.grouped("where", Keys)
@options.on_store
def encrypt(where: Keys, *, target: options.Target) -> None:
    """Encrypt an existing store in place. If it is interrupted, run it again: it goes on where it was.

    Afterwards, open the store as encrypted+URL. Backups that were made before are as readable as they were.
    """
    ring = where.ring()
    done = _converted(target, "encrypting", lambda store, note: opening.encrypt(store, ring, progress=note))
    _report(target, done, "encrypted")


@options.grouped("where", Keys)
@options.on_store
def decrypt(
    where: Keys,
    yes: options.Yes = False,
    *,
    target: options.Target,
) -> None:
    """Decrypt a store in place. If it is interrupted, run it again: it goes on where it was."""
    ring = where.existing_ring()
    agree("Store everything in clear text again?", yes=yes)
    done = _converted(target, "decrypting", lambda store, note: opening.decrypt(store, ring, progress=note))
    _report(target, done, "decrypted")


def _converted(
    target: options.Target,
    what: str,
    work: Callable[[Store, Progress], Awaitable[opening.Converted]],
    ring: KeyRing | None = None,
) -> opening.Converted:
    """Open the store of a URL, with or without the prefix, and convert it with a bar.

    It is opened with encryption if a ring is given, and as it is stored otherwise.
    """
    from memoranda_commands.exits import run
    from memoranda_commands.stores import chosen_url

    plain = replace(target, url=chosen_url(target.url).removeprefix(f"{sealing.URL_PREFIX}+"))

    async def converted() -> opening.Converted:
        chosen = plain.unopened("change")
        if ring is None:
            chosen.wrapper = sealing.URL_PREFIX
        else:
            with_encryption(chosen, ring)
        async with chosen:
            with measured_progress(what, await chosen.count()) as note:
                return await work(chosen, note)

    return run(converted())


def _report(target: options.Target, done: opening.Converted, what: str) -> None:
    target.report(asdict(done), f"{items_text(done.items)} {what}.{f' {done.pending}' if done.pending else ''}")


def _whose(key: KeyInfo) -> str:
    if key.state == "destroyed":
        return "(destroyed)"
    return "(items without a user)" if key.user_id is None else key.user_id
