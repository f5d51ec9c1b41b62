"""The half of the kit that compares with a model: it passes what is right, catches what is wrong, and tells it well."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from typing import Any

import pytest
from stepwise import StepwiseStore

from memoranda.store import InMemoryStore, Store
from memoranda.store.filters import Narrowing
from memoranda_testing import ExpectationError, Outcome, check_store
from memoranda_testing.case import Cases
from memoranda_testing.model import Call, Generator, HistoryOptions, Model, Sandbox, check_steps, histories
from memoranda_testing.model.contract import quoted
from memoranda_testing.model.sandbox import stays_within
from memoranda_testing.model.steps import WRITES

READS = {
    "recall",
    "get",
    "get_many",
    "search",
    "search_ranked",
    "window",
    "payloads",
    "head",
    "count",
    "scan",
    "owners",
    "exists",
}


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
right = _load("wrong_stores")
wrong = _load("wrong_stores_model")
further = _load("wrong_stores_further")
subtle = _load("wrong_stores_subtle")
changes = _load("wrong_stores_changes")
states = _load("wrong_stores_states")
alike = _load("wrong_stores_alike")
WRONG_STORES = [*wrong.WRONG_STORES, *further.WRONG_STORES]
FOLDERS = [str(Path(__file__).parent), str(Path(__file__).parents[4] / "core" / "tests")]
"""Where a program finds the wrong stores, and what they are made of."""


async def outcome_of(store: Callable[[], Store], case: str, **options: Any) -> tuple[Outcome, str]:
    """Run one case on an empty store."""
    options = {"exclusive": True, "timeout": 600.0, **options}
    report = await check_store(store, select=f"test_{case}".__eq__, **options)
    (result,) = report.results
    return result.outcome, result.reason


@pytest.fixture
def hardly_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave failures nearly as they are found, which takes less time."""
    monkeypatch.setattr(histories, "SHRINKING_STEPS", 0)


def _wrong(store: type[Store], case: str) -> Any:
    """Return a wrong store and the case that catches it; what goes through thousands of items takes long."""
    marks = pytest.mark.slow if case == wrong.SIZES else ()
    return pytest.param(store, case, id=f"{store.__name__}-{case}", marks=marks)


_BY_DEFAULT = [*subtle.WRONG_STORES, *changes.WRONG_STORES, *states.WRONG_STORES, *alike.WRONG_STORES]


@pytest.mark.rare
@pytest.mark.usefixtures("hardly_shrunk")
@pytest.mark.parametrize(("store", "case"), [_wrong(store, case) for store, case in WRONG_STORES])
async def test_a_wrong_store_is_caught(store: type[Store], case: str) -> None:
    hangs = store in (wrong.LockNotReleased, further.PopKeepsTheLock)
    outcome, reason = await outcome_of(store, case, timeout=4.0 if hangs else 600.0, thorough=not hangs)
    assert outcome is (Outcome.NOT_REACHED if hangs else Outcome.FAILED), reason
    assert "Error:" not in reason.split("\n", 1)[0]
    assert "The contract, " in reason
    assert "What usually causes it: " in reason
    assert "This program shows it:" in reason


@pytest.mark.rare
@pytest.mark.usefixtures("hardly_shrunk")
@pytest.mark.parametrize(("store", "case"), [_wrong(*each) for each in _BY_DEFAULT])
async def test_a_wrong_store_is_caught_by_the_default_kit(
    store: type[Store], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cases, "brief", False)
    hangs = store in (changes.KeepsItsLockWhenCancelled, alike.KeepsSeats)
    outcome, reason = await outcome_of(store, case, timeout=4.0 if hangs else 600.0)
    assert outcome is (Outcome.NOT_REACHED if hangs else Outcome.FAILED), reason


@pytest.mark.usefixtures("hardly_shrunk")
async def test_another_process_sees_what_was_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # Where the other process finds the store's module.
    outcome, reason = await outcome_of(lambda: subtle.FileStore(tmp_path / "right"), wrong.AGAIN)
    assert outcome is Outcome.PASSED, reason
    assert "another process" not in reason
    outcome, reason = await outcome_of(lambda: subtle.CachesForTheProcess(tmp_path / "wrong"), wrong.AGAIN)
    assert outcome is Outcome.FAILED
    assert "read by another process" in reason


@pytest.mark.usefixtures("hardly_shrunk")
@pytest.mark.parametrize("store", [*wrong.SHARING, *further.SHARING])
async def test_a_store_that_is_wrong_about_its_data_is_caught(store: Any) -> None:
    world: dict[str, Any] = {}
    outcome, _ = await outcome_of(lambda: store(world), wrong.AGAIN, thorough=True)
    assert outcome is Outcome.FAILED


