"""Every code block of the documentation and the READMEs runs, and what it says it prints, it prints.

The Python blocks of a page share a namespace and an event loop, as in a notebook; ``await`` works at the top level. A
``text`` block right after one is its output, where ``…`` stands for anything. ``console`` blocks are commands after
``$`` with their output. A block that shows a file, ``--8<--``, is run by ``test_examples.py``, or for TypeScript by
``test_typescript_example.py``. The addresses of local servers in the pages are replaced by those of the servers of the
tests.
"""

from __future__ import annotations

import ast
import asyncio
import codeop
import contextlib
import functools
import inspect
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from memoranda_cli.app import app
from memoranda_sqlite.scope_cache import MOST_BYTES
from memoranda_testing.servers import postgres_server, redis_server

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
LANGUAGES = {"python", "text", "console", "toml", "json", "sql", "yaml", "typescript"}
# What needs no shell runs in this process: to start the command takes longer than most of what it does.
PLAIN_COMMAND = re.compile(
    r"memoranda (?:add|conform|copy|demo|doctor|eval|export|forget|import|plugins|stats)\b[^|&;<>$`]*"
)
SHOWN_FILE = re.compile(r"--8<--\n(?P<path>\S+)\n--8<--")
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A code block, its place, and the output that the block after it promises."""

    language: str
    code: str
    line: int
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
        blocks.append(Block(match["language"], _dedented(match), text[: match.start()].count("\n") + 2, output))
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
def addresses() -> Iterator[dict[str, str]]:
    """The servers that pages speak of, by the address that the pages use."""
    with postgres_server() as postgres, redis_server() as redis:
        yield {"postgresql://localhost/memoranda": postgres.url, "redis://localhost:6379/0": redis.url}


class PageRunner:
    """Runs the blocks of one page."""

    def __init__(self, page: Path, addresses: dict[str, str], *, typed: bool = False) -> None:
        self.page = page
        self.addresses = addresses
        self.typed = typed
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
        if block.language == "python":
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
        whole = functools.partial(compile, mode="exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for compiled in statements_as_typed(code, name) if self.typed else [whole(code, name)]:
                if compiled.co_flags & inspect.CO_COROUTINE:
                    self.loop.run_until_complete(eval(compiled, self.namespace))
                else:
                    exec(compiled, self.namespace)
        if block.output is not None:
            assert agrees(block.output, printed.getvalue()), f"{name} printed:\n{printed.getvalue()}"

    def _console(self, code: str, block: Block) -> None:
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        for line, expected in _commands(code):
            command = _without_installing(line)
            if not command:
                continue
            if PLAIN_COMMAND.fullmatch(command):
                done = CliRunner().invoke(app, shlex.split(command)[1:])
                code, printed, complaint = done.exit_code, done.stdout, done.stderr
            else:
                result = subprocess.run(
                    command, shell=True, env=environment, capture_output=True, text=True, timeout=240, check=False
                )
                code, printed, complaint = result.returncode, result.stdout, result.stderr
            assert code == 0, f"{self.page.name}:{block.line}: {command}\n{printed}{complaint}"
            if expected:
                assert agrees(expected, printed), f"{self.page.name}:{block.line}: {command}\n{printed}"


def statements_as_typed(code: str, name: str) -> Iterator[CodeType]:
    """Yield the statements of a block as ``python -m asyncio`` takes them, where an empty line ends a compound one."""
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    typed: list[str] = []
    for line in [*code.splitlines(), ""]:
        typed.append(line)
        compiled = compiler("\n".join(typed), name, "single")
        if compiled is not None:
            yield compiled
            typed = []
    assert not any(typed), f"{name}: a console still waits for the end of:\n{typed[0]}"


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


def run_page(page: Path, addresses: dict[str, str], *, typed: bool = False) -> None:
    """Run the blocks of a page in the folder that is the current one; ``typed`` into a console, or in a notebook."""
    runner = PageRunner(page, addresses, typed=typed)
    try:
        for block in blocks_of(page):
            assert block.language in LANGUAGES, f"{page.name}:{block.line} has a block of language {block.language!r}"
            runner.run(block)
    finally:
        runner.loop.close()


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if page in KIT_PAGES else page for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
@pytest.mark.usefixtures("folder")
def test_the_blocks_of_a_page_run(page: Path, addresses: dict[str, str]) -> None:
    run_page(page, addresses)


def tutorials() -> list[Path]:
    """Return the tutorials in the order of the site's menu."""
    menu = re.search(r"- Tutorials:\n((?: +- tutorials/\S+\n)+)", (ROOT / "docs" / "mkdocs.yml").read_text())
    assert menu
    return [DOCS / name for name in re.findall(r"tutorials/\S+", menu[1])]


@pytest.mark.usefixtures("folder")
def test_the_tutorials_run_one_after_the_other_in_one_folder(
    addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As their readers do, in a console and after the program of the front page: what a page stored stays there."""
    monkeypatch.setattr(sys, "displayhook", lambda value: None)  # A console also shows what no page prints.
    run_page(ROOT / "README.md", addresses)
    for page in tutorials():
        if page not in KIT_PAGES:
            run_page(page, addresses, typed=True)


def test_the_tutorials_say_which_page_they_are() -> None:
    ordinals = {"second": 2, "third": 3, "fourth": 4}
    texts = {page: page.read_text(encoding="utf-8") for page in tutorials()}
    numbers = {page: int(found[1]) for page, text in texts.items() if (found := re.match(r"# (\d+)\. ", text))}
    named = {
        (page.parent / name, ordinals[word])
        for page, text in texts.items()
        for word, name in re.findall(r"\[(second|third|fourth)(?:\s+page)?\]\((\S+?)\)", text)
    }

    assert list(numbers.values()) == [1, 2, 3, 4]
    assert named == {(page, number) for page, number in numbers.items() if number > 1}
