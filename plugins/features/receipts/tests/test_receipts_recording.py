"""Recording: what a receipt says, what it costs, and where it never shows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from stepwise import StepwiseStore

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.errors import InputError
from memoranda.store import Capability, InMemoryStore, Store
from memoranda_context import ContextManager, assemble
from memoranda_guard import Fence
from memoranda_receipts import Receipts, Recorder, Recording, message_bytes
from memoranda_userdata import erase, export, forget

QUESTION = "Where does Ada keep her bicycle?"


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with memoranda.open("memory://") as store:
        yield store


@pytest.fixture
def handle(store: Store) -> Store:
    return store.scoped(user_id="ada", session_id="trip")


async def talk(handle: Store, rounds: int = 3) -> None:
    """Add a conversation with a tool call in its last round."""
    await handle.add(SystemMemory(content="Be brief."))
    for number in range(rounds):
        await handle.add(HumanMemory(content=f"My bicycle number {number} is in the shed."))
        await handle.add(AIMemory(content=f"Noted, bicycle {number}."))
    await handle.add(HumanMemory(content="Look it up."))
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"what": "bicycle"}'}}
    await handle.add(AIMemory(content="", tool_calls=[call]))
    await handle.add(
        ToolMemory(content="It stands in the cellar.\nBehind the door.", tool_call_id="c1", tool_name="find")
    )


async def only(handle: Store) -> Any:
    (receipt,) = await Receipts(handle).list()
    return receipt


async def test_a_window_is_recorded_with_ids_versions_and_hashes_in_order(handle: Store) -> None:
    await talk(handle)
    shown = await handle.window(rounds=2, receipt=True)
    receipt = await only(handle)
    assert receipt.kind == "window"
    assert receipt.ids == [item.id for item in shown]
    assert [entry.version for entry in receipt.shown] == [1] * len(shown)
    assert len({entry.hash for entry in receipt.shown}) == len(shown)
    assert receipt.parameters == {"rounds": 2}
    assert receipt.counter == "memoranda.tokens.estimate_tokens"
    assert receipt.left_out == {"beyond the rounds": 3}  # Of those that were read, which is no more than it takes.
    assert receipt.unread == "beyond the rounds"
    replay = await Receipts(handle).replay(receipt)
    assert replay.exact
    assert not replay.changes
    assert replay.bytes() == message_bytes(shown)


async def test_nothing_is_recorded_unless_asked_for(handle: Store) -> None:
    await talk(handle)
    await handle.window()
    await assemble(handle, QUESTION)
    await ContextManager(long_term=handle).assemble_context(QUESTION, handle)
    assert await Receipts(handle).list() == []


@pytest.mark.parametrize("format", ["openai", "responses", "anthropic", "items"])
async def test_an_assembled_prompt_replays_in_every_format(store: Store, handle: Store, format: str) -> None:
    await talk(handle)
    other = store.scoped(user_id="ada", session_id="earlier")
    await other.add(HumanMemory(content="Ada will keep her bicycle\nin the garage,\u2028the blue one."))
    prompt = await assemble(handle, QUESTION, system="You help Ada.", tokens=300, receipt=True)
    receipt = await only(handle)
    assert receipt.kind == "assemble"
    assert receipt.tokens is not None
    assert {"told", "conversation"} == {entry.role for entry in receipt.shown}
    replay = await Receipts(handle).replay(receipt)
    assert replay.exact
    assert replay.bytes(format) == message_bytes(prompt, format)


async def test_a_receipt_holds_added_texts_and_no_content_of_items(handle: Store) -> None:
    await talk(handle)
    await assemble(handle, QUESTION, system="You help Ada.", receipt=True)
    await handle.window(receipt=True)
    rows = [item async for item in handle.scan(memory_type="receipt")]
    for row in rows:
        assert "shed" not in row.model_dump_json()
        assert "cellar" not in row.model_dump_json()
        assert row.content == ""
    texts = "".join((await Receipts(handle).list())[1].texts)
    assert ("You help Ada." in texts and "<memories>" not in texts) or "<memories>" in texts
    assert QUESTION in texts


async def test_fences_are_texts_and_what_they_fence_is_not(handle: Store) -> None:
    await talk(handle)
    fenced = await assemble(handle, QUESTION, fence=Fence(), receipt=True)
    assert any("[untrusted " in item.content for item in fenced)
    receipt = await only(handle)
    assert "[untrusted " in "".join(receipt.texts)
    assert "cellar" not in json.dumps(receipt.as_json())
    replay = await Receipts(handle).replay(receipt)
    assert replay.exact
    assert replay.bytes() == message_bytes(fenced)


async def test_a_context_manager_records_and_replays(handle: Store, tmp_path: Path) -> None:
    await talk(handle, rounds=30)
    soul = tmp_path / "soul.md"
    soul.write_text("You are Ada's secretary.")
    manager = ContextManager(soul, long_term=handle, token_budget=90, receipt=True)
    context = await manager.assemble_context(QUESTION, handle)
    receipt = await only(handle)
    assert receipt.kind == "context"
    assert receipt.left_out["over budget"] > 0
    replay = await Receipts(handle).replay(receipt)
    assert replay.exact
    assert replay.messages() == context.messages()


async def test_items_that_no_store_has_are_named_as_such(handle: Store) -> None:
    given = [HumanMemory(content="Said elsewhere."), AIMemory(content="Heard.")]
    context = await ContextManager(long_term=handle, receipt=True).assemble_context(QUESTION, conversation=given)
    replay = await Receipts(handle).replay(await only(handle))
    assert [(change.id, change.change) for change in replay.changes] == [(item.id, "elsewhere") for item in given]
    assert not replay.exact
    assert len(replay.items) == 1
    kept = ContextManager(long_term=handle, receipt=Recording(payload=True, id="whole"))
    context = await kept.assemble_context(QUESTION, conversation=given)
    replay = await Receipts(handle).replay("whole")
    assert replay.exact
    assert replay.messages() == context.messages()


async def test_an_item_of_another_store_is_found_there(handle: Store) -> None:
    short_term = InMemoryStore()
    await short_term.add(HumanMemory(content="In the other store."))
    await handle.add(HumanMemory(content="A long time ago."))
    context = await ContextManager(long_term=handle, receipt=True).assemble_context(QUESTION, short_term)
    receipt = await only(handle)
    assert not (await Receipts(handle).replay(receipt)).exact
    replay = await Receipts(handle, others=[short_term]).replay(receipt)
    assert replay.exact
    assert replay.messages() == context.messages()


async def test_a_context_without_a_store_cannot_be_recorded() -> None:
    with pytest.raises(InputError, match="long_term"):
        await ContextManager(receipt=True).assemble_context(QUESTION)


async def test_a_receipt_is_in_no_window_search_recall_or_head(handle: Store) -> None:
    await talk(handle)
    head = await handle.head()
    await assemble(handle, "cellar", receipt=Recording(model="cellar-model"))
    shown = [*await handle.window(), *await handle.search(limit=100), *await handle.recall("cellar-model receipt")]
    shown += [*await handle.search(archived=None, limit=100), *await handle.search(archived=True, limit=100)]
    shown += await handle.search(query="cellar", mode="text", archived=None)
    assert "receipt" not in {item.memory_type for item in shown}
    assert await handle.head() == head
    await handle.append([HumanMemory(content="Next.")], after=head)


async def test_every_window_and_context_of_an_observed_store_is_recorded_once() -> None:
    async with memoranda.open("memory://", observers=["receipts"]) as store:
        handle = store.scoped(user_id="ada")
        await talk(handle)
        await handle.window()
        await assemble(handle, QUESTION)
        await ContextManager(long_term=handle).assemble_context(QUESTION, handle)
        await handle.window(receipt=False)
        assert [receipt.kind for receipt in await Receipts(handle).list()] == ["context", "assemble", "window"]


async def test_a_failing_receipt_stops_only_the_caller_who_asked(handle: Store, caplog: Any) -> None:
    async with memoranda.open("memory://", observers=[Recorder(Recording(id="\ud800"))]) as store:
        await store.add(HumanMemory(content="Hello."))
        assert len(await store.window()) == 1
        assert "No receipt was recorded" in caplog.text
        with pytest.raises(InputError):
            await store.window(receipt=True)
    with pytest.raises(InputError, match="receipt is True"):
        await handle.window(receipt="yes")


async def test_a_receipt_takes_one_add_and_no_read(monkeypatch: Any) -> None:
    calls: list[str] = []

    class Counting(StepwiseStore):
        async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
            calls.append("add")
            await super()._add(item, within)

        async def _search(self, wanted: Any, page: Any) -> list[MemoryItem]:
            calls.append("search")
            return await super()._search(wanted, page)

        async def _get_many(self, ids: Any) -> list[MemoryItem]:
            calls.append("get")
            return await super()._get_many(ids)

    store = Counting()
    handle = store.scoped(user_id="ada")
    await talk(handle)
    calls.clear()
    await assemble(handle, QUESTION)
    without = list(calls)
    calls.clear()
    await assemble(handle, QUESTION, receipt=True)
    assert calls == [*without, "add"]
    calls.clear()
    await handle.window(rounds=2)
    without = list(calls)
    calls.clear()
    await handle.window(rounds=2, receipt=True)
    assert calls == [*without, "add"]


async def test_a_receipt_lives_thirty_days(store: Store, handle: Store) -> None:
    await talk(handle)
    await handle.window(receipt=True)
    item = (await handle.search(memory_type="receipt", archived=True))[0]
    assert item.ttl == 30 * 24 * 3600
    start = store.clock()
    store.clock = lambda: start + 30 * 24 * 3600 + 1
    assert await Receipts(handle).list() == []


async def test_a_store_without_lifetimes_is_swept_when_receipts_are_listed() -> None:
    class Lasting(StepwiseStore):
        capabilities = InMemoryStore.capabilities - {Capability.TTL}

    store = Lasting()
    await store.add(HumanMemory(content="Hello."))
    await store.window(receipt=Recording(lifetime=1e-6))
    await store.window(receipt=True)
    assert await store.count() == 3
    assert len(await Receipts(store).list()) == 1
    assert await store.count() == 2


async def test_forget_and_export_treat_receipts_as_the_users_data(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    async with memoranda.open(url) as store:
        handle = store.scoped(user_id="ada", session_id="trip")
        await handle.add(HumanMemory(content="The canary sings."))
        await assemble(handle, "What about the canary?", receipt=Recording(payload=True))
        exported = tmp_path / "export.jsonl"
        await export(store, exported, metadata=MemoryMetadata(user_id="ada"))
        assert '"receipt"' in exported.read_text()
        found = await forget(store, "ada")
        assert found.complete
        assert await Receipts(store).list() == []
    assert not any(b"canary" in file.read_bytes() for file in tmp_path.glob("a.db*"))


async def test_erasing_an_item_takes_its_content_out_of_receipts(store: Store, handle: Store) -> None:
    await handle.add(HumanMemory(id="secret", content="The canary sings."))
    await handle.add(HumanMemory(id="other", content="All is well."))
    await handle.window(receipt=Recording(payload=True))
    await erase(store, ["secret"])
    rows = [item async for item in handle.scan(memory_type="receipt")]
    assert "canary" not in rows[0].model_dump_json()
    replay = await Receipts(handle).replay(await only(handle))
    assert [(change.id, change.change) for change in replay.changes] == [("secret", "purged")]
    assert [item.id for item in replay.items] == ["other"]


async def test_a_receipt_of_several_users_keeps_no_contents() -> None:
    async with memoranda.open("memory://") as store:
        await store.scoped(user_id="ada").add(HumanMemory(content="Mine."))
        await store.scoped(user_id="bob").add(HumanMemory(content="His."))
        await store.window(receipt=True)
        with pytest.raises(InputError, match="several users"):
            await store.window(receipt=Recording(payload=True))


async def test_the_answer_and_the_model_are_added_later(handle: Store) -> None:
    await talk(handle)
    await handle.window(receipt=Recording(model="small"))
    receipts = Receipts(handle)
    receipt = await only(handle)
    await receipts.answered(receipt, answer="item-7")
    assert (await only(handle)).answer == "item-7"
    assert (await only(handle)).model == "small"
    assert (await receipts.replay(receipt.id[:20])).exact


async def test_a_forked_session_replays(store: Store, handle: Store) -> None:
    await talk(handle)
    head = await handle.head()
    branch = await store.scoped(user_id="ada").fork("trip", at=str(head))
    forked = store.scoped(user_id="ada", session_id=branch)
    await forked.add(HumanMemory(content="On another path."))
    shown = await forked.window(receipt=True)
    replay = await Receipts(forked).replay((await Receipts(forked).list())[0])
    assert replay.exact
    assert replay.bytes() == message_bytes(shown)


async def test_who_has_seen_an_item(handle: Store) -> None:
    await talk(handle)
    await handle.window(rounds=1, receipt=True)
    await handle.window(rounds=4, receipt=True)
    first = (await handle.window())[1]
    assert len(await Receipts(handle).seen(first)) == 1
    await handle.add(HumanMemory(id="zażółć 自", content="Mine."))
    await handle.window(rounds=1, receipt=True)
    assert len(await Receipts(handle).seen("zażółć 自")) == 1
    last = (await handle.window())[-2]
    assert len(await Receipts(handle).seen(last.id)) == 2


async def test_a_long_memory_of_which_a_part_is_shown_replays_in_full(store: Store, handle: Store) -> None:
    friends = " ".join(f"My friend {number} is called Bob{number}." for number in range(60))
    await store.scoped(user_id="ada", session_id="earlier").add(HumanMemory(content=f"I live in Lisbon. {friends}"))
    prompt = await assemble(handle, "Where do I live?", tokens=900, receipt=Recording(id="long"))
    assert "…" in prompt[0].content
    assert (await Receipts(handle).replay("long")).exact
    manager = ContextManager(long_term=handle, token_budget=900, receipt=Recording(id="managed"))
    assert "…" in str(await manager.assemble_context("Where do I live?"))
    assert (await Receipts(handle).replay("managed")).exact


async def test_facts_and_summaries_pass_receipts_over(store: Store, handle: Store) -> None:
    from memoranda_facts import Facts

    await handle.add(HumanMemory(content="I live in Paris."))
    await handle.window(receipt=True)
    facts = Facts(store.scoped(user_id="ada"))
    await facts.set("Ada", "lives_in", "Paris", sources="manual")
    context = await ContextManager(
        long_term=handle, profile=facts, receipt=Recording(payload=True, id="known")
    ).assemble_context("Where do I live?")
    replay = await Receipts(handle).replay("known")
    assert replay.exact
    assert replay.messages() == context.messages()
    await ContextManager(long_term=handle, profile=facts, receipt=Recording(id="bare")).assemble_context("Where?")
    assert "Paris" not in json.dumps((await Receipts(handle).get("bare")).as_json())
