"""From a match of a rule to candidates: who it is about, which value, since or until when, and what it ends."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from memoranda_facts.extraction.extractors import OpenFact, OpenFacts, same_thing
from memoranda_facts.extraction.grammar import Person, letters
from memoranda_facts.extraction.rule_table import Given, Rule, has_one_value, is_home, named_object, words
from memoranda_facts.extraction.said_dates import SAID_DATE, day_of_year, said_date
from memoranda_facts.extraction.sentences import Sentence
from memoranda_facts.records import Source
from memoranda_facts.results import Candidate
from memoranda_facts.values import EVER, end_of, same_text, start_of

CONFIDENCE = 0.9
"""The confidence of a fact that a rule found."""

NEARBY = 40
"""How many characters before a statement are looked at for its date."""

_DATE_AFTER = re.compile(rf"[\s,]*(?P<date>{SAID_DATE})\b")
_DATE_BEFORE = re.compile(rf"(?P<date>{SAID_DATE}),?\s*$", re.IGNORECASE)
_ONLY_THEN = re.compile(
    r"\s+(?:when|back when|as a|until|"
    r"for (?:a (?:few|couple|while|day|week|month|year)|two|three|four|five|six|\d+)\b)",
    re.IGNORECASE,
)
_OF_A_KIND = ("dose_of", "when")
"""Predicates that have a kind in their name, as in "dose_of_aspirin" and "when_therapy"."""

_WITH_SOMEBODY = re.compile(r"([a-z]+) with (?:the |my )([a-z]+)$")
"""An "appointment with the dentist" is a dentist appointment."""

_WHICH_SIBLING = re.compile(r"(?:older|younger|big|little|eldest|youngest|twin) ")
_SAME_RELATION = {
    each: name
    for name, others in {
        "mother": "mom mum mutter mama madre mamá mère",
        "father": "dad vater papa padre papá père",
        "grandmother": "grandma oma",
        "grandfather": "grandpa opa",
        "fiance": "fiancé fiancée fiancee verlobte verlobter prometida prometido",
        "girlfriend": "freundin novia copine blonde polola",
        "boyfriend": "freund novio copain chum pololo",
        "wife": "frau ehefrau gattin mujer esposa femme épouse",
        "husband": "mann ehemann gatte marido esposo mari époux",
        "partner": "partnerin lebensgefährte lebensgefährtin pareja compañera compañero compagne compagnon conjoint "
        "conjointe",
        "sister": "schwester hermana sœur",
        "brother": "bruder hermano frère",
        "daughter": "tochter hija fille",
        "son": "sohn hijo fils",
        "boss": "chefin chef jefa jefe patronne patron cheffe",
        "roommate": "mitbewohnerin mitbewohner colocataire",
    }.items()
    for each in others.split()
} | {"petite amie": "girlfriend", "petit ami": "boyfriend"}
"""Which word for a relation means the same as another, in any language."""

_PLACES = frozenset(
    ("lives_in", "from", "born_in", "grew_up_in", "citizen_of", "employer", "studies_at", "graduated_from", "visited")
)
_NAMED = frozenset(("relation", "pet", "name", "nickname", "spouse"))
_OF_BLOOD = re.compile(
    r"(?:grand|step|god|great)?(?:mother|father|sister|brother|son|daughter|aunt|uncle|cousin|niece|nephew)"
)
"""Relations that begin with a birth, and never end."""


@dataclass(frozen=True, slots=True)
class Said:
    """A text, who it is about when it says "I" (or "you"), when it was said, and the item that holds it."""

    text: str
    speaker: str
    at: str
    item_id: str


@dataclass(frozen=True, slots=True)
class Statement:
    """What a rule matched in a sentence, about the speaker or about somebody who is named."""

    rule: Rule
    match: re.Match[str]
    sentence: Sentence
    person: Person
    said: Said

    @property
    def place(self) -> int:
        """Where it begins in the text."""
        return self.sentence.start + self.match.start()

    def candidates(self, known: OpenFacts) -> Iterator[Candidate]:
        """Yield what it sets and ends, given what is known to hold."""
        subject = self.said.speaker
        if self.person is Person.THIRD:
            named = subject_of(self.match, self.said.speaker)
            if named is None or (self.rule.is_of_others and not self._is_known(named, known)):
                return
            subject = named
        ended = [made for given in self.rule.gives if given.kind == "end" for made in self._ends(given, subject, known)]
        yield from ended
        replaced = {made.predicate for made in ended}
        for given in self.rule.gives:
            if given.kind == "set" and (not self.rule.replaces or _is_among(replaced, given)):
                yield from self._set(given, subject, known, ended)

    def _set(self, given: Given, subject: str, known: OpenFacts, ended: list[Candidate]) -> Iterator[Candidate]:
        named = _value(self.rule, given, self.match)
        if named is None:
            return
        value, end = named
        if _ONLY_THEN.match(self.match.string, end) and not self.rule.names_kinds:
            return  # "… when I was six": true then, and perhaps not now.
        date, end = _date(self.match, end, self.said.at)
        date = None if self.rule.is_plan else date
        predicate = _predicate(given, self.match, ended)
        others = [each for each in known.of(subject, (predicate,)) if same_text(each.value) != same_text(value)]
        others = others if has_one_value(predicate) else []
        lasts = given.lasting and not (
            has_one_value(predicate) and not _OF_BLOOD.match(predicate) and self._is_relation
        )
        moment = date or (EVER if lasts else self.said.at)
        if any(each.start >= start_of(moment) for each in others):
            moment = self.said.at  # What was said last is true now, even if it began before the other was spoken of.
        kind = self.match.groupdict().get("kind")
        kind = _singular(kind) if kind and given.predicate == "pet" else kind
        made = self._candidate(subject, predicate, value, end)
        made = replace(made, valid_from=moment, qualifiers={"kind": kind} if kind and given.predicate == "pet" else {})
        over = {(each.predicate, same_text(str(each.object))) for each in ended}
        for each in others:
            if (predicate, same_text(each.value)) not in over and each.start < start_of(moment):
                yield replace(
                    made, kind="end", object=each.value, valid_from=None, valid_to=start_of(moment), qualifiers={}
                )
        yield made

    def _is_known(self, name: str, known: OpenFacts) -> bool:
        """Return True if a name is somebody's, and no town's or product's: with a relation, or spoken of before."""
        if _POSSESSIVE.match(self.match["who"]) or known.all_of(name):
            return True
        others = (each for each in known.all_of(self.said.speaker) if each.predicate not in _PLACES)
        return any(same_text(each.value) == same_text(name) for each in others)

    @property
    def _is_relation(self) -> bool:
        return any(given.predicate == "relation" for given in self.rule.gives)

    def _ends(self, given: Given, subject: str, known: OpenFacts) -> Iterator[Candidate]:
        named = (None, self.match.end()) if given.ends != "named" else _value(self.rule, given, self.match)
        if named is None:
            return
        value, end = named
        date, end = _date(self.match, end, self.said.at)
        if given.predicate in _OF_A_KIND:
            found = [each for each in known.all_of(subject) if _is_of_kind(each.predicate, given.predicate, value)]
        else:
            found = [each for each in known.of(subject, given.predicates) if _is_ended(each, given, value)]
        if given.ends == "only" and len(found) > 1:
            found = []
        for each in found:
            late = date is not None and end_of(date) > each.start
            made = self._candidate(subject, each.predicate, each.value, end)
            ended = date if late else self.said.at
            yield replace(made, kind="end", valid_to=ended, doubtful=self.rule.is_unsure)
        if not found and not given.known and value is not None and given.predicate not in _OF_A_KIND:
            made = self._candidate(subject, given.predicate, value, end)
            yield replace(made, kind="end", valid_to=date or self.said.at)

    def _candidate(self, subject: str, predicate: str, value: str, end: int) -> Candidate:
        start, stop = self.sentence.span(self.match.start(), end)
        return Candidate(
            subject=subject,
            predicate=predicate,
            object=value,
            confidence=CONFIDENCE,
            sources=(Source(self.said.item_id, start, stop),),
            rule=f"rules/{self.rule.name}",
        )


