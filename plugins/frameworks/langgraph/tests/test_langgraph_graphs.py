"""Graphs that run on both adapters: threads, interrupts, memories across threads, and a process that is killed."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Command, interrupt

import memoranda
import memoranda.sync
from memoranda.store import BaseStore as MemoryStore
from memoranda_langgraph import MemorandaSaver, MemorandaStore


def _joined(left: list[str], right: list[str]) -> list[str]:
    return left + right


class State(TypedDict):
    said: Annotated[list[str], _joined]


def _remember(state: State, *, store: BaseStore) -> State:
    known = [item.value["text"] for item in store.search(("notes",), limit=50)]
    store.put(("notes",), str(len(known)), {"text": state["said"][-1]})
    return {"said": [f"known before: {len(known)}"]}


async def _remember_later(state: State, *, store: BaseStore) -> State:
    known = [item.value["text"] for item in await store.asearch(("notes",), limit=50)]
    await store.aput(("notes",), str(len(known)), {"text": state["said"][-1]})
    return {"said": [f"known before: {len(known)}"]}


def _ask(state: State) -> State:
    return {"said": [f"you said {interrupt('well?')}"]}


def graph(store: Any, remember: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.add_node("ask", _ask)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", "ask")
    return builder.compile(checkpointer=MemorandaSaver(store), store=MemorandaStore(store))


def test_a_graph_goes_on_after_an_interrupt(blocking_store: memoranda.sync.SyncStore) -> None:
    handle = blocking_store.scoped(user_id="ada")
    thread: Any = {"configurable": {"thread_id": "t"}}
    waiting = graph(handle, _remember).invoke({"said": ["hello"]}, thread)
    assert "__interrupt__" in waiting

    done = graph(handle, _remember).invoke(Command(resume="bye"), thread)

    assert done["said"] == ["hello", "known before: 0", "you said bye"]
    assert len(list(graph(handle, _remember).get_state_history(thread))) >= 3


async def test_memories_are_shared_by_the_threads_of_a_user_and_by_nobody_else(store: MemoryStore) -> None:
    seen = {}
    for user, thread in (("ada", "t"), ("ada", "u"), ("bob", "t")):
        made = graph(store.scoped(user_id=user), _remember_later)
        state = await made.ainvoke({"said": [f"I am {user}"]}, {"configurable": {"thread_id": thread}})
        seen[user, thread] = state["said"]

    assert seen["ada", "u"] == ["I am ada", "known before: 1"]
    assert seen["bob", "t"] == ["I am bob", "known before: 0"]


_WORKER = """
import sys
import memoranda.sync
from langgraph.checkpoint.base import empty_checkpoint
from memoranda_langgraph import MemorandaSaver, MemorandaStore

with memoranda.sync.open(sys.argv[1]) as store:
    handle = store.scoped(user_id="ada")
    adapter, saver = MemorandaStore(handle), MemorandaSaver(handle)
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for number in range(100000):
        adapter.put(("notes",), str(number), {"n": number})
        config = saver.put(config, empty_checkpoint(), {"step": number}, {})
        print(number, flush=True)
"""


@pytest.mark.slow
def test_a_killed_process_loses_nothing_it_was_told_is_stored(lasting_url: str) -> None:
    with subprocess.Popen([sys.executable, "-c", _WORKER, lasting_url], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        told = [int(worker.stdout.readline()) for _ in range(20)]
        worker.kill()
        told += [int(line) for line in worker.stdout if line.endswith("\n")]

    with memoranda.sync.open(lasting_url) as store:
        handle = store.scoped(user_id="ada")
        kept = {item.value["n"] for item in MemorandaStore(handle).search(("notes",), limit=1_000_000)}
        steps = {found.metadata["step"] for found in MemorandaSaver(handle).list(None)}
    assert set(told) <= kept
    assert set(told) <= steps
