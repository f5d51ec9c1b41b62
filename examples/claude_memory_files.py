"""Claude's memory tool over a store, with a fake model that runs a fixed list of commands.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[anthropic]'
    python examples/claude_memory_files.py

The loop is the one that Anthropic's SDK runs: the model asks for a command, the tool runs it, the result goes back.
"""

from __future__ import annotations

from typing import Any

from anthropic.tools import ToolError

import memoranda.sync
from memoranda_anthropic import MemoryTool


class FakeClaude:
    """Asks for one command after the other, whatever the results are."""

    def __init__(self, commands: list[dict[str, Any]]) -> None:
        self._commands = iter(commands)

    def next_command(self, answer: str) -> dict[str, Any] | None:
        """Return the next command; None at the end."""
        return next(self._commands, None)


def run(model: FakeClaude, memory: MemoryTool) -> None:
    """Run the model's commands until there are none left."""
    answer = ""
    while (command := model.next_command(answer)) is not None:
        try:
            answer = str(memory.call(command))
        except ToolError as error:
            answer = f"Error: {error}"
        print(f"{command['command']}: {answer.splitlines()[0]}")


def main() -> None:
    """Remember, overwrite, fail and undo."""
    path = "/memories/ada.md"
    commands = [
        {"command": "view", "path": "/memories"},
        {"command": "create", "path": path, "file_text": "Ada takes tea.\n"},
        {"command": "create", "path": path, "file_text": "Ada takes water.\n"},
        {"command": "str_replace", "path": path, "old_str": "tea", "new_str": "coffee"},
        {"command": "delete", "path": path},
    ]
    with memoranda.sync.open("memory://") as store:
        memory = MemoryTool(store, user_id="ada")
        run(FakeClaude(commands), memory)
        print(memory.undo())
        print(memory.undo())
        run(FakeClaude([{"command": "view", "path": path}]), memory)
        print(str(memory.call({"command": "view", "path": path})).splitlines()[1].strip())


if __name__ == "__main__":
    main()
