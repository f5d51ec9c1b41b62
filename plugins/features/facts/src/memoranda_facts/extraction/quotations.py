"""Words that somebody else said: code, links, quotations, pasted mail, and what a colon introduces."""

from __future__ import annotations

import re

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
    r"new \w+|anyway|also|actually|honestly|truth|well|so|ok|okay|"
    r"ich|wir|mir|mein\w*|übrigens|neuigkeit\w*|wichtig|achtung|info|kurz|korrektur|"
    r"yo|mi|noticias?|por cierto|importante|ojo|je|moi|mon|ma|mes|au fait|nouvelles?|attention)\s*$"
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
