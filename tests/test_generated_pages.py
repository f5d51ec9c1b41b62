"""The pages that are made from the code are up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import memoranda
from memoranda_testing.servers import postgres_server

DOCS = Path(__file__).parent.parent / "docs"


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["capabilities.md", "cli.md"])
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    pages: dict[Path, str] = _generator().generated()
    path = DOCS / "pages" / "reference" / name

    assert path.read_text(encoding="utf-8") == pages[path], "run: python docs/generate.py"


async def test_postgresql_with_an_embedder_can_do_what_the_page_says() -> None:
    _, with_embedder = _generator().declared_by("postgres")
    with postgres_server() as server, server.database() as url:
        async with memoranda.open(url, embeddings="hashing") as store:
            assert store.capabilities == with_embedder
