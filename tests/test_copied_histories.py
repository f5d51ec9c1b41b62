"""``memoranda copy`` of whatever a store went through: it ends well, and the copy shows what the source shows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, SystemMemory, ToolMemory
from memoranda.store import dump_item
from memoranda.sync import SyncStore
from memoranda.sync import open as open_store
from memoranda_cli.app import app
from servers import postgres_server, redis_server

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("copied histories")

USERS = ("ada", "bob")
SESSIONS = ("s", "t", None)
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")
PAIRS = (("sqlite", "postgres"), ("postgres", "redis"), ("redis", "sqlite"), ("sqlite", "sqlite"))

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 9), st.sampled_from(DAYS), st.sampled_from(SESSIONS)),
        st.tuples(st.sampled_from(["call", "system", "expiring", "odd"]), st.sampled_from(DAYS)),
        st.tuples(st.sampled_from(["update", "delete", "purge", "restore"]), st.integers(0, 9)),
        st.tuples(st.just("compact"), st.sampled_from(SESSIONS)),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        yield {
            "postgres": stack.enter_context(postgres_server()),
            "redis": stack.enter_context(redis_server(private=True)),
        }


@contextmanager
def new_store(engine: str, servers: dict[str, Any], folder: Path) -> Iterator[str]:
    """Give the URL of an empty store."""
    if engine == "sqlite":
        yield f"sqlite:///{folder}/{uuid.uuid4().hex}.db"
    elif engine == "redis":
        yield f"{servers['redis'].url}?namespace={uuid.uuid4().hex}"
    else:
        with servers["postgres"].database() as url:
            yield url


def live_through(store: SyncStore, steps: list[tuple[Any, ...]]) -> None:
    """Do to a store what the steps say."""
    for number, (step, *rest) in enumerate(steps):
        if step == "add":
            at, day, session = rest
            owner = MemoryMetadata(user_id=USERS[at % 2], session_id=session)
            store.add(HumanMemory(id=f"i{at}", content=f"turn {number}", created_at=day, metadata=owner))
        elif step == "call":
            said = {"created_at": rest[0], "metadata": MemoryMetadata(user_id="ada", session_id="s")}
            call = AIMemory(content="", tool_calls=[{"id": f"c{number}", "name": "f", "arguments": {}}], **said)
            store.add_many([ToolMemory(content="4", tool_call_id=f"c{number}", **said), call][:: (-1) ** number])
        elif step == "system":
            store.add(
                SystemMemory(content=f"rule {number}", created_at=rest[0], metadata=MemoryMetadata(user_id="bob"))
            )
        elif step == "expiring":
            store.add(HumanMemory(content=f"brief {number}", created_at=rest[0]), ttl=3_600)
        elif step == "odd":
            store.add(MemoryItem(content="", memory_type="odd", colour={"red": number}, created_at=rest[0]))
        elif step == "compact":
            compact(store, rest[0], number)
        else:
            change(store, step, f"i{rest[0]}")


def change(store: SyncStore, step: str, item_id: str) -> None:
    held = store.get(item_id)
    if step == "restore":
        store.restore(item_id)
    elif step == "delete":
        store.delete(item_id)
    elif step == "purge":
        store.purge(item_id)
    elif held is not None:
        store.update(held.model_copy(update={"content": held.content + ", changed"}))


def compact(store: SyncStore, session: str | None, number: int) -> None:
    """Archive what a session of ada's shows, and add what stands for it, dated before all of it."""
    owner = MemoryMetadata(user_id="ada", session_id=session)
    shown = [item for item in store.search(metadata=owner) if item.memory_type == "human"]
    if shown:
        summary = SummaryMemory(
            id=f"summary {number}",
            content="What was said.",
            sources=[item.id for item in shown],
            created_at="2023-12-31",
            metadata=owner,
        )
        store.apply(adds=[summary, *(item.model_copy(update={"archived_by": summary.id}) for item in shown)])


def seen(url: str) -> dict[str, Any]:
    """Return all that a store shows, but for the versions that it gave: in both orders, by session, and as windows."""
    with open_store(url) as store:
        owners = [None, *(MemoryMetadata(user_id=user, session_id=s) for user in USERS for s in SESSIONS)]
        return {
            "added": plain(store.scan(include_deleted=True, order="added")),
            "created": plain(store.scan(include_deleted=True)),
            "shown": plain(store.scan(order="added")),
            "windows": [plain(store.window(rounds=rounds, metadata=owner)) for owner in owners for rounds in (1, 9)],
            "searches": [plain(store.search(metadata=owner, limit=3)) for owner in owners],
            "heads": [store.head(metadata=owner) for owner in owners],
        }


def plain(items: Any) -> list[dict[str, Any]]:
    return [{**dump_item(item), "version": 0} for item in items]


def copied(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["copy", *arguments, "--deleted", "--json"])
    assert result.exit_code == 0, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


@pytest.mark.parametrize(("source", "target"), PAIRS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_copy_shows_what_its_source_shows_whatever_was_done_to_that(
    servers: dict[str, Any], tmp_path: Path, source: str, target: str, steps: list[tuple[Any, ...]]
) -> None:
    with new_store(source, servers, tmp_path) as origin, new_store(target, servers, tmp_path) as destination:
        with open_store(origin) as store:
            live_through(store, steps)

        first = copied(origin, destination)
        again = copied(origin, destination)

        assert seen(destination) == seen(origin)
        assert first["verified"]
        assert (again["added"], again["overwritten"], again["unchanged"]) == (0, 0, first["count"])
        assert again["digest"] == first["digest"]


@pytest.mark.parametrize("target", ["memory://", "vector://?embeddings=hashing"])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_copy_into_memory_ends_well_and_holds_the_same(
    tmp_path: Path, target: str, steps: list[tuple[Any, ...]]
) -> None:
    origin = f"sqlite:///{tmp_path}/{uuid.uuid4().hex}.db"
    with open_store(origin) as store:
        live_through(store, steps)

    assert copied(origin, target)["digest"] == copied(origin, f"{origin}.copy")["digest"]


def test_a_copy_has_a_message_that_was_compacted_and_one_that_was_said_late_in_their_places(tmp_path: Path) -> None:
    origin, destination = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    steps = [("add", 2, DAYS[1], "s"), ("add", 4, DAYS[2], "s"), ("add", 6, DAYS[0], "s"), ("compact", "s")]
    with open_store(origin) as store:
        live_through(store, [*steps, ("add", 8, DAYS[0], "s")])

    copied(origin, destination)

    with open_store(destination) as store:
        assert [item.id for item in store.scan(order="added")] == ["i2", "i4", "i6", "summary 3", "i8"]
        assert [item.id for item in store.window(rounds=2, metadata=MemoryMetadata(user_id="ada"))] == [
            "summary 3",
            "i8",
        ]
