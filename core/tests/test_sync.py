"""The stores without async."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import subprocess
import sys
import threading
from multiprocessing.connection import Connection

import pytest

import memoranda
import memoranda.sync
import memoranda_summary
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import StoreClosedError, StoreMisuseError, VersionConflictError
from memoranda.store import Store
from memoranda.sync import SyncStore


def test_a_store_is_used_without_await() -> None:
    with memoranda.sync.open("memory://") as store:
        store.add(HumanMemory(id="a", content="Hello", metadata=MemoryMetadata(user_id="u")))
        store.add_many([HumanMemory(content="two"), HumanMemory(content="three")])

        assert store.count() == 3
        assert [item.content for item in store.search(query="hello")] == ["Hello"]
        assert [item.content for item in store.scan()] == ["Hello", "two", "three"]
        assert [found.item.id for found in store.search_ranked(query="hello")] == ["a"]
        item = store.get("a")
        assert item is not None
        assert store.update(item).version == 2
        with pytest.raises(VersionConflictError):
            store.update_many([item])
        assert store.delete("a")
        assert store.restore("a") == 1
        assert store.clear(metadata=MemoryMetadata(user_id="u")) == 1
        assert store.purge(deleted_only=True) == 1


def test_a_scoped_handle_is_bounded() -> None:
    with memoranda.sync.open("memory://") as store:
        ada, bob = store.scoped(user_id="ada"), store.scoped(user_id="bob")
        ada.add(HumanMemory(content="mine"))

        assert bob.search() == []
        assert [item.metadata.user_id for item in ada.search()] == ["ada"]


def test_a_closed_store_says_so() -> None:
    store = memoranda.sync.open("memory://")
    store.close()

    with pytest.raises(StoreClosedError):
        store.search()


def test_async_functions_are_called_with_the_store() -> None:
    class Model:
        async def summarize(self, prompt: str) -> str:
            return "All of it."

    config = memoranda_summary.SummaryConfig(message_threshold=5, keep_recent=2, prompts={"conversation": "Summarise."})
    with memoranda.sync.open("memory://") as store:
        store.add_many(HumanMemory(content=str(number), metadata=MemoryMetadata(user_id="u")) for number in range(9))

        result = store.call(memoranda_summary.compact, MemoryMetadata(user_id="u"), config, Model())

        assert [item.content for item in store.search()] == ["8", "7", "All of it."]
        assert len(store.call(memoranda_summary.undo, result.summary_id)) == 7


def test_many_threads_share_a_store() -> None:
    with memoranda.sync.open("memory://") as store:

        def work(name: str) -> None:
            for number in range(50):
                store.add(HumanMemory(content=f"{name} {number}", metadata=MemoryMetadata(user_id=name)))

        threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert store.count() == 400
        assert store.count(metadata=MemoryMetadata(user_id="t3")) == 50


async def test_use_inside_a_running_loop_is_refused() -> None:
    store = memoranda.sync.open("memory://")

    with pytest.raises(StoreMisuseError, match="running event loop"):
        store.add(HumanMemory(content="x"))


async def test_another_thread_of_a_program_with_a_loop_may_use_it() -> None:
    store = memoranda.sync.open("memory://")

    await asyncio.to_thread(store.init)
    await asyncio.to_thread(store.add, HumanMemory(content="x"))

    assert await asyncio.to_thread(store.count) == 1


def test_a_scan_that_is_left_early_leaves_the_store_usable() -> None:
    with memoranda.sync.open("memory://") as store:
        store.add_many(HumanMemory(content=str(number)) for number in range(1_000))

        for item in store.scan():
            assert item.content == "0"
            break

        assert store.count() == 1_000


def _in_child(store: memoranda.sync.SyncStore, answer: Connection) -> None:
    try:
        store.count()
    except StoreMisuseError as error:
        with memoranda.sync.open("memory://") as own:
            own.add(HumanMemory(content="x"))
            answer.send(("refused", str(error), own.count()))


def test_a_forked_child_gets_an_error_and_may_open_its_own() -> None:
    context = multiprocessing.get_context("fork")
    with memoranda.sync.open("memory://") as store:
        ours, theirs = context.Pipe()
        child = context.Process(target=_in_child, args=(store, theirs))
        child.start()

        assert ours.poll(240), "the child hangs"
        kind, message, count = ours.recv()
        child.join(240)

    assert kind == "refused"
    assert "fork" in message
    assert count == 1


def _public_methods(cls: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(cls, inspect.isfunction)
    return {name: inspect.signature(method) for name, method in found if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(_public_methods(Store)))
def test_every_method_of_a_store_is_there_without_async_and_takes_the_same(name: str) -> None:
    asked = _public_methods(Store)[name].parameters.values()
    offered = _public_methods(SyncStore)[name].parameters.values()

    assert [(each.name, each.kind, each.default, each.annotation) for each in offered] == [
        (each.name, each.kind, each.default, each.annotation) for each in asked
    ]


def test_any_coroutine_runs_in_the_background_loop() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 3

    assert memoranda.sync.run(work()) == 3


async def test_a_coroutine_is_not_waited_for_inside_a_running_loop() -> None:
    async def work() -> None:
        raise AssertionError("it ran")

    with pytest.raises(StoreMisuseError):
        memoranda.sync.run(work())


def test_a_store_without_async_gives_the_one_to_await() -> None:
    with memoranda.sync.open("memory://") as store:
        store.add(HumanMemory(content="x"))

        assert memoranda.sync.run(store.awaitable.count()) == 1


@pytest.mark.parametrize("stream", ["scan()", "owners('user_id')"])
def test_a_program_that_leaves_a_stream_unread_comes_to_its_end(stream: str) -> None:
    program = f"""
import memoranda.sync
from memoranda import HumanMemory, MemoryMetadata

with memoranda.sync.open("memory://") as store:
    store.add_many(HumanMemory(content="x", metadata=MemoryMetadata(user_id=user)) for user in "ab")
    stream = store.{stream}
    next(stream)
    raise SystemError("enough")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)

    assert ended.returncode == 1
    assert ended.stderr.strip().endswith("SystemError: enough")
