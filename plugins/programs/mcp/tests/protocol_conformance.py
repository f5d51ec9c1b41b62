"""Run the protocol's own conformance suite against the server: ``python protocol_conformance.py [FOLDER]``.

The suite is the npm package of the protocol's authors, in a folder of its own with the Node.js that it needs; one that
has both already can be named. Most of its scenarios call tools, prompts and resources of a server that was made for the
suite (``test_simple_text`` and the like), or features that a memory has no use for (logging, completion, elicitation,
sampling). What is left of it by this rule is what any server must do, and that is run; the rest is printed and counted.
The suite cannot send a token, so the server is asked without one, in this process.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import uvicorn

from memoranda.store import InMemoryStore
from memoranda_mcp import Rights, ScopedMemory, make_server

PACKAGES = ("@modelcontextprotocol/conformance@0.1.16", "node@22")
APPLY = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
    "server-sse-multiple-streams",
)


def install(folder: Path) -> None:
    """Fetch the suite, unless it is there."""
    if not (folder / "node_modules" / "node").exists():
        line = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
        subprocess.run(line, check=True)


def suite(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the suite's command."""
    modules = folder / "node_modules"
    script = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    line = [str(modules / "node" / "bin" / "node"), str(script), *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=240, check=False)


async def serve_and_run(folder: Path) -> int:
    """Serve a store in memory, and return how many scenarios failed."""
    async with InMemoryStore() as store:
        scoped = store.scoped(user_id="ada")
        app = make_server(ScopedMemory(scoped, scoped, Rights(facts=True))).streamable_http_app()
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.05)
        port = server.servers[0].sockets[0].getsockname()[1]
        failed = 0
        for scenario in APPLY:
            url = f"http://127.0.0.1:{port}/mcp"
            done = await asyncio.to_thread(suite, folder, "server", "--url", url, "--scenario", scenario)
            print(f"{'ok    ' if done.returncode == 0 else 'FAILED'}  {scenario}")
            if done.returncode:
                failed += 1
                print(done.stdout[-2000:], done.stderr[-500:])
        server.should_exit = True
        await serving
        return failed


def run(folder: Path) -> int:
    """Run what applies, say what does not, and return how many failed."""
    install(folder)
    listed = suite(folder, "list", "--server").stdout.splitlines()
    known = [line.split()[1] for line in listed if line.strip().startswith("- ")]
    for scenario in known:
        if scenario not in APPLY:
            print(f"left out: {scenario}")
    print(f"{len(known)} scenarios, of which {len(APPLY)} apply")
    return asyncio.run(serve_and_run(folder))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(run(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as place:
        sys.exit(run(Path(place)))
