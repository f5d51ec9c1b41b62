"""LangGraph's store on memoranda's: what its own tests do not ask."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp, SearchOp

import memoranda.sync
from memoranda import MemoryMetadata
from memoranda.errors import BadVectorError, InputError, StoreMisuseError
from memoranda.store import InMemoryStore, Store
from memoranda_langgraph import MemorandaStore
from memoranda_langgraph.namespaces import SplitFilter, compares, found_at


def letters(texts: list[str]) -> list[list[float]]:
    """Embed texts by how often they have each of three letters."""
    return [[float(text.count(letter)) for letter in "abc"] for text in texts]


async def keys(store: MemorandaStore, *prefix: str, **asked: Any) -> list[str]:
    return [item.key for item in await store.asearch(prefix, **asked)]


async def test_a_value_comes_back_as_it_was_put(store: Store) -> None:
    adapter = MemorandaStore(store.scoped(user_id="ada"))
    value = {"a": None, "b": [1, 2.5, {"c": "ü"}], "z": {}, "": True, "a.b": "x", "content": "y", "id": 2**70}

    await adapter.aput(("users", "ada"), "prefs", value)

    item = await adapter.aget(("users", "ada"), "prefs")
    assert item is not None
    assert (item.key, item.namespace, item.value) == ("prefs", ("users", "ada"), value)


async def test_what_is_put_can_be_read_as_a_memory(store: Store) -> None:
    adapter = MemorandaStore(store.scoped(user_id="ada"), index={"dims": 3, "embed": letters, "fields": ["text"]})

    await adapter.aput(("notes", "work"), "k", {"text": "abc", "kind": "fact"})

    (item,) = await store.search(metadata=MemoryMetadata(user_id="ada", namespace=("notes",)), where={"kind": "fact"})
    assert (item.content, item.name, item.metadata.namespace) == ("abc", "k", ("notes", "work"))


async def test_a_put_again_keeps_when_it_was_made(store: Store) -> None:
    adapter = MemorandaStore(store)
    await adapter.aput(("a",), "k", {"n": 1})
    first = await adapter.aget(("a",), "k")
    await adapter.aput(("a",), "k", {"n": 2})
    second = await adapter.aget(("a",), "k")

    assert first is not None
    assert second is not None
    assert second.created_at == first.created_at < second.updated_at


async def test_the_last_put_of_a_batch_counts_and_reads_come_before_it(store: Store) -> None:
    adapter = MemorandaStore(store)
    found, *_ = await adapter.abatch(
        [
            GetOp(("a",), "k"),
            PutOp(("a",), "k", {"n": 1}),
            PutOp(("a",), "k", None),
            PutOp(("a",), "k", {"n": 3}),
            PutOp(("a",), "gone", {"n": 1}),
            PutOp(("a",), "gone", None),
        ]
    )

    assert found is None
    assert [(item.key, item.value) for item in await adapter.asearch(("a",))] == [("k", {"n": 3})]


async def test_a_batch_is_stored_whole_or_not_at_all(store: Store) -> None:
    adapter = MemorandaStore(store)
    with pytest.raises(InputError):
        await adapter.abatch([PutOp(("a",), "good", {"n": 1}), PutOp(("a",), "bad", {"n": math.nan})])
    with pytest.raises(InvalidNamespaceError):
        await adapter.abatch([PutOp(("a",), "good", {"n": 1}), GetOp(("a.b",), "k")])

    assert await adapter.asearch(()) == []


async def test_a_deleted_key_leaves_nothing_behind(store: Store) -> None:
    adapter = MemorandaStore(store, index={"dims": 3, "embed": letters})
    await adapter.aput(("a",), "k", {"text": "abc"})
    await adapter.adelete(("a",), "k")

    assert await store.count(include_deleted=True) == 0


async def test_keys_and_namespaces_are_told_apart_whatever_they_are_made_of(store: Store) -> None:
    adapter = MemorandaStore(store)
    places = [(("a", "b"), "c"), (("a",), "b/c"), (("a/b",), "c"), (("a~1b",), "c"), (("a",), '","c'), (("a\n",), "c")]
    for number, (namespace, key) in enumerate(places):
        await adapter.aput(namespace, key, {"n": number})

    for number, (namespace, key) in enumerate(places):
        item = await adapter.aget(namespace, key)
        assert item is not None
        assert item.value == {"n": number}
        assert number in [found.value["n"] for found in await adapter.asearch(namespace, limit=100)]


async def test_a_key_may_be_longer_than_an_id(store: Store) -> None:
    adapter = MemorandaStore(store)
    await adapter.aput(("a",), "k" * 5000, {"n": 1})

    assert await keys(adapter, "a") == ["k" * 5000]


async def test_namespaces_lie_below_the_one_that_the_handle_is_bound_to(store: Store) -> None:
    whole, tenant = MemorandaStore(store), MemorandaStore(store.scoped(namespace=("tenants", "x")))
    await tenant.aput(("b", "x"), "k", {"n": 1})
    await tenant.aput(("x",), "k", {"n": 2})
    await whole.aput(("tenants", "y"), "k", {"n": 3})

    assert await tenant.alist_namespaces() == [("b", "x"), ("x",)]
    assert await tenant.alist_namespaces(suffix=("x",)) == [("b", "x"), ("x",)]
    assert await tenant.alist_namespaces(suffix=("tenants", "x")) == []
    assert await tenant.alist_namespaces(max_depth=1) == [("b",), ("x",)]
    assert [item.namespace for item in await tenant.asearch((), filter={"n": {"$gte": 1}})] == [("x",), ("b", "x")]
    assert await whole.alist_namespaces(max_depth=2) == [("tenants", "x"), ("tenants", "y")]
    found = await whole.aget(("tenants", "x", "x"), "k")
    assert found is not None
    assert found.value == {"n": 2}


async def test_items_of_another_kind_are_not_found(store: Store) -> None:
    adapter = MemorandaStore(store)
    await store.add(memoranda.HumanMemory(content="hello", metadata=MemoryMetadata(namespace=("a",))))

    assert await adapter.asearch(("a",)) == []


async def test_pages_follow_one_another(store: Store) -> None:
    adapter = MemorandaStore(store)
    await adapter.abatch([PutOp(("a",), f"k{number}", {"n": number, "in": {"n": number}}) for number in range(9)])

    for asked in ({}, {"n": {"$gte": 0}}, {"in.n": {"$gte": 0}}):
        pages = [await keys(adapter, "a", filter=asked, limit=4, offset=offset) for offset in (0, 4, 8, 12)]
        assert [len(page) for page in pages] == [4, 4, 1, 0]
        assert sorted(key for page in pages for key in page) == [f"k{number}" for number in range(9)]


STRANGE_KEYS = [
    *("", " ", "a b", "it's", '"quoted"', "a[0]", "[0]", "$", "$.a", "%", "_", "\\", "\n", "é", "ключ", "🫖"),
    *(".", "..", "a.", ".a", "a.b.c", "123abc", "x') OR '1'='1", "extra.a", "id", "content", "k" * 2000),
]


@pytest.mark.parametrize("key", STRANGE_KEYS, ids=lambda key: repr(key)[:20])
async def test_a_value_is_found_by_whatever_key_it_has(store: Store, key: str) -> None:
    adapter = MemorandaStore(store)
    for name, value in {
        "yes": "yes",
        "no": "no",
        "none": None,
        "seven": 7,
        "true": True,
        "dict": {f"x{key}": "in"},
    }.items():
        await adapter.aput(("a",), name, {key: value})
    await adapter.aput(("a",), "missing", {"other": "yes"})

    assert await keys(adapter, "a", filter={key: "yes"}) == ["yes"]
    assert await keys(adapter, "a", filter={key: "other"}) == []
    assert sorted(await keys(adapter, "a", filter={key: None})) == ["missing", "none"]
    assert await keys(adapter, "a", filter={key: {"$gt": 6}}) == ["seven"]
    assert await keys(adapter, "a", filter={key: True}) == ["true"]
    assert await keys(adapter, "a", filter={key: {f"x{key}": "in"}}) == ["dict"]
    assert sorted(await keys(adapter, "a", filter={key: {"$ne": "yes"}})) == sorted(
        ["no", "none", "seven", "true", "dict", "missing"]
    )


async def test_a_key_that_is_no_text_is_found_nowhere(store: Store) -> None:
    adapter = MemorandaStore(store)
    await adapter.aput(("a",), "k", {"1": "x"})

    assert await keys(adapter, "a", filter={1: "x"}) == []
    assert await keys(adapter, "a", filter={1: None}) == ["k"]


async def test_a_filter_is_asked_of_all_and_not_of_the_first_page(store: Store) -> None:
    adapter = MemorandaStore(store)
    await adapter.abatch([PutOp(("a",), f"k{number}", {"in": {"n": number}}) for number in range(600)])

    assert await keys(adapter, "a", filter={"in.n": 3}) == ["k3"]
    assert await keys(adapter, "a", filter={"in": {"n": {"$lt": 1}}}) == ["k0"]


@pytest.mark.parametrize("asked", [{"n": {"$like": "x"}}, {"n": {"$eq": 1, "m": 2}}, {"n": {"in": {"$where": 1}}}])
async def test_an_operator_that_does_not_exist_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Unsupported operator"):
        await MemorandaStore(InMemoryStore()).asearch((), filter=asked)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, 2**70, "", "a", "b", "1", "é"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2),
    max_leaves=4,
)
OPERANDS = VALUES | st.sampled_from([math.inf, -math.inf, math.nan, "a\0", "\ud800", 10**100])
KEYS = st.sampled_from(["k", "l", "k.x", "id", "content", "extra.k", "k'\") --"])
ORDERS = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
CONDITIONS = OPERANDS | st.dictionaries(ORDERS, OPERANDS, min_size=1, max_size=2)


@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=3), max_size=4), st.dictionaries(KEYS, CONDITIONS, max_size=2))
def test_what_the_store_looks_for_is_what_the_filter_means(values: list[dict[str, Any]], asked: dict[str, Any]) -> None:
    adapter = MemorandaStore(InMemoryStore())
    adapter.batch([PutOp(("a",), str(number), value) for number, value in enumerate(values)])

    (found,) = adapter.batch([SearchOp(("a",), asked, limit=10)])

    meant = {
        str(at) for at, value in enumerate(values) if all(compares(found_at(value, k), c) for k, c in asked.items())
    }
    assert {item.key for item in found} == meant  # type: ignore[union-attr]


def test_plain_conditions_are_the_stores_to_look_for() -> None:
    asked = SplitFilter.of({"kind": "fact", "n": {"$gt": 3, "$lte": 2.5}, "tags": ["a", "b"], "content": True})

    assert asked.rest == {}
    assert set(asked.where) == {"extra.kind", "extra.n", "extra.tags", "extra.content"}


@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ada", "bob"]),
            st.sampled_from([("a",), ("a", "b"), ("c",)]),
            st.sampled_from(["k", "l"]),
            st.sampled_from(["put", "delete"]),
        ),
        max_size=20,
    )
)
def test_users_of_one_store_never_meet(history: list[tuple[str, tuple[str, ...], str, str]]) -> None:
    shared = InMemoryStore()
    index: Any = {"dims": 3, "embed": letters}
    adapters = {user: MemorandaStore(shared.scoped(user_id=user), index=index) for user in ("ada", "bob")}
    alone = {user: MemorandaStore(InMemoryStore(), index=index) for user in adapters}
    for number, (user, namespace, key, action) in enumerate(history):
        for adapter in (adapters[user], alone[user]):
            if action == "put":
                adapter.put(namespace, key, {"who": user, "n": number, "text": "abc"})
            else:
                adapter.delete(namespace, key)

    for user, adapter in adapters.items():
        expected = alone[user]
        assert adapter.list_namespaces() == expected.list_namespaces()
        for query in (None, "abc"):
            found, wanted = adapter.search((), query=query, limit=50), expected.search((), query=query, limit=50)
            assert sorted((item.namespace, item.key, item.value["n"]) for item in found) == sorted(
                (item.namespace, item.key, item.value["n"]) for item in wanted
            )
        for namespace in [("a",), ("a", "b"), ("c",)]:
            for key in ("k", "l"):
                mine, theirs = adapter.get(namespace, key), expected.get(namespace, key)
                assert (mine and mine.value) == (theirs and theirs.value)


async def test_a_lifetime_is_in_minutes_and_starts_again_when_it_is_read(store: Store) -> None:
    now = 1_800_000_000.0
    store.clock = lambda: now  # type: ignore[method-assign]
    adapter = MemorandaStore(store, ttl={"default_ttl": 10})
    await adapter.aput(("a",), "read", {"n": 1})
    await adapter.aput(("a",), "searched", {"n": 2})
    await adapter.aput(("a",), "left alone", {"n": 3})
    await adapter.aput(("a",), "lasting", {"n": 4}, ttl=None)
    await adapter.aput(("a",), "short", {"n": 5}, ttl=0.5)
    now += 31
    assert await adapter.aget(("a",), "short") is None
    now += 8 * 60
    await adapter.aget(("a",), "read")
    await keys(adapter, "a", filter={"n": 2})
    await adapter.aget(("a",), "left alone", refresh_ttl=False)
    now += 8 * 60

    assert sorted(await keys(adapter, "a")) == ["lasting", "read", "searched"]


async def test_vectors_live_as_long_as_what_they_are_of(store: Store) -> None:
    now = 1_800_000_000.0
    store.clock = lambda: now  # type: ignore[method-assign]
    adapter = MemorandaStore(store, index={"dims": 3, "embed": letters})
    await adapter.aput(("a",), "k", {"text": "abc"}, ttl=1)
    now += 50
    await adapter.aget(("a",), "k")
    now += 50
    (found,) = await adapter.asearch(("a",), query="abc", refresh_ttl=False)
    assert found.score is not None
    now += 50

    assert await adapter.asearch(("a",), query="abc") == []
    assert await adapter.alist_namespaces() == []


@pytest.mark.parametrize(
    ("distance", "scores"),
    [
        ("cosine", {"aa": 1.0, "ab": 1 / math.sqrt(2), "c": 0.0}),
        ("inner_product", {"aa": 2.0, "ab": 1.0, "c": 0.0}),
        ("l2", {"aa": -1.0, "ab": -1.0, "c": -math.sqrt(2)}),
    ],
)
async def test_scores_are_the_higher_the_nearer(store: Store, distance: str, scores: dict[str, float]) -> None:
    index: Any = {"dims": 3, "embed": letters, "fields": ["text"], "distance_type": distance}
    adapter = MemorandaStore(store, index=index)
    for text in scores:
        await adapter.aput(("a",), text, {"text": text})

    found = await adapter.asearch((), query="a")

    assert {item.key: pytest.approx(item.score, abs=1e-6) for item in found} == scores
    assert [item.score for item in found] == sorted([item.score or 0 for item in found], reverse=True)


def test_a_put_may_name_the_paths_that_are_searched() -> None:
    for distance, score in (("cosine", 1.0), ("inner_product", 2.0), ("l2", -1.0)):
        index: Any = {"embed": letters, "distance_type": distance}
        adapter = MemorandaStore(InMemoryStore(), index=index)
        adapter.put(("a",), "k", {"x": "aa"}, index=["x"])
        assert adapter.search((), query="a")[0].score == pytest.approx(score)


async def test_what_has_no_vectors_comes_last_and_pages_on(store: Store) -> None:
    adapter = MemorandaStore(store, index={"dims": 3, "embed": letters, "fields": ["text"]})
    await adapter.aput(("a",), "near", {"text": "a"})
    await adapter.aput(("a",), "far", {"text": "b"})
    await adapter.aput(("a",), "not indexed", {"text": "a"}, index=False)
    await adapter.aput(("a",), "no text", {"other": "a"})

    for asked in (None, {"text": {"$ne": "z"}}):
        whole = await keys(adapter, query="a", filter=asked)
        assert whole[:2] == ["near", "far"]
        assert sorted(whole[2:]) == ["no text", "not indexed"]
        assert [(await keys(adapter, query="a", filter=asked, limit=1, offset=at))[0] for at in range(4)] == whole


async def test_a_put_without_index_forgets_the_old_vectors(store: Store) -> None:
    adapter = MemorandaStore(store, index={"dims": 3, "embed": letters})
    await adapter.aput(("a",), "k", {"text": "abc"})
    await adapter.aput(("a",), "k", {"text": "abc"}, index=False)

    assert [item.score for item in await adapter.asearch((), query="abc")] == [None]


async def test_an_embedder_is_asked_once_for_each_text() -> None:
    asked: list[str] = []

    async def embed(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return letters(list(texts))

    adapter = MemorandaStore(InMemoryStore(), index={"dims": 3, "embed": embed, "fields": ["x", "y"]})
    await adapter.abatch([PutOp(("a",), str(number), {"x": "a", "y": "b"}) for number in range(5)])

    assert sorted(asked) == ["a", "b"]


async def test_a_vector_of_another_length_is_refused_and_nothing_is_stored() -> None:
    store = InMemoryStore()
    adapter = MemorandaStore(store, index={"dims": 4, "embed": letters})
    with pytest.raises(BadVectorError):
        await adapter.aput(("a",), "k", {"text": "abc"})

    assert await store.count() == 0


async def test_vectors_of_another_model_do_not_score() -> None:
    store = InMemoryStore()
    await MemorandaStore(store, index={"embed": letters, "dims": 3}).aput(("a",), "k", {"text": "abc"})
    other = MemorandaStore(store, index={"embed": lambda texts: [[1.0, 2.0] for _ in texts], "dims": 2})

    assert [item.score for item in await other.asearch((), query="abc")] == [None]


def test_a_distance_that_does_not_exist_is_refused() -> None:
    index: Any = {"embed": letters, "dims": 3, "distance_type": "hamming"}
    with pytest.raises(InputError, match="distance_type"):
        MemorandaStore(InMemoryStore(), index=index)


async def test_a_call_without_async_on_a_running_loop_raises_and_does_nothing() -> None:
    store = InMemoryStore()
    adapter = MemorandaStore(store)
    with pytest.raises(asyncio.InvalidStateError, match="abatch"):
        adapter.put(("a",), "k", {"n": 1})
    with pytest.raises(StoreMisuseError):
        adapter.search(())

    assert await store.count() == 0


async def test_a_thread_beside_the_loop_uses_the_same_store(store: Store) -> None:
    adapter = MemorandaStore(store)
    await asyncio.to_thread(adapter.put, ("a",), "k", {"n": 1})

    item = await adapter.aget(("a",), "k")
    assert item is not None
    assert item.value == {"n": 1}


def test_a_store_without_async_serves_many_threads(blocking_store: memoranda.sync.SyncStore) -> None:
    adapter = MemorandaStore(blocking_store.scoped(user_id="ada"))

    def work(number: int) -> None:
        for at in range(5):
            adapter.put(("t", str(number)), str(at), {"n": at})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(adapter.search(("t",), limit=100)) == 40
    assert len(adapter.list_namespaces(prefix=("t", "*"))) == 8
