"""An assistant that remembers between two conversations over the Model Context Protocol, with a fake model.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[mcp]'
    python examples/mcp_assistant.py

It starts ``memoranda mcp`` as a desktop assistant does, on a temporary file.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from mcp import Client, StdioServerParameters


def server(folder: str) -> StdioServerParameters:
    """Return the command that starts the server."""
    url = f"sqlite:///{Path(folder) / 'memory.db'}"
    return StdioServerParameters(
        command=sys.executable, args=["-m", "memoranda", "mcp", "--store", url, "--user", "ada"]
    )


async def fake_model(client: Client, said: str) -> str:
    """Answer like a model with tools: store statements, and recall before answering a question."""
    if said.endswith("?"):
        found = (await client.call_tool("recall", {"query": said})).structured_content["memories"]
        return found[0]["content"] if found else "I do not know."
    await client.call_tool("remember", {"content": said, "tags": ["preference"]})
    return "I will remember that."


async def main() -> None:
    """Have two conversations; the second one remembers the first."""
    with tempfile.TemporaryDirectory() as folder:
        for said in ("Ada takes her tea without milk.", "Does Ada take milk?"):
            async with Client(server(folder)) as client:
                print(f"{said} -> {await fake_model(client, said)}")


if __name__ == "__main__":
    asyncio.run(main())
