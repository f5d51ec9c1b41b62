"""How much a message tells of the person who wrote it, whatever is asked later.

"I'm allergic to peanuts" should be known before any dinner; "How long do I boil an egg?", "Make it shorter" and "ok"
need not. Nobody says which is which, so the shape of a message has to tell: sentences that are neither questions nor
tasks, without what is quoted or pasted; words of the first person; names, figures and dates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from memoranda_backend.text.languages import PERSONS_OF, STOPWORDS_OF, lines_of
from memoranda_backend.text.terms import fold_words, is_unspaced

LOOKED_AT = 600
"""How many characters of a message are looked at: what people say of themselves is rarely longer."""

MUCH_TOLD, MANY_TOLD = 0.3, 160
"""What a statement scores that tells much, and how many of these are more than any prompt has room for."""

_SENTENCE = re.compile(r"[^.!?。！？؟…\n]+(?:[.!?。！？؟…]+|\n|$)")
_QUESTION_END = re.compile(r"[?？؟]\W*$|[吗呢か]\W*$")
_QUOTED = re.compile(r"(?:(?<!\w)'|[\"“„«‹「『`])[^\"”“»›」』`]{25,}(?:'(?!\w)|[\"”“»›」』`]|$)")
_CODE = re.compile(r"[{};]\s*$|[=<>]{2}|=>|\w\(\)|://|^\s*(?:def|class|import|return|SELECT|at)\b", re.MULTILINE)
_SOMEBODY_ASKS = re.compile(
    r"\b(?:ask(?:s|ed)(?: me| us)? (?:how|what|if|whether|why|when|where|who|which)|wonder(?:ing)?|curious|"
    r"fragte? mich|me pregunt[oóaé]|m['’]a demandé|me demande)\b",
    re.IGNORECASE,
)
_LAST_CLAUSE = re.compile(r"[,;，、—–-]\s[^,;，、—–]*$")
_NAME = re.compile(r"(?<=[\w,;:)] )(?!I['’])[A-ZÀ-ÞА-Я][\w'’-]+")
_FIGURE = re.compile(r"\d")
_MARKS = re.compile(r"^[\W_]+")

_FIRST_PERSON, _NAMED, _WITH_FIGURES = 0.25, 0.15, 0.1
"""What words of the first person, each name and any figure add."""
_PLAIN = 0.2
"""What a statement tells at least."""
_MOST_NAMES = 3
_FEWEST_WORDS = 2
_FEWEST_WORDS_BEFORE_A_TAG = 3
_MOST_WORDS_OF_A_REMARK = 12

_FURTHER_FIRST_PERSONS = (
    "im ive id us mine ours wir uns unser unsere bin habe soy estoy tengo nos nous notre noi nostro"
)
_FIRST_PERSONS = frozenset(_FURTHER_FIRST_PERSONS.split()).union(*(first for first, _ in PERSONS_OF.values()))


class _Beginnings(NamedTuple):
    """How sentences begin that ask or order, after words that may stand before."""

    before: frozenset[str]
    asking: frozenset[str]
    unspaced: tuple[str, ...]


@cache
def _beginnings() -> _Beginnings:
    before: set[str] = set()
    asking: set[str] = set()
    unspaced: list[str] = []
    for line in lines_of("asking.txt"):
        language, _, lists = line.partition(":")
        first, questions, tasks = (part.split() for part in lists.split("|"))
        if language == "-":
            unspaced += [*questions, *tasks]
        else:
            before.update(first)
            asking.update(each.replace("_", " ") for each in (*questions, *tasks))
    return _Beginnings(frozenset(before), frozenset(asking), tuple(unspaced))


def asks(sentence: str) -> bool:
    """Return True if a sentence is a question or a task."""
    if _QUESTION_END.search(sentence):
        return True
    known = _beginnings()
    words = fold_words(sentence[:80])
    start = 0
    while start < len(words) and words[start] in known.before and words[start] not in known.asking:
        start += 1
    if start == len(words):
        return False
    if is_unspaced(words[start]):
        return _MARKS.sub("", sentence).startswith(known.unspaced)
    return words[start] in known.asking or " ".join(words[start : start + 2]) in known.asking


def is_request(text: str) -> bool:
    """Return True if a message asks for anything: one of its sentences is a question or a task."""
    return any(asks(sentence) for sentence in _SENTENCE.findall(text[:LOOKED_AT]))


def is_small_talk(text: str) -> bool:
    """Return True if a message has nothing but words that greet, thank or agree."""
    return _beginnings().before.issuperset(fold_words(text))


_OF_HEALTH = frozenset(["well"])
"""What is a filler, too: "I'm not well" is more than a remark."""


class _Remarks(NamedTuple):
    """The words of which the passing remarks of a language consist, and phrases, which stand between spaces."""

    words: frozenset[str]
    phrases: tuple[str, ...]


@cache
def _remarks() -> tuple[_Remarks, ...]:
    found = []
    for line in lines_of("passing_remarks.txt"):
        language, _, listed = line.partition(":")
        each = listed.split()
        words = _beginnings().before.union(STOPWORDS_OF[language], *PERSONS_OF[language], _FIRST_PERSONS, each)
        found.append(
            _Remarks(words - _OF_HEALTH, tuple(f" {phrase.replace('_', ' ')} " for phrase in each if "_" in phrase))
        )
    return tuple(found)


def is_passing_remark(text: str) -> bool:
    """Return True if a text only comments on an answer or on the moment: "I'll pass that on", "I'm so tired today"."""
    words = fold_words(text)
    if not 0 < len(words) <= _MOST_WORDS_OF_A_REMARK or _NAME.search(text):
        return False
    said = f" {' '.join(words)} "
    for remarks in _remarks():
        rest = said
        for phrase in remarks.phrases:
            rest = rest.replace(phrase, " ")
        if remarks.words.issuperset(rest.split()):
            return True
    return False


def asks_about_self(text: str) -> bool:
    """Return True if a question or a task of a message is in the first person: about who asks."""
    asking = [sentence for sentence in _SENTENCE.findall(text[:LOOKED_AT]) if asks(sentence)]
    return any(not _FIRST_PERSONS.isdisjoint(fold_words(sentence)) for sentence in asking)


def statements(text: str) -> list[str]:
    """Return the sentences of a message that tell something: no questions, tasks or passing remarks, nothing quoted.

    Of a sentence that only ends in a question ("My rent is 890, is that usual?"), what comes before is told.
    """
    return list(_stated(text))


def has_statement(text: str) -> bool:
    """Return True if a message has any sentence that tells something; see :func:`statements`."""
    return next(_stated(text), None) is not None


def _stated(text: str) -> Iterator[str]:
    plain = _QUOTED.sub(" ", text[:LOOKED_AT])
    told = (_before_a_tag(found.group()) for found in _SENTENCE.finditer(plain))
    return (sentence for sentence in told if not asks(sentence) and not is_passing_remark(sentence))


def _before_a_tag(sentence: str) -> str:
    """Return a sentence without a last clause that asks, if what comes before is long enough to tell something."""
    if _QUESTION_END.search(sentence):
        before = _LAST_CLAUSE.sub("", sentence)
        tells = len(before.split()) >= _FEWEST_WORDS_BEFORE_A_TAG and not _SOMEBODY_ASKS.search(before)
        if before != sentence and tells:
            return before
    return sentence


def how_telling(text: str) -> float:
    """Return how much a message tells of its writer by its shape, from 0 for nothing to 1."""
    if _CODE.search(text, 0, LOOKED_AT):
        return 0.0
    said = " ".join(statements(text))
    words = set(fold_words(said))
    if len(words) < _FEWEST_WORDS:
        return 0.0
    told = _PLAIN
    told += _FIRST_PERSON * (not _FIRST_PERSONS.isdisjoint(words))
    told += _NAMED * min(_MOST_NAMES, len(_NAME.findall(said)))
    told += _WITH_FIGURES * bool(_FIGURE.search(said))
    return told
