"""Spaces and grants on every backend and wrapper: what is granted is read, and what is forgotten is gone."""

from __future__ import annotations

import asyncio
import io
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import memoranda
from memoranda import HumanMemory, InputError, MemoryItem, MemoryMetadata, SummaryMemory
from memoranda.errors import NotGrantedError
from memoranda.store import InMemoryStore, Store
from memoranda.store.owners import DIRECTORY
from memoranda.store.ranked import best_of_all
from memoranda.store.records import copying_records
from memoranda.sync import open as open_sync
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_encrypt import KeyRing, LocalMasterKey
from memoranda_postgres import PostgresMemoryStore
from memoranda_redis import RedisMemoryStore
from memoranda_spaces import Grants, group, space_of, user
from memoranda_spaces.records import item_of
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_userdata import export, forget, import_, revoke
from memoranda_userdata.erasing import KeyPerUser
from memoranda_vector import VectorMemoryStore
from servers import postgres_server, redis_server

POLICY = "The refund policy allows thirty days."
TWO_ORDERS = (["acme", "beta"], ["beta", "acme"])


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server())
        yield {
            "postgresql": stack.enter_context(postgres.database()),
            "redis": stack.enter_context(redis_server()).url,
        }


@pytest.fixture(params=["memory", "sqlite", "postgresql", "redis", "vector", "encrypted", "hidden owners", "revisions"])
def make_store(request: pytest.FixtureRequest, servers: dict[str, str], tmp_path: Path) -> Callable[[], Store]:
    """What makes a store of each kind; those that last are made again over the same items."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    namespace, key = uuid.uuid4().hex, LocalMasterKey.generate()
    make: dict[str, Callable[[], Store]] = {
        "memory": InMemoryStore,
        "sqlite": lambda: SQLiteMemoryStore(tmp_path / "agent.db"),
        "postgresql": lambda: PostgresMemoryStore(servers["postgresql"]),
        "redis": lambda: RedisMemoryStore(servers["redis"], namespace=namespace),
        "vector": lambda: VectorMemoryStore(HashingEmbeddings(64)),
        "encrypted": lambda: memoranda.open(url, encrypt=KeyRing(key, path=tmp_path / "keys.db")),
        "hidden owners": lambda: memoranda.open(url, encrypt=KeyRing(key, path=tmp_path / "keys.db", hide_owners=True)),
        "revisions": lambda: memoranda.open(url, revisions=True),
    }
    chosen: Callable[[], Store] = make[request.param]
    return chosen


@pytest_asyncio.fixture
async def store(make_store: Callable[[], Store]) -> AsyncIterator[Store]:
    """A store of each kind, with two spaces, of which one is granted to Ada."""
    async with make_store() as opened:
        for item in [item async for item in opened.scan()]:
            await opened.purge(item.id)
        grants = Grants(opened)
        await opened.space("acme").add(HumanMemory(id="acme-1", content=POLICY))
        await opened.space("beta").add(HumanMemory(id="beta-1", content="The merger is off: canary."))
        await grants.give("acme", to=user("ada"), may="write", by="vera", why="support")
        await opened.scoped(user_id="ada", session_id="s").add(HumanMemory(id="own", content="My refund was late."))
        yield opened


async def ids(store: Store) -> set[str]:
    return {item.id for item in await store.search(limit=100)}


async def test_what_is_granted_is_read_and_written_and_nothing_else(store: Store) -> None:
    ada = store.scoped(user_id="ada", session_id="s", spaces="granted")

    await ada.add(HumanMemory(id="acme-2", content="Refunds are paid by card."), space="acme")

    assert await ids(ada) == {"acme-1", "acme-2", "own"}
    assert {item.id for item in await ada.get_many(["acme-1", "beta-1", "own"])} == {"acme-1", "own"}
    assert await ada.count() == 3
    assert "acme-1" in {item.id for item in await ada.recall("What is the refund policy?", min_score=0)}
    assert "beta-1" not in {item.id for item in await ada.recall("merger canary", min_score=0)}
    assert [item.id for item in await ada.window()] == ["own"]
    assert {item.id for item in await ada.space("acme").search()} == {"acme-1", "acme-2"}
    with pytest.raises(NotGrantedError):
        await ada.space("beta").search()
    with pytest.raises(NotGrantedError):
        await ada.add(HumanMemory(content="planted"), space="beta")
    for stranger in (store.scoped(user_id="eve", spaces="granted"), store.scoped(user_id="ada")):
        assert "acme-1" not in await ids(stranger)


async def test_pages_of_all_places_hold_each_item_once(store: Store) -> None:
    ada = store.scoped(user_id="ada", spaces="granted")
    await store.space("acme").add_many([HumanMemory(id=f"a{number}", content=f"tea {number}") for number in range(7)])
    await ada.add_many([HumanMemory(id=f"o{number}", content=f"tea {number}") for number in range(7)])

    whole = [item.id for item in await ada.search(query="tea", limit=100, mode="substring")]
    paged = [
        item.id
        for at in range(0, 15, 5)
        for item in await ada.search(query="tea", limit=5, offset=at, mode="substring")
    ]

    assert len(whole) == 14
    assert paged == whole


async def test_every_place_is_ranked_by_itself(store: Store) -> None:
    await Grants(store).give("beta", to=user("ada"), by="vera")
    ada, kept = store.scoped(user_id="ada", spaces="granted"), store.scoped(user_id="ada", spaces=["acme"])
    for number in range(12):
        for place, text in (("acme", "refund card"), ("beta", "card merger"), (None, "late refund refund")):
            owner = store.space(place) if place else ada
            await owner.add(HumanMemory(content=f"{text} {number % 4} {'harbour' if number == 7 else ''}"))

    for question, limit in (("refund by card in the harbour", 50), ("merger 2", 5), ("nothing of it", 5)):
        places = [ada.own, ada.space("acme"), ada.space("beta")]
        alone = [await each.search_ranked(query=question, limit=limit) for each in places]
        together = await ada.search_ranked(query=question, limit=limit)
        expected = best_of_all(alone, limit)
        assert [each.item.content for each in together] == [each.item.content for each in expected]
        assert [each.score for each in together] == pytest.approx([each.score for each in expected], abs=1e-9)
        assert [(each.evidence, each.missing) for each in together] == [
            (pytest.approx(each.evidence), each.missing) for each in expected
        ]
    assert "beta" not in {space_of(each) for each in await kept.recall("merger card", limit=50)}


async def test_what_changes_in_a_space_is_seen_by_the_next_recall(store: Store) -> None:
    ada = store.scoped(user_id="ada", spaces="granted")
    assert [each.content for each in await ada.recall("refund policy thirty days", limit=1, shared=True)] == [POLICY]

    changed = POLICY.replace("thirty", "forty thirty")
    await store.space("acme").add(HumanMemory(id="acme-1", content=changed))
    assert [each.content for each in await ada.recall("refund policy thirty days", limit=1, shared=True)] == [changed]

    await store.space("acme").delete("acme-1")
    assert POLICY not in {each.content for each in await ada.recall("refund policy thirty days", shared=True)}


async def test_recalls_at_once_over_the_same_spaces_wait_for_each_other_and_end(store: Store) -> None:
    grants = Grants(store)
    for name in ("ada", "bob"):
        for space in ("acme", "beta"):
            await grants.give(space, to=user(name), by="vera")
    handles = [store.scoped(user_id=name, spaces=each) for name in ("ada", "bob") for each in TWO_ORDERS]

    found = await asyncio.gather(*[each.recall("refund merger policy", limit=5) for each in handles * 10])

    assert {len(each) for each in found} == {2, 3}  # Bob has nothing of his own.


async def test_a_scan_under_way_shows_nothing_that_was_added_after_the_grant_ended(store: Store) -> None:
    """A scan can be held open for hours; the operator meanwhile closes the space and writes on."""
    operator, ada = store.space("acme"), store.scoped(user_id="ada").space("acme")
    await operator.add_many([HumanMemory(id=f"old-{number:04}", content=f"tea {number}") for number in range(1_500)])
    scan = ada.scan(order="added")
    shown = [(await anext(scan)).id]
    await Grants(store).revoke("acme", to=user("ada"), by="vera")
    await operator.add(HumanMemory(id="late", content="The merger is off: canary."))

    async def read_on() -> None:
        while True:
            shown.append((await anext(scan)).id)

    with pytest.raises(NotGrantedError):
        await read_on()

    assert "late" not in shown
    assert len(shown) < 500


async def test_what_was_made_from_a_space_goes_with_the_grant(store: Store) -> None:
    ada = store.scoped(user_id="ada", spaces="granted")
    await ada.add(SummaryMemory(id="summary", content="Thirty days.", sources=["acme-1", "own"]))
    await ada.add(SummaryMemory(id="second", content="Days.", sources=["summary"]))
    assert {"summary", "second"} <= await ids(store.scoped(user_id="ada"))

    await Grants(store).revoke("acme", to=user("ada"), by="vera")

    assert await ids(ada) == {"own"}
    assert await store.get_many(["summary", "second"]) == []


async def test_it_ends_with_the_grant_by_the_clock(store: Store) -> None:
    present = datetime.now(UTC)
    store.clock = lambda: present.timestamp()  # type: ignore[method-assign]
    await Grants(store).give("acme", to=user("ada"), until=present + timedelta(hours=1), by="vera")
    ada = store.scoped(user_id="ada", spaces="granted")
    await ada.add(SummaryMemory(id="summary", content="Thirty days.", sources=["acme-1"]))
    assert "summary" in await ids(ada)

    present += timedelta(hours=2)

    assert await ids(ada) == {"own"}


async def test_a_publication_goes_with_its_original(store: Store) -> None:
    ada = store.scoped(user_id="ada", spaces="granted")
    copy = await Grants(ada).publish("own", "acme")
    await Grants(store).give("acme", to=user("bob"), by="vera")
    bob = store.scoped(user_id="bob", spaces="granted")
    await bob.add(SummaryMemory(id="summary", content="Late.", sources=[copy.id]))
    assert copy.id in await ids(bob)

    await store.purge("own")

    assert await ids(bob) == {"acme-1"}


async def test_forgetting_a_member_removes_grants_and_leaves_the_space(store: Store) -> None:
    ada = store.scoped(user_id="ada", spaces="granted")
    await ada.add(HumanMemory(id="acme-2", content="Written by Ada."), space="acme")
    await Grants(ada).publish("own", "acme")

    receipt = await forget(store, "ada")

    assert receipt.complete
    assert receipt.grants == ["acme"]
    assert await ids(store.space("acme")) == {"acme-1", "acme-2"}
    assert await Grants(store).list(ended=True) == []
    assert await ids(store.scoped(user_id="ada", spaces="granted")) == set()


async def test_forgetting_a_space_removes_it_its_grants_and_what_was_made_from_it(store: Store) -> None:
    ada = store.scoped(user_id="ada", spaces="granted")
    await ada.add(SummaryMemory(id="summary", content="Thirty days.", sources=["acme-1"]))

    receipt = await forget(store, "space:acme")

    assert receipt.complete
    assert receipt.grants == ["user:ada"]
    assert await ids(ada) == {"own"}
    assert await Grants(store).spaces() == ["beta"]


async def test_what_is_removed_by_a_session_a_task_or_a_time_takes_no_grant_along(store: Store) -> None:
    """A grant has its grantee as its session and its space as its task; a retention job asks for a time."""
    await store.add(HumanMemory(id="named-alike", content="x", metadata=MemoryMetadata(task_id="acme")))
    later = datetime.now(UTC) + timedelta(days=1)

    assert await store.clear(metadata=MemoryMetadata(task_id="acme")) == 1
    await store.clear(metadata=MemoryMetadata(session_id="user:ada"))
    await store.purge(metadata=MemoryMetadata(session_id="user:ada"))
    await revoke(store, since="2000-01-01T00:00:00Z", by="vera")
    await store.purge(until=later)

    assert [str(grant.to) for grant in await Grants(store).list("acme")] == ["user:ada"]
    assert await ids(store.scoped(user_id="ada", spaces="granted")) == set()


async def test_grants_are_exported_and_imported_with_the_store(store: Store) -> None:
    await Grants(store).give("beta", to=group("leads"), by="vera")
    await Grants(store).join("leads", user("bob"), by="vera")
    file = io.StringIO()
    await export(store, file)
    async with InMemoryStore() as other:
        await import_(other, io.StringIO(file.getvalue()))

        (grant,) = await Grants(other).list("acme")
        assert (grant.history[0].by, grant.history[0].why) == ("vera", "support")
        assert await ids(other.scoped(user_id="ada", spaces="granted")) == {"acme-1", "own"}
        assert await ids(other.scoped(user_id="bob", spaces="granted")) == {"beta-1"}
        assert await Grants(other).revoke("acme", to=user("ada"), by="max")
        assert await ids(other.scoped(user_id="ada", spaces="granted")) == {"own"}


async def test_nobody_forges_a_grant(store: Store) -> None:
    """Not by adding one, not by importing one through a handle, and not by an item in the place of one."""
    (real,) = [item async for item in store.scan(metadata=MemoryMetadata(user_id=DIRECTORY), memory_type="grant")]
    forged = real.model_copy(
        update={
            "id": "forged",
            "version": 0,
            "metadata": MemoryMetadata(user_id=DIRECTORY, session_id="user:eve", task_id="beta"),
        }
    )
    eve = store.scoped(user_id="eve", spaces="granted")
    stranger = store.scoped(user_id="eve", trust="external")
    agent_alone = store.scoped(agent_id="planner")
    writing = store.scoped(user_id="ada").space("acme")

    for handle in (store, eve, stranger, agent_alone, writing):
        for item in (forged, forged.model_copy(update={"metadata": MemoryMetadata()})):
            with pytest.raises((InputError, NotGrantedError)):
                await handle.add(item)
            with pytest.raises((InputError, NotGrantedError)):
                await handle.add_many([item])
            with pytest.raises((InputError, NotGrantedError)):
                await handle.update(item)
    for handle in (eve, stranger, agent_alone):
        with copying_records(handle), pytest.raises(InputError):
            await handle.add(forged)
    with copying_records(eve):
        await eve.add(forged.model_copy(update={"metadata": MemoryMetadata(session_id="user:eve", task_id="beta")}))
    await store.add(forged.model_copy(update={"id": "typed", "memory_type": "item"}))

    assert "beta-1" not in await ids(eve)
    assert await Grants(store).list("user:eve") == []


async def test_a_handle_that_names_no_user_reaches_no_space_and_no_grant(store: Store) -> None:
    """Whatever session, task, agent or namespace lies in a space, or is the name of a grantee or a space."""
    place = MemoryMetadata(session_id="shared", task_id="t", agent_id="planner", namespace=("notes",))
    await store.space("acme").add(HumanMemory(id="placed", content=POLICY, metadata=place))
    await store.add(HumanMemory(id="free", content=POLICY, metadata=place))
    scopes: list[dict[str, Any]] = [
        {"session_id": "shared"},
        {"task_id": "t"},
        {"agent_id": "planner"},
        {"namespace": ("notes",)},
        {"session_id": "user:ada"},
        {"task_id": "acme"},
    ]
    for scope in scopes:
        handle = store.scoped(**scope)
        expected = set() if ":" in scope.get("session_id", "") or scope.get("task_id") == "acme" else {"free"}

        assert {item.id for item in await handle.search(archived=None, limit=50)} == expected
        assert {found.item.id for found in await handle.search_ranked(query="refund policy", mode="text")} == expected
        assert await handle.get("placed") is None
        assert await handle.get_many(["placed", "free"]) == [await store.get(each) for each in expected]
        assert await handle.count() == len(expected)
        assert {item.id for item in await handle.window()} == expected
        assert {item.id async for item in handle.scan(include_deleted=True)} == expected
        assert {payload.item_id for payload in await handle.payloads()} == expected
        users = [owner.value async for owner in handle.owners("user_id")]
        assert not any(str(user).startswith("space:") for user in users)
        assert await handle.apply(deletes=["placed"], purge=True) == 0
        assert await handle.touch(["placed"], ttl=0.001) == 0
        assert await handle.purge("placed") == 0
        assert await handle.clear() == len(expected)
        assert await handle.restore() == len(expected)

    assert await store.get("placed") is not None
    assert [str(grant.to) for grant in await Grants(store).list("acme")] == ["user:ada"]


async def test_only_the_grants_of_the_asked_are_read(store: Store) -> None:
    """Ten thousand grants of others change nothing of what somebody reads."""
    grants = Grants(store)
    (real,) = await grants.list("acme")
    at = real.history[0].at
    many = [
        item_of(replace(real, to=user(f"user-{number}"), version=0), at, f"grant-{number}") for number in range(2_000)
    ]
    with copying_records(store):
        await store.add_many(many)

    assert await ids(store.scoped(user_id="user-77", spaces="granted")) == {"acme-1"}
    assert len(await grants.who_can_read("acme-1")) == len(many) + 1
    assert await grants.revoke("acme", to=user("user-77"), by="vera")
    assert await ids(store.scoped(user_id="user-77", spaces="granted")) == set()


async def test_earlier_versions_need_a_grant_too(store: Store) -> None:
    if not store.keeps_versions:
        pytest.skip("This store keeps no earlier versions.")
    await store.space("acme").add(HumanMemory(id="acme-1", content="The policy allows sixty days."))
    space = store.scoped(user_id="ada").space("acme")
    assert [item.content for item in await space.versions("acme-1")] == [POLICY]
    moment = datetime.now(UTC)

    await Grants(store).revoke("acme", to=user("ada"), by="vera")

    with pytest.raises(NotGrantedError):
        await space.versions("acme-1")
    with pytest.raises(NotGrantedError):
        await space.search(as_of=moment)
    with pytest.raises(NotGrantedError):
        await space.purge_versions("acme-1")


async def test_a_space_has_a_key_of_its_own(store: Store, make_store: Callable[[], Store]) -> None:
    """A member's forgetting leaves it readable, and a forgotten space is gone from backups."""
    if not any(isinstance(layer, KeyPerUser) for layer in store.layers):
        pytest.skip("This store is not encrypted.")
    ada = store.scoped(user_id="ada", spaces="granted")
    await ada.add(HumanMemory(id="acme-2", content="Written by Ada."), space="acme")

    member = await forget(store, "ada")
    assert await ids(store.space("acme")) == {"acme-1", "acme-2"}
    space = await forget(store, "space:acme")

    assert (member.keys_destroyed, space.keys_destroyed) == (1, 1)
    assert await ids(store.space("beta")) == {"beta-1"}


def test_the_blocking_store_reads_what_is_granted() -> None:
    with open_sync("memory://") as store:
        store.space("acme").add(MemoryItem(id="1", content=POLICY))
        store.call(lambda opened: Grants(opened).give("acme", to=user("ada"), may="write", by="vera"))
        ada = store.scoped(user_id="ada", spaces="granted")
        ada.add(MemoryItem(id="2", content="By card."), space="acme")

        assert {item.id for item in ada.search()} == {"1", "2"}
        assert len(ada.space("acme").search()) == 2
