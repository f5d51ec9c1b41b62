"""Sentences as rules read them: the parts that state something, as they were typed, and the dates that they name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Literal, NamedTuple

from memoranda_backend.text.terms import MONTHS
from memoranda_facts.extraction.capitals import with_capitals
from memoranda_facts.extraction.quotations import is_text_to_work_on, own_text

_AS_READ = re.compile(r"[\x00-\x7f¡-¬®-˿‐-‧‰-⁞]*")
"""Characters that rules read as they are; none of them joins another."""


def readable(text: str) -> tuple[str, Sequence[int]]:
    """Return a text with composed letters and plain spaces and without invisible characters, and where it stood.

    The numbers are the place in the original of each character, and of the end; none if the text is as it was.
    """
    if _AS_READ.fullmatch(text):
        return text, ()
    read: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        kind = unicodedata.category(character)
        if kind == "Cf":
            continue
        if unicodedata.combining(character) and read:
            composed = unicodedata.normalize("NFC", read[-1] + character)
            if len(composed) == 1:
                read[-1] = composed
                continue
        read.append({"Zs": " ", "Zl": "\n", "Zp": "\n"}.get(kind, character))
        places.append(place)
    return "".join(read), [*places, len(text)]


LONGEST = 1000
"""How many characters a sentence may have; what is longer is a list or a log, and no sentence that rules can read."""

MONTHS_ABROAD = {
    "de": "januar|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember",
    "es": "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre",
    "fr": "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre",
}
"""The months of languages other than English, in order, as a part of a pattern."""

_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|e\.g|i\.e|[A-Z])\.$")
_END = re.compile(
    r"[.!?…]+(?=[\s\x00]|$)(?!(?<=\d\.) (?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)[a-zä]*\b)|\n+"
)
"""Where a sentence ends; a German date has a stop, too: "am 5. März"."""

_ASKING = re.compile(
    r"[,;:–—-]\s+(?:(?:and|but|so|or)\s+)?(?:can|could|would|will|do|does|did|is|are|am|was|were|have|has|should|may|any|"
    r"how|what|when|where|which|who|why|got|right|ok|okay|you|isn't|aren't|don't|doesn't|didn't)\b",
    re.IGNORECASE,
)
_TAG = re.compile(r"\b(?:right|ok|okay|isn't|aren't|don't|doesn't|didn't)$", re.IGNORECASE)
_REQUEST = re.compile(r"\b(?:can|could|would|will|how|what)$", re.IGNORECASE)
_UNREAL = re.compile(
    r"\b(?:if|unless|whether|would|wouldn't|could|might|maybe|perhaps|possibly|probably|wish(?:es|ed)?|suppose|imagine|"
    r"pretend(?:ing)?|hypothetically|as though|what about|for example|e\.g|for instance|let's say|say that|in a dream|"
    r"dreamed|dreamt|joking|kidding|almost|nearly|supposedly|allegedly)\b|['’]d\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:sa(?:y|ys|id|ying)(?! goodbye)|tell(?:s|ing)?|told|ask(?:s|ed|ing)?|claim(?:s|ed|ing)?|hear[ds]?|"
    r"think(?:s|ing)?|thought|believ(?:e|es|ed|ing)|guess(?:es|ed)?(?! what\b)|hop(?:e|es|ed|ing)|"
    r"want(?:s|ed)?(?! you to (?:remember|know|note|keep)\b)|wonder(?:s|ed|ing)?|assum(?:e|es|ed)|"
    r"according to|mention(?:s|ed)|wrote|writes|insist(?:s|ed)|swears?|swore|reckon|seems?|rumou?r|doubt|"
    r"not that|it's not|isn't that|never|"
    r"(?<!you should )(?<!you must )(?<!you to )knows? (?:that|who|someone)|until|before|"
    r"(?:feels?|felt|sounds?|looks?) like)\b",
    re.IGNORECASE,
)


WITNESS = (
    r"(?:(?:and|but|so|well|ok|good news),? )?(?:(?:my|the|our) )?(?:new )?"
    r"(?:doctor|doc|GP|allergist|specialist|dentist|midwife|nurse|lab|(?:blood |allergy )?tests?(?: results?)?|"
    r"results?|"
    r"[a-z]+ologist|[a-z]+iatrist)(?: just)?(?: now)? (?:says?|said|told me|tells me|confirmed|confirms|shows?|"
    r"showed|found)"
    r"(?: that)?(?= (?:I|it|my)\b)"
)
"""Who knows better than the speaker: what a doctor says of them counts as said by them."""

_WITNESSED = re.compile(WITNESS, re.IGNORECASE)

_PARTS_OF_WORK = (
    "act|scene|chapter|version|draft|release|sprint|ticket|level|episode|season|page|section|step|slide|row|column|table|"
    "figure|line|exercise|task|issue|module|unit|test|stage|round|branch|build"
)
_AT_WORK = re.compile(
    rf"\b(?:{_PARTS_OF_WORK})s? (?:no\.? |#)?(?:\d+|[ivx]+|[a-f])\b|\bv\d+(?:\.\d+)*\b"
    r"|\b(?:variable|function|method|parameter|repo|repository|codebase|plot|storyline)\b"
    r"|\b(?:my|the|main|this|our) (?:main )?(?:character|villain|hero|heroine|narrator)\b",
    re.IGNORECASE,
)
"""Sentences about what somebody works on: a text, a game, a program. They are no facts of a life."""

_FILLERS = r"(?:(?:but|and|hm+|well|actually|wait|ok|oh)[,. ]+)*"
_NOT_SURE = r"(?:I['’]?m not sure|I am not sure|not sure|I don['’]t know|no idea)"
_DOUBTS: Mapping[Literal["thought", "still"], re.Pattern[str]] = {
    "still": re.compile(
        rf"{_FILLERS}{_NOT_SURE}(?: if| whether| that)? (?=I['’]?m still |I am still |I still )", re.IGNORECASE
    ),
    "thought": re.compile(
        rf"{_FILLERS}(?:I think|I believe|I guess|{_NOT_SURE},? but|maybe|perhaps|probably|if I remember (?:it )?"
        r"(?:right|correctly)),?(?: that)? (?=\S)",
        re.IGNORECASE,
    ),
}
"""How people say that they are not sure."""

_SUBJECT, _SUBJECT_IS = "I ", "I am "
_DROPPED = re.compile(
    r"(?:(?i:ok|okay|so+|well|btw|also|yay|ugh|(?:quick )?update|news|oh|hey|anyway|and|finally|just|actually)"
    r"[,:!.]* +)*"
    r"(?P<verb>(?:[Gg]ot|[Ll]eft|[Qq]uit|[Ss]old|[Ss]topped|[Rr]esigned|[Gg]ave up|[Ll]ost|[Ss]witched|[Bb]roke up|"
    r"[Ss]plit up|[Cc]ancelled|[Cc]anceled|[Rr]etired|[Tt]urned|[Dd]ropped|[Mm]oved|[Rr]elocated|[Ss]tarted|[Jj]oined|"
    r"[Uu]pgraded|[Cc]hanged|[Tt]raded|[Ss]wapped|[Rr]eplaced|[Bb]ecame|[Cc]ame off|[Pp]romoted|[Ll]ive in|"
    r"[Bb]ought an?|[Dd]rive an?|[Ss]ettled|[Ss]hifted|[Rr]ehomed|[Gg]ave|[Cc]ut out|[Dd]itched|[Mm]igrated|"
    r"[Hh]aven['’]t|"
    r"[Tt]ook (?:early )?retirement|"
    r"[Ww]ork (?:as|at|for)|[Dd]on['’]t(?! forget\b)|[Nn]o longer|[Nn]ot)\b)"
)
"""The verbs before which people leave out "I" in a chat."""

_JOINED = re.compile(
    r"(?:(?:hi|hey|hello|so|ok|btw|yeah|well|um)[,!. ]+)*(?:I|I['’]?m|We)\b[^.;:!?\x00]{0,80}? and "
    r"(?P<verb>(?:live in|work (?:as|at|for)|study|drive an?|bank with|play|run|smoke|drink|speak|"
    r"(?:don['’]?t|can['’]?t) eat)\b)"
    r"|(?:I|I['’]ve|We|We['’]ve) (?:(?!(?:who|that|which|he|she|they|his|her)\b)[\w'’-]+ ){1,8}?and "
    r"(?P<past>(?:joined|left|dropped|sold|quit|switched from|moved (?:back )?to|bought an?|became an?|switched to|"
    r"adopted an?|started (?:at|as)|settled in)\b)",
    re.IGNORECASE,
)
"""A second verb of the speaker: "I'm a nurse and live in Lisbon", "I quit my job and joined Canva"."""

_PREDICATED = re.compile(
    r"(?:(?:hi|hey|hello)[,!. ]+)?(?:I['’]m|I am|My name is|I live in|I work as|I work at|I work for) "
    r"(?:(?!(?:with|for|and|called|named|who|dating|married|seeing|meeting|cooking|looking|not)\b)[\w'’-]+ ?){1,6}"
    r"(?:(?:, and|,| and)|(?: and)?(?:,? )(?:also)) (?P<verb>(?:allergic to|vegan|vegetarian|pescatarian|diabetic|"
    r"lactose[- ]intolerant|celiac|coeliac)\b)",
    re.IGNORECASE,
)
"""A second predicate of the speaker: "I live in Lisbon, vegan and allergic to nuts"."""


class Sentence(NamedTuple):
    """A sentence and where it starts in its text. ``stated`` is the part of it that states something, often all.

    Where people leave out "I", as in "got fired today", it stands in ``text`` and ``stated`` at the place ``dropped``,
    with ``added`` characters.
    ``doubt`` says that it is only thought to be so ("I think …"), or no longer sure ("not sure if I still …").
    """

    text: str
    start: int
    stated: str
    dropped: int | None = None
    doubt: Literal["thought", "still"] | None = None
    added: int = 0

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of the sentence stands in the text."""
        return self.start + self._said(start), self.start + self._said(end)

    def _said(self, place: int) -> int:
        if self.dropped is None or place <= self.dropped:
            return place
        return max(self.dropped, place - self.added)


