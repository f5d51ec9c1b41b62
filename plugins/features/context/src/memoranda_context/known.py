"""What is known of the user: the answers of a store's observers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoranda.store import Store
from memoranda.tokens import TokenCounter

_PART_OF_THE_BUDGET = 10
_MOST_TOKENS = 300
"""What is known takes at most one part in so many of the budget, and at most so many tokens."""


def known_tokens(room: int) -> int:
    """Return how many tokens what is known may take of so many."""
    return min(room // _PART_OF_THE_BUDGET, _MOST_TOKENS)


async def known_profile(handle: Store, room: int, counter: TokenCounter, wanted: Mapping[str, Any]) -> str:
    """Return what is known as lines, for a budget of so many tokens; empty if nothing is."""
    most = known_tokens(room)
    return "\n".join(await handle.known(tokens=most, counter=counter, **wanted)) if most > 0 else ""
