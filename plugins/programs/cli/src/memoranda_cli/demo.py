"""``memoranda demo``: store a short conversation, reopen it, cut it to what a model may see, and remember it later."""

from __future__ import annotations

import tempfile
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.errors import InputError, PluginError, UnsupportedError
from memoranda.items import MemoryMetadata
from memoranda.plugins import how_to_install
from memoranda.store import Capability, dump_item
from memoranda.urls import redacted
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.options import option
from memoranda_commands.sample_data import earlier_sessions, sample_conversation
from memoranda_commands.stores import facts_option, remove_owners, run, say_if_new
from memoranda_commands.terminal import blocks, console, is_narrow, show_json, table

if TYPE_CHECKING:
    from rich.console import Console

    from memoranda.store import RankedItem, Store

ROUNDS = 4
QUESTION = "which seat does she like?"
LATER_QUESTION = "Can I have a satay delivered to my door?"
"""It shares no word with what answers it: an allergy, a diet, and a place that has changed."""


def demo(
    url: Annotated[str | None, option("--store -s URL", "A store of yours, instead of a temporary file.")] = None,
    keep: Annotated[Path | None, option("--keep FILE", "Keep the conversation in this new SQLite file.")] = None,
    as_json: options.Json = False,
) -> None:
    """Watch a conversation being stored, reopened, cut to a window and remembered in a new session.

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


async def _demo(terminal: Console, url: str, file: Path | None = None, *, kept: bool = False) -> dict[str, Any]:
    """Run the demo, and return what it showed. The owner of what is kept has a name that is easy to type."""
    from memoranda.opening import open as open_store

    user = "ada" if kept else f"demo-{uuid.uuid4().hex[:8]}"
    owner = MemoryMetadata(user_id=user, session_id="trip")
    start = datetime.now(UTC) - timedelta(minutes=5)
    items = sample_conversation(owner, start)
    earlier = earlier_sessions(user, start)
    seen: dict[str, Any] = {"store": redacted(url), "stored": len(items)}
    persists = False
    facts: dict[str, Any] = facts_option("rules", url)
    try:
        async with open_store(url, **facts) as store:
            persists = Capability.PERSISTENT in store.capabilities
            _head(terminal, "1", "Stored")
            await store.add_many([*earlier, *items])
            rounds = sum(item.memory_type == "human" for item in items)
            place = file.name if file else redacted(url)
            _line(terminal, f"{len(items)} items in {rounds} rounds, two tool calls in parallel, into {place}.")
            sessions = len({item.metadata.session_id for item in earlier})
            _line(terminal, f"{len(earlier)} more are from {sessions} earlier sessions of the same user.")
            if not persists:
                _line(
                    terminal,
                    f"This store keeps nothing; {how_to_install('memoranda-sqlite')} for one that survives on disk.",
                )
                seen |= await _show(terminal, store, user, owner)
        if persists:
            size = f" ({_kibibytes(file)} KiB)" if file else ""
            async with open_store(url, **facts) as store:
                found = await store.count(metadata=owner)
                _line(terminal, f"Closed{size}, opened again: all {found} are there.")
                seen |= {"found_again": found, **await _show(terminal, store, user, owner)}
    finally:
        if persists and file is None:
            async with open_store(url) as store:
                await remove_owners(store, MemoryMetadata(user_id=user))
    if kept:
        _farewell(terminal, f"Kept in {file}.", f"history --user {user} --store {url}", f"inspect --store {url}")
    else:
        _farewell(terminal, "Your turn:", 'add "I like a window seat." --user ada', "search seat --user ada")
    return seen


def _kibibytes(file: Path) -> int:
    return file.stat().st_size // 1024


async def _show(terminal: Console, store: Store, user: str, owner: MemoryMetadata) -> dict[str, Any]:
    from memoranda.tokens import estimate_tokens
    from memoranda.windowing import as_said
    from memoranda_commands.render import conversation
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
        "prompt": await _later(terminal, store, user),
    }


async def _search(terminal: Console, store: Store, owner: MemoryMetadata) -> list[RankedItem]:
    _head(terminal, "4", f"A search beyond the window: “{QUESTION}”")
    try:
        found = await store.search_ranked(query=QUESTION, metadata=owner, limit=2, mode="text")
    except UnsupportedError as error:  # No ranker is installed, or MEMORANDA_PLUGINS allows none.
        _line(terminal, str(error))
        return []
    from memoranda_commands.render import content_lines, speaker

    rows = [
        (f"{ranked.score:.2f}", speaker(ranked.item), content_lines(ranked.item)[0], ", ".join(ranked.terms))
        for ranked in found
    ]
    if is_narrow():
        terminal.print(_indented(blocks([(score, who, terms, content) for score, who, content, terms in rows])))
    else:
        terminal.print(_indented(table("score", "who", "content", "matched", rows=rows)))
    return found


async def _later(terminal: Console, store: Store, user: str) -> list[dict[str, Any]]:
    from memoranda_context import assemble
    from memoranda_messages import to_openai

    _head(terminal, "5", f"A new session: “{LATER_QUESTION}”")
    handle = store.scoped(user_id=user, session_id="dinner")
    try:
        prompt = await assemble(handle, LATER_QUESTION, system="You order food.", tokens=1_000)
    except UnsupportedError as error:  # No ranker is installed, or MEMORANDA_PLUGINS allows none.
        _line(terminal, str(error))
        return []
    for message in to_openai(prompt):
        _line(terminal, message["role"], style="cyan")
        _line(terminal, message["content"], columns=6)
    _line(
        terminal,
        "No word of the question is in what it needs: the allergy, the diet, and where she lives by now.",
        style="yellow",
    )
    return [dump_item(item) for item in prompt]


def _head(terminal: Console, number: str, title: str) -> None:
    from rich.text import Text

    terminal.print()
    terminal.print(Text.assemble((f" {number} ", "reverse"), " ", (title, "bold")))


def _line(terminal: Console, text: str, style: str = "", columns: int = 4) -> None:
    from rich.text import Text

    terminal.print(_indented(Text(text, style=style), columns))


def _indented(what: Any, columns: int = 4) -> Any:
    from rich.padding import Padding

    return Padding(what, (0, 0, 0, columns), expand=False)


def _farewell(terminal: Console, first: str, *lines: str) -> None:
    from rich.text import Text

    terminal.print()
    terminal.print(first, overflow="fold")
    for line in lines:
        terminal.print(Text(f"  memoranda {line}", style="bold"), soft_wrap=True)
