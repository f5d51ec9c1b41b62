"""The conformance kit itself: it passes what is right and catches what is wrong."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from stepwise import StepwiseStore

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import InMemoryStore, Store
from memoranda_testing import ExpectationError, Outcome, Report, StoreConformance, check_store, run_conformance
from memoranda_testing.cases import TOPICS, case_names
from memoranda_testing.cases.model import ModelCases


def _load(name: str) -> Any:
    """Import a module that lies beside this one, whatever the import mode."""
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_load("four_methods")
wrong = _load("wrong_stores")


def named(case: str) -> Any:
    """Choose one case."""
    return f"test_{case}".__eq__


class TestFourMethodStore(StoreConformance):
    """A store of nothing but the four methods conforms: the base class builds the rest."""

    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with wrong.DictStore() as store:
            yield store


@pytest.mark.parametrize(
    ("store", "case"), wrong.WRONG_STORES, ids=[f"{store.__name__}-{case}" for store, case in wrong.WRONG_STORES]
)
async def test_a_wrong_store_is_caught_by_the_case_meant_for_it(store: type[Store], case: str) -> None:
    hangs = store is wrong.StuckAfterCancel
    report = await check_store(store, exclusive=True, select=named(case), timeout=1 if hangs else 600)
    wanted = Outcome.NOT_REACHED if hangs else Outcome.FAILED
    assert [(result.name, result.outcome) for result in report.results] == [(case, wanted)]
    assert report.results[0].reason
    assert not report.conforms


@pytest.mark.rare
@pytest.mark.parametrize("case", sorted({case for _, case in wrong.WRONG_STORES}))
async def test_a_case_that_catches_wrong_stores_passes_the_right_one(case: str) -> None:
    report = await check_store(InMemoryStore, exclusive=True, select=named(case))
    assert [(result.outcome, result.reason) for result in report.results] == [(Outcome.PASSED, "")]


async def test_a_store_that_forgets_on_close_is_not_persistent() -> None:
    memories: dict[str, MemoryItem] = {}
    report = await check_store(
        lambda: wrong.ForgetsOnClose(memories), exclusive=True, select=named("items_survive_reopening")
    )
    assert [result.outcome for result in report.results] == [Outcome.FAILED]


EXAMPLES = frozenset(name for topic in TOPICS if topic is not ModelCases for name in case_names(topic))
LONGEST = ("megabytes", "large", "vanish", "replacing", "random", "loop", "many")
"""What the names of cases have that take longest; they run with pytest, on the same store."""


@pytest.mark.parametrize(
    "chosen",
    [
        lambda name: name in EXAMPLES and not any(word in name for word in LONGEST),
        pytest.param(None, marks=pytest.mark.slow),
    ],
    ids=["examples", "all"],
)
def test_the_kit_passes_the_in_memory_store_outside_pytest(chosen: Any) -> None:
    report = run_conformance(InMemoryStore, exclusive=True, select=chosen)
    assert report.conforms, report.of(Outcome.FAILED)
    assert {result.reason for result in report.of(Outcome.SKIPPED)} == {
        "the store declares the capability 'fork'",
        *(f"the store does not declare the capability {name!r}" for name in ("persistent", "semantic")),
    }


@pytest.mark.slow
async def test_a_shared_store_is_left_as_it_was() -> None:
    others = MemoryItem(content="somebody's", metadata=MemoryMetadata(user_id="somebody"))
    memories = {others.id: others}
    report = await check_store(lambda: wrong.DictStore(memories), exclusive=False, select=EXAMPLES.__contains__)
    assert report.conforms, report.of(Outcome.FAILED)
    assert memories == {others.id: others}
    assert "bare_clear_removes_everything" in [result.name for result in report.of(Outcome.PASSED)]


async def test_a_failed_case_tidies_up_behind_itself() -> None:
    memories: dict[str, MemoryItem] = {}
    report = await check_store(
        lambda: wrong.OldestFirst(memories), exclusive=False, select=named("search_returns_newest_first")
    )
    assert not report.conforms
    assert memories == {}


async def test_a_case_that_hangs_is_not_reached_and_the_store_does_not_conform() -> None:
    report = await check_store(wrong.HangsForever, select=named("search_returns_newest_first"), timeout=0.05)
    (result,) = report.results
    assert result.outcome is Outcome.NOT_REACHED
    assert result.reason.startswith("It did not end within 0.05 seconds.")
    assert not report.conforms
    assert report.to_json()["not_reached"] == 1


@pytest.mark.parametrize("case", ["sizes_match_the_model", "search_returns_newest_first"])
async def test_a_store_that_is_slow_is_not_called_wrong(case: str) -> None:
    class Slow(StepwiseStore):
        async def _apply(self, write: Any) -> int:
            await asyncio.sleep(3)
            return await super()._apply(write)

        async def _search(self, wanted: Any, page: Any) -> list[MemoryItem]:
            await asyncio.sleep(3)
            return await super()._search(wanted, page)

    report = await check_store(Slow, exclusive=True, select=named(case), timeout=1)
    assert [result.outcome for result in report.results] == [Outcome.NOT_REACHED]
    assert "run the kit with a longer timeout" in report.results[0].reason


async def test_the_time_limit_is_for_each_step_of_a_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of the loop, which is put forward: a busy machine makes no step longer than the limit."""
    loop, passed = asyncio.get_running_loop(), 0.0
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + passed)

    class Deliberate(StepwiseStore):
        async def _add(self, item: MemoryItem, within: Any) -> None:
            nonlocal passed
            passed += 1.0
            for _ in range(3):  # The loop looks at its clock in between.
                await asyncio.sleep(0)
            await super()._add(item, within)

    report = await check_store(
        Deliberate, exclusive=True, select=named("many_changes_leave_the_rest_as_it_is"), timeout=60
    )
    assert report.conforms, report.results
    assert passed > 60


