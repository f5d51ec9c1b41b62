"""The kit for facts as a pytest class."""

from __future__ import annotations

from facts_kit.changes import ChangeCases
from facts_kit.histories import HistoryCases
from facts_kit.reading import ReadingCases
from facts_kit.sources import SourceCases
from facts_kit.together import ConcurrencyCases
from memoranda_testing.cases import case_names
from memoranda_testing.conformance import as_test

TOPICS = (ReadingCases, ChangeCases, SourceCases, ConcurrencyCases, HistoryCases)
"""All cases of facts, by topic."""


class FactsConformance(ReadingCases, ChangeCases, SourceCases, ConcurrencyCases, HistoryCases):
    """Test everything that facts promise, on the store of a fixture ``store``.

    ``facts_class`` is the class that is tested. ``thorough`` and ``seed`` are those of ``StoreConformance``.
    """


for _topic in TOPICS:
    for _name in case_names(_topic):
        setattr(FactsConformance, _name, as_test(getattr(_topic, _name)))

__all__ = ["FactsConformance"]
