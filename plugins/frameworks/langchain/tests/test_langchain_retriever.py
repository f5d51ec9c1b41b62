"""A retriever of LangChain over ranked search."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document

from memoranda import AIMemory, HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda.sync import SyncStore
from memoranda_langchain import MemorandaRetriever
from memoranda_messages.sessions import SyncCallError

SAID = [
    HumanMemory(content="My flat is in Oslo.", name="Ada", created_at="2026-05-03T10:00:00Z"),
    AIMemory(content="A flat in Oslo: noted."),
    HumanMemory(content="The flat has a view of the Oslo fjord."),
    HumanMemory(content="My dog is called Bobdog."),
]


async def test_the_best_come_first_with_their_scores_and_owners(store: Store) -> None:
    ada = store.scoped(user_id="ada", session_id="chat")
    await ada.add_many(SAID)

    found = await MemorandaRetriever(store=ada, k=2).ainvoke("Where is my flat?")

    assert found[0].page_content == "My flat is in Oslo."
    assert found[0].id == SAID[0].id
    score = found[0].metadata.pop("score")
    assert 0 < found[1].metadata["score"] <= score <= 1
    assert found[0].metadata == {
        "user_id": "ada",
        "session_id": "chat",
        "memory_type": "human",
        "created_at": "2026-05-03T10:00:00.000000+00:00",
        "name": "Ada",
    }


async def test_a_call_overrides_the_number_of_documents(store: Store) -> None:
    await store.add_many(SAID)
    retriever = MemorandaRetriever(store=store, k=1)
    assert len(await retriever.ainvoke("flat in Oslo")) == 1
    assert len(await retriever.ainvoke("flat in Oslo", k=3)) == 3


async def test_filters_narrow_what_is_found(store: Store) -> None:
    await store.add_many(SAID)
    await store.add(HumanMemory(content="A flat in Rome", metadata=MemoryMetadata(extra={"topic": "rome"})))
    assert {one.metadata["memory_type"] for one in await _found(store, memory_type="ai")} == {"ai"}
    assert [one.page_content for one in await _found(store, where={"extra.topic": "rome"})] == ["A flat in Rome"]
    assert await _found(store, min_score=1.0, mode="text") != await _found(store)


async def _found(store: Store, **options: Any) -> list[Document]:
    return await MemorandaRetriever(store=store, **options).ainvoke("flat in Oslo")


async def test_a_handle_never_finds_what_another_user_said(store: Store) -> None:
    await store.scoped(user_id="bob").add(HumanMemory(content="Bob's flat is in Rome."))
    assert await MemorandaRetriever(store=store.scoped(user_id="ada")).ainvoke("Whose flat is in Rome?") == []


def test_the_sync_method_does_the_same(blocking_store: SyncStore) -> None:
    blocking_store.add_many(SAID)
    retriever = MemorandaRetriever(store=blocking_store, k=3)
    assert [one.page_content for one in retriever.invoke("What is my dog called?")][:1] == ["My dog is called Bobdog."]


async def test_the_sync_method_in_an_event_loop_says_what_to_await(store: Store) -> None:
    with pytest.raises(SyncCallError, match="ainvoke"):
        MemorandaRetriever(store=store).invoke("flat")
