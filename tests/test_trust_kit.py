"""The kit's cases on trust: they pass what is right, and catch what is wrong."""

from __future__ import annotations

import pytest

import wrong_trust as wrong
from memoranda.store import InMemoryStore, Store
from memoranda_testing import Outcome, check_store
from trust_kit.attacks import FAMILIES, texts
from trust_kit.cases import TrustCases


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
