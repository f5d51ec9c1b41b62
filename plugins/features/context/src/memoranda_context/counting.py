"""What a text costs in a prompt."""

from __future__ import annotations

from memoranda.items import HumanMemory, MemoryItem
from memoranda.tokens import CHARACTERS_OF_A_TOKEN, TokenCounter, estimate_tokens

_PLAIN: MemoryItem = HumanMemory(content="")


def counted_once(counter: TokenCounter | None) -> TokenCounter:
    """Return a counter for one context: the estimate, or one that asks the given counter about each item once.

    A prompt is chosen, fitted and explained by the same numbers, and a model's own tokenizer takes its time for each.
    """
    if counter is None or counter is estimate_tokens:
        return estimate_tokens
    known: dict[int, tuple[MemoryItem, int]] = {}  # With the item, so that no later one gets its number.

    def count(item: MemoryItem) -> int:
        found = known.get(id(item))
        if found is None:
            found = known[id(item)] = item, counter(item)
        return found[1]

    return count


def text_tokens(count: TokenCounter, text: str) -> int:
    """Return the tokens of a text, as a message of the user's."""
    if count is estimate_tokens:  # To make an item takes a hundred times as long.
        return -(-len(text) // CHARACTERS_OF_A_TOKEN)
    return count(_PLAIN.model_copy(update={"content": text}))
