"""What an extractor reads and returns, and the facts known while it reads.

Only what people said is read. What an assistant said counts if the person it speaks to confirms it right away, and what
was recalled into a prompt is never read: it would come back as if it had been said again.

What somebody else said in a text counts for nothing: quotations, mails, letters, transcripts, and texts that are only
to be worked on. Rules would rather miss a fact than invent one, so a mark that is never closed counts to the end of its
line, and words that are introduced as another's to the end of their paragraph at least.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from memoranda.errors import PluginLoadError
from memoranda.items import MemoryItem
from memoranda.plugins.hookspecs import FactExtractorSpec
from memoranda.plugins.registry import Registry, default_registry
from memoranda.store.backend import end_of_life
from memoranda_backend.text import fold_words, index_terms
from memoranda_facts.extraction.rule_table import phrase
from memoranda_facts.results import Candidate, Fact
from memoranda_facts.values import EVER, same_text, start_of
from memoranda_messages.prompts import outside_memories

RECALLED = "recalled"
"""The key in ``metadata.extra`` that marks an item as recalled: its text was not said at its time."""

CLOCKS_DIFFER_SECONDS = 3_600.0
"""By how many seconds the clocks of machines differ at the most; what is said to be older was stored later."""

_CONFIRMATION = re.compile(phrase("CONFIRMATION"), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Utterance:
    """What a person said: the item, what they are called, and the assistant's item that their words confirm, if any."""

    item: MemoryItem
    speaker: str
    confirmed: MemoryItem | None = None


@dataclass(slots=True)
class Usage:
    """The usage of a model: requests, input tokens and output tokens."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, other: Usage) -> None:
        """Add the numbers of another."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens


@dataclass(slots=True)
class Extraction:
    """What an extractor found. ``unread`` are the ids of items that it could not read; they are tried again later.

    ``rejected`` counts the proposals that were refused, by reason.
    """

    candidates: list[Candidate] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    rejected: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)

    def add(self, other: Extraction) -> None:
        """Add what another found."""
        self.candidates += other.candidates
        self.unread |= other.unread
        self.rejected.update(other.rejected)
        self.usage.add(other.usage)


@runtime_checkable
class FactExtractor(Protocol):
    """Proposes facts from what was said.

    ``name`` says what has read an item; ``batch_size`` is how many utterances it likes to get at a time.
    """

    name: str
    batch_size: int

    async def extract(self, utterances: Sequence[Utterance], known: Sequence[Fact] = ()) -> Extraction:
        """Return what these utterances state, oldest first. Each candidate names an item among them as its source.

        ``known`` are the facts that hold before them, by which an ending such as "we broke up" is understood. It may be
        left out by an extractor that has no use for it.

        Raises a MemoryError if nothing can be read at the moment, as when a model is unavailable.
        """
        ...


def installed_extractor(name: str, registry: Registry | None = None, **options: Any) -> FactExtractor:
    """Return a new extractor of this name, made with the options. Raises PluginNotFoundError, PluginLoadError."""
    registry = registry or default_registry()
    made = registry.make(registry.find(FactExtractorSpec, name), **options)
    if not isinstance(made, FactExtractor):
        raise PluginLoadError(name, f"it is a {type(made).__name__}, which is not a fact extractor.")
    return made


def is_spoken(item: MemoryItem) -> bool:
    """Return True if facts are read from an item: a person's words that were said at their time."""
    return item.memory_type == "human" and not item.metadata.extra.get(RECALLED)


def is_confirmation(text: str) -> bool:
    """Return True if a text does nothing but agree."""
    return _CONFIRMATION.fullmatch(text) is not None


def own_words(item: MemoryItem) -> str:
    """Return an item's text with recalled memories replaced by spaces, so that positions stay the same."""
    return outside_memories(item.content)


def in_its_turn(item: MemoryItem, times: dict[str | None, str]) -> MemoryItem:
    """Return an item with the time at which it was said; ``times`` holds that of the last item of each session.

    Clocks of several machines differ, and jump. What stands behind something else in its conversation was said later,
    or a home that was left an hour ago, by another clock, would be the present one.
    """
    session = item.metadata.session_id
    before = times.get(session, item.created_at)
    latest = end_of_life(item.created_at, CLOCKS_DIFFER_SECONDS) or before
    if item.created_at < before <= latest:
        item = item.model_copy(update={"created_at": before})
    times[session] = item.created_at
    return item


def utterance(item: MemoryItem, before: MemoryItem | None) -> Utterance:
    """Return what a person said; ``before`` is the last item before it in its conversation."""
    confirmed = None
    if before is not None and before.memory_type == "ai" and is_confirmation(item.content):
        confirmed = None if before.metadata.extra.get(RECALLED) else before
    return Utterance(item, item.name or item.metadata.user_id or "user", confirmed)


_NOT_NAMING = frozenset(
    (
        *("a", "an", "the", "my", "our", "his", "her", "their", "your", "new", "old"),
        *("der", "die", "das", "den", "dem", "ein", "eine", "mein", "meine"),
        *("el", "la", "un", "una", "mi", "mis", "le", "les", "une", "mon", "ma", "mes", "l"),
    )
)
"""Words that say nothing of which thing is meant."""


@dataclass(frozen=True, slots=True)
class OpenFact:
    """A current value and its start: the first moment that its date can mean. ``kind`` is the species of a pet."""

    subject: str
    predicate: str
    value: str
    start: str
    kind: str = ""


class OpenFacts:
    """The facts that hold, as candidates change them one after the other."""

    def __init__(self, known: Iterable[Fact] = ()) -> None:
        self._open: dict[str, list[OpenFact]] = {}
        for fact in known:
            since = EVER if fact.valid_from is None else fact.valid_from
            kind = str(fact.qualifiers.get("kind", "")).casefold()
            self._add(OpenFact(fact.subject, fact.predicate, str(fact.object), start_of(since), kind))

    def of(self, subject: str, predicates: Sequence[str]) -> list[OpenFact]:
        return [each for each in self._open.get(same_text(subject), ()) if each.predicate in predicates]

    def all_of(self, subject: str) -> list[OpenFact]:
        return list(self._open.get(same_text(subject), ()))

    def note(self, made: Candidate) -> None:
        key = same_text(made.subject)
        gone = made.object if made.kind == "end" else made.replaces if made.kind == "correct" else None
        if made.kind == "end" or gone is not None:
            self._open[key] = [
                each
                for each in self._open.get(key, ())
                if each.predicate != made.predicate
                or (gone is not None and same_text(each.value) != same_text(str(gone)))
            ]
        if made.kind != "end" and made.object is not None:
            since = EVER if made.valid_from is None else made.valid_from
            kind = str(made.qualifiers.get("kind", "")).casefold()
            self._add(OpenFact(made.subject, made.predicate, str(made.object), start_of(since), kind))

    def _add(self, fact: OpenFact) -> None:
        self._open.setdefault(same_text(fact.subject), []).append(fact)


def same_thing(said: str, value: str, *, exactly: bool = False) -> bool:
    """Return True if words name the value: "the Golf" and "Golf", "smoking" and "smoke", "gym" and "a gym".

    Unless they have to do so ``exactly``, the value may say more: "the chess club" is "a chess club in Rome". Words
    that say more mean something else: "the jazz concert" is not "jazz".
    """
    asked, held = _naming(said), _naming(value)
    return bool(asked) and (asked == held if exactly else asked <= held)


def _naming(text: str) -> set[str]:
    return {index_terms(word)[-1] for word in fold_words(text) if word not in _NOT_NAMING}


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
