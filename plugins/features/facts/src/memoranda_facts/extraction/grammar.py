"""The grammar that the rules are written in: templates that stand for a statement about the speaker or about a name.

A template becomes one pattern for each person. ``{S}`` is the subject with adverbs; ``{BE}``, ``{WAS}`` and ``{HAVE}``
are the subject with that verb; ``{MY}`` is a possessive; ``<live>`` is a verb in its right form; other names in
capitals are noun phrases and lists of words. ``{value=PLACE}`` is a group of that name. ``{END}`` is where a phrase may
end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Literal

from memoranda_facts.extraction.rule_table import alternatives, phrase, phrases, words
from memoranda_facts.extraction.sentences import DAY, SAID_DATE


class Person(Enum):
    """Who a statement is about: the speaker, the one spoken to, or someone who is named."""

    FIRST = "first"
    SECOND = "second"
    THIRD = "third"


UPPER, LOWER = phrase("UPPER"), phrase("LOWER")
"""The letters of Western Europe. Patterns with those of all alphabets take twice as long to compile."""

_FURTHER_LETTER = re.compile("[\u0100-\u0152\u0154-\u024f\u0370-\u052f\u1e00-\u1eff]")
"""Other Latin letters, Greek and Cyrillic."""

_SAID = {"DAY": DAY, "SAID_DATE": SAID_DATE}
_PHRASES = {
    **{name: alternatives(name) for name in words() if name != "NOT_NAME"},
    **_SAID,
    **{name: phrase(name, **_SAID) for name in phrases("grammar.txt")},
}
_ADVERBS, _OTHER = _PHRASES["ADVERBS"], _PHRASES["OTHER"]
_SUBJECTS = {
    Person.FIRST: {
        "SUBJECT": r"[Ii]\b|[Ii]m\b|[Ww]e\b",
        "S": rf"(?:[Ii]|[Ww]e){_ADVERBS}(?: do)?",
        "BE": rf"(?:[Ii](?: am|['’]?m)|[Ww]e(?: are|['’]re)){_ADVERBS}",
        "WAS": rf"(?:[Ii] was|[Ww]e were){_ADVERBS}",
        "HAVE": rf"(?:[Ii]|[Ww]e){_ADVERBS}(?: have(?: got)?|['’]ve got){_ADVERBS}",
        "MY": "(?:[Mm]y|[Oo]ur)",
        "NOT": r"(?:don['’]?t|do not)",
        "BE_NOT": r"(?:[Ii]['’]?m not|[Ii] am not|[Ii] not|[Ww]e['’]re not|[Ww]e aren['’]t|[Ww]e are not)",
    },
    Person.SECOND: {
        "SUBJECT": r"[Yy]ou\b",
        "S": rf"[Yy]ou{_ADVERBS}",
        "BE": rf"[Yy]ou(?: are|['’]re){_ADVERBS}",
        "WAS": rf"[Yy]ou were{_ADVERBS}",
        "HAVE": rf"[Yy]ou{_ADVERBS}(?: have(?: got)?|['’]ve got){_ADVERBS}",
        "MY": "[Yy]our",
        "NOT": r"(?:don['’]t|do not)",
        "BE_NOT": r"(?:[Yy]ou['’]re not|[Yy]ou aren['’]t|[Yy]ou are not)",
    },
    Person.THIRD: {
        "SUBJECT": _OTHER,
        "S": rf"{_OTHER}{_ADVERBS}",
        "BE": rf"{_OTHER}(?: is|['’]s){_ADVERBS}",
        "WAS": rf"{_OTHER} was{_ADVERBS}",
        "HAVE": rf"{_OTHER}{_ADVERBS}(?: has(?: got)?|['’]s got){_ADVERBS}",
        "MY": rf"(?P<who>[Mm]y {alternatives('ONLY_ONE')}|{_PHRASES['A_NAME']})['’]s",
        "NOT": r"(?:doesn['’]t|does not)",
        "BE_NOT": rf"{_OTHER} (?:isn['’]t|is not)",
    },
}
_SLOT = re.compile(r"\{(?:(?P<group>[a-z]+)=)?(?P<name>[A-Z_]+)\}")
_VERB = re.compile(r"(?<!\?P)<([a-z]+)>")

_CLAUSE = re.compile(phrase("CLAUSE"), re.IGNORECASE)
_OPENING = re.compile(phrase("OPENING", **_SAID), re.IGNORECASE)


def clause_starts(text: str) -> list[int]:
    """Return where the clauses of a sentence start, with and without words such as "well" and "last year"."""
    starts = []
    for found in _CLAUSE.finditer(text):
        start = found.end()
        starts.append(start)
        while (opening := _OPENING.match(text, start)) is not None:
            start = opening.end()
            starts.append(start)
    return list(dict.fromkeys(starts))


def has_further_letters(text: str) -> bool:
    """Return True if a text has letters that only patterns for all alphabets know."""
    return _FURTHER_LETTER.search(text) is not None


@cache
def letters(category: Literal["Lu", "Ll"]) -> str:
    """Return the capitals, or the small letters, of all alphabets, as a set of a pattern."""
    further = (chr(code) for code in range(0x100, 0x1F00) if _FURTHER_LETTER.match(chr(code)))
    own = UPPER if category == "Lu" else LOWER
    return own + "".join(letter for letter in further if unicodedata.category(letter) == category)


def opening(person: Person, *, possessive: bool, all_alphabets: bool) -> re.Pattern[str]:
    """Return the pattern of a subject, or of a possessive: a clause that does not open with it needs no rule tried."""
    return _compiled(_SUBJECTS[person]["MY" if possessive else "SUBJECT"], all_alphabets=all_alphabets)


def pattern(
    template: str, person: Person, further: Mapping[str, str] | None = None, *, all_alphabets: bool = False
) -> re.Pattern[str]:
    """Return the pattern of a template for one person; ``further`` are phrases of another language."""
    phrases = _PHRASES | _SUBJECTS[person] | dict(further or {})

    def filled(slot: re.Match[str]) -> str:
        phrase = phrases[slot["name"]]
        return f"(?P<{slot['group']}>{phrase})" if slot["group"] else phrase

    source = _VERB.sub(lambda verb: _inflected(verb.group(1), person), _SLOT.sub(filled, template))
    return _compiled(source, all_alphabets=all_alphabets)


def _compiled(source: str, *, all_alphabets: bool) -> re.Pattern[str]:
    if all_alphabets:
        source = source.replace(UPPER, letters("Lu")).replace(LOWER, letters("Ll"))
    return re.compile(source)


def _inflected(verb: str, person: Person) -> str:
    if person is not Person.THIRD:
        return verb
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("ch", "sh", "s", "x", "o")) else f"{verb}s"
