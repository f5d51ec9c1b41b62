"""The kit asks another process, and asks for stores that are not there."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from memoranda_testing import Outcome, check_store


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


for _name in ("four_methods", "wrong_stores", "wrong_stores_model"):
    _load(_name)
files = _load("wrong_stores_subtle")
wrong = _load("wrong_stores_processes")


@pytest.fixture(autouse=True)
def modules_of_the_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another process find the modules of these stores."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


async def outcome_of(store: Any, case: str, path: Path) -> tuple[Outcome, str]:
    """Run one case on a store in a file."""
    report = await check_store(lambda: store(path), exclusive=True, select=f"test_{case}".__eq__, timeout=600)
    (result,) = report.results
    return result.outcome, result.reason


@pytest.mark.parametrize(("store", "case"), wrong.WRONG_STORES)
async def test_a_store_that_is_wrong_to_another_process_is_caught(store: Any, case: str, tmp_path: Path) -> None:
    outcome, reason = await outcome_of(store, case, tmp_path / "memories.jsonl")
    assert outcome is Outcome.FAILED, reason


@pytest.mark.parametrize("case", [wrong.SEES, wrong.WRITES, wrong.ABSENT])
async def test_a_right_store_in_a_file_passes(case: str, tmp_path: Path) -> None:
    assert await outcome_of(files.FileStore, case, tmp_path / "memories.jsonl") == (Outcome.PASSED, "")


async def test_a_store_whose_arguments_cannot_be_sent_is_not_reached(tmp_path: Path) -> None:
    class Local(files.FileStore):  # type: ignore[name-defined,misc]  # the module is loaded by its path
        """A store that another process cannot import."""

    outcome, reason = await outcome_of(Local, wrong.SEES, tmp_path / "memories.jsonl")
    assert outcome is Outcome.NOT_REACHED
    assert "Another process cannot open the data" in reason
