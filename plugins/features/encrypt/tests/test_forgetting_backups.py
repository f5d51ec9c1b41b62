"""Destroying a user's key reaches the backups: they bring the user's items back, and nobody can read them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ciphertext import encryption, put, stored

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda_commands.stores import own_findings
from memoranda_encrypt import DestroyedKeyError, KeyRing, KeyRingError, LocalMasterKey, with_encryption
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_userdata import Digest, export_lines, forget

ADA, BEN = MemoryMetadata(user_id="ada"), MemoryMetadata(user_id="ben")


def said(user: str | None, number: int) -> HumanMemory:
    return HumanMemory(id=f"{user}-{number}", content=f"tea {number}", metadata=MemoryMetadata(user_id=user))


async def filled(path: Path, ring: KeyRing) -> None:
    async with with_encryption(SQLiteMemoryStore(path), ring) as store:
        await store.add_many([said(user, number) for user in ("ada", "ben", None) for number in range(3)])
        await store.delete("ada-0")


async def test_a_restored_backup_has_nothing_of_a_forgotten_user_and_all_of_the_others(
    tmp_path: Path, ring: KeyRing
) -> None:
    await filled(tmp_path / "store.db", ring)
    shutil.copy(tmp_path / "store.db", tmp_path / "yesterday.db")
    async with with_encryption(SQLiteMemoryStore(tmp_path / "store.db"), ring) as store:
        receipt = await forget(store, "ada")
    assert receipt.complete
    assert receipt.keys_destroyed == 1

    async with with_encryption(SQLiteMemoryStore(tmp_path / "yesterday.db"), ring) as store:
        with pytest.raises(DestroyedKeyError, match="'ada-1'"):
            await store.get("ada-1")
        assert await store.search(metadata=ADA) == []
        assert await store.search(query="tea", metadata=ADA, mode="text") == []
        assert {item.id async for item in store.scan()} == {f"{user}-{n}" for user in ("ben", None) for n in range(3)}
        assert [item.content for item in await store.search(metadata=BEN)] == ["tea 2", "tea 1", "tea 0"]
        assert len(await store.search(query="tea", mode="text")) == 6
        assert await store.count() == 6
        assert await store.count(include_deleted=True) == 6
        assert await store.count(metadata=ADA) == 0
        assert await store.count(metadata=BEN) == 3
        assert [(owner.value, owner.count) async for owner in store.owners()] == [("ben", 3)]
        exported = "".join([line async for line in export_lines(store, "backup", Digest(), deleted=True)])
        assert '"ada' not in exported
        again = await forget(store, "ada")
        assert await store.count(include_deleted=True) == 6
    assert (again.found, again.deleted, again.unreadable, again.removed, again.keys_destroyed) == (0, 0, 3, 3, 0)
    assert again.complete


async def test_a_store_without_keys_has_no_word_of_them_in_its_receipt(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "plain.db") as store:
        await store.add(said("ada", 1))
        assert (await forget(store, "ada")).keys_destroyed is None


async def test_a_user_who_comes_back_gets_a_new_key(store: Store) -> None:
    await store.add(said("ada", 1))
    await forget(store, "ada")
    await store.add(said("ada", 2))
    assert [item.content for item in await store.search(metadata=ADA)] == ["tea 2"]
    states = sorted(key.state for key in encryption(store).ring.list())
    assert states == ["active", "destroyed"]


async def test_a_destroyed_key_is_gone_from_the_file_and_from_other_processes(
    tmp_path: Path, ring: KeyRing, master: LocalMasterKey
) -> None:
    await filled(tmp_path / "store.db", ring)
    other = KeyRing(master, tmp_path / "keys.db")
    async with with_encryption(SQLiteMemoryStore(tmp_path / "store.db"), other) as store:
        assert await store.get("ada-1") is not None
        wrapped = [row.wrapped for row in ring._file.all() if row.wrapped is not None]
        ring.destroy("ada")
        await store.add(said("ada", 7))  # A writer looks at once, and makes a new key.
        with pytest.raises(DestroyedKeyError):
            await store.get("ada-1")
        assert await store.get("ada-7") is not None
    held = (tmp_path / "keys.db").read_bytes()
    assert sum(text in held for text in wrapped) == len(wrapped) - 1


async def test_an_older_copy_of_the_ring_is_useless_after_the_master_key_was_replaced(
    tmp_path: Path, ring: KeyRing, master: LocalMasterKey
) -> None:
    await filled(tmp_path / "store.db", ring)
    ring.close()
    shutil.copy(tmp_path / "keys.db", tmp_path / "keys-yesterday.db")
    new = LocalMasterKey.generate()
    replaced = KeyRing(new, tmp_path / "keys.db", retired_masters=[master])
    replaced.destroy("ada")
    assert replaced.rewrap() == 3
    assert replaced.rewrap() == 0
    with pytest.raises(KeyRingError, match="wrapped by the master key"):
        KeyRing(new, tmp_path / "keys-yesterday.db").open()
    async with with_encryption(SQLiteMemoryStore(tmp_path / "store.db"), KeyRing(new, tmp_path / "keys.db")) as store:
        assert len(await store.search(metadata=BEN)) == 3


async def test_the_ring_names_no_user(tmp_path: Path, ring: KeyRing) -> None:
    user = "somebody-from-nowhere"  # Too long to stand in a random number by chance, as a short name of hex digits may.
    async with with_encryption(SQLiteMemoryStore(tmp_path / "store.db"), ring) as store:
        await store.add_many([said(user, 1), said(None, 1)])
    assert user.encode() not in (tmp_path / "keys.db").read_bytes()
    assert {key.user_id for key in ring.list()} == {user, None}


async def test_doctor_tells_what_cannot_be_read(tmp_path: Path, ring: KeyRing) -> None:
    await filled(tmp_path / "store.db", ring)
    ring.destroy("ada")
    async with with_encryption(SQLiteMemoryStore(tmp_path / "store.db"), ring) as store:
        await put(store, await stored(store, "ben-1"))  # The same text as another version.
        finding = (await own_findings(store))[-1]
    assert (finding.name, finding.ok) == ("encryption", False)
    assert finding.detail == "9 items are sealed, 5 items can be decrypted, 3 are of forgotten users."
    assert "'ben-1'" in finding.remedy


@pytest.mark.parametrize("hide_owners", [False, True])
async def test_a_user_who_came_back_is_counted_without_what_a_backup_brings_back(
    tmp_path: Path, master: LocalMasterKey, hide_owners: bool
) -> None:
    ring = KeyRing(master, tmp_path / "keys.db", hide_owners=hide_owners)
    await filled(tmp_path / "store.db", ring)
    ring.destroy("ada")
    async with with_encryption(SQLiteMemoryStore(tmp_path / "store.db"), ring) as store:
        await store.add(said("ada", 7))
        assert await store.count(metadata=ADA) == len(await store.search(metadata=ADA)) == 1
        assert await store.count() == len(await store.search(limit=100)) == 7
        assert [item.id for item in await store.search(metadata=ADA, limit=1, offset=0)] == ["ada-7"]
        assert await store.count(include_deleted=True) == 7
        assert [(owner.value, owner.count) async for owner in store.owners()] == [("ada", 1), ("ben", 3)]
        newest = await store.pop(metadata=ADA, purge=True)
        assert newest is not None
        assert await store.pop(metadata=ADA) is None
        assert (await forget(store, "ada")).removed == 3
        assert [owner.value async for owner in store.owners()] == ["ben"]


async def test_forgetting_destroys_the_keys_below_revisions_too(ring: KeyRing) -> None:
    async with memoranda.open("memory://", encrypt=ring, revisions=True) as store:
        await store.add(said("ada", 1))
        receipt = await forget(store, "ada")
    assert (receipt.keys_destroyed, receipt.complete) == (1, True)
    assert [key.state for key in ring.list()] == ["destroyed"]
