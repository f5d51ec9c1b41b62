"""Which statements say the same with different values, so that the newest of them can be shown first.

Two statements of one owner are rivals if they differ in one value alone: "Ada's phone number is 12" and "Ada's phone
number is 34". A text tells no more than its words do. What the two share, the frame, has to name a thing and what is
said of it, and most of it has to come before the value. Statements that add to each other ("Ada likes tea", "Ada likes
coffee") or are of different things ("The capital of France is …", "The capital of Italy is …") are no rivals, and
neither are those that leave a doubt. What is less trusted never goes before what it contradicts.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from string import ascii_lowercase
from typing import NamedTuple

from memoranda.store.ranked import RankedItem
from memoranda.trust import trust_of
from memoranda_backend.text.languages import PERSONS_OF, STOPWORDS_OF, language_of, lines_of
from memoranda_backend.text.stemming import stemmer_of
from memoranda_backend.text.terms import fold_words, query_words

_LONGEST = 400
"""How many characters a text may have that is compared; longer ones say more than one thing."""

_VALUE = 2
"""How many words a value may have for each word of its frame."""

_MARGIN = 1
"""By how many of its commonest words a language is told. Statements are short, and it decides little here."""

_NO_STATEMENT = frozenset("?!？！؟")
_LETTERS = frozenset(ascii_lowercase)
_CAPITALISED = re.compile(r"\b(?=[^\W_])[^a-z\W_]\w*")


class Statement(NamedTuple):
    """A text, when it was said, whose it is, who said it, and how far that is trusted."""

    text: str
    time: str
    owner: Hashable = None
    speaker: Hashable = None
    trust: int = 0


class _Words(NamedTuple):
    """Lists of a language: see ``superseding.txt``; ``common`` are its stopwords, ``persons`` its I and you."""

    being: frozenset[str]
    adding: frozenset[str]
    of_many: frozenset[str]
    asking: frozenset[str]
    anew: frozenset[str]
    common: frozenset[str]
    persons: frozenset[str]

    def tells(self, word: str) -> bool:
        """Return True for a word that carries meaning: no stopword but I and you, no ending in hiragana."""
        if word in self.persons:
            return True
        return word not in self.common and not "\u3041" <= word <= "\u309f" and word not in _LETTERS


def _lists_of(language: str, groups: Iterable[str]) -> _Words:
    being, adding, of_many, asking, anew = (group.split() for group in groups)
    return _Words(
        frozenset(being),
        frozenset(adding),
        frozenset(map(stemmer_of(language if language != "-" else None), of_many)),
        frozenset(asking),
        frozenset(anew),
        STOPWORDS_OF.get(language, frozenset()),
        frozenset().union(*PERSONS_OF.get(language, PERSONS_OF["-"])),
    )


_GROUPS_OF = {
    language: words.split("|") for language, _, words in (line.partition(":") for line in lines_of("superseding.txt"))
}
_GROUPS_OF["-"] = [" ".join(groups) for groups in zip(*_GROUPS_OF.values(), strict=True)]
"""Where the language is not known, it may be any."""

_LISTS = {language: _lists_of(language, groups) for language, groups in _GROUPS_OF.items()}


class _Parsed:
    """The words of a statement without those that say it is new, which of them are capitalised, and its language."""

    def __init__(self, text: str) -> None:
        words = fold_words(text, unspaced=list)
        self._language = language_of(words, margin=_MARGIN)
        self.lists = lists = _LISTS[self._language or "-"]
        self.words = [word for word in words if word not in lists.anew]
        self._text = text

    @property
    def stems(self) -> list[str]:
        return list(map(stemmer_of(self._language), self.words))

    @property
    def capitalised(self) -> frozenset[str]:
        """The words that are written with a capital letter, or in figures."""
        return frozenset(chain.from_iterable(map(fold_words, _CAPITALISED.findall(self._text))))

    def beginning(self) -> tuple[str, ...]:
        """Return what a rival has to begin with too: all up to the verb, or else up to the first word that tells."""
        being = self.lists.being
        if being.isdisjoint(self.words):
            end = next((at for at, word in enumerate(self.words) if self.lists.tells(word)), 0)
        else:
            end = next(at for at, word in enumerate(self.words) if word in being)
        return tuple(self.words[: end + 1])


def newest_first(query: str, ranked: Sequence[RankedItem]) -> list[RankedItem]:
    """Return ranked items, the newest first among those that say the same with different values.

    These exchange their places; every other item keeps its own. Scores stay with their items.
    """
    statements = [
        Statement(
            item.content, item.created_at, item.metadata.user_id, (item.memory_type, item.name), trust_of(item).rank
        )
        for item in (found.item for found in ranked)
    ]
    return [ranked[place] for place in current_order(query, statements)]


def current_order(query: str, statements: Sequence[Statement]) -> list[int]:
    """Return the numbers of the statements in a new order: rivals newest first, in the places that they have.

    Where the query names one of two values, they are no rivals: it asks for that one.
    """
    order = list(range(len(statements)))
    for oldest_first in _rivals(query, statements):
        for place, number in zip(sorted(oldest_first), reversed(oldest_first), strict=True):
            order[place] = number
    return order


def _rivals(query: str, statements: Sequence[Statement]) -> Iterator[list[int]]:
    """Yield groups of rivals, each the oldest first."""
    parsed = [
        _Parsed(text if len(text) <= _LONGEST and _NO_STATEMENT.isdisjoint(text) else "") for text, *_ in statements
    ]
    beginning_alike: dict[tuple[Hashable, ...], list[int]] = {}
    for place, statement in enumerate(statements):
        beginning_alike.setdefault((statement.owner, *parsed[place].beginning()), []).append(place)
    asked = _asked(query)

    def are_rivals(older: int, newer: int) -> bool:
        said, says = statements[older], statements[newer]
        exchange = _Exchange(parsed[older], parsed[newer])
        return (
            said.time < says.time
            and said.trust <= says.trust
            and exchange.is_of_one_value(said.speaker == says.speaker)
            and not exchange.is_named_by(asked)
        )

    for places in beginning_alike.values():
        groups: list[list[int]] = []
        for newer in sorted(places, key=lambda place: statements[place].time) if len(places) > 1 else ():
            joined = [group for group in groups if any(are_rivals(older, newer) for older in reversed(group))]
            groups = [group for group in groups if group not in joined]
            groups.append(sorted((*chain.from_iterable(joined), newer), key=lambda place: statements[place].time))
        yield from (group for group in groups if len(group) > 1)


def _asked(query: str) -> frozenset[str]:
    """Return the terms of a query, apart from what it asks for one of: the university in "which university …"."""
    words = fold_words(query)
    language = language_of(words, margin=_MARGIN)
    asking = _LISTS[language or "-"].asking
    kinds = [words[at + 1] for at, word in enumerate(words[:-1]) if word in asking]
    return frozenset(query_words(query, language)).difference(map(stemmer_of(language), kinds))


class _Exchange:
    """Two statements side by side: what they share before and after the words in which they differ."""

    def __init__(self, older: _Parsed, newer: _Parsed) -> None:
        self._both = older, newer
        self._lists = older.lists
        fewest = min(len(older.words), len(newer.words))
        self._before = _shared(older.words, newer.words, fewest)
        self._after = _shared(older.words[::-1], newer.words[::-1], fewest - self._before)

    def is_of_one_value(self, same_speaker: bool) -> bool:
        """Return True if a value is all that differs, and the value of something that has but one."""
        values, lists = [self._value(parsed.words) for parsed in self._both], self._lists
        if not all(0 < len(value) <= _VALUE * (self._before + self._after) for value in values):
            return False
        before, after = self._frame(self._both[0].words)
        named, also_named = sum(map(lists.tells, before)), sum(map(lists.tells, after))
        if named + 1 < 2 * also_named or named + also_named < 2:
            return False
        if not same_speaker and not lists.persons.isdisjoint((*before, *after)):
            return False
        return self._is_one_slot(before, after, values) and self._replaces(before)

    def _is_one_slot(self, before: list[str], after: list[str], values: list[list[str]]) -> bool:
        """Return True if the words that differ are one part of the sentence, and the same part of both."""
        lists, (older, newer) = self._lists, map(set, values)
        in_values = older & newer if not lists.being.isdisjoint(before) else older | newer
        if not lists.being.isdisjoint((*after, *in_values)):
            return False  # What comes before the verb is the thing, not its value.
        within = ({*values[0][1:-1]} & {*values[1][1:-1]}) - lists.common
        if within and not all(
            parsed.capitalised.issuperset({*value} - lists.common)
            for value, parsed in zip(values, self._both, strict=True)
        ):
            return False  # Unless it is within a name: what stands before that word differs, and what stands behind it.
        if before[-1] in lists.common and before[-1] not in lists.being:
            return True
        return all(self._is_name(value, parsed.capitalised) for value, parsed in zip(values, self._both, strict=True))

    def _is_name(self, value: list[str], capitalised: frozenset[str]) -> bool:
        """Return True unless the words are a phrase that says something else: "in Rome", "married to Bob"."""
        common = self._lists.common
        if value[0] in common:
            return value[0] in capitalised
        last = max((at for at, word in enumerate(value) if word in common), default=0)
        return capitalised.issuperset(word for word in value[:last] if word not in common)

    def _replaces(self, before: list[str]) -> bool:
        """Return True if a later statement takes the place of an earlier one, rather than to add to it."""
        lists, (older, newer) = self._lists, self._both
        if not lists.adding.isdisjoint((*older.words, *newer.words)):
            return False
        return not lists.being.isdisjoint(before) or lists.of_many.isdisjoint(
            chain.from_iterable(self._frame(older.stems))
        )

    def is_named_by(self, asked: frozenset[str]) -> bool:
        """Return True if a query of these terms names one of the values."""
        frame = set(chain.from_iterable(self._frame(self._both[0].stems)))
        older, newer = (asked.intersection(self._value(parsed.stems)) - frame for parsed in self._both)
        return older != newer

    def _value(self, words: list[str]) -> list[str]:
        return words[self._before : len(words) - self._after]

    def _frame(self, words: list[str]) -> tuple[list[str], list[str]]:
        return words[: self._before], words[len(words) - self._after :]


def _shared(words: list[str], others: list[str], most: int) -> int:
    """Return with how many of the same words both begin."""
    for at in range(most):
        if words[at] != others[at]:
            return at
    return most
