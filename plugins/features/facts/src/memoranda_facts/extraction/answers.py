"""Reading a model's answer: what it proposes is checked against what was said, and refused if it is not there.

A model can be wrong, cut off or talked into anything by the text that it reads. So a proposal counts only if it quotes
words that its utterance really has, is about someone who is named there, and says nothing that is not in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from memoranda.errors import InputError
from memoranda_backend.text import fold_words
from memoranda_facts.extraction.extractors import Extraction, Utterance, own_words
from memoranda_facts.extraction.quotations import BLANK, own_text
from memoranda_facts.records import Source
from memoranda_facts.results import Candidate, Fact
from memoranda_facts.values import EVER, end_of, start_of

MOST_FACTS = 20
"""How many facts an utterance may give."""

LONGEST_ANSWER = 200_000
"""How many characters an answer may have."""

CONFIDENCE = 0.7
"""The confidence of a fact that a model proposed."""

_PREDICATE = re.compile(r"[a-z][a-z0-9_ ]{0,59}")
_LONGEST_NAME = 100
_LONGEST_OBJECT = 300

ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["facts", "ends"],
    "properties": {
        "facts": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["utterance", "quote", "subject", "predicate", "object", "ended", "date"],
                "properties": {
                    "utterance": {"type": "string", "description": "The id of the utterance that says so."},
                    "quote": {"type": "string", "description": "Its words that say so, copied exactly."},
                    "subject": {"type": "string", "description": "The speaker, or a name in the utterance."},
                    "predicate": {"type": "string", "description": "Lower case with underscores, such as lives_in."},
                    "object": {"type": "string", "description": "The value, in the words of the utterance."},
                    "ended": {"type": "boolean", "description": "True if it has stopped being true."},
                    "date": {
                        "type": ["string", "null"],
                        "description": "When it began or ended, if they say: 2026, 2026-03 or 2026-03-05.",
                    },
                },
            },
        },
        "ends": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["utterance", "quote", "fact", "date"],
                "properties": {
                    "utterance": {"type": "string", "description": "The id of the utterance that says so."},
                    "quote": {"type": "string", "description": "Its words that say so, copied exactly."},
                    "fact": {"type": "string", "description": "The id of the known fact that has stopped being true."},
                    "date": {"type": ["string", "null"], "description": "When it ended, if they say."},
                },
            },
        },
    },
}


class UnusableAnswerError(ValueError):
    """An answer that cannot be read at all."""


class _RejectedError(Exception):
    """A proposal that is refused, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read_answer(text: str, utterances: Mapping[str, Utterance], known: Mapping[str, Fact] | None = None) -> Extraction:
    """Return the candidates of an answer; ``utterances`` are those that were asked about, by the ids they had.

    ``known`` are the facts that it may end, by theirs. What is refused is counted. Raises UnusableAnswerError for what
    is no answer in the required form.
    """
    found, counts = Extraction(), dict.fromkeys(utterances, 0)
    facts, ends = _proposals(text)
    proposals = [(each, partial(_candidate, each, utterances)) for each in facts]
    proposals += [(each, partial(_end, each, utterances, known or {})) for each in ends]
    for proposal, read in proposals:
        try:
            made = read()
            counts[proposal["utterance"]] += 1
            if counts[proposal["utterance"]] > MOST_FACTS:
                raise _RejectedError("more facts than an utterance can hold")
        except _RejectedError as rejected:
            found.rejected[rejected.reason] += 1
        else:
            found.candidates.append(made)
    return found


def _proposals(text: str) -> tuple[list[Any], list[Any]]:
    if len(text) > LONGEST_ANSWER:
        raise UnusableAnswerError("it is too long")
    start, end = text.find("{"), text.rfind("}")
    try:
        # Models without structured output like to wrap their JSON in a sentence or a fence.
        answer = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        raise UnusableAnswerError("it is not JSON") from None
    facts = answer.get("facts") if isinstance(answer, dict) else None
    if not isinstance(facts, list):
        raise UnusableAnswerError("it has no list of facts")
    ends = answer.get("ends", [])
    return facts, ends if isinstance(ends, list) else []


