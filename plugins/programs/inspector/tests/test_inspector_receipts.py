"""The pages of receipts: beside the conversation, alone, two beside each other, and from an item."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import memoranda
from memoranda import AIMemory, HumanMemory, Store
from memoranda_context import assemble

receipts = pytest.importorskip("memoranda_receipts")


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """Two rounds of a conversation, with a receipt of the window after each."""
    async with memoranda.open(f"sqlite:///{tmp_path / 'a.db'}") as opened:
        ada = opened.scoped(user_id="ada", session_id="trip")
        for number in range(2):
            await ada.add(HumanMemory(id=f"human-{number}", content=f"<b>Question {number}</b>"))
            await ada.window(rounds=1, receipt=receipts.Recording(model=f"model-{number}", id=f"receipt-{number}"))
            await ada.add(AIMemory(id=f"ai-{number}", content=f"Answer {number}"))
        yield opened


async def test_receipts_stand_at_their_turns(store: Store, inspecting: Any) -> None:
    async with inspecting(store) as client:
        page = await client.get(await client.owner("ada"))

    order = re.findall(r"Question \d|Answer \d|model-\d", page)
    assert order == ["Question 0", "model-0", "Answer 0", "Question 1", "model-1", "Answer 1"]


async def test_a_receipt_says_whether_it_can_be_shown_again(store: Store, inspecting: Any) -> None:
    async with inspecting(store) as client:
        owner = await client.owner("ada")
        listed = await client.get(f"{owner}receipts")
        addresses = re.findall(rf'href="({owner}receipts/\w+)"', listed)
        exact = await client.get(addresses[1])
        await store.purge("human-0")
        changed = await client.get(addresses[1])

    assert len(addresses) == 2
    assert "to the byte" in exact
    assert "&lt;b&gt;Question 0&lt;/b&gt;" in exact
    assert "<b>Question" not in exact
    assert "purged since" in changed
    assert "1 of 1 item" in changed


async def test_receipts_are_listed_by_their_questions(store: Store, inspecting: Any) -> None:
    trip = store.scoped(user_id="ada", session_id="trip")
    await assemble(trip, "Shall I <i>pack</i>?", receipt=True)
    async with inspecting(store) as client:
        owner = await client.owner("ada")
        listed = await client.get(f"{owner}receipts")
        await store.purge("human-0")
        later = await client.get(f"{owner}receipts")

    questions = re.findall(r"<a href=\"[^\"]+/receipts/\w+\"><bdi>(.*?)</bdi>", listed)
    assert questions == [
        "Shall I &lt;i&gt;pack&lt;/i&gt;?",
        "&lt;b&gt;Question 1&lt;/b&gt;",
        "&lt;b&gt;Question 0&lt;/b&gt;",
    ]
    assert "Question 0" not in later
    assert "Without a question" in later


async def test_what_was_left_out_of_the_earlier_context_says_so(store: Store, inspecting: Any) -> None:
    trip = store.scoped(user_id="ada", session_id="trip")
    for rounds in (1, 2):
        await trip.window(rounds=rounds, receipt=receipts.Recording(id=f"of-{rounds}"))
    async with inspecting(store) as client:
        owner = await client.owner("ada")
        keys = re.findall(r'name="a" value="(\w+)"', await client.get(f"{owner}receipts"))
        page = await client.get(f"{owner}receipts/compare?a={keys[0]}&b={keys[1]}")

    assert "new: left out of the earlier one, beyond the rounds" in page
    assert "entered" not in page


async def test_two_receipts_are_shown_beside_each_other(store: Store, inspecting: Any) -> None:
    async with inspecting(store) as client:
        owner = await client.owner("ada")
        keys = re.findall(r'name="a" value="(\w+)"', await client.get(f"{owner}receipts"))
        page = await client.get(f"{owner}receipts/compare?a={keys[0]}&b={keys[1]}")
        alone = await client.http.get(f"{owner}receipts/compare?a={keys[0]}")

    assert "not in the later one: beyond the rounds" in page
    assert "new: added since" in page
    assert page.index("Question 0") < page.index("Question 1")
    assert alone.status_code == 400
    assert "Choose two receipts" in alone.text


async def test_an_item_says_who_has_seen_it(store: Store, inspecting: Any) -> None:
    async with inspecting(store) as client:
        owner = await client.owner("ada")
        items = re.findall(rf'href="({owner}items/\w+)"', await client.get(owner))
        first, last = await client.get(items[0]), await client.get(items[-1])

    assert "model-0" in first
    assert "model-1" not in first
    assert "No receipt names it." in last
