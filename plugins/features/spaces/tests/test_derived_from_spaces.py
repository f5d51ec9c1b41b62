"""What is made from a space: it lasts as long as the grant it was made by, and goes with its sources."""

from __future__ import annotations

import io
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import memoranda
from memoranda.errors import InputError, NotGrantedError, StoreUnavailableError
from memoranda.items import HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory
from memoranda.store import InMemoryStore, Store
from memoranda.store.backend import Layer, Write, Written
from memoranda_facts import Facts
from memoranda_spaces import Grants, agent, group, user
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_userdata import descendants, export, forget, import_, revoke


@pytest.fixture
def store() -> Store:
    return InMemoryStore()


@pytest.fixture
def grants(store: Store) -> Grants:
    return Grants(store)


@pytest.fixture
async def opened() -> AsyncIterator[Store]:
    """Return a store that knows the types of plugins, as most programs have it."""
    async with memoranda.open("memory://") as store:
        yield store


async def shared_summary(store: Store, grants: Grants, **given: object) -> Store:
    """Grant Ada a space, and let her summarise it together with an item of her own; return her handle."""
    await store.space("acme").add(HumanMemory(id="source", content="The launch is on May 3."))
    await grants.give("acme", to=user("ada"), by="vera", **given)  # type: ignore[arg-type]
    ada = store.scoped(user_id="ada", spaces="granted")
    await ada.add(HumanMemory(id="own", content="I prefer mornings.", archived_by="summary"))
    await ada.add(SummaryMemory(id="summary", content="Launch on May 3, in the morning.", sources=["source", "own"]))
    await ada.add(SummaryMemory(id="second", content="Launch.", sources=["summary"]))
    return ada


async def shown(store: Store) -> set[str]:
    return {item.id for item in await store.scoped(user_id="ada").search(limit=50)}


async def test_what_was_made_from_a_space_says_so_and_is_trusted_no_further(store: Store, grants: Grants) -> None:
    ada = await shared_summary(store, grants)

    made = await ada.get("second")

    assert made is not None
    assert made.model_extra is not None
    assert made.model_extra["made_from"] == {"acme": ["source"]}
    assert made.trust == "agent"
    assert [str(reader.who) for reader in await grants.who_can_read("summary")] == ["user:ada"]


async def test_revoking_withdraws_what_was_made_from_the_space_and_no_more(store: Store, grants: Grants) -> None:
    await shared_summary(store, grants)
    assert await shown(store) == {"summary", "second"}

    await grants.revoke("acme", to=user("ada"), by="vera")

    assert await shown(store) == {"own"}
    assert await store.get("summary") is None


async def test_a_revoke_that_was_cut_off_is_completed_by_the_next_one(store: Store, grants: Grants) -> None:
    """The process is gone when the grant has ended, and nothing that was made by it is withdrawn yet."""
    await shared_summary(store, grants)

    class CutOff(Layer):
        cut = True

        async def write(self, write: Write) -> Written:
            if self.cut and not any(item.memory_type == "grant" for item in write.adds):
                raise StoreUnavailableError("The store went away.")
            return await self.inner.write(write)

    lineage = next(layer for layer in store.layers if layer.name == "lineage")
    cut_off = CutOff(lineage.inner)
    lineage.stand_on(cut_off)
    with pytest.raises(StoreUnavailableError):
        await grants.revoke("acme", to=user("ada"), by="vera")
    assert await grants.list("acme") == []
    assert "summary" in await shown(store)
    cut_off.cut = False

    assert not await grants.revoke("acme", to=user("ada"), by="vera")

    assert await shown(store) == {"own"}


async def test_an_import_through_a_handle_brings_nothing_back_that_was_withdrawn(store: Store, grants: Grants) -> None:
    """An export of the user's own, made while the space was granted."""
    ada = await shared_summary(store, grants)
    file = io.StringIO()
    await export(ada, file)
    await grants.revoke("acme", to=user("ada"), by="vera")

    with pytest.raises(NotGrantedError):
        await import_(ada, io.StringIO(file.getvalue()), on_conflict="overwrite")
    assert await shown(store) == {"own"}

    await grants.give("acme", to=user("ada"), by="vera")
    await import_(ada, io.StringIO(file.getvalue()), on_conflict="overwrite")
    assert {"summary", "second"} <= await shown(store)
    await grants.revoke("acme", to=user("ada"), by="vera")
    assert await shown(store) == {"own"}


