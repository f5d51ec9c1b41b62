"""Output for people: sentences, tables, progress bars and questions. Colours and bars appear only on a terminal."""

from __future__ import annotations

import codecs
import io
import json
import re
import shutil
import signal
import sys
import textwrap
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import typer

from memoranda_commands.exits import CommandError, ExitCode

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Characters that Unicode counts as letters, marks or symbols but that show nothing: blanks, and those that it calls
ignorable by default (a joiner, fillers, inherent vowels, variation selectors)."""

_CONTROL_PICTURES = 0x2400

_ASCII = {
    "→": "->",
    "←": "<-",
    "…": "...",
    "–": "-",
    "—": "-",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "✔": "ok",
    "✘": "NO",
    "µ": "u",
    "°": "deg",
    "×": "x",
    "•": "*",
    "━": "=",
    "─": "-",
    "│": "|",
    "╸": "=",
    "╺": "=",
}
"""The non-ASCII characters of our own sentences and tables, and what an ASCII stream gets instead."""


class _Signs(dict[int, str]):
    """Maps each character to what is shown for it, for ``str.translate``; visible characters map to themselves.

    A character is invisible by its category, if it is a control, format, private or unassigned one, or by the list
    above.
    """

    def __init__(self, sign: Callable[[int], str]) -> None:
        super().__init__({ord(character): character for character in "\n\t"})
        self._sign = sign

    def __missing__(self, code: int) -> str:
        character = chr(code)
        seen = unicodedata.category(character) == "Zs" or (character.isprintable() and not _INVISIBLE.match(character))
        return self.setdefault(code, character if seen else self._sign(code))


def sign_of(code: int) -> str:
    """Return the sign for an invisible character: its control picture, or its code point in angle brackets."""
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def _escape(code: int) -> str:
    return json.dumps(chr(code))[1:-1] if code != 0x7F else "\\u007f"


_SIGNS, _ESCAPES = _Signs(sign_of), _Signs(_escape)


def visible(text: str) -> str:
    """Return the text with a sign for each invisible character except line breaks and tabs.

    A terminal shows the result and obeys nothing in it.
    """
    return text.translate(_SIGNS)


def visible_json(text: str) -> str:
    """Return JSON text with each invisible character as an escape, which means the same."""
    return text.translate(_ESCAPES)  # JSON has none of them outside its strings.


def preview(text: str, width: int = 200) -> str:
    """Return the text as one short visible line."""
    line = " ".join(visible(text).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def accept_all_characters() -> None:
    """Let standard output and error take every text: what their encoding lacks is written in ASCII."""
    codecs.register_error("memoranda_ascii", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="memoranda_ascii")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_ascii_of, error.object[error.start : error.end])), error.end


def _ascii_of(character: str) -> str:
    if character in _ASCII:
        return _ASCII[character]
    code = ord(character)
    if _CONTROL_PICTURES <= code < _CONTROL_PICTURES + 0x20:
        return "^" + chr(code - _CONTROL_PICTURES + 0x40)
    return character.encode("ascii", "backslashreplace").decode()


Column = str | tuple[str, dict[str, Any]]
"""A column of a table: its heading, or its heading and what rich's ``add_column`` takes."""

NARROW = 60
"""Below so many columns, rows are shown as blocks instead of a table."""

WIDE = 4000
"""The width of tables in a pipe, where lines need not be cut."""

_INSTALLATION = re.compile(r"(?:\(?cd [^\n]+? && )pip install [^\n]*[^\s]|pip install (?:'[^'\n]+'|[\w-]+)")
_UNBROKEN = "\0"
"""Stands for a blank that must stay. No text has it: it would have been made visible."""


def console(*, stderr: bool = False) -> Console:
    """Return a console for what is standard output or error now."""
    from rich.console import Console  # Imported on use: that takes longer than most commands.

    made = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    if not made.is_terminal:
        made = Console(stderr=stderr, highlight=False, emoji=False, markup=False, width=WIDE, color_system=None)
    return made


def show(*what: RenderableType) -> None:
    """Print texts and tables to standard output."""
    target = console()
    for each in what:
        target.print(each)