def _with_subject(sentence: Sentence) -> Sentence:
    """Return a sentence with the subject that it leaves out."""
    found = _DROPPED.match(sentence.stated) or _JOINED.match(sentence.stated)
    subject = _SUBJECT
    if found is None:
        found, subject = _PREDICATED.match(sentence.stated), _SUBJECT_IS
    if found is None:
        return sentence
    place = found.start(found.lastgroup or "verb")
    first = slice(place, place + 1)
    completed = [
        f"{text[:place]}{subject}{text[first].lower()}{text[place + 1 :]}" for text in (sentence.text, sentence.stated)
    ]
    return Sentence(completed[0], sentence.start, completed[1], place, added=len(subject))


def sentences(text: str, *, tagged: bool = False) -> Iterator[Sentence]:
    """Yield the sentences of a text, in order, without quotations, code and what is only played.

    Questions, conditions and wishes state nothing. A sentence that ends with a question states what comes before it: "I
    live in Rome, can you help me?". With ``tagged`` a question such as "You live in Rome, right?" states it, too: its
    answer says that it is true.
    """
    if is_text_to_work_on(text):
        return
    for start, sentence in _split(with_capitals(own_text(text).replace("¡", " "))):
        if len(sentence) > LONGEST:
            continue
        stated = _before_question(sentence, tagged)
        unreal = _UNREAL.search(stated) or _AT_WORK.search(stated)
        yield _with_subject(Sentence(sentence, start, "" if unreal else stated))
        yield from _doubted(stated, start)


