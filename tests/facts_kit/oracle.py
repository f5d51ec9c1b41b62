"""What facts should answer, decided for one moment at a time by asking every entry of every other: slow and plain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

FOREVER = "~"
"""The end of what has none; it sorts behind every moment."""


@dataclass(frozen=True)
class Entry:
    """One change of one slot. Moments are texts in the order of time; a set without an end lasts for ever."""

    number: int
    change: str
    kind: Literal["set", "end", "correct", "confirm", "retract", "undo"]
    at: str
    value: str | None = None
    start: str = ""
    end: str = FOREVER
    targets: tuple[int, ...] = ()
    undoes: str | None = None
    rank: int = 3


class Oracle:
    """Answers for a slot of a kind, as it was known at a moment."""

    def __init__(self, kind: Literal["one", "many", "event"], history: Sequence[Entry], known: str) -> None:
        self.kind = kind
        learned = [entry for entry in history if entry.at <= known]
        self.entries = [entry for entry in learned if not _is_off(entry, learned)]
        self.asserting = [
            entry
            for entry in self.entries
            if entry.value is not None and entry.kind in ("set", "correct") and self._stands(entry)
        ]

    def states(self, valid: str) -> dict[str, str]:
        """Return the values of a moment, each with its state; those of events with their start."""
        shown = [entry for entry in self.asserting if self._is_shown(entry, valid)]
        values = {self._name(entry) for entry in shown}
        found = {}
        for value in values:
            doubted = all(self._is_denied(entry, valid) for entry in shown if self._name(entry) == value)
            against = self.kind == "one" and len(values) > 1
            found[value] = "disputed" if doubted or against else "holds"
        return found

    def _name(self, entry: Entry) -> str:
        return f"{entry.value} {entry.start}" if self.kind == "event" else str(entry.value)

    def _rank(self, entry: Entry) -> int:
        confirming = [other.rank for other in self.entries if other.kind == "confirm" and entry.number in other.targets]
        return max([entry.rank, *confirming])

    def _is_shown(self, entry: Entry, valid: str) -> bool:
        superseded = self.kind == "one" and any(self._supersedes(other, entry, valid) for other in self.asserting)
        return self._covers(entry, valid) and not superseded

    def _stands(self, entry: Entry) -> bool:
        return not any(
            other.kind in ("correct", "retract") and entry.number in other.targets and other.rank >= self._rank(entry)
            for other in self.entries
        )

    def _covers(self, entry: Entry, valid: str) -> bool:
        if self.kind == "event":
            return entry.start <= valid
        ended = any(
            self._is_about(other, entry) and other.rank >= self._rank(entry) and other.end <= valid
            for other in self.entries
        )
        return entry.start <= valid < entry.end and not ended

    def _is_about(self, end: Entry, entry: Entry) -> bool:
        return end.kind == "end" and end.value in (None, entry.value) and entry.start < end.end

    def _supersedes(self, later: Entry, entry: Entry, valid: str) -> bool:
        if later.value == entry.value or (later.start, later.at) <= (entry.start, entry.at):
            return False
        if self._rank(later) < self._rank(entry):
            return False
        return later.start <= valid if later.end == FOREVER else self._covers(later, valid)

    def _is_denied(self, entry: Entry, valid: str) -> bool:
        """Return True if an entry that is less trusted says otherwise of this moment."""
        return any(
            (other.kind in ("correct", "retract") and entry.number in other.targets)
            or other.undoes == entry.change
            or (self.kind != "event" and self._is_about(other, entry) and other.end <= valid)
            for other in self.entries
        )


def _is_off(entry: Entry, entries: Sequence[Entry]) -> bool:
    """Return True if an undo takes an entry back that is trusted as far as the entry and what confirms it."""
    undoing = [other.rank for other in entries if other.undoes == entry.change and not _is_off(other, entries)]
    confirming = [
        other.rank
        for other in entries
        if other.kind == "confirm" and entry.number in other.targets and not _is_off(other, entries)
    ]
    return bool(undoing) and max(undoing) >= max([entry.rank, *confirming])
