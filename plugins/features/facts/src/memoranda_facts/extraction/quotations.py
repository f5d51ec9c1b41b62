"""What somebody else said in a text: quotations, mails, letters, transcripts, and texts that are only to be worked on.

Rules would rather miss a fact than invent one, so a mark that is never closed counts to the end of its line, and words
that are introduced as another's to the end of their paragraph at least.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from memoranda_facts.extraction.rule_table import phrase

BLANK = "\x00"
"""Stands for each character of what somebody else said, so that nothing is found in it."""

_CLOSED_BY = {
    "“": "”",
    "«": "»",
    "»": "«",
    "‹": "›",
    "›": "‹",
    "「": "」",
    "『": "』",
    "〝": "〞〟",
    "＂": "＂",
    "”": "”",
    "„": '“”"',
}
_IN_MARKS = "|".join(
    rf"{opened}[^{opened}{closed}]*[{closed}]|{opened}[^{closed}\n]*(?:[{closed}]|$)"
    for opened, closed in _CLOSED_BY.items()
)
_MARKED = re.compile(phrase("MARKED", IN_MARKS=_IN_MARKS), re.DOTALL | re.MULTILINE)
"""Code, links, and what stands in quotation marks, over several lines, too, or behind the mark of a reply."""

_FORWARDED = re.compile(phrase("FORWARDED"), re.DOTALL | re.MULTILINE | re.IGNORECASE)
"""The head of a mail, with everything after it."""

_HEADING = re.compile(phrase("HEADING"), re.DOTALL | re.MULTILINE | re.IGNORECASE)
"""A line or a sentence that is the title of another's text, with everything after it."""

_GREETING = re.compile(phrase("GREETING"), re.MULTILINE | re.IGNORECASE)
_CLOSING = re.compile(phrase("CLOSING"), re.MULTILINE | re.IGNORECASE)
"""The first line of a letter and its closing, each in a line of its own."""

_BEFORE = r"(?:^|(?<=[.!?])(?=\s))(?P<words>(?:[^.!?\n\x00:]|[.!?:](?=\S)){0,200}?)"
_COLON = re.compile(rf"{_BEFORE}[ \t]?:(?=\s)(?P<line_ends>[ \t]*$)?", re.MULTILINE)
_DASH = re.compile(rf"{_BEFORE}[ \t]+[–—-](?=\s)(?P<line_ends>[ \t]*$)?", re.MULTILINE)
"""What stands before a colon or a dash, from the beginning of its sentence; a time of day is no end."""
_SAID = re.compile(
    r"^(?P<words>[^.!?\n\x00:–—]{1,82}?)[ \t]+[–—-](?=[ \t]+(?:I|ich|yo|soy|je|j['’])\b)(?P<line_ends>[ \t]*$)?",
    re.MULTILINE | re.IGNORECASE,
)
"""What stands before a dash at the beginning of a line, if somebody speaks in the first person behind it."""

_QUOTES = re.compile(phrase("QUOTES"), re.IGNORECASE)
_OWN = re.compile(phrase("OWN"), re.IGNORECASE)
_FIRST_PERSON = re.compile(
    r"\b(?:I|I['’]\w+|my|me|we|our|ich|mein\w*|wir|yo|mi|mis|je|j['’]\w+|mon|ma|mes)\b", re.IGNORECASE
)
_TOPIC = re.compile(phrase("TOPIC"), re.IGNORECASE)
"""What people write before a statement of their own, as if they filled in a form."""

_OPENERS = phrase("OPENERS")
_PART_OF_A_NAME = r"(?=[^\W\d_a-z])[^\W\d_][\w'’.]{1,40}"
_SPEAKER = re.compile(rf"(?!(?i:{_OPENERS})\b)[\s*_]*{_PART_OF_A_NAME}(?: {_PART_OF_A_NAME})?[\s*_]*")
"""A name before a dash: whoever copies what was said in a chat writes so who said it."""

_PLAYED = re.compile(phrase("PLAYED"), re.IGNORECASE)
"""What is only played, or said for somebody to work on it."""

_TO_WORK_ON = re.compile(phrase("TO_WORK_ON"), re.IGNORECASE | re.MULTILINE)
"""A request to do something with a text, in the languages of the rules."""


def is_text_to_work_on(text: str) -> bool:
    """Return True if a text asks for something to be done with words, or plays a role: it states nothing."""
    return bool(_PLAYED.search(text) or _TO_WORK_ON.search(text))


def own_text(text: str) -> str:
    """Return a text with a blank for each character of what somebody else said; places stay the same."""
    for foreign in (_MARKED, _FORWARDED, _HEADING):
        text = foreign.sub(_blanks, text)
    return _without_introduced(_without_letter(text))


def _without_letter(text: str) -> str:
    greeting = _GREETING.search(text)
    if greeting is None or _CLOSING.search(text, greeting.end()) is None:
        return text
    return text[: greeting.start()] + _blanked(text[greeting.start() :])


def _without_introduced(text: str) -> str:
    """Return a text without what a colon introduces as another's, and without texts that a dash introduces."""
    text = _without_behind(_COLON, text, lambda words: not _is_own(words) or _names_a_text(words))
    text = _without_behind(_DASH, text, lambda words: _names_a_text(words) and not _FIRST_PERSON.search(words))
    return _without_behind(_SAID, text, lambda words: _SPEAKER.fullmatch(words) is not None and not _is_own(words))


def _without_behind(lead_in: re.Pattern[str], text: str, introduces: Callable[[str], bool]) -> str:
    """Return a text without what is introduced: a mail or its like to the end, anything else with its paragraph."""
    start = 0
    while (lead := lead_in.search(text, start)) is not None:
        start, words = lead.end(), lead["words"]
        if not words.strip() or not introduces(words):
            continue
        end = -1 if _names_a_text(words) or lead["line_ends"] is not None else text.find("\n\n", start)
        stop = len(text) if end < 0 else end
        text = text[:start] + _blanked(text[start:stop]) + text[stop:]
        start = stop
    return text


def _is_own(words: str) -> bool:
    return _OWN.search(words) is not None or _TOPIC.fullmatch(words) is not None


def _names_a_text(words: str) -> bool:
    return _QUOTES.search(words) is not None


def _blanks(found: re.Match[str]) -> str:
    """Return blanks in place of what was found; the ends of lines stay."""
    return _blanked(found.group())


def _blanked(text: str) -> str:
    return re.sub(r"[^\n]", BLANK, text)
