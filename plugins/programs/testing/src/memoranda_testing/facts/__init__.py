"""The conformance kit for facts: what :class:`memoranda_facts.Facts` promises, on any store. Needs memoranda-facts.

A test module subclasses :class:`FactsConformance` and offers an open store, as for ``StoreConformance``::

    class TestFactsOnMyStore(FactsConformance):
        @pytest_asyncio.fixture
        async def store(self, tmp_path):
            async with MyStore(tmp_path / "memories") as store:
                yield store
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_testing.facts.conformance import FactsConformance

__getattr__, __dir__ = lazy_names(__name__, {"conformance": ["FactsConformance"]})

__all__ = ["FactsConformance"]
