"""How the budget of a prompt is divided: what the user told, the conversation, and the memories for a question.

What comes first in a prompt must not depend on the question, nor change with every turn: a provider's cache reuses
only what stays. So what was told has a room that grows smaller in a few steps while a conversation grows, and the
conversation a room that depends on nothing but the budget and the system text. The memories for the question take what
is left.
"""

from __future__ import annotations

from dataclasses import dataclass

_STEPS = 4
"""In how many steps a growing conversation takes room from what was told."""

_OF_A_LONG_CONVERSATION = 10
"""Of how many parts of the budget one is left for what was told, where a conversation takes all it may."""

_BESIDE_A_LONG_CONVERSATION = 8
"""Of how many parts of the budget memories for the question have one there."""

_FEW = 32
"""Of how many parts of the budget one is enough for memories that nothing asks for."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The rooms of a prompt, in tokens. ``free`` is what the system text leaves, ``question`` the question's cost."""

    free: int
    question: int
    most_memories: int
    """What memories may take of it together."""

    @property
    def conversation(self) -> int:
        """The room of the conversation, system items and summaries included."""
        return max(min(self.free * 4 // 5, self.free - self.question), 0)

    def told(self, conversation: int, *, is_cut: bool) -> int:
        """Return the room of what was told beside so many tokens of conversation, some of which may be left out."""
        if is_cut:
            return min(self.free // _OF_A_LONG_CONVERSATION, self.most_memories)
        step = max(self.free // _STEPS, 1)
        taken = min(step * (conversation // step), self.conversation)
        return max(min((self.free - taken) // 2, self.most_memories // 2, self.free - self.question - conversation), 0)

    def found(self, used: int, *, is_cut: bool) -> int:
        """Return the room of the memories for the question, beside so many tokens of everything else.

        Beside a conversation that takes all it may, they have a small part: a cache reuses nothing of them.
        """
        left = max(self.free - self.question - used, 0)
        return min(left, self.free // _BESIDE_A_LONG_CONVERSATION) if is_cut else left

    @property
    def few(self) -> int:
        """The room of memories that nothing asks for."""
        return self.free // _FEW
