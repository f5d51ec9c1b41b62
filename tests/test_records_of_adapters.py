"""Checkpoints of graphs and marks of extractions are believed: only their makers, and copies of stores, write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import InputError
from memoranda.store import InMemoryStore, Store
from memoranda_facts import Facts
from memoranda_facts.extraction import ExtractionRun, RuleExtractor
from memoranda_langgraph import MemorandaSaver
from memoranda_userdata import export, import_

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
KINDS = {"langgraph.checkpoint", "langgraph.write", "fact-mark"}


async def filled(store: Store) -> dict[str, Any]:
    """Store a checkpoint with a write and the mark of an extraction, and return them by their types."""
    ada = store.scoped(user_id="ada")
    saver = MemorandaSaver(ada)
    config = await saver.aput(THREAD, empty_checkpoint(), {"step": 1}, {})
    await saver.aput_writes(config, [("channel", 1)], "task")
    await ada.add(HumanMemory(content="I live in Oslo."))
    await ExtractionRun(Facts(ada), RuleExtractor()).run()
    return {item.memory_type: item async for item in store.scan(archived=None) if item.memory_type in KINDS}


@pytest.mark.parametrize("trust", [None, "external"])
async def test_no_handle_forges_or_changes_a_record(trust: str | None) -> None:
    async with InMemoryStore() as store:
        made = await filled(store)
        handle = store.scoped(user_id="ada", trust=trust)
        assert set(made) == KINDS
        for kind, record in made.items():
            forged = record.model_copy(update={"id": f"forged-{kind}", "version": 0})
            for write in (handle.add(forged), handle.update(forged), handle.add(record), handle.update(record)):
                with pytest.raises(InputError, match=kind):
                    await write
        now = {item.id: item async for item in store.scan(archived=None)}
        assert all(now[record.id] == record for record in made.values())
        assert not [item_id for item_id in now if item_id.startswith("forged")]


async def test_an_export_carries_records_to_another_store(tmp_path: Path) -> None:
    file = tmp_path / "exported.jsonl"
    async with memoranda.open("memory://") as source, memoranda.open(f"sqlite:///{tmp_path / 'copy.db'}") as target:
        made = await filled(source)
        await export(source, file)
        await import_(target, file)

        copied = {item.memory_type: item async for item in target.scan(archived=None) if item.memory_type in KINDS}
        assert {kind: item.payload for kind, item in copied.items()} == {k: item.payload for k, item in made.items()}
        saver = MemorandaSaver(target.scoped(user_id="ada"))
        found = await saver.aget_tuple(THREAD)
        assert found is not None
        assert found.pending_writes == [("task", "channel", 1)]
        await saver.acopy_thread("t", "u")
        assert await target.count(metadata=MemoryMetadata(session_id="langgraph:u")) == 2
