"""The parts of pages that are made from the code are up to date."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

import memoranda
from memoranda_cli.app import app
from servers import postgres_server

DOCS = Path(__file__).parent.parent / "docs"


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["how-to/choose-a-backend.md", "reference/cli.md"])
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    pages: dict[Path, str] = _generator().generated()
    path = DOCS / "pages" / name

    assert path.read_text(encoding="utf-8") == pages[path], "run: python docs/generate.py"


def test_every_option_of_a_command_is_on_its_line_or_in_a_group_that_the_line_names() -> None:
    page = (DOCS / "pages" / "reference" / "cli.md").read_text(encoding="utf-8")
    groups = {
        name: set(re.findall(r"`(--\w[\w-]*)`", line))
        for name, line in re.findall(r"^- \*\*(\w+)\*\*: (.*)$", page, re.MULTILINE)
    }
    lines = dict(re.findall(r"^- \*\*`([a-z-]+(?: [a-z-]+)?)[^`]*`\*\* (.*)$", page, re.MULTILINE))
    root: Any = typer.main.get_command(app)
    context = root.make_context("memoranda", [], resilient_parsing=True)

    assert {"add", "search", "facts set", "quarantine approve"} <= set(lines)
    for name, line in lines.items():
        command = root
        for word in name.split():
            command = command.get_command(context, word)
        shown = set(re.findall(r"`(-[\w-]+)`", line))
        shown = shown.union(*(groups[group] for group in re.findall(r"\*(\w+)\*", line)))
        visible = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
        assert {each.opts[0] for each in visible} - {"--help"} == shown, name


async def test_postgresql_with_an_embedder_can_do_what_the_page_says() -> None:
    _, with_embedder = _generator().declared_by("postgres")
    with postgres_server() as server, server.database() as url:
        async with memoranda.open(url, embeddings="hashing") as store:
            assert store.capabilities == with_embedder
