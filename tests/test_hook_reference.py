"""The reference of the hooks is complete and exact."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from memoranda.plugins import hookspecs

PAGE = Path(__file__).parent.parent / "docs" / "pages" / "reference" / "hooks.md"


@pytest.mark.parametrize("hook", list(hookspecs.HOOKS))
def test_every_hook_is_documented_with_its_signature(hook: str) -> None:
    signature = f"{hook}{inspect.signature(getattr(hookspecs, hook))}".replace("'", "")

    assert f"### `{signature}`" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("spec", [kind.__name__ for kind in hookspecs.KINDS])
def test_every_spec_is_documented(spec: str) -> None:
    assert spec in PAGE.read_text(encoding="utf-8").partition("## The specs")[2]


def test_the_page_names_no_hook_that_is_gone() -> None:
    headings = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("### `memoranda_")]

    assert len(headings) == len(hookspecs.HOOKS)
