"""LangGraph's checkpointer on memoranda's stores: what the conformance suite does not ask."""

from __future__ import annotations

import asyncio
import base64
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

import memoranda.sync
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import CorruptStoreError, InputError
from memoranda.store import InMemoryStore, Store
from memoranda.store.records import copying_records
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


async def test_the_latest_is_the_one_with_the_highest_id_whenever_it_was_put(store: Store) -> None:
    saver = MemorandaSaver(store.scoped(user_id="ada"))
    earlier, later = checkpoint(n=1), checkpoint(n=2)
    await saver.aput(THREAD, later, {"step": 2}, {})
    await saver.aput(THREAD, earlier, {"step": 1}, {})

    found = await saver.aget_tuple(THREAD)

    assert found is not None
    assert found.checkpoint["id"] == later["id"]
    assert await listed(saver, THREAD) == [2, 1]


async def test_ids_that_carry_no_time_are_ordered_by_the_checkpoints_own(store: Store) -> None:
    saver = MemorandaSaver(store)
    for step, time in ((1, "2024-01-01T00:00:01+00:00"), (2, "2024-01-01T00:00:02+00:00")):
        await saver.aput(THREAD, {**checkpoint(), "id": f"c{step}", "ts": time}, {"step": step}, {})

    assert await listed(saver, THREAD) == [2, 1]


async def test_values_come_back_as_the_serializer_knows_them(store: Store) -> None:
    saver = MemorandaSaver(store)
    values = {"nul": "a\0b", "infinite": math.inf, "bytes": b"\0\xff", "set": {1, 2}, "time": datetime.now(UTC)}
    config = await saver.aput(THREAD, checkpoint(**values), {"step": 0, "tags": {"a"}}, {})  # type: ignore[typeddict-unknown-key]
    await saver.aput_writes(config, [("out", {"z": b"\0"})], "task")

    found = await saver.aget_tuple(config)

    assert found is not None
    assert found.checkpoint["channel_values"] == values
    assert found.metadata["tags"] == {"a"}  # type: ignore[typeddict-item]
    assert found.pending_writes == [("task", "out", {"z": b"\0"})]


async def test_a_listing_filters_by_all_metadata_and_pages(store: Store) -> None:
    saver = MemorandaSaver(store)
    for run in ("x", "y"):
        await chain(saver, 60, thread=run, run_id=run, tags=["a", run])

    assert len(await listed(saver, None)) == 120
    assert await listed(saver, None, filter={"run_id": "x", "step": 7}) == [7]
    assert len(await listed(saver, None, filter={"tags": ["a", "y"]})) == 60
    assert await listed(saver, None, filter={"tags": ["a", "y"]}, limit=2) == [59, 58]
    assert await listed(saver, None, filter={"missing": None, "step": 3}) == [3, 3]
    assert await listed(saver, None, limit=0) == []


def named(checkpoint_id: str) -> Any:
    """Return the configuration of a checkpoint."""
    return {"configurable": {**THREAD["configurable"], "checkpoint_id": checkpoint_id}}


async def test_an_empty_checkpoint_id_names_the_latest_one(store: Store) -> None:
    saver = MemorandaSaver(store.scoped(user_id="ada"))
    await chain(saver, 3)
    nothing = named("")

    found = await saver.aget_tuple(nothing)

    assert found is not None
    assert found.metadata["step"] == 2
    assert await saver.aget_tuple({"configurable": {**nothing["configurable"], "thread_id": "u"}}) is None
    assert await listed(saver, nothing) == [2, 1, 0]
    assert await listed(saver, nothing, before=nothing) == [2, 1, 0]
    assert await listed(saver, nothing, before=named(found.checkpoint["id"]), limit=1) == [1]


async def test_a_checkpoint_after_an_empty_id_has_no_parent(store: Store) -> None:
    saver = MemorandaSaver(store)
    config = await saver.aput(named(""), checkpoint(n=1), {"step": 0}, {})

    found = await saver.aget_tuple(config)

    assert found is not None
    assert found.parent_config is None
    with pytest.raises(InputError, match="checkpoint"):
        await saver.aput_writes(named(""), [("a", 1)], "task")


@pytest.mark.parametrize("namespace", ["", None])
async def test_no_namespace_is_every_one_in_a_listing_and_the_root_elsewhere(
    store: Store, namespace: str | None
) -> None:
    saver = MemorandaSaver(store)
    for step, inner in enumerate(["", "inner"]):
        there: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": inner}}
        await saver.aput(there, checkpoint(), {"step": step}, {})
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}

    found = await saver.aget_tuple(config)

    assert found is not None
    assert found.metadata["step"] == 0
    assert await listed(saver, config) == ([0] if namespace == "" else [1, 0])


