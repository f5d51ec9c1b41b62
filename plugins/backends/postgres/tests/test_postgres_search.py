"""Searching: the same answers as the in-memory store, and through an index."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.store import InMemoryStore
from memoranda.store.backend import Expiry, Filter, Listing, Page
from memoranda_postgres import PostgresMemoryStore, reading, scope_cache, text_search
from memoranda_postgres.dialect import PostgresDialect, PostgresStatements

USERS = ["alice", "bob", "", "Ünï %_\\"]
WORDS = [
    "Straße",
    "STRASSE",
    "ß",
    "İstanbul",
    "%",
    "_",
    "\\",
    "100%",
    "a_b",
    "'",
    "ЖУК",
    "жук",
    "東京",
    "naïve",
    "e\u0301",
]
NUMBERS = [0, 1, True, 1.0, 1.5, 10**23, 1e23, 2**53 + 1, float(2**53), -0.0, 1e-7, 5e-324, 1.7e308]

names = st.sampled_from([None, *USERS])
extras = st.dictionaries(
    st.sampled_from(["k", "n", "Ключ"]),
    st.one_of(
        st.none(), st.sampled_from(NUMBERS), st.sampled_from(WORDS), st.lists(st.integers(0, 2), max_size=2),
        st.just({"deep": [1, {"x": None}]}), st.just({}),
    ),
    max_size=2,
)  # fmt: skip
scopes = st.builds(MemoryMetadata, user_id=names, session_id=names, task_id=names, agent_id=names, extra=extras)
texts = st.lists(st.sampled_from([*WORDS, "tea", "TEA", " "]), max_size=4).map(" ".join)
times = st.sampled_from([f"2024-01-01T00:00:0{second}" for second in range(4)])
items = st.builds(
    lambda kind, **fields: kind(**fields),
    kind=st.sampled_from([HumanMemory, AIMemory]),
    id=st.sampled_from([f"id-{number}" for number in range(12)]),
    content=texts,
    metadata=scopes,
    created_at=times,
    status=st.sampled_from(list(MemoryStatus)),
    archived_by=st.sampled_from([None, None, "summary"]),
)
filters = st.fixed_dictionaries(
    {
        "query": st.one_of(st.just(""), st.sampled_from([*WORDS, "strasse", "tea s", "i\u0307stanbul", "京"])),
        "metadata": st.one_of(st.none(), scopes),
        "memory_type": st.sampled_from([None, "human", "ai"]),
        "status": st.sampled_from([None, *MemoryStatus]),
        "limit": st.integers(0, 15),
    }
)


@pytest_asyncio.fixture
async def store(shared_url: str, schema: str) -> AsyncIterator[PostgresMemoryStore]:
    async with PostgresMemoryStore(shared_url, schema=schema) as store:
        yield store


async def outcome(call: Any) -> Any:
    """Return what a call returns, or the kind of error that it raises."""
    try:
        return await call
    except Exception as error:  # noqa: BLE001  # the kinds are compared
        return type(error).__name__


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
async def test_random_histories_give_the_answers_of_the_in_memory_store(
    store: PostgresMemoryStore, data: st.DataObject
) -> None:
    await store.purge(deleted_only=True)
    for item in [item async for item in store.scan(include_deleted=True)]:
        await store.purge(item.id)
    reference = InMemoryStore()
    for item in data.draw(st.lists(items, max_size=12), label="added"):
        assert await outcome(store.add(item)) == await outcome(reference.add(item))
    batch = data.draw(st.lists(items, max_size=6), label="added together")
    assert await outcome(store.add_many(batch)) == await outcome(reference.add_many(batch))
    for item_id in data.draw(st.lists(st.sampled_from([f"id-{n}" for n in range(12)]), max_size=3), label="deleted"):
        assert await store.delete(item_id) == await reference.delete(item_id)
    for wanted in data.draw(st.lists(filters, min_size=1, max_size=6), label="searches"):
        assert await store.search(**wanted) == await reference.search(**wanted)
    scope = data.draw(st.one_of(st.none(), scopes), label="scope")
    assert await store.count(metadata=scope) == await reference.count(metadata=scope)
    found = [item async for item in store.scan(metadata=scope, include_deleted=True)]
    assert found == [item async for item in reference.scan(metadata=scope, include_deleted=True)]
    ranked = [await each.search_ranked(query="tea strasse", metadata=scope, mode="text") for each in (store, reference)]
    assert [entry.item for entry in ranked[0]] == [entry.item for entry in ranked[1]]
    if scope is not None and (scope.extra or scope.user_id or scope.session_id or scope.task_id or scope.agent_id):
        assert await store.clear(metadata=scope) == await reference.clear(metadata=scope)
        assert await store.restore(metadata=scope) == await reference.restore(metadata=scope)


async def test_numbers_in_extra_come_back_as_they_were(store: PostgresMemoryStore) -> None:
    extra = {"numbers": NUMBERS, "keys in": {"z": 1, "a": 2}}
    await store.add(HumanMemory(id="n", content="x", metadata=MemoryMetadata(extra=extra)))
    found = await store.get("n")
    assert found is not None
    assert found.metadata.extra == extra
    assert list(map(type, found.metadata.extra["numbers"])) == list(map(type, NUMBERS))


def made(number: int) -> MemoryItem:
    randomly = random.Random(number)
    return HumanMemory(
        id=f"{number:08d}",
        content=" ".join(randomly.choices(COMMON, k=12)) + (" xylophone" if number % 5_000 == 7 else ""),
        metadata=MemoryMetadata(
            user_id=f"u{number % 20}",
            session_id=f"s{number // 20 % 20}",
            task_id=f"t{number // 7 % 20}",
            agent_id=f"a{number // 11 % 20}",
            namespace=("n", str(number % 200)),
        ),
        created_at=f"2024-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}",
    )


COMMON = ["".join(random.Random(seed).choices("abcdefghij", k=5)) for seed in range(400)]
SIZE = 20_000


@pytest.fixture(
    scope="module",
    params=["wheel", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("system", "extensionless"))],
)
def full_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with many items on each kind of server; to fill it takes seconds."""
    with request.getfixturevalue(request.param).database() as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def full(full_url: str) -> AsyncIterator[str]:
    async with PostgresMemoryStore(full_url, timeout=300) as store:
        await store.add_many([made(number) for number in range(SIZE)])
    connection = await asyncpg.connect(full_url)
    await connection.execute("VACUUM ANALYZE memory_items")
    await connection.close()
    yield full_url


