"""Every code block of the documentation and the READMEs runs, and what it says it prints, it prints.

The Python blocks of a page share a namespace and an event loop, as in a notebook; ``await`` works at the top level. A
``text`` block right after one is its output, where ``…`` stands for anything. A block with a ``title`` is a file, which
is saved under that name. ``console`` blocks are commands after ``$`` with their output. A block that shows a file,
``--8<--``, is run by ``test_examples.py``, or for TypeScript by ``test_typescript_example.py``. The addresses of local
servers in the pages are replaced by those of the servers of the tests.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from typer.testing import CliRunner

from memoranda_cli.app import app
from memoranda_sqlite.scope_cache import MOST_BYTES
from servers import ExternalPostgresServer, PostgresServer, postgres_server, redis_server

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs" / "pages"
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "core" / "README.md",
        *ROOT.glob("plugins/*/*/README.md"),
        *DOCS.rglob("*.md"),
    ]
)
# With any of these a shell or a CI asks for colours, or another width, where nobody looks on.
COLOURING = ("FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "TERMINAL_WIDTH")
POSTGRES = "postgresql://localhost/memoranda"
"""The address that pages give their PostgreSQL."""
LANGUAGES = {"python", "text", "console", "toml", "json", "sql", "yaml", "typescript"}
# What needs no shell runs in this process: to start the command takes longer than most of what it does.
PLAIN_COMMAND = re.compile(
    r"memoranda (?:add|conform|context|copy|demo|doctor|eval|export|facts|forget|history|import|plugins|stats)\b"
    r"[^|&;<>$`]*"
)
PLAIN_PROGRAM = re.compile(r"python \w+\.py\b[^|&;<>$`]*")
SHOWN_FILE = re.compile(r"--8<--\n(?P<path>\S+)\n--8<--")
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w+-]*)(?: title=\"(?P<title>[^\"\n]+)\")?[^\n]*\n(?P<body>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A code block, its place, the file it is, and the output that the block after it promises."""

    language: str
    code: str
    line: int
    title: str | None = None
    output: str | None = None


