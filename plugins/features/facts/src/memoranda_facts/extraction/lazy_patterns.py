"""Templates that are compiled when a text has their words.

Compiling all templates takes seconds, and most texts need only a few: "I moved to Porto" has no word for a diet. What a
template needs is read from it: its literal words, the alternatives of its groups, and the lists of words that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from memoranda_facts.extraction.grammar import Person, pattern
from memoranda_facts.extraction.rule_table import words

Needed = tuple[tuple[str, ...], ...]
"""Of each of these groups, one text must be there."""

_SHORTEST = 3
"""A literal of fewer letters is in nearly every text."""

_FEW = 3
"""So many texts are looked for in less time than a pattern takes to fail."""

_LISTS_OF = {"OCCUPATION": "TRADE", "PET": "PET_KIND"}
"""Phrases that end with a word of a list."""

_TOKEN = re.compile(
    r"\{(?:[a-z]+=)?(?P<slot>[A-Z_]+)\}|<(?P<verb>[a-z]+)>|(?P<group>\()|(?P<set>\[(?:\\.|[^\]\\])*\])"
    r"|(?P<escape>\\.)|(?P<literal>[A-Za-zà-ÿœ '’-])|(?P<other>.)"
)
_QUANTIFIER = re.compile(r"[?*+]|\{\d*,?\d*\}")


class LazyPattern:
    """The pattern of a template for one person; ``further`` are phrases of another language."""

    def __init__(self, template: str, person: Person, further: Mapping[str, str] | None = None) -> None:
        self._template, self._person, self._further = template, person, further
        self._needed = needed(template, frozenset(further or ()))
        self._compiled: dict[bool, re.Pattern[str]] = {}

    def ready(self, text: str, *, all_alphabets: bool) -> re.Pattern[str] | None:
        """Return the pattern, compiled if need be; None if it cannot match a text, with or without further letters."""
        for group in self._needed:
            for each in group:
                if each in text:
                    break
            else:
                return None
        if all_alphabets not in self._compiled:
            self._compiled[all_alphabets] = pattern(
                self._template, self._person, self._further, all_alphabets=all_alphabets
            )
            # From now on, trying it takes less time than looking for each word of a list.
            self._needed = tuple(group for group in self._needed if len(group) <= _FEW)
        return self._compiled[all_alphabets]


@cache
def needed(template: str, own: frozenset[str] = frozenset()) -> Needed:
    """Return what every text has that a template matches; ``own`` are phrases that mean something else here.

    Groups of few and long texts come first: most texts lack them.
    """
    groups = dict.fromkeys(_needed(template, own))
    return tuple(sorted(groups, key=lambda group: (len(group), -min(map(len, group)))))


def _needed(template: str, own: frozenset[str]) -> Iterator[tuple[str, ...]]:
    run, place = "", 0
    while place < len(template):
        token = _TOKEN.match(template, place)
        assert token is not None
        place = token.end()
        inner = ""
        if token["group"]:
            inner, place = _group(template, place)
        quantifier = _QUANTIFIER.match(template, place)
        if quantifier is not None:
            place = quantifier.end()
        if token["literal"] and quantifier is None:
            run += token["literal"]
            continue
        if token["verb"] and quantifier is None:
            run += token["verb"].removesuffix("y")  # "study" becomes "studies".
        yield from _literal(run)
        run = ""
        is_certain = quantifier is None or quantifier.group() == "+"
        if token["slot"] and is_certain:
            yield from _listed(token["slot"], own)
        if inner and is_certain:
            yield from _alternatives(inner, own)
    yield from _literal(run)


def _literal(run: str) -> Iterator[tuple[str, ...]]:
    text = run.strip()
    if len(text) >= _SHORTEST:
        yield (text,)


def _listed(slot: str, own: frozenset[str]) -> Iterator[tuple[str, ...]]:
    name = _LISTS_OF.get(slot, slot)
    if slot not in own and name in words():
        yield words()[name]


def _alternatives(inner: str, own: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Yield what a group of alternatives needs: one text of each of them, unless one needs nothing."""
    found: list[str] = []
    for each in _split(inner):
        needs: list[tuple[str, ...]] = list(_needed(each, own))
        if not needs:
            return
        best = min(needs, key=lambda group: (len(group), -len(group[0])))
        found += best
    yield tuple(found)


def _group(template: str, start: int) -> tuple[str, int]:
    """Return what a group holds that must be there, empty for a look-around, and where it ends."""
    depth, place = 1, start
    while depth:
        token = _TOKEN.match(template, place)
        assert token is not None
        depth += 1 if token["group"] else -1 if token.group() == ")" else 0
        place = token.end()
    inner = template[start : place - 1]
    if inner.startswith(("?=", "?!", "?<=", "?<!", "?i:")):
        return "", place
    return re.sub(r"^\?(?::|P<\w+>)", "", inner), place


def _split(inner: str) -> Sequence[str]:
    """Return the alternatives of a group."""
    parts, depth, last, place = [], 0, 0, 0
    while place < len(inner):
        token = _TOKEN.match(inner, place)
        assert token is not None
        depth += 1 if token["group"] else -1 if token.group() == ")" else 0
        if token.group() == "|" and depth == 0:
            parts.append(inner[last:place])
            last = token.end()
        place = token.end()
    return [*parts, inner[last:]]
