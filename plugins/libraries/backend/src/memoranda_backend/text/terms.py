"""How text becomes terms, for the index and for the query alike, and a long one passages.

Words are folded (case, accents, compatibility forms). Scripts that are written without spaces between words (Chinese,
Japanese, Thai and others; Korean is treated like them) become single characters and pairs, so that a query finds a word
wherever it stands. Punctuation and emoji carry no terms; a substring search finds those.

The words themselves are stored, and a ranking stems those of its scope as it stems those of the query, in the language
of the query. So a wrong guess at the language of a short text never hides a word that is there. An index that can only
look terms up holds every word and, beside it, its stem.

A long text is divided into passages for its words, and for the vectors of its meaning.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import blake2b

from memoranda_backend.text.languages import STOPWORDS_OF, language_of
from memoranda_backend.text.stemming import IRREGULAR, LONGEST_TERM, plain_word, stemmer_of

TERMS_VERSION = 3
"""Raise it to have every stored term made again where no probe shows the difference.

1 had terms that threads made with one stemmer between them, and some of those are other words' stems. 2 had stems
alone, without the words that they are of.
"""

STOPWORDS = STOPWORDS_OF["english"]

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip

# Bytes are translated in a fifth of the time that a regular expression takes, and most texts are ASCII.
_ASCII_FOLDING = bytes(ord(chr(code).lower()) if chr(code).isalnum() else 32 for code in range(128)) + bytes(128)
# Vowel points, accents and the stroke that lengthens Arabic words are dropped: most people type queries without them.
_MARKS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]+")
_UNSPACED = (
    "\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u1049\u1780-\u17d3\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U000323af"
)
# The vowel signs of Indian scripts are part of their words, though Python's \w does not say so.
_INDIC = "\u0900-\u0963\u0966-\u0dff"
_SPACED_WORD = re.compile(r"[^\W_]+")
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")
_HIRAGANA = re.compile("[\u3041-\u309f]+")
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
_SPECIAL = re.compile(f"[{_UNSPACED}{_INDIC}]")
_WORD = re.compile(f"([{_UNSPACED}]+)|((?:(?![{_UNSPACED}])(?:[^\\W_]|[{_INDIC}]))+)")
_PROBES = (
    "Went hiking on 2023-05-08 with Zoë's children: they've 2 dogs, naïvely running; straße ЖИЗНЬ 東京 happily",
    "caresses ponies relational conditional hopefulness electricity adjustable controlling generalizations flies bus",
    "1999-12 2001-13-01 the 1st, 2nd, 3rd and 21st of 3 snake_case kebab-case e\u0301 ﬁne Ⅳ İstanbul ΣΊΣΥΦΟΣ",
    "die Häuser der Nachbarn wurden verkauft",
    "las casas de los vecinos fueron vendidas",
    "дома соседей были проданы",
    "les maisons des voisins",
    "komşuların evleri bir ve",
    "naapurien talot ja ovat",
    "باعت البيوت في المدينـــة ـــ",
    "שָׁלוֹם مُحَمَّد हिन्दी தமிழ் ภาษาไทย ພາສາລາວ မြန်မာ ភាសាខ្មែរ 한국어 ひらがな カタカナー 々〆 𠮷野家 a東b 🦉",
)
_SPACE = re.compile(" |\n")
_STRETCH = 1 << 16
_ISO_DATE = re.compile(r"(?<!\d)([12]\d{3})-(\d{2})(?:-(\d{2}))?(?!\d)", re.ASCII)


def index_words(text: str) -> list[str]:
    """Return every word of a text, folded but not stemmed, in order and with repetitions: what a ranking is given.

    Words consist of letters, digits and vowel signs, without spaces, and none is empty. Stopwords are kept, since a
    query may have nothing else. Dates in figures (``2023-05-08``) are there in words too, ordinal numbers are their
    figures, and very long words are cut.
    """
    parts = [fold_words(spelled_dates(part, figures=True) if "-" in part else part) for part in stretches(text)]
    if len(parts) == 1 and len(parts[0]) <= _STRETCH:
        return list(map(plain_word, parts[0]))
    words: list[str] = []
    for some in parts:
        for start in range(0, len(some), _STRETCH):
            words += map(plain_word, some[start : start + _STRETCH])
        some.clear()  # Letting go of all at the end would take as long as anything here, in one go.
    return words


def index_terms(text: str) -> list[str]:
    """Return the distinct terms by which a text can be looked up: its words, and the stems of those."""
    words = index_words(text)
    return [*dict.fromkeys(words), *stems_beside(words)]


def stems_beside(words: Sequence[str]) -> list[str]:
    """Return the distinct stems of the words of a text, in the language that they tell, that are no words of it."""
    distinct = dict.fromkeys(words)
    stems = dict.fromkeys(map(stemmer_of(language_of(words)), distinct))
    return [stem for stem in stems if stem not in distinct]


def stretches(text: str) -> Iterator[str]:
    """Yield a long text in stretches that end with a space, where no word and no accent is cut in two.

    What works on a text in one go keeps all other threads waiting, that of the event loop among them.
    """
    start = 0
    while len(text) - start > _STRETCH:
        space = _SPACE.search(text, start + _STRETCH)
        if space is None:
            break
        yield text[start : space.end()]
        start = space.end()
    yield text[start:] if start else text


@cache
def terms_fingerprint() -> str:
    """Return what tells one way of making terms from another, for an index to know terms that were made otherwise.

    It begins with :data:`TERMS_VERSION`. The rest is made of the terms of texts that show every rule at work: a release
    that changes one changes it, and so does the package snowballstemmer where it comes or goes.
    """
    stopwords = (" ".join(sorted(words)) for words in STOPWORDS_OF.values())
    texts = (*_PROBES, " ".join(IRREGULAR), "z" * (LONGEST_TERM + 1), " ".join(MONTHS), *stopwords)
    made = (" ".join([*index_words(text), *index_terms(text)]) for text in texts)
    digest = blake2b("\n".join(made).encode(), digest_size=8)
    return f"{TERMS_VERSION}-{digest.hexdigest()}"


def made_by_this_version(fingerprint: str) -> bool:
    """Return True if a fingerprint is of this :data:`TERMS_VERSION`, which takes no time to see."""
    return fingerprint.partition("-")[0] == str(TERMS_VERSION)


def query_terms(query: str) -> tuple[str, ...]:
    """Return the distinct stems to look for, in the order of the query, without stopwords.

    A query of stopwords alone keeps them. Dates in figures (``2023-05-08``) become the terms of the same date in words.
    """
    return tuple(query_words(query, query_language(query)))


def query_words(query: str, language: str | None) -> dict[str, tuple[str, ...]]:
    """Return the stems to look for, each with the words of the query that have it; see :func:`query_terms`.

    A text that has none of the stems may still have one of the words, where its language was taken for another.
    """
    folded = [word for part in stretches(query) for word in fold_words(spelled_dates(part), unspaced=_asked_for)]
    stopwords = STOPWORDS_OF.get(language or "english", frozenset())
    chosen = [word for word in folded if word not in stopwords] or folded
    stem = stemmer_of(language)
    found: dict[str, dict[str, None]] = {}
    for word in map(plain_word, chosen):
        found.setdefault(stem(word), {})[word] = None
    return {term: tuple(words) for term, words in found.items()}


def query_language(query: str, usual: str | None = None) -> str | None:
    """Return the language of a query, as far as its commonest words tell it; otherwise the ``usual`` one around it."""
    return language_of(fold_words(query), usual)


def is_unspaced(term: str) -> bool:
    """Return True if a term is of a script that is written without spaces between words."""
    return not term.isascii() and _UNSPACED_LETTER.match(term) is not None


def spelled_dates(text: str, *, figures: bool = False) -> str:
    """Return the text with dates in figures written out, as a date's terms are: ``2023-05-08`` as ``8 may 2023``.

    With ``figures``, those of the month and the day follow as they were written, so that these can be found too.
    """

    def spelled(found: re.Match[str]) -> str:
        year, month, day = found[1], int(found[2]), found[3]
        if not 1 <= month <= 12:
            return found[0]
        written = f"{found[2]} {day or ''}" if figures else ""
        return f" {int(day) if day else ''} {MONTHS[month - 1]} {year} {written} "

    return _ISO_DATE.sub(spelled, text)


def _characters_and_pairs(run: str) -> list[str]:
    return [*run, *(run[at : at + 2] for at in range(len(run) - 1))]


def _asked_for(run: str) -> list[str]:
    """Return what a query looks for: pairs, which tell words apart, and every ideograph, which has a meaning by itself.

    A pair of hiragana is mostly an ending, and looked for only where there is nothing else.
    """
    pairs = [run[at : at + 2] for at in range(len(run) - 1)]
    chosen = [pair for pair in pairs if not _HIRAGANA.fullmatch(pair)] or pairs
    return [*chosen, *_IDEOGRAPH.findall(run)] or [run]


def fold_words(text: str, unspaced: Callable[[str], list[str]] = _characters_and_pairs) -> list[str]:
    """Return the words of a text, folded but not stemmed; ``unspaced`` divides what has no spaces between words."""
    if text.isascii():
        words = text.encode().translate(_ASCII_FOLDING).decode().split()
    else:
        folded = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
        folded = unicodedata.normalize("NFC", _MARKS.sub("", folded))
        if _SPECIAL.search(folded) is None:
            words = _SPACED_WORD.findall(folded)
        else:
            words = [part for run, word in _WORD.findall(folded) for part in (unspaced(run) if run else (word,))]
    return words


MOST_EMBEDDED = 256
"""How many passages of a text have a vector; those of a longer text are longer."""

_LONGEST_WORD = 20
"""Words that are longer than this in the mean are none: the script has no spaces."""


def passage_count(terms: int, size: float) -> int:
    """Return how many passages of about ``size`` terms a text of so many has; with a size of 0, no text is divided."""
    return round(terms / size) if size and terms > 1.5 * size else 1


def passage_at(text: str, number: int, count: int) -> str:
    """Return about the words of one of so many passages of a text, or its letters where there are no spaces."""
    return _passage(*_words_of(text), number, count)


def _words_of(text: str) -> tuple[Sequence[str], str]:
    """Return the words of a text, or its letters, and what stands between them."""
    words = [word for part in stretches(text) for word in part.split()]
    return (words, " ") if len(words) * _LONGEST_WORD >= len(text) else (text, "")


def _passage(words: Sequence[str], space: str, number: int, count: int) -> str:
    return space.join(words[number * len(words) // count : (number + 1) * len(words) // count])


def is_short(text: str, size: float) -> bool:
    """Return True if a text is surely too short to be divided, as most are; otherwise :func:`divided` decides."""
    # No term is shorter than a letter, and where there are spaces, no two stand side by side.
    return not size or len(text) <= (3 if text.isascii() else 1.5) * size


def divided(text: str, size: float) -> list[str]:
    """Return the passages of a text that are embedded, in their order; one that is not long is its only passage."""
    if is_short(text, size):
        return [text]
    count = min(MOST_EMBEDDED, passage_count(sum(len(fold_words(part)) for part in stretches(text)), size))
    if count == 1:
        return [text]
    words, space = _words_of(text)
    return [_passage(words, space, number, count) for number in range(count)]


def held_back(score: float, count: int, damping: float) -> float:
    """Return the score of an item by the best of so many passages: of many, some are found by chance."""
    return score if count == 1 else float(score / count**damping)