def _doubted(stated: str, start: int) -> Iterator[Sentence]:
    """Yield what a sentence says with doubt, as if it were said without."""
    for doubt, pattern in _DOUBTS.items():
        found = pattern.match(stated)
        said = "" if found is None else stated[found.end() :]
        if found is not None and not _UNREAL.search(said) and not _AT_WORK.search(said):
            yield Sentence("", start + found.end(), said, doubt=doubt)
            return


def reported_from(text: str) -> int:
    """Return where the words of a sentence become another's, a belief or a denial, as behind "he said that"."""
    witnessed = _WITNESSED.match(text)
    found = _REPORTED.search(text, witnessed.end() if witnessed else 0)
    return len(text) if found is None else found.end()


def _split(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for end in _END.finditer(text):
        if end.group() != "." or not _ABBREVIATION.search(text[start : end.end()]):
            yield from _trimmed(text, start, end.end())
            start = end.end()
    yield from _trimmed(text, start, len(text))


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    part = text[start:end]
    if part.strip():
        yield start + len(part) - len(part.lstrip()), part.strip()


_ASKED_TO_REMEMBER = re.compile(
    r"(?:(?:hey|hi|please|also|and|ok|okay),? )*can you (?:please )?(?:remember|note|keep in mind|save)(?: that)? ",
    re.IGNORECASE,
)
"""A question that states what it asks to keep in mind."""


def _before_question(sentence: str, tagged: bool) -> str:
    if _ASKED_TO_REMEMBER.match(sentence):
        return sentence.rstrip("? ")
    asked = _ASKING.search(sentence)
    before = sentence[: asked.start()] if asked else sentence.rstrip("? ") if tagged else ""
    if sentence.rstrip("!. ").endswith("?"):
        return before if tagged or (asked and not _TAG.search(asked.group())) else ""
    # "…, can you help me" is often written without its question mark.
    return before if asked and _REQUEST.search(asked.group()) else sentence


_MONTH = "|".join(month.capitalize() for month in MONTHS) + "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNT = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBERS = {word: number for number, word in enumerate(_COUNT)} | {"a": 1, "an": 1, "fifteen": 15, "twenty": 20}
_UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}

