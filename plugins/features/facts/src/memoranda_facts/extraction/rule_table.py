"""The rules of each language, read from ``rules_en.txt`` and others, and the words they know, from ``words.txt``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from memoranda_facts.extraction.predicates import GROUPS

_HEAD = re.compile(r"(?P<name>[a-z-]+): (?P<gives>[^()]+?)(?: \((?P<flags>[a-z: -]+)\))?")
_GIVEN = re.compile(
    r"(?P<end>-?)(?P<group>@?)(?P<predicate>\w+)(?P<known>\??)(?::(?P<among>[A-Z_]+))?"
    r"(?:=(?:(?P<from>\w+)|'(?P<constant>[^']+)'))?(?P<lasting>\*?)(?: |$)"
)
Ends = Literal["named", "any", "only", "among"]


@dataclass(frozen=True, slots=True)
class Given:
    """A fact that a rule gives: its predicates, the group of its value, and what to do with it.

    ``lasting`` facts were true before they were spoken of. A ``constant`` is the value itself. Of an ending, ``ends``
    says which values: the one that is ``named``, ``any`` that holds, the ``only`` one that does, or those ``among`` a
    list of words. With ``known``, it counts only if what it names is known to hold.
    """

    predicates: tuple[str, ...]
    group: str
    kind: Literal["set", "end"]
    lasting: bool = False
    constant: str | None = None
    ends: Ends = "named"
    known: bool = False
    among: str | None = None

    @property
    def predicate(self) -> str:
        """The predicate of what is set."""
        return self.predicates[0]


def _given(found: re.Match[str]) -> Given:
    group = found["from"] or "value"
    ends: Ends = "among" if found["among"] else "any" if group == "any" else "only" if group == "only" else "named"
    return Given(
        predicates=GROUPS[found["predicate"]] if found["group"] else (found["predicate"],),
        group=group,
        kind="end" if found["end"] else "set",
        lasting=bool(found["lasting"]),
        constant=found["constant"],
        ends=ends,
        known=bool(found["known"] or found["group"]) or ends != "named",
        among=found["among"],
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: what it gives for what one of its templates matches. ``rules_en.txt`` explains the flags."""

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

    @property
    def follows(self) -> str | None:
        """The rule that the sentence before has to match, if one has to."""
        return next((flag.removeprefix("follows:") for flag in self.flags if flag.startswith("follows:")), None)

    @property
    def starts_anyhow(self) -> bool:
        """True if its clause need not begin with the speaker."""
        return "free" in self.flags

    @property
    def is_plan(self) -> bool:
        """True if a date that is said lies ahead."""
        return "plan" in self.flags

    @property
    def replaces(self) -> bool:
        """True if a value is set only where it takes the place of one that is known."""
        return "replaces" in self.flags


@cache
def rules(language: str = "en") -> tuple[Rule, ...]:
    """Return the rules of a language, in the order of the file."""
    return tuple(_rules(f"rules_{language}.txt"))


def _rules(name: str) -> Iterator[Rule]:
    lines = _lines(name)
    starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        head = _HEAD.fullmatch(lines[start])
        if head is None:
            raise ValueError(f"{name} has no rule in the line {lines[start]!r}")
        gives = tuple(map(_given, _GIVEN.finditer(head["gives"])))
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
