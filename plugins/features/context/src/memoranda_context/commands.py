"""``memoranda context``: show the window that a model would get, what is left out, and why.

Only the command imports this module.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda.plugins import default_registry
from memoranda.store.backend import as_one_session
from memoranda.windowing import as_said
from memoranda_commands import options
from memoranda_commands.options import option
from memoranda_commands.terminal import preview, say, show, show_json
from memoranda_context.explaining import Window, grouped, window_of
from memoranda_context.prompt import WRITERS
from memoranda_messages import results_behind_calls

if TYPE_CHECKING:
    from memoranda.items import MemoryItem, MemoryMetadata
    from memoranda.store import Store
    from memoranda_context.prompt import AssembledContext


DEFAULT_TOKENS = 4_000
"""The budget of a prompt for a question, if none is given."""

MOST_NAMED = 3
"""How many summaries are named that stand for items that are left out; more are only counted."""


class Format(StrEnum):
    """How the window is written."""

    TEXT = "text"
    OPENAI = "openai"
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"


@options.filtered
@options.scoped
def context(
    which: options.Which = None,
    question: Annotated[
        str | None,
        option("--question -q", "Show the whole prompt for a question, with what is remembered for it."),
    ] = None,
    everything: Annotated[bool, option("--all", "All owners' items together.")] = False,
    rounds: Annotated[int | None, option("--rounds -r", "Only so many of the last rounds.", min=0)] = None,
    tokens: Annotated[
        int | None,
        option("--tokens -t", "Only as many of the newest rounds as fit into so many tokens.", min=0),
    ] = None,
    counter: Annotated[str, option("--counter", "The installed token counter to use.")] = "estimate",
    form: Annotated[
        Format, option("--format -f FORM", "text, openai, responses or anthropic: how to write it.")
    ] = Format.TEXT,
    explain: Annotated[bool, option("--explain -e", "Print what was left out, and why.")] = False,
    receipt: Annotated[bool, option("--receipt", "Record what is shown; 'memoranda receipts' shows it again.")] = False,
    *,
    target: options.Target,
) -> None:
    """Show the window that a model would get.

    Rounds are whole, system items stay, and a tool call is shown only with all its results. --format openai,
    responses and anthropic print the messages as JSON, ready to be sent. With --question it is the whole prompt, as
    assemble() makes it: what is known, what was said before, the conversation and the memories for the question.
    """
    from memoranda_commands.exits import run

    metadata, count = target.metadata, default_registry().token_counter(counter)
    if question is not None:
        if metadata is None:
            raise InputError("A prompt is made for somebody; name an owner (--user, --session, …).", field="metadata")
        budget = DEFAULT_TOKENS if tokens is None else tokens
        assembled = run(_assembled(target, metadata, question, budget, count, receipt))
        _show_assembled(assembled, form, explain=explain, as_json=target.as_json)
        return
    if metadata is None and not everything:
        raise InputError(
            "A window without an owner would mix the items of all users; name one (--user, --session, …) or --all.",
            field="metadata",
        )
    wanted = {"metadata": metadata, **which}
    items, archived = target.run(lambda store: _read(store, wanted, archived=explain or target.as_json))
    window = window_of(items, rounds=rounds, tokens=tokens, count=count)
    summaries = {item.archived_by for item in archived}
    stands = "the summary {} stands for it"
    if len(summaries) > MOST_NAMED and not target.as_json:
        stands = f"{len(summaries)} summaries stand for them"
    left_out = [*((item, stands.format(item.archived_by)) for item in archived), *window.left_out]
    used = sum(count(item) for item in window.shown)
    if receipt:
        asked = {"rounds": rounds, "tokens": tokens, **which}
        chosen: dict[str, Any] = {"asked": asked, "counter": count, "looked_at": [items]}
        target.run(
            lambda store: store.shown(window.shown, receipt=True, owner=metadata, tokens=used, **chosen), "change"
        )
    if target.as_json:
        show_json(_as_json(window, left_out, used))
        return
    _show(window.shown, form)
    size = f"{len(window.shown)} of {len(items) + len(archived)} items, about {used} tokens"
    if explain:
        show_left_out(left_out)
        say(f"{size}.")
    elif left_out:
        say(f"{size}; --explain says what was left out and why.")


async def _assembled(
    target: options.Target,
    metadata: MemoryMetadata,
    question: str,
    tokens: int,
    count: Callable[[MemoryItem], int],
    receipt: bool,
) -> AssembledContext:
    """Return the prompt for a question; the store is written only to record a receipt."""
    from memoranda_commands.stores import facts_option
    from memoranda_context.assembling import assemble_context

    target = target.named()
    known = facts_option("stored", target.url or "", target.options)
    target = replace(target, options=[*(target.options or ()), *(f"{name}={value}" for name, value in known.items())])
    owner = {name: value for name, value in metadata.model_dump(exclude={"extra"}).items() if value not in (None, ())}
    async with target.opened("change" if receipt else "read") as store:
        handle = store.scoped(**owner)
        return await assemble_context(handle, question, tokens=tokens, counter=count, receipt=receipt or None)


def _show_assembled(context: AssembledContext, form: Format, *, explain: bool, as_json: bool) -> None:
    explanation = context.explain()
    if as_json:
        left_out = [{"id": each.item_id, "reason": each.reason} for each in explanation.dropped]
        shown = {"tokens": context.tokens, "reusable": explanation.reusable, "left_out": left_out}
        show_json({"messages": context.messages("openai"), **shown})
        return
    typer.echo(str(context) if form is Format.TEXT else _messages_json(form, context.parts.items()))
    if explain:
        say(str(explanation))
    else:
        say(f"About {context.tokens} tokens, of which a cache can reuse {explanation.reusable}; --explain says why.")


def show_left_out(left_out: Sequence[tuple[MemoryItem, str]]) -> None:
    """Print how much was left out, from which time and why, to standard error: it is not part of the window."""
    from rich.text import Text

    from memoranda_commands.render import content_lines, speaker
    from memoranda_commands.terminal import console, items_text, table

    terminal = console(stderr=True)
    if not left_out:
        terminal.print(Text("Nothing was left out.", style="dim"))
        return
    rows = []
    for reason, items in grouped(left_out).items():
        last = items[-1]
        rows.append(
            (items_text(len(items)), _when(items), reason, f"{speaker(last)}: {preview(content_lines(last)[0], 40)}")
        )
    columns = (("left out", {"no_wrap": True}), "from, to (UTC)", "why", "the last of them")
    terminal.print(table(*columns, rows=rows))


def _when(items: Sequence[MemoryItem]) -> str:
    """Return the time span of items that are given oldest first."""
    first, last = (items[end].created_at[:16].replace("T", " ") for end in (0, -1))
    return first if first == last else f"{first}\n{last}"


async def _read(store: Store, wanted: dict[str, Any], *, archived: bool) -> tuple[list[MemoryItem], list[MemoryItem]]:
    """Return the items that are wanted, and those of them that are archived, if these are asked for."""
    session = None if wanted["metadata"] is None else wanted["metadata"].session_id
    found = [item async for item in store.scan(archived=False, order="added", **wanted)]
    live = as_said(as_one_session(found, session))
    return live, [item async for item in store.scan(archived=True, order="added", **wanted)] if archived else []


def _show(items: Sequence[MemoryItem], form: Format) -> None:
    if form is Format.TEXT:
        from memoranda_commands.render import conversation

        show(conversation(results_behind_calls(items)))
    else:
        typer.echo(_messages_json(form, items))


def _messages_json(form: Format, items: Sequence[MemoryItem]) -> str:
    messages = WRITERS[form](items)
    if form is Format.ANTHROPIC:
        messages = {"system": messages[0], "messages": messages[1]}
    return json.dumps(messages, ensure_ascii=False, indent=2)


def _as_json(window: Window, left_out: Sequence[tuple[MemoryItem, str]], tokens: int) -> dict[str, Any]:
    from memoranda.store import dump_item

    return {
        "items": [dump_item(item) for item in window.shown],
        "tokens": tokens,
        "left_out": [{"id": item.id, "reason": reason} for item, reason in left_out],
    }
