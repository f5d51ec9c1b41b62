"""Owners as keyed hashes, blind indexes, URLs, master keys, and what a ring fixes when it is made."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from ciphertext import all_stored

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import InputError
from memoranda.store import InMemoryStore, Store
from memoranda_backend.ranking import HashingEmbeddings, Weights
from memoranda_encrypt import KeyRing, KeyRingError, LocalMasterKey, MasterKey, with_encryption
from memoranda_sqlite import SQLiteMemoryStore


def said(content: str, **owner: Any) -> HumanMemory:
    return HumanMemory(content=content, metadata=MemoryMetadata(**{"user_id": "ada@example.org", **owner}))


async def test_hidden_owners_are_stored_as_keyed_hashes() -> None:
    ring = KeyRing(LocalMasterKey.generate(), hide_owners=True)
    async with with_encryption(InMemoryStore(), ring) as store:
        item = said("tea", session_id="trip", agent_id="agent", namespace=("mail", "private"))
        await store.add(item)
        (held,) = [each async for each in all_stored(store)]
        shown = held.model_dump_json()
        assert not [name for name in ("ada@example.org", "trip", '"agent"', "mail", "private") if name in shown]
        mine = store.scoped(user_id="ada@example.org")
        assert (await mine.search(where={"session_id": {"$in": ["trip"]}}))[0].metadata == item.metadata
        assert await store.search(metadata=MemoryMetadata(user_id="ben@example.org")) == []
        assert [owner.value async for owner in store.owners("user_id")] == ["ada@example.org"]
        assert [owner.value async for owner in store.owners("namespace", depth=1)] == [("mail",)]
        branch = await mine.fork("trip", at=item.id)
        await mine.add(said("with milk", session_id=branch))
        window = await mine.window(metadata=MemoryMetadata(session_id=branch))
        assert [each.content for each in window] == ["tea", "with milk"]


async def test_a_blind_index_compares_values_that_the_store_cannot_read() -> None:
    ring = KeyRing(LocalMasterKey.generate(), indexed=["ticket"])
    async with with_encryption(InMemoryStore(), ring) as store:
        values = [7, 7.0, "7", True, {"a": [1, {"b": 2.0}]}]
        await store.add_many([said(str(n), extra={"ticket": value, "mood": n}) for n, value in enumerate(values)])
        held = [each async for each in all_stored(store)]
        assert all(len(each.metadata.extra) == 1 for each in held)
        assert "ticket" not in str([each.metadata.extra for each in held])
        assert len({str(each.metadata.extra) for each in held}) == 4  # 7 and 7.0 are equal.
        for asked, found in ((7, "10"), ("7", "2"), (True, "3"), ({"a": [1.0, {"b": 2}]}, "4")):
            by_filter = await store.search(metadata=MemoryMetadata(extra={"ticket": asked}))
            by_where = await store.search(where={"ticket": {"$in": [asked]}})
            assert "".join(each.content for each in by_filter) == found
            assert [each.id for each in by_where] == [each.id for each in by_filter]
        assert len(await store.search(where={"ticket": {"$ne": 7}})) == 3
        assert len(await store.search(where={"ticket": {"$exists": False}})) == 0
        assert [each.content for each in await store.search(where={"mood": {"$gt": 3}})] == ["4"]


async def test_what_a_ring_was_made_with_cannot_change(tmp_path: Path, master: LocalMasterKey) -> None:
    KeyRing(master, tmp_path / "keys.db", hide_owners=True).open()
    again = KeyRing(master, tmp_path / "keys.db")
    again.open()
    assert again.hide_owners
    with pytest.raises(KeyRingError, match="hide_owners=True"):
        KeyRing(master, tmp_path / "keys.db", hide_owners=False).open()


async def test_a_url_with_the_prefix_takes_its_keys_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LocalMasterKey.make_file(tmp_path / "master.key")
    monkeypatch.setenv("MEMORANDA_MASTER_KEY_FILE", str(tmp_path / "master.key"))
    monkeypatch.setenv("MEMORANDA_KEYS", str(tmp_path / "keys.db"))
    async with memoranda.open(f"encrypted+sqlite:///{tmp_path}/a.db") as store:
        await store.add(said("tea"))
    monkeypatch.setenv("MEMORANDA_MASTER_KEY", (tmp_path / "master.key").read_text())
    async with memoranda.open(f"sqlite:///{tmp_path}/a.db", encrypt=True, access="read") as store:
        assert [item.content for item in await store.search()] == ["tea"]
    monkeypatch.delenv("MEMORANDA_MASTER_KEY")
    monkeypatch.delenv("MEMORANDA_MASTER_KEY_FILE")
    monkeypatch.delenv("MEMORANDA_KEYS")
    url = f"encrypted+sqlite:///{tmp_path}/a.db?keys={tmp_path}/keys.db&master_key={tmp_path}/master.key"
    async with memoranda.open(url) as store:
        assert [item.content for item in await store.search()] == ["tea"]
    with pytest.raises(KeyRingError, match="MEMORANDA_MASTER_KEY"):
        memoranda.open(f"encrypted+sqlite:///{tmp_path}/a.db")


async def test_a_store_that_is_only_read_makes_no_ring(tmp_path: Path, master: LocalMasterKey) -> None:
    ring = KeyRing(master, tmp_path / "keys.db")
    async with memoranda.open(f"sqlite:///{tmp_path}/a.db"):
        pass
    with pytest.raises(KeyRingError, match="no key ring"):
        await memoranda.open(f"sqlite:///{tmp_path}/a.db", encrypt=ring, access="read").init()
    assert not (tmp_path / "keys.db").exists()


@pytest.mark.parametrize("text", ["", "short", base64.b64encode(b"x" * 31).decode(), "ä"])
def test_what_is_no_master_key_is_refused_without_repeating_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "master.key").write_text(text)
    with pytest.raises(KeyRingError, match=r"master\.key") as raised:
        LocalMasterKey.from_file(tmp_path / "master.key")
    assert not text or text not in str(raised.value)


def test_a_new_master_key_is_for_its_owner_alone_and_replaces_none(tmp_path: Path) -> None:
    LocalMasterKey.make_file(tmp_path / "master.key")
    assert (tmp_path / "master.key").stat().st_mode & 0o077 == 0
    with pytest.raises(KeyRingError, match="exists"):
        LocalMasterKey.make_file(tmp_path / "master.key")


async def test_a_master_key_may_be_anywhere_and_is_asked_once_for_each_key(tmp_path: Path) -> None:
    class Remote:
        """Stands for a key management service."""

        name = "arn:key/1"

        def __init__(self) -> None:
            self._local = LocalMasterKey.generate()
            self.asked = 0

        def wrap(self, key: bytes, context: bytes) -> bytes:
            return self._local.wrap(key, context)

        def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
            self.asked += 1
            return self._local.unwrap(wrapped, context)

    remote = Remote()
    assert isinstance(remote, MasterKey)
    async with with_encryption(InMemoryStore(), KeyRing(remote, tmp_path / "keys.db")) as store:
        for number in range(20):
            await store.add(said(f"tea {number}"))
        assert len(await store.search(limit=50)) == 20
    assert remote.asked == 2  # The key of hashes, and that of the user.


def test_what_is_no_ring_is_refused() -> None:
    with pytest.raises(InputError, match="KeyRing"):
        memoranda.open("memory://", encrypt="secret")
    with pytest.raises(InputError, match="MasterKey"):
        KeyRing("secret")  # type: ignore[arg-type]


async def test_what_was_decrypted_is_gone_when_the_store_is_closed(tmp_path: Path, ring: KeyRing) -> None:
    import gc

    store = with_encryption(InMemoryStore(), ring)
    async with store:
        await store.add_many([said(f"plum {number}") for number in range(50)])
        await store.search(query="plum", mode="text")
    gc.collect()
    items = (held for held in gc.get_objects() if type(held) is HumanMemory)
    # Other tests in this process may have left items that were never filled in.
    kept = [item for item in items if getattr(item, "content", "").startswith("plum")]
    assert kept == []


async def test_search_by_meaning_keeps_working(tmp_path: Path, ring: KeyRing) -> None:
    url, model = f"sqlite:///{tmp_path}/a.db", HashingEmbeddings(64)
    texts = ["I drink green tea every morning.", "The printer is broken again.", "She paints the kitchen."]
    async with memoranda.open(url, embeddings=model) as plain, memoranda.open("memory://", encrypt=ring) as bare:
        assert "semantic" in plain.capabilities
        assert "semantic" not in bare.capabilities
    async with (
        memoranda.open(f"sqlite:///{tmp_path}/plain.db", embeddings=model) as plain,
        memoranda.open(f"sqlite:///{tmp_path}/sealed.db", embeddings=model, encrypt=ring) as sealed,
    ):
        items = [said(text) for text in texts]
        await plain.add_many(items)
        await sealed.add_many(items)
        for mode in ("text", "semantic", "hybrid"):
            expected = await plain.search_ranked(query="green tea", mode=mode)
            found = await sealed.search_ranked(query="green tea", mode=mode)
            assert [each.item.content for each in found] == [each.item.content for each in expected]
            assert [each.score for each in found] == pytest.approx([each.score for each in expected], abs=1e-6)
        await sealed.add(said("More green tea, please."))
        assert (await sealed.search(query="green tea", mode="semantic"))[0].content == "More green tea, please."


async def test_an_encrypted_store_ranks_with_its_own_weights(tmp_path: Path, ring: KeyRing) -> None:
    model, scores = HashingEmbeddings(64), []
    items = [said("I drink green tea every morning."), said("The printer is broken."), said("She paints the kitchen.")]
    for name, weights in (("default", None), ("plain", Weights(semantic=0.9)), ("sealed", Weights(semantic=0.9))):
        store = SQLiteMemoryStore(tmp_path / f"{name}.db", embeddings=model, weights=weights)
        async with with_encryption(store, ring) if name == "sealed" else store:
            await store.add_many(items)
            scores.append([each.score for each in await store.search_ranked(query="green tea kitchen", mode="hybrid")])
    assert scores[2] == pytest.approx(scores[1], abs=1e-6)
    assert scores[2] != pytest.approx(scores[0], abs=1e-6)


@pytest.mark.parametrize("mode", ["text", "hybrid"])
async def test_a_scope_that_was_ranked_before_is_ranked_as_it_is_now(tmp_path: Path, mode: Any) -> None:
    """Whatever another process has changed since: a search after it finds what a new process would find."""
    url, master, model = f"sqlite:///{tmp_path}/a.db", LocalMasterKey.generate(), HashingEmbeddings(64)

    def opened() -> Store:
        return memoranda.open(url, encrypt=KeyRing(master, tmp_path / "a.keys"), embeddings=model)

    async def found(store: Store) -> dict[str, float]:
        ranked = await store.scoped(user_id="ada@example.org").search_ranked(query="green tea", mode=mode)
        return {each.item.content: round(each.score, 6) for each in ranked}

    async with opened() as store, opened() as other:
        tea, printer = said("I drink green tea."), said("The printer is broken.")
        await other.add_many([tea, printer, said("Green tea for Ben.", user_id="ben@example.org")])
        assert "I drink green tea." in await found(store)
        changes: list[tuple[Any, bool]] = [
            (lambda: other.add(said("More green tea, please.")), True),
            (lambda: other.delete(tea.id), False),
            (lambda: other.restore(tea.id), True),
            (lambda: other.add(tea.model_copy(update={"content": "I drink coffee."})), False),
            (lambda: other.purge(printer.id), False),
            (lambda: other.add(said("Tea is green.", session_id="trip")), False),
        ]
        for change, shows_tea in changes:
            await change()
            async with opened() as fresh:
                assert await found(store) == await found(fresh)
            assert ("I drink green tea." in await found(store)) is shows_tea
        assert await other.purge(metadata=MemoryMetadata(user_id="ada@example.org")) == 3
        assert await found(store) == {}
