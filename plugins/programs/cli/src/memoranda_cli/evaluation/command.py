"""``memoranda eval``: measure what search finds, or propose questions to measure it with."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda.offloading import in_slices
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.terminal import agree, progress, say, show, show_json
from memoranda_commands.values import whole_numbers

if TYPE_CHECKING:
    from memoranda.items import MemoryItem
    from memoranda.store import Store
    from memoranda_cli.evaluation.evaluating import Report
    from memoranda_cli.evaluation.questions import QuestionFile

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
        Path | None, typer.Argument(metavar="[FILE]", help="The questions: one JSON object a line, or LoCoMo's format.")
    ] = None,
    modes: Annotated[
        list[Mode] | None,
        typer.Option("--mode", "-m", metavar="MODE", help="Only this mode; may be repeated."),
    ] = None,
    embedders: Annotated[
        list[str] | None,
        typer.Option("--embedder", "-e", metavar="NAME", help="Also with this embedder, on a copy; may be repeated."),
    ] = None,
    k: Annotated[str, typer.Option("-k", metavar="N,N,...", help="The numbers of results to look at.")] = "1,5,10,20",
    misses: Annotated[
        bool,
        typer.Option("--misses", help="List what was not found, with its content.", rich_help_panel=options.OUTPUT),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Write a plot of recall, as SVG.", rich_help_panel=options.OUTPUT),
    ] = None,
    make: Annotated[
        Path | None,
        typer.Option(
            "--make", metavar="FILE", help="Write questions made of the store's own words.", rich_help_panel=MAKING
        ),
    ] = None,
    count: Annotated[int, typer.Option("-n", min=1, help="How many to make.", rich_help_panel=MAKING)] = 50,
    seed: Annotated[int, typer.Option("--seed", help="Another seed makes others.", rich_help_panel=MAKING)] = 0,
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
    from memoranda_cli.evaluation.making import PROXY, make_questions
    from memoranda_cli.evaluation.printing import plotted
    from memoranda_cli.evaluation.questions import question_lines, read_questions
    from memoranda_cli.plot import check_plot, write_plot
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
    from memoranda_cli.evaluation import printing

    if as_json:
        show_json(printing.as_json(report, read.left_out, misses=misses))
        return
    show(printing.table_of(report))
    say(printing.summary(report, read))
    for embedder in dict.fromkeys(score.embedder for score in report.scores if score.embedder):
        say(f"{embedder} was measured on a temporary copy in memory; the store keeps its own vectors.")
    if hint and (names := _embedders_to_try(report)):
        say(f"Search by meaning was not measured: try --embedder {names[0]}.")
    if misses:
        show(printing.misses_of(report))


def _embedders_to_try(report: Report) -> list[str]:
    """Return the installed embedders, if no score compares meanings; those that call no service come first."""
    from memoranda.plugins import EmbeddingsSpec, default_registry

    if any(score.mode == "semantic" for score in report.scores):
        return []
    names = [spec.name for spec in default_registry().specs(EmbeddingsSpec) if spec.name != "hashing"]
    return sorted(names, key=lambda name: (name != "static", name))
