"""The rules for English, read from ``rules.txt``, and the words that they know, from ``words.txt``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

_HEAD = re.compile(r"(?P<name>[a-z-]+): (?P<gives>[^()]+?)(?: \((?P<flags>[a-z ]+)\))?")
_GIVEN = re.compile(r"(?P<end>-?)(?P<predicate>\w+)(?:=(?P<group>\w+))?(?P<lasting>\*?)")


@dataclass(frozen=True, slots=True)
class Given:
    """A fact that a rule gives: its predicate, the group of its value, and what to do with it.

    ``lasting`` facts were true before they were spoken of.
    """

    predicate: str
    group: str
    kind: Literal["set", "end"]
    lasting: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: what it gives for what one of its templates matches. ``rules.txt`` explains the flags."""

    name: str
    gives: tuple[Given, ...]
    templates: tuple[str, ...]
    flags: frozenset[str]

    @property
    def anywhere(self) -> bool:
        """True if it need not start a clause."""
        return "anywhere" in self.flags

    @property
    def of_the_living(self) -> bool:
        """True if it does not hold in a sentence that speaks of a death."""
        return "alive" in self.flags

    @property
    def names_kinds(self) -> bool:
        """True if its value is a kind of thing, which has no article."""
        return "kind" in self.flags

    @property
    def names_anything(self) -> bool:
        """True if its value may be nearly anything."""
        return not self.flags.isdisjoint(("kind", "open"))


@cache
def rules() -> tuple[Rule, ...]:
    """Return the rules, in the order of the file."""
    return tuple(_rules(_lines("rules.txt")))


def _rules(lines: list[str]) -> Iterator[Rule]:
    starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        head = _HEAD.fullmatch(lines[start])
        if head is None:
            raise ValueError(f"rules.txt has no rule in the line {lines[start]!r}")
        gives = tuple(
            Given(
                given["predicate"],
                given["group"] or "value",
                "end" if given["end"] else "set",
                bool(given["lasting"]),
            )
            for given in _GIVEN.finditer(head["gives"])
        )
        templates = tuple(line.strip() for line in lines[start + 1 : stop])
        yield Rule(head["name"], gives, templates, frozenset((head["flags"] or "").split()))


@cache
def words() -> dict[str, tuple[str, ...]]:
    """Return the words of each list."""
    lists: dict[str, tuple[str, ...]] = {}
    name = ""
    for line in _lines("words.txt"):
        if line.startswith(" "):
            lists[name] += tuple(word.strip() for word in line.split(",") if word.strip())
        else:
            name = line.removesuffix(":")
            lists[name] = ()
    return lists


def _lines(name: str) -> list[str]:
    text = files("memoranda_facts.extraction").joinpath(name).read_text("utf-8")
    return [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