def blocks_of(page: Path) -> list[Block]:
    """Return the code blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    blocks = []
    for position, match in enumerate(found):
        following = found[position + 1] if position + 1 < len(found) else None
        output = None
        if following and following["language"] == "text" and not text[match.end() : following.start()].strip():
            output = _dedented(following)
        line = text[: match.start()].count("\n") + 2
        blocks.append(Block(match["language"], _dedented(match), line, match["title"], output))
    return blocks


def _dedented(match: re.Match[str]) -> str:
    indent = match["indent"]
    return "\n".join(line.removeprefix(indent) for line in match["body"].splitlines())


def agrees(expected: str, printed: str) -> bool:
    """Whether an output is the expected one, where ``…`` stands for anything and trailing blanks do not count."""
    pattern = "\n".join(re.escape(line).replace("…", "(?:.|\n)*?") for line in _lines(expected))
    return re.fullmatch(pattern, "\n".join(_lines(printed))) is not None


def _lines(text: str) -> list[str]:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer | ExternalPostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def addresses(postgres: PostgresServer | ExternalPostgresServer) -> Iterator[dict[str, str]]:
    """The servers that pages speak of, by the address that the pages use."""
    with redis_server() as redis:
        yield {POSTGRES: postgres.url, "redis://localhost:6379/0": redis.url}


class PageRunner:
    """Runs the blocks of one page."""

    def __init__(self, page: Path, addresses: dict[str, str], environment: dict[str, str]) -> None:
        self.page = page
        self.addresses = addresses
        self.environment = environment
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.loop = asyncio.new_event_loop()

    def run(self, block: Block) -> None:
        """Run a block and check what it prints."""
        code = block.code
        shown_file = SHOWN_FILE.match(code)
        if shown_file:
            assert (ROOT / shown_file["path"]).is_file(), shown_file["path"]
            return
        for shown, real in self.addresses.items():
            code = code.replace(shown, real)
        if block.title:
            Path(block.title).write_text(code + "\n", encoding="utf-8")
        elif block.language == "python":
            self._python(code, block)
        elif block.language == "console":
            self._console(code, block)
        elif block.language == "toml":
            tomllib.loads(code)
        elif block.language == "json":
            json.loads(code)
        elif block.language == "yaml":
            yaml.safe_load(code)
        elif block.language == "typescript":
            pytest.fail(f"{self.page.name}:{block.line} has code that no test runs; show a file of the examples.")

    def _python(self, code: str, block: Block) -> None:
        name = f"{self.page.relative_to(ROOT)}:{block.line}"
        compiled = compile(code, name, mode="exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if compiled.co_flags & inspect.CO_COROUTINE:
                self.loop.run_until_complete(eval(compiled, self.namespace))
            else:
                exec(compiled, self.namespace)
        if block.output is not None:
            assert agrees(block.output, printed.getvalue()), f"{name} printed:\n{printed.getvalue()}"

    def _console(self, code: str, block: Block) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        for line, expected in _commands(code):
            command = _without_installing(line)
            if not command:
                continue
            if command.startswith("export "):
                name, _, value = shlex.split(command)[1].partition("=")
                self.environment[name] = value
                continue
            if PLAIN_COMMAND.fullmatch(command):
                done = CliRunner().invoke(app, shlex.split(command)[1:], env=self.environment)
                code, printed, complaint = done.exit_code, done.stdout, done.stderr
            elif PLAIN_PROGRAM.fullmatch(command):
                code, printed, complaint = 0, printed_by(shlex.split(command)[1:], self.environment), ""
            else:
                environment = {**os.environ, "PATH": path, **self.environment}
                result = subprocess.run(
                    command, shell=True, env=environment, capture_output=True, text=True, timeout=240, check=False
                )
                code, printed, complaint = result.returncode, result.stdout, result.stderr
            assert code == 0, f"{self.page.name}:{block.line}: {command}\n{printed}{complaint}"
            if expected:
                assert agrees(expected, printed), f"{self.page.name}:{block.line}: {command}\n{printed}"


def printed_by(arguments: list[str], environment: dict[str, str]) -> str:
    """Run a program of the current folder as Python runs it, and return what it prints."""
    before = set(sys.modules)
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        patch.object(sys, "argv", arguments),
        patch.dict(os.environ, environment),
    ):
        runpy.run_path(arguments[0], run_name="__main__")
    folder = str(Path.cwd())
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(folder):
            del sys.modules[name]
    return printed.getvalue()


def _commands(code: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output shown under it."""
    commands: list[tuple[str, list[str]]] = []
    for line in code.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif commands:
            commands[-1][1].append(line)
    return [(command, "\n".join(lines).strip("\n")) for command, lines in commands]


def _without_installing(line: str) -> str:
    """Return a line without the run of all tests, and without installations: ``test_install_lines.py`` has those."""
    steps = []
    for step in line.split(" && "):
        words = shlex.split(step)
        if words[0] != "nox" and words[:2] not in (["pip", "install"], ["uv", "sync"]):
            steps.append(step.removeprefix("uv run "))
    return " && ".join(steps)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_imports_from_the_faces_of_rooms(page: Path) -> None:
    """A module behind a face may be divided in any release. ``memoranda.store`` has two faces."""
    rooms = "|".join(path.parent.name for path in (ROOT / "core" / "src" / "memoranda").glob("*/__init__.py"))
    assert (
        re.findall(rf"from memoranda\.(?!store\.backend )(?:{rooms})\.\w+ import .*", page.read_text(encoding="utf-8"))
        == []
    )


def test_every_variable_that_is_read_is_on_the_page_of_the_environment() -> None:
    page = (DOCS / "reference" / "install.md").read_text(encoding="utf-8")
    sources = [*ROOT.glob("core/src/**/*.py*"), *ROOT.glob("plugins/*/*/src/**/*.py*")]
    named = {
        name
        for path in sources
        if path.suffix in (".py", ".in")
        for name in re.findall(r'"((?:MEMORANDA|OPENAI|XDG)_[A-Z_]+)"', path.read_text(encoding="utf-8"))
    }

    assert "MEMORANDA_URL" in named
    assert [name for name in sorted(named) if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    "settings", sorted(ROOT.glob("*/pyproject.toml")) + sorted(ROOT.glob("plugins/*/*/pyproject.toml"))
)
def test_a_distribution_says_what_it_is_about(settings: Path) -> None:
    project = tomllib.loads(settings.read_text(encoding="utf-8"))["project"]

    assert {"agents", "memory"} <= set(project["keywords"])
    assert project["description"]
    assert (settings.parent / project["readme"]).is_file()