async def test_a_right_store_that_ranks_by_meaning_passes() -> None:
    for case in (wrong.APART, changes.MEANING):
        outcome, reason = await outcome_of(wrong.MeaningStore, case)
        assert outcome is not Outcome.FAILED, reason


async def test_a_right_store_that_shares_its_data_passes() -> None:
    world: dict[str, Any] = {}
    outcome, reason = await outcome_of(lambda: wrong.SharedStore(world), wrong.AGAIN)
    assert outcome is Outcome.PASSED, reason


class CountsTooMany(right.KeptStore):  # type: ignore[name-defined,misc]  # the module is loaded by its path
    """A wrong store that others use."""

    async def _count(self, wanted: Any, include_deleted: bool) -> int:
        return int(await super()._count(wanted, include_deleted)) * 2


async def test_shrinking_a_failure_leaves_a_store_that_others_use_as_it_was() -> None:
    item = right.MemoryItem(content="somebody's tea", metadata=right.MemoryMetadata(user_id="somebody"))
    memories = {item.id: item}
    outcome, reason = await outcome_of(lambda: CountsTooMany(memories), wrong.CALLS, exclusive=False)
    assert outcome is Outcome.FAILED
    assert "This program shows it:" in reason
    assert memories == {item.id: item}


@pytest.mark.parametrize("options", [HistoryOptions(), HistoryOptions(lifetimes=True, instances=2, together=False)])
def test_histories_stay_in_their_corner_of_a_store_that_others_use(options: HistoryOptions) -> None:
    for number in range(10):
        generator = Generator(Random(number), InMemoryStore.capabilities, options, "mark")
        model = Model(InMemoryStore.capabilities, lambda: 0.0)
        steps = [generator.step(model) for _ in range(60)] + list(generator.survey(model))
        assert [step for step in steps if not stays_within(step, "mark")] == []


async def test_nothing_expires_before_its_time_in_a_store_that_others_use() -> None:
    item = right.MemoryItem(content="somebody's", metadata=right.MemoryMetadata(user_id="somebody"))
    world: dict[str, Any] = {}
    store = wrong.SharedStore(world)
    await store.add(item, ttl=10)
    outcome, reason = await outcome_of(
        lambda: wrong.SharedStore(world), "every_lifetime_ends_at_its_moment", exclusive=False
    )
    assert outcome is Outcome.SKIPPED
    assert "memories of others" in reason
    assert await store.get(item.id) is not None


async def test_histories_leave_a_store_that_others_use_as_it_was() -> None:
    item = right.MemoryItem(content="somebody's", metadata=right.MemoryMetadata(user_id="somebody"))
    memories = {item.id: item}
    for case in (wrong.CALLS, wrong.APART, wrong.AGAIN):
        outcome, reason = await outcome_of(lambda: right.KeptStore(memories), case, exclusive=False)
        assert outcome is not Outcome.FAILED, reason
    assert memories == {item.id: item}


@pytest.mark.rare
@pytest.mark.parametrize(
    ("store", "case", "lines"),
    [
        (wrong.CountForgetsTasks, wrong.CALLS, 8),
        (wrong.VectorNotRenewed, wrong.APART, 12),
        (wrong.LeavesASocket, wrong.LEFT, 10),
    ],
)
async def test_a_failure_is_a_short_program_that_shows_it(tmp_path: Path, store: Any, case: str, lines: int) -> None:
    outcome, reason = await outcome_of(store, case, thorough=True)
    assert outcome is Outcome.FAILED
    program = "import asyncio" + reason.partition("import asyncio")[2]
    body = [line for line in program.splitlines() if line.startswith("    ")]
    assert len(body) <= lines, program
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {FOLDERS!r}\n{program}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "AssertionError" in done.stderr, done.stderr


class RaisesForDeletedItems(StepwiseStore):
    """A wrong store that cannot add deleted items."""

    async def _apply(self, write: Any) -> int:
        if write.hidden:
            raise OSError
        return await super()._apply(write)


def _on_a_right_store(report: str, store: type[Store]) -> str:
    """Return the program of a report, about a store that is right."""
    program = "import asyncio" + report.partition("import asyncio")[2]
    named = f"from {store.__module__} import {store.__name__}"
    assert named in program
    return program.replace(named, f"from memoranda.store import InMemoryStore as {store.__name__}")