_NUMBER_OF_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
DAY = (
    rf"(?:(?:(?:{_MONTH})\.? {_NUMBER_OF_DAY}|{_NUMBER_OF_DAY}(?: of)? (?:{_MONTH}))(?:,? \d{{4}})?"
    r"|\d{4}-\d{2}-\d{2})"
)
"""A day of a month, with or without its year."""

SAID_DATE = (
    rf"(?:(?:on|since) )?(?:{DAY})"
    rf"|(?:in|since|back in|in early|in late) (?:(?:{_MONTH}),?(?: (?:of )?\d{{4}})?|(?:19|20)\d{{2}})"
    r"|(?:since )?(?:last|this) (?:week|month|year|weekend|spring|summer|autumn|fall|winter)"
    rf"|(?:since )?(?:last|on|this) (?:{'|'.join(day.capitalize() for day in _WEEKDAYS)})"
    rf"|(?:since )?last (?:{_MONTH})"
    r"|(?:since )?(?:yesterday|today|this morning|last night)"
    rf"|(?:about |over )?(?:\d{{1,2}}|{'|'.join(_NUMBERS)}|a couple of|a few) (?:days?|weeks?|months?|years?) ago"
)
"""What can be read by :func:`said_date`; months and weekdays need their capital."""

_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_DAY_PARTS = re.compile(rf"(?P<month>{_MONTH})\.?|(?P<year>\d{{4}})|(?P<day>\d{{1,2}})")


