"""The ``memoranda`` command. The module of a command is imported when the command runs."""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command with the arguments of this process."""
    try:
        from memoranda_cli.app import app

        app(prog_name="memoranda")
    except SystemExit as done:
        if done.code == _INTERRUPTED:
            _leave()
        raise
    except KeyboardInterrupt:  # Before a command could handle it.
        sys.stderr.write("memoranda: Interrupted.\n")
        _leave()


def _leave() -> None:
    """End the process after Ctrl-C, without waiting for the threads of an engine."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(_INTERRUPTED)
