"""The command itself: it finds commands, shows the overview, and turns errors into sentences and exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from memoranda import __version__
from memoranda.errors import MemoryError, PluginError, PluginLoadError
from memoranda.plugins import CommandSpec
from memoranda_cli.commands import COMMANDS, SECTIONS
from memoranda_cli.exits import MEANINGS, ExitCode, code_of
from memoranda_cli.terminal import visible

_BUILT_IN = {spec.name: spec for spec in COMMANDS}

# typer brings its own copy of click or uses the installed one, by its version; its exceptions know their root.
_UsageProblem: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if issubclass(kind, Exception) and kind.__name__ == "ClickException"
)


class Commands(TyperGroup):
    """The group of all commands: those of the core, and those that plugins add."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [spec.name for spec in _all_specs()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, or None. Only its own module is imported."""
        try:
            spec = _BUILT_IN.get(cmd_name) or _plugin_commands().get(cmd_name)
            return None if spec is None else _loaded(spec)
        except MemoryError:
            if ctx.resilient_parsing:  # A shell that completes a line must not be told of a broken plugin.
                return None
            raise

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--debug`` from wherever it stands before a ``--``: people add it to the line that just failed."""
        end = args.index("--") if "--" in args else len(args)
        if "--debug" in args[:end]:
            ctx.meta["memoranda.debug"] = True
            args = [arg for position, arg in enumerate(args) if position >= end or arg != "--debug"]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def invoke(self, ctx: Any) -> Any:
        """Run the command; whatever goes wrong becomes a sentence and an exit code."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, _UsageProblem):
            raise
        except KeyboardInterrupt:
            _complain("Interrupted.")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read our output has had enough. Nothing more may be written, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ExitCode.FAILED) from None
        except MemoryError as error:
            if ctx.meta.get("memoranda.debug"):
                raise
            _complain(str(error))
            raise typer.Exit(code_of(error)) from None
        except Exception as error:  # the last resort: a traceback helps nobody who did not ask for it
            if ctx.meta.get("memoranda.debug"):
                raise
            said = " ".join(str(error).split())
            if isinstance(error, OSError) and error.filename:
                said = f"{error.filename}: {error.strerror}"
            _complain(f"{type(error).__name__}: {said or 'no reason given'}. Add --debug to see where it happened.")
            raise typer.Exit(ExitCode.FAILED) from None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the overview. It is plain text: a table library would take longer to load than all else together."""
        formatter.write(_overview(ctx.command_path, _styled))


def _all_specs() -> list[CommandSpec]:
    return [*COMMANDS, *_plugin_commands().values()]


def _plugin_commands() -> dict[str, CommandSpec]:
    """Return the commands that plugins add. Plugins are looked for only when a line asks for more than ours."""
    from memoranda.plugins import default_registry

    return {spec.name: spec for spec in default_registry().specs(CommandSpec) if spec.name not in _BUILT_IN}


def _loaded(spec: CommandSpec) -> Any:
    """Import a command and return it as typer runs it."""
    from memoranda.plugins import default_registry

    target = default_registry().load(spec)
    if isinstance(target, typer.Typer):
        group = target
    elif callable(target):
        group = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        group.command(spec.name)(target)
    else:
        raise PluginLoadError(spec.name, f"{spec.target} is neither a function nor a typer.Typer.")
    try:
        command = typer.main.get_command(group)
    except Exception as error:  # a signature that typer cannot read is the plugin's failure
        raise PluginLoadError(spec.name, f"its options cannot be read: {error}") from error
    command.name = spec.name
    return command


def _overview(program: str, styled: Any) -> str:
    lines = [
        "",
        f"{styled(program)}: memory for agents. It keeps what was said, and shows a model only what it may see.",
        "",
        f"{styled('Usage:')} {program} COMMAND …      {program} COMMAND --help says more about one",
    ]
    try:
        specs = _all_specs()
    except PluginError:
        specs = list(COMMANDS)
    width = max(len(spec.name) for spec in specs)
    for section in [*SECTIONS, *sorted({spec.section for spec in specs} - set(SECTIONS))]:
        lines += ["", styled(section)]
        lines += [f"  {spec.name:<{width}}  {spec.summary}" for spec in specs if spec.section == section]
    lines += [
        "",
        styled("The store"),
        "  --store URL on every command, else the environment's MEMORANDA_URL, else a file in your data folder.",
        "  URLs look like sqlite:///agent.db, postgresql://user@host/db, redis://host, memory://",
        "",
        styled("Options"),
        "  --version             Show the version.",
        "  --debug               Show where an error happened.",
        "  --install-completion  Let your shell complete commands and options.",
        "  --help                Show this.",
        "",
        styled("Exit codes"),
        *(f"  {code.value:<4}{meaning}" for code, meaning in MEANINGS.items()),
        "",
    ]
    return "\n".join(lines)


def _styled(text: str) -> str:
    """Return the text in bold. Outside a terminal the codes are taken out again where the help is printed."""
    return text if "NO_COLOR" in os.environ else f"\x1b[1m{text}\x1b[0m"


def _complain(message: str) -> None:
    typer.echo(visible(f"memoranda: {message}"), err=True)


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
