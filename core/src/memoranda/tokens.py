"""The number of tokens that an item costs a model; a counter is any function from an item to a number."""

from __future__ import annotations

import math
from collections.abc import Callable

from memoranda.items import MemoryItem
from memoranda.tool_calls import call_arguments, call_name

TokenCounter = Callable[[MemoryItem], int]
"""Counts the tokens of an item. Those of many items are counted in a thread, so that the event loop stays free."""


CHARACTERS_OF_A_TOKEN = 4
"""How many characters the estimate takes for a token."""


def sent_length(item: MemoryItem) -> int:
    """Return the number of characters that a model is sent for an item: its text, tool names and arguments."""
    # Triggers look at whole histories; reading a model's fields from its dict takes a third of the time.
    fields = item.__dict__
    length = len(fields["content"]) + len(fields["name"] or "")
    kind = fields["memory_type"]
    if kind == "ai":
        for call in getattr(item, "tool_calls", None) or ():
            length += len(call_name(call)) + len(call_arguments(call)) + len(str(call.get("id", "")))
    elif kind == "tool":
        length += len(getattr(item, "tool_call_id", ""))
    return length


def estimate_tokens(item: MemoryItem, ratio: float = CHARACTERS_OF_A_TOKEN) -> int:
    """Estimate the tokens of an item from its length: ``ratio`` characters a token, rounded up."""
    return math.ceil(sent_length(item) / ratio)
