"""An encrypted store says so in itself: nobody reads or writes around the encryption, and nobody by another ring."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ciphertext import all_stored, put, stored

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import InputError, UnsupportedError, WrappedStoreError
from memoranda.store import InMemoryStore, Store
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_commands.stores import own_findings
from memoranda_encrypt import (
    KeyRing,
    KeyRingError,
    LocalMasterKey,
    MissingKeyError,
    NotSealedError,
    PlainStoreError,
    decrypt,
    encrypt,
    with_encryption,
)
from memoranda_encrypt.sealing import write_mark
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_vector import VectorMemoryStore
from servers import LASTING_ENGINES, Engines

ADA = MemoryMetadata(user_id="ada")


def said(name: str, content: str = "tea", **fields: Any) -> HumanMemory:
    return HumanMemory(id=name, content=content, metadata=ADA, **fields)


@pytest.fixture(params=LASTING_ENGINES)
def url(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[str]:
    with engines.empty_store(request.param, tmp_path) as url:
        yield url


async def test_a_store_that_is_encrypted_refuses_a_plain_handle_by_name(url: str, ring: KeyRing) -> None:
    async with memoranda.open(url, encrypt=ring) as store:
        await store.add(said("sealed"))
    for access in ("create", "change", "read"):
        plain = memoranda.open(url, access=access)
        with pytest.raises(WrappedStoreError, match=r"is encrypted.*Open it as 'encrypted\+"):
            await plain.init()
    async with memoranda.open(url, encrypt=ring) as store:
        assert [item.content for item in await store.search(metadata=ADA)] == ["tea"]
        assert await store.count() == 1


async def test_it_says_so_before_its_first_item_and_after_its_last(url: str, ring: KeyRing) -> None:
    async with memoranda.open(url, encrypt=ring) as store:
        pass
    with pytest.raises(WrappedStoreError):
        await memoranda.open(url).init()
    async with memoranda.open(url, encrypt=ring) as store:
        await store.add(said("sealed"))
        await store.purge(metadata=ADA)
        await store.clear()
    with pytest.raises(WrappedStoreError):
        await memoranda.open(url).init()


async def test_the_ciphertext_can_be_read_and_purged_without_a_key_and_not_be_added_to(url: str, ring: KeyRing) -> None:
    async with memoranda.open(url, encrypt=ring) as store:
        await store.add(said("sealed"))
    async with memoranda.open(url, ciphertext=True) as store:
        assert [item.content for item in await store.search(metadata=ADA)] == [""]
        with pytest.raises(WrappedStoreError):
            await store.add(said("plain"))
        await store.purge("sealed")


async def test_another_ring_is_refused_before_anything_is_acknowledged(
    url: str, ring: KeyRing, tmp_path: Path, master: LocalMasterKey
) -> None:
    async with memoranda.open(url, encrypt=ring) as store:
        await store.add(said("sealed"))
    other = KeyRing(master, tmp_path / "other.db")
    other.open()
    with pytest.raises(KeyRingError, match="another key ring"):
        await memoranda.open(url, encrypt=other).init()
    missing = KeyRing(master, tmp_path / "missing.db")
    with pytest.raises(KeyRingError, match="no key ring at"):
        await memoranda.open(url, encrypt=missing).init()
    assert not (tmp_path / "missing.db").exists()
    async with memoranda.open(url, encrypt=ring) as store:
        await store.purge("sealed")
    async with memoranda.open(url, encrypt=other) as store:  # There is nothing left that only the first could read.
        await store.add(said("sealed"))


@pytest.mark.parametrize("hide_owners", [False, True])
async def test_an_older_copy_of_the_ring_gets_no_second_first_key_of_a_user(
    tmp_path: Path, master: LocalMasterKey, hide_owners: bool
) -> None:
    """What it sealed could not be read once the newest copy is back."""
    url, path = f"sqlite:///{tmp_path / 'agent.db'}", tmp_path / "keys"
    bob = MemoryMetadata(user_id="bob")
    async with memoranda.open(url, encrypt=KeyRing(master, path, hide_owners=hide_owners)) as store:
        await store.add(said("ada"))
        shutil.copy(path, tmp_path / "older")
        await store.add(HumanMemory(id="bob", content="milk", metadata=bob))

    async with memoranda.open(url, encrypt=KeyRing(master, tmp_path / "older")) as store:
        for write in (store.add, store.update, lambda item: store.add_many([item])):
            with pytest.raises(MissingKeyError, match="bob"):
                await write(HumanMemory(id="new", content="juice", metadata=bob))
        await store.add(said("more"))

    async with memoranda.open(url, encrypt=KeyRing(master, path)) as store:
        assert {item.id for item in await store.search()} == {"ada", "bob", "more"}
        await store.add(HumanMemory(id="new", content="juice", metadata=bob))


async def test_a_store_is_plain_again_once_it_was_decrypted(url: str, ring: KeyRing) -> None:
    async with memoranda.open(url) as store:
        await store.add(said("one"))
    await encrypt(memoranda.open(url), ring)
    with pytest.raises(WrappedStoreError):
        await memoranda.open(url).init()
    await decrypt(memoranda.open(url), ring)
    async with memoranda.open(url) as store:
        assert [item.content for item in await store.search(metadata=ADA)] == ["tea"]
        await store.add(said("two"))


@pytest.mark.parametrize("make", [InMemoryStore, lambda: VectorMemoryStore(HashingEmbeddings(16))])
async def test_a_store_in_memory_stays_encrypted_when_it_is_opened_again(
    make: Callable[[], Store], ring: KeyRing
) -> None:
    store = with_encryption(make(), ring)
    handle = store.scoped(user_id="ada")
    for _ in range(2):
        async with store:
            await store.add(said("sealed"))
            await handle.add_many([said("many")])
            assert [item.content async for item in all_stored(store)] == ["", ""]
            assert {item.content for item in await handle.search(mode="substring")} == {"tea"}
    with pytest.raises(InputError, match="not encrypted yet"):
        with_encryption(store, ring)


async def test_a_store_is_encrypted_before_it_is_opened(tmp_path: Path, ring: KeyRing) -> None:
    async with SQLiteMemoryStore(tmp_path / "store.db") as store:
        with pytest.raises(InputError, match="before it is opened"):
            with_encryption(store, ring)


async def test_vectors_that_were_made_elsewhere_are_refused(ring: KeyRing) -> None:
    async with with_encryption(VectorMemoryStore(HashingEmbeddings(16)), ring) as store:
        with pytest.raises(UnsupportedError, match="vectors"):
            await store.add_vectors([said("one")], [[0.0] * 16])
        assert await store.count() == 0


async def older(path: Path, ring: KeyRing, *plain: HumanMemory) -> None:
    """Make a file as an earlier release left it: with plain items beside sealed ones, and without a word of that."""
    async with with_encryption(SQLiteMemoryStore(path), ring) as store:
        await store.add_many([said("sealed"), HumanMemory(id="ben", content="milk")])
        await put(store, *plain)
        await write_mark(store.bottom, None)


async def test_one_plain_item_never_makes_a_user_unreadable(
    tmp_path: Path, ring: KeyRing, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    await older(path, ring, said("plain", "coffee"))
    for _ in range(2):
        async with with_encryption(SQLiteMemoryStore(path), ring) as store:
            assert [item.id for item in await store.search(metadata=ADA)] == ["sealed"]
            assert [item.id for item in await store.search(query="tea", metadata=ADA, mode="text")] == ["sealed"]
            assert [item.id for item in await store.window(metadata=ADA)] == ["sealed"]
            assert [item.id async for item in store.scan(metadata=ADA)] == ["sealed"]
            assert await store.count(metadata=ADA) == 1
            assert [(owner.value, owner.count) async for owner in store.owners()] == [("ada", 1)]
            with pytest.raises(NotSealedError, match="'plain'"):
                await store.get("plain")
    assert "memoranda encrypt" in caplog.text
    assert "coffee" not in caplog.text
    async with with_encryption(SQLiteMemoryStore(path), ring, unsealed="read") as store:
        assert {item.id for item in await store.search(metadata=ADA)} == {"plain", "sealed"}
        assert await store.count(metadata=ADA) == 2


async def test_encrypting_a_store_makes_its_plain_items_readable(tmp_path: Path, ring: KeyRing) -> None:
    path = tmp_path / "store.db"
    await older(path, ring, said("plain", "coffee"))
    async with with_encryption(SQLiteMemoryStore(path), ring) as store:
        finding = (await own_findings(store))[-1]
        assert (finding.name, finding.ok) == ("encryption", False)
        assert finding.detail == "2 items are sealed, 2 items can be decrypted, 1 are not encrypted."
        assert "memoranda encrypt" in finding.remedy
    assert (await encrypt(SQLiteMemoryStore(path), ring)).items == 1
    async with with_encryption(SQLiteMemoryStore(path), ring) as store:
        assert {item.content for item in await store.search(metadata=ADA)} == {"coffee", "tea"}
        assert await store.count() == 3
        assert (await own_findings(store))[-1].ok


async def test_what_has_no_seal_takes_no_place_on_a_page(tmp_path: Path, ring: KeyRing) -> None:
    path = tmp_path / "store.db"
    await older(path, ring, *[said(f"plain-{number}") for number in range(5)])
    async with with_encryption(SQLiteMemoryStore(path), ring) as store:
        assert [item.id for item in await store.search(limit=1)] == ["ben"]
        assert [item.id for item in await store.search(limit=1, offset=1)] == ["sealed"]
        await put(store, said("later"))
        assert [item.id for item in await store.search(limit=1)] == ["ben"]


async def test_popping_and_replacing_pass_over_what_has_no_seal(tmp_path: Path, ring: KeyRing) -> None:
    path = tmp_path / "store.db"
    await older(path, ring, said("plain", "coffee"), said("again", "coffee"))
    async with with_encryption(SQLiteMemoryStore(path), ring) as store:
        await store.add(said("again", "water"))
        popped = [await store.pop(metadata=ADA) for _ in range(3)]
        assert [item.id for item in popped if item is not None] == ["again", "sealed"]
        assert await stored(store, "plain") is not None


async def test_a_store_of_plain_items_is_not_taken_for_an_encrypted_one(tmp_path: Path, ring: KeyRing) -> None:
    path = tmp_path / "store.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add(said("plain"))
    with pytest.raises(PlainStoreError, match="memoranda encrypt"):
        await with_encryption(SQLiteMemoryStore(path), ring).init()
    async with SQLiteMemoryStore(path) as store:
        assert await store.count() == 1


async def test_an_older_file_is_refused_with_another_ring(
    tmp_path: Path, ring: KeyRing, master: LocalMasterKey
) -> None:
    await older(tmp_path / "store.db", ring)
    other = KeyRing(master, tmp_path / "other.db")
    other.open()
    with pytest.raises(KeyRingError, match="another key ring"):
        await with_encryption(SQLiteMemoryStore(tmp_path / "store.db"), other).init()


@pytest.fixture
def plain_url(command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL, without its prefix, of an encrypted file whose keys the environment names."""
    monkeypatch.setenv("MEMORANDA_KEYS", str(tmp_path / "keys.db"))
    monkeypatch.setenv("MEMORANDA_MASTER_KEY_FILE", str(tmp_path / "master.key"))
    assert command("keys", "new", tmp_path / "master.key").exit_code == 0
    plain = f"sqlite:///{tmp_path}/agent.db"
    assert command("add", "tea", "--user", "ada", "--store", f"encrypted+{plain}").exit_code == 0
    return plain


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "coffee", "--user", "ada"),
        ("search", "tea", "--user", "ada"),
        ("context", "--user", "ada"),
        ("stats",),
        ("doctor",),
        ("forget", "ada", "--yes"),
        ("purge", "--user", "ada", "--yes"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_refuses_the_plain_url_by_name(
    command: Callable[..., Any], plain_url: str, arguments: tuple[str, ...]
) -> None:
    done = command(*arguments, "--store", plain_url)
    assert done.exit_code != 0
    assert f"'encrypted+{plain_url}'" in "".join(done.output.split("\n"))
    found = command("search", "--user", "ada", "--store", f"encrypted+{plain_url}", "--json")
    assert [item["content"] for item in json.loads(found.stdout)] == ["tea"]


def test_doctor_counts_what_is_sealed(command: Callable[..., Any], plain_url: str) -> None:
    done = command("doctor", "--store", f"encrypted+{plain_url}")
    assert "1 items are sealed, 1 items can be decrypted" in done.output
