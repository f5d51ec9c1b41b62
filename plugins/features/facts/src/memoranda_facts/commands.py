"""``memoranda facts``. Only the command imports this module."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from memoranda.errors import InputError
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode, not_found
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import blocks, counted, is_narrow, progress, say, show, show_json, table, visible

if TYPE_CHECKING:
    from memoranda.store import Access, Store
    from memoranda_facts import Fact, Facts, Receipt, Why
    from memoranda_facts.extraction import ExtractionReport

app = typer.Typer(add_completion=False, no_args_is_help=True, help="What is true now, since when and why.")

T = TypeVar("T")

One = Annotated[
    list[str] | None,
    option("--one NAME", "A predicate with one value at a time, besides lives_in and the like."),
]
Id = Annotated[str, argument("ID", "A fact's id, as 'facts list' shows it.")]
Subject = Annotated[str, argument("SUBJECT", "Who or what it is about.")]
PredicateName = Annotated[str, argument("PREDICATE", "What is said of it, such as lives_in.")]
From = Annotated[
    list[str] | None,
    option("--source ID", "An item that says so; may be repeated. By default it is your word."),
]


@app.command("list")
@options.scoped
def list_(
    subject: Annotated[str | None, argument("SUBJECT", "Only of this subject.")] = None,
    predicate: Annotated[str | None, argument("PREDICATE", "Only of this predicate.")] = None,
    at: Annotated[str | None, option("--at DATE", "What held then: 2026, 2026-03 or an ISO-8601 time.")] = None,
    known: Annotated[str | None, option("--known DATE", "As it was known then.")] = None,
    history: Annotated[bool, option("--history", "Ended, superseded and retracted values, too.")] = False,
    one: One = None,
    *,
    target: options.Target,
) -> None:
    """List what holds now, or held at a date."""
    if history and (at or known):
        raise InputError("--history shows all times; leave --at and --known out.", field="history")

    async def work(facts: Facts) -> list[Fact]:
        if history:
            return await facts.history(subject, predicate)
        return await facts.state(valid=at, known=known, subject=subject, predicate=predicate)

    _show_facts(_run(target, one, work), target.as_json)


@app.command()
@options.scoped
def why(
    fact_id: Annotated[str, argument("ID|SUBJECT", "A fact's id, or whom or what it is about.")],
    predicate: Annotated[
        str | None, argument("PREDICATE", "With a subject: what is said of it, such as lives_in.")
    ] = None,
    one: One = None,
    *,
    target: options.Target,
) -> None:
    """Show what supports a fact, what proposed it, and what it replaced.

    With a subject and a predicate, that is the fact that holds now, or else the last one that did.
    """

    async def work(facts: Facts) -> Why:
        if predicate is None:
            return await facts.why(await _found(facts, fact_id))
        return await facts.why(await _found_of(facts, fact_id, predicate))

    _show_why(_run(target, one, work), target.as_json)


@app.command("set")
@options.scoped
def set_(
    subject: Subject,
    predicate: PredicateName,
    value: Annotated[str, argument("VALUE", "The value.")],
    since: Annotated[str | None, option("--since DATE", "Since when it holds.")] = None,
    until: Annotated[str | None, option("--until DATE", "Until when it held.")] = None,
    source: From = None,
    one: One = None,
    *,
    target: options.Target,
) -> None:
    """Record a fact."""

    def work(facts: Facts) -> Coroutine[Any, Any, Receipt]:
        return facts.set(subject, predicate, value, valid_from=since, valid_to=until, sources=source or "manual")

    _show_receipt(target, _run(target, one, work, "create"))


@app.command()
@options.scoped
def end(
    subject: Subject,
    predicate: PredicateName,
    value: Annotated[str | None, argument("VALUE", "Which value ended; by default all of them.")] = None,
    at: Annotated[str | None, option("--at DATE", "When it ended; by default now.")] = None,
    source: From = None,
    one: One = None,
    *,
    target: options.Target,
) -> None:
    """Record that a fact stopped being true."""

    def work(facts: Facts) -> Coroutine[Any, Any, Receipt]:
        return facts.end(subject, predicate, value, at=at, sources=source or "manual")

    _show_receipt(target, _run(target, one, work, "change"))


@app.command()
@options.scoped
def correct(
    fact_id: Id,
    value: Annotated[str | None, argument("VALUE", "What was true instead, if known.")] = None,
    source: From = None,
    one: One = None,
    *,
    target: options.Target,
) -> None:
    """Record that a fact was never true."""

    async def work(facts: Facts) -> Receipt:
        return await facts.correct(await _found(facts, fact_id), value, sources=source or "manual")

    _show_receipt(target, _run(target, one, work, "change"))


@app.command()
@options.scoped
def undo(
    change: Annotated[str, argument("ID", "A change's id, or a fact's: what recorded it.")],
    one: One = None,
    *,
    target: options.Target,
) -> None:
    """Undo a change, as if it had never been recorded. An undo can be undone, too."""
    with not_found(InputError):
        receipt = _run(target, one, lambda facts: facts.undo(change), "change")
    _show_receipt(target, receipt)


@app.command()
@options.scoped
def profile(
    tokens: Annotated[int, option("--tokens", "The most estimated tokens.", min=1)] = 200,
    one: One = None,
    *,
    target: options.Target,
) -> None:
    """Print what holds now as a compact text, for a prompt."""
    text = _run(target, one, lambda facts: facts.profile(tokens=tokens))
    if target.as_json:
        show_json({"profile": text})
    elif text:
        from rich.text import Text

        show(Text(visible(text)))
    else:
        say("Nothing is known yet.")


@app.command()
@options.scoped
def extract(
    extractor: Annotated[str, option("--extractor NAME", "An installed extractor.")] = "rules",
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    price: Annotated[
        str | None,
        option("--price IN,OUT", "What a million tokens cost, to show what was spent: 0.25,2.", options.MODEL),
    ] = None,
    one: One = None,
    dry_run: options.DryRun = False,
    *,
    target: options.Target,
) -> None:
    """Read new utterances and record their facts. A run that is stopped continues the next time."""
    from memoranda_facts.extraction import ExtractionReport, ExtractionRun, installed_extractor

    prices = _prices(price)
    named: dict[str, Any] = {"model": model, "base_url": base_url}
    if model is not None and extractor == "rules":
        extractor = "model"
    made = installed_extractor(extractor, **{name: value for name, value in named.items() if value is not None})

    async def work(facts: Facts) -> tuple[ExtractionReport, int]:
        reading = ExtractionRun(facts, made)
        waiting = await reading.waiting()
        if dry_run:
            return ExtractionReport(), waiting
        try:
            with progress("reading", waiting) as done:
                return await reading.run(lambda more, _: done(more)), 0
        finally:
            if (close := getattr(made, "aclose", None)) is not None:
                await close()

    report, waiting = _run(target, one, work, "read" if dry_run else "change")
    _show_report(target, report, waiting, dry_run, prices)


def _prices(given: str | None) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        into, out = (float(part) for part in given.split(","))
    except ValueError:
        raise InputError("--price takes two numbers, such as 0.25,2.", field="price") from None
    return into, out


def _show_report(
    target: options.Target,
    report: ExtractionReport,
    waiting: int,
    dry_run: bool,
    prices: tuple[float, float] | None,
) -> None:
    usage = report.usage
    cost = None
    if prices is not None:
        cost = round((usage.input_tokens * prices[0] + usage.output_tokens * prices[1]) / 1_000_000, 6)
    document = {
        "dry_run": dry_run,
        "waiting": waiting,
        "read": report.read,
        "proposed": report.proposed,
        "applied": report.applied,
        "unread": report.unread,
        "rejected": dict(report.rejected),
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": cost,
        "changes": report.changes,
    }
    if dry_run:
        target.report(document, f"{counted(waiting, 'utterance')} would be read.")
        return
    sentences = [f"Read: {counted(report.read, 'utterance')}. New: {counted(report.applied, 'fact')}."]
    if usage.requests:
        spent = "" if cost is None else f", {cost:,.4f} in all"
        tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
        sentences.append(f"{counted(usage.requests, 'request')}: {tokens}{spent}.")
    for reason, number in report.rejected.most_common():
        sentences.append(f"Refused: {counted(number, 'proposal')} ({reason}).")
    if report.unread:
        sentences.append(f"Not readable: {counted(report.unread, 'utterance')}; the next run tries again.")
    target.report(document, *sentences)


def _run(
    target: options.Target,
    one: list[str] | None,
    work: Callable[[Facts], Coroutine[Any, Any, T]],
    access: Access = "read",
) -> T:
    from memoranda_facts import Facts
    from memoranda_facts.extraction import everyday_schema

    metadata = target.metadata
    if metadata is None or not (metadata.user_id or metadata.agent_id or metadata.namespace):
        raise InputError("Facts belong to a user: name them with --user ID.", field="user")
    if metadata.session_id is not None or metadata.task_id is not None or metadata.extra:
        raise InputError(
            "Facts belong to a user, not to one conversation: leave --session, --task and --extra out.", field="session"
        )
    named = {name: getattr(metadata, name) for name in ("user_id", "agent_id", "namespace")}

    async def on_facts(store: Store) -> T:
        handle = store.scoped(**{name: value for name, value in named.items() if value})
        return await work(Facts(handle, schema=everyday_schema(one or ())))

    return target.run(on_facts, access)


async def _found(facts: Facts, given: str) -> Fact:
    fact = await facts.get(given)
    if fact is None:
        raise CommandError(
            "There is no fact with this id; 'memoranda facts list --history' shows all.", ExitCode.NOT_FOUND
        )
    return fact


async def _found_of(facts: Facts, subject: str, predicate: str) -> Fact:
    """Return the current fact of a subject, or the last one. Raises CommandError if there are several."""
    from memoranda_facts.records import short_id

    held = await facts.state(subject=subject, predicate=predicate)
    if len(held) > 1:
        values = ", ".join(f"{fact.object} ({short_id(fact.id)})" for fact in held)
        raise CommandError(
            f"{subject} {predicate} has several values: {values}. Give the id of one.",
            ExitCode.USAGE,
            {"candidates": [fact.id for fact in held]},
        )
    past = held or await facts.history(subject, predicate)
    if not past:
        raise CommandError(
            f"Nothing is known about {subject} {predicate}; 'memoranda facts list --history' shows all facts.",
            ExitCode.NOT_FOUND,
        )
    return past[-1]


def _when(fact: Fact) -> str:
    since = "" if fact.valid_from in (None, "..") else _day(fact.valid_from)
    return f"{since} – {_day(fact.valid_to)}" if fact.valid_to is not None else since


def _day(moment: str | None) -> str:
    """Return a moment for people: a coarse date unchanged, a time as its day."""
    return (moment or "")[:10]


def _show_facts(found: list[Fact], as_json: bool) -> None:
    from memoranda_facts.records import short_id
    from memoranda_facts.tools import described

    if as_json:
        show_json({"facts": [described(fact) for fact in found]})
        return
    if not found:
        say("Nothing is known.")
        return
    rows = [
        (short_id(fact.id), fact.subject, fact.predicate, str(fact.object), _when(fact), _state(fact)) for fact in found
    ]
    if is_narrow():
        show(blocks((mark, when, state, f"{who} {what}: {value}") for mark, who, what, value, when, state in rows))
        return
    whole = {"no_wrap": True}
    show(table(("id", whole), "subject", "predicate", "value", ("since", whole), ("", whole), rows=rows))


def _state(fact: Fact) -> str:
    return "" if fact.state == "holds" else fact.state


def _show_why(explained: Why, as_json: bool) -> None:
    from rich.text import Text

    from memoranda_facts.records import short_id
    from memoranda_facts.tools import described

    groups = {"replaced": explained.replaced, "replaced by": explained.replaced_by, "against": explained.against}
    if as_json:
        show_json(
            {
                "fact": described(explained.fact),
                "rule": explained.rule,
                "decided_by": explained.decided_by,
                "sources": [
                    {"item": each.source.item_id or None, "text": each.text, "rule": each.rule}
                    for each in explained.sources
                ],
                **{name.replace(" ", "_"): [described(fact) for fact in facts] for name, facts in groups.items()},
            }
        )
        return
    lines = [
        Text(visible(str(explained.fact)), style="bold"),
        Text(f"  {explained.fact.state}: {visible(explained.decided_by)}"),
    ]
    for each in explained.sources:
        place = f"item {each.source.item_id}" if each.source.item_id else "entered by hand"
        lines.append(Text(f"  {visible(place)}, by {visible(each.rule)}"))
        if each.text is not None:
            lines.append(Text(f"    “{visible(each.text)}”"))
    for name, facts in groups.items():
        lines += [Text(f"  {name}: {visible(str(fact))} ({short_id(fact.id)})") for fact in facts]
    show(*lines)


def _show_receipt(target: options.Target, receipt: Receipt) -> None:
    document = {
        "change": receipt.id,
        "kind": receipt.kind,
        "entries": list(receipt.entries),
        "replaced": list(receipt.replaced),
        "disputed": list(receipt.disputed),
        "unsure": list(receipt.unsure),
        "new": receipt.new,
    }
    if not receipt.new:
        target.report(document, "Nothing was changed: it was recorded before.")
        return
    outcomes = (
        (receipt.replaced, "does not hold any more", "do not hold any more"),
        (receipt.disputed, "is disputed", "are disputed"),
        (receipt.unsure, "is unsure", "are unsure"),
    )
    target.report(
        document,
        *(f"{counted(len(ids), 'fact')} {one if len(ids) == 1 else several}." for ids, one, several in outcomes if ids),
        f"Done; memoranda facts undo {receipt.id} takes it back.",
    )