async def test_another_grant_of_the_same_space_keeps_it(store: Store, grants: Grants) -> None:
    await shared_summary(store, grants)
    await grants.give("acme", to=group("support"), by="vera")
    await grants.join("support", user("ada"), by="vera")

    await grants.revoke("acme", to=user("ada"), by="vera")
    assert "summary" in await shown(store)

    await grants.leave("support", user("ada"), by="vera")
    assert await shown(store) == {"own"}


async def test_revoking_a_group_withdraws_from_its_members(store: Store, grants: Grants) -> None:
    await store.space("acme").add(HumanMemory(id="source", content="The launch is on May 3."))
    await grants.give("acme", to=group("support"), by="vera")
    await grants.join("support", user("ada"), by="vera")
    await store.scoped(user_id="ada", spaces="granted").add(
        SummaryMemory(id="summary", content="May 3.", sources=["source"])
    )

    await grants.revoke("acme", to=group("support"), by="vera")

    assert await shown(store) == set()


async def test_it_ends_when_the_grant_ends(store: Store) -> None:
    present = datetime(2026, 5, 1, tzinfo=UTC)
    store.clock = lambda: present.timestamp()  # type: ignore[method-assign]
    await shared_summary(store, Grants(store), until=present + timedelta(hours=1))
    assert {"summary", "second"} <= await shown(store)

    present += timedelta(hours=1)

    assert await shown(store) == set()
    assert await store.get("second") is None


async def test_it_cannot_be_refreshed_past_the_end_of_the_grant(store: Store) -> None:
    present = datetime(2026, 5, 1, tzinfo=UTC)
    store.clock = lambda: present.timestamp()  # type: ignore[method-assign]
    ada = await shared_summary(store, Grants(store), until=present + timedelta(hours=1))
    await ada.add(SummaryMemory(id="fleeting", content="May 3.", sources=["source"]), ttl=7200)

    assert await ada.get("fleeting", refresh=True) is not None
    present += timedelta(hours=1)

    assert await ada.get("fleeting") is None


async def test_a_grant_that_is_shortened_withdraws_what_would_outlast_it(store: Store, grants: Grants) -> None:
    await shared_summary(store, grants)

    await grants.give("acme", to=user("ada"), until=datetime.now(UTC) + timedelta(hours=1), by="vera")

    assert await shown(store) == {"own"}


async def test_purging_a_source_withdraws_it_whoever_purges(store: Store, grants: Grants) -> None:
    for purge in (
        lambda: store.purge("source"),
        lambda: store.space("acme").purge("source"),
        lambda: store.space("acme").purge(),
        lambda: store.apply(deletes=["source"], purge=True),
        lambda: store.space("acme").pop(purge=True),
        lambda: forget(store, "space:acme"),
    ):
        await shared_summary(store, grants)
        await purge()
        assert await shown(store) == {"own"}


@pytest.mark.parametrize("how", ["purged", "replaced"])
@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("lost", ["grant", "source"])
async def test_what_lies_behind_an_item_that_is_gone_is_withdrawn(
    store: Store, grants: Grants, how: str, deleted: bool, lost: str
) -> None:
    """The second summary names the first one alone, and its record says that it comes from the space."""
    ada = (await shared_summary(store, grants)).own
    await ada.add(SummaryMemory(id="third", content="May.", sources=["second"]))
    if how == "purged":
        await ada.purge("summary")
    else:
        await ada.add(HumanMemory(id="summary", content="Good morning."))
    if deleted:
        await ada.delete("second")

    if lost == "grant":
        await grants.revoke("acme", to=user("ada"), by="vera")
    else:
        await store.space("acme").purge("source")
    await ada.restore()

    assert (await shown(store)).isdisjoint({"second", "third"})


async def test_a_fact_that_keeps_another_source_in_the_space_ends_with_the_grant(opened: Store) -> None:
    store, grants = opened, Grants(opened)
    for source in ("monday", "friday"):
        await store.space("acme").add(HumanMemory(id=source, content="The launch is in Oslo."))
    await grants.give("acme", to=user("ada"), by="vera")
    facts = Facts(store.scoped(user_id="ada", spaces="granted"))
    await facts.set("launch", "city", "Oslo", sources=["monday", "friday"])

    await store.space("acme").purge("monday")
    assert [fact.object for fact in await facts.current()] == ["Oslo"]
    await grants.revoke("acme", to=user("ada"), by="vera")

    assert await store.scoped(user_id="ada").count(include_deleted=True) == 0


