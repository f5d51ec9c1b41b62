"""LangGraph's checkpointer on memoranda's stores: what the conformance suite does not ask."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

import memoranda.sync
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import InputError
from memoranda.store import BaseStore, InMemoryStore
from memoranda_langgraph import MemorandaSaver

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def checkpoint(**values: Any) -> Checkpoint:
    """Return a new checkpoint that holds these values."""
    return {**empty_checkpoint(), "channel_values": values, "channel_versions": dict.fromkeys(values, "1")}


async def chain(saver: MemorandaSaver, number: int, thread: str = "t", **metadata: Any) -> list[Any]:
    """Store checkpoints one after the other and return their configurations."""
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    made = []
    for step in range(number):
        config = await saver.aput(config, checkpoint(n=step), {"step": step, **metadata}, {"n": "1"})  # type: ignore[typeddict-unknown-key]
        made.append(config)
    return made


async def listed(saver: MemorandaSaver, config: Any, **asked: Any) -> list[int]:
    return [found.metadata["step"] async for found in saver.alist(config, **asked)]


async def test_the_latest_is_the_one_with_the_highest_id_whenever_it_was_put(store: BaseStore) -> None:
    saver = MemorandaSaver(store.scoped(user_id="ada"))
    earlier, later = checkpoint(n=1), checkpoint(n=2)
    await saver.aput(THREAD, later, {"step": 2}, {})
    await saver.aput(THREAD, earlier, {"step": 1}, {})

    found = await saver.aget_tuple(THREAD)

    assert found is not None
    assert found.checkpoint["id"] == later["id"]
    assert await listed(saver, THREAD) == [2, 1]


async def test_ids_that_carry_no_time_are_ordered_by_the_checkpoints_own(store: BaseStore) -> None:
    saver = MemorandaSaver(store)
    for step, time in ((1, "2024-01-01T00:00:01+00:00"), (2, "2024-01-01T00:00:02+00:00")):
        await saver.aput(THREAD, {**checkpoint(), "id": f"c{step}", "ts": time}, {"step": step}, {})

    assert await listed(saver, THREAD) == [2, 1]


async def test_values_come_back_as_the_serializer_knows_them(store: BaseStore) -> None:
    saver = MemorandaSaver(store)
    values = {"nul": "a\0b", "infinite": math.inf, "bytes": b"\0\xff", "set": {1, 2}, "time": datetime.now(UTC)}
    config = await saver.aput(THREAD, checkpoint(**values), {"step": 0, "tags": {"a"}}, {})  # type: ignore[typeddict-unknown-key]
    await saver.aput_writes(config, [("out", {"z": b"\0"})], "task")

    found = await saver.aget_tuple(config)

    assert found is not None
    assert found.checkpoint["channel_values"] == values
    assert found.metadata["tags"] == {"a"}  # type: ignore[typeddict-item]
    assert found.pending_writes == [("task", "out", {"z": b"\0"})]


async def test_a_listing_filters_by_all_metadata_and_pages(store: BaseStore) -> None:
    saver = MemorandaSaver(store)
    for run in ("x", "y"):
        await chain(saver, 60, thread=run, run_id=run, tags=["a", run])

    assert len(await listed(saver, None)) == 120
    assert await listed(saver, None, filter={"run_id": "x", "step": 7}) == [7]
    assert len(await listed(saver, None, filter={"tags": ["a", "y"]})) == 60
    assert await listed(saver, None, filter={"tags": ["a", "y"]}, limit=2) == [59, 58]
    assert await listed(saver, None, filter={"missing": None, "step": 3}) == [3, 3]
    assert await listed(saver, None, limit=0) == []


async def test_of_several_who_write_for_one_task_the_first_is_kept_whole(store: BaseStore) -> None:
    saver = MemorandaSaver(store)
    (config,) = await chain(saver, 1)

    await asyncio.gather(*[saver.aput_writes(config, [("a", who), ("b", who)], "task") for who in range(6)])

    found = await saver.aget_tuple(config)
    assert found is not None
    assert found.pending_writes is not None
    assert [write[1] for write in found.pending_writes] == ["a", "b"]
    assert len({write[2] for write in found.pending_writes}) == 1


async def test_of_errors_the_last_counts(store: BaseStore) -> None:
    saver = MemorandaSaver(store)
    (config,) = await chain(saver, 1)
    for number in range(3):
        await saver.aput_writes(config, [("__error__", number), ("a", number)], "task")

    found = await saver.aget_tuple(config)
    assert found is not None
    assert sorted(found.pending_writes or []) == [("task", "__error__", 2), ("task", "a", 0)]


async def test_a_deleted_thread_leaves_nothing_and_takes_nothing_else(store: BaseStore) -> None:
    saver = MemorandaSaver(store)
    said = HumanMemory(content="hello", metadata=MemoryMetadata(session_id="t"))
    await store.add(said)
    (config,) = await chain(saver, 1)
    await saver.aput_writes(config, [("a", 1)], "task")
    assert [item.id for item in await store.window(metadata=MemoryMetadata(session_id="t"))] == [said.id]

    await saver.adelete_thread("t")

    assert [item.id async for item in store.scan(include_deleted=True)] == [said.id]


async def test_a_copy_lives_on_when_its_source_is_deleted(store: BaseStore) -> None:
    saver = MemorandaSaver(store)
    *_, last = await chain(saver, 3)
    await saver.aput_writes(last, [("a", 1)], "task")
    await saver.acopy_thread("t", "u")
    await saver.adelete_thread("t")

    found = await saver.aget_tuple({"configurable": {"thread_id": "u"}})

    assert found is not None
    assert (found.metadata["step"], found.pending_writes) == (2, [("task", "a", 1)])
    assert found.parent_config is not None
    assert found.parent_config["configurable"]["thread_id"] == "u"
    assert await saver.aget_tuple(found.parent_config) is not None


async def test_what_pruning_keeps_has_no_parent_that_is_gone(store: BaseStore) -> None:
    saver = MemorandaSaver(store)
    await chain(saver, 3)
    await saver.aprune(["t"])

    (found,) = [found async for found in saver.alist(THREAD)]
    assert (found.metadata["step"], found.parent_config) == (2, None)


async def test_pruning_keeps_what_a_channel_of_changes_is_read_from(store: BaseStore) -> None:
    saver = MemorandaSaver(store)
    config = THREAD
    for step in range(5):
        values = {"log": ["whole"]} if step in (0, 2) else {}
        metadata: Any = {"step": step, "counters_since_delta_snapshot": {"log": (1, 1)}}
        config = await saver.aput(config, checkpoint(**values), metadata, {})
        await saver.aput_writes(config, [("log", step)], f"task{step}")
    before = await saver.aget_delta_channel_history(config=config, channels=["log"])

    await saver.aprune(["t"])

    assert await listed(saver, THREAD) == [4, 3, 2]
    assert await saver.aget_delta_channel_history(config=config, channels=["log"]) == before
    assert before["log"]["seed"] == ["whole"]


@pytest.mark.parametrize("strategy", ["keep_latest", "delete"])
async def test_pruning_one_thread_leaves_the_others(store: BaseStore, strategy: str) -> None:
    saver = MemorandaSaver(store)
    await chain(saver, 2, thread="t")
    await chain(saver, 2, thread="t2")
    await saver.aprune(["t"], strategy=strategy)

    assert len(await listed(saver, {"configurable": {"thread_id": "t2"}})) == 2


async def test_mistakes_are_refused() -> None:
    saver = MemorandaSaver(InMemoryStore())
    with pytest.raises(ValueError, match="keep_some"):
        await saver.aprune(["t"], strategy="keep_some")
    with pytest.raises(TypeError):
        await saver.aprune("thread")
    with pytest.raises(InputError, match="thread"):
        await saver.aget_tuple({"configurable": {}})
    with pytest.raises(InputError, match="checkpoint"):
        await saver.aput_writes(THREAD, [("a", 1)], "task")
    with pytest.raises(InputError, match="sessions and tasks"):
        MemorandaSaver(InMemoryStore().scoped(session_id="s"))


async def test_a_call_without_async_on_a_running_loop_raises() -> None:
    saver = MemorandaSaver(InMemoryStore())
    with pytest.raises(asyncio.InvalidStateError, match="aget_tuple"):
        saver.get_tuple(THREAD)
    with pytest.raises(asyncio.InvalidStateError):
        next(saver.list(None))


def test_every_method_works_without_async(blocking_store: memoranda.sync.SyncStore) -> None:
    saver = MemorandaSaver(blocking_store.scoped(user_id="ada"))
    config = saver.put(THREAD, checkpoint(n=1), {"step": 1, "run_id": "r"}, {})
    saver.put_writes(config, [("a", 1)], "task")
    saver.copy_thread("t", "u")
    saver.prune(["t"], strategy="keep_latest")

    assert saver.get(config) is not None
    assert saver.get_delta_channel_history(config=config, channels=["a"]) == {"a": {"writes": []}}
    assert [found.pending_writes for found in saver.list(None)] == [[("task", "a", 1)]] * 2

    saver.delete_thread("t")
    saver.delete_for_runs(["r"])
    assert list(saver.list(None)) == []


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ada", "bob"]),
            st.sampled_from(["t", "u"]),
            st.sampled_from(["put", "write", "delete", "prune", "copy", "runs"]),
        ),
        max_size=16,
    )
)
def test_users_of_one_store_never_meet(history: list[tuple[str, str, str]]) -> None:
    shared = InMemoryStore()
    savers = {user: MemorandaSaver(shared.scoped(user_id=user)) for user in ("ada", "bob")}
    alone = {user: MemorandaSaver(InMemoryStore()) for user in savers}
    same = iter([checkpoint() | {"id": str(uuid6())} for _ in history])
    for user, thread, action in history:
        made = next(same)
        for saver in (savers[user], alone[user]):
            config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
            latest = saver.get_tuple(config)
            if action == "put":
                config = latest.config if latest else config
                saver.put(config, made, {"source": "loop", "run_id": "r"}, {})  # type: ignore[arg-type]
            elif action == "write" and latest:
                saver.put_writes(latest.config, [("a", user)], "task")
            elif action == "delete":
                saver.delete_thread(thread)
            elif action == "prune":
                saver.prune([thread])
            elif action == "copy":
                saver.copy_thread("t", "u")
            elif action == "runs":
                saver.delete_for_runs(["r", "s"])

    for user, saver in savers.items():
        assert [found[:1] + found[3:] for found in saver.list(None)] == [
            found[:1] + found[3:] for found in alone[user].list(None)
        ]