def _is_among(predicates: Collection[str], given: Given) -> bool:
    """Return True if a fact that is set has one of these predicates, of whatever kind."""
    if given.predicate in _OF_A_KIND:
        return any(_is_of_kind(each, given.predicate, None) for each in predicates)
    return given.predicate in predicates


def _is_of_kind(predicate: str, family: str, kind: str | None) -> bool:
    """Return True for the predicate of a kind: "dose_of_aspirin" of aspirin, or of any kind if none is named."""
    return predicate.startswith(f"{family}_") if kind is None else predicate == _of_kind(family, kind)


def _of_kind(family: str, kind: str) -> str:
    return f"{family}_{kind.lower().replace(' ', '_')}"


def with_doses(made: Iterable[Candidate], known: OpenFacts) -> Iterator[Candidate]:
    """Yield candidates, and behind the end of each medicine that of its dose."""
    for each in made:
        yield each
        if each.kind == "end" and each.predicate == "takes":
            for fact in known.all_of(each.subject):
                if _is_of_kind(fact.predicate, "dose_of", str(each.object)):
                    yield replace(each, predicate=fact.predicate, object=fact.value)


def _is_ended(fact: OpenFact, given: Given, value: str | None) -> bool:
    """Return True if an ending is about a fact that holds."""
    if given.among is not None:
        return any(same_thing(word, fact.value) for word in words()[given.among])
    return value is None or same_thing(value, fact.value)