@pytest.mark.parametrize("store", [RaisesForDeletedItems, right.DeletedArrivesVisible])
async def test_a_batch_is_shrunk_together_with_the_ids_that_arrive_deleted(store: type[Store]) -> None:
    items = [right.MemoryItem(id=name, content="tea") for name in "abc"]

    async def fresh() -> Store:
        return store()

    sandbox = Sandbox(store(), fresh=fresh)
    with pytest.raises(ExpectationError) as raised:
        await check_steps(sandbox, [Call("add_many", {"items": items, "deleted": ["a", "b"]}), Call("count")], "a test")
    program = _on_a_right_store(str(raised.value), store)
    assert program.count("MemoryItem(") == 1
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{program}\n{done.stderr}"


@pytest.mark.parametrize(
    ("store", "case", "right_store"),
    [
        (wrong.PopsTwice, wrong.CALLS, "memoranda.store import InMemoryStore"),
        (wrong.HeadCheckedTooEarly, wrong.CALLS, "memoranda.store import InMemoryStore"),
        (wrong.HalfABatchAtTheSecondAwait, wrong.CANCELLED, "memoranda.store import InMemoryStore"),
        (further.HalfAnUpdate, wrong.CANCELLED, "memoranda.store import InMemoryStore"),
        (subtle.UpdateRemovesFirst, wrong.CANCELLED, "four_methods import DictStore"),
    ],
)
async def test_a_program_of_calls_at_once_or_cancelled_fails_as_they_did(
    store: Any, case: str, right_store: str
) -> None:
    _, reason = await outcome_of(store, case)
    program = f"import sys; sys.path[:0] = {FOLDERS!r}\nimport asyncio" + reason.partition("import asyncio")[2]
    named = f"from {store.__module__} import {store.__name__}"
    assert named in program
    about_a_right_store = program.replace(named, f"from {right_store} as {store.__name__}")
    for code, failing in ((program, True), (about_a_right_store, False)):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
        assert ("AssertionError: [" in done.stderr) is failing, f"{code}\n{done.stderr}"
        assert done.returncode == failing


@pytest.mark.usefixtures("hardly_shrunk")
async def test_the_same_seed_finds_the_same() -> None:
    found = [(await outcome_of(wrong.ScanForgetsSessions, wrong.CALLS, seed=7, thorough=True))[1] for _ in range(2)]
    where = [reason.partition("Found by ")[2].partition(".")[0] for reason in found]
    assert where[0] == where[1] != ""


@pytest.mark.rare
async def test_what_was_not_checked_is_told() -> None:
    _, reason = await outcome_of(right.DictStore, wrong.CALLS)
    assert "Not checked: what needs the capability 'atomic'" in reason
    _, reason = await outcome_of(InMemoryStore, wrong.LIVES, exclusive=False)
    assert "a clock that is moved" in reason


def test_histories_hold_every_public_method_with_every_argument() -> None:
    options = HistoryOptions(lifetimes=True, moves_clock=True)
    seen: dict[str, set[str]] = {}
    for number in range(120):
        generator = Generator(Random(number), InMemoryStore.capabilities, options)
        model = Model(InMemoryStore.capabilities, lambda: 0.0)
        for _ in range(80):
            step = generator.step(model)
            if isinstance(step, Call):
                seen.setdefault(step.method, set()).update(step.arguments)
    assert set(seen) == WRITES | READS
    for method in seen:
        known = set(inspect.signature(getattr(Store, method)).parameters) - {"self", "counter", "receipt"}
        if "narrowing" in known:
            known = known - {"narrowing"} | set(Narrowing.__annotations__)
        known -= {"as_of", "space"}  # Revisions and spaces have histories of their own.
        assert known == seen[method], method


def test_histories_know_every_public_method() -> None:
    apart = {"init", "close", "observe", "scoped", "approve", "shown"}  # An approval has the time in it.
    apart |= {"known", "outdated", "derived_id"}  # Observers answer the first two, and the third reads nothing.
    apart |= {"space", "check_grant"}  # Grants have a model of their own, with the spaces.
    apart |= {"versions", "purge_versions"}  # Nothing is recorded by a store without revisions, which have their own.
    apart |= {"expect_opening", "withheld"}  # They are asked before calls and by copies, and read nothing.
    apart |= {"payload_changes"}  # What it returns is of use for the next call alone; the kit follows it.
    public = {name for name, member in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")}
    assert public - apart == WRITES | READS


@pytest.mark.parametrize(("method", "text"), quoted())
def test_every_sentence_that_is_quoted_is_one_of_the_contract(method: str, text: str) -> None:
    documented = " ".join((inspect.getdoc(getattr(Store, method)) or "").split())
    assert " ".join(text.split()) in documented