async def test_a_timeout_of_the_stores_own_is_told_as_such() -> None:
    class Impatient(StepwiseStore):
        async def _search(self, wanted: Any, page: Any) -> list[MemoryItem]:
            raise TimeoutError("the driver gave up")

    report = await check_store(Impatient, select=named("search_returns_newest_first"))
    assert [result.reason.splitlines()[0] for result in report.results] == ["TimeoutError: the driver gave up"]


async def test_results_are_told_as_they_come() -> None:
    told: list[str] = []
    report = await check_store(
        InMemoryStore, select=lambda name: "limit" in name, on_result=lambda result: told.append(result.name)
    )
    assert told == [result.name for result in report.results]
    assert len(told) >= 2


async def test_a_store_may_be_opened_by_a_coroutine() -> None:
    async def open_store() -> Store:
        return InMemoryStore()

    report = await check_store(open_store, select=named("limits_cut_the_result"))
    assert report.conforms


async def test_a_report_is_json() -> None:
    report = await check_store(wrong.OldestFirst, select=lambda name: "order" in name or "ttl" in name)
    shown = json.loads(json.dumps(report.to_json()))
    assert shown["conforms"] is False
    assert shown["failed"] == len(report.of(Outcome.FAILED)) > 0
    assert shown["passed"] + shown["failed"] + shown["skipped"] == len(shown["cases"])
    assert set(shown["cases"][0]) == {"name", "topic", "title", "outcome", "reason", "seconds"}


def test_a_report_without_any_passed_case_does_not_conform() -> None:
    assert not Report("store", (), ()).conforms


def test_every_case_has_a_name_of_its_own_and_says_what_it_checks() -> None:
    names = [name for topic in TOPICS for name in case_names(topic)]
    assert len(names) == len(set(names))
    undocumented = [name for topic in TOPICS for name in case_names(topic) if not getattr(topic, name).__doc__]
    assert undocumented == []


