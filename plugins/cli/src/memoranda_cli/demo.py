"""``memoranda demo``: store a short conversation, close and reopen it, and cut it to what a model may see."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError, PluginError, UnsupportedError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.plugins import how_to_install
from memoranda.store import Capability, dump_item
from memoranda.urls import redacted
from memoranda_cli import options
from memoranda_cli.exits import CommandError, ExitCode
from memoranda_cli.stores import run, say_if_new
from memoranda_cli.terminal import blocks, console, is_narrow, show_json, table

if TYPE_CHECKING:
    from rich.console import Console

    from memoranda.store import BaseStore, RankedItem

ROUNDS = 4
QUESTION = "which seat does she like?"


def demo(
    url: Annotated[
        str | None, typer.Option("--store", "-s", metavar="URL", help="A store of yours, instead of a temporary file.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FILE", help="Keep the conversation in this new SQLite file.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Watch a conversation being stored, reopened and cut to a window.

    It runs on a SQLite file in a temporary folder, which is removed afterwards; --keep FILE keeps it, to try the other
    commands on. On a store of yours it writes under a made-up user, and removes what it wrote.
    """
    terminal = console()
    terminal.quiet = as_json
    if url is not None and keep is not None:
        raise InputError("--keep and --store contradict each other: a store of yours is left as it was.", field="keep")
    if url is not None:
        run(say_if_new(url, {}))
        seen = run(_demo(terminal, url))
    elif keep is not None:
        if keep.exists():
            raise CommandError(f"{keep} exists already; --keep makes a new file.", ExitCode.CONFLICT)
        seen = run(_demo(terminal, _file_url(keep.absolute()), keep, kept=True))
    elif not _is_installed("sqlite"):
        seen = run(_demo(terminal, "memory://"))
    else:
        with tempfile.TemporaryDirectory(prefix="memoranda-demo-") as folder:
            path = Path(folder) / "agent.db"
            seen = run(_demo(terminal, _file_url(path), path))
    if as_json:
        show_json(seen)


def _file_url(path: Path) -> str:
    return f"sqlite:///{path.as_posix().removeprefix('/') if path.drive else path}"


def _is_installed(scheme: str) -> bool:
    from memoranda.plugins import default_registry

    try:
        default_registry().backend(scheme)
    except PluginError:
        return False
    return True


def sample_conversation(owner: MemoryMetadata, start: datetime) -> list[MemoryItem]:
    """Return the demo's conversation: five rounds, parallel calls, a failed one, and one that was never answered."""

    def at(minute: int) -> dict[str, Any]:
        return {"metadata": owner, "created_at": (start + timedelta(minutes=minute)).isoformat()}

    def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
        return {"id": call_id, "name": name, "arguments": arguments}

    def result(call_id: str, name: str, content: str, minute: int, *, failed: bool = False) -> ToolMemory:
        return ToolMemory(content=content, tool_call_id=call_id, tool_name=name, is_error=failed, **at(minute))

    return [
        SystemMemory(content="You are a travel assistant. Never book without asking.", **at(0)),
        HumanMemory(content="Hi, I'm Ada. I like a window seat, and I eat no meat.", **at(0)),
        AIMemory(content="Noted: window seat, vegetarian meals.", **at(0)),
        HumanMemory(content="How is the weekend in Lisbon, and in Porto?", **at(1)),
        AIMemory(
            content="",
            tool_calls=[call("w1", "weather", city="Lisbon"), call("w2", "weather", city="Porto")],
            **at(1),
        ),
        result("w1", "weather", "Lisbon: rain, 14 °C", 1),
        result("w2", "weather", "Porto: sunny, 19 °C", 1),
        AIMemory(content="Porto: 19 °C and sun, while Lisbon gets rain.", **at(1)),
        HumanMemory(content="Then Porto. Hold the 9:12 train for me.", **at(2)),
        AIMemory(content="", tool_calls=[call("t1", "hold_train", train="9:12", to="Porto")], **at(2)),
        result("t1", "hold_train", "seat map unavailable", 2, failed=True),
        AIMemory(content="The railway does not answer. Shall I try again?", **at(2)),
        HumanMemory(content="Yes, and mail me the ticket.", **at(3)),
        # The process was killed here: the mail's result never came.
        AIMemory(
            content="",
            tool_calls=[call("t2", "hold_train", train="9:12", to="Porto"), call("m1", "send_mail", to="ada")],
            **at(3),
        ),
        result("t2", "hold_train", "held: coach 4, seat 21, window", 3),
        HumanMemory(content="Are you still there? Did it work?", **at(4)),
    ]


