"""``memoranda plugins``: list what is installed, what each plugin offers, and why one is not usable."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from memoranda.plugins import KINDS, Backend, CommandSpec, Spec
from memoranda_commands import options
from memoranda_commands.characters import visible
from memoranda_commands.terminal import blocks, is_narrow, show, show_json

if TYPE_CHECKING:
    from memoranda.plugins.registry import Plugin

_STYLES = {"ok": "green", "not allowed": "dim", "conflict": "yellow"}


def plugins(as_json: options.Json = False) -> None:
    """List the plugins, what each offers, and why one is not usable.

    No driver is imported for this; observers of every store are tried. A plugin that is broken is a row with its
    reason, and the exit code is 0.
    """
    found = _found()
    if as_json:
        show_json([_described(plugin) for plugin in found])
    else:
        _show(found)


def _found() -> list[Plugin]:
    from memoranda.plugins import default_registry

    # Output of a plugin that is imported must not end up in the JSON.
    with redirect_stdout(sys.stderr):
        registry = default_registry()
        registry.auto_observers()  # Every store gets them, so one that cannot be made must be a row here.
        return registry.plugins


def _described(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": plugin.status,
        "reason": plugin.reason,
        "offers": [{"kind": KINDS[type(spec)], **asdict(spec)} for spec in plugin.specs],
    }


def _show(found: list[Plugin]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    made.add_column("plugin", no_wrap=True)
    made.add_column("version", no_wrap=True)
    made.add_column("status", no_wrap=True)
    made.add_column("offers, or why not", overflow="fold")
    rows = []
    for plugin in found:
        offers = Text("\n".join(_offers(plugin.specs)))
        if plugin.reason:
            offers = Text(visible(plugin.reason), style="red" if plugin.status == "broken" else "yellow")
        rows.append(
            (
                Text(visible(plugin.name), style="bold"),
                Text(visible(plugin.version or "")),
                Text(plugin.status, style=_STYLES.get(plugin.status, "red")),
                offers,
            )
        )
    if is_narrow():
        show(blocks(rows))
        return
    for row in rows:
        made.add_row(*row)
    show(made)


def _offers(specs: list[Spec]) -> list[str]:
    """Return a line for each kind of thing; stores with the URLs they answer to."""
    lines = []
    for kind, called in KINDS.items():
        of_kind = [spec for spec in specs if type(spec) is kind]
        if not of_kind:
            continue
        if kind is CommandSpec and len(of_kind) > 5:
            lines.append(f"{len(of_kind)} commands")
            continue
        names = [_named(spec) for spec in of_kind]
        lines.append(f"{called}{'s' if len(names) > 1 else ''}: {visible(', '.join(names))}")
    return lines


def _named(spec: Spec) -> str:
    if isinstance(spec, Backend):
        return f"{spec.name} ({', '.join(f'{scheme}:' for scheme in spec.schemes)})"
    return spec.name