async def disconnected(connection: asyncpg.Connection) -> None:
    """Wait until no store is connected: by then the server's statistics tell what its connections did."""
    ours = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'memoranda'"
    while await connection.fetchval(ours):
        await asyncio.sleep(0.02)


def plan_nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from plan_nodes(inner)


async def explained(url: str, text: str, values: Any, *settings: str) -> list[dict[str, Any]]:
    connection = await asyncpg.connect(url)
    try:
        # A generic plan is what a statement that is used often ends up with.
        for setting in ("plan_cache_mode = force_generic_plan", *settings):
            await connection.execute(f"SET {setting}")
        (row,) = await connection.fetch(f"EXPLAIN (FORMAT JSON) {text}", *values)
    finally:
        await connection.close()
    return list(plan_nodes(json.loads(row[0])[0]["Plan"]))


STATEMENTS = PostgresStatements(PostgresDialect("public"))
LIVE = {
    "a user": MemoryMetadata(user_id="u3"),
    "a session": MemoryMetadata(session_id="s3"),
    "a user's session": MemoryMetadata(user_id="u3", session_id="s3"),
    "a task": MemoryMetadata(task_id="t3"),
    "an agent": MemoryMetadata(agent_id="a3"),
    "everything": None,
}


NOW = "2024-06-01T00:00:00.000000+00:00"


def asked(metadata: MemoryMetadata | None, **named: Any) -> Filter:
    """Return the filter of a read as a store makes it, which passes over what has expired."""
    return Filter.of(metadata=metadata, now=NOW, **named)


