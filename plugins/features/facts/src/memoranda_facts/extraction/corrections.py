"""Corrections of what was said: "sorry, Thursday, not Tuesday". They need a value that is known to hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memoranda_facts.candidates import Candidate
from memoranda_facts.extraction.open_facts import OpenFact, OpenFacts, same_thing
from memoranda_facts.extraction.proposing import CONFIDENCE, Said
from memoranda_facts.extraction.sentences import Sentence
from memoranda_facts.records import Source

_VALUE = r"[\w:.@+-]*\w(?: [\w:.@+-]*\w){0,3}?"
_STOP = r"(?=\s*(?:[.!,;…\x00]|$))"
_MARK = (
    r"(?:sorry|oops|wait|no wait|no|correction|actually|my mistake|my bad|i mean|hmm|pardon|perdón|perdona|"
    r"entschuldigung|quatsch|nein|non|en fait|en realidad)[,.:!]*\s+"
)
_MEANT = (
    r"(?:i meant(?: to say)?|i should have said|make that|it['’]?s|it is|that['’]?s|it was|ich meinte|es ist|"
    r"quise decir|quería decir|es|je voulais dire|c['’]est) "
)
_NOT = r"(?:not|nicht|no|pas)"
_MARKED = rf"^(?:(?:{_MARK})+(?:i [^,.]{{1,30}}, )?(?:{_MEANT})?|{_MEANT})"
_AT = "(?:on |in |at )?"
_ONE_OR_TWO = r"[\w:.@+-]*\w(?: [\w:.@+-]*\w)?"

_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_MARKED}{_AT}(?P<new>{_VALUE}),? {_NOT} {_AT}(?P<old>{_VALUE}){_STOP}",
        rf"{_MARKED}{_NOT} {_AT}(?P<old>{_VALUE}),? (?:but|sondern|sino|mais)? ?{_AT}(?P<new>{_VALUE}){_STOP}",
        rf"^{_AT}(?P<new>{_ONE_OR_TWO}), {_NOT} {_AT}(?P<old>{_ONE_OR_TWO})[.!]*$",
        rf"^(?:{_MARK})*i said {_AT}(?P<old>{_VALUE}),? (?:but )?{_MEANT}{_AT}(?P<new>{_VALUE}){_STOP}",
    )
)
"""The forms of a correction: the right value, and the wrong one."""


def corrections(sentence: Sentence, said: Said, known: OpenFacts) -> Iterator[Candidate]:
    """Yield what a sentence corrects of what is known of its speaker; at most one fact."""
    for form in _FORMS:
        match = form.match(sentence.stated)
        if match is None:
            continue
        wrong = _meant(known.all_of(said.speaker), match["old"])
        if wrong is not None and not same_thing(match["new"], wrong.value):
            start, end = sentence.span(match.start("new"), match.end())
            yield Candidate(
                subject=said.speaker,
                predicate=wrong.predicate,
                object=match["new"],
                kind="correct",
                replaces=wrong.value,
                confidence=CONFIDENCE,
                sources=(Source(said.item_id, min(start, end), end),),
                rule="rules/correction",
            )
            return


def _meant(holding: list[OpenFact], words: str) -> OpenFact | None:
    """Return the fact whose value the words name, the latest if there are several."""
    named = [each for each in holding if same_thing(words, each.value, exactly=not each.predicate.startswith("when_"))]
    return max(named, key=lambda each: each.start, default=None)
