"""A report as people and programs read it: a table, the misses, a plot and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from memoranda_cli.evaluation.evaluating import Report
from memoranda_cli.evaluation.questions import EvalQuestion, QuestionFile
from memoranda_cli.plot import svg_plot
from memoranda_commands.characters import preview, visible
from memoranda_commands.terminal import counted, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memoranda.items import MemoryItem

OWN = "own"
"""What the table calls the embedder that the store was opened with, if it has one."""

MOST_LINES = 20
"""How many lines of a file a sentence lists."""


def table_of(report: Report) -> RenderableType:
    """Return the figures of every mode and embedder, side by side."""
    right: dict[str, Any] = {"justify": "right", "no_wrap": True}
    k = report.main_k
    semantic = any(score.mode == "semantic" and not score.embedder for score in report.scores)
    by_meaning = ("semantic", "hybrid", "recall") if semantic else ("semantic", "hybrid")
    columns = [*(f"R@{cut}" for cut in report.k), f"P@{k}", "MRR", "found", "ms"]
    rows = [
        (
            score.mode,
            score.embedder or (OWN if score.mode in by_meaning else "–"),
            *(_share(score.recall(cut)) for cut in report.k),
            _share(score.precision(k)),
            _share(score.mrr),
            f"{score.results:.1f}",
            f"{score.milliseconds:.1f}",
        )
        for score in report.scores
    ]
    left: dict[str, Any] = {"no_wrap": True}
    return table(("mode", left), ("embedder", left), *((column, right) for column in columns), rows=rows)


def _share(value: float) -> str:
    """Return a number between 0 and 1 in four characters."""
    return "1.00" if value > 0.9995 else f"{value:.3f}".removeprefix("0")


def summary(report: Report, read: QuestionFile) -> str:
    """Return in words how many questions were asked, and which were not."""
    parts = [f"{counted(report.questions, 'question')} asked."]
    if read.left_out:
        parts.append(f"{counted(read.left_out, 'question')} without an answer or evidence left out.")
    place = "question" if read.items else "line"
    for questions, fate in (
        (report.unknown, "not scored, since no right item is in the store"),
        (report.partly_unknown, "scored without right items that are missing"),
    ):
        if questions:
            parts.append(f"{counted(len(questions), 'question')} {fate}: {_lines(questions, place)}.")
    if read.note:
        parts.append(f"The file says: {read.note}")
    return " ".join(parts)


def _lines(questions: Iterable[EvalQuestion], place: str) -> str:
    numbers = [str(question.line) for question in questions]
    more = f" and {len(numbers) - MOST_LINES:,} more" if len(numbers) > MOST_LINES else ""
    return f"{place}{'s' if len(numbers) > 1 else ''} {', '.join(numbers[:MOST_LINES])}{more}"


def misses_of(report: Report) -> RenderableType:
    """Return the questions with a right item that some mode did not find among the first ``main_k`` results."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    found: list[Any] = []
    for miss in _misses(report):
        found.append(Text(f"\n{miss['line'] or '–'}. {preview(miss['question'])}", style="bold"))
        for right in miss["right"]:
            ranks = ", ".join(f"{name} {rank or '–'}" for name, rank in right["ranks"].items())
            found.append(Padding(Text(f"right: {_quoted(right)}"), (0, 0, 0, 3), expand=False))
            found.append(Padding(Text(f"rank: {ranks}"), (0, 0, 0, 5), expand=False))
        by_item: dict[str, list[str]] = {}
        for name, first in miss["first"].items():
            by_item.setdefault(_quoted(first) if first else "nothing", []).append(name)
        for text, names in by_item.items():
            found.append(Padding(Text(f"first by {', '.join(names)}: {text}", style="dim"), (0, 0, 0, 3), expand=False))
    if not found:
        return Text(f"Every right item is among the first {report.main_k} results in every mode.")
    return Group(
        Text(f"Right items that are not among the first {report.main_k} (–: not among the first {report.k[-1]})"),
        *found,
    )


def _quoted(item: dict[str, Any]) -> str:
    return f"“{preview(item['content'], 160)}” ({visible(item['id'])})"


def as_json(report: Report, left_out: int, *, misses: bool) -> dict[str, Any]:
    """Return a report for programs. Only the misses hold what was asked and stored."""
    document: dict[str, Any] = {
        "questions": report.questions,
        "left_out": left_out,
        "unknown_lines": [question.line for question in report.unknown],
        "partly_unknown_lines": [question.line for question in report.partly_unknown],
        "scores": [
            {
                "mode": score.mode,
                "embedder": score.embedder or None,
                "recall": {str(cut): score.recall(cut) for cut in report.k},
                "precision": {str(cut): score.precision(cut) for cut in report.k},
                "mrr": score.mrr,
                "results": score.results,
                "milliseconds": score.milliseconds,
            }
            for score in report.scores
        ],
    }
    return document | {"misses": list(_misses(report))} if misses else document


def _misses(report: Report) -> Iterator[dict[str, Any]]:
    """Yield each question with a miss: its right items with their ranks by mode, and what came first in each mode."""
    names = [f"{score.mode} {score.embedder}".rstrip() for score in report.scores]
    for outcomes in zip(*(score.outcomes for score in report.scores), strict=True):
        if any(outcome.recall(report.main_k) < 1 for outcome in outcomes):
            question, right = outcomes[0].question, outcomes[0].right
            ranks = [dict(zip(names, each, strict=True)) for each in zip(*(o.ranks for o in outcomes), strict=True)]
            yield {
                "line": question.line,
                "question": question.question,
                "right": [{**_content(item), "ranks": each} for item, each in zip(right, ranks, strict=True)],
                "first": {
                    name: _content(outcome.first) if outcome.first else None
                    for name, outcome in zip(names, outcomes, strict=True)
                },
            }


def _content(item: MemoryItem) -> dict[str, Any]:
    return {"id": item.id, "content": item.content}


def plotted(report: Report) -> str:
    """Return a plot of recall over the number of results: a panel for the store and each embedder, a line by mode."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for score in report.scores:
        lines = panels.setdefault(score.embedder or "the store", {})
        lines[score.mode] = [(cut, score.recall(cut)) for cut in report.k]
    return svg_plot("How many of the right items are found", "results", "recall", panels, shares=True)
