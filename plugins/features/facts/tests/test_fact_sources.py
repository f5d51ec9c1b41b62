"""Facts go with their sources: at once where facts are in use, and with the first read elsewhere."""

from __future__ import annotations

from pathlib import Path

import memoranda
from memoranda import HumanMemory
from memoranda_facts import Facts
from memoranda_userdata import revoke


async def test_a_purge_takes_facts_back_before_it_returns() -> None:
    async with memoranda.open("memory://") as store:
        ada = store.scoped(user_id="ada")
        said = HumanMemory(content="I live in Xanadu.")
        await ada.add(said)
        facts = Facts(ada)
        await facts.set("Ada", "lives_in", "Xanadu", sources=[said])

        await store.purge(said.id)

        kept = [item async for item in store.scan(include_deleted=True)]
        assert not [item for item in kept if "Xanadu" in f"{item.content} {item.payload}"]
        assert len((await facts.reconcile()).removed) == 1
        assert (await facts.reconcile()).removed == ()


async def test_what_was_purged_without_facts_is_taken_back_by_the_first_read(tmp_path: Path) -> None:
    """Another program, or a command, knows nothing of facts."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    said = HumanMemory(content="I live in Xanadu.")
    async with memoranda.open(url) as store:
        await store.scoped(user_id="ada").add(said)
        await Facts(store.scoped(user_id="ada")).set("Ada", "lives_in", "Xanadu", sources=[said])
    async with memoranda.open(url) as store:
        await store.purge(said.id)
    async with memoranda.open(url) as store:
        assert await Facts(store.scoped(user_id="ada")).current() == []


async def test_facts_of_a_store_that_is_only_read_are_shown_as_they_are(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    async with memoranda.open(url) as store:
        await Facts(store.scoped(user_id="ada")).set("Ada", "lives_in", "Xanadu", sources="manual")
    async with memoranda.open(url, access="read") as store:
        assert [fact.object for fact in await Facts(store.scoped(user_id="ada")).current()] == ["Xanadu"]


async def test_facts_of_a_session_keep_the_origin_and_the_trust_of_its_handle() -> None:
    async with memoranda.open("memory://") as store:
        site = store.scoped(user_id="ada").scoped(trust="external", origin="website", session_id="s")
        await Facts(site).set("Ada", "lives_in", "Xanadu", sources="manual", trust="user")
        (entry,) = [item async for item in store.scan(memory_type="fact")]
        assert (entry.origin, entry.trust, entry.metadata.session_id) == ("website", "external", None)
        await revoke(store, origin="website")
        assert await Facts(store.scoped(user_id="ada")).current() == []
