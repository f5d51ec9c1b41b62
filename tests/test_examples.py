"""The programs in ``examples/`` do what their recipes say."""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryMetadata
from memoranda.plugins.installing import OURS
from servers import ModelServer, completion, model_server

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def run(
    name: str, *arguments: str, folder: Path, says: str = "", python: str = sys.executable, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder as a user would, with its own memory there."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("MEMORANDA_", "OPENAI_"))}
    result = subprocess.run(
        [python, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env={**ours, **variables},
        input=says,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result


def told(example: Path) -> list[str]:
    """Return what the first lines of an example say to install, each after ``pip install``."""
    lines = (ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or "").splitlines()
    said = [line.strip().removeprefix("pip install ") for line in lines if line.strip().startswith("pip install ")]
    assert said, f"{example.name} does not say what to install"
    return said


def distributions(lines: list[str]) -> set[str]:
    """Return the names of all distributions that such lines install, with what they need; as far as known here."""
    words = [word for line in lines for word in shlex.split(line)]
    if "requirements.txt" in words:
        words += [each for each in (ROOT / "requirements.txt").read_text().splitlines() if each.startswith("./")]
    named = [word for word in words if not word.startswith("-") and not word.endswith(".txt")]
    waiting = [name for word in named for name in names(word)]
    found: set[str] = set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in found:
            continue
        found.add(name)
        try:
            needed = [Requirement(each) for each in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:
            continue
        waiting += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def names(word: str) -> list[str]:
    """Return the distributions that a word stands for: by name, by extras of the core, or by a folder of the clone."""
    name, _, extras = word.rstrip("]").partition("[")
    if name == "./core":
        return ["memoranda", *(f"memoranda-{extra}" for extra in extras.split(",") if extra)]
    if not word.startswith("./"):
        return [name]
    return [str(tomllib.loads((ROOT / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"])]


@functools.cache
def providers() -> Mapping[str, list[str]]:
    """Return which distributions hold each package that is installed here; all their files are read for it."""
    return metadata.packages_distributions()


@pytest.mark.parametrize("example", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.stem)
def test_the_first_lines_of_an_example_install_all_that_it_imports(example: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(example.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
    installed = distributions(told(example))

    missing = {
        module
        for module in (imported - sys.stdlib_module_names) & providers().keys()  # The others are not looked at.
        if not installed & {canonicalize_name(name) for name in providers()[module]}
    }
    assert missing == set()


@pytest.mark.parametrize(
    "name",
    [
        "langgraph_assistant",  # Its packages share a namespace, so what it imports does not tell which it needs.
        "logs_and_metrics",
        "mcp_assistant",
        "claude_memory_files",
    ],
)
@pytest.mark.slow
def test_an_example_runs_where_nothing_else_is_installed(name: str, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    uv = shutil.which("uv")
    make = [uv, "venv", "-q", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
    subprocess.run([*make, environment], check=True)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [uv, "pip", "install", "-q", "--python", python] if uv else [python, "-m", "pip", "install", "-q"]
    for line in told(EXAMPLES / f"{name}.py"):
        subprocess.run([*install, *shlex.split(line)], cwd=ROOT, env={**os.environ, "PWD": str(ROOT)}, check=True)

    run(f"{name}.py", folder=tmp_path, python=str(python))


def test_the_chat_asks_who_is_speaking(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "chat_loop.py")], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "Name the user: python examples/chat_loop.py ada" in done.stderr
    assert "Traceback" not in done.stderr


def call(number: int) -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": "pantry", "arguments": "{}"}}


def chat(server: ModelServer, folder: Path, says: str) -> str:
    variables = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
    return run("chat_loop.py", "ada", folder=folder, says=says, **variables).stdout


def test_the_chat_shows_the_model_whole_tool_calls_and_what_was_said(tmp_path: Path) -> None:
    with model_server() as server:
        server.says(completion(None, reason="tool_calls", tool_calls=[call(1), call(2)]))
        server.says(completion("Pesto, without the nuts."))

        printed = chat(server, tmp_path, "I am allergic to nuts. What can I cook?\n")

        assert printed == "Pesto, without the nuts.\n"
        assert [message["role"] for message in server.requests[1]["messages"]] == [
            "system",
            "user",
            "assistant",
            "tool",
            "tool",
        ]


def test_the_chat_remembers_when_it_is_started_again(tmp_path: Path) -> None:
    with model_server() as server:
        chat(server, tmp_path, "I am allergic to nuts.\n")
        chat(server, tmp_path, "What must you not cook with?\n")

        roles = [message["role"] for message in server.requests[1]["messages"]]
        assert roles == ["system", "user", "assistant", "user"]


def test_the_agent_calls_its_tool_once_and_with_what_is_true_now(tmp_path: Path) -> None:
    printed = run("agent.py", folder=tmp_path).stdout

    assert printed.count("agent: How about Adega São Nicolau?") == 1
    assert "items of january are now a summary" in printed
    assert "- lives in Porto (since " in printed
    assert "- I live in Lisbon. (no longer true: Porto since " in printed
    assert "- I'm allergic to peanuts." in printed


def fastapi_app() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fastapi_app", EXAMPLES / "fastapi_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # FastAPI looks names of annotations up there.
    spec.loader.exec_module(module)
    return module


async def test_the_service_gives_each_user_their_own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_URL", f"sqlite:///{tmp_path}/agent.db")
    app = fastapi_app().app
    ada, bob = {"Authorization": "Bearer ada"}, {"Authorization": "Bearer bob"}
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        said = await http.post("/sessions/monday/messages", json={"text": "My door code is 4711."}, headers=ada)

        assert said.status_code == 201
        assert (await http.get("/sessions/monday/window", headers=ada)).json() == [
            {"role": "user", "content": "My door code is 4711."}
        ]
        assert (await http.get("/sessions/monday/window", headers=bob)).json() == []
        assert (await http.get("/search", params={"query": "door code"}, headers=bob)).json() == []
        assert (await http.delete("/me", headers=bob)).json() == {"removed": 0}
        assert (await http.get("/search", params={"query": "door code"}, headers=ada)).json() == [
            "My door code is 4711."
        ]
        assert (await http.delete("/me", headers=ada)).json() == {"removed": 1}


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer "}, {"Authorization": "Basic ada"}])
async def test_the_service_gives_an_unknown_user_nothing(
    headers: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORANDA_URL", f"sqlite:///{tmp_path}/agent.db")
    app = fastapi_app().app
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        assert (await http.get("/search", params={"query": "door"}, headers=headers)).status_code == 401


async def test_the_worker_compacts_what_is_due_and_nothing_else(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    async with memoranda.open(url) as store:
        for session, rounds in (("long", 15), ("short", 2)):
            handle = store.scoped(user_id="ada", session_id=session)
            for number in range(rounds):
                await handle.add_many([HumanMemory(content=f"Question {number}?"), AIMemory(content="Yes.")])

    with model_server() as server:
        variables = {"MEMORANDA_URL": url, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        first = run("compaction_worker.py", "--once", folder=tmp_path, **variables)
        second = run("compaction_worker.py", "--once", folder=tmp_path, **variables)

    assert first.stdout == "Compacted sessions: 1\n"
    assert second.stdout == "Compacted sessions: 0\n"
    async with memoranda.open(url) as store:
        shown = await store.window(metadata=MemoryMetadata(user_id="ada", session_id="long"))
        assert [item.memory_type for item in shown] == ["summary", *["human", "ai"] * 3]
        assert len(await store.window(metadata=MemoryMetadata(user_id="ada", session_id="short"))) == 4


def test_logs_are_json_and_say_nothing_of_what_was_stored(tmp_path: Path) -> None:
    result = run("logs_and_metrics.py", folder=tmp_path)

    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert [(line["level"], line["logger"]) for line in lines] == [("ERROR", "memoranda.store.observers")]
    assert "4711" not in result.stderr
    assert json.loads(result.stdout) == {"added.human": 1, "removed": 1, "searches": 2, "searches.empty": 1}


def test_the_deployment_starts_what_is_there_with_no_password_in_it() -> None:
    compose = yaml.safe_load((EXAMPLES / "compose.yaml").read_text(encoding="utf-8"))

    services = compose["services"]
    assert set(services) == {"db", "api", "worker"}
    assert services["db"]["environment"]["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    assert services["worker"]["environment"]["PGPASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    assert (EXAMPLES.parent / services["worker"]["command"][1]).is_file()
    assert (EXAMPLES / f"{services['api']['command'][3].partition(':')[0]}.py").is_file()
    assert set(compose["volumes"]) == {services["db"]["volumes"][0].partition(":")[0]}


def test_the_image_is_built_from_existing_paths() -> None:
    lines = (EXAMPLES / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    copied = [line.split()[1] for line in lines if line.startswith("COPY ")]
    (installing,) = (line for line in lines if "pip install" in line)

    assert all((EXAMPLES.parent / path).exists() for path in copied)
    assert "-c constraints.txt" in installing
    assert {"constraints.txt", "core", "plugins"} <= set(copied)
    (ours,) = (word for word in shlex.split(installing) if word.startswith("./"))
    assert set(names(ours)) <= OURS


def test_every_program_is_in_the_list() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")

    assert [path.name for path in EXAMPLES.glob("*.py") if f"`{path.name}`" not in listed] == []
