"""Commands that our plugins add: the core knows where each comes from, and each explains itself when called alone."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from memoranda.plugins import CommandSpec, default_registry
from memoranda.plugins.installing import COMMAND_OFFERED_BY, OURS
from memoranda_cli.app import app
from memoranda_cli.plugin import COMMANDS


def offered() -> dict[str, str]:
    """Return the distribution of ours that offers each command beyond the built-in ones."""
    built_in = {spec.name for spec in COMMANDS}
    ours = [plugin for plugin in default_registry().plugins if plugin.distribution in OURS]
    return {
        spec.name: str(plugin.distribution)
        for plugin in ours
        for spec in plugin.specs
        if isinstance(spec, CommandSpec) and spec.name not in built_in
    }


def groups() -> list[str]:
    """Return the names of all commands that are groups and do nothing by themselves."""
    registry = default_registry()
    targets = {spec.name: registry.load(spec) for spec in registry.specs(CommandSpec)}
    return sorted(
        name
        for name, target in targets.items()
        if isinstance(target, typer.Typer) and not target.info.invoke_without_command
    )


def test_the_core_knows_which_distribution_offers_each_command() -> None:
    assert offered() == COMMAND_OFFERED_BY


def test_a_command_that_only_groups_others_shows_its_help() -> None:
    named = groups()

    assert {"facts", "keys", "quarantine", "receipts"} <= set(named)
    for name in named:
        alone = CliRunner().invoke(app, [name])
        assert alone.exit_code == 0, name
        assert alone.stdout == CliRunner().invoke(app, [name, "--help"]).stdout
        assert "Commands" in alone.stdout, name