def show_json(value: Any) -> None:
    """Print one JSON document to standard output; in ASCII where the stream cannot hold all of it."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    # JSON allows most invisible characters as they are, and terminals obey some and hide the others.
    _write(sys.stdout, visible_json(text))


def _write(stream: TextIO, text: str) -> None:
    """Write a line. typer's echo would write UTF-8 even to a stream whose encoding is ASCII."""
    stream.write(f"{text}\n")
    stream.flush()


def say(message: str) -> None:
    """Print a message to standard error, beside the output; on a terminal it is wrapped between words.

    A command that installs something is not wrapped: people paste it, and a shell would run each line by itself.
    """
    text = visible(message)
    if sys.stderr.isatty():
        whole = _INSTALLATION.sub(lambda found: found[0].replace(" ", _UNBROKEN), text)
        text = wrapped(whole, shutil.get_terminal_size().columns).replace(_UNBROKEN, " ")
    _write(sys.stderr, text)


def wrapped(text: str, width: int, indent: str = "") -> str:
    """Return text wrapped for a terminal of this width; further lines begin with ``indent``."""
    fill = textwrap.TextWrapper(
        max(width - 1, 20), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(fill.fill(line) for line in text.split("\n"))


def table(*columns: Column, rows: Sequence[Sequence[Any]], title: str | None = None) -> RenderableType:
    """Return a table."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        pad_edge=False,
        show_header=any(column if isinstance(column, str) else column[0] for column in columns),
    )
    for column in columns:
        heading, options = (column, {}) if isinstance(column, str) else column
        made.add_column(heading, **{"overflow": "fold", **options})
    for row in rows:
        made.add_row(*(Text(visible(cell)) if isinstance(cell, str) else cell for cell in row))
    return made


def report(
    document: Any,
    *sentences: str,
    as_json: bool,
    columns: Sequence[Column] = (),
    rows: Sequence[Sequence[Any]] = (),
) -> None:
    """Print the document as JSON; or else the rows as a table, if there are any, and then the sentences.

    Empty sentences are left out.
    """
    if as_json:
        show_json(document)
        return
    if rows:
        show(table(*columns, rows=rows))
    for sentence in filter(None, sentences):
        say(sentence)


def is_narrow() -> bool:
    """Return True if a table of texts does not fit on the terminal: its rows are shown as blocks then."""
    return console().width < NARROW


def blocks(rows: Iterable[Sequence[Any]]) -> RenderableType:
    """Return rows for a narrow terminal: the last cell of each stands below the others, over the whole width."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    parts: list[RenderableType] = []
    for *first, last in rows:
        cells = [cell if isinstance(cell, Text) else Text(visible(cell)) for cell in first]
        below = last if isinstance(last, Text) else Text(visible(last))
        parts += [Text("  ").join(cell for cell in cells if cell.plain), Padding(below, (0, 0, 0, 2))]
    return Group(*parts)


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while the block runs; the block calls what it gets with the number just done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)


def agree(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed. Raises CommandError unless the person agrees; a script passes ``--yes``."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} There is no terminal to ask on: add --yes to agree.", ExitCode.REFUSED)
    try:
        with _interruptible():
            agreed = typer.confirm(visible(question), err=True)
    except typer.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        agreed = False  # The input ended without an answer.
    if not agreed:
        raise CommandError("Nothing was changed.", ExitCode.REFUSED)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt the question at once; an event loop would only note it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def measured_progress(what: str, total: int | None) -> Iterator[Callable[[int, int], None]]:
    """Show a bar as :func:`progress` does, for work that reports how much is done so far, and of how much."""
    before = 0
    with progress(what, total) as advance:

        def report_progress(done: int, total: int) -> None:
            nonlocal before
            advance(done - before)
            before = done

        yield report_progress


def counted(number: int, what: str, several: str | None = None) -> str:
    """Return a number of things in words: ``1 fact``, ``2,000 facts``."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


def items_text(number: int) -> str:
    """Return a number of items in words."""
    return counted(number, "item")


def did_you_mean(alike: Sequence[str]) -> str:
    """Return a question that offers similar names, with a space before it; empty if there are none."""
    return f" Did you mean {' or '.join(map(repr, alike))}?" if alike else ""