async def test_a_handle_without_spaces_leaves_facts_from_them_as_they_are(opened: Store) -> None:
    """It does not see their sources. The first read of a process looks whether those are there."""
    await opened.space("acme").add(HumanMemory(id="source", content="The launch is in Oslo."))
    await Grants(opened).give("acme", to=user("ada"), by="vera")
    wide = opened.scoped(user_id="ada", spaces="granted")
    await Facts(wide).set("launch", "city", "Oslo", sources=["source"])

    plain = Facts(opened.scoped(user_id="ada"))
    assert (await plain.reconcile()).removed == ()
    assert [fact.object for fact in await plain.current()] == ["Oslo"]

    await opened.space("acme").delete("source")
    assert [len(await each.current()) for each in (plain, Facts(wide)) if await each.reconcile()] == [0, 0]
    await opened.space("acme").restore("source")
    assert [len(await each.current()) for each in (plain, Facts(wide)) if await each.reconcile()] == [1, 1]


async def test_no_spoilt_item_keeps_what_was_made_from_a_space(opened: Store) -> None:
    ada, grants = await shared_summary(opened, Grants(opened)), Grants(opened)
    await ada.add(MemoryItem(content="x", memory_type="fact", payload="nonsense", sources=["source"]))  # type: ignore[call-arg]

    assert await grants.revoke("acme", to=user("ada"), by="vera")

    assert await shown(opened) == {"own"}


async def test_a_grant_that_ends_while_it_is_written_leaves_nothing(store: Store, grants: Grants) -> None:
    """The grant is revoked between the first look at it and the write: the second look finds that."""
    await store.space("acme").add(HumanMemory(id="source", content="The launch is on May 3."))
    await grants.give("acme", to=user("ada"), by="vera")
    ada = store.scoped(user_id="ada", spaces="granted")

    class Revoking(Layer):
        async def write(self, write: Write) -> Written:
            if any(item.id == "summary" for item in write.adds):
                await grants.revoke("acme", to=user("ada"), by="vera")
            return await self.inner.write(write)

    lineage = next(layer for layer in store.layers if layer.name == "lineage")
    lineage.stand_on(Revoking(lineage.inner))

    with pytest.raises(NotGrantedError):
        await ada.add(SummaryMemory(id="summary", content="May 3.", sources=["source"]))

    assert await store.get("summary") is None


async def test_a_source_that_is_purged_while_it_is_written_leaves_nothing(store: Store, grants: Grants) -> None:
    await store.space("acme").add(HumanMemory(id="source", content="The launch is on May 3."))
    await grants.give("acme", to=user("ada"), by="vera")

    class Purging(Layer):
        async def write(self, write: Write) -> Written:
            if any(item.id == "summary" for item in write.adds):
                await store.purge("source")
            return await self.inner.write(write)

    lineage = next(layer for layer in store.layers if layer.name == "lineage")
    lineage.stand_on(Purging(lineage.inner))

    with pytest.raises(NotGrantedError):
        await store.scoped(user_id="ada").add(SummaryMemory(id="summary", content="May 3.", sources=["source"]))

    assert await store.get("summary") is None


@pytest.mark.parametrize("many", [1, 1500])
async def test_what_is_made_from_a_space_is_followed_whichever_handle_writes_it(store: Store, many: int) -> None:
    """By a handle without spaces=, by the store itself, in one call or in a large batch, and at any remove."""
    present = datetime(2026, 5, 1, tzinfo=UTC)
    store.clock = lambda: present.timestamp()  # type: ignore[method-assign]
    ada = await shared_summary(store, Grants(store), until=present + timedelta(hours=1))
    alone, owner = store.scoped(user_id="ada"), MemoryMetadata(user_id="ada")
    others = [HumanMemory(id=f"other-{number}", content="Mine.") for number in range(many - 1)]
    await alone.add_many([SummaryMemory(id="third", content="May 3.", sources=["second"]), *others])
    await alone.add(SummaryMemory(id="direct", content="May 3.", sources=["source"]))
    await store.add(SummaryMemory(id="by-store", content="May 3.", sources=["source"], metadata=owner))
    with pytest.raises(NotGrantedError, match="user:eve"):
        await store.scoped(user_id="eve").add(SummaryMemory(content="May 3.", sources=["source"]))

    made = ["summary", "second", "third", "direct", "by-store"]
    assert {str(item.trust) for item in await alone.get_many(made)} == {"agent"}
    assert len(await ada.get_many(made)) == len(made)
    present += timedelta(hours=1)

    assert await store.get_many(made) == []
    assert await alone.count() == many  # Ada's own item, and the others.


