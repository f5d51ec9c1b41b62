"""The agent in TypeScript uses ``memoranda mcp --http`` through the protocol's official SDK.

npm installs the SDK into a folder of the test run, from its own cache where it has the packages. Without Node.js there
is nothing to run, so the tests skip; without a registry they fail.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import memoranda

EXAMPLE = Path(__file__).parent.parent / "examples" / "typescript"
TOKEN = "a-long-secret-of-adas"
TALK = """\
I live in Lisbon and I am allergic to peanuts. -> I will remember that.
I moved to Porto. -> I will remember that.
Where do I live? -> You live in Porto.
"""

pytestmark = [
    pytest.mark.slow,  # npm and the compiler take most of it.
    pytest.mark.skipif(not shutil.which("node") or not shutil.which("npm"), reason="Node.js is not installed"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program, with its packages beside it."""
    folder = tmp_path_factory.mktemp("typescript") / "agent"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "package-lock.json"))
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline"]
    for line in (install, ["npm", "run", "--silent", "build"]):
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist" / "agent.js"


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'memory.db'}?facts=rules"


@pytest.fixture
def server(tmp_path: Path, store_url: str) -> Iterator[str]:
    """The address of a server that knows Ada by her token."""
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"ada": TOKEN}), encoding="utf-8")
    line = [sys.executable, "-m", "memoranda", "mcp", "--store", store_url, "--trust", "user"]
    line += ["--http", "--port", "0", "--tokens", str(tokens)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MEMORANDA")}
    with subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            assert "http://127.0.0.1:" in said, said
            yield said.split()[-1]
        finally:
            process.terminate()


def run(program: Path, server: str, token: str) -> subprocess.CompletedProcess[str]:
    """Run the agent as the person of a token."""
    environment = {**os.environ, "MEMORANDA_MCP_TOKEN": token}
    line = ["node", str(program), server]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=240, check=False)


async def test_an_agent_in_typescript_knows_what_is_true_now(program: Path, server: str, store_url: str) -> None:
    done = run(program, server, TOKEN)

    assert (done.returncode, done.stdout) == (0, TALK), done.stderr
    async with memoranda.open(store_url) as store:
        items = await store.search(where={"memory_type": "human"})
    assert {(item.metadata.user_id, item.metadata.session_id, item.content) for item in items} == {
        ("ada", "january", "I live in Lisbon and I am allergic to peanuts."),
        ("ada", "march", "I moved to Porto."),
        ("ada", "june", "Where do I live?"),
    }


def test_an_agent_without_the_token_gets_nothing(program: Path, server: str) -> None:
    done = run(program, server, "another-long-secret")

    assert done.returncode != 0
    assert done.stdout == ""
    assert "Authentication required" in done.stderr