def test_no_topic_has_a_helper_of_the_name_of_another_topics() -> None:
    """One class holds all topics, in which the first of two helpers would stand for both."""
    homes: dict[str, set[type]] = {}
    for topic in TOPICS:
        for kit in topic.__mro__[:-1]:
            for name in vars(kit).keys() - {
                "__module__",
                "__doc__",
                "__dict__",
                "__weakref__",
                "__static_attributes__",
            }:
                homes.setdefault(name, set()).add(kit)
    clashes = {name: {kit.__name__ for kit in kits} for name, kits in homes.items() if len(kits) > 1}
    assert {name: kits for name, kits in clashes.items() if not name.startswith("__")} == {}


@pytest.mark.parametrize("replacement", [None, lambda self: None])
def test_a_subclass_cannot_take_a_case_out(replacement: Any) -> None:
    with pytest.raises(TypeError, match="test_limits_cut_the_result"):
        type("TestMine", (StoreConformance,), {"test_limits_cut_the_result": replacement})


def test_a_mixin_cannot_take_a_case_out() -> None:
    hiding = type("Hiding", (), {"test_limits_cut_the_result": None})
    with pytest.raises(TypeError, match="test_limits_cut_the_result"):
        type("TestMine", (hiding, StoreConformance), {})


async def test_a_persistent_store_needs_reopen() -> None:
    async with wrong.KeptStore() as store:
        with pytest.raises(ExpectationError, match="reopen"):
            await StoreConformance().test_items_survive_reopening(store, None)


def test_a_subclass_may_add_tests_of_its_own() -> None:
    assert issubclass(type("TestMine", (StoreConformance,), {"test_mine": lambda self: None}), StoreConformance)


TEST_MODULE = """
import pytest
import pytest_asyncio
from memoranda import Capability
from memoranda.store import InMemoryStore
from memoranda_testing import StoreConformance
from stepwise import StepwiseStore

class Reversed(StepwiseStore):
    async def _search(self, wanted, page):
        return (await super()._search(wanted, page))[::-1]

class TestRight(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self):
        async with InMemoryStore() as store:
            yield store

class Kept(StepwiseStore):
    capabilities = InMemoryStore.capabilities | {Capability.PERSISTENT}

class TestKept(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self):
        async with Kept() as store:
            yield store

    @pytest.fixture
    def reopen(self, store):
        async def reopen():
            return store
        return reopen

class TestWrong(StoreConformance):
    exclusive = False

    @pytest_asyncio.fixture
    async def store(self):
        async with Reversed() as store:
            yield store
"""


@pytest.mark.parametrize("mode", ["strict", pytest.param("auto", marks=pytest.mark.rare)])
def test_a_third_party_runs_the_kit_with_pytest(tmp_path: Path, mode: str) -> None:
    (tmp_path / "test_theirs.py").write_text(TEST_MODULE)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nasyncio_mode = {mode}\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rfs",
        "--color=no",
        "-p",
        "no:cacheprovider",
        "-k",
        "search_returns_newest_first or batch_is_found_by_its_meaning or items_survive_reopening",
    ]
    made_from = Path(__file__).parents[4] / "core" / "tests"  # Where the store lies that theirs is made from.
    plain = {**os.environ, "PYTEST_ADDOPTS": "", "PYTHONPATH": str(made_from)}
    done = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True, timeout=240, check=False)
    assert "1 failed, 3 passed" in done.stdout, done.stdout
    assert "FAILED test_theirs.py::TestWrong::test_search_returns_newest_first" in done.stdout
    assert "does not declare the capability 'semantic'" in done.stdout


def test_importing_memoranda_loads_no_test_tools() -> None:
    code = (
        "import sys, memoranda, memoranda.store.in_memory, memoranda_testing\n"
        "loaded = {'pytest', 'hypothesis', 'memoranda_testing.cases'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
