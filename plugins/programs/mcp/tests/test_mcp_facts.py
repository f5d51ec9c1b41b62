"""The tools for facts over the protocol."""

from __future__ import annotations

from typing import Any

from mcp import Client

from memoranda.store import InMemoryStore
from memoranda_facts import Facts
from memoranda_mcp import Rights, ScopedMemory, make_server

THREE = ["look_up_facts", "set_fact", "end_fact"]


def memory_for(store: InMemoryStore, user: str, rights: Rights, **scope: str) -> ScopedMemory:
    """Return the memory of a user."""
    return ScopedMemory(store.scoped(user_id=user, **scope), store.scoped(user_id=user), rights)


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the structured result of a tool that must not fail."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    return dict(result.structured_content or {})


async def test_an_assistant_remembers_recalls_corrects_and_ends_facts(store: InMemoryStore) -> None:
    async with Client(make_server(memory_for(store, "ada", Rights(facts=True), session_id="s"))) as client:
        await call(client, "set_fact", subject="Ada", predicate="lives_in", value="Pariss", since="2026-03")
        (fact,) = (await call(client, "look_up_facts"))["facts"]
        assert (fact["value"], fact["since"], fact["state"], fact["trust"]) == ("Pariss", "2026-03", "holds", "agent")
        right = {"subject": "Ada", "predicate": "lives_in", "value": "Paris"}
        await call(client, "set_fact", **right, corrects=fact["id"])
        (fact,) = (await call(client, "look_up_facts", query="Where does Ada live?"))["facts"]
        assert (fact["value"], fact["since"]) == ("Paris", "2026-03")
        await call(client, "end_fact", id=fact["id"])
        assert (await call(client, "look_up_facts"))["facts"] == []


async def test_what_never_was_true_does_not_hold_at_any_time(store: InMemoryStore) -> None:
    async with Client(make_server(memory_for(store, "ada", Rights(facts=True)))) as client:
        await call(client, "set_fact", subject="Ada", predicate="lives_in", value="Rome", since="2026-03")
        (fact,) = (await call(client, "look_up_facts", at="2026-04"))["facts"]
        await call(client, "end_fact", id=fact["id"], never_true=True)
        assert (await call(client, "look_up_facts", at="2026-04"))["facts"] == []


async def test_the_tools_are_there_only_if_asked_for_and_a_reader_only_reads(store: InMemoryStore) -> None:
    for rights, expected in (
        (Rights(), []),
        (Rights(facts=True), THREE),
        (Rights(facts=True, read_only=True), ["look_up_facts"]),
    ):
        async with Client(make_server(memory_for(store, "ada", rights))) as client:
            named = [tool.name for tool in (await client.list_tools()).tools]
            assert [name for name in named if "fact" in name] == expected


async def test_facts_are_the_users_in_every_conversation_and_no_one_elses(store: InMemoryStore) -> None:
    await Facts(store.scoped(user_id="ada")).set("Ada", "likes", "jazz", sources="manual")
    async with Client(make_server(memory_for(store, "ada", Rights(facts=True), session_id="other"))) as ada:
        assert [fact["value"] for fact in (await call(ada, "look_up_facts"))["facts"]] == ["jazz"]
    async with Client(make_server(memory_for(store, "bob", Rights(facts=True)))) as bob:
        assert (await call(bob, "look_up_facts"))["facts"] == []


async def test_mistakes_are_explained(store: InMemoryStore) -> None:
    home = (await Facts(store.scoped(user_id="ada")).set("Ada", "lives_in", "Rome", sources="manual")).entries[0]
    jazz = {"subject": "Ada", "predicate": "likes", "value": "jazz"}
    async with Client(make_server(memory_for(store, "ada", Rights(facts=True)))) as client:
        for name, arguments, sentence in (
            ("end_fact", {"id": "none"}, "Ids come from look_up_facts"),
            ("end_fact", {"id": "none", "never_true": True, "at": "2026"}, "Leave `at` out"),
            ("set_fact", {**jazz, "corrects": "none"}, "no fact with this id"),
            ("set_fact", {**jazz, "corrects": home, "since": "2026"}, "Leave `since` out"),
            ("set_fact", {**jazz, "corrects": home}, "not about this subject and predicate"),
            ("set_fact", {"subject": "Ada"}, "`predicate` is missing"),
            ("set_fact", {"subject": "Ada", "predicate": "x", "value": "y", "since": "soon"}, "valid_from"),
        ):
            refused = await client.call_tool(name, arguments)
            assert refused.is_error
            assert sentence in str(refused.content)


async def test_entries_of_facts_are_changed_by_their_own_tools_alone(store: InMemoryStore) -> None:
    receipt = await Facts(store.scoped(user_id="ada")).set("Ada", "likes", "jazz", sources="manual")
    async with Client(make_server(memory_for(store, "ada", Rights(facts=True)))) as client:
        refused = await client.call_tool("forget", {"ids": [receipt.entries[0]]})
        assert refused.is_error
        assert "only its own tools change" in str(refused.content)
