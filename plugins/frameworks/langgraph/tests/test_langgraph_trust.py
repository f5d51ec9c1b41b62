"""LangGraph's store leaves out what is not trusted enough."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.errors import InputError
from memoranda.store import InMemoryStore
from memoranda_langgraph import MemorandaStore


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, float(len(text))] for text in texts]


INDEX: Any = {"embed": embed, "dims": 2, "fields": ["said"]}


@pytest.mark.parametrize("index", [None, INDEX], ids=["plain", "by meaning"])
async def test_what_is_trusted_less_is_neither_found_nor_got(index: Any) -> None:
    store = InMemoryStore()
    mine = MemorandaStore(store.scoped(user_id="ada"), index=index)
    web = MemorandaStore(store.scoped(user_id="ada", trust="external"), index=index)
    await mine.aput(("notes",), "mine", {"said": "green train"})
    await web.aput(("notes",), "planted", {"said": "red train"})

    trusting = MemorandaStore(store.scoped(user_id="ada"), index=index, min_trust="agent")

    for query in (None, "train"):
        for wanted in (None, {"said": {"$ne": "blue"}}):
            found = await trusting.asearch(("notes",), query=query, filter=wanted)
            assert [item.key for item in found] == ["mine"]
            assert len(await mine.asearch(("notes",), query=query, filter=wanted)) == 2
    assert await trusting.aget(("notes",), "planted") is None
    assert await mine.aget(("notes",), "planted") is not None


async def test_a_put_through_another_handle_raises_no_trust() -> None:
    store = InMemoryStore()
    await MemorandaStore(store.scoped(user_id="ada", trust="external")).aput(("notes",), "key", {"said": "planted"})

    await MemorandaStore(store.scoped(user_id="ada")).aput(("notes",), "key", {"said": "planted"})

    assert {item.trust async for item in store.scan()} == {"external"}


def test_a_wrong_trust_is_an_input_error() -> None:
    with pytest.raises(InputError, match="Unknown min_trust"):
        MemorandaStore(InMemoryStore(), min_trust="everyone")
