"""The pages of facts: what holds, how it came to hold, and undo."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import memoranda
from memoranda import HumanMemory, MemoryMetadata, Store
from memoranda_facts import Facts, Predicate, Schema

SCHEMA = Schema([Predicate("lives_in", "one")])
ADA = MemoryMetadata(user_id="ada")


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """Ada moved from Paris to Rome, and said so."""
    async with memoranda.open(f"sqlite:///{tmp_path / 'a.db'}") as opened:
        facts = Facts(opened.scoped(user_id="ada"), schema=SCHEMA)
        for month, city in enumerate(("Paris", "<b>Rome</b>"), start=1):
            said = HumanMemory(content=f"I live in {city} now.", metadata=ADA)
            await opened.add(said)
            await facts.set("Ada", "lives_in", city, valid_from=f"2026-0{month}", sources=[said])
        yield opened


async def slot_of(client: Any, owner: str) -> str:
    """Return the address of the only slot."""
    found = re.search(rf'href="({owner}facts/\w+)"', await client.get(f"{owner}facts"))
    assert found
    return found[1]


def shown_values(page: str) -> list[tuple[str, str]]:
    return re.findall(r'<b><bdi>(.*?)</bdi></b> <b class="tag[^"]*">(\w+)</b>', page)


async def test_what_holds_is_listed(store: Store, inspecting: Any) -> None:
    async with inspecting(store, schema=SCHEMA) as client:
        owner = await client.owner("ada")
        page = await client.get(f"{owner}facts")

    assert "&lt;b&gt;Rome&lt;/b&gt;" in page
    assert "since 2026-02" in page
    assert "Paris" not in page


async def test_a_slot_shows_its_timeline_and_leads_to_its_sources(store: Store, inspecting: Any) -> None:
    async with inspecting(store, schema=SCHEMA) as client:
        owner = await client.owner("ada")
        page = await client.get(await slot_of(client, owner))
        items = [await client.get(address) for address in re.findall(rf'href="({owner}items/\w+)"', page)]

    assert shown_values(page) == [("&lt;b&gt;Rome&lt;/b&gt;", "holds"), ("Paris", "superseded")]
    assert ["I live in Paris now." in item for item in items] == [False, True]


async def test_a_change_is_undone_and_the_undo_as_well(store: Store, inspecting: Any) -> None:
    facts = Facts(store.scoped(user_id="ada"), schema=SCHEMA)
    async with inspecting(store, schema=SCHEMA) as client:
        owner = await client.owner("ada")
        (key, *_) = re.findall(r'name="item" value="(\w+)"', await client.get(await slot_of(client, owner)))

        assert "Rome" in await client.post(f"{owner}preview/undo-fact", {"item": key})
        done = await client.post(f"{owner}do/undo-fact", {"item": key})
        assert [fact.object for fact in await facts.current()] == ["Paris"]

        (again,) = re.findall(r'name="item" value="(\w+)"', done)
        await client.post(f"{owner}do/undo-fact", {"item": again})
        assert [fact.object for fact in await facts.current()] == ["<b>Rome</b>"]


async def test_a_read_only_inspector_undoes_nothing(store: Store, inspecting: Any) -> None:
    async with inspecting(store, schema=SCHEMA, read_only=True) as client:
        owner = await client.owner("ada")
        assert "Undo" not in await client.get(await slot_of(client, owner))
        assert (await client.http.post(f"{owner}do/undo-fact", data={"item": "x"})).status_code == 404


async def test_without_facts_installed_no_page_speaks_of_them(
    store: Store, inspecting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoranda_inspector.app.find_spec", lambda name: None)
    async with inspecting(store) as client:
        owner = await client.owner("ada")
        assert "Facts" not in await client.get(owner)
        assert (await client.http.get(f"{owner}facts")).status_code == 404


async def test_facts_of_nobody_are_a_sentence(store: Store, inspecting: Any) -> None:
    await store.add(HumanMemory(content="Hello", metadata=MemoryMetadata(session_id="s")))
    async with inspecting(store) as client:
        owner = await client.owner("s", by="session_id")
        answer = await client.http.get(f"{owner}facts")

    assert (answer.status_code, "choose one" in answer.text) == (400, True)