def test_the_cache_of_ranked_searches_is_as_large_as_the_page_of_performance_says() -> None:
    page = (DOCS / "explanation" / "performance.md").read_text(encoding="utf-8")

    assert f"about {MOST_BYTES >> 20} MiB of terms, texts and vectors" in page


def test_the_first_program_of_the_readme_runs_as_a_script(tmp_path: Path) -> None:
    """A reader saves it to a file and calls Python, which knows no ``await`` at the top level."""
    block = next(block for block in blocks_of(ROOT / "README.md") if block.language == "python")
    script = tmp_path / "script.py"
    script.write_text(block.code, encoding="utf-8")

    result = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )

    assert result.returncode == 0, result.stderr
    assert block.output is not None
    assert agrees(block.output, result.stdout), result.stdout


# They run the whole conformance kit, as other tests do.
KIT_PAGES = {DOCS / "how-to" / "test-a-plugin.md", DOCS / "tutorials" / "write-a-backend.md"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, without the settings of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("MEMORANDA_URL", *COLOURING):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run_page(page: Path, addresses: dict[str, str], environment: dict[str, str] | None = None) -> None:
    """Run the blocks of a page in the current folder; what it exports goes to ``environment``."""
    runner = PageRunner(page, addresses, {} if environment is None else environment)
    try:
        for block in blocks_of(page):
            assert block.language in LANGUAGES, f"{page.name}:{block.line} has a block of language {block.language!r}"
            runner.run(block)
    finally:
        runner.loop.close()


def steps() -> list[Path]:
    """Return the steps of the tutorial in the order of the site's menu."""
    menu = re.search(r"- Tutorial:\n((?: +- tutorials/\S+\n)+)", (ROOT / "docs" / "mkdocs.yml").read_text())
    assert menu
    return [DOCS / name for name in re.findall(r"tutorials/\S+", menu[1])]


ALONE = [page for page in PAGES if page not in steps()]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if page in KIT_PAGES else page for page in ALONE],
    ids=lambda page: str(page.relative_to(ROOT)),
)
@pytest.mark.usefixtures("folder")
def test_the_blocks_of_a_page_run(page: Path, addresses: dict[str, str]) -> None:
    run_page(page, addresses)


@pytest.mark.parametrize(
    "before",
    [pytest.param([], marks=pytest.mark.slow, id="alone"), pytest.param([ROOT / "README.md"], id="after the README")],
)
@pytest.mark.usefixtures("folder")
def test_the_steps_of_the_tutorial_continue_each_other(
    before: list[Path], postgres: PostgresServer | ExternalPostgresServer, addresses: dict[str, str]
) -> None:
    """In one folder and one shell, as a reader takes them, alone or after the program of the front page."""
    environment: dict[str, str] = {}
    with postgres.database() as empty:
        for page in [*before, *steps()]:
            run_page(page, addresses | {POSTGRES: empty}, environment)


def test_the_steps_of_the_tutorial_say_which_they_are() -> None:
    ordinals = {"second": 2, "third": 3, "fourth": 4, "fifth": 5}
    texts = [page.read_text(encoding="utf-8") for page in steps()]
    named = re.findall(r"\[(second|third|fourth|fifth)(?:\s+page)?\]\((\S+?)\)", texts[0])
    following = [re.search(r"^Next: \[.*?\]\((\S+?)\)", text, re.MULTILINE) for text in texts[:-1]]

    assert [text[:4] for text in texts] == ["# 1.", "# 2.", "# 3.", "# 4.", "# 5."]
    assert {ordinals[word]: name for word, name in named} == {
        number: page.name for number, page in enumerate(steps(), 1) if number > 1
    }
    assert [found and found[1] for found in following] == [page.name for page in steps()[1:]]


def test_the_site_is_no_longer_than_a_reader_has_patience_for() -> None:
    """What repeats goes: a page that is added makes another shorter."""
    pages = list(DOCS.rglob("*.md"))
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)

    assert len(pages) <= 55
    assert words <= 38_000
