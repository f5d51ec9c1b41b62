"""Random tenants and random filters, compared with a model: needs hypothesis."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from memoranda.errors import MemoryError
from memoranda.items import MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.store import BaseStore, Capability, InMemoryStore, dump_item
from memoranda_testing.case import Cases, moment, note
from memoranda_testing.expect import contents, equal, that

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

TENANTS = 3
LETTERS = "aAbB ßẞsSİiıIςσΣжЖéE\u0301ﬁ🦉%_\\'\"*\n0"
"""Characters that LIKE, full-text engines, shells and ASCII-only case folding get wrong."""

Step = tuple[str, int, dict[str, Any]]
"""What is called, by which tenant, with which values."""


async def for_examples(strategy: SearchStrategy[Any], examples: int, check: Callable[[Any], Awaitable[None]]) -> None:
    """Run an async check for many examples, one after the other, on the loop that the store belongs to.

    Hypothesis is synchronous: it runs in a thread and hands each example to the loop.
    """
    from hypothesis import HealthCheck, Phase, given, settings

    loop = asyncio.get_running_loop()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(example: Any) -> None:
        async def checked() -> None:
            await check(example)

        asyncio.run_coroutine_threadsafe(checked(), loop).result(240)

    await asyncio.to_thread(run)


class IsolationCases(Cases):
    """Whatever others do, a tenant sees and changes exactly what is theirs."""

    examples: int = 60
    """How many random histories are tried."""

    async def test_random_tenants_never_meet(self, store: BaseStore) -> None:
        """Any sequence of calls through scoped handles does what it does on the in-memory store, item for item."""
        await for_examples(_histories(store.capabilities), self.examples, lambda steps: self._compare(store, steps))

    async def test_random_filters_match_the_model(self, store: BaseStore) -> None:
        """Any filter over any items finds what Filter.matches says, in the same order."""
        await for_examples(_listings(), self.examples, lambda listing: self._compare_filters(store, *listing))

    async def _compare(self, store: BaseStore, steps: list[Step]) -> None:
        prefix = f"conform-{uuid.uuid4().hex}"
        users = [f"{prefix}-{number}" for number in range(TENANTS)]
        for user in users:
            self.owned(MemoryMetadata(user_id=user))
        model = InMemoryStore()
        for step in steps:
            found = await _outcome(store, step, users, prefix)
            wanted = await _outcome(model, step, users, prefix)
            if Capability.DELETE not in store.capabilities:
                await model.purge(deleted_only=True)  # There, clearing is for good.
            equal(found, wanted, f"{step[0]} by tenant {step[1]} with {step[2]} in the history {steps}")
        for user in users:
            seen = [item async for item in store.scoped(user_id=user).scan()]
            for item in seen:
                that(item.metadata.user_id == user, "A tenant sees another tenant's item.")
            kept = [dump_item(item) async for item in model.scoped(user_id=user).scan()]
            equal([dump_item(item) for item in seen], kept, f"what a tenant has after the history {steps}")

    async def _compare_filters(
        self, store: BaseStore, rows: list[dict[str, Any]], searches: list[dict[str, Any]]
    ) -> None:
        user, model = self.user(), InMemoryStore()
        items = [_item(user, row) for row in rows]
        await store.add_many(items)
        await model.add_many(items)
        for search in searches:
            arguments = dict(search)
            metadata = MemoryMetadata(user_id=user, **arguments.pop("metadata"))
            found = await store.search(**arguments, metadata=metadata, mode="substring")
            wanted = await model.search(**arguments, metadata=metadata, mode="substring")
            equal(contents(found), contents(wanted), f"search with {search} among {rows}")
            equal([item.id for item in found], [item.id for item in wanted], f"items of {search} among {rows}")


def _item(user: str, row: dict[str, Any]) -> MemoryItem:
    return note(
        row["content"],
        MemoryMetadata(user_id=user, **row["metadata"]),
        row["second"],
        memory_type=row["memory_type"],
        status=row["status"],
    )


def _scopes() -> SearchStrategy[dict[str, Any]]:
    from hypothesis import strategies as st

    values = st.sampled_from([True, False, 1, 1.0, 0, "1", "", None, [1], [True], {"x": 1}, {"x": 1.0, "y": None}])
    return st.fixed_dictionaries(
        {},
        optional={
            "session_id": st.sampled_from(["", "s", "S", "%"]),
            "task_id": st.sampled_from(["", "t"]),
            "extra": st.dictionaries(st.sampled_from(["k", "a.b", ""]), values, max_size=2),
        },
    )


def _listings() -> SearchStrategy[Any]:
    """Return items and searches for them; queries are mostly parts of a content, with something changed."""
    from hypothesis import strategies as st

    text = st.text(st.sampled_from(LETTERS), max_size=6)
    statuses, types = st.sampled_from(list(MemoryStatus)), st.sampled_from(["human", "note", ""])
    rows = st.lists(
        st.fixed_dictionaries(
            {
                "content": text,
                "metadata": _scopes(),
                "second": st.integers(0, 2),
                "memory_type": types,
                "status": statuses,
            }
        ),
        min_size=1,
        max_size=8,
    )
    changes = st.sampled_from([str, str.upper, str.lower, str.swapcase, _with("%"), _with("_"), _with("\\")])

    @st.composite
    def listings(draw: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        drawn = draw(rows)
        searches = []
        for _ in range(draw(st.integers(1, 6))):
            content, start = draw(st.sampled_from(drawn))["content"], draw(st.integers(0, 3))
            search = {
                "query": draw(changes)(content[start : start + draw(st.integers(0, 3))]),
                "metadata": draw(st.one_of(st.just({}), st.just({}), _scopes())),
                "limit": draw(st.integers(0, 9)),
            }
            search |= draw(st.fixed_dictionaries({}, optional={"memory_type": types, "status": statuses}))
            searches.append(search)
        return drawn, searches

    return listings()


def _with(character: str) -> Callable[[str], str]:
    """Return a change that puts this character in the place of the second one."""
    return lambda text: f"{text[:1]}{character}{text[2:]}"


def _histories(capabilities: frozenset[Capability]) -> SearchStrategy[list[Step]]:
    from hypothesis import strategies as st

    ids, sessions = st.integers(0, 3), st.sampled_from([None, "", "a", "b"])
    values = st.fixed_dictionaries(
        {
            "id": ids,
            "session": sessions,
            "content": st.sampled_from(["tea", "TEA time", "wine"]),
            "second": st.integers(0, 1),
        }
    )
    one, where = st.fixed_dictionaries({"id": ids}), st.fixed_dictionaries({"session": sessions})
    kinds: dict[str, SearchStrategy[dict[str, Any]]] = {
        "add": values,
        "update": st.builds(lambda drawn, version: {**drawn, "version": version}, values, st.integers(0, 3)),
        "get": one,
        "search": st.fixed_dictionaries(
            {"session": sessions, "query": st.sampled_from(["", "tea", "%"]), "limit": st.integers(0, 3)}
        ),
        "count": where,
        "clear": where,
    }
    if Capability.ATOMIC in capabilities:
        kinds["add_many"] = st.fixed_dictionaries({"batch": st.lists(values, max_size=3)})
    if Capability.DELETE in capabilities:
        kinds |= {"delete": one, "restore": one, "restore_all": where}
    if Capability.PURGE in capabilities:
        kinds |= {"purge": one, "purge_all": where}
    steps = {kind: st.tuples(st.just(kind), st.integers(0, TENANTS - 1), drawn) for kind, drawn in kinds.items()}
    # Two adds first: in one history of six both are of one id by two tenants, whatever hypothesis draws besides.
    added, others = steps["add"], st.lists(st.one_of(list(steps.values())), max_size=12)
    return st.builds(lambda first, second, rest: [first, second, *rest], added, added, others)


async def _outcome(store: BaseStore, step: Step, users: list[str], prefix: str) -> Any:
    """Return what a call gave, in comparable form, or the name of the error it raised."""
    kind, tenant, values = step
    try:
        return await _CALLS[kind](store.scoped(user_id=users[tenant]), values, prefix)
    except MemoryError as error:
        return type(error).__name__


def _made(values: dict[str, Any], prefix: str) -> MemoryItem:
    return MemoryItem(
        id=f"{prefix}-{values['id']}",
        content=values["content"],
        memory_type="note",
        metadata=MemoryMetadata(session_id=values["session"]),
        created_at=moment(values["second"]),
        version=values.get("version", 0),
    )


def _where(values: dict[str, Any]) -> MemoryMetadata | None:
    return None if values["session"] is None else MemoryMetadata(session_id=values["session"])


async def _add(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    return await store.add(_made(values, prefix))


async def _add_many(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    batch = [_made(each, prefix) for each in values["batch"]]
    return await store.add_many(batch)


async def _update(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    return dump_item(await store.update(_made(values, prefix)))


async def _get(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    found = await store.get(f"{prefix}-{values['id']}")
    return found and dump_item(found)


async def _search(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    found = await store.search(query=values["query"], metadata=_where(values), limit=values["limit"], mode="substring")
    return [dump_item(item) for item in found]


async def _count(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    return await store.count(metadata=_where(values))


async def _clear(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    return await store.clear(metadata=_where(values))


async def _delete(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    return await store.delete(f"{prefix}-{values['id']}")


async def _restore(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    return await store.restore(f"{prefix}-{values['id']}")


async def _restore_all(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    return await store.restore(metadata=_where(values))


async def _purge(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    return await store.purge(f"{prefix}-{values['id']}")


async def _purge_all(store: BaseStore, values: dict[str, Any], prefix: str) -> Any:
    return await store.purge(metadata=_where(values))


_CALLS: dict[str, Callable[[BaseStore, dict[str, Any], str], Awaitable[Any]]] = {
    "add": _add,
    "add_many": _add_many,
    "update": _update,
    "get": _get,
    "search": _search,
    "count": _count,
    "clear": _clear,
    "delete": _delete,
    "restore": _restore,
    "restore_all": _restore_all,
    "purge": _purge,
    "purge_all": _purge_all,
}
