"""English word stems: Porter's algorithm, as the package snowballstemmer has it, after a table of irregular forms.

A question says "go" where the answer said "went", so irregular verbs count for as much here as suffixes do. Words of
other languages pass through; index and query treat them alike, which is all that matching needs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

_IRREGULAR_FORMS = """
begin began begun | break broke broken | bring brought | build built | buy bought | catch caught | choose chose chosen
come came | do did done does | draw drew drawn | dream dreamt | drink drank drunk | drive drove driven | eat ate eaten
fall fell fallen | feed fed | feel felt | fight fought | find found | fly flew flown | forget forgot forgotten
forgive forgave forgiven | freeze froze frozen | get got gotten | give gave given | go went gone goes | grow grew grown
hang hung | have has had | hear heard | hide hid hidden | hold held | keep kept | know knew known | lay laid | lead led
leave left | lend lent | lose lost | make made | mean meant | meet met | pay paid | ride rode ridden | ring rang rung
rise rose risen | run ran | say said | see saw seen | sell sold | send sent | shake shook shaken | shine shone
shoot shot | show shown | sing sang sung | sit sat | sleep slept | speak spoke spoken | spend spent | stand stood
steal stole stolen | stick stuck | strike struck | swim swam swum | take took taken | teach taught | tear tore torn
tell told | think thought | throw threw thrown | understand understood | wake woke woken | wear wore worn | win won
write wrote written | child children | person people | man men | woman women | foot feet | tooth teeth | mouse mice
life lives | wife wives
january jan | february feb | august aug | september sept sep | october oct | november nov | december dec
"""

IRREGULAR: dict[str, str] = {
    form: base
    for line in _IRREGULAR_FORMS.strip().splitlines()
    for base, *forms in (group.split() for group in line.split("|"))
    for form in forms
}

LONGEST_TERM = 40
"""Longer words (encoded data, mostly) are cut here: an index need not carry them whole."""


class _Stems(dict[str, str]):
    """Stems that were worked out before; quicker to ask than any cache function."""

    most = 1 << 16

    def __missing__(self, word: str) -> str:
        if len(self) >= self.most:
            self.clear()
        found = self[word] = _stem(word)
        return found


stem: Callable[[str], str] = _Stems().__getitem__
"""Return the stem of a lower-case word of ASCII letters; other words come back as they are.

An ordinal number becomes its figure: ``7th`` is ``7``, as dates are written both ways.
"""


def _stem(word: str) -> str:
    word = IRREGULAR.get(word, word)[:LONGEST_TERM]
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return _without_ordinal(word)
    return _without_suffixes()(word)


def _without_ordinal(word: str) -> str:
    if word[:1].isdigit() and word[-2:] in ("st", "nd", "rd", "th") and word[:-2].isdecimal():
        return word[:-2]
    return word


@cache
def _without_suffixes() -> Callable[[str], str]:
    """Return the stemmer of the package snowballstemmer, which every backend brings; without it, plurals are all."""
    try:
        from snowballstemmer import stemmer
    except ImportError:
        return _singular
    strip: Callable[[str], str] = stemmer("porter").stemWord
    return strip


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word
