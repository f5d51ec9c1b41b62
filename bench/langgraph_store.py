"""LangGraph's long-term memory: MemorandaStore on SQLite against LangGraph's own SQLite store, both in a file.

python bench/langgraph_store.py [--items 20000]

Both hold the same items in 200 namespaces and are asked the same, with async: one item, a namespace, a page of it,
items by a filter, the list of namespaces, and a put. A ratio above 1.0 is faster than LangGraph's own.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from harness import Contender, interleaved, line, report
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.sqlite.aio import AsyncSqliteStore

import memoranda
from memoranda_langgraph import MemorandaStore

NAMESPACES = 200
GOAL = ">= 1.0x"


def value(number: int) -> dict[str, Any]:
    return {
        "text": f"Note {number}: the garden was watered, the letters were answered and nothing else was done.",
        "kind": ("fact", "event", "plan")[number % 3],
        "score": number % 100,
        "tags": ["home", f"tag{number % 7}"],
    }


async def fill(store: BaseStore, items: int) -> None:
    puts = [PutOp(("users", f"u{at % NAMESPACES:03}", "notes"), f"k{at}", value(at)) for at in range(items)]
    for start in range(0, len(puts), 500):
        await store.abatch(puts[start : start + 500])


Ask = Callable[[BaseStore], Awaitable[object]]

QUESTIONS: dict[str, tuple[Ask, int]] = {
    "get an item": (lambda store: store.aget(("users", "u007", "notes"), "k7"), 50),
    "read a namespace (100 items)": (lambda store: store.asearch(("users", "u007"), limit=100), 10),
    "the first ten of a namespace": (lambda store: store.asearch(("users", "u007", "notes"), limit=10), 20),
    "a page with an offset": (lambda store: store.asearch(("users", "u007", "notes"), limit=10, offset=50), 20),
    "filter a namespace": (
        lambda store: store.asearch(("users", "u007"), filter={"kind": "fact", "score": {"$gte": 5}}, limit=100),
        10,
    ),
    "filter all namespaces": (
        lambda store: store.asearch(("users",), filter={"score": {"$gt": 98}, "kind": "fact"}, limit=10),
        1,
    ),
    "list the namespaces": (lambda store: store.alist_namespaces(limit=1000), 2),
    "list those below a place": (lambda store: store.alist_namespaces(prefix=("users", "u007"), limit=10), 5),
    "list them to a depth": (lambda store: store.alist_namespaces(max_depth=1), 2),
}


async def compare(folder: Path, items: int) -> None:
    async with (
        memoranda.open(f"sqlite:///{folder}/memoranda.db") as opened,
        AsyncSqliteStore.from_conn_string(str(folder / "langgraph.db")) as theirs,
    ):
        await theirs.setup()
        ours = MemorandaStore(opened.scoped(user_id="ada"))
        for store in (ours, theirs):
            await fill(store, items)
        lines = []
        for what, (ask, calls) in QUESTIONS.items():
            await check_same(what, await ask(ours), await ask(theirs))

            def asked(store: BaseStore, ask: Ask = ask) -> Contender:
                return lambda: ask(store)

            measured = await interleaved({"memoranda": asked(ours), "floor": asked(theirs)}, calls=calls)
            lines.append(line(what, measured, goal=GOAL))
        counts = {id(store): 0 for store in (ours, theirs)}

        def put(store: BaseStore) -> Contender:
            def once() -> Awaitable[object]:
                counts[id(store)] += 1
                return store.aput(("written",), f"k{counts[id(store)]}", value(1))

            return once

        measured = await interleaved({"memoranda": put(ours), "floor": put(theirs)}, calls=20)
        lines.append(line("put an item", measured, goal=GOAL))
        report(f"LangGraph's store, {items:,} items in {NAMESPACES} namespaces, against its own SQLite store", lines)


async def check_same(what: str, ours: Any, theirs: Any) -> None:
    """Stop if both do not give equally much: a faster answer to another question is none."""
    if isinstance(ours, list) and len(ours) != len(theirs):
        raise SystemExit(f"{what}: memoranda gives {len(ours)}, LangGraph {len(theirs)}.")
    if (ours is None) != (theirs is None):
        raise SystemExit(f"{what}: one of the two gives nothing.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000, help="how many items each store holds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder), options.items))


if __name__ == "__main__":
    main()