STRANGE_NAMES = [
    *(
        "",
        " ",
        "a b",
        "it's",
        '"quoted"',
        "a[0]",
        "[0]",
        "$",
        "$.a",
        "$eq",
        "%",
        "_",
        "\\",
        "\n",
        "a\0b",
        "é",
        "ключ",
        "🫖",
    ),
    *(
        ".",
        "..",
        "a.",
        ".a",
        "a.b.c",
        "user.access-level",
        "123abc",
        "x') OR '1'='1",
        "ada@example.org",
        "555-123-4567",
    ),
    *("spot", "checkpoint_id", "metadata", "extra.a", "id", "k" * 2000),
]


@pytest.mark.parametrize("name", STRANGE_NAMES, ids=lambda name: repr(name)[:20])
async def test_metadata_is_found_by_whatever_name_it_has(store: Store, name: str) -> None:
    saver = MemorandaSaver(store)
    for step, metadata in enumerate([{name: "yes"}, {name: "no"}, {}, {name: None}, {name: 7}, {name: True}]):
        await saver.aput(THREAD, checkpoint(), {"step": step, **metadata}, {})  # type: ignore[typeddict-item]

    assert await listed(saver, None, filter={name: "yes"}) == [0]
    assert await listed(saver, None, filter={name: "other"}) == []
    assert await listed(saver, None, filter={name: None}) == [3, 2]
    assert await listed(saver, None, filter={name: 7.0}) == [4]
    assert await listed(saver, None, filter={name: True, "step": 5}) == [5]


async def test_a_name_with_dots_leads_into_nested_metadata(store: Store) -> None:
    saver = MemorandaSaver(store)
    nested: list[Any] = [
        {"user": {"access-level": "nested", "123abc": 1, "tags": ["a", {"b": None}]}},
        {"user.access-level": "flat"},
        {"user": {"access-level": "inner"}, "user.access-level": "outer"},
        {"user": "access-level"},
    ]
    for step, metadata in enumerate(nested):
        await saver.aput(THREAD, checkpoint(), {"step": step, **metadata}, {})

    assert await listed(saver, None, filter={"user.access-level": "nested"}) == [0]
    assert await listed(saver, None, filter={"user.123abc": 1}) == [0]
    assert await listed(saver, None, filter={"user.tags": ("a", {"b": None})}) == [0]
    assert await listed(saver, None, filter={"user": nested[0]["user"]}) == [0]
    assert await listed(saver, None, filter={"user.access-level": "flat"}) == [1]
    assert await listed(saver, None, filter={"user.access-level": "outer"}) == [2]
    assert await listed(saver, None, filter={"user.access-level": "inner"}) == []
    assert await listed(saver, None, filter={"user.access-level": None}) == [3]


async def test_numbers_are_found_however_they_are_written(store: Store) -> None:
    saver = MemorandaSaver(store)
    for step, number in enumerate([3, 3.0, 3.5, 10**9, 1e9, True, -0.0]):
        await saver.aput(THREAD, checkpoint(), {"step": step, "n": number}, {})  # type: ignore[typeddict-unknown-key]

    assert await listed(saver, None, filter={"n": 3}) == await listed(saver, None, filter={"n": 3.0}) == [1, 0]
    assert await listed(saver, None, filter={"n": 3.5}) == [2]
    assert await listed(saver, None, filter={"n": 10**9}) == [4, 3]
    assert await listed(saver, None, filter={"n": True}) == [5]
    assert await listed(saver, None, filter={"n": 0}) == [6]
    assert await listed(saver, None, filter={"n": math.inf}) == []


async def test_a_filter_may_ask_for_many_names(store: Store) -> None:
    saver = MemorandaSaver(store)
    many = {f"name{number % 9}{'x' * number}": number for number in range(200)}
    await saver.aput(THREAD, checkpoint(), {"step": 0, **many}, {})  # type: ignore[typeddict-item]
    await saver.aput(THREAD, checkpoint(), {"step": 1, **many, "name8" + "x" * 197: 0}, {})  # type: ignore[typeddict-item]

    assert await listed(saver, THREAD, filter=many, before=named("f" * 36)) == [0]


async def test_of_several_who_write_for_one_task_the_first_is_kept_whole(store: Store) -> None:
    saver = MemorandaSaver(store)
    (config,) = await chain(saver, 1)

    await asyncio.gather(*[saver.aput_writes(config, [("a", who), ("b", who)], "task") for who in range(6)])

    found = await saver.aget_tuple(config)
    assert found is not None
    assert found.pending_writes is not None
    assert [write[1] for write in found.pending_writes] == ["a", "b"]
    assert len({write[2] for write in found.pending_writes}) == 1


async def test_of_errors_the_last_counts(store: Store) -> None:
    saver = MemorandaSaver(store)
    (config,) = await chain(saver, 1)
    for number in range(3):
        await saver.aput_writes(config, [("__error__", number), ("a", number)], "task")

    found = await saver.aget_tuple(config)
    assert found is not None
    assert sorted(found.pending_writes or []) == [("task", "__error__", 2), ("task", "a", 0)]


