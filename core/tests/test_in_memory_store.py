"""The in-memory store: the whole kit, and what is its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from memoranda import MemoryItem, MemoryMetadata
from memoranda.errors import IdConflictError, InputError, StoreClosedError
from memoranda.store import InMemoryStore
from memoranda.store.backend import EVERY_ITEM, Change, Contains, Write
from memoranda_testing import StoreConformance


class TestInMemoryStore(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[InMemoryStore]:
        async with InMemoryStore() as store:
            yield store


def item(content: str = "x", **fields: Any) -> MemoryItem:
    return MemoryItem(content=content, metadata=MemoryMetadata(**fields))


async def test_it_is_ready_as_soon_as_it_is_made() -> None:
    store = InMemoryStore()
    await store.add(item())
    assert await store.count() == 1


async def test_it_keeps_its_items_while_it_is_closed() -> None:
    store = InMemoryStore()
    await store.add(item())
    await store.close()
    with pytest.raises(StoreClosedError):
        await store.count()
    async with store:
        assert await store.count() == 1


async def test_its_length_is_the_number_of_visible_items() -> None:
    store = InMemoryStore()
    assert len(store) == 0
    assert bool(store) is True
    await store.add_many([item("a"), item("b", user_id="u")])
    await store.clear(metadata=MemoryMetadata(user_id="u"))
    assert len(store) == 1


async def test_its_url_opens_a_new_store_each_time() -> None:
    first, second = InMemoryStore.from_url("memory://"), InMemoryStore.from_url("memory://")
    await first.add(item())
    assert await second.count() == 0


@pytest.mark.parametrize("url", ["memory://name", "memory:///file", "memory://?size=3"])
def test_its_url_has_neither_name_nor_options(url: str) -> None:
    with pytest.raises(InputError):
        InMemoryStore.from_url(url)


async def test_a_replacement_leaves_the_indexes_of_the_old_scope() -> None:
    store = InMemoryStore()
    moved = item("old", user_id="u", session_id="s1")
    await store.add(moved)
    await store.add(MemoryItem(id=moved.id, content="new", metadata=MemoryMetadata(user_id="u", session_id="s2")))
    assert await store.search(metadata=MemoryMetadata(session_id="s1")) == []
    assert [found.content for found in await store.search(metadata=MemoryMetadata(session_id="s2"))] == ["new"]
    await store.purge(metadata=MemoryMetadata(user_id="u"))
    assert await store.count(include_deleted=True) == 0


async def test_finding_one_session_does_not_read_the_others() -> None:
    """Counted, not timed: only the items of the session are compared with the filter."""
    store = InMemoryStore()
    await store.add_many([item(str(n), user_id="u", session_id=f"s{n % 100}") for n in range(1000)])
    compared = 0
    matches = Contains.matches

    def counting(self: Contains, found: MemoryItem) -> bool:
        nonlocal compared
        compared += 1
        return matches(self, found)

    owner = MemoryMetadata(user_id="u", session_id="s7")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Contains, "matches", counting)
        assert len(await store.search(query="7", metadata=owner, limit=100)) == 10
    assert compared == 10


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "delete", "restore", "clear", "purge"]),
        st.integers(0, 4),
        st.sampled_from(["s1", "s2"]),
        st.integers(0, 2),
    ),
    max_size=25,
)


@given(STEPS)
async def test_its_indexes_agree_with_a_plain_list(steps: list[tuple[str, int, str, int]]) -> None:
    store = InMemoryStore()
    rows: dict[str, tuple[int, int, str, bool]] = {}  # id -> second, order of adding, session, hidden
    for added, (act, number, session, second) in enumerate(steps):
        key, scope = str(number), MemoryMetadata(session_id=session)
        if act == "add":
            made = MemoryItem(id=key, content=key, metadata=scope, created_at=f"2024-03-01T00:00:0{second}")
            await store.add(made)
            rows[key] = (second, rows[key][1] if key in rows else added, session, False)
        elif act == "delete":
            assert await store.delete(key) is (key in rows and not rows[key][3])
            rows |= {key: (*rows[key][:3], True)} if key in rows else {}
        elif act == "restore":
            assert await store.restore(key) == int(key in rows and rows[key][3])
            rows |= {key: (*rows[key][:3], False)} if key in rows else {}
        elif act == "clear":
            gone = [each for each, row in rows.items() if row[2] == session and not row[3]]
            assert await store.clear(metadata=scope) == len(gone)
            rows |= {each: (*rows[each][:3], True) for each in gone}
        else:
            gone = [each for each, row in rows.items() if row[2] == session]
            assert await store.purge(metadata=scope) == len(gone)
            rows = {each: row for each, row in rows.items() if each not in gone}
    for session in ("s1", "s2"):
        visible = [key for key, row in rows.items() if row[2] == session and not row[3]]
        wanted = sorted(visible, key=lambda key: rows[key][:2], reverse=True)
        found = await store.search(metadata=MemoryMetadata(session_id=session))
        assert [each.id for each in found] == wanted
    scanned = [each.id async for each in store.scan(include_deleted=True)]
    assert scanned == sorted(rows, key=lambda key: rows[key][:2])


async def test_a_batch_that_leaves_its_bounds_halfway_changes_nothing() -> None:
    store = InMemoryStore()
    batch = [
        MemoryItem(id="x", content=session, metadata=MemoryMetadata(user_id="u", session_id=session))
        for session in ("elsewhere", "here")
    ]
    with pytest.raises(IdConflictError):
        await store.add_many(batch, within=MemoryMetadata(session_id="here"))
    assert await store.count() == 0


async def test_a_change_of_several_ids_takes_them_in_any_order() -> None:
    """An id that is named twice, or is not there, is no item more."""
    store = InMemoryStore()
    names = [f"{number}" for number in range(5)]
    await store.add_many([MemoryItem(id=name, content=name) for name in names])

    purged = await store.engine.write(Write(change=Change("purge", EVERY_ITEM, ["3", "0", "9", "3", "1"])))

    assert purged.changed == 3
    assert [each.id async for each in store.scan()] == ["2", "4"]
