"""Acts: each shows first what it would do, stays within the owner, and is taken back where that is possible."""

from __future__ import annotations

import io
import json
import re
from typing import Any

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Capability, Store
from memoranda_inspector.command import OTHER, TRIP
from memoranda_userdata import Digest, read_lines

ADA = MemoryMetadata(user_id="ada")


async def snapshot(store: Store) -> list[Any]:
    return [(item.id, item.version, item.archived_by) async for item in store.scan()]


async def test_a_preview_changes_nothing(client: Any, store: Store) -> None:
    address = await client.owner("ada")
    item, summary = await client.key(address, "window seat, and"), await client.key(address, "Asked so far")
    before = await snapshot(store)
    for action, form in (
        ("delete", {"item": item}),
        ("undo", {"item": summary}),
        *((action, {}) for action in ("compact", "restore", "forget")),
    ):
        await client.post(f"{address}preview/{action}", form)
    assert await snapshot(store) == before


async def test_a_deleted_item_is_shown_on_request_and_brought_back(client: Any, store: Store, plain: Any) -> None:
    if Capability.DELETE not in store.capabilities:
        address = await client.owner("ada")
        item = await client.key(address, "window seat, and")
        preview = plain(await client.post(f"{address}preview/delete", {"item": item}))
        assert "nothing is deleted here" in preview
        return
    address = await client.owner("trip", "session_id")
    item = await client.key(address, "window seat, and")
    assert "Delete it" in await client.post(f"{address}preview/delete", {"item": item})
    assert "Undo" in await client.post(f"{address}do/delete", {"item": item})
    assert "window seat, and" not in await client.get(address)
    shown = await client.get(address + "?deleted=1")
    assert re.search(r'class="entry human deleted"(?:(?!</article>).)*window seat, and', shown, re.DOTALL)
    assert "One item is back" in plain(await client.post(f"{address}do/restore", {"item": item}))
    assert "window seat, and" in await client.get(address)


async def test_compacting_has_a_dry_run_and_is_undone(client: Any, store: Store, plain: Any) -> None:
    address = await client.owner("trip", "session_id")
    before = {item.id for item in await store.search(metadata=TRIP, limit=100)}
    assert "would be archived" in plain(await client.post(f"{address}preview/compact", {"keep": "2"}))
    done = await client.post(f"{address}do/compact", {"keep": "2"})
    assert "archived, 1 summary made" in plain(done)
    after = {item.id for item in await store.search(metadata=TRIP, limit=100)}
    assert len(after) < len(before)
    summary = re.search(r'name="item" value="(\w+)"', done)
    assert summary
    assert "came back" in plain(await client.post(f"{address}do/undo", {"item": summary[1]}))
    assert {item.id for item in await store.search(metadata=TRIP, limit=100)} == before


async def test_without_a_model_compacting_is_a_dry_run_alone(demo: Store, inspecting: Any, plain: Any) -> None:
    async with inspecting(demo) as client:
        address = await client.owner("trip", "session_id")
        page = await client.post(f"{address}preview/compact", {"keep": "2"})
        assert "No model was named" in plain(page)
        assert "/do/compact" not in page
        assert (await client.http.post(f"{address}do/compact")).status_code == 400


async def test_a_user_is_forgotten_with_a_receipt_and_nobody_else(client: Any, store: Store) -> None:
    address = await client.owner("ada")
    refused = await client.http.post(f"{address}do/forget", data={"typed": "adam"})
    assert refused.status_code == 400
    assert await store.count(metadata=ADA) > 0
    done = await client.post(f"{address}do/forget", {"typed": "ada"})
    assert await store.count(metadata=ADA) == 0
    assert await store.count(metadata=OTHER) == 1
    receipt = re.search(r'href="([^"]+/receipts/\w+)"', done)
    assert receipt
    told = json.loads(await client.get(receipt[1]))
    assert told["user_id"] == "ada"
    assert told["removed"] > 0
    assert not any(told["left"].values())


async def test_only_a_whole_user_can_be_forgotten(client: Any, store: Store) -> None:
    before = await store.count()
    address = await client.owner("trip", "session_id")
    assert "Forget" not in await client.get(address + "actions")
    assert (await client.http.post(f"{address}do/forget", data={"typed": "trip"})).status_code == 400
    assert await store.count() == before


async def test_an_export_is_sealed_as_the_command_seals_it(client: Any, store: Store) -> None:
    address = await client.owner("ada")
    file = await client.post(address + "export")
    lines = list(read_lines(io.StringIO(file), "export"))
    assert len(lines) == await store.count(metadata=ADA)
    digest = Digest()
    async for item in store.scan(metadata=ADA, order="added"):
        digest.take(item)
    assert json.loads(file.splitlines()[-1])["digest"] == digest.text


async def test_an_act_on_what_is_gone_is_a_sentence(client: Any, plain: Any) -> None:
    address = await client.owner("ada")
    answer = await client.http.post(f"{address}preview/delete", data={"item": "gone"})
    assert answer.status_code == 400
    assert "no such item" in plain(answer.text)
    assert (await client.http.post(f"{address}preview/burn")).status_code == 400
    for action in ("preview/restore", "do/restore", "do/delete", "do/undo"):
        assert (await client.http.post(f"{address}{action}", data={"item": "gone"})).status_code == 400


async def test_names_that_look_odd_can_be_forgotten(demo: Store, inspecting: Any) -> None:
    odd = MemoryMetadata(user_id="a\u202eb<i>")
    await demo.add(HumanMemory(content="hi", metadata=odd))
    async with inspecting(demo) as client:
        await client.post(f"{await client.owner('a⟨U+202E⟩b<i>')}do/forget", {"typed": "a⟨U+202E⟩b<i>"})
        assert await demo.count(metadata=odd) == 0
