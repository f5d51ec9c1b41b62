"""Sentences and the parts of them that state something, without the words that somebody else said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from memoranda_facts.extraction.rule_table import with_capitals

BLANK = "\x00"
"""Stands for each character of what somebody else said, so that nothing is found in it."""

_MARKED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+"
    r"|\"[^\"\n]*(?:\"|$)|“[^”\n]*(?:”|$)|„[^“”\n]*(?:[“”]|$)|«[^»\n]*(?:»|$)"
    r"|(?<!\w)'[^'\n]{2,}?'(?!\w)|(?<!\w)‘[^’\n]{2,}?’(?!\w)"
    r"|^[ \t]*>.*$",
    re.DOTALL | re.MULTILINE,
)
"""Code, links, and what stands in quotation marks or behind the mark of a reply."""

_FORWARDED = re.compile(
    r"^[ \t]*(?:-{3,}[ \t]*(?:original|forwarded|ursprüngliche|mensaje|message)\b.*"
    r"|(?:begin )?forwarded message:?.*"
    r"|(?:From|To|Subject|Sent|Date|Von|An|Betreff|De|Para|Asunto|À|Objet)[ \t]?:[ \t].*"
    r"|.{0,80}\b(?:wrote|schrieb|escribió|a écrit)[^\n:]{0,80}:)[ \t]*$.*",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
"""The head of a mail, with everything after it."""

_GREETING = re.compile(
    r"^[ \t]*(?:Dear|Hi|Hello|Hey|Liebe|Lieber|Hallo|Sehr geehrte[rn]?|Querid[oa]|Hola|Cher|Chère|Bonjour)"
    r"[^\n.!?]{0,40},[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSING = re.compile(
    r"^[ \t]*(?:(?:kind|best|warm)(?: regards| wishes)?|regards|sincerely|yours(?: \w+)?|cheers|love|"
    r"(?:viele|liebe|beste) grüße|mit freundlichen grüßen|saludos|un abrazo|cordialement|bises),?[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
"""The first line of a letter and its closing, each in a line of its own."""

_LEAD_IN = re.compile(r"(?:^|(?<=[.!?\n]))(?P<words>[^.!?\n\x00:]*?)[ \t]?:(?=\s)(?P<line_ends>[ \t]*$)?", re.MULTILINE)
"""What stands before a colon, from the beginning of its sentence."""

_QUOTES = re.compile(
    r"\b(?:e-?mail|mail|message|letter|text|texted|sms|whatsapp|post|tweet|comment|quote|review|story|poem|song|lyrics|"
    r"dialogue|script|article|page|paragraph|sentence|line|example|from|by|repeat|say|says|said|saying|tell|told|wrote|"
    r"writes?|writing|reads?|goes|translate|summari[sz]e|rewrite|rephrase|fix|proofread|improve|check|reply|replied|"
    r"answer\w*|respond\w*|ask(?:s|ed)?|caption|bio|slogan|headline|prompt|role|character|pretend|imagine|"
    r"schreib\w*|schrieb\w*|sagt\w*|sagen|übersetz\w*|nachricht|brief|dice|dijo|escrib\w*|repite|traduce|mensaje|carta|"
    r"dit|écri\w*|répète|tradui\w*|lettre)\b",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\b(?:I|I['’]\w+|we|me|my|myself|our|fun fact|fyi|btw|by the way|update|news|correction|p\.?s|edit|reminder|"
    r"intro\w*|heads[- ]up|context|background|info|confession|thing|know|record|clear|important|remember|note|sorry|"
    r"new \w+|(?:new )?dos(?:e|age)(?: of [\w-]+)?|anyway|also|actually|honestly|truth|well|so|ok|okay|"
    r"neue\w* \w+|nuev[oa]s? \w+|nouve\w+ \w+|ich|wir|mir|mein\w*|übrigens|neuigkeit\w*|wichtig|achtung|info|kurz|"
    r"korrektur|yo|mi|noticias?|por cierto|importante|ojo|je|moi|mon|ma|mes|au fait|nouvelles?|attention)\s*$"
    r"|\b(?:about me|über mich|sobre mí|sur moi|you should know|I do|I am)\b",
    re.IGNORECASE,
)


def own_text(text: str) -> str:
    """Return a text with a blank for each character of what somebody else said; places stay the same."""
    for foreign in (_MARKED, _FORWARDED):
        text = foreign.sub(_blanks, text)
    return _without_introduced(_without_letter(text))


def _without_letter(text: str) -> str:
    """Return a text without the letter in it, and without what follows that."""
    greeting = _GREETING.search(text)
    if greeting is None or _CLOSING.search(text, greeting.end()) is None:
        return text
    return text[: greeting.start()] + re.sub(r"[^\n]", BLANK, text[greeting.start() :])


def _blanks(found: re.Match[str]) -> str:
    """Return blanks in place of what was found; the ends of lines stay."""
    return re.sub(r"[^\n]", BLANK, found.group())


def _without_introduced(text: str) -> str:
    """Return a text without what a colon introduces as another's: to the end of its line, or of the text."""
    start = 0
    while (lead := _LEAD_IN.search(text, start)) is not None:
        start = lead.end()
        words = lead["words"]
        if not words.strip() or (_OWN.search(words) and not _QUOTES.search(words)):
            continue
        line_end = text.find("\n", lead.end())
        stop = len(text) if line_end < 0 or lead["line_ends"] is not None else line_end
        text = text[: lead.end()] + re.sub(r"[^\n]", BLANK, text[lead.end() : stop]) + text[stop:]
        start = stop
    return text


LONGEST = 1000
"""How many characters a sentence may have; what is longer is a list or a log, and no sentence that rules can read."""