async def _demo(terminal: Console, url: str, file: Path | None = None, *, kept: bool = False) -> dict[str, Any]:
    """Run the demo, and return what it showed. The owner of what is kept has a name that is easy to type."""
    from memoranda.opening import open as open_store

    user = "ada" if kept else f"demo-{uuid.uuid4().hex[:8]}"
    owner = MemoryMetadata(user_id=user, session_id="trip")
    items = sample_conversation(owner, datetime.now(UTC) - timedelta(minutes=5))
    seen: dict[str, Any] = {"store": redacted(url), "stored": len(items)}
    persists = False
    try:
        async with open_store(url) as store:
            persists = Capability.PERSISTENT in store.capabilities
            _head(terminal, "1", "Stored")
            await store.add_many(items)
            rounds = sum(item.memory_type == "human" for item in items)
            place = file.name if file else redacted(url)
            _line(terminal, f"{len(items)} items in {rounds} rounds, two tool calls in parallel, into {place}.")
            if not persists:
                _line(
                    terminal,
                    f"This store keeps nothing; {how_to_install('memoranda-sqlite')} for one that survives on disk.",
                )
                seen |= await _show(terminal, store, owner)
        if persists:
            size = f" ({_kibibytes(file)} KiB)" if file else ""
            async with open_store(url) as store:
                found = await store.count(metadata=owner)
                _line(terminal, f"Closed{size}, opened again: all {found} are there.")
                seen |= {"found_again": found, **await _show(terminal, store, owner)}
    finally:
        if persists and file is None:
            async with open_store(url) as store:
                await _remove(store, owner)
    if kept:
        _farewell(terminal, f"Kept in {file}.", f"history --user {user} --store {url}", f"inspect --store {url}")
    else:
        _farewell(terminal, "Your turn:", 'add "I like a window seat." --user ada', "search seat --user ada")
    return seen


def _kibibytes(file: Path) -> int:
    return file.stat().st_size // 1024


async def _show(terminal: Console, store: BaseStore, owner: MemoryMetadata) -> dict[str, Any]:
    """Show the window, what is left out, a search and the summary trigger, all read from the store; return them."""
    from memoranda.tokens import estimate_tokens
    from memoranda.windowing import as_said
    from memoranda_cli.render import conversation
    from memoranda_context.explaining import grouped, window_of

    items = as_said([item async for item in store.scan(metadata=owner, archived=False, order="added")])
    window = window_of(items, rounds=ROUNDS, tokens=None, count=estimate_tokens)
    tokens = sum(estimate_tokens(item) for item in window.shown)
    _head(terminal, "2", f"What a model gets: the last {ROUNDS} rounds, about {tokens} tokens")
    terminal.print(_indented(conversation(window.shown)))
    _head(terminal, "3", "What it does not get, and why")
    for reason, group in grouped(window.left_out).items():
        _line(terminal, f"{reason}:", style="yellow")
        terminal.print(_indented(conversation(group), 6))
    _line(terminal, "A model's API refuses half a group, so the answered half stays out as well.")
    found = await _search(terminal, store, owner)
    return {
        "window": [dump_item(item) for item in window.shown],
        "tokens": tokens,
        "left_out": [{"id": item.id, "reason": reason} for item, reason in window.left_out],
        "found": [{"id": ranked.item.id, "score": ranked.score} for ranked in found],
        "summary_due": _trigger(terminal, items),
    }


async def _search(terminal: Console, store: BaseStore, owner: MemoryMetadata) -> list[RankedItem]:
    _head(terminal, "4", f"A search beyond the window: “{QUESTION}”")
    try:
        found = await store.search_ranked(query=QUESTION, metadata=owner, limit=2, mode="text")
    except UnsupportedError as error:  # No ranker is installed, or MEMORANDA_PLUGINS allows none.
        _line(terminal, str(error))
        return []
    from memoranda_cli.render import content_lines, speaker

    rows = [
        (f"{ranked.score:.2f}", speaker(ranked.item), content_lines(ranked.item)[0], ", ".join(ranked.terms))
        for ranked in found
    ]
    if is_narrow():
        terminal.print(_indented(blocks([(score, who, terms, content) for score, who, content, terms in rows])))
    else:
        terminal.print(_indented(table("score", "who", "content", "matched", rows=rows)))
    return found


def _trigger(terminal: Console, items: Sequence[MemoryItem]) -> dict[str, bool]:
    """Return if a summary is due for each of two thresholds."""
    from memoranda_summary import SummaryConfig, check_trigger

    _head(terminal, "5", "Time for a summary?")
    due = {}
    for threshold in (20, 12):
        result = check_trigger(items, SummaryConfig(message_threshold=threshold))
        verdict = f"yes: {result.reason}" if result.triggered else f"no: {result.message_count} messages are within it"
        _line(terminal, f"With a threshold of {threshold}, {verdict}.")
        due[str(threshold)] = result.triggered
    _line(terminal, "'memoranda compact' replaces them with a summary; 'memoranda undo' brings them back.")
    return due


def _head(terminal: Console, number: str, title: str) -> None:
    from rich.text import Text

    terminal.print()
    terminal.print(Text.assemble((f" {number} ", "reverse"), " ", (title, "bold")))


def _line(terminal: Console, text: str, style: str = "") -> None:
    from rich.text import Text

    terminal.print(_indented(Text(text, style=style)))


def _indented(what: Any, columns: int = 4) -> Any:
    from rich.padding import Padding

    return Padding(what, (0, 0, 0, columns), expand=False)


def _farewell(terminal: Console, first: str, *lines: str) -> None:
    from rich.text import Text

    terminal.print()
    terminal.print(first, overflow="fold")
    for line in lines:
        terminal.print(Text(f"  memoranda {line}", style="bold"), soft_wrap=True)


async def _remove(store: BaseStore, owner: MemoryMetadata) -> None:
    if Capability.PURGE in store.capabilities:
        await store.purge(metadata=owner)
    else:
        await store.clear(metadata=owner)
