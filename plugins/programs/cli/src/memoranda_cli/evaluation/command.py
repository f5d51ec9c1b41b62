"""``memoranda eval``: measure what search finds, or propose questions to measure it with."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.errors import InputError
from memoranda.loops import in_slices
from memoranda_cli.plot import check_plot, svg_plot, write_plot
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import agree, counted, preview, progress, say, show, show_json, table, visible
from memoranda_commands.values import whole_numbers

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memoranda.items import MemoryItem
    from memoranda.store import Store
    from memoranda_cli.evaluation.evaluating import Report
    from memoranda_cli.evaluation.questions import EvalQuestion, QuestionFile


MAKING = "Proposing questions"
BATCH = 200
"""How many items are loaded at once."""


class Mode(StrEnum):
    """A way of searching that is measured."""

    TEXT = "text"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"
    RECALL = "recall"


@options.scoped
def evaluation(
    file: Annotated[
        Path | None, argument("[FILE]", "The questions: one JSON object a line, or LoCoMo's format.")
    ] = None,
    modes: Annotated[list[Mode] | None, option("--mode -m MODE", "Only this mode; may be repeated.")] = None,
    embedders: Annotated[
        list[str] | None, option("--embedder -e NAME", "Also with this embedder, on a copy; may be repeated.")
    ] = None,
    k: Annotated[str, option("-k N,N,...", "The numbers of results to look at.")] = "1,5,10,20",
    misses: Annotated[bool, option("--misses", "List what was not found, with its content.", options.OUTPUT)] = False,
    plot: Annotated[Path | None, option("--plot FILE", "Write a plot of recall, as SVG.", options.OUTPUT)] = None,
    make: Annotated[
        Path | None, option("--make FILE", "Write questions made of the store's own words.", MAKING)
    ] = None,
    count: Annotated[int, option("-n", "How many to make.", MAKING, min=1)] = 50,
    seed: Annotated[int, option("--seed", "Another seed makes others.", MAKING)] = 0,
    yes: options.Yes = False,
    *,
    target: options.Target,
) -> None:
    """Measure if search finds the right memories, by questions whose right items are known.

    A line of FILE is `{"question": "...", "ids": ["..."], "user_id": "..."}`; `texts` may name the items instead.
    --user and the like apply to lines that name no owner. No model is asked, and the store is only read: --embedder
    measures a temporary copy in memory. The conversations of a LoCoMo file are loaded into a temporary store or, with
    --store, into that one under made-up users, and removed in the end.
    """
    from memoranda_cli.evaluation.questions import PROXY, make_questions, question_lines, read_questions
    from memoranda_commands.exits import run
    from memoranda_commands.files import whole_file

    if (file is None) == (make is None):
        raise InputError("Name a FILE of questions to ask, or --make FILE to have some proposed.", field="file")
    if make is not None:
        if make.exists():
            agree(f"Replace {make}?", yes=yes)
        made = target.run(lambda store: make_questions(store, count, metadata=target.metadata, seed=seed))
        with whole_file(make) as output:
            output.writelines(question_lines(made, PROXY))
        document = {"file": str(make), "count": len(made), "proxy": PROXY}
        target.report(document, f"{len(made):,} questions are in {make}. {PROXY}")
        return
    assert file is not None
    if not file.is_file():
        raise CommandError(f"There is no file {str(file)!r}.", ExitCode.NOT_FOUND)
    if plot is not None:
        check_plot(plot)
    cuts = whole_numbers(k, "-k")
    read = read_questions(file, default=target.metadata, prefix=f"memoranda-eval-{uuid.uuid4().hex[:12]}/")
    report = run(_evaluated(read, target, modes, embedders or [], cuts))
    _print(report, read, misses=misses, as_json=target.as_json, hint=not embedders and not modes)
    if plot is not None:
        write_plot(plot, plotted(report))


async def _evaluated(
    read: QuestionFile,
    target: options.Target,
    modes: list[Mode] | None,
    embedders: list[str],
    cuts: list[int],
) -> Report:
    from memoranda_cli.evaluation.evaluating import evaluate

    chosen: Any = [mode.value for mode in modes] if modes else None
    async with _under_test(read, target) as store:
        return await evaluate(store, read.questions, modes=chosen, embedders=embedders, k=cuts, progress=progress)


@asynccontextmanager
async def _under_test(read: QuestionFile, target: options.Target) -> AsyncIterator[Store]:
    """Give the store to ask: for LoCoMo's conversations one that holds their turns, which are removed in the end."""
    from memoranda.items import MemoryMetadata
    from memoranda_commands.stores import remove_owners

    if not read.items:
        async with target.opened() as store:
            yield store
    elif target.url is None:
        say("The conversations are loaded into a temporary store.")
        async with replace(target, url="sqlite://").unopened("create") as store:
            await _load(store, read.items)
            yield store
    else:
        async with target.opened("create") as store:
            try:
                await _load(store, read.items)
                yield store
            finally:
                users = dict.fromkeys(item.metadata.user_id for item in read.items)
                # Ctrl-C cancels this task once; the removal still finishes.
                await asyncio.shield(remove_owners(store, *(MemoryMetadata(user_id=user) for user in users)))


async def _load(store: Store, items: Sequence[MemoryItem]) -> None:
    with progress("loading", len(items)) as advance:
        async for batch in in_slices(items, BATCH):
            await store.add_many(batch)
            advance(len(batch))


def _print(report: Report, read: QuestionFile, *, misses: bool, as_json: bool, hint: bool) -> None:
    if as_json:
        show_json(report_json(report, read.left_out, misses=misses))
        return
    show(table_of(report))
    say(summary(report, read))
    for embedder in dict.fromkeys(score.embedder for score in report.scores if score.embedder):
        say(f"{embedder} was measured on a temporary copy in memory; the store keeps its own vectors.")
    if hint and (names := _embedders_to_try(report)):
        say(f"Search by meaning was not measured: try --embedder {names[0]}.")
    if misses:
        show(misses_of(report))


def _embedders_to_try(report: Report) -> list[str]:
    """Return the installed embedders, if no score compares meanings; those that call no service come first."""
    from memoranda.plugins import EmbeddingsSpec, default_registry

    if any(score.mode == "semantic" for score in report.scores):
        return []
    names = [spec.name for spec in default_registry().specs(EmbeddingsSpec) if spec.name != "hashing"]
    return sorted(names, key=lambda name: (name != "static", name))


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


def report_json(report: Report, left_out: int, *, misses: bool) -> dict[str, Any]:
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
