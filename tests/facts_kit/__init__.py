"""The conformance kit for facts: what :class:`memoranda_facts.Facts` promises, on any store.

A test module subclasses :class:`FactsConformance` and offers an open store, as for ``StoreConformance``::

    class TestFactsOnMyStore(FactsConformance):
        @pytest_asyncio.fixture
        async def store(self, tmp_path):
            async with MyStore(tmp_path / "memories") as store:
                yield store
"""

from facts_kit.conformance import FactsConformance

__all__ = ["FactsConformance"]