async def test_nobody_lets_it_live_longer_than_the_grant(store: Store) -> None:
    present = datetime(2026, 5, 1, tzinfo=UTC)
    store.clock = lambda: present.timestamp()  # type: ignore[method-assign]
    ada = await shared_summary(store, Grants(store), until=present + timedelta(hours=1))
    alone = store.scoped(user_id="ada")

    assert await ada.touch(["summary"], ttl=math.inf) == 0
    assert await alone.touch(["summary", "own"], ttl=7200) == 1
    assert await alone.touch(["second"], ttl=60) == 1
    held = await alone.get("summary")
    assert held is not None
    await alone.update(held.model_copy(update={"expires_at": None, "content": "May."}))
    present += timedelta(hours=1)

    assert await shown(store) == set()
    assert await store.get_many(["summary", "second"]) == []


async def test_what_was_made_in_the_space_goes_with_its_sources(store: Store, grants: Grants) -> None:
    """And what others made from that, at any remove; what has other sources stays."""
    for name in ("ada", "bob"):
        await grants.give("acme", to=user(name), may="write", by="vera")
    ada, bob = (store.scoped(user_id=name, spaces="granted") for name in ("ada", "bob"))
    space = store.space("acme")
    await space.add(HumanMemory(id="kept", content="Refunds take thirty days."))
    await ada.add(HumanMemory(id="own", content="Ship on May 3."))
    copy = await Grants(ada).publish("own", "acme")
    await bob.add(SummaryMemory(id="in-space", content="May 3.", sources=[copy.id]), space="acme")
    await space.add(SummaryMemory(id="second", content="May.", sources=["in-space"]))
    await bob.add(SummaryMemory(id="bobs", content="May.", sources=["second"]))

    assert await Grants(ada).unpublish("own", "acme")

    assert {item.id for item in await space.search()} == {"kept"}
    assert await store.get_many(["in-space", "second", "bobs", copy.id]) == []


async def test_what_was_made_in_a_space_from_a_publication_ends_with_it(store: Store, grants: Grants) -> None:
    present = datetime(2026, 5, 1, tzinfo=UTC)
    store.clock = lambda: present.timestamp()  # type: ignore[method-assign]
    grants = Grants(store)
    await grants.give("acme", to=user("ada"), may="manage", by="vera")
    ada = store.scoped(user_id="ada", spaces="granted")
    await ada.add(HumanMemory(id="own", content="Ship on May 3."), ttl=3600)
    copy = await Grants(ada).publish("own", "acme")
    await ada.add(SummaryMemory(id="in-space", content="May 3.", sources=[copy.id]), space="acme")

    assert await ada.space("acme").touch([copy.id, "in-space"], ttl=math.inf) == 0
    present += timedelta(hours=1)

    assert await store.space("acme").count() == 0


async def test_a_store_that_was_made_without_open_follows_what_it_purges(tmp_path: Path) -> None:
    """Another process may have given grants; this one never asked for any."""
    async with SQLiteMemoryStore(tmp_path / "agent.db") as store:
        grants = Grants(store)
        ada = await shared_summary(store, grants, may="write")
        await Grants(ada).publish("own", "acme")
    async with SQLiteMemoryStore(tmp_path / "agent.db") as plain:
        assert plain.observers == []
        await plain.purge("source")
        assert await plain.get_many(["summary", "second"]) == []
    async with SQLiteMemoryStore(tmp_path / "agent.db") as plain:
        await plain.scoped(user_id="ada").pop(purge=True)
        assert await plain.space("acme").count() == 0


async def test_nothing_is_made_from_a_space_that_may_not_be_read(store: Store, grants: Grants) -> None:
    ada = await shared_summary(store, grants)
    await store.space("beta").add(HumanMemory(id="secret", content="The merger is off."))

    with pytest.raises(NotGrantedError, match="'beta'"):
        await ada.add(SummaryMemory(content="No merger.", sources=["secret"]))
    await grants.give("beta", to=agent("planner", of="ada"), by="vera")
    planner = store.scoped(user_id="ada", agent_id="planner", spaces="granted")
    with pytest.raises(NotGrantedError, match="user:ada"):
        await planner.add(SummaryMemory(content="No merger.", sources=["secret"]))


