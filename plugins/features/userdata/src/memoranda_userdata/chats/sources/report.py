"""What an import understands of a file, leaves out and refuses, by conversation or memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from memoranda.errors import InputError


@dataclass(slots=True)
class Entry:
    """One conversation, or one memory without a conversation: where it is, and what becomes of it.

    ``number`` counts the entries of the file from 1, since a whole export may stand in one line.
    """

    number: int
    line: int
    session: str | None = None
    items: int = 0
    branches: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    refused: str = ""

    def sentence(self) -> str:
        """Return what becomes of it."""
        if self.refused:
            return f"refused: {self.refused}"
        counts = [_counted(self.items, "item", "items")]
        if self.branches:
            counts.append(_counted(self.branches, "branch", "branches"))
        lost = f"; left out: {listed(self.left_out)}" if self.left_out else ""
        return ", ".join(counts) + lost

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "entry": self.number,
            "line": self.line,
            "session": self.session,
            "items": self.items,
            "branches": self.branches,
            "left_out": dict(self.left_out),
            "refused": self.refused or None,
        }


@dataclass(slots=True)
class Report:
    """The entries of a file in their order. With ``collects``, what is refused is noted, and the rest is read on."""

    collects: bool = False
    entries: list[Entry] = field(default_factory=list)

    @contextmanager
    def entry(self, line: int, name: str) -> Iterator[Entry]:
        """Give the entry of a line to fill in. An InputError in the block names the line, or is noted."""
        found = Entry(len(self.entries) + 1, line)
        self.entries.append(found)
        try:
            yield found
        except InputError as error:
            if not self.collects:
                raise InputError(f"{name}, line {line}, entry {found.number}: {error}", field=error.field) from error
            found.refused = str(error)

    @property
    def refused(self) -> int:
        """How many entries are refused."""
        return sum(bool(entry.refused) for entry in self.entries)

    @property
    def left_out(self) -> Counter[str]:
        """What is left out, of all entries."""
        return sum((entry.left_out for entry in self.entries), Counter[str]())


def listed(left_out: Counter[str]) -> str:
    """Return what is left out, in words."""
    return ", ".join(f"{what} ({number:,})" for what, number in left_out.most_common())


def _counted(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"
