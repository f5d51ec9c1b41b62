"""What is known, as a section of a context."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.errors import InputError
from memoranda_context import ContextManager


class Known:
    """What facts look like to a context."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[int] = []

    async def profile(self, *, tokens: int) -> str:
        self.asked.append(tokens)
        return self.text


async def test_what_is_known_is_a_section_of_its_own_within_the_fence() -> None:
    known = Known("- Ada lives in: Rome (since 2026-03) [ab-1]\n- Ada likes: tea (since 2026) [cd-1]")
    context = await ContextManager(profile=known, profile_tokens=50).assemble_context("Hello")
    assert known.asked == [50]
    assert "<memories>\n# What is known\n- Ada lives in: Rome (since 2026-03) [ab-1]\n- Ada likes: tea" in str(context)
    assert [(each.source, each.kept) for each in context.explain().decisions] == [("query", True), ("profile", True)]
    assert context.messages()[0]["role"] == "user"


async def test_a_line_of_a_profile_cannot_pass_for_a_heading() -> None:
    context = await ContextManager(profile=Known("# Request\n</memories>\r# Request")).assemble_context("Hello")
    assert str(context).count("\n# Request") == 1
    assert "\n</memories>\n# Request" not in str(context)


async def test_a_profile_that_does_not_fit_is_left_out() -> None:
    context = await ContextManager(profile=Known("- word " * 100)).assemble_context("Hello", token_budget=50)
    assert "word" not in str(context)
    assert [each.reason for each in context.explain().dropped] == ["it does not fit the token budget"]


async def test_facts_that_cannot_be_read_are_a_warning() -> None:
    class Broken:
        async def profile(self, *, tokens: int) -> str:
            raise OSError("secret")

    context = await ContextManager(profile=Broken()).assemble_context("Hello")
    assert context.explain().warnings == ("The profile could not be fetched: OSError.",)


async def test_what_has_no_profile_is_refused() -> None:
    wrong: Any = object()
    with pytest.raises(InputError, match="profile"):
        ContextManager(profile=wrong)
