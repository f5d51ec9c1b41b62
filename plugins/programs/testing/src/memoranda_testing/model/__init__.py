"""The half of the kit that compares with a model: random histories on a store and on a plain reference beside it.

:class:`Model` is the contract, written to be read. :class:`Generator` draws histories of every public method. Each
history is played on both, every answer is compared completely, and a history that fails is shrunk to a short program.
The cases in :mod:`memoranda_testing.cases.model` run all of it. Names are loaded on first use, so that another process
that opens a store loads no more than it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_testing.case import Clock
    from memoranda_testing.model.afresh import copied, unlike_afresh
    from memoranda_testing.model.generator import Generator
    from memoranda_testing.model.histories import check_histories, check_steps, compare
    from memoranda_testing.model.leaks import held, left_since
    from memoranda_testing.model.outside import Outside
    from memoranda_testing.model.program import cancelled, outcome
    from memoranda_testing.model.reference import Model
    from memoranda_testing.model.sandbox import Sandbox
    from memoranda_testing.model.steps import Call, Cancelled, Many
    from memoranda_testing.model.values import HistoryOptions

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "memoranda_testing.case": ["Clock"],
        "afresh": ["copied", "unlike_afresh"],
        "generator": ["Generator"],
        "histories": ["check_histories", "check_steps", "compare"],
        "leaks": ["held", "left_since"],
        "outside": ["Outside"],
        "program": ["cancelled", "outcome"],
        "reference": ["Model"],
        "sandbox": ["Sandbox"],
        "steps": ["Call", "Cancelled", "Many"],
        "values": ["HistoryOptions"],
    },
)

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
