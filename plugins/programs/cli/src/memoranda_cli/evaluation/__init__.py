"""Memoranda's evaluation: does search find the right memory on your own data?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_cli.evaluation.evaluating import Outcome, Report, Score, evaluate
    from memoranda_cli.evaluation.questions import EvalQuestion, QuestionFile, make_questions, read_questions

__all__ = [
    "EvalQuestion", "Outcome", "QuestionFile", "Report", "Score", "evaluate", "make_questions", "read_questions",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "evaluating": ["Outcome", "Report", "Score", "evaluate"],
        "questions": ["EvalQuestion", "QuestionFile", "make_questions", "read_questions"],
    },
)
