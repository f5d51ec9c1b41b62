"""A stored item can be read only where it was stored, and only as it was: anything else is noticed and named."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from ciphertext import encryption, purge, put, stored
from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import InMemoryStore, Store, copy_item
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_encrypt import (
    DamagedItemError,
    KeyRing,
    KeyRingError,
    LocalMasterKey,
    MissingKeyError,
    NotSealedError,
    UnsealingError,
    with_encryption,
)
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_vector import VectorMemoryStore

SECRET = "the plum blossom password"


def item(**fields: Any) -> HumanMemory:
    owner = {"user_id": "ada", "session_id": "s", **fields.pop("owner", {})}
    return HumanMemory(**{"content": SECRET, "metadata": MemoryMetadata(**owner), **fields})


async def forged(store: Store, changed: MemoryItem) -> None:
    """Put an item into the engine as it is, its version too, as one with access to its disk could."""
    await purge(store, changed.id)
    for _ in range(changed.version):
        await put(store, changed)
    encryption(store).forget_decrypted()


async def refused(store: Store, item_id: str) -> None:
    """Expect every way of reading the item to raise an error that names it and nothing of its content."""
    readings = [
        store.get(item_id),
        store.get_many([item_id]),
        store.search(limit=10),
        store.search(query="plum"),
        store.search(query="plum", mode="text"),
        store.window(),
    ]
    for reading in readings:
        with pytest.raises(UnsealingError, match=item_id) as raised:
            await reading
        assert "plum" not in str(raised.value)


async def test_nothing_that_is_said_reaches_the_engine(store: Store) -> None:
    said = AIMemory(
        content=SECRET,
        name="plum-name",
        tool_calls=[{"id": "plum-call", "args": {"q": "plum"}}],
        payload={"plum": 1},
        origin="plum.example",
        group="plum-group",
        metadata=MemoryMetadata(user_id="ada", extra={"plum": "plum"}),
        plum_field="plum",
    )
    await store.add(said)
    inner = await stored(store, said.id)
    assert "plum" not in inner.model_dump_json()
    assert (await store.get(said.id)) == said.model_copy(update={"version": 1})


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": MemoryMetadata(user_id="eve", session_id="s")},
        {"metadata": MemoryMetadata(user_id="ada", session_id="other")},
        {"metadata": MemoryMetadata(user_id="ada", session_id="s", namespace=("a",))},
        {"memory_type": "system"},
        {"status": "draft"},
        {"created_at": "2020-01-01T00:00:00+00:00"},
        {"updated_at": "2020-01-01T00:00:00+00:00"},
        {"trust": "operator"},
        {"version": 2},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_changed_field_is_noticed(store: Store, change: dict[str, Any]) -> None:
    await store.add(item(id="one"))
    held = await stored(store, "one")
    await forged(store, MemoryItem(**{**held.model_dump(), **change}))
    await refused(store, "one")


async def test_what_is_archived_is_authenticated(store: Store) -> None:
    await store.add(item(id="one"))
    held = await stored(store, "one")
    await forged(store, held.model_copy(update={"archived_by": "summary"}))
    with pytest.raises(DamagedItemError, match="one"):
        await store.get("one")


async def test_a_text_of_another_item_is_noticed(store: Store) -> None:
    await store.add_many([item(id="one"), item(id="two", content="plum two")])
    one, two = await stored(store, "one"), await stored(store, "two")
    await forged(store, one.model_copy(update={"payload": two.payload}))
    await refused(store, "one")


async def test_a_text_of_another_user_is_noticed(store: Store) -> None:
    await store.add_many([item(id="one"), item(id="two", owner={"user_id": "eve"})])
    one, two = await stored(store, "one"), await stored(store, "two")
    await forged(store, one.model_copy(update={"payload": two.payload}))
    await refused(store, "one")


async def test_an_older_text_of_the_same_item_is_noticed(store: Store) -> None:
    await store.add(item(id="one", content="plum before"))
    before = await stored(store, "one")
    await store.add(item(id="one"))
    now = await stored(store, "one")
    await forged(store, now.model_copy(update={"payload": before.payload}))
    await refused(store, "one")


async def test_a_vector_is_no_body(ring: KeyRing) -> None:
    async with with_encryption(VectorMemoryStore(HashingEmbeddings(16)), ring) as store:
        await store.add(item(id="one"))
        held = await stored(store, "one")
        assert held.__pydantic_extra__ is not None
        await forged(store, held.model_copy(update={"payload": held.__pydantic_extra__["vector"]}))
        with pytest.raises(DamagedItemError, match="one"):
            await store.get("one")


async def test_a_changed_vector_is_noticed(ring: KeyRing) -> None:
    async with with_encryption(VectorMemoryStore(HashingEmbeddings(16)), ring) as store:
        await store.add(item(id="one"))
        held = await stored(store, "one")
        changed = copy_item(held)
        assert changed.__pydantic_extra__ is not None
        text = changed.__pydantic_extra__["vector"]
        changed.__pydantic_extra__["vector"] = text[:-1] + ("A" if text[-1] != "A" else "B")
        await forged(store, changed)
        with pytest.raises(DamagedItemError, match="one"):
            await store.search(query="plum", mode="semantic")


async def test_an_item_without_a_seal_is_refused(store: Store) -> None:
    await put(store, item(id="one"))
    with pytest.raises(NotSealedError, match="one"):
        await store.get("one")


async def test_fields_that_were_added_beside_the_seal_are_not_believed(store: Store) -> None:
    await store.add(item(id="one"))
    held = await stored(store, "one")
    await forged(store, held.model_copy(update={"name": "mallory", "origin": "evil", "content": "obey"}))
    found = await store.get("one")
    assert found is not None
    assert (found.name, found.origin, found.content) == (None, None, SECRET)


SEALED = "payload"


@given(data=st.data(), content=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
async def test_every_single_bit_of_a_stored_item_counts(data: st.DataObject, content: str) -> None:
    """Flip one bit of one stored field: the item is not found, or refused, but never read as something else."""
    ring = KeyRing(LocalMasterKey.generate())
    async with with_encryption(InMemoryStore(), ring) as store:
        await store.add(
            AIMemory(
                id="one",
                content=content,
                trust="tool",
                archived_by="summary",
                tool_calls=[{"id": "call"}],
                metadata=MemoryMetadata(
                    user_id="ada", session_id="s", task_id="t", agent_id="a", namespace=("n", "m"), extra={"k": content}
                ),
            )
        )
        held = await stored(store, "one")
        values: dict[tuple[str, ...], str] = {
            (name,): str(getattr(held, name))
            for name in (SEALED, "id", "memory_type", "created_at", "updated_at", "archived_by", "trust")
        }
        values |= {("metadata", name): getattr(held.metadata, name) for name in ("user_id", "session_id", "task_id")}
        values |= {("metadata", "agent_id"): "a", ("namespace", "0"): "n", ("namespace", "1"): "m"}
        place = data.draw(st.sampled_from(sorted(values)) | st.just((SEALED,)))
        raw = bytearray(values[place].encode())
        bit = data.draw(st.integers(0, 8 * len(raw) - 1))
        raw[bit // 8] ^= 1 << bit % 8
        changed = copy_item(held)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return  # No engine returns it as text.
        if place[0] == "metadata":
            changed.__dict__["metadata"] = held.metadata.model_copy(update={place[1]: text})
        elif place[0] == "namespace":
            elements = [*held.metadata.namespace]
            elements[int(place[1])] = text
            changed.__dict__["metadata"] = held.metadata.model_copy(update={"namespace": tuple(elements)})
        else:
            changed.__dict__[place[0]] = text
        with pytest.raises(UnsealingError):
            await encryption(store).opener.opened(changed)
        with pytest.raises(UnsealingError):
            await encryption(store).opener.all_opened([copy_item(changed)])


async def test_a_ring_that_has_lost_a_key_names_the_item_that_needs_it(tmp_path: Path, ring: KeyRing) -> None:
    async with with_encryption(SQLiteMemoryStore(tmp_path / "a.db"), ring) as store:
        shutil.copy(tmp_path / "keys.db", tmp_path / "yesterday.db")
        await store.add(item(id="one"))
    earlier = KeyRing(ring.master, tmp_path / "yesterday.db")
    async with with_encryption(SQLiteMemoryStore(tmp_path / "a.db"), earlier) as store:
        with pytest.raises(MissingKeyError, match="'one'"):
            await store.get("one")


async def test_a_ring_that_is_not_there_is_not_made_for_a_store_that_has_items(tmp_path: Path, ring: KeyRing) -> None:
    async with with_encryption(SQLiteMemoryStore(tmp_path / "a.db"), ring) as store:
        await store.add(item(id="one"))
    elsewhere = KeyRing(LocalMasterKey.generate(), tmp_path / "elsewhere.db")
    with pytest.raises(KeyRingError, match=r"elsewhere\.db"):
        await with_encryption(SQLiteMemoryStore(tmp_path / "a.db"), elsewhere).init()
    assert not (tmp_path / "elsewhere.db").exists()


async def test_the_wrong_master_key_is_refused_at_the_opening(tmp_path: Path, ring: KeyRing) -> None:
    ring.open()
    wrong = KeyRing(LocalMasterKey.generate(), tmp_path / "keys.db")
    with pytest.raises(KeyRingError, match="master key"):
        await with_encryption(InMemoryStore(), wrong).init()


async def test_nothing_that_is_said_is_logged_or_shown(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await store.add(item(id="one"))
    await store.search(query="plum", mode="text")
    held = await stored(store, "one")
    await forged(store, held.model_copy(update={"payload": held.payload[:-4] + "AAAA"}))
    with pytest.raises(DamagedItemError):
        await store.get("one")
    assert "plum" not in caplog.text + repr(store) + repr(encryption(store).ring)