def _texts(
    proposal: Any, names: Iterable[str], utterances: Mapping[str, Utterance]
) -> tuple[dict[str, str], Utterance]:
    """Return the quotation and the named texts of a proposal, and the utterance that it is about."""
    if not isinstance(proposal, dict):
        raise _RejectedError("not of the required form")
    fields = {name: proposal.get(name) for name in ("utterance", "quote", *names)}
    if not all(isinstance(value, str) and value.strip() for value in fields.values()):
        raise _RejectedError("not of the required form")
    said = utterances.get(str(fields["utterance"]))
    if said is None:
        raise _RejectedError("about an utterance that was not asked about")
    return {name: str(value) for name, value in fields.items()}, said


def _candidate(proposal: Any, utterances: Mapping[str, Utterance]) -> Candidate:
    fields, said = _texts(proposal, ("subject", "predicate", "object"), utterances)
    sources, text = _sources(fields["quote"], said)
    ended = proposal.get("ended") is True
    date = _date(proposal.get("date"))
    spoken = said.item.created_at
    moment = spoken if date is None or spoken.startswith(date) else date
    return Candidate(
        subject=_subject(fields["subject"].strip(), said, text, sources[0]),
        predicate=_predicate(fields["predicate"].strip()),
        object=_object(fields["object"].strip(), text),
        kind="end" if ended else "set",
        valid_from=None if ended else moment,
        valid_to=moment if ended else None,
        confidence=CONFIDENCE,
        sources=sources,
        rule="model",
    )


def _end(proposal: Any, utterances: Mapping[str, Utterance], known: Mapping[str, Fact]) -> Candidate:
    fields, said = _texts(proposal, ("fact",), utterances)
    fact = known.get(fields["fact"])
    if fact is None:
        raise _RejectedError("ends a fact that is not known")
    sources, text = _sources(fields["quote"], said)
    _subject(fact.subject, said, text, sources[0])
    date, spoken = _date(proposal.get("date")), said.item.created_at
    began = EVER if fact.valid_from is None else fact.valid_from
    is_usable = date is not None and not spoken.startswith(date) and end_of(date) > start_of(began)
    return Candidate(
        subject=fact.subject,
        predicate=fact.predicate,
        object=fact.object,
        kind="end",
        valid_to=date if is_usable else spoken,
        confidence=CONFIDENCE,
        sources=sources,
        rule="model",
    )


def _sources(quote: str, said: Utterance) -> tuple[tuple[Source, ...], str]:
    """Return where a quotation stands, and the whole text that it is from."""
    quote = quote.strip()
    for item in (said.item, said.confirmed):
        text = "" if item is None else own_words(item)
        start = text.find(quote)
        if item is not None and start >= 0:
            spot = Source(item.id, start, start + len(quote))
            return (spot,) if item is said.item else (spot, Source(said.item.id)), text
    raise _RejectedError("quotes words that were not said")


def _subject(name: str, said: Utterance, text: str, source: Source) -> str:
    if len(name) > _LONGEST_NAME:
        raise _RejectedError("too long")
    if name.casefold() == said.speaker.casefold():
        if source.item_id == said.item.id and not own_text(text)[source.start : source.end].strip(BLANK + "\n"):
            raise _RejectedError("takes another's words for the speaker's")
        return said.speaker
    if not _all_said(name, text):
        raise _RejectedError("about someone who is not named")
    return name


def _predicate(name: str) -> str:
    lowered = name.lower()
    if not _PREDICATE.fullmatch(lowered):
        raise _RejectedError("has a predicate that is not a name")
    return lowered.replace(" ", "_")


def _object(value: str, text: str) -> str:
    if len(value) > _LONGEST_OBJECT:
        raise _RejectedError("too long")
    if not _all_said(value, text):
        raise _RejectedError("says what was not said")
    return value


def _all_said(words: str, text: str) -> bool:
    """Return True if every word of some words is in a text, apart from its ending."""
    said = fold_words(text)
    wanted: Sequence[str] = fold_words(words)
    return bool(wanted) and all(any(_same(word, other) for other in said) for word in wanted)


def _same(word: str, other: str) -> bool:
    """Return True if two words are the same, or differ only in their last three letters."""
    stem = max(4, len(word) - 3)
    return word == other or (min(len(word), len(other)) >= stem and word[:stem] == other[:stem])


def _date(given: Any) -> str | None:
    if given is None or given == "":
        return None
    try:
        if not isinstance(given, str) or given.strip() == EVER:
            raise _RejectedError("has an unreadable date")
        start_of(given)
    except InputError:
        raise _RejectedError("has an unreadable date") from None
    return given.strip()
