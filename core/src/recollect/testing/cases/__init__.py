"""All cases of the conformance kit, by topic."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.testing.case import Cases
from recollect.testing.cases.arriving import ArrivingDeletedCases
from recollect.testing.cases.bad_input import InputCases
from recollect.testing.cases.compaction import CompactionCases
from recollect.testing.cases.concurrency import CancellationCases, ConcurrencyCases
from recollect.testing.cases.isolation import IsolationCases
from recollect.testing.cases.lifecycle import DeclarationCases, LifecycleCases, PersistenceCases
from recollect.testing.cases.listing import ArchiveCases, CountCases, ScanCases
from recollect.testing.cases.optional import ObserverCases, TtlCases
from recollect.testing.cases.ranked import RankingCases, TextRankingCases
from recollect.testing.cases.reading import FilterCases, LimitCases, OrderCases
from recollect.testing.cases.removing import ClearCases, DeleteCases, PurgeCases
from recollect.testing.cases.round_trips import RoundTripCases
from recollect.testing.cases.scopes import ScopeCases
from recollect.testing.cases.text import SubstringCases
from recollect.testing.cases.writing import AddCases, AddManyCases, UpdateCases

TOPICS: tuple[type[Cases], ...] = (
    DeclarationCases,
    RoundTripCases,
    AddCases,
    AddManyCases,
    UpdateCases,
    OrderCases,
    LimitCases,
    FilterCases,
    SubstringCases,
    RankingCases,
    TextRankingCases,
    CountCases,
    ScanCases,
    ArchiveCases,
    CompactionCases,
    ClearCases,
    DeleteCases,
    ArrivingDeletedCases,
    PurgeCases,
    ScopeCases,
    IsolationCases,
    InputCases,
    ConcurrencyCases,
    CancellationCases,
    ObserverCases,
    TtlCases,
    LifecycleCases,
    PersistenceCases,
)
"""Every group of cases, in the order in which a report shows them."""


def case_names(topic: type[Cases]) -> Iterator[str]:
    """Yield the names of the cases of a topic, in the order in which they are written."""
    return (name for name in vars(topic) if name.startswith("test_"))


__all__ = ["TOPICS", "case_names"]