_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|e\.g|i\.e|[A-Z])\.$")
_END = re.compile(r"[.!?…]+(?=[\s\x00]|$)|\n+")

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
_PLAYED = re.compile(
    r"\b(?:in (?:the|this|my|a|our) (?:story|novel|game|movie|film|dream|scene|script|play|scenario)|"
    r"role-?play(?:ing)?|act as|pretend(?:ing)?|protagonist|narrator|"
    r"once upon a time|es war einmal|érase una vez|il était une fois|chapter (?:\d+|one)|"
    r"(?:first|opening|last) (?:line|sentence|paragraph) of|"
    r"(?<!I'm )(?<!I am )(?<!I )(?:write|continue|finish|begin|start) (?:me )?(?:a|an|the|my|this|our) (?:[\w-]+ ){0,2}"
    r"(?:story|novel|poem|scene|play|script|letter|song|monologue|dialogue|tale|haiku|speech|essay)|"
    r"translate|rephrase|rewrite|proofread|sarcas\w+|"
    r"(?:following|this|next) (?:sentence|text|paragraph|passage|letter|email))\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:sa(?:y|ys|id|ying)(?! goodbye)|tell(?:s|ing)?|told|ask(?:s|ed|ing)?|claim(?:s|ed|ing)?|hear[ds]?|"
    r"think(?:s|ing)?|thought|believ(?:e|es|ed|ing)|guess(?:es|ed)?|hop(?:e|es|ed|ing)|"
    r"want(?:s|ed)?|wonder(?:s|ed|ing)?|assum(?:e|es|ed)|according to|mention(?:s|ed)|wrote|writes|insist(?:s|ed)|"
    r"swears?|swore|reckon|seems?|rumou?r|doubt|"
    r"not that|it's not|isn't that|never|know(?:s)? (?:that|who|someone)|until|before|"
    r"(?:feels?|felt|sounds?|looks?) like)\b",
    re.IGNORECASE,
)


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

_SUBJECT = "I "
_DROPPED = re.compile(
    r"(?:(?i:ok|okay|so+|well|btw|also|yay|ugh|(?:quick )?update|news|oh|hey|anyway|and|finally|just|actually)"
    r"[,:!.]* +)*"
    r"(?P<verb>(?:[Gg]ot|[Ll]eft|[Qq]uit|[Ss]old|[Ss]topped|[Rr]esigned|[Gg]ave up|[Ll]ost|[Ss]witched|[Bb]roke up|"
    r"[Ss]plit up|[Cc]ancelled|[Cc]anceled|[Rr]etired|[Tt]urned|[Dd]ropped|[Mm]oved|[Rr]elocated|[Ss]tarted|[Jj]oined|"
    r"[Uu]pgraded|[Cc]hanged|[Tt]raded|[Ss]wapped|[Rr]eplaced|[Bb]ecame|[Cc]ame off|[Pp]romoted|[Ll]ive in|"
    r"[Bb]ought an?|[Dd]rive an?|"
    r"[Ww]ork (?:as|at|for)|[Dd]on['’]t|[Nn]o longer|[Nn]ot)\b)"
)
"""The verbs before which people leave out "I" in a chat."""

_JOINED = re.compile(
    r"(?:(?:hi|hey|hello)[,!. ]+)?(?:I|I['’]m|We)\b[^.;:!?\x00]{0,80}? and "
    r"(?P<verb>(?:live in|work (?:as|at|for)|study|drive an?)\b)",
    re.IGNORECASE,
)
"""A second verb of the speaker: "I'm a nurse and live in Lisbon"."""


class Sentence(NamedTuple):
    """A sentence and where it starts in its text. ``stated`` is the part of it that states something, often all.

    Where people leave out "I", as in "got fired today", it stands in ``text`` and ``stated`` at the place ``dropped``.
    ``doubt`` says that it is only thought to be so ("I think …"), or no longer sure ("not sure if I still …").
    """

    text: str
    start: int
    stated: str
    dropped: int | None = None
    doubt: Literal["thought", "still"] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of the sentence stands in the text."""
        return self.start + self._said(start), self.start + self._said(end)

    def _said(self, place: int) -> int:
        if self.dropped is None or place <= self.dropped:
            return place
        return max(self.dropped, place - len(_SUBJECT))


def _with_subject(sentence: Sentence) -> Sentence:
    """Return a sentence with the subject that it leaves out."""
    found = _DROPPED.match(sentence.stated) or _JOINED.match(sentence.stated)
    if found is None:
        return sentence
    place = found.start("verb")
    completed = [
        f"{text[:place]}{_SUBJECT}{text[place : place + 1].lower()}{text[place + 1 :]}"
        for text in (sentence.text, sentence.stated)
    ]
    return Sentence(completed[0], sentence.start, completed[1], place)


def sentences(text: str, *, tagged: bool = False) -> Iterator[Sentence]:
    """Yield the sentences of a text, in order, without quotations, code and what is only played.

    Questions, conditions and wishes state nothing. A sentence that ends with a question states what comes before it: "I
    live in Rome, can you help me?". With ``tagged`` a question such as "You live in Rome, right?" states it, too: its
    answer says that it is true.
    """
    if _PLAYED.search(text):
        return
    for start, sentence in _split(with_capitals(own_text(text))):
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
    found = _REPORTED.search(text)
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


def _before_question(sentence: str, tagged: bool) -> str:
    asked = _ASKING.search(sentence)
    before = sentence[: asked.start()] if asked else sentence.rstrip("? ") if tagged else ""
    if sentence.rstrip("!. ").endswith("?"):
        return before if tagged or (asked and not _TAG.search(asked.group())) else ""
    # "…, can you help me" is often written without its question mark.
    return before if asked and _REQUEST.search(asked.group()) else sentence
