"""Items as the messages of a provider, and back.

A message that is read is written back as it was, or refused with its place; what is written is always valid. An item
that was changed is written as it is now, and what a format cannot hold is reported (see :class:`Dropped`).
"""

from __future__ import annotations

from memoranda_messages.anthropic import from_anthropic, to_anthropic
from memoranda_messages.chat import from_openai, to_openai
from memoranda_messages.history import from_history, to_history
from memoranda_messages.parts import Part, parts_of
from memoranda_messages.payloads import agrees
from memoranda_messages.plain_tools import PlainTool
from memoranda_messages.request import Dropped, results_behind_calls
from memoranda_messages.responses import from_responses, to_responses

__all__ = [
    "Dropped", "Part", "PlainTool", "agrees", "from_anthropic", "from_history", "from_openai", "from_responses",
    "parts_of", "results_behind_calls", "to_anthropic", "to_history", "to_openai", "to_responses",
]  # fmt: skip
