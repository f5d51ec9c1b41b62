"""The half of the kit that compares with a model: random histories on a store and on a plain reference beside it.

:class:`Model` is the contract, written to be read. :class:`Generator` draws histories of every public method. Each
history is played on both, every answer is compared completely, and a history that fails is shrunk to a short program.
The cases in :mod:`memoranda_testing.cases.model` run all of it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from memoranda_testing.case import Clock
from memoranda_testing.event_loop import Stepped, cancel_this
from memoranda_testing.model.afresh import copied, unlike_afresh
from memoranda_testing.model.generator import Generator
from memoranda_testing.model.histories import check_histories, check_steps, compare
from memoranda_testing.model.leaks import held, left_since
from memoranda_testing.model.outside import Outside
from memoranda_testing.model.program import outcome
from memoranda_testing.model.reference import Model
from memoranda_testing.model.sandbox import Sandbox
from memoranda_testing.model.steps import Call, Cancelled, Many
from memoranda_testing.model.values import HistoryOptions


async def cancelled(work: Coroutine[Any, Any, Any], at: int) -> Any:
    """Await the work, and cancel it when it waits for the n-th time."""
    return await Stepped(work, at, cancel_this)


__all__ = [
    "Call",
    "Cancelled",
    "Clock",
    "Generator",
    "HistoryOptions",
    "Many",
    "Model",
    "Outside",
    "Sandbox",
    "cancelled",
    "check_histories",
    "check_steps",
    "compare",
    "copied",
    "held",
    "left_since",
    "outcome",
    "unlike_afresh",
]
