"""The conformance kit: what every store must do, as cases that run in pytest and outside it.

A backend's test module subclasses :class:`StoreConformance` and offers an open store::

    import pytest_asyncio
    from memoranda_testing import StoreConformance

    class TestMyStore(StoreConformance):
        @pytest_asyncio.fixture
        async def store(self, tmp_path):
            async with MyStore(tmp_path / "memories") as store:
                yield store

        @pytest.fixture
        def reopen(self, tmp_path):          # only for stores that declare Capability.PERSISTENT
            async def reopen():
                return MyStore(tmp_path / "memories")
            return reopen

``memoranda conform URL`` runs the same cases through :func:`run_conformance`. The parts that need pytest are
loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_testing.case import Cases, Reopen
    from memoranda_testing.conformance import StoreConformance
    from memoranda_testing.expect import ExpectationError, NotReachedError, SkipCase
    from memoranda_testing.runner import CaseResult, Outcome, Report, check_store, run_conformance

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "case": ["Cases", "Reopen"],
        "conformance": ["StoreConformance"],
        "expect": ["ExpectationError", "NotReachedError", "SkipCase"],
        "runner": ["CaseResult", "Outcome", "Report", "check_store", "run_conformance"],
    },
)

__all__ = [
    "CaseResult",
    "Cases",
    "ExpectationError",
    "NotReachedError",
    "Outcome",
    "Reopen",
    "Report",
    "SkipCase",
    "StoreConformance",
    "check_store",
    "run_conformance",
]
