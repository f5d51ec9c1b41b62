"""``memoranda conform``: run the conformance kit against the store at a URL, and print a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.plugins import how_to_install
from memoranda.urls import redacted, scheme_of
from memoranda_commands import options
from memoranda_commands.characters import preview, visible
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.terminal import progress, say, show, show_json, table

if TYPE_CHECKING:
    from memoranda_testing.runner import Report

_MARKS = {"passed": ("✔", "green"), "failed": ("✘", "red"), "skipped": ("–", "dim"), "not reached": ("?", "yellow")}


def conform(
    url: Annotated[str, typer.Argument(metavar="URL", help="The store to test, such as sqlite:///test.db")],
    only: Annotated[
        str | None, typer.Option("--only", "-k", metavar="TEXT", help="Run the cases with this text in their names.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show the cases that passed, too.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds after which a case counts as not reached.")
    ] = 120,
    thorough: Annotated[
        bool, typer.Option("--thorough/--quick", help="Let random cases take minutes instead of seconds.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="What random cases draw from: the same for the same seed.")] = 0,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Test a store against everything the protocol promises.

    Every case writes under a user that it makes up, and removes what it wrote, so a store that holds other memories is
    safe. Cases that would have to look at the whole store or move its clock are skipped, except for memory://. The exit
    code is 0 if every case was played to its end and none failed, and 1 otherwise.
    """
    from memoranda.opening import open as open_store
    from memoranda_commands.stores import run, say_if_new

    try:
        from memoranda_testing.cases import TOPICS, case_names
        from memoranda_testing.runner import check_store
    except ModuleNotFoundError as error:
        if error.name != "memoranda_testing":
            raise
        raise CommandError(
            f"The kit is a distribution of its own. Try: {how_to_install('memoranda-testing')}"
        ) from None

    further = options.pairs(store_options, "--option")
    run(say_if_new(url, further))
    names = [name for topic in TOPICS for name in case_names(topic) if only is None or only in name]
    with progress(f"testing {redacted(url)}", len(names)) as advance:
        report = run(
            check_store(
                lambda: open_store(url, **further),
                # Only memory:// always opens a new, empty store.
                exclusive=scheme_of(url) == "memory",
                select=set(names).__contains__,
                timeout=timeout,
                thorough=thorough,
                seed=seed,
                on_result=lambda result: advance(1),
            )
        )
    if as_json:
        show_json(report.to_json())
    else:
        _show(report, everything)
    if not report.conforms:
        raise typer.Exit(ExitCode.FAILED)


def _show(report: Report, everything: bool) -> None:
    from rich.text import Text

    topics: dict[str, dict[str, int]] = {}
    for result in report.results:
        counts = topics.setdefault(result.topic, dict.fromkeys(_MARKS, 0))
        counts[result.outcome] += 1
    right = {"justify": "right", "no_wrap": True}
    rows = [(topic, *(str(counts[outcome] or "") for outcome in _MARKS)) for topic, counts in topics.items()]
    show(table("topic", *((outcome, right) for outcome in _MARKS), rows=rows))
    shown = [result for result in report.results if everything or result.outcome in ("failed", "not reached")]
    for result in shown:
        mark, style = _MARKS[result.outcome]
        line = Text(f"{mark} {result.name}", style=style)
        line.append(f"  {preview(result.title)}", style="default")
        show(line)
        if result.reason:
            show(Text(f"    {visible(result.reason)}", style="dim"))
    skipped: dict[str, int] = {}
    for result in report.of(report.results[0].outcome.__class__("skipped")) if report.results else ():
        skipped[result.reason] = skipped.get(result.reason, 0) + 1
    for reason, times in skipped.items():
        show(Text(f"{times} skipped: {visible(reason)}", style="dim"))
    for result in report.of(report.results[0].outcome.__class__("passed")) if report.results else ():
        if result.reason:
            show(Text(f"{result.name}: {visible(result.reason)}", style="dim"))
    totals = {outcome: sum(counts[outcome] for counts in topics.values()) for outcome in _MARKS}
    unreached = f", {totals['not reached']} not reached" if totals["not reached"] else ""
    verdict = "conforms" if report.conforms else "does not conform"
    summary = f"{totals['passed']} passed, {totals['failed']} failed{unreached}, in {report.seconds:.1f} s."
    show(Text(f"{visible(report.store)} {verdict}: {summary}"))
    if not report.results:
        say("No case has that text in its name.")
