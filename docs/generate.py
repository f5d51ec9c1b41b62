"""Write the parts of the reference that come from the code: the commands and the table of capabilities.

    python docs/generate.py

``tests/test_generated_pages.py`` fails if one is out of date.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

import memoranda
from memoranda.errors import MemoryError
from memoranda.plugins import CommandSpec, default_registry
from memoranda.store import Capability
from memoranda_cli.app import app
from memoranda_cli.plugin import SECTIONS
from memoranda_commands.exits import MEANINGS

PAGES = Path(__file__).parent / "pages"

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


def capabilities() -> str:
    """Return what every backend can do, and a table of what some can."""
    declared = {name: declared_by(name) for name in STORES}
    rows = {capability: _marks(capability, declared) for capability in Capability}
    everywhere = [MEANING[capability] for capability, marks in rows.items() if set(marks) == {"●"}]
    lines = [
        f"Every backend has these: {'; '.join(everywhere)}. The others differ:",
        "",
        f"| capability | what it gives | {' | '.join(STORES)} |",
        f"|---|---|{'---|' * len(STORES)}",
    ]
    for capability, marks in rows.items():
        if set(marks) != {"●"}:
            lines.append(f"| `{capability.value}` | {MEANING[capability]} | {' | '.join(marks)} |")
    lines.append("| **service** | | " + " | ".join(service for _, service in STORES.values()) + " |")
    return "\n".join(lines)


def _marks(
    capability: Capability, declared: dict[str, tuple[frozenset[Capability], frozenset[Capability]]]
) -> list[str]:
    """Return the sign of each backend for a capability."""
    marks = {name: _mark(capability, *declared[name]) for name in STORES}
    if capability is Capability.TEXT:
        marks.update(dict.fromkeys(READ_FIRST, "◐"))
    return list(marks.values())


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


def commands_reference() -> str:
    """Return the commands of the command itself and of the features, section by section, with their options."""
    commands = _commands()
    groups = _shared_options([command for _, _, command in commands])
    lines: list[str] = []
    for group, options in groups.items():
        meanings = [f"{_option_names(option)} ({_prose(option.help or '').rstrip('.')})" for option in options]
        lines.append(f"- **{group}**: {'; '.join(meanings)}")
    shared = {_key(option): group for group, options in groups.items() for option in options}
    for section in (*SECTIONS, *sorted({section for section, _, _ in commands} - {*SECTIONS})):
        lines += ["", f"## {section}", ""]
        lines += [_line(name, command, shared) for its, name, command in commands if its == section]
    return "\n".join(lines)


def exit_codes() -> str:
    """Return the exit codes of the command."""
    return "\n".join(f"- {int(code)}: {meaning}" for code, meaning in MEANINGS.items())


def _commands() -> list[tuple[str, str, Any]]:
    """Return the documented commands as section, name and command; each command of a group by itself."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("memoranda", [], resilient_parsing=True)
    documented = [plugin for plugin in default_registry().plugins if plugin.name in DOCUMENTED]
    found = []
    for spec in (spec for plugin in documented for spec in plugin.specs if isinstance(spec, CommandSpec)):
        command = root.get_command(context, spec.name)
        inner = getattr(command, "commands", {})
        found += [(spec.section, f"{spec.name} {name}", inner[name]) for name in inner]
        if not inner:
            found.append((spec.section, spec.name, command))
    return found


SHARED = {
    "store": ("--store", "--option", "--json"),
    "owner": ("--user", "--session", "--task", "--agent", "--namespace", "--extra"),
    "filter": ("--since", "--until", "--where"),
    "caution": ("--dry-run", "--yes"),
}
"""The options that many commands have with one meaning, by group."""


def _shared_options(commands: list[Any]) -> dict[str, list[Any]]:
    """Return the options of each group, with the meaning that most commands give them."""
    meanings = Counter(_key(option) for command in commands for option in _options(command))
    options = {_key(option): option for command in commands for option in _options(command)}
    return {
        group: [
            options[max((key for key in meanings if key[0] == name), key=lambda key: meanings[key])] for name in names
        ]
        for group, names in SHARED.items()
    }


def _key(option: Any) -> tuple[str, str]:
    return option.opts[0], _prose(option.help or "")


def _line(name: str, command: Any, shared: dict[tuple[str, str], str]) -> str:
    """Return the line of a command: the groups of shared options that it has whole, then its other options."""
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    usage = " ".join([name, *map(_argument_name, arguments)])
    names = {_key(option): f"`{option.opts[0]}`" for option in _options(command)}
    whole = [group for group in SHARED if {key for key, of in shared.items() if of == group} <= names.keys()]
    own = [shown for key, shown in names.items() if shared.get(key) not in whole]
    summary = _prose(command.help or "").split(". ")[0].rstrip(".")
    return f"- **`{usage}`** {summary}. {', '.join([*(f'*{group}*' for group in whole), *own])}"


def _options(command: Any) -> list[Any]:
    return [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "option" and "--help" not in parameter.opts and not parameter.hidden
    ]


def _argument_name(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper().strip("[]{}").removesuffix("]...")
    return name if argument.required else f"[{name}]"


def _option_names(option: Any) -> str:
    return ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])


def _prose(text: str) -> str:
    return " ".join(text.split())


PARTS = {
    "how-to/choose-a-backend.md": {"capabilities": capabilities},
    "reference/cli.md": {"commands": commands_reference, "exit codes": exit_codes},
}
"""The generated parts of pages. A comment above a part and one below it name it."""


def generated() -> dict[Path, str]:
    """Return every page that has generated parts, with these as the code says them now."""
    return {PAGES / name: _filled((PAGES / name).read_text(encoding="utf-8"), parts) for name, parts in PARTS.items()}


def _filled(page: str, parts: dict[str, Callable[[], str]]) -> str:
    for name, made in parts.items():
        before, start, rest = page.partition(f"<!-- generated: {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->\n")
        if not start or not end:
            raise ValueError(f"The page has no part called {name!r}.")
        page = "".join((before, start, "\n", made(), "\n\n", end, after))
    return page


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
