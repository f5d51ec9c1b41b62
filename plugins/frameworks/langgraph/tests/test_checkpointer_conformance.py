"""LangGraph's conformance suite for checkpointers, each of its cases a test, on every engine."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterator

import pytest
from langgraph.checkpoint.conformance import spec

from memoranda.store import Store
from memoranda_langgraph import MemorandaSaver

Case = Callable[[MemorandaSaver], Awaitable[None]]


def cases() -> Iterator[Case]:
    """Yield every case of the suite, as its lists name them."""
    for module in pkgutil.iter_modules(spec.__path__, f"{spec.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.startswith("ALL_") and isinstance(value, list):
                yield from value


def test_the_suite_is_whole() -> None:
    assert len(list(cases())) >= 81


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.__name__)
async def test_the_checkpointer_conforms(case: Case, store: Store) -> None:
    await case(MemorandaSaver(store.scoped(user_id="ada")))
