"""Sentences as rules read them: the parts that state something, as they were typed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from memoranda_facts.extraction.capitals import with_capitals
from memoranda_facts.extraction.quotations import is_text_to_work_on, own_text

LONGEST = 1000
"""How many characters a sentence may have; what is longer is a list or a log, and no sentence that rules can read."""

_SAYS_SOMETHING = re.compile(r"\w")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|e\.g|i\.e|[A-Z])\.$")
_END = re.compile(
    r"[.!?…]+(?=[\s\x00]|$)(?!(?<=\d\.) (?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)[a-zä]*\b)|\n+"
)
"""Where a sentence ends; a German date has a stop, too: "am 5. März"."""

_ASKING = re.compile(
    r"[,;:–—-]\s+(?:(?:and|but|so|or)\s+)?(?:can|could|would|will|do|does|did|is|are|am|was|were|have|has|should|may|"
    r"any|"
    r"how|what|when|where|which|who|why|got|right|ok|okay|you|isn't|aren't|don't|doesn't|didn't)\b",
    re.IGNORECASE,
)
_TAG = re.compile(r"\b(?:right|ok|okay|isn't|aren't|don't|doesn't|didn't)$", re.IGNORECASE)
_REQUEST = re.compile(r"\b(?:can|could|would|will|how|what)$", re.IGNORECASE)
_UNREAL = re.compile(
    r"\b(?:if|unless|whether|would|wouldn't|could|might|maybe|perhaps|possibly|probably|wish(?:es|ed)?|suppose|imagine|"
    r"pretend(?:ing)?|hypothetically|as though|what about|for example|e\.g|for instance|let's say|say that|in a dream|"
    r"dreamed|dreamt|joking|kidding|almost|nearly|supposedly|allegedly)\b|"
    r"['’]d\b(?! rather have [\w ]{1,30}(?:answers|replies|responses)\b)",
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
    "act|scene|chapter|version|draft|release|sprint|ticket|level|episode|season|page|section|step|slide|row|column|"
    "table|"
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
    r"[Ww]ork (?:as|at|for)|[Dd]on['’]t(?! (?:forget|call)\b)|[Nn]o longer|[Nn]ot)\b)"
)
"""The verbs before which people leave out "I" in a chat."""

_JOINED = re.compile(
    r"(?:(?:hi|hey|hello|so|ok|btw|yeah|well|um)[,!. ]+)*(?:I|I['’]?m|We)\b[^.;:!?\x00]{0,80}? and "
    r"(?P<verb>(?:live in|work (?:as|at|for)|study|drive an?|bank with|play|run|smoke|drink|speak|take|do|"
    r"(?:don['’]?t|can['’]?t) eat)\b)"
    r"|(?:I|I['’]?ve|I['’]?m|We|We['’]ve) (?:(?!(?:who|that|which|he|she|they|his|her|friend|cousin|"
    r"colleague|know|met|saw)\b)[\w'’-]+,? ){1,8}?(?:and |(?<=, ))"
    r"(?P<past>(?:joined|left|dropped|sold|quit|switched from|moved (?:back )?to|bought an?|became an?|switched to|"
    r"adopted an?|started (?:at|as)|settled in|got an? (?:new )?(?:job|position)|ended up living in)\b)",
    re.IGNORECASE,
)
"""A second verb of the speaker: "I'm a nurse and live in Lisbon", "I quit my job, joined Canva"."""

_PREDICATED = re.compile(
    r"(?:(?:hi|hey|hello)[,!. ]+)?(?:I['’]m|I am|My name is|I live in|I work as|I work at|I work for) "
    r"(?:(?!(?:with|for|and|called|named|who|dating|married|seeing|meeting|cooking|looking|not)\b)[\w'’-]+ ?){1,6}"
    r"(?:(?:, and|,| and)|(?: and)?(?:,? )(?:also)) (?P<verb>(?:studying|living in|working (?:at|for|as)|allergic to|"
    r"vegan|vegetarian|pescatarian|diabetic|"
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
        if len(sentence) > LONGEST or _SAYS_SOMETHING.search(sentence) is None:
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
