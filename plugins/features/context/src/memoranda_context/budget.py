"""The token budget of a prompt: what each part costs, and how the budget is divided among them.

What comes first in a prompt must not depend on the question, nor change with every turn: a provider's cache reuses
only what stays. So what was told has a room that grows smaller in a few steps while a conversation grows, and the
conversation a room that depends on nothing but the budget and the system text. The memories for the question take what
is left. A window that drops its oldest round at every turn never has the same beginning; one that keeps it until it
must move, and then moves far, nearly always has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoranda.items import HumanMemory, MemoryItem
from memoranda.tokens import CHARACTERS_OF_A_TOKEN, TokenCounter, estimate_tokens
from memoranda.windowing import rounds_of, stays

_PLAIN: MemoryItem = HumanMemory(content="")

_STEPS = 4
"""In how many steps a growing conversation takes room from what was told."""

_OF_A_LONG_CONVERSATION = 10
"""Of how many parts of the budget one is left for what was told, where a conversation takes all it may."""

_BESIDE_A_LONG_CONVERSATION = 8
"""Of how many parts of the budget memories for the question have one there."""

_FEW = 32
"""Of how many parts of the budget one is enough for memories that nothing asks for."""

_LEAST_USED = 4
"""A window that moves keeps at least one part in so many of its budget."""


class Counts:
    """The tokens of what one context is made of, by its counter, or else by the estimate.

    A prompt is chosen, fitted and explained by the same numbers, and a model's own tokenizer takes its time for each:
    so each item is counted once.
    """

    def __init__(self, counter: TokenCounter | None) -> None:
        self._counter = counter or estimate_tokens
        self._known: dict[int, tuple[MemoryItem, int]] = {}  # With the item, so that no later one gets its number.
        self.is_estimate = self._counter is estimate_tokens
        """True if only the length of a text counts. To make an item of it takes a hundred times as long."""

    def __call__(self, item: MemoryItem) -> int:
        """Return the tokens of an item."""
        found = self._known.get(id(item))
        if found is None:
            found = self._known[id(item)] = item, self._counter(item)
        return found[1]

    def of_each(self, items: Iterable[MemoryItem]) -> list[int]:
        tokens: list[int] = []
        for item in items:
            found = self._known.get(id(item))
            tokens.append(self(item) if found is None else found[1])
        return tokens

    def of_texts(self, *texts: str) -> list[int]:
        tokens: list[int] = []
        for text in texts:
            if self.is_estimate:
                tokens.append(-(-len(text) // CHARACTERS_OF_A_TOKEN))
            else:
                tokens.append(self._counter(_PLAIN.model_copy(update={"content": text})))
        return tokens

    def of_text(self, text: str) -> int:
        return self.of_texts(text)[0]


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
        if is_cut:
            left = min(left, self.free // _BESIDE_A_LONG_CONVERSATION)
        return min(left, self.most_memories)

    @property
    def few(self) -> int:
        return self.free // _FEW


def steady_window(said: Sequence[MemoryItem], budget: int, count: TokenCounter, rounds_before: int) -> list[MemoryItem]:
    """Return a window of the newest rounds, given all that fit the budget; ``rounds_before`` are those that do not.

    It begins with the round whose number in the conversation is divisible by the highest power of two, among those that
    leave enough of the budget in use. Such a number stays the best choice until the window outgrows its budget. It
    follows from the conversation alone: two processes, and one that was restarted, cut alike.
    """
    rounds = rounds_of(said)
    if not rounds_before or not rounds:
        return list(said)
    staying = sum(count(item) for item in said if stays(item))
    used, first = staying, len(rounds) - 1
    best = len(rounds)
    for place in range(len(rounds) - 1, -1, -1):
        used += sum(count(said[position]) for position in rounds[place])
        if _LEAST_USED * used < budget:
            first = place
        elif best == len(rounds) or _roundness(rounds_before + place) >= _roundness(rounds_before + best):
            best = place
    start = first if best == len(rounds) else best
    kept = {position for places in rounds[start:] for position in places}
    return [item for position, item in enumerate(said) if position in kept or stays(item)]


def _roundness(number: int) -> int:
    return number & -number