async def test_a_deleted_thread_leaves_nothing_and_takes_nothing_else(store: Store) -> None:
    saver = MemorandaSaver(store)
    said = HumanMemory(content="hello", metadata=MemoryMetadata(session_id="t"))
    await store.add(said)
    (config,) = await chain(saver, 1)
    await saver.aput_writes(config, [("a", 1)], "task")
    assert [item.id for item in await store.window(metadata=MemoryMetadata(session_id="t"))] == [said.id]

    await saver.adelete_thread("t")

    assert [item.id async for item in store.scan(include_deleted=True)] == [said.id]


async def test_a_copy_lives_on_when_its_source_is_deleted(store: Store) -> None:
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


async def test_what_pruning_keeps_has_no_parent_that_is_gone(store: Store) -> None:
    saver = MemorandaSaver(store)
    await chain(saver, 3)
    await saver.aprune(["t"])

    (found,) = [found async for found in saver.alist(THREAD)]
    assert (found.metadata["step"], found.parent_config) == (2, None)


async def test_pruning_keeps_what_a_channel_of_changes_is_read_from(store: Store) -> None:
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


async def put_each(saver: MemorandaSaver, parents: Mapping[str, str], **metadata: Any) -> None:
    """Store checkpoints under ids, each after the one that is named as its parent, and a write to each."""
    for step, (made, parent) in enumerate(parents.items()):
        config = await saver.aput(named(parent), {**checkpoint(), "id": made}, {"step": step, **metadata}, {})  # type: ignore[typeddict-unknown-key]
        await saver.aput_writes(config, [("log", made)], f"task-{made}")


CIRCLES: dict[str, tuple[dict[str, str], list[str]]] = {
    "its own parent": ({"a": "a"}, []),
    "each other's parents": ({"a": "b", "b": "a"}, ["b"]),
    "three in a circle": ({"a": "c", "b": "a", "c": "b"}, ["b", "c"]),
    "a way into a circle": ({"b": "c", "c": "b", "a": "b"}, ["c", "b"]),
    "a parent that is not there": ({"a": "gone"}, []),
}


@pytest.mark.parametrize("circle", list(CIRCLES))
async def test_a_walk_to_parents_ends_wherever_these_lead(store: Store, circle: str) -> None:
    saver = MemorandaSaver(store)
    parents, before = CIRCLES[circle]
    await put_each(saver, parents, counters_since_delta_snapshot={"log": (1, 1)})

    history = await saver.aget_delta_channel_history(config=named("a"), channels=["log", "none"])

    assert history["none"] == {"writes": []}
    assert history["log"] == {"writes": [(f"task-{made}", "log", made) for made in before]}
    await saver.aprune(["t"])
    assert await saver.aget_tuple(THREAD) is not None


@pytest.mark.slow
async def test_a_long_chain_is_read_and_pruned_to_its_beginning() -> None:
    store = InMemoryStore()
    saver = MemorandaSaver(store)
    counters: Any = {"counters_since_delta_snapshot": {"log": (1, 1)}}
    first = config = await saver.aput(THREAD, checkpoint(log=["whole"]), {"step": 0, **counters}, {})
    await saver.aput_writes(first, [("log", 1)], "task")
    for step in range(1, 10_000):
        config = await saver.aput(config, checkpoint(), {"step": step, **counters}, {})

    before = await saver.aget_delta_channel_history(config=config, channels=["log"])

    assert before == {"log": {"writes": [("task", "log", 1)], "seed": ["whole"]}}
    await saver.aprune(["t"])
    assert await saver.aget_tuple(first) is not None


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("spot", "no such text"),
        ("spot", ["t", "", "c"]),
        ("spot", ["t", "", "c", ["c"]]),
        ("spot", {"t": 1}),
        ("spot", None),
        ("write", ["", "task", "0", "a"]),
    ],
)
async def test_items_that_were_never_written_so_are_reported_as_unreadable(name: str, kept: Any) -> None:
    store = InMemoryStore()
    saver = MemorandaSaver(store)
    (config,) = await chain(saver, 1)
    await saver.aput_writes(config, [("a", 1)], "task")
    async for item in store.scan():
        if name in item.metadata.extra:
            packed = "_" + base64.urlsafe_b64encode(json.dumps(kept).encode()).decode()
            extra = {**item.metadata.extra, name: packed if kept else kept}
            changed = item.model_copy(update={"metadata": item.metadata.model_copy(update={"extra": extra})})
            with copying_records(store):
                await store.add(changed)

    with pytest.raises(CorruptStoreError):
        await saver.aget_tuple(config)
    with pytest.raises(CorruptStoreError):
        await saver.acopy_thread("t", "u")
    await saver.adelete_thread("t")


@pytest.mark.parametrize("strategy", ["keep_latest", "delete"])
async def test_pruning_one_thread_leaves_the_others(store: Store, strategy: str) -> None:
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
