"""Facts do what they promise on the in-memory store, and the cases catch facts that are wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from facts_kit import FactsConformance
from facts_kit.conformance import TOPICS
from memoranda.errors import CorruptStoreError, InputError
from memoranda.store import InMemoryStore, Store
from memoranda_facts import Facts
from memoranda_testing import ExpectationError


class TestFactsInMemory(FactsConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with InMemoryStore() as store:
            yield store


def _load(name: str) -> Any:
    """Import a module that lies beside this one, whatever the import mode."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


wrong = _load("wrong_facts")


@pytest.mark.parametrize(
    ("facts", "case"), wrong.WRONG, ids=[f"{facts.__name__}-{case}" for facts, case in wrong.WRONG]
)
async def test_wrong_facts_are_caught_by_the_case_meant_for_them(facts: type[Facts], case: str) -> None:
    (topic,) = [each for each in TOPICS if hasattr(each, f"test_{case}")]
    cases = topic()
    cases.facts_class = facts
    cases.thorough = case.startswith("histories")
    async with InMemoryStore() as store:
        with pytest.raises((ExpectationError, InputError, CorruptStoreError)):
            await getattr(cases, f"test_{case}")(store)


def test_there_are_wrong_facts_of_many_kinds() -> None:
    assert len({facts for facts, _ in wrong.WRONG}) >= 15
