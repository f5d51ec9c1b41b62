"""The ``memoranda`` command. Each command lives in a module of its own, which is imported when it runs."""

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
    except KeyboardInterrupt:  # Before the first command could answer it.
        sys.stderr.write("memoranda: Interrupted.\n")
        _leave()


def _leave() -> None:
    """End the process without waiting for threads that an engine still works on: somebody pressed Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(_INTERRUPTED)
