"""The help of a command as plain text: every word whole, at any width, and flags that look like flags."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from enum import Enum
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from memoranda_commands.terminal import wrapped

# typer brings its own copy of click or uses the installed one, by its version; its exceptions know their root.
UsageProblem, UsageError = (
    next(kind for kind in typer.BadParameter.__mro__ if issubclass(kind, Exception) and kind.__name__ == name)
    for name in ("ClickException", "UsageError")
)

_NARROW = 70
"""Below so many columns, what an option means stands below its name."""

_WIDEST = 100
_TRUTH = ("true", "false")


class _PlainHelp:
    """Writes the help of a command, and refuses values for flags."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(_page(self, ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage, without the braces that some releases of typer put around arguments."""
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]  # of typer's class beside this one
        return [piece.strip("{}") for piece in pieces]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse ``--yes true``: otherwise the word would be taken for an id or a query."""
        flags = {name for option in _options(self, ctx) if _is_flag(option) for name in option.opts}
        end = args.index("--") if "--" in args else len(args)
        for flag, word in pairwise(args[:end]):
            if flag in flags and word.lower() in _TRUTH:
                raise UsageError(
                    f"{flag} takes no value. Leave {word!r} out; if it is an argument of its own, put it first.", ctx
                )
        parsed: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]  # of typer's class beside this one
        return parsed


class Command(_PlainHelp, TyperCommand):
    """A command with plain help."""


class Group(_PlainHelp, TyperGroup):
    """A group of commands with plain help, which it prints if none of them is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help for an empty line, as the program itself does. typer would end it in silence, as a mistake."""
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit
        return super().parse_args(ctx, args)


def entry(name: str, column: int, meaning: str, width: int) -> str:
    """Return an entry of a list. On a narrow terminal its meaning stands below, elsewhere in a column."""
    if width < _NARROW and column > 12:
        return f"  {name}\n{wrapped(f'      {meaning}', width, '      ')}"
    gap = f"  {name:<{column}}  " if len(name) <= column else f"  {name}\n{' ' * (column + 4)}"
    first, rest = gap.rpartition("\n")[::2]
    body = wrapped(f"{rest}{meaning}", width, " " * (column + 4))
    return f"{first}\n{body}" if first else body


def bold(text: str) -> str:
    """Return the text in bold. Outside a terminal typer removes the codes again."""
    return text if "NO_COLOR" in os.environ else f"\x1b[1m{text}\x1b[0m"


def _page(command: Any, ctx: Any) -> str:
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    usage = " ".join(command.get_usage(ctx).split())
    lines = ["", wrapped(usage, width, "       ").replace("Usage:", bold("Usage:"), 1), ""]
    lines += [f"{wrapped(' '.join(part.split()), width)}\n" for part in (command.help or "").split("\n\n")]
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        if parameter.param_type_name == "argument" and not parameter.hidden:
            row = (_metavar(parameter), parameter.help or "")
            sections.setdefault("Arguments", []).append(row)
    for option in _options(command, ctx):
        section = getattr(option, "rich_help_panel", None) or "Options"
        sections.setdefault(section, []).append((_named(option), f"{option.help or ''}{_default(option)}"))
    for name in getattr(command, "list_commands", lambda ctx: ())(ctx):
        found = command.get_command(ctx, name)
        sections.setdefault("Commands", []).append((name, found.get_short_help_str(200)))
    for section, rows in sections.items():
        column = min(max(len(name) for name, _ in rows), 30)
        lines += [bold(section), *(entry(name, column, meaning, width) for name, meaning in rows), ""]
    examples = [line.strip() for line in (command.epilog or "").split("\n") if line.strip()]
    lines += [bold("Examples"), *(wrapped(f"  {line}", width, "      ") for line in examples), ""] if examples else []
    return "\n".join(lines)


def _options(command: Any, ctx: Any) -> Iterable[Any]:
    return [
        parameter
        for parameter in command.get_params(ctx)
        if parameter.param_type_name == "option" and not parameter.hidden
    ]


def _is_flag(option: Any) -> bool:
    return bool(getattr(option, "is_flag", False) or getattr(option, "count", False))


def _named(option: Any) -> str:
    names = ", ".join(sorted([*option.opts, *option.secondary_opts], key=lambda name: (name.startswith("--"), name)))
    return names if _is_flag(option) else f"{names} {_metavar(option)}"


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    if isinstance(parameter.default, Enum):
        return "|".join(str(each.value) for each in type(parameter.default))
    return "N" if isinstance(parameter.default, (int, float)) else "VALUE"


def _default(option: Any) -> str:
    if option.required:
        return " [required]"
    value = getattr(option.default, "value", option.default)
    if _is_flag(option) or not option.show_default or value in (None, "", ()) or callable(value):
        return ""
    return f" [default: {value}]"