@pytest.mark.asyncio(loop_scope="module")
class TestPlans:
    """EXPLAIN shows an index for what is asked often, and no sort where a limit is given."""

    @pytest.mark.rare
    @pytest.mark.parametrize("what", LIVE)
    async def test_the_newest_items_of_a_scope_are_read_in_the_order_of_an_index(self, full: str, what: str) -> None:
        nodes = await explained(full, *STATEMENTS.search(asked(LIVE[what]), Page(20)))
        kinds = {node["Node Type"] for node in nodes}
        assert "Index Scan" in kinds or "Index Only Scan" in kinds
        assert "Seq Scan" not in kinds
        assert "Sort" not in kinds

    async def test_the_newest_of_a_users_session_are_never_sorted(self, url: str) -> None:
        async with PostgresMemoryStore(url) as store:
            own = [MemoryMetadata(user_id=f"u{number % 20}", session_id=f"s{number % 200}") for number in range(4_000)]
            await store.add_many([HumanMemory(content="x", metadata=scope) for scope in own])
        nodes = await explained(url, *STATEMENTS.search(asked(own[0]), Page(20)))
        assert "Sort" not in {node["Node Type"] for node in nodes}

    @pytest.mark.parametrize("what", ["a session", "a user's session", "everything"])
    async def test_a_conversation_is_read_as_it_was_said_in_the_order_of_an_index(self, full: str, what: str) -> None:
        nodes = await explained(full, *STATEMENTS.search(asked(LIVE[what]), Page(20, order="added")))
        kinds = {node["Node Type"] for node in nodes}
        assert "Seq Scan" not in kinds
        assert "Sort" not in kinds

    @pytest.mark.parametrize("what", ["a session", "a user's session"])
    async def test_what_stays_in_a_window_is_read_through_its_index_however_long_the_session_is(
        self, full: str, what: str
    ) -> None:
        staying = asked(LIVE[what], memory_type=("system", "summary"))
        for statement in (
            STATEMENTS.window(asked(LIVE[what]), Page(20, order="added")),
            STATEMENTS.search(staying, Page(order="added")),
        ):
            nodes = await explained(full, *statement)
            assert "memory_items_staying" in {node.get("Index Name") for node in nodes}

    @pytest.mark.rare
    @pytest.mark.parametrize("what", LIVE)
    async def test_a_span_of_time_is_read_from_an_index_alone_as_far_as_it_goes(self, full: str, what: str) -> None:
        wanted = asked(LIVE[what], since="2024-01-01T01:00:00", until="2024-01-01T01:10:00")
        (node,) = [node for node in await explained(full, *STATEMENTS.search(wanted, Page(20))) if "Index Cond" in node]
        assert "moment >=" in node["Index Cond"]
        assert "moment <" in node["Index Cond"]

    @pytest.mark.rare
    async def test_a_namespace_is_read_through_its_index(self, full: str) -> None:
        wanted = asked(MemoryMetadata(namespace=("n", "7")))
        nodes = await explained(full, *STATEMENTS.search(wanted, Page(20)))
        assert "memory_items_by_namespace" in {node.get("Index Name") for node in nodes}

    @pytest.mark.parametrize(
        ("by", "within"), [("user_id", None), ("session_id", None), ("session_id", "a user"), ("namespace", None)]
    )
    async def test_owners_are_listed_from_an_index_alone(self, full: str, by: Any, within: str | None) -> None:
        wanted = asked(None if within is None else LIVE[within], archived=None)
        # A table as small as this one is read as quickly; what is looked at is whether the index has all it takes.
        statement = STATEMENTS.owners_page(Listing(by), wanted, None, 500)
        nodes = await explained(full, *statement, "enable_seqscan = off")
        assert "Index Only Scan" in {node["Node Type"] for node in nodes}

    async def test_what_has_expired_is_found_through_an_index(self, full: str) -> None:
        wanted = Filter(archived=None, further=(Expiry(NOW, expired=True),))
        nodes = await explained(full, *STATEMENTS.purge(wanted))
        assert "memory_items_expiry" in {node.get("Index Name") for node in nodes}

    async def test_an_item_is_read_by_its_key(self, full: str) -> None:
        (node,) = await explained(full, *STATEMENTS.get("00000001"))
        assert node["Index Name"] == "memory_items_pkey"

    @pytest.mark.parametrize("what", [what for what in LIVE if what != "everything"])
    async def test_removing_and_counting_a_scope_goes_through_an_index(self, full: str, what: str) -> None:
        wanted = Filter(metadata=LIVE[what], archived=None)
        for statement in (STATEMENTS.hide(wanted), STATEMENTS.purge(wanted), STATEMENTS.count(wanted)):
            assert "Seq Scan" not in {node["Node Type"] for node in await explained(full, *statement)}

    @pytest.mark.parametrize("what", ["a user", "everything"])
    async def test_an_export_is_read_in_the_order_of_an_index(self, full: str, what: str) -> None:
        place = ("2024-01-01T01:00:00.000000+00:00", 3600)
        statement = STATEMENTS.page(Filter(metadata=LIVE[what], archived=None), after=place, size=50)
        kinds = {node["Node Type"] for node in await explained(full, *statement)}
        assert "Seq Scan" not in kinds
        assert "Sort" not in kinds

    async def test_a_rare_substring_is_found_through_trigrams_where_they_are(self, full: str) -> None:
        async with PostgresMemoryStore(full) as store:
            findings = {finding.name: finding for finding in await store.doctor()}
            found = await store.search(query="XYLOPHONE", limit=100)
        assert [item.id for item in found] == [f"{number:08d}" for number in range(SIZE, 0, -1) if number % 5_000 == 7]
        nodes = await explained(full, *STATEMENTS.search(Filter(query="xylophone"), Page(100)))
        through_index = any(node.get("Index Name") == "memory_items_substring" for node in nodes)
        assert through_index is ("trigram index" in findings["pg_trgm"].detail)

    @pytest.mark.parametrize("order", ["created", "added"])
    @pytest.mark.parametrize("what", ["a session", "everything"])
    async def test_the_newest_are_searched_for_a_substring_in_the_order_of_an_index(
        self, full: str, what: str, order: Any
    ) -> None:
        wanted = replace(asked(LIVE[what]), query="xylophone")
        nodes = await explained(full, *STATEMENTS.search_newest(wanted, Page(10, order=order), 250))
        kinds = {node["Node Type"] for node in nodes}
        assert any("Index" in kind for kind in kinds)
        assert not kinds & {"Seq Scan", "Sort"}

    async def test_a_text_search_in_a_large_scope_goes_through_the_full_text_index(
        self, full: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in (scope_cache, text_search):
            monkeypatch.setattr(module, "WHOLE_SCOPE", 1_000)
        async with PostgresMemoryStore(full) as store:
            await store.reindex()

        async def scans() -> dict[str, int]:
            connection = await asyncpg.connect(full)
            try:
                await disconnected(connection)
                indexes = await connection.fetch("SELECT indexrelname, idx_scan FROM pg_stat_user_indexes")
                table = await connection.fetchval(
                    "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'memory_items'"
                )
            finally:
                await connection.close()
            return {**{row["indexrelname"]: row["idx_scan"] for row in indexes}, "whole table": table}

        before = await scans()
        async with PostgresMemoryStore(full) as store:
            ranked = await store.search_ranked(query="where is the xylophone", mode="text", limit=4)
        after = await scans()
        assert {entry.item.id for entry in ranked} == {f"{n:08d}" for n in range(SIZE) if n % 5_000 == 7}
        assert after["memory_terms_keys"] > before["memory_terms_keys"]


async def test_a_substring_is_found_in_the_newest_or_in_all_items_alike(
    store: PostgresMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "NEWEST", (20, 40, 80))
    drawn, memory = random.Random(3), InMemoryStore()
    for number in range(150):
        item = HumanMemory(
            content=" ".join(drawn.choices(["tea", "Straße", "100%", "jam"], (1, 5, 20, 60), k=2)),
            metadata=MemoryMetadata(user_id=drawn.choice(["alice", "bob"])),
            created_at=f"2024-01-01T00:00:{drawn.randrange(60):02}",
            id=f"{number:03}",
        )
        await store.add(item)
        await memory.add(item)
    for query in ("TEA", "strasse", "100%", "jam", "none"):
        for user in (None, "alice"):
            scope = None if user is None else MemoryMetadata(user_id=user)
            for order in ("created", "added", "updated"):
                for limit, offset in ((1, 0), (2, 1), (4, 4), (8, 0), (200, 0)):
                    asked_for: Any = {"query": query, "metadata": scope, "limit": limit, "offset": offset}
                    expected = await memory.search(**asked_for, order=order)
                    assert await store.search(**asked_for, order=order) == expected


@pytest.mark.parametrize("change", [STATEMENTS.showing, partial(STATEMENTS.purging, deleted_only=True)])
async def test_what_was_hidden_lately_is_reached_without_comparing_all_with_all(url: str, change: Any) -> None:
    """The planner counts no hidden rows before the table is analysed anew; a plan for one row must do for many."""
    scope = MemoryMetadata(session_id="s")
    async with PostgresMemoryStore(url) as store:
        await store.add_many([HumanMemory(content=str(number), metadata=scope) for number in range(600)])
        connection = await asyncpg.connect(url)
        await connection.execute("ANALYZE memory_items")
        await store.clear(metadata=scope)
    hidden = change(Filter(metadata=scope, archived=None))
    text = STATEMENTS.locking(hidden, None, hidden=True)
    (row,) = await connection.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", *hidden.values)
    await connection.close()

    nodes = list(plan_nodes(json.loads(row[0])[0]["Plan"]))
    assert [node["Actual Loops"] for node in nodes if node["Node Type"] == "LockRows"] == [1]


async def fill(stores: list[Any], turns: list[MemoryItem]) -> None:
    for store in stores:
        await store.add_many(turns)


def conversation(count: int, user: str | None = "u", seed: int = 0) -> list[MemoryItem]:
    randomly = random.Random(seed)
    return [
        HumanMemory(
            id=f"{seed}-{number}",
            content=" ".join(randomly.choices(COMMON, k=8)) + (" telescope saturn" if number in (700, 1500) else ""),
            metadata=MemoryMetadata(user_id=user, session_id=f"s{number // 100}"),
            created_at=f"2024-{1 + number // 1000:02d}-01T00:{number // 60 % 60:02d}:{number % 60:02d}",
            name=("Ana", "Ben")[number % 2],
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("user", ["u", None])
async def test_a_large_scope_is_ranked_like_a_small_one(store: PostgresMemoryStore, user: str | None) -> None:
    """Candidates from the index, with the turns around them, give the ranking of the whole conversation."""
    reference = InMemoryStore()
    await fill([store, reference], conversation(2_000, user))
    await fill([store, reference], conversation(50, "somebody else", seed=1))
    scope = MemoryMetadata(user_id=user)
    for query in ("telescope", "the saturn telescope", f"{COMMON[3]} {COMMON[8]}", COMMON[20].upper()):
        ours = await store.search_ranked(query=query, metadata=scope, mode="text", limit=10)
        theirs = await reference.search_ranked(query=query, metadata=scope, mode="text", limit=10)
        same = {entry.item.id for entry in ours} & {entry.item.id for entry in theirs}
        assert ours[0].item.id == theirs[0].item.id
        assert len(same) >= 8


NAMES = ('Zoë "Zork" Quill', "line\nbreak", "tab\there", "back\\slash", "100%_sure", "José", "Grüße", "running", "name")


async def test_a_speaker_of_a_large_scope_is_found_by_any_word_of_the_name(store: PostgresMemoryStore) -> None:
    reference = InMemoryStore()
    called = {"tool_calls": [{"id": "1", "name": "hidden", "arguments": {"name": "hidden"}}]}
    turns = [
        AIMemory(
            id=f"{number:04}",
            content=COMMON[number % 400],
            metadata=MemoryMetadata(user_id="u", session_id=f"s{number}"),
            name=NAMES[number % 100] if number % 100 < len(NAMES) else None,
            **(called if number % 3 else {}),
        )
        for number in range(1_200)
    ]
    await fill([store, reference], turns)
    for query in ("zork", "zoe", "line", "break", "there", "slash", "100", "jose", "grüsse", "run", "hidden", "name"):
        ours = await store.search_ranked(query=query, metadata=MemoryMetadata(user_id="u"), mode="text", limit=5)
        theirs = await reference.search_ranked(query=query, metadata=MemoryMetadata(user_id="u"), mode="text", limit=5)
        assert [entry.item.id for entry in ours] == [entry.item.id for entry in theirs], query


async def test_a_damaged_row_does_not_fail_the_search_for_a_speaker(url: str) -> None:
    connection = await asyncpg.connect(url)
    async with PostgresMemoryStore(url) as store:
        await store.add_many(conversation(1_200))
        await connection.execute("UPDATE memory_items SET extra_json = '{\"name\": ' WHERE id = '0-7'")
        found = await store.search_ranked(query="telescope unheard", mode="text", metadata=MemoryMetadata(user_id="u"))
    await connection.close()
    assert found[0].item.id in ("0-700", "0-1500")


async def test_a_common_word_does_not_hide_a_rare_one_in_a_huge_scope(store: PostgresMemoryStore) -> None:
    turns = [
        HumanMemory(
            id=str(number),
            content="the usual weather report" + (" with a comet" if number == 1_234 else ""),
            metadata=MemoryMetadata(user_id="u", session_id=str(number)),
        )
        for number in range(4_500)
    ]
    await store.add_many(turns)
    (best,) = await store.search(
        query="comet weather report", metadata=MemoryMetadata(user_id="u"), mode="text", limit=1
    )
    assert best.id == "1234"


@pytest.mark.parametrize(
    "scope", [MemoryMetadata(user_id="u"), MemoryMetadata(session_id="s")], ids=["user", "session"]
)
async def test_items_that_do_not_match_take_no_place_in_a_large_scope(
    store: PostgresMemoryStore, scope: MemoryMetadata
) -> None:
    metadata = MemoryMetadata(user_id="u", session_id="s")
    letter = MemoryItem(content="saffron", memory_type="letter", metadata=metadata, created_at="2023-01-01")
    newer = [HumanMemory(content=f"saffron saffron {number}", metadata=metadata) for number in range(2_500)]
    await store.add_many([letter, *newer])
    found = await store.search(query="saffron", metadata=scope, mode="text", memory_type="letter", limit=1)
    assert [item.id for item in found] == [letter.id]
    assert len(await store.search(query="saffron", metadata=scope, mode="text", limit=2_400)) == 2_400


@pytest.mark.rare
@pytest.mark.parametrize(
    "scope",
    [
        MemoryMetadata(user_id="u", session_id="mine"),
        MemoryMetadata(session_id="mine"),
        MemoryMetadata(agent_id="mine"),
        MemoryMetadata(user_id="u", extra={"team": "mine"}),
    ],
    ids=["user and session", "session", "agent", "user and extra"],
)
async def test_what_others_store_in_a_large_file_changes_no_ranking(
    store: PostgresMemoryStore, scope: MemoryMetadata
) -> None:
    """Neither while others' items with the same words are there nor after they were cleared."""
    mine = MemoryMetadata(user_id="u", session_id="mine", agent_id="mine", extra={"team": "mine"})
    theirs = MemoryMetadata(user_id="u", session_id="theirs", agent_id="theirs", extra={"team": "theirs"})
    await store.add_many([item.model_copy(update={"metadata": mine}) for item in conversation(1_200)])

    async def rankings() -> list[list[tuple[str, float]]]:
        found = []
        for query in ("telescope", f"{COMMON[3]} telescope", COMMON[8]):
            ranked = await store.search_ranked(query=query, metadata=scope, mode="text", limit=20)
            found.append([(entry.item.id, entry.score) for entry in ranked])
        return found

    before = await rankings()
    words = f"telescope {COMMON[3]} {COMMON[8]}"
    await store.add_many([HumanMemory(content=f"{words} {number}", metadata=theirs) for number in range(2_500)])
    assert await rankings() == before
    await store.clear(metadata=theirs)
    assert await rankings() == before


async def test_a_day_that_the_query_names_is_found_in_a_large_scope(store: PostgresMemoryStore) -> None:
    await store.add_many(conversation(1_500))
    await store.add(
        HumanMemory(
            id="that day", content="pancakes", metadata=MemoryMetadata(user_id="u"), created_at="2023-05-08T10:00:00"
        )
    )
    found = await store.search(
        query="what was on 8 May 2023", metadata=MemoryMetadata(user_id="u"), mode="text", limit=3
    )
    assert "that day" in [item.id for item in found]


# All but one are past a bound of the server's full-text search: a megabyte of words in a row, two kilobytes in a word,
# and some sixteen thousand places of a word.
HUGE = {
    "many": " ".join(f"word{number}" for number in range(200_000)),
    "some": " ".join(f"noun{number}" for number in range(30_000)),
    "long": f"opening {'я' * 1_000_000} closing",
    "again": "the tide comes in and " * 200_000 + "recedes",
}
HUGE_QUERIES = {
    "the first of many words": "word0",
    "one among many words": "word123456",
    "the last of many words": "where is word199999",
    "the last of some words": "noun29999",
    "several of many words": "word7 word70000 word199998 noun1",
    "a word after a long one": "closing",
    "a long word": "Я" * 1_000_000,
    "a word after many repetitions": "recedes",
    "a word that is repeated": "tide",
    "no word of any": "word200000",
}


def huge_items() -> list[MemoryItem]:
    scope = MemoryMetadata(user_id="u", session_id="s")
    return [HumanMemory(id=name, content=content, metadata=scope) for name, content in HUGE.items()]


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=[0, pytest.param(4, marks=pytest.mark.rare("partitions"))]
)
async def huge(wheel: Any, request: pytest.FixtureRequest) -> AsyncIterator[list[Any]]:
    """A store of ours with huge items, and the in-memory store with the same."""
    with wheel.database() as url:
        async with PostgresMemoryStore(url, partitions=request.param, timeout=300) as ours, InMemoryStore() as theirs:
            await fill([ours, theirs], huge_items())
            yield [ours, theirs]


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("what", HUGE_QUERIES)
async def test_every_word_of_a_huge_item_ranks_as_in_memory(huge: list[Any], what: str) -> None:
    scope = MemoryMetadata(user_id="u")
    ours, theirs = [
        await store.search_ranked(query=HUGE_QUERIES[what], metadata=scope, mode="text", limit=10) for store in huge
    ]
    assert [(entry.item.id, entry.terms) for entry in ours] == [(entry.item.id, entry.terms) for entry in theirs]
    assert [entry.score for entry in ours] == pytest.approx([entry.score for entry in theirs])


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=[0, pytest.param(4, marks=pytest.mark.rare("partitions"))]
)
async def huge_among_many(wheel: Any, request: pytest.FixtureRequest) -> AsyncIterator[PostgresMemoryStore]:
    """A store in which huge items lie in a scope too large to be read whole."""
    with wheel.database() as url:
        async with PostgresMemoryStore(url, partitions=request.param, timeout=300) as store:
            await store.add_many([*conversation(1_100), *huge_items()])
            yield store


@pytest.mark.rare
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("user", ["u", None])
@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("the first of many words", {"many"}),
        ("the last of many words", {"many"}),
        ("the last of some words", {"some"}),
        ("several of many words", {"many", "some"}),
        ("a word after a long one", {"long"}),
        ("a long word", {"long"}),
        ("a word after many repetitions", {"again"}),
        ("no word of any", set()),
    ],
)
async def test_every_word_of_a_huge_item_is_found_in_a_large_scope(
    huge_among_many: PostgresMemoryStore, what: str, names: set[str], user: str | None
) -> None:
    scope = MemoryMetadata(user_id=user)
    ranked = await huge_among_many.search_ranked(query=HUGE_QUERIES[what], metadata=scope, mode="text", limit=10)
    assert {entry.item.id for entry in ranked if entry.terms} == names


