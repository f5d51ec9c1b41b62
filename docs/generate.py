"""Write the reference pages that come from the code: the command line and the table of capabilities.

    python docs/generate.py

``tests/test_generated_pages.py`` fails if a page is out of date.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

import memoranda
from memoranda.errors import MemoryError
from memoranda.plugins import CommandSpec, default_registry
from memoranda.store import Capability
from memoranda_cli.app import app
from memoranda_cli.commands import SECTIONS
from memoranda_commands.exits import MEANINGS

PAGES = Path(__file__).parent / "pages" / "reference"

DOCUMENTED = ("cli", "context", "facts", "guard", "summary", "userdata")
"""The plugins whose commands are on the page of the command: those of the command itself and of the features."""

STORES = {
    "memory": ("memory://", "none"),
    "sqlite": ("sqlite:///agent.db", "none; SQLite comes with Python"),
    "postgres": ("postgresql://localhost/memoranda", "PostgreSQL 13 or later"),
    "redis": ("redis://localhost:6379/0", "Redis 6.2 or Valkey"),
    "vector": ("vector://", "none"),
}
"""The URL of each backend, and the service that it needs."""

FROM_THE_SERVER = {"postgres": frozenset({Capability.SEMANTIC, Capability.HYBRID})}
"""What a backend can do with an embedder if its server can. The store knows this only after it has been opened."""

MEANING = {
    Capability.LIFECYCLE: "`init`, `close`, `async with`",
    Capability.ADD_MANY: "`add_many`",
    Capability.COUNT: "`count`",
    Capability.UPDATE: "`update`, `update_many`: compare-and-set",
    Capability.SCAN: "`scan`: streaming, oldest first",
    Capability.TEXT: '`search(mode="text")`',
    Capability.PERSISTENT: "items survive a restart",
    Capability.ATOMIC: "`add_many`, `update_many` and `apply` are all or none, even in a crash, and seen as a whole",
    Capability.DELETE: "`delete`, `restore`; `clear` can be undone",
    Capability.ADD_DELETED: "`add_many(items, deleted=ids)`: adds them as deleted, in one step",
    Capability.PURGE: "`purge`: removes items for good, with every trace",
    Capability.SEMANTIC: '`search(mode="semantic")`',
    Capability.HYBRID: '`search(mode="hybrid")`',
    Capability.TTL: "`add(item, ttl=seconds)`, `touch`, `sweep`, `refresh=True`",
    Capability.FORK: "`fork(session_id, at=item_id)`: a new session that shares the past of another",
}


READ_FIRST = ("redis",)
"""The backends that have no index for ranked text, and rank what they have read of a scope."""


def capabilities_page() -> str:
    """Return the table of what each backend can do."""
    lines = [
        "# Capabilities",
        "",
        "The capabilities that each backend declares. The conformance kit tests all of them.",
        "",
        "- ● always",
        "- ○ with an embedder; PostgreSQL also needs the extension `vector`",
        "- ◐ without an index: the first ranked text search of a process reads every item of the user or session you",
        "  name, so name one; later ones read what has changed",
        "",
        "`text` needs `memoranda-backend`, which every backend package installs. The core does not install it: without",
        "it, a text search on `memory://` raises an `UnsupportedError` that says what to install.",
        "",
        f"| capability | what it gives | {' | '.join(STORES)} |",
        f"|---|---|{'---|' * len(STORES)}",
    ]
    declared = {name: declared_by(name) for name in STORES}
    for capability in Capability:
        marks = [_mark(capability, *declared[name]) for name in STORES]
        if capability is Capability.TEXT:
            marks = ["◐" if name in READ_FIRST else mark for name, mark in zip(STORES, marks, strict=True)]
        lines.append(f"| `{capability.value}` | {MEANING[capability]} | {' | '.join(marks)} |")
    lines += ["| **service** | | " + " | ".join(service for _, service in STORES.values()) + " |", ""]
    return "\n".join(lines)


def declared_by(name: str) -> tuple[frozenset[Capability], frozenset[Capability]]:
    """Return what a backend can do without an embedder, and with one."""
    url = STORES[name][0]
    with_embedder: frozenset[Capability] = frozenset()
    with suppress(MemoryError):  # A backend may take no embedder.
        with_embedder = memoranda.open(url, embeddings="hashing").capabilities
    try:
        plain = memoranda.open(url).capabilities
    except MemoryError:  # This backend cannot do without one.
        plain = with_embedder
    return plain, with_embedder | FROM_THE_SERVER.get(name, frozenset())


def _mark(capability: Capability, plain: frozenset[Capability], with_embedder: frozenset[Capability]) -> str:
    return "●" if capability in plain else "○" if capability in with_embedder else ""


def cli_page() -> str:
    """Return the reference of the command: what the command itself and the features offer."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("memoranda", [], resilient_parsing=True)
    lines = [
        "# Command line",
        "",
        "`memoranda COMMAND --help` prints the same text. Commands that use a store take `--store URL`. Without it,",
        "they use `MEMORANDA_URL`, or else a file in your data folder, and print which. `--debug`, anywhere on the",
        "line, shows where an error happened. Plugins may add commands.",
        "",
    ]
    documented = [plugin for plugin in default_registry().plugins if plugin.name in DOCUMENTED]
    commands = [spec for plugin in documented for spec in plugin.specs if isinstance(spec, CommandSpec)]
    for section in (*SECTIONS, *sorted({spec.section for spec in commands} - {*SECTIONS})):
        lines += [f"## {section}", ""]
        for spec in commands:
            if spec.section == section:
                lines += _command_or_group(root.get_command(context, spec.name), spec.name)
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items()]
    return "\n".join([*lines, ""])


def _command_or_group(command: Any, name: str) -> list[str]:
    """Return the lines of a command, or those of every command in a group."""
    inner = getattr(command, "commands", {})
    return [line for each in inner for line in _command(inner[each], f"{name} {each}")] or _command(command, name)


def _command(command: Any, name: str) -> list[str]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "option" and "--help" not in parameter.opts and not parameter.hidden
    ]
    usage = " ".join(_argument_name(argument) for argument in arguments)
    lines = [f"### `memoranda {name}{' ' + usage if usage else ''}`", "", _prose(command.help or ""), ""]
    lines += [f"- `{_argument_name(argument)}`: {_prose(argument.help or '')}" for argument in arguments]
    lines += [""] * bool(arguments)
    if options:
        lines += ["| option | meaning |", "|---|---|"]
        lines += [f"| {_option_names(option)} | {_prose(option.help or '')}{_default(option)} |" for option in options]
        lines.append("")
    return lines


def _argument_name(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper().strip("[]{}")
    return name if argument.required else f"[{name}]"


def _option_names(option: Any) -> str:
    return ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])


def _default(option: Any) -> str:
    if not option.show_default or option.default in (None, False, "", ()) or callable(option.default):
        return ""
    value = getattr(option.default, "value", option.default)
    return f" Default: `{value}`." if not isinstance(value, (list, tuple, dict)) else ""


def _prose(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def generated() -> dict[Path, str]:
    """Return every generated page and its text."""
    return {PAGES / "capabilities.md": capabilities_page(), PAGES / "cli.md": cli_page()}


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
