"""The ``memoranda`` command. Each command lives in a module of its own, which is imported when it runs."""

from __future__ import annotations


def main() -> None:
    """Run the command with the arguments of this process."""
    from memoranda_cli.app import app

    app(prog_name="memoranda")
