"""Observers that measure: what ``around`` sees of each call."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

import pytest
from stepwise import StepwiseStore

import memoranda.sync
from memoranda import HumanMemory, MemoryItem, MemoryMetadata, ShortTermMemory
from memoranda.errors import InputError
from memoranda.store import InMemoryStore, Observer, ScopedStore, Store
from memoranda.store.calls import report_call
from memoranda_otel.measuring import Call, Measuring


class Meter(Measuring):
    """Writes down each call when it ends."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[tuple[Call, Any, BaseException | None]] = []

    def around(self, call: Call) -> Callable[[Any, BaseException | None], None]:
        self.begun.append(call.operation)
        return lambda result, error: self.ended.append((call, result, error))

    @property
    def calls(self) -> list[str]:
        return [call.operation for call, _, _ in self.ended]


class Changes(Observer):
    """Adds a letter to every content."""

    def before_add(self, item: MemoryItem) -> MemoryItem:
        item.content += "!"
        return item


def measured(store: Store | None = None) -> tuple[Store, Meter]:
    store, meter = InMemoryStore() if store is None else store, Meter()
    store.observe(meter)
    return store, meter


NEED_A_LAYER = ("versions", "purge_versions")
"""What a store does only with a layer that keeps earlier versions."""


async def called(store: Store) -> None:
    """Call every public method of a store that has all capabilities, each once."""
    await store.init()
    await store.exists()
    item = HumanMemory(content="tea", id="1", metadata=MemoryMetadata(session_id="s"))
    await store.add(item)
    await store.add_many([HumanMemory(content="milk", id="2")])
    head = await store.append([HumanMemory(content="cake", id="3", metadata=MemoryMetadata(session_id="s"))], after="1")
    await store.apply(adds=[HumanMemory(content="jam", id="4")], deletes=["2"])
    stored = await store.get("1")
    assert stored is not None
    (updated,) = await store.update_many([stored])
    await store.update(updated)
    await store.touch(["1"], ttl=100)
    await store.fork("s", at=head)
    await store.get_many(["1"])
    await store.search(query="tea")
    await store.search_ranked(query="tea")
    await store.recall("tea")
    await store.window()
    await store.payloads()
    await store.payload_changes(None)
    await store.head()
    await store.count()
    assert [found.id async for found in store.scan(memory_type="human")] == ["1", "3", "4"]
    assert [owner.value async for owner in store.owners("session_id")][-1] == "s"
    await store.delete("1")
    await store.restore("1")
    await store.sweep()
    await store.pop()
    await store.purge("3")
    await store.clear()
    await store.close()


def public_calls() -> set[str]:
    methods = {name: getattr(Store, name) for name in dir(Store) if not name.startswith("_")}
    return {name for name, method in methods.items() if inspect.isfunction(method) and _is_async(method)}


def _is_async(method: Any) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


async def test_every_public_call_is_reported_once() -> None:
    store, meter = measured()
    await called(store)
    assert sorted(meter.calls) == sorted(
        public_calls() - {"approve", "check_grant", "shown", "known", "outdated", *NEED_A_LAYER}
    )
    assert all(error is None for _, _, error in meter.ended)


async def test_a_handle_reports_its_calls_once_and_itself() -> None:
    store, meter = measured()
    handle = store.scoped(user_id="ada").scoped(session_id="s")
    await handle.add(HumanMemory(content="tea"))
    assert [item.content for item in await handle.search()] == ["tea"]
    assert meter.calls == ["add", "search"]
    assert meter.ended[0][0].store is handle


async def test_a_handle_made_before_the_observer_came_is_measured_too() -> None:
    store = InMemoryStore()
    handle = store.scoped(user_id="ada")
    _, meter = measured(store)
    await handle.count()
    assert meter.calls == ["count"]


async def test_an_observer_of_a_handle_sees_its_calls_alone() -> None:
    store = InMemoryStore()
    handle, meter = measured(store.scoped(user_id="ada"))
    await store.count()
    await store.scoped(user_id="ada").count()
    await handle.count()
    assert meter.calls == ["count"]


async def test_the_same_observer_on_a_store_and_its_handle_sees_a_call_once() -> None:
    store, meter = measured()
    store.observe(meter)
    handle = store.scoped(user_id="ada")
    handle.observe(meter)
    await handle.count()
    assert meter.calls == ["count"]


async def test_a_conversation_reports_one_call_for_each() -> None:
    memory, meter = measured(ShortTermMemory(scope="session"))
    handle = memory.scoped(session_id="s")
    await handle.add(HumanMemory(content="tea"))
    await handle.search()
    await memory.clear()
    assert meter.calls == ["add", "search", "clear"]


async def test_an_approval_reports_what_it_reads_and_writes_within() -> None:
    store, meter = measured()
    await store.add(HumanMemory(content="tea", id="1"))
    await store.approve("1", trust="user", by="ada")
    assert meter.begun == ["add", "approve", "get", "update"]
    assert meter.calls == ["add", "get", "update", "approve"]


async def test_arguments_are_named_and_the_result_is_the_callers() -> None:
    store, meter = measured()
    await store.add(HumanMemory(content="tea", id="1"))
    found = await store.get("1", refresh=True)
    call, result, _ = meter.ended[-1]
    assert call.arguments == {"item_id": "1", "refresh": True}
    assert result is found


