"""Grants: what they open, what closes them, and who may give them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from memoranda.errors import InputError, NotGrantedError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, MemoryStatus, ToolMemory
from memoranda.store import InMemoryStore, Store
from memoranda.store.backend import Layer, Query, Value
from memoranda.store.layers import add_layer
from memoranda.store.owners import DIRECTORY, Spaces
from memoranda.store.records import copying_records
from memoranda.trust import trust_of
from memoranda_backend.ranking import TextRanker
from memoranda_context import assemble
from memoranda_spaces import Grantee, Grants, agent, group, space_of, user
from memoranda_spaces.records import item_of

T = TypeVar("T")

POLICY = "The refund policy allows thirty days."


@pytest.fixture
def store() -> Store:
    return InMemoryStore()


@pytest.fixture
def grants(store: Store) -> Grants:
    return Grants(store)


async def ids(store: Store) -> set[str]:
    return {item.id for item in await store.search(limit=100)}


async def test_nothing_is_granted_by_default(store: Store) -> None:
    await store.space("acme").add(HumanMemory(id="1", content=POLICY))
    ada = store.scoped(user_id="ada", spaces="granted")

    assert await ada.search() == []
    assert await ada.recall("What is the refund policy?") == []
    assert await ada.get("1") is None
    assert await ada.count() == 0
    with pytest.raises(NotGrantedError, match="user:ada may not read the space 'acme'"):
        await ada.space("acme").search()
    with pytest.raises(NotGrantedError, match="may not write"):
        await ada.add(HumanMemory(content="planted"), space="acme")


async def test_a_grant_opens_every_read_that_is_not_about_one_conversation(store: Store, grants: Grants) -> None:
    await store.space("acme").add(HumanMemory(id="1", content=POLICY))
    ada = store.scoped(user_id="ada", session_id="s", spaces="granted")
    await ada.add(HumanMemory(id="own", content="My refund was late."))

    await grants.give("acme", to=user("ada"), by="vera", why="support")

    assert await ids(ada) == {"1", "own"}
    assert (await ada.recall("refund policy thirty days"))[0].id == "1"
    assert space_of((await ada.get_many(["1"]))[0]) == "acme"
    assert await ada.count() == 2
    assert [item.id for item in await ada.window()] == ["own"]
    assert [item.id async for item in ada.scan()] == ["own"]
    assert [payload.item_id for payload in await ada.payloads()] == ["own"]
    assert await ada.head() == "own"


async def test_results_of_several_places_are_one_ranking_and_one_page(store: Store, grants: Grants) -> None:
    for number, name in enumerate(("acme", "beta")):
        await store.space(name).add_many(
            [
                HumanMemory(
                    id=f"{name}-{day}", content=f"tea note {day}", created_at=f"2026-01-{day:02}T0{number}:00:00Z"
                )
                for day in range(1, 6)
            ]
        )
        await grants.give(name, to=user("ada"), by="vera")
    ada = store.scoped(user_id="ada", spaces="granted")
    await ada.add(HumanMemory(id="own", content="green tea", created_at="2026-01-03T12:00:00Z"))

    listed = [item.id for item in await ada.search(limit=100)]
    paged = [item.id for at in range(0, 12, 4) for item in await ada.search(limit=4, offset=at)]
    ranked = await ada.search_ranked(query="green tea", limit=3)

    assert listed == paged
    assert listed[:3] == ["beta-5", "acme-5", "beta-4"]
    assert len(listed) == 11
    assert ranked[0].item.id == "own"
    assert [each.score for each in ranked] == sorted([each.score for each in ranked], reverse=True)


async def test_a_layer_that_withholds_items_is_asked_about_every_place(store: Store, grants: Grants) -> None:
    class Withholding(Layer):
        name = "withholding"

        def narrow(self, query: Query[T]) -> Query[T]:
            return query.also(Value("content", False, "$ne", POLICY))

    add_layer(store, Withholding)
    await store.space("acme").add(HumanMemory(content=POLICY))
    await store.space("acme").add(HumanMemory(content="The policy is new."))
    await grants.give("acme", to=user("ada"), by="vera")

    found = await store.scoped(user_id="ada", spaces="granted").search_ranked(query="policy", mode="text")

    assert [each.item.content for each in found] == ["The policy is new."]


async def test_a_ranker_that_knows_one_scope_at_a_time_ranks_each_place(store: Store, grants: Grants) -> None:
    class OneByOne:
        index = TextRanker.index

    store.ranker = OneByOne()
    for space in ("acme", "beta"):
        await store.space(space).add(HumanMemory(content=f"The policy of {space}."))
        await grants.give(space, to=user("ada"), by="vera")

    found = await store.scoped(user_id="ada", spaces="granted").search_ranked(query="policy", mode="text")

    assert {each.item.content for each in found} == {"The policy of acme.", "The policy of beta."}


async def test_a_list_of_spaces_reaches_those_of_them_that_are_granted(store: Store, grants: Grants) -> None:
    for name in ("acme", "beta", "gamma"):
        await store.space(name).add(HumanMemory(id=name, content=name))
    await grants.give("acme", to=user("ada"), by="vera")
    await grants.give("beta", to=user("ada"), by="vera")

    assert await ids(store.scoped(user_id="ada", spaces=["acme", "gamma"])) == {"acme"}
    assert await ids(store.scoped(user_id="ada", spaces=[])) == set()
    assert await ids(store.scoped(user_id="ada")) == set()


async def test_a_revoked_grant_is_closed_to_the_next_call_and_its_history_stays(store: Store, grants: Grants) -> None:
    await store.space("acme").add(HumanMemory(id="1", content=POLICY))
    await grants.give("acme", to=user("ada"), may="write", by="vera", why="joins the team")
    ada = store.scoped(user_id="ada", spaces="granted")
    space = ada.space("acme")
    assert await ids(ada) == await ids(space) == {"1"}

    assert await grants.revoke("acme", to=user("ada"), by="max", why="left the team")

    assert await ids(ada) == set()
    with pytest.raises(NotGrantedError):
        await space.search()
    assert await grants.list("acme") == []
    (ended,) = await grants.list("acme", ended=True)
    assert [(event.action, event.by, event.why) for event in ended.history] == [
        ("give", "vera", "joins the team"),
        ("revoke", "max", "left the team"),
    ]
    assert not await grants.revoke("acme", to=user("ada"), by="max")


async def test_a_grant_ends_by_itself_and_a_clock_that_is_set_back_opens_nothing(store: Store) -> None:
    present = datetime(2026, 5, 1, tzinfo=UTC)
    store.clock = lambda: present.timestamp()  # type: ignore[method-assign]
    grants = Grants(store)
    await store.space("acme").add(HumanMemory(id="1", content=POLICY))
    await grants.give("acme", to=user("ada"), until=present + timedelta(days=1), by="vera")
    ada = store.scoped(user_id="ada", spaces="granted")
    assert await ids(ada) == {"1"}

    began, present = present, present + timedelta(days=1)
    assert await ids(ada) == set()
    with pytest.raises(InputError, match="past"):
        await grants.give("acme", to=user("ada"), until=began, by="vera")

    present = datetime(2030, 1, 1, tzinfo=UTC)
    assert await ids(ada) == set()
    present = began - timedelta(days=400)
    with pytest.raises(InputError, match="past"):
        await grants.give("acme", to=user("bob"), until=began, by="vera")


async def test_agents_and_groups(store: Store, grants: Grants) -> None:
    await store.space("plans").add(HumanMemory(id="1", content="Ship in May."))
    await grants.give("plans", to=agent("planner", of="ada"), by="vera")
    await grants.give("plans", to=agent("auditor"), by="vera")
    await grants.give("plans", to=group("leads"), by="vera")
    await grants.join("leads", user("bob"), by="vera")

    async def reads(**scope: str) -> bool:
        return bool(await ids(store.scoped(**scope, spaces="granted")))  # type: ignore[arg-type]

    assert await reads(user_id="ada", agent_id="planner")
    assert not await reads(user_id="ada")
    assert not await reads(user_id="eve", agent_id="planner")
    assert await reads(user_id="eve", agent_id="auditor")
    assert await reads(agent_id="auditor")
    assert await reads(user_id="bob", agent_id="planner")

    assert await grants.leave("leads", user("bob"), by="vera")
    assert not await reads(user_id="bob")
    assert await grants.members("leads") == []
    with pytest.raises(InputError, match="flat"):
        await grants.join("leads", group("others"), by="vera")


async def test_who_can_read_says_who_and_why(store: Store, grants: Grants) -> None:
    await store.space("acme").add(HumanMemory(id="1", content=POLICY))
    await store.scoped(user_id="ada").add(HumanMemory(id="own", content="mine"))
    await grants.give("acme", to=user("ada"), may="manage", by="vera")
    await grants.give("acme", to=group("support"), by="vera")
    await grants.join("support", user("bob"), by="vera")

    readers = await grants.who_can_read("1")

    assert {(str(reader.who), reader.why) for reader in readers} == {
        ("user:ada", "manage"),
        ("user:bob", "read, as a member of group:support"),
    }
    assert [(str(reader.who), reader.why) for reader in await grants.who_can_read("own")] == [("user:ada", "owner")]
    with pytest.raises(InputError, match="no such item"):
        await grants.who_can_read("nothing")
    with pytest.raises(InputError, match="no such item"):
        await Grants(store.scoped(user_id="eve", spaces="granted")).who_can_read("1")


async def test_only_who_manages_a_space_grants_it(store: Store, grants: Grants) -> None:
    await grants.give("acme", to=user("ada"), may="manage", by="vera")
    await grants.give("acme", to=user("bob"), may="write", by="vera")
    by_ada, by_bob = Grants(store.scoped(user_id="ada")), Grants(store.scoped(user_id="bob"))

    given = await by_ada.give("acme", to=user("cleo"))

    assert given.history[-1].by == "user:ada"
    with pytest.raises(NotGrantedError, match="manage"):
        await by_bob.give("acme", to=user("eve"))
    with pytest.raises(NotGrantedError, match="manage"):
        await by_bob.revoke("acme", to=user("cleo"))
    with pytest.raises(NotGrantedError, match="manage"):
        await by_ada.give("beta", to=user("eve"))
    with pytest.raises(NotGrantedError):
        await by_bob.list("acme")
    with pytest.raises(InputError, match="own user"):
        await by_ada.give("acme", to=user("eve"), by="vera")
    with pytest.raises(InputError, match="operator"):
        await by_ada.join("support", user("eve"), by="user:ada")
    with pytest.raises(InputError, match="who decides"):
        await grants.give("acme", to=user("eve"))
    assert {str(grant.to) for grant in await by_ada.list("acme")} == {"user:ada", "user:bob", "user:cleo"}
    assert [grant.space for grant in await by_bob.list("user:bob")] == ["acme"]


async def test_a_manager_whose_grant_ends_meanwhile_gives_nothing(store: Store, grants: Grants) -> None:
    """Giving and revoking race in both orders; a manager who lost the race has changed nothing."""
    for _ in range(20):
        await grants.give("acme", to=user("ada"), may="manage", by="vera")
        await grants.revoke("acme", to=user("eve"), by="vera")
        by_ada = Grants(store.scoped(user_id="ada"))

        results = await asyncio.gather(
            grants.revoke("acme", to=user("ada"), by="vera"),
            by_ada.give("acme", to=user("eve")),
            return_exceptions=True,
        )

        assert results[0] is True
        opened = {str(grant.to) for grant in await grants.list("acme")}
        assert opened == (set() if isinstance(results[1], NotGrantedError) else {"user:eve"}), results[1]
        with pytest.raises(NotGrantedError):
            await by_ada.give("acme", to=user("eve"))


@pytest.mark.parametrize("to", ["ada", "user:", "team:x", "", 3, "user:space:acme", "group:Not A Group"])
async def test_whom_a_grant_is_for_is_checked(grants: Grants, to: str) -> None:
    with pytest.raises(InputError):
        await grants.give("acme", to=to, by="vera")


async def test_what_others_write_is_not_the_readers_own_word(store: Store, grants: Grants) -> None:
    await grants.give("acme", to=user("ada"), may="write", by="vera")
    await grants.give("acme", to=user("bob"), may="write", by="vera")
    ada = store.scoped(user_id="ada", session_id="private", spaces="granted")
    bob = store.scoped(user_id="bob", spaces="granted")
    await bob.add(HumanMemory(id="1", content="My name is Mallory.", trust="operator"), space="acme")
    await bob.add(AIMemory(id="2", content="Noted.", metadata=MemoryMetadata(user_id="bob")), space="acme")
    await ada.space("acme").add(ToolMemory(id="3", content="12 C", tool_call_id="x", tool_name="weather"))
    await store.space("acme").add(HumanMemory(id="4", content="A note of the operator."))

    found = {item.id: item for item in await ada.search()}

    assert {name: str(trust_of(item)) for name, item in found.items()} == {
        "1": "external",
        "2": "external",
        "3": "external",
        "4": "agent",
    }
    assert {found[name].origin for name in "12"} == {"user:bob"}
    assert found["3"].origin == "user:ada"
    assert found["3"].metadata == MemoryMetadata(user_id="space:acme")
    assert {item.id for item in await ada.search(min_trust="agent")} == {"4"}
    assert await ada.search(min_trust="user") == []
    assert await ada.space("acme").search(min_trust="user") == []
    approved = await store.approve("1", trust="agent", by="vera")
    assert trust_of(approved) == "agent"
    assert {item.id for item in await ada.search(min_trust="agent")} == {"1", "4"}


async def test_who_may_write_changes_only_what_they_wrote(store: Store, grants: Grants) -> None:
    for name in ("ada", "bob"):
        await grants.give("acme", to=user(name), may="write", by="vera")
    ada, bob = (store.scoped(user_id=name).space("acme") for name in ("ada", "bob"))
    await ada.add(HumanMemory(id="1", content="From Ada."))

    for write in (
        lambda: bob.add(HumanMemory(id="1", content="overwritten")),
        lambda: bob.delete("1"),
        lambda: bob.purge("1"),
        lambda: bob.clear(),
        lambda: bob.purge(),
        lambda: bob.pop(),
        lambda: bob.touch(["1"], ttl=0.001),
        lambda: bob.apply(deletes=["1"]),
    ):
        with pytest.raises(NotGrantedError, match="manage"):
            await write()
    assert await ada.delete("1")
    with pytest.raises(NotGrantedError, match="manage"):
        await bob.purge("1")
    with pytest.raises(NotGrantedError, match="manage"):
        await bob.add(HumanMemory(id="1", content="in its place"))
    await grants.give("acme", to=user("bob"), may="manage", by="vera")
    assert await bob.restore("1") == 1
    assert await bob.clear() == 1


async def test_reading_is_not_writing(store: Store, grants: Grants) -> None:
    await grants.give("acme", to=user("ada"), by="vera")
    ada = store.scoped(user_id="ada", spaces="granted")

    with pytest.raises(NotGrantedError, match="may not write"):
        await ada.add_many([HumanMemory(content="a"), HumanMemory(content="b")], space="acme")
    with pytest.raises(NotGrantedError, match="may not write"):
        await ada.space("acme").apply(adds=[HumanMemory(content="a")])

    assert await store.space("acme").count() == 0


async def test_refreshing_what_is_read_prolongs_nothing_in_a_space(store: Store, grants: Grants) -> None:
    await store.space("acme").add(HumanMemory(id="1", content=POLICY), ttl=3600)
    await grants.give("acme", to=user("ada"), by="vera")
    ada = store.scoped(user_id="ada", spaces="granted")
    await ada.add(HumanMemory(id="own", content="My refund was late."), ttl=3600)
    before = {item.id: item.expires_at for item in await ada.search()}
    await asyncio.sleep(0.01)

    refreshed = {item.id: item.expires_at for item in await ada.search(refresh=True)}

    assert refreshed == {item.id: item.expires_at for item in await ada.search()}
    assert refreshed["1"] == before["1"]
    assert (refreshed["own"] or "") > (before["own"] or "")


async def test_a_handle_of_a_handle_reaches_the_same_spaces(store: Store, grants: Grants) -> None:
    await store.space("acme").add(HumanMemory(id="1", content=POLICY))
    await grants.give("acme", to=user("ada"), by="vera")
    ada = store.scoped(user_id="ada", spaces="granted")

    assert await ids(ada.scoped(session_id="s")) == {"1"}
    assert await ids(ada.scoped(session_id="s").own) == set()
    assert await ids(ada.space("acme").scoped(session_id="s")) == set()
    await grants.revoke("acme", to=user("ada"), by="vera")
    with pytest.raises(NotGrantedError):
        await ada.space("acme").scoped(session_id="s").search()


async def test_the_grants_of_others_cost_a_reader_nothing(store: Store, grants: Grants) -> None:
    """Ten thousand of them: the work of a read is what it was, within the noise of a clock."""
    await store.space("acme").add(HumanMemory(id="1", content=POLICY))
    given = await grants.give("acme", to=user("ada"), by="vera")
    ada = store.scoped(user_id="ada", agent_id="planner", spaces="granted")

    async def work() -> float:
        began = time.thread_time()
        for _ in range(20):
            assert await ids(ada) == {"1"}
        return time.thread_time() - began

    before = min([await work() for _ in range(5)])
    at = given.history[0].at
    others = [
        item_of(replace(given, to=user(f"user-{number}"), version=0), at, f"grant-{number}") for number in range(10_000)
    ]
    with copying_records(store):
        await store.add_many(others)
    after = min([await work() for _ in range(5)])

    assert after < 3 * before


async def test_a_session_is_forked_in_a_space_by_whoever_may_write(store: Store, grants: Grants) -> None:
    place = MemoryMetadata(session_id="monday")
    await store.space("acme").add(HumanMemory(id="1", content=POLICY, metadata=place))
    await grants.give("acme", to=user("ada"), may="write", by="vera")
    await grants.give("acme", to=user("bob"), by="vera")
    space = store.scoped(user_id="ada").space("acme")

    branch = await space.fork("monday", at="1")

    assert [item.id for item in await space.scoped(session_id=branch).window()] == ["1"]
    for name in ("bob", "eve"):
        with pytest.raises(NotGrantedError):
            await store.scoped(user_id=name).space("acme").fork("monday", at="1")


async def test_a_handle_of_a_handle_reaches_no_further(store: Store, grants: Grants) -> None:
    for name in ("acme", "beta"):
        await store.space(name).add(HumanMemory(id=name, content=POLICY))
        await grants.give(name, to=user("ada"), by="vera")
    ada = store.scoped(user_id="ada", spaces=["acme"])

    assert await ids(ada.scoped(session_id="s", spaces="granted")) == {"acme"}
    assert await ids(ada.scoped(session_id="s", spaces=["beta"])) == set()


@pytest.mark.parametrize("spaces", ["granted", ["acme"], ["beta"]])
async def test_a_handle_of_a_space_keeps_its_grant_whatever_spaces_it_asks_for(
    store: Store, grants: Grants, spaces: Spaces
) -> None:
    await store.space("acme").add(HumanMemory(content=POLICY, metadata=MemoryMetadata(session_id="s")))
    await grants.give("acme", to=user("ada"), by="vera")

    for name in ("ada", "eve"):
        space = store.scoped(user_id=name).space("acme")
        for handle in (space, space.scoped(session_id="s")):
            with pytest.raises(InputError, match="leave out spaces"):
                handle.scoped(session_id="s", spaces=spaces)


@pytest.mark.parametrize("kind", ["grant", "derivation", "publication"])
@pytest.mark.parametrize(
    "payload",
    [
        *("{}", "nonsense", "[]", None, '{"may": "read", "until": 3, "history": []}'),
        *('{"item": 3, "others": 5}', '{"item": "x", "others": ["1"]}'),
    ],
)
async def test_a_record_that_cannot_be_read_allows_nothing_and_hides_no_other(
    store: Store, grants: Grants, kind: str, payload: str | None
) -> None:
    await store.space("acme").add(HumanMemory(id="1", content=POLICY))
    await grants.give("acme", to=user("ada"), by="vera")
    with copying_records(store):
        for name, owner in (("ada", "user:ada"), ("eve", "user:eve"), ("beta", "user:space:beta")):
            metadata = MemoryMetadata(user_id=DIRECTORY, session_id=owner, task_id="acme")
            spoilt = MemoryItem(id=f"bad-{name}", content="", memory_type=kind, metadata=metadata, payload=payload)
            await store.add(spoilt.model_copy(update={"archived_by": spoilt.id, "status": MemoryStatus.ACCEPTED}))

    assert await ids(store.scoped(user_id="ada", spaces="granted")) == {"1"}
    assert await ids(store.scoped(user_id="eve", spaces="granted")) == set()
    assert [str(each.who) for each in await grants.who_can_read("1")] == ["user:ada"]
    assert await grants.revoke("acme", to=user("ada"), by="vera")
    assert await ids(store.scoped(user_id="ada", spaces="granted")) == set()
    await grants.give("acme", to=user("eve"), by="vera")
    assert await ids(store.scoped(user_id="eve", spaces="granted")) == {"1"}
    assert await store.space("acme").purge("1")


async def test_a_grant_that_was_spoilt_is_given_again(store: Store, grants: Grants) -> None:
    await store.space("acme").add(HumanMemory(id="1", content=POLICY))
    given = await grants.give("acme", to=user("ada"), by="vera")
    (record,) = await store.search(metadata=MemoryMetadata(user_id=DIRECTORY), archived=True)
    with copying_records(store):
        await store.add(record.model_copy(update={"payload": "{}"}))
    assert await grants.list("acme") == []

    again = await grants.give("acme", to=user("ada"), by="vera")

    assert (again.to, again.may) == (given.to, given.may)
    assert await ids(store.scoped(user_id="ada", spaces="granted")) == {"1"}


async def test_a_text_for_a_grantee_is_the_grantee(grants: Grants) -> None:
    given = await grants.give("acme", to="user:ada:with:colons", by="vera")

    assert given.to == Grantee("user", "ada:with:colons") == user("ada:with:colons")


async def test_the_embedder_is_asked_once_for_all_places() -> None:
    from memoranda_backend.ranking import HashingEmbeddings
    from memoranda_vector import VectorMemoryStore

    asked: list[str] = []

    class Counting(HashingEmbeddings):
        def embed(self, text: str) -> list[float]:
            asked.append(text)
            return super().embed(text)

    async with VectorMemoryStore(Counting(64)) as store:
        grants = Grants(store)
        for name in ("acme", "beta", "gamma"):
            await store.space(name).add(MemoryItem(content=f"{POLICY} At {name}."))
            await grants.give(name, to=user("ada"), by="vera")
        ada = store.scoped(user_id="ada", spaces="granted")
        await ada.add(HumanMemory(content="My refund was late."))
        asked.clear()

        found = await ada.recall("refund policy", min_score=0)

    assert len(found) == 4
    assert asked.count("refund policy") == 1


async def test_what_is_shown_to_others_is_stored_as_it_was(store: Store, grants: Grants) -> None:
    """A prompt reads items that the store shares with it; nothing of the reader's view goes back."""
    await store.space("acme").add(HumanMemory(id="1", content=POLICY))
    await grants.give("acme", to=user("ada"), by="vera")
    ada = store.scoped(user_id="ada", session_id="s", spaces="granted")

    prompt = str(await assemble(ada, "What is the refund policy?"))

    stored = await store.get("1")
    assert stored is not None
    assert stored.trust is None
    assert POLICY in prompt
    assert f"{stored.created_at[:10]}, in the space acme" in prompt
    assert "- someone else: " in prompt
    assert "# What was said before" not in prompt
