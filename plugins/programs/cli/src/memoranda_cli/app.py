"""The command itself: finds the commands, prints help, and turns errors into sentences and exit codes.

The help of a command is plain text: every word whole, at any width, and flags that look like flags.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from memoranda import __version__
from memoranda.errors import MemoryError, PluginError, PluginLoadError, PluginNotFoundError
from memoranda.plugins import CommandSpec
from memoranda.plugins.installing import COMMAND_OFFERED_BY
from memoranda_cli.plugin import COMMANDS, SECTIONS
from memoranda_commands.exits import MEANINGS, CommandError, ExitCode, code_of
from memoranda_commands.terminal import accept_all_characters, did_you_mean, say, show_json, wrapped

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


_BUILT_IN = {spec.name: spec for spec in COMMANDS}


class Commands(TyperGroup):
    """The group of all commands: the built-in ones, and those that plugins add."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [spec.name for spec in _all_specs()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, or None. Only its own module is imported."""
        try:
            spec = _BUILT_IN.get(cmd_name) or _plugin_commands().get(cmd_name)
            return None if spec is None else _loaded(spec)
        except MemoryError:
            if ctx.resilient_parsing:  # A broken plugin must not break a shell's completion.
                return None
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that a line begins with. An unknown name is answered with similar ones."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            if name in COMMAND_OFFERED_BY:
                raise CommandError(f"The command {name!r} is not available. {_remedy(name)}", ExitCode.NOT_FOUND)
            alike = get_close_matches(name, self.list_commands(ctx), cutoff=0.65)
            raise UsageError(f"No such command {name!r}.{did_you_mean(alike)}", ctx)
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--debug`` from wherever it stands before a ``--``: people add it to the line that just failed."""
        accept_all_characters()
        end = args.index("--") if "--" in args else len(args)
        ctx.meta["memoranda.json"] = "--json" in args[:end]
        if "--debug" in args[:end]:
            ctx.meta["memoranda.debug"] = True
            args = [arg for position, arg in enumerate(args) if position >= end or arg != "--debug"]
        try:
            parsed: list[str] = super().parse_args(ctx, args)
        except UsageProblem as problem:
            self._refuse_usage(ctx, problem)
        return parsed

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Every error becomes a sentence and an exit code, and with --json a document."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except UsageProblem as problem:
            self._refuse_usage(ctx, problem)
        except KeyboardInterrupt as interrupted:
            message = str(interrupted) or "Interrupted."
            _fail(ctx, message, ExitCode.INTERRUPTED, getattr(interrupted, "document", {}))
        except BrokenPipeError:
            # The reader of our output has closed it. Nothing more may be written, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ExitCode.FAILED) from None
        except MemoryError as error:
            if ctx.meta.get("memoranda.debug"):
                raise
            _fail(ctx, str(error), code_of(error), getattr(error, "document", {}))
        except Exception as error:  # a traceback is shown only with --debug
            if ctx.meta.get("memoranda.debug"):
                raise
            reason = " ".join(str(error).split())
            if isinstance(error, OSError) and error.filename:
                reason = f"{error.filename}: {error.strerror}"
            message = f"{type(error).__name__}: {reason or 'no reason given'}. Add --debug to see where it happened."
            _fail(ctx, message, ExitCode.FAILED)

    def _refuse_usage(self, ctx: Any, problem: Any) -> NoReturn:
        """Refuse a line that cannot be understood: with --json by a document, otherwise typer prints the error."""
        if ctx.meta.get("memoranda.json"):
            _fail(ctx, problem.format_message(), ExitCode.USAGE)
        raise problem

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the overview as plain text: a table library would take longer to load than everything else."""
        formatter.write(_overview(ctx.command_path, bold))


def _all_specs() -> list[CommandSpec]:
    return [*COMMANDS, *_plugin_commands().values()]


def _plugin_commands() -> dict[str, CommandSpec]:
    """Return the commands that plugins add. Plugins are loaded only for a command that is not built in."""
    from memoranda.plugins import default_registry

    return {spec.name: spec for spec in default_registry().specs(CommandSpec) if spec.name not in _BUILT_IN}


def _remedy(name: str) -> str:
    from memoranda.plugins import default_registry

    try:
        default_registry().find(CommandSpec, name)
    except PluginNotFoundError as error:
        return error.remedy
    return ""


def _loaded(spec: CommandSpec) -> Any:
    from memoranda.plugins import default_registry

    return _command(spec, default_registry().load(spec))


@cache
def _command(spec: CommandSpec, target: Any) -> Any:
    """Return what typer runs; it is asked for more than once for each line, and takes a while to make."""
    if isinstance(target, typer.Typer):
        group = target
        _make_plain(group)
    elif callable(target):
        group = typer.Typer(add_completion=False)
        group.command(spec.name, cls=Command)(target)
    else:
        raise PluginLoadError(spec.name, f"{spec.target} is neither a function nor a typer.Typer.")
    try:
        command = typer.main.get_command(group)
    except Exception as error:  # a signature that typer cannot read is the plugin's failure
        raise PluginLoadError(spec.name, f"its options cannot be read: {error}") from error
    command.name = spec.name
    command.epilog = "\n".join(f"$ memoranda {line}" for line in spec.examples) or command.epilog
    return command


def _make_plain(group: typer.Typer) -> None:
    group.info.cls = Group
    for info in group.registered_commands:
        info.cls = Command
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _make_plain(inner.typer_instance)


def _overview(program: str, styled: Any) -> str:
    width = shutil.get_terminal_size().columns
    about = ": memory for agents. It stores conversations, and shows a model only what it may see."
    usage = f" {program} COMMAND ..."
    lines = [
        "",
        wrapped(f"{program}{about}", width).replace(program, styled(program), 1),
        "",
        f"{styled('Usage:')}{usage}",
        wrapped(f"       {program} COMMAND --help explains one, with examples.", width, "       "),
    ]
    try:
        specs = _all_specs()
    except PluginError:
        specs = list(COMMANDS)
    longest = max(len(spec.name) for spec in specs)
    for section in [*SECTIONS, *sorted({spec.section for spec in specs} - set(SECTIONS))]:
        lines += ["", styled(section)]
        lines += [entry(spec.name, longest, spec.summary, width) for spec in specs if spec.section == section]
    store = "--store URL on every command, else the environment's MEMORANDA_URL, else a file in your data folder."
    urls = "URLs look like sqlite:///agent.db, postgresql://user@host/db, redis://host, memory://"
    lines += [
        "",
        styled("The store"),
        wrapped(f"  {store}", width, "  "),
        wrapped(f"  {urls}", width, "  "),
        "",
        styled("Options"),
        *(entry(name, 20, meaning, width) for name, meaning in _OPTIONS.items()),
        "",
        styled("Exit codes"),
        *(entry(str(code.value), 3, meaning, width) for code, meaning in MEANINGS.items()),
        "",
    ]
    return "\n".join(lines)


_OPTIONS = {
    "--version": "Show the version.",
    "--debug": "Show where an error happened.",
    "--json": "On every command: print one JSON document, for an error, too.",
    "--install-completion": "Let your shell complete commands and options.",
    "--help": "Show this.",
}


def _fail(ctx: Any, message: str, code: ExitCode, document: dict[str, Any] | None = None) -> NoReturn:
    if ctx.meta.get("memoranda.json"):
        show_json({"error": message, "exit_code": int(code), **(document or {})})
    say(f"memoranda: {message}")
    raise typer.Exit(code)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memoranda {__version__}")
        raise typer.Exit


app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def memoranda(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Memory for agents."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
