"""What a text costs in a prompt."""

from __future__ import annotations

from memoranda.items import HumanMemory, MemoryItem
from memoranda.tokens import CHARACTERS_OF_A_TOKEN, TokenCounter, estimate_tokens

_PLAIN: MemoryItem = HumanMemory(content="")


def text_tokens(count: TokenCounter, text: str) -> int:
    """Return the tokens of a text, as a message of the user's."""
    if count is estimate_tokens:  # To make an item takes a hundred times as long.
        return -(-len(text) // CHARACTERS_OF_A_TOKEN)
    return count(_PLAIN.model_copy(update={"content": text}))