@pytest.mark.rare
async def test_reindexing_leaves_huge_items_as_they_are(store: PostgresMemoryStore) -> None:
    await store.add_many([*conversation(1_001), huge_items()[0]])
    await store.reindex()
    scope = MemoryMetadata(user_id="u")
    (found,) = await store.search(query="word199999", metadata=scope, mode="text", limit=1)
    assert found.id == "many"


async def test_a_rare_text_is_looked_up_in_the_index_however_often_one_asks(url: str) -> None:
    words = random.Random(7).choices([f"word{number}" for number in range(500)], k=40_000)
    async with PostgresMemoryStore(url, max_size=1) as store:
        await store.add(HumanMemory(content="a zephyrquartz"))
        await store.add_many(HumanMemory(content=" ".join(words[at : at + 8])) for at in range(0, 40_000, 8))
        connection = await asyncpg.connect(url)
        await connection.execute("VACUUM ANALYZE memory_items")
        for _ in range(12):
            assert len(await store.search(query="phyrqua", limit=1)) == 1
    await disconnected(connection)
    scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'memory_items_substring'"
    assert await connection.fetchval(scans) == 12
    await connection.close()


async def test_every_word_finds_its_item_in_a_large_scope(
    store: PostgresMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The language of a short item is taken for another, and so is that of a word alone."""
    for module in (scope_cache, text_search):
        monkeypatch.setattr(module, "WHOLE_SCOPE", 2)
    texts = (
        "maddie dumped me over break",
        "tum kal office mein kya pehne the yaar",
        "Te quiero mucho darling, see you at the airport",
        "Die Äpfel und Bücher der Nachbarn wurden abgeholt",
        "والدي يعمل طبيبا في مستشفى المدينة",
    )
    ada = MemoryMetadata(user_id="ada")
    for waiting in (True, False):
        if not waiting:
            await store.reindex()
        for text in texts:
            if waiting:
                await store.add(HumanMemory(id=text, content=text, metadata=ada))
            for word in text.replace(",", "").split():
                found = await store.search_ranked(query=word, metadata=ada, mode="text")
                assert text in [each.item.id for each in found if each.terms], (word, waiting)
