"""Records of branches where only one store or only a program without async is concerned."""

from __future__ import annotations

import pytest

import memoranda.sync
from memoranda import HumanMemory, MemoryItem, MemoryMetadata, ShortTermMemory
from memoranda.errors import InputError, UnsupportedError
from memoranda.items import BUILTIN_TYPES, BranchMemory
from memoranda.store import Capability, InMemoryStore

ADA = MemoryMetadata(user_id="ada", session_id="s")


class Sprout(BranchMemory):
    """What a plugin may offer as a type of its own."""

    memory_type: str = "sprout"


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_type_that_is_made_of_records_is_refused_like_them() -> None:
    store = InMemoryStore()
    store.item_types = {**BUILTIN_TYPES, "sprout": Sprout, "branch": Sprout}
    for given in (
        Sprout(id="branch-x", archived_by="branch-x"),
        MemoryItem(id="branch-x", content="", memory_type="sprout"),
        MemoryItem(id="branch-x", content="", memory_type="branch"),
    ):
        with pytest.raises(InputError, match="only fork"):
            await store.add(given)


async def test_a_store_whose_types_lack_records_refuses_them_too() -> None:
    store = InMemoryStore()
    store.item_types = {"human": HumanMemory}
    with pytest.raises(InputError, match="only fork"):
        await store.add(MemoryItem(id="branch-x", content="", memory_type="branch"))


def test_branches_are_copied_without_async() -> None:
    with memoranda.sync.open("memory://") as store, memoranda.sync.open("memory://") as target:
        said = [HumanMemory(content=text, metadata=ADA) for text in ("a", "b")]
        store.add_many(said)
        branch = store.fork("s", at=said[0].id)
        target.add_many(said)
        (record,) = list(store.scan(memory_type="branch"))
        assert isinstance(record, BranchMemory)
        with pytest.raises(InputError, match="only fork"):
            target.add(record)

        assert target.fork(record.parent, at=said[0].id, record=record) == branch
        assert [item.content for item in target.scoped(session_id=branch).window()] == ["a"]


async def test_a_branch_whose_record_has_expired_shows_its_own_items_alone() -> None:
    store, copy = InMemoryStore(), InMemoryStore()
    store.clock = copy.clock = clock = Clock()
    said = HumanMemory(content="a", metadata=ADA)
    await store.add(said)
    branch = await store.fork("s", at=said.id)
    there = MemoryMetadata(user_id="ada", session_id=branch)
    await store.add(HumanMemory(content="x", metadata=there))
    await store.touch([branch], ttl=10)
    await copy.add(said)
    (record,) = [item async for item in store.scan(metadata=there, memory_type="branch")]
    assert isinstance(record, BranchMemory)
    await copy.fork("s", at=said.id, record=record)

    for each, wanted in ((store, ["a", "x"]), (copy, ["a"])):
        assert [item.content for item in await each.window(metadata=there)] == wanted
    clock.now += 11
    for each, wanted in ((store, ["x"]), (copy, [])):
        assert [item.content for item in await each.window(metadata=there)] == wanted


async def test_a_record_that_arrives_deleted_needs_a_store_that_can_hide_it() -> None:
    class Plain(InMemoryStore):
        capabilities = InMemoryStore.capabilities - {Capability.ADD_DELETED}

    store = Plain()
    said = HumanMemory(content="a", metadata=ADA)
    await store.add(said)
    record = BranchMemory(id="branch-x", archived_by="branch-x", metadata=MemoryMetadata(session_id="branch-x"))
    with pytest.raises(UnsupportedError):
        await store.fork("s", at=said.id, record=record, deleted=True)


async def test_a_conversation_shows_no_more_of_a_past_than_others_do() -> None:
    memory = ShortTermMemory(scope="session")
    bait = HumanMemory(content="bait", metadata=ADA.model_copy(update={"namespace": ("evil",)}))
    await memory.add_many([HumanMemory(content="mine", metadata=ADA), bait])
    branch = await memory.scoped(namespace=("evil",)).fork("s", at=bait.id)

    for reader in (memory, memory.scoped(session_id=branch), memory.scoped(user_id="ada")):
        shown = await reader.search(metadata=MemoryMetadata(session_id=branch))
        assert [item.content for item in shown] == ["bait"]


async def test_the_record_of_a_fork_carries_the_trust_of_the_handle_that_forks() -> None:
    store = InMemoryStore()
    said = HumanMemory(content="a", metadata=ADA)
    await store.add(said)
    web = store.scoped(user_id="ada", trust="external", origin="https://shop.example")
    await web.fork("s", at=said.id)
    (record,) = [item async for item in store.scan(memory_type="branch")]
    assert (record.trust, record.origin) == ("external", "https://shop.example")
