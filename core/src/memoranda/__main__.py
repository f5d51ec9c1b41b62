"""``memoranda`` and ``python -m memoranda``: the command, which is the distribution memoranda-cli."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command with the arguments of this process, or print in one line what to install."""
    try:
        from memoranda_cli import main as run_command
    except ModuleNotFoundError as error:
        if error.name != "memoranda_cli":
            raise
        from memoranda.plugins.installing import how_to_install

        sys.exit(f"memoranda: the command is a distribution of its own. Try: {how_to_install('memoranda-cli')}")
    run_command()


if __name__ == "__main__":
    main()
