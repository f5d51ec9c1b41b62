"""All cases of the conformance kit, by topic."""

from __future__ import annotations

from collections.abc import Iterator

from memoranda_testing.case import Cases
from memoranda_testing.cases.branches import BranchCases
from memoranda_testing.cases.concurrency import CancellationCases, ConcurrencyCases
from memoranda_testing.cases.conditions import ConditionCases, ValueCases
from memoranda_testing.cases.item_fields import ItemFieldCases
from memoranda_testing.cases.lifecycle import DeclarationCases, LifecycleCases, PersistenceCases
from memoranda_testing.cases.lifetimes import LifetimeCases, TtlCases
from memoranda_testing.cases.loops import LoopCases
from memoranda_testing.cases.model import IsolationCases, ModelCases
from memoranda_testing.cases.other_process import OtherProcessCases
from memoranda_testing.cases.ranked import RankingCases, TextRankingCases
from memoranda_testing.cases.reading import (
    FilterCases,
    OrderCases,
    OwnerCases,
    ScanCases,
    WindowCases,
)
from memoranda_testing.cases.removing import ClearCases, PurgeCases
from memoranda_testing.cases.round_trips import RoundTripCases
from memoranda_testing.cases.scopes import ScopeCases
from memoranda_testing.cases.text import SubstringCases
from memoranda_testing.cases.writing import AddCases, AddDeletedCases, BatchCases, InputCases, UpdateCases

TOPICS: tuple[type[Cases], ...] = (
    DeclarationCases,
    RoundTripCases,
    ItemFieldCases,
    AddCases,
    UpdateCases,
    BatchCases,
    OrderCases,
    FilterCases,
    ConditionCases,
    ValueCases,
    OwnerCases,
    WindowCases,
    BranchCases,
    SubstringCases,
    RankingCases,
    TextRankingCases,
    ScanCases,
    ClearCases,
    AddDeletedCases,
    PurgeCases,
    ScopeCases,
    IsolationCases,
    InputCases,
    ConcurrencyCases,
    CancellationCases,
    LoopCases,
    TtlCases,
    LifetimeCases,
    LifecycleCases,
    PersistenceCases,
    OtherProcessCases,
    ModelCases,
)
"""Every group of cases, in the order in which a report shows them."""


def case_names(topic: type[Cases]) -> Iterator[str]:
    """Yield the names of the cases of a topic, and of those it extends, in the order in which they are written."""
    return (name for kit in reversed(topic.__mro__) for name in vars(kit) if name.startswith("test_"))


__all__ = ["TOPICS", "case_names"]
