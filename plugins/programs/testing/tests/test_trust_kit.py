"""The kit's cases on trust: they pass what is right, and catch what is wrong."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from memoranda.store import InMemoryStore, Store
from memoranda_testing import Outcome, TrustConformance, check_store
from memoranda_testing.cases.trust import TrustCases
from memoranda_testing.cases.trust_attacks import FAMILIES, texts


def _load(name: str) -> Any:
    """Import a module that lies beside this one, whatever the import mode."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


wrong = _load("wrong_trust")


async def failed(store: type[Store], cases: type[TrustCases], case: str) -> list[tuple[Outcome, str]]:
    report = await check_store(store, exclusive=True, select=f"test_{case}".__eq__, topics=[cases])
    return [(result.outcome, result.reason) for result in report.results]


def named(pairs: list[tuple[type, str]]) -> list[str]:
    return [f"{kind.__name__}-{case}" for kind, case in pairs]


@pytest.mark.parametrize(("store", "case"), wrong.STORES, ids=named(wrong.STORES))
async def test_a_store_that_trusts_wrongly_is_caught(store: type[Store], case: str) -> None:
    ((outcome, reason),) = await failed(store, TrustCases, case)

    assert outcome is Outcome.FAILED
    assert "Error" not in reason, "an expectation fails, and not the case itself"


@pytest.mark.parametrize(("cases", "case"), wrong.CASES, ids=named(wrong.CASES))
async def test_a_wrong_fence_guard_or_compaction_is_caught(cases: type[TrustCases], case: str) -> None:
    ((outcome, reason),) = await failed(InMemoryStore, cases, case)

    assert outcome is Outcome.FAILED
    assert "Error" not in reason, "an expectation fails, and not the case itself"


def test_there_are_enough_attacks_and_each_can_be_found_again() -> None:
    attacks = [attack for family in FAMILIES.values() for attack in family]

    assert (len(FAMILIES), len(attacks)) == (10, 72)
    assert len({attack.name for attack in attacks}) == len(attacks)
    assert all(any("MARK" in text for text in texts(attack, "MARK")) for attack in attacks)


def test_a_case_on_trust_cannot_be_redefined() -> None:
    with pytest.raises(TypeError, match="redefines the conformance case"):
        type("TestMine", (TrustConformance,), {"test_forged_tags_stay_fenced": lambda self: None})
