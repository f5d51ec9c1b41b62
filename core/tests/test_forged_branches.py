"""A branch record comes from fork() alone, and gives access to nothing that its creator could not read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memoranda import MemoryItem, MemoryMetadata
from memoranda.errors import InputError
from memoranda.items import BranchMemory
from memoranda.store import InMemoryStore, Observer, Store
from memoranda_testing.model import copied
from memoranda_testing.programs import item, items, mine, theirs

NAME = "branch-x"
THERE = mine(session_id=NAME)
HERE, DIARY = mine(session_id="s"), mine(session_id="diary")


def record(parent: str, at: str, name: str = NAME, **fields: Any) -> BranchMemory:
    """Return a record that did not come from fork()."""
    given = {"metadata": mine(session_id=name), "archived_by": name, **fields}
    return BranchMemory(id=name, parent=parent, at=at, **given)


async def shown(store: Store, session: str, **scope: Any) -> list[str]:
    return [each.content for each in await store.window(metadata=MemoryMetadata(session_id=session, **scope))]


async def stored() -> InMemoryStore:
    """Return a store with a session, a diary that it may not reach, and another user's session of the same name."""
    store = InMemoryStore()
    await store.add_many([*items("a", "b", metadata=HERE), item("secret", metadata=DIARY)])
    await store.add(item("theirs", metadata=theirs(session_id="s")))
    return store


WRITES: list[Callable[[Store, MemoryItem], Awaitable[object]]] = [
    lambda store, given: store.add(given),
    lambda store, given: store.add(given, keep_created=True),
    lambda store, given: store.add_many([item("c", metadata=THERE), given]),
    lambda store, given: store.add_many([*items(*map(str, range(2_000)), metadata=THERE), given]),
    lambda store, given: store.append([given], after=None),
    lambda store, given: store.apply(adds=[given]),
    lambda store, given: store.update(given),
    lambda store, given: store.update_many([given]),
]


@pytest.mark.parametrize("write", WRITES)
async def test_no_way_of_writing_takes_a_record(write: Callable[[Store, MemoryItem], Awaitable[object]]) -> None:
    store = await stored()
    real = record("s", "a", places={"s": 10**6})
    fields = {"parent": "s", "at": "a", "places": {"s": 10**6}}
    plain = MemoryItem(id=NAME, content="", memory_type="branch", archived_by=NAME, metadata=THERE, **fields)
    for forged in (
        real,
        plain,
        real.model_copy(update={"memory_type": "note"}),
        real.model_copy(update={"version": 1}),
    ):
        for target in (store, store.scoped(user_id="ada")):
            with pytest.raises(InputError):
                await write(target, forged)
    assert await store.count(metadata=THERE) == 0


async def test_an_observer_makes_no_record() -> None:
    class Forger(Observer):
        def before_add(self, item: MemoryItem) -> MemoryItem:
            return record("s", "a", item.id)

    handle = (await stored()).scoped(user_id="ada")
    handle.observe(Forger())
    with pytest.raises(InputError):
        await handle.add(item("b", metadata=THERE, id=NAME))
    assert await handle.get(NAME) is None


async def test_a_handle_of_a_branch_cannot_go_elsewhere() -> None:
    store = await stored()
    branch = await store.fork("s", at="a")
    forged = record("diary", "secret", branch)
    for bound in (store.scoped(user_id="ada", session_id=branch), store.scoped(session_id=branch)):
        for session, at, given in (("diary", "secret", None), (branch, "a", None), ("diary", "secret", forged)):
            with pytest.raises(InputError):
                await bound.fork(session, at=at, record=given)
        assert await shown(bound, branch) == ["a"]

    handle = store.scoped(user_id="ada", session_id=branch)
    await handle.purge(branch)
    for given in (forged, record("s", "a", branch)):
        with pytest.raises(InputError):
            await handle.fork(given.parent, at=given.at, record=given)
    await handle.fork("", at="", record=record("", "", branch, earlier={"diary": "secret"}))
    assert await shown(handle, branch) == []


@pytest.mark.parametrize("bound", [{"namespace": ("evil",)}, {"agent_id": "evil"}, {"task_id": "evil"}])
async def test_a_handle_leads_no_further_than_it_reaches(bound: dict[str, Any]) -> None:
    store = await stored()
    handle = store.scoped(**bound)
    await handle.add(item("bait", metadata=HERE))
    branch = await handle.fork("s", at="bait")
    again = record("s", "bait", metadata=MemoryMetadata(user_id="ada", session_id=NAME, **bound))
    for session in (branch, await handle.fork("s", at="bait", record=again)):
        for reader in (store, handle, store.scoped(session_id=session), store.scoped(user_id="ada")):
            assert await shown(reader, session) == ["bait"]
    held = await store.count(metadata=mine())
    assert await store.scoped(user_id="ada").clear() == held
    assert await store.count(metadata=mine()) == 0


async def test_another_users_items_are_never_shared() -> None:
    store = await stored()
    handle = store.scoped(user_id="ada")
    for target in (store, handle):
        for given in (record("s", "theirs"), record("s", "a", earlier={"t": "theirs"})):
            with pytest.raises(InputError):
                await target.fork("s", at=given.at, record=given)
    with pytest.raises(InputError):
        await handle.fork("s", at="a", record=record("s", "a", metadata=theirs(session_id=NAME)))
    await handle.fork("s", at="a", record=record("s", "a", places={"s": 10**6}))
    for reader in (store, handle, store.scoped(session_id=NAME)):
        assert await shown(reader, NAME) == ["a"]
    assert await shown(store.scoped(user_id="bob"), NAME) == []


@pytest.mark.parametrize(
    "wrong",
    [
        *({"id": "session-x"}, {"id": "branch-y"}, {"archived_by": None}, {"archived_by": "a"}, {"metadata": HERE}),
        *({"memory_type": "note"}, None),
    ],
)
async def test_a_record_must_be_one(wrong: dict[str, Any] | None) -> None:
    store = await stored()
    given = item("a", metadata=HERE, id=NAME) if wrong is None else record("s", "a").model_copy(update=wrong)
    with pytest.raises(InputError):
        await store.fork("s", at="a", record=given)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(InputError):
        await store.fork("s", at="nowhere", record=record("s", "nowhere"))
    assert await store.get(NAME) is None


async def test_a_part_of_a_store_is_copied_with_its_branches() -> None:
    store = InMemoryStore()
    said = zip("abcd", ("accepted", "draft") * 2, strict=True)
    await store.add_many([item(text, second, HERE, status=status) for second, (text, status) in enumerate(said)])
    branch = await store.fork("s", at="d")
    since = (await store.search(order="added", limit=2))[-1].created_at
    assert await shown(await copied(store, mine(), since=since), branch) == ["c", "d"]
    assert await shown(await copied(store, mine(), status="accepted"), branch) == ["a", "c"]


async def test_forgetting_a_user_takes_every_record() -> None:
    store = await stored()
    branch = await store.fork("s", at="a")
    await store.add(item("x", metadata=mine(session_id=branch)))
    nested = await store.scoped(user_id="ada").fork(branch, at="x")
    await store.clear(metadata=HERE)
    held = await store.count(metadata=mine(), include_deleted=True)
    assert await store.purge(metadata=mine()) == held
    assert [await store.get(session) for session in (branch, nested)] == [None, None]
