"""English word stems: Porter's algorithm (1980), after a table of irregular forms.

A question says "go" where the answer said "went", so irregular verbs count for as much here as suffixes do. Words of
other languages pass through; index and query treat them alike, which is all that matching needs.
"""

from __future__ import annotations

from collections.abc import Callable

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

_IRREGULAR: dict[str, str] = {
    form: base
    for line in _IRREGULAR_FORMS.strip().splitlines()
    for base, *forms in (group.split() for group in line.split("|"))
    for form in forms
}

_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
)  # fmt: skip
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic", "ou",
)  # fmt: skip


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
    word = _IRREGULAR.get(word, word)[:LONGEST_TERM]
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return _without_ordinal(word)
    word = _without_inflection(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, _STEP_2)
    word = _replaced(word, _STEP_3)
    word = _without_suffix(word)
    return _without_final_letters(word)


def _without_ordinal(word: str) -> str:
    if word[:1].isdigit() and word[-2:] in ("st", "nd", "rd", "th") and word[:-2].isdecimal():
        return word[:-2]
    return word


def _shape(word: str) -> str:
    """Return the word with each vowel as ``v`` and each consonant as ``c``; a ``y`` after a consonant is a vowel."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Return how often a vowel is followed by a consonant: roughly the number of syllables that a suffix may follow."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _ends_short(word: str) -> bool:
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _without_inflection(word: str) -> str:
    """Remove plurals, ``-ed`` and ``-ing``."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        root = word[: -len(suffix)]
        if word.endswith(suffix) and _has_vowel(root):
            return _mended(root)
    return word


def _mended(root: str) -> str:
    """Give back the ``e`` that ``-ed`` or ``-ing`` took, or drop the consonant that it doubled."""
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if _ends_double(root) and root[-1] not in "lsz":
        return root[:-1]
    if _measure(root) == 1 and _ends_short(root):
        return root + "e"
    return root


def _replaced(word: str, suffixes: tuple[tuple[str, str], ...]) -> str:
    for suffix, replacement in suffixes:
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            return root + replacement if _measure(root) > 0 else word
    return word


def _without_suffix(word: str) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            removable = _measure(root) > 1 and (suffix != "ion" or root.endswith(("s", "t")))
            return root if removable else word
    return word


def _without_final_letters(word: str) -> str:
    if word.endswith("e"):
        root = word[:-1]
        measure = _measure(root)
        if measure > 1 or (measure == 1 and not _ends_short(root)):
            word = root
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word
