"""The same random history on every engine gives the same answers, and the in-memory store is the reference."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memoranda import MemoryItem, MemoryMetadata, MemoryStatus, Store
from memoranda.errors import ConflictError, MemoryError
from memoranda.store import InMemoryStore, dump_item, load_item
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_postgres import PostgresMemoryStore
from memoranda_redis.store import RedisMemoryStore
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_vector import VectorMemoryStore
from servers import postgres_server, redis_server

# Few values each, so that ids, scopes and times meet again and again.
IDS = ["a", "b", "c", "d", "e:1", "ф"]
USERS = [None, "", "u1", "u2"]
SESSIONS = [None, "", "s1", "s2"]
EXTRAS: list[dict[str, Any]] = [
    {}, {}, {"k": 1}, {"k": 1.0}, {"k": True}, {"k": "1"}, {"k": None}, {"k": []}, {"k": 2**70}, {"": 0}, {"a.b": "x"},
    {"k": [1, {"x": None}], 'q"\'': "y"}, {"k": 1, "z": {"deep": [True, 2.5]}}, {"k": 1e-7}, {"k": "ß"},
]  # fmt: skip
TIMES = [
    "2024-03-01T10:00:00.000000+00:00", "2024-03-01T10:00:00.000001+00:00", "2024-03-01T10:00:05.000000+00:00",
    "2024-03-02T00:00:00.000000+00:00", "1999-12-31T23:59:59.999999+00:00",
]  # fmt: skip
WORDS = [
    "garden", "Gardens", "gardening", "the", "Ada:", "hiking", "2024-03-01", "Straße", "STRASSE", "İstanbul", "ЖИЗНЬ",
    "жизнь", "100%", "a_b", "back\\slash", "quote'\"", "東京都", "ﬁne", "q", "  ", "\n", "don't", "x-y", "😀",
    "e\u0301",
]  # fmt: skip
QUERIES = [*WORDS, "", "ss", "fi", "ГИ", "%", "_", "\\", "'", "京都", "garden hiking", "When did Ada hike?", "nothing"]


def contents() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)


def metadata() -> st.SearchStrategy[MemoryMetadata]:
    return st.builds(
        MemoryMetadata,
        user_id=st.sampled_from(USERS),
        session_id=st.sampled_from(SESSIONS),
        task_id=st.sampled_from([None, None, "t"]),
        agent_id=st.sampled_from([None, None, "g"]),
        extra=st.sampled_from(EXTRAS),
    )


def filters() -> st.SearchStrategy[MemoryMetadata | None]:
    return st.none() | metadata() | st.sampled_from(USERS[1:]).map(lambda user: MemoryMetadata(user_id=user))


def items() -> st.SearchStrategy[MemoryItem]:
    def made(version: int, kind: str, name: str | None, **values: Any) -> MemoryItem:
        further: dict[str, Any] = {}
        if kind == "ai":
            further["tool_calls"] = [{"id": "call", "name": "f", "arguments": {"x": [1, None]}}]
        if kind == "tool":
            further |= {"tool_call_id": "call", "tool_name": "f", "is_error": True}
        if kind == "odd":
            further["colour"] = {"red": 1.5}
        item = {"memory_type": kind, "updated_at": values["created_at"], "name": name, **values, **further}
        return load_item({**item, "metadata": item["metadata"].model_dump(), "version": version})

    return st.builds(
        made,
        version=st.integers(0, 4),
        kind=st.sampled_from(["human", "ai", "tool", "system", "item", "odd"]),
        name=st.sampled_from([None, None, "Ada", "Grace Hopper"]),
        id=st.sampled_from(IDS),
        content=contents(),
        metadata=metadata(),
        status=st.sampled_from([status.value for status in MemoryStatus]),
        created_at=st.sampled_from(TIMES),
        archived_by=st.sampled_from([None, None, None, "summary"]),
    )


@dataclass(frozen=True)
class Step:
    """One call of the public API, on the store or on a handle of a scope."""

    call: str
    scope: dict[str, str]
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


def steps() -> st.SearchStrategy[Step]:
    scopes = st.sampled_from(
        [{}, {}, {"user_id": "u1"}, {"user_id": ""}, {"session_id": "s1"}, {"user_id": "u2", "session_id": "s2"}]
    )
    ids, kinds = st.sampled_from(IDS), st.sampled_from([None, None, "human", "odd", ""])
    statuses, queries = st.sampled_from([None, None, *MemoryStatus]), st.sampled_from(QUERIES) | contents()
    limits = st.sampled_from([0, 1, 2, 3, 10, 10**20])
    batches = st.lists(items(), max_size=4)
    found = {"metadata": filters(), "memory_type": kinds, "status": statuses}

    def step(call: str, *arguments: Any, **options: Any) -> st.SearchStrategy[Step]:
        return st.builds(
            Step,
            st.just(call),
            scopes,
            st.tuples(*arguments),
            st.fixed_dictionaries(options) if options else st.just({}),
        )

    return st.one_of(
        step("add", items(), within=filters()),
        step("add", items()),
        step("add_many", batches),
        step("add_many", batches, within=filters()),
        step("update", items(), within=filters()),
        step("update_many", batches),
        step("update_many", batches, within=filters()),
        step("get", ids, metadata=filters()),
        step("search", query=queries, limit=limits, mode=st.just("substring"), **found),
        step("search", query=queries, limit=st.just(10), mode=st.just("substring")),
        step("search_ranked", query=queries, limit=limits, mode=st.just("text"), **found),
        step("search_ranked", query=queries, mode=st.just("text")),
        step("count", include_deleted=st.booleans(), metadata=filters()),
        step("scan", include_deleted=st.booleans(), archived=st.sampled_from([None, True, False]), **found),
        step("clear", metadata=filters()),
        step("delete", ids, metadata=filters()),
        step("restore", ids | st.none(), metadata=filters()),
        step("purge", ids | st.none(), metadata=filters(), deleted_only=st.booleans()),
    )


def shown(answer: Any) -> Any:
    """Return an answer as something that can be compared; scores to the last digits that floating point keeps."""
    if isinstance(answer, MemoryItem):
        return dump_item(answer)
    if isinstance(answer, list):
        return [shown(part) for part in answer]
    if hasattr(answer, "score"):
        return shown(answer.item), f"{answer.score:.6g}", sorted(answer.terms)
    return answer


async def answer_of(store: Store, step: Step) -> Any:
    try:
        target = store.scoped(**step.scope) if step.scope else store
        call: Callable[..., Any] = getattr(target, step.call)
        if step.call == "scan":
            return [shown(item) async for item in call(**step.options)]
        return shown(await call(*step.arguments, **step.options))
    except ConflictError as error:
        # Which of several conflicts in a batch is met first is nobody's promise.
        return "ConflictError" if step.call == "update_many" else type(error).__name__
    except MemoryError as error:
        return type(error).__name__


async def empty(store: Store) -> None:
    await store.clear()
    await store.purge(deleted_only=True)


class Engines:
    """One open store of every engine, in one event loop; histories follow each other on the same stores."""

    def __init__(self, stores: dict[str, Store], runner: asyncio.Runner) -> None:
        self._stores = stores
        self._runner = runner

    def disagreement(self, history: list[Step]) -> str | None:
        """Run a history everywhere and return where an engine first answers otherwise than the reference."""
        return self._runner.run(self._disagreement(history))

    async def _disagreement(self, history: list[Step]) -> str | None:
        await asyncio.gather(*map(empty, self._stores.values()))
        for number, step in enumerate(history):
            answers = await asyncio.gather(*(answer_of(store, step) for store in self._stores.values()))
            for name, answer in zip(self._stores, answers, strict=True):
                if answer != answers[0]:
                    return f"step {number}, {step}:\n{name} answered {answer}\nmemory answered {answers[0]}"
        everything = Step("scan", {}, options={"include_deleted": True})
        left = await asyncio.gather(*(answer_of(store, everything) for store in self._stores.values()))
        for name, answer in zip(self._stores, left, strict=True):
            if answer != left[0]:
                return f"in the end {name} holds {answer}\nmemory holds {left[0]}"
        return None


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    folder: Path = tmp_path_factory.mktemp("agree")
    with ExitStack() as servers, asyncio.Runner() as runner:
        url = servers.enter_context(servers.enter_context(postgres_server()).database())
        redis = servers.enter_context(redis_server())

        async def opened(stack: AsyncExitStack) -> dict[str, Store]:
            return {
                "memory": InMemoryStore(),
                "sqlite": await stack.enter_async_context(SQLiteMemoryStore(folder / "agree.db", durability="normal")),
                "postgres": await stack.enter_async_context(PostgresMemoryStore(url)),
                "partitioned": await stack.enter_async_context(PostgresMemoryStore(url, schema="p", partitions=3)),
                "redis": await stack.enter_async_context(RedisMemoryStore(redis.url, namespace=uuid.uuid4().hex)),
                "vector": VectorMemoryStore(HashingEmbeddings(dimension=32)),
            }

        stack = AsyncExitStack()
        yield Engines(runner.run(opened(stack)), runner)
        runner.run(stack.aclose())


@settings(
    max_examples=3 * settings.default.max_examples // 2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    print_blob=True,
)
@given(history=st.lists(steps(), min_size=10, max_size=30))
def test_every_engine_answers_alike(engines: Engines, history: list[Step]) -> None:
    disagreement = engines.disagreement(history)

    assert disagreement is None, disagreement