async def test_what_was_made_elsewhere_does_not_go_into_a_space(store: Store, grants: Grants) -> None:
    ada = await shared_summary(store, grants, may="write")
    await grants.give("beta", to=user("ada"), may="write", by="vera")

    for sources in (["source"], ["own"], ["source", "own"]):
        with pytest.raises(InputError, match="Publish"):
            await ada.add(SummaryMemory(content="Launch.", sources=sources), space="beta")
    with pytest.raises(InputError, match="made from items of a space"):
        await Grants(ada).publish("summary", "beta")
    await ada.add(SummaryMemory(content="Launch.", sources=["source"]), space="acme")

    assert await store.space("beta").count() == 0


async def test_a_fact_goes_or_stays_without_the_source(store: Store, grants: Grants) -> None:
    await store.space("acme").add(HumanMemory(id="source", content="Ada lives in Porto."))
    await grants.give("acme", to=user("ada"), by="vera")
    ada = store.scoped(user_id="ada", spaces="granted")
    await ada.add(HumanMemory(id="own", content="I work at Acme."))
    facts = Facts(ada)
    await facts.set("Ada", "lives_in", "Porto", sources=["source"])
    await facts.set("Ada", "works_at", "Acme", sources=["own"])
    assert {fact.predicate for fact in await facts.current("Ada")} == {"lives_in", "works_at"}

    await grants.revoke("acme", to=user("ada"), by="vera")

    left = await Facts(store.scoped(user_id="ada")).current("Ada")
    assert {fact.predicate for fact in left} == {"works_at"}


async def test_a_publication_is_a_copy_that_names_its_source_and_nothing_else(store: Store, grants: Grants) -> None:
    await grants.give("acme", to=user("ada"), may="write", by="vera")
    await grants.give("acme", to=user("bob"), by="vera")
    ada, bob = (store.scoped(user_id=name, session_id="s", spaces="granted") for name in ("ada", "bob"))
    await ada.add(HumanMemory(id="own", content="Ship on May 3.", payload={"private": "yes"}, group="g"))

    copy = await Grants(ada).publish("own", "acme")

    found = await bob.get(copy.id)
    assert found is not None
    assert found.model_extra == {"sources": ["own"]}
    assert (found.content, found.trust, found.origin, found.payload) == ("Ship on May 3.", "external", "user:ada", None)
    assert found.metadata.session_id is None
    assert [item.id for item in await descendants(store, "own")] == [copy.id]
    with pytest.raises(NotGrantedError):
        await Grants(bob).publish("own", "acme") if await bob.own.get("own") else await bob.add(
            MemoryItem(content="x"), space="acme"
        )


async def test_unpublishing_takes_back_what_was_made_from_it_even_without_a_grant(store: Store, grants: Grants) -> None:
    for name in ("ada", "bob"):
        await grants.give("acme", to=user(name), may="write", by="vera")
    ada, bob = (store.scoped(user_id=name, spaces="granted") for name in ("ada", "bob"))
    await ada.add(HumanMemory(id="own", content="Ship on May 3."))
    copy = await Grants(ada).publish("own", "acme")
    await bob.add(SummaryMemory(id="summary", content="May 3.", sources=[copy.id]))
    assert not await Grants(bob).unpublish("own", "acme")
    await grants.revoke("acme", to=user("ada"), by="vera")

    assert await Grants(ada).unpublish("own", "acme")

    assert await bob.get(copy.id) is None
    assert await bob.get("summary") is None
    assert not await Grants(ada).unpublish("own", "acme")


async def test_purging_the_original_takes_the_publication_back(store: Store, grants: Grants) -> None:
    await grants.give("acme", to=user("ada"), may="write", by="vera")
    ada = store.scoped(user_id="ada", spaces="granted")
    for purge in (lambda: ada.purge("own"), lambda: store.purge("own"), lambda: forget(store, "ada")):
        await grants.give("acme", to=user("ada"), may="write", by="vera")
        await ada.add(HumanMemory(id="own", content="Ship on May 3."))
        await Grants(ada).publish("own", "acme")
        assert await store.space("acme").count() == 1
        await purge()
        assert await store.space("acme").count() == 0


async def test_taking_back_an_item_goes_across_places(store: Store, grants: Grants) -> None:
    await shared_summary(store, grants)

    made = [item.id for item in await descendants(store, "source")]
    taken = await revoke(store, item="source", by="vera")

    assert made == ["summary", "second"]
    assert set(taken.taken) == {"source", "summary", "second"}
    assert await shown(store) == {"own"}
