"""The conformance kit: what every store must do, as cases that run in pytest and outside it.

A backend's test module subclasses :class:`StoreConformance` and offers an open store::

    import pytest_asyncio
    from recollect.testing import StoreConformance

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

``recollect conform URL`` runs the same cases through :func:`run_conformance`. Starters of real servers for tests are in
:mod:`recollect.testing.servers`. Nothing here is imported by ``import recollect``; the parts that need pytest or
hypothesis (the extra ``testing``) are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.testing.case import Cases, Reopen
    from recollect.testing.conformance import StoreConformance
    from recollect.testing.expect import ExpectationError, SkipCase
    from recollect.testing.runner import CaseResult, Outcome, Report, check_store, run_conformance

_LAZY = {
    "Cases": "recollect.testing.case",
    "Reopen": "recollect.testing.case",
    "StoreConformance": "recollect.testing.conformance",
    "ExpectationError": "recollect.testing.expect",
    "SkipCase": "recollect.testing.expect",
    "CaseResult": "recollect.testing.runner",
    "Outcome": "recollect.testing.runner",
    "Report": "recollect.testing.runner",
    "check_store": "recollect.testing.runner",
    "run_conformance": "recollect.testing.runner",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CaseResult",
    "Cases",
    "ExpectationError",
    "Outcome",
    "Reopen",
    "Report",
    "SkipCase",
    "StoreConformance",
    "check_store",
    "run_conformance",
]
