"""What is known to hold while sentences are read, so that an ending finds what it ends: "we broke up" names nobody."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoranda_backend.text import fold_words, index_terms
from memoranda_facts.candidates import Candidate
from memoranda_facts.dates import EVER, start_of
from memoranda_facts.results import Fact
from memoranda_facts.values import same_text

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
    """A value that holds, and since when: the first moment that its date may mean. ``kind`` is what a pet is."""

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
        """Return what holds of a subject by some predicates."""
        return [each for each in self._open.get(same_text(subject), ()) if each.predicate in predicates]

    def all_of(self, subject: str) -> list[OpenFact]:
        """Return all that holds of a subject."""
        return list(self._open.get(same_text(subject), ()))

    def note(self, made: Candidate) -> None:
        """Take a change into account."""
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
    """Return True if words name a value: "the Golf" and "Golf", "smoking" and "smoke", "gym" and "a gym".

    Unless they have to do so ``exactly``, the value may say more: "the chess club" is "a chess club in Rome". Words
    that say more mean something else: "the jazz concert" is not "jazz".
    """
    asked, held = _naming(said), _naming(value)
    return bool(asked) and (asked == held if exactly else asked <= held)


def _naming(text: str) -> set[str]:
    """Return the words that say which thing is meant, each by its stem."""
    return {index_terms(word)[-1] for word in fold_words(text) if word not in _NOT_NAMING}