def said_date(words: str, spoken: str) -> str | None:
    """Return the coarse date that the words mean at the moment they were spoken: a day, a month or a year.

    ``spoken`` is ISO-8601 text. A month or day without a year is the last one that had begun by then. Returns None for
    words that mean no date, and for dates after the moment.
    """
    now = datetime.fromisoformat(spoken).date()
    found = _read(words, now)
    return None if found is None or found > now.isoformat()[: len(found)] else found


def day_of_year(words: str) -> str | None:
    """Return a day that comes each year as "MM-DD", from words such as "March 5th" or "the 5th of March"."""
    parts = _parts(words.title())
    last = "".join(words.lower().split()[-1:])
    for names in MONTHS_ABROAD.values():
        months = names.split("|")
        if last in months:
            parts["month"] = months.index(last) + 1
    if "month" not in parts or "day" not in parts:
        return None
    try:
        return f"{date(2024, parts['month'], parts['day']):%m-%d}"
    except ValueError:
        return None


def _read(words: str, now: date) -> str | None:
    text = words.lower().removeprefix("since ").removeprefix("about ").removeprefix("over ")
    if text in ("today", "this morning"):
        return now.isoformat()
    if text in ("yesterday", "last night"):
        return (now - timedelta(days=1)).isoformat()
    if text.endswith(" ago"):
        return _ago(text, now)
    which, _, unit = text.rpartition(" ")
    if which in ("last", "this", "on") and not unit.isdigit():
        relative = _relative(which, unit, now)
        if relative is not None:
            return relative
    return _absolute(words, now)


def _ago(text: str, now: date) -> str | None:
    count, _, unit = text.removesuffix(" ago").rpartition(" ")
    number = int(count) if count.isdigit() else _NUMBERS.get(count)
    if number is None:  # "A few" is no number.
        return None
    unit = unit.removesuffix("s")
    if unit == "year":
        return str(now.year - number)
    if unit == "month":
        return _month_text(now.year * 12 + now.month - 1 - number)
    return (now - timedelta(days=number * _UNITS[unit])).isoformat()


def _relative(which: str, unit: str, now: date) -> str | None:
    back = 1 if which == "last" else 0
    if unit == "year":
        return str(now.year - back)
    if unit == "month":
        return _month_text(now.year * 12 + now.month - 1 - back)
    if unit == "week":
        return (now - timedelta(days=now.weekday() + 7 * back)).isoformat()
    if unit == "weekend":
        return (now - timedelta(days=(now.weekday() - 5) % 7)).isoformat()
    if unit in _SEASONS:
        start = date(now.year, _SEASONS[unit], 1)
        return f"{(start if start <= now else start.replace(year=now.year - 1)):%Y-%m}"
    if unit in _WEEKDAYS:
        return (now - timedelta(days=(now.weekday() - _WEEKDAYS.index(unit)) % 7 or 7 * back)).isoformat()
    return None


def _absolute(words: str, now: date) -> str | None:
    if re.search(r"\d{4}-\d{2}-\d{2}", words):
        found = words[-10:]
        return found if _is_day(found) else None
    parts = _parts(words)
    if "month" not in parts:
        return str(parts["year"]) if "year" in parts and "day" not in parts else None
    year = parts.get("year", now.year)
    day = f"-{parts['day']:02d}" if "day" in parts else ""
    found = f"{year:04d}-{parts['month']:02d}{day}"
    if "year" not in parts and found > now.isoformat()[: len(found)]:
        found = f"{year - 1:04d}{found[4:]}"
    return found if not day or _is_day(found) else None


def _parts(words: str) -> dict[str, int]:
    parts: dict[str, int] = {}
    for found in _DAY_PARTS.finditer(words):
        kind = str(found.lastgroup)
        value = found.group(kind)
        parts[kind] = _month_number(value) if kind == "month" else int(value)
    return parts


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(MONTHS, start=1) if month.startswith(name.lower()[:3]))


def _month_text(months: int) -> str:
    return f"{months // 12:04d}-{months % 12 + 1:02d}"


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
