"""The rules of each language and the words they know: predicates, objects and places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Literal

from memoranda_facts.schema import Predicate, Schema

PARTNERS = ("wife", "husband", "spouse", "partner", "fiance", "girlfriend", "boyfriend")
"""The predicates of whom somebody lives with as a couple."""

GROUPS = {
    "partner": PARTNERS,
    "living": ("pet", *PARTNERS, "roommate", "flatmate", "best_friend"),
    "household": ("roommate", "flatmate", *PARTNERS),
    "activity": (
        *("does", "plays", "learning", "studies", "likes", "member_of", "volunteers_at", "diet", "takes", "drinks"),
    ),
    "place": ("employer", "studies_at", "studies", "member_of", "volunteers_at"),
    "possession": ("drives", "owns", "has", "pet", "uses"),
    "replaceable": (
        *("lives_in", "employer", "studies_at", "studies", "drives", "owns", "uses", "banks_with", "takes", "plays"),
        *("learning", "drinks"),
    ),
    "taste": ("likes", "plays", "does", "uses"),
}
"""Predicates that one sentence can end: whoever "left" something, may have worked, studied or lived there."""

_ONE = (
    *("lives_in", "job", "employer", "marital_status", *PARTNERS, "diet", "age", "birthday", "born_on", "born_in"),
    *("nationality", "nickname", "studies_at", "mother", "father", "boss", "manager", "name", "email", "phone"),
    *("hometown", "major", "job_title", "address", "time_zone", "timezone", "blood_type", "shoe_size", "religion"),
    *("drives", "answer_style", "answer_language", "rent", "salary", "weight", "mortgage", "pay"),
    *("favorite_*", "when_*", "dose_of_*"),
)
_EVENTS = ("visited", "joined", "graduated_from")
_PINNED = ("name", "lives_in", "job", "employer", "marital_status", *PARTNERS, "diet", "condition", "allergic_to")
_ALIASES = {
    "lives_in": ("home", "city", "residence", "lives"),
    "employer": ("works_at", "works_for", "company"),
    "job": ("occupation", "profession", "works_as"),
    "likes": ("loves", "enjoys"),
    "dislikes": ("hates",),
}


def has_one_value(predicate: str) -> bool:
    """Return True if a new value of a predicate ends the one before."""
    return predicate in _ONE or predicate.startswith(("favorite_", "when_", "dose_of_"))


def everyday_schema(one: Iterable[str] = ()) -> Schema:
    """Return the schema of the predicates that the rules give; ``one`` are further ones with one value at a time."""
    single = dict.fromkeys((*_ONE, *one))
    names = dict.fromkeys((*_PINNED, *single, *_EVENTS, *_ALIASES))
    return Schema(
        Predicate(
            name,
            "one" if name in single else "event" if name in _EVENTS else "many",
            aliases=_ALIASES.get(name, ()),
            pinned=name in _PINNED,
        )
        for name in names
    )


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


def _given(found: re.Match[str]) -> Iterator[Given]:
    """Yield what one part of a head gives; a group of predicates that are set is as many facts."""
    group = found["from"] or "value"
    ends: Ends = "among" if found["among"] else "any" if group == "any" else "only" if group == "only" else "named"
    predicates = GROUPS[found["predicate"]] if found["group"] else (found["predicate"],)
    for each in [predicates] if found["end"] else [(predicate,) for predicate in predicates]:
        yield Given(
            predicates=each,
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
    def is_of_others(self) -> bool:
        """True if the speaker is not its subject."""
        return "others" in self.flags

    @property
    def is_plan(self) -> bool:
        """True if a date that is said lies ahead."""
        return "plan" in self.flags

    @property
    def stands_alone(self) -> bool:
        """True if its sentence has to be all that was said, but for a greeting."""
        return "alone" in self.flags

    @property
    def is_unsure(self) -> bool:
        """True if what it ends may still hold."""
        return "unsure" in self.flags

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
        gives = tuple(chain.from_iterable(map(_given, _GIVEN.finditer(head["gives"]))))
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


_CUT = re.compile(
    r"\s+(?:because|since|so|but|although|though|while|when|whenever|where|which|who|as|especially|even|too|"
    r"very much|a lot|right now|now|these days|lately|more than|over|rather|until|after|before|every|just|also|then|"
    r"both|for its|for their|and (?:I|I['’]m|I['’]ve|we|it|its|my|the|they|he|she|have|has|am|is|are|want|was|"
    r"always|also|find|think|this|that|you|would|will|just|how|all|try|can|even|really|it['’]s))\b.*",
    re.DOTALL,
)
"""Where an object ends and the next thought begins."""

_POINTS_BACK = re.compile(
    r"(?:that|this|these|those|it|you|your|him|her|them|their|his|its|our|my|me|us|an?|how|what|when|where|why|who|which|"
    r"both|all|some|one|ones|either|each|every|everything|everyone|anything|something|nothing|most|none|lots|too|so|"
    r"very|as|and|but|or|better|best|more|much|not|seeing|hearing|knowing|doing|such|any|another|two|three|the)\b",
    re.IGNORECASE,
)
"""First words of what is known only from the conversation."""

_THE = re.compile(
    r"the (?:ocean|sea|beach|mountains|outdoors|rain|snow|countryside|theat(?:re|er)|opera|cold|heat|forest|desert)$"
)
_NEEDS_CONTEXT = re.compile(
    r"\b(?:it|you|your|yours|him|her|them|they|this|that|these|those|here|there|he|she|stuff|things?|one|ones|same|too|"
    r"what|how|is|are|was|were|I|any ?more|myself|today|yesterday|tonight|tomorrow|last|ago|process|part|way|idea|such|"
    r"more|up|out|their|its|much)\b"
)
_BROKEN_OFF = re.compile(r"(?:^|\s)(?:and|or|of|to|with|in|on|for|the|my|an?|at|by|from|about)$")
_GOES_ON = re.compile(
    r",\s+(?!(?:and|but|so|because|since|it|it's|its|they|that|that's|which|who|how|can|could|do|you|I|I'm|we|he|she|the|"
    r"there|this|what|especially|even|too|also|my|just|though|as|like|not|to|in|on|at|for|with|'cause|cause|due|rather|"
    r"where|when|while|got|any|is|are|should|would|will|what's|always|here's)\b)(?:[a-z][\w-]*\s+)*[a-z]"
)
_GERUND = re.compile(r",\s+(?:and\s+)?\w+ing\b")
_MOST_WORDS = 8


def named_object(words: str, after: str, *, bare: bool) -> str | None:
    """Return what is named by the words after a verb; None unless they name it by themselves.

    With ``bare`` it is a kind of thing or something to do, which has no article: "jazz", "hiking". ``after`` is what
    follows the words in the sentence, which shows if they stop in the middle: "simple, quick meals".
    """
    text = _CUT.sub("", words).strip(" -\"'*")
    if not text or len(text.split()) > _MOST_WORDS or _NEEDS_CONTEXT.search(text):
        return None
    if _BROKEN_OFF.search(text) or (bare and _POINTS_BACK.match(text) and not _THE.match(text)):
        return None
    listed = text.endswith(("s", "ing")) or (" " not in text and _GERUND.match(after))
    return None if text == words.strip() and _GOES_ON.match(after) and not listed else text


@cache
def _no_homes() -> frozenset[str]:
    return frozenset(name.lower() for name in words()["NO_HOME"])


def is_home(name: str) -> bool:
    """Return False for what people move to without living there: programs, departments, plans."""
    lowered = name.lower()
    return lowered not in _no_homes() and lowered.split()[0] not in _no_homes()