_POSSESSIVE = re.compile(r"(?:my|meine?|unsere?|mi|nuestr[oa]|mon|ma|notre) ", re.IGNORECASE)


def subject_of(match: re.Match[str], speaker: str) -> str | None:
    """Return who a statement in the third person is about: a name, or "Ada's wife"; None if it is no one's name."""
    who = match.group("who").rstrip(",")
    possessed = _POSSESSIVE.match(who)
    relation = who[possessed.end() :] if possessed else ""
    first, _, rest = relation.partition(" ")
    if first.rstrip(",").lower() in _SAME_RELATION:  # In German, a relation has a capital, too.
        relation = rest or first.lower()
    name = re.search(rf"(?:^|[ ,])([{letters('Lu')}][^,]*)$", relation or who)
    if name is not None:
        return name.group(1) if _is_name(name.group(1)) else None
    return f"{speaker}'s {_SAME_RELATION.get(relation, relation)}"


@cache
def _no_names() -> frozenset[str]:
    return frozenset(words()["NOT_NAME"])


def _is_name(text: str) -> bool:
    first = text.split()[0]
    return first.lower() not in _no_names() and not first.endswith(("ing", "ly"))


def _predicate(given: Given, match: re.Match[str], ended: Iterable[Candidate]) -> str:
    """Return the predicate of what is set; a dose whose medicine is not named takes the place of one that ended."""
    if given.predicate == "dose_of" and "kind" not in match.groupdict():
        return next(each.predicate for each in ended if _is_of_kind(each.predicate, "dose_of", None))
    if given.predicate == "relation":
        relation = _WHICH_SIBLING.sub("", match.group("relation").lower())
        return _SAME_RELATION.get(relation, relation).replace("-", "_").replace(" ", "_")
    if given.predicate in ("favorite", "attribute", "when", "dose_of"):
        kind = _WITH_SOMEBODY.sub(r"\2 \1", match.group("kind")).lower().replace(" ", "_").replace("colour", "color")
        return kind if given.predicate == "attribute" else f"{given.predicate}_{kind}"
    return given.predicate


def _singular(kind: str) -> str:
    """Return the kind of one pet of several: "cats" is cat, "Katzen" Katze."""
    before, space, last = kind.rpartition(" ")
    known = [word for name in ("PET_KIND", "PET_DE", "PET_ES", "PET_FR") for word in words()[name]]
    if last in known:
        return kind
    last = f"{last[:-3]}y" if last.endswith("ies") else last
    fitting = [word for word in known if last.startswith(word)]
    return f"{before}{space}{max(fitting, key=len)}" if fitting else kind


def _value(rule: Rule, given: Given, match: re.Match[str]) -> tuple[str, int] | None:
    """Return the value of a fact and where its statement ends in the sentence; None if it is no value after all."""
    if given.constant is not None:
        return given.constant, match.end()
    group = given.group if match.groupdict().get(given.group) is not None else "apposed"
    text = match.groupdict().get(group)
    if text is None:
        return None
    value: str | None = text
    if rule.names_anything:
        value = named_object(text, match.string[match.end(group) :], bare=rule.names_kinds)
    elif given.predicate == "birthday":
        value = day_of_year(text)
    elif given.predicate == "born_on":
        value = said_date(text, "9999-12-31") if re.search(r"\d{4}", text) else None
    elif given.predicate in _PLACES and len(given.predicates) == 1:
        value = _place(text)
        if given.predicate == "lives_in" and value is not None and not is_home(value):
            value = None
    elif given.predicate in _NAMED:
        value = text if _is_name(text) else None
    if value is None:
        return None
    # An object that may be anything was read up to the end of its clause, and can be a part of that.
    end = match.start(group) + len(value) if rule.names_anything and text.startswith(value) else match.end()
    return value, end


def _place(text: str) -> str | None:
    """Return a place without what only looks like a part of it: "Rome, And" is Rome."""
    kept: list[str] = []
    for part in text.split(", "):
        first = part.split()[0].lower()
        if first in _no_names() and first not in ("the", "a", "an", "new", "my", "nice"):
            break
        kept.append(part)
    return ", ".join(kept) or None


def _date(match: re.Match[str], end: int, spoken: str) -> tuple[str | None, int]:
    """Return the date that is said right after a statement or right before it, and where the statement ends with it."""
    lasted = match.groupdict().get("lasted")
    if lasted is not None:
        return said_date(f"{lasted} ago", spoken), end
    after = _DATE_AFTER.match(match.string, end)
    found = after or _DATE_BEFORE.search(match.string[max(0, match.start() - NEARBY) : match.start()])
    if found is None:
        return None, end
    date = said_date(found.group("date"), spoken)
    if date and spoken.startswith(date) and not found.group("date").startswith("since"):
        date = spoken  # "I moved today" must not lie before what was said this morning.
    return date, end if after is None else after.end()
