"""Spaces in a store with other observers: what they do for users, they leave alone in spaces, or do there as well."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import memoranda
from memoranda.items import HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda_context import assemble
from memoranda_facts import Facts
from memoranda_facts.extraction import BackgroundExtraction, RuleExtractor
from memoranda_receipts import Receipts, Recording
from memoranda_spaces import Grants, user

SESSION = MemoryMetadata(session_id="monday")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memoranda.open("memory://", facts="rules") as store:
        await store.space("acme").add(HumanMemory(id="said", content="I live in Rome.", metadata=SESSION))
        await Grants(store).give("acme", to=user("ada"), may="write", by="vera")
        yield store


async def test_nothing_is_known_of_a_space_and_its_prompts_are_put_together(store: Store) -> None:
    for space in (store.space("acme"), store.scoped(user_id="ada").space("acme")):
        assert await space.known(tokens=100) == []
        assert await space.outdated(["said"]) == {}
        assert await Facts(space).current() == []
        assert "I live in Rome." in {item.content for item in await assemble(space, "Where do I live?")}
    assert await store.space("acme").count(where={"memory_type": "fact"}) == 0


async def test_no_facts_are_extracted_in_spaces_while_others_go_on(store: Store) -> None:
    async with BackgroundExtraction(store, RuleExtractor(), catch_up=True) as extraction:
        await store.space("acme").add(HumanMemory(content="I work at Siemens."))
        await store.scoped(user_id="bob").add(HumanMemory(content="I live in Oslo."))
        await extraction.drain()

    assert not extraction.failures
    assert [fact.object for fact in await Facts(store.scoped(user_id="bob")).current()] == ["Oslo"]
    assert await store.space("acme").count(where={"memory_type": "fact"}) == 0


async def test_what_was_shown_in_a_space_is_shown_again(store: Store) -> None:
    space = store.scoped(user_id="ada").space("acme").scoped(session_id="monday")
    await space.window(receipt=Recording(id="shown"))

    for receipts in (Receipts(store), Receipts(store.space("acme")), Receipts(space)):
        assert (await receipts.replay("shown")).exact
        assert await receipts.contents("shown") == {"said": "I live in Rome."}


async def test_the_past_is_read_in_the_handles_own_scope() -> None:
    async with memoranda.open("memory://", revisions=True) as store:
        await store.space("acme").add(HumanMemory(id="shared", content="The launch is in Oslo."))
        await Grants(store).give("acme", to=user("ada"), by="vera")
        ada = store.scoped(user_id="ada", spaces="granted")
        await ada.add(HumanMemory(id="own", content="I prefer mornings."))

        assert {item.id for item in await ada.search()} == {"own", "shared"}
        assert {item.id for item in await ada.search(as_of=store.present)} == {"own"}
        assert {item.id for item in await ada.space("acme").search(as_of=store.present)} == {"shared"}