async def test_items_of_an_iterator_can_be_counted_and_are_stored() -> None:
    store, meter = measured()
    await store.add_many(HumanMemory(content=word) for word in ("tea", "milk"))
    await store.apply(adds=iter([HumanMemory(content="jam")]))
    assert await store.count() == 3
    assert [len(call.arguments.get("items", call.arguments.get("adds", ()))) for call, _, _ in meter.ended] == [2, 1, 0]


async def test_of_two_equal_observers_a_store_has_one() -> None:
    class Same(Meter):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Same)

        def __hash__(self) -> int:
            return 0

    store, first, second = InMemoryStore(), Same(), Same()
    store.observe(first)
    handle = store.scoped(user_id="ada")
    handle.observe(second)
    await handle.count()
    assert (first.calls, second.calls) == (["count"], [])


async def test_code_around_a_store_can_report_a_call_of_its_own() -> None:
    store, meter = measured()

    async def summed(store: Any, factor: int) -> int:
        return factor * int(await store.count())

    assert await report_call(store, summed, factor=3) == 0
    assert meter.calls == ["count", "summed"]
    assert meter.ended[-1][0].arguments == {"factor": 3}


async def test_a_measured_search_copies_no_item_for_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = measured()
    await store.add(HumanMemory(content="tea"))
    copied: list[object] = []
    monkeypatch.setattr("memoranda.store.observers.copy_item", copied.append)
    assert len(await store.search()) == 1
    assert copied == []


async def test_a_failed_call_reports_its_error() -> None:
    store, meter = measured()
    with pytest.raises(InputError) as raised:
        await store.search(limit=-1)
    assert meter.ended[-1][1:] == (None, raised.value)


async def test_a_cancelled_call_reports_the_cancellation() -> None:
    class Hangs(StepwiseStore):
        async def _count(self, *_: Any) -> int:
            await asyncio.sleep(60)
            return 0

    store, meter = measured(Hangs())
    task = asyncio.create_task(store.count())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(meter.ended[-1][2], asyncio.CancelledError)


async def test_a_stream_lasts_until_its_last_item_and_reports_their_number() -> None:
    store, meter = measured()
    await store.add_many([HumanMemory(content=word) for word in ("tea", "milk")])
    async for _ in store.scan():
        assert meter.calls == ["add_many"]
    assert (meter.ended[-1][0].streams, meter.ended[-1][1:]) == (True, (2, None))


async def test_a_stream_whose_reader_stops_is_no_error() -> None:
    store, meter = measured()
    await store.add_many([HumanMemory(content=word) for word in ("tea", "milk")])
    stream = store.scan()
    await anext(stream)
    await stream.aclose()
    assert meter.ended[-1][1:] == (1, None)


async def test_a_stream_that_fails_reports_its_error() -> None:
    store, meter = measured()
    with pytest.raises(InputError):
        await anext(store.owners("shoe_size"))  # type: ignore[arg-type]  # what is tested
    assert isinstance(meter.ended[-1][2], InputError)


async def test_an_observer_that_fails_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Measuring):
        def around(self, call: Call) -> Callable[[Any, BaseException | None], None]:
            if call.operation == "count":
                raise RuntimeError("tea")

            def end(result: Any, error: BaseException | None) -> None:
                raise RuntimeError("tea")

            return end

    store = InMemoryStore()
    store.observe(Fails())
    _, meter = measured(store)
    with caplog.at_level(logging.INFO):
        await store.add(HumanMemory(content="tea"))
        assert await store.count() == 1
    assert meter.calls == ["add", "count"]
    assert caplog.text.count("RuntimeError") == 2
    assert "tea" not in caplog.text


async def test_an_observer_may_ignore_a_call() -> None:
    class Ignores(Measuring):
        def around(self, call: Call) -> None:
            return None

    store = InMemoryStore()
    store.observe(Ignores())
    assert await store.count() == 0


async def test_observers_that_measure_and_that_change_items_go_together() -> None:
    store, meter = measured()
    store.observe(Changes())
    await store.add(HumanMemory(content="tea"))
    assert [item.content for item in await store.search()] == ["tea!"]
    assert meter.calls == ["add", "search"]


def test_a_store_that_blocks_reports_each_call_once() -> None:
    meter = Meter()
    with memoranda.sync.open("memory://", observers=[meter]) as store:
        store.add(HumanMemory(content="tea"))
        assert [item.content for item in store.scoped(user_id="ada").scan()] == []
        assert [item.content for item in store.scan()] == ["tea"]
    assert meter.calls == ["init", "add", "scan", "scan", "close"]


async def test_a_store_without_such_an_observer_keeps_its_methods() -> None:
    store = InMemoryStore()
    store.observe(Changes())
    for each in (store, store.scoped(user_id="ada")):
        assert each.add.__func__ is type(each).add  # type: ignore[attr-defined]  # a bound method has it
        assert not each.measured_by


async def test_a_measured_store_is_still_of_its_class() -> None:
    store, _ = measured()
    assert type(store) is InMemoryStore
    assert type(store.scoped(user_id="ada")) is ScopedStore
    assert inspect.signature(store.search) == inspect.signature(InMemoryStore().search)
