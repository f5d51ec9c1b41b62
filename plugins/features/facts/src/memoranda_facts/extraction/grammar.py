"""The grammar that the rules are written in: templates that stand for a statement about the speaker or about a name.

A template becomes one pattern for each person. ``{S}`` is the subject with adverbs; ``{BE}``, ``{WAS}`` and ``{HAVE}``
are the subject with that verb; ``{MY}`` is a possessive; ``<live>`` is a verb in its right form; other names in
capitals are noun phrases and lists of words. ``{value=PLACE}`` is a group of that name. ``{END}`` is where a phrase may
end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Literal

from memoranda_facts.extraction.rule_table import words
from memoranda_facts.extraction.said_dates import DAY, SAID_DATE
from memoranda_facts.extraction.sentences import WITNESS


class Person(Enum):
    """Who a statement is about: the speaker, the one spoken to, or someone who is named."""

    FIRST = "first"
    SECOND = "second"
    THIRD = "third"


def _list(name: str) -> str:
    """Return the pattern of a list of words, the longest first."""
    return f"(?:{'|'.join(sorted(words()[name], key=len, reverse=True))})"


UPPER, LOWER = "A-ZÀ-ÖØ-Þ", "a-zßà-öø-ÿœ"
"""The letters of Western Europe. Patterns with those of all alphabets take twice as long to compile."""

_FURTHER_LETTER = re.compile("[\u0100-\u0152\u0154-\u024f\u0370-\u052f\u1e00-\u1eff]")
"""Other Latin letters, Greek and Cyrillic."""

_NAME = (
    rf"[{UPPER}][{LOWER}]+(?:-[{UPPER}][{LOWER}]+)?"
    rf"(?: (?:[A-Z]\.|[{UPPER}][{LOWER}]+)){{0,2}}"
)
FULL_NAME = rf"{_NAME}(?![\w'’-])"
_ADVERBS = (
    r"(?: (?:also|still|now|currently|really|absolutely|just|recently|actually|totally|truly|simply|always|definitely|"
    r"originally|personally|already|finally|officially|all|both|happily|newly|proudly|sometimes|usually|mostly|very|so|"
    r"such))*"
)
_NOT_A_TRADE = (
    "good|bad|great|big|better|best|terrible|bit|kind|real|born|natural|huge|decent|lousy|total|fellow|talented|"
    "aspiring|"
    "former|wannabe|would-be|budding|future|true|amazing|fantastic|proud|one|lot|few|pretty|like|being|becoming|having|"
    "getting"
)
_JOINING = (
    r"(?:and|but|so|because|since|while|now|for|to|in|at|on|with|after|over|last|this|again|anymore|yesterday|today)\b"
)
_TRADE = rf"{_list('TRADE')}(?: (?:[1-9]|I{{1,3}}|IV|V)\b)?"
_DRUG_ENDINGS = (
    "pril|olol|statin|formin|sartan|prazole|triptan|oxacin|cillin|mycin|etine|aline|azepam|profen|proxen|cetamol|"
    "gliptin|"
    "dipine|zide|semide|thyroxine|insulin|aspirin|codone|tidine|pirin|adine|pride|farin|pram|lukast|xaban|dronate|"
    "terol|conazole|pentin|gabalin|trigine|"
    "tyline|solone|isone|glutide|gliflozin|minophen|tonin"
)
_MONTH_NAME = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_MONTH_SAID = f"(?i:{_MONTH_NAME})"
_WEEKDAY = "(?:(?i:mon|tues|wednes|thurs|fri|satur|sun)days?)"
_CLOCK = r"(?:\d{1,2}(?::\d\d)? ?(?:am|pm|a\.m\.|p\.m\.|h|o['’]clock|Uhr)|\d{1,2}:\d\d)"
_NUMBER_TH = r"\d{1,2}(?:st|nd|rd|th)"
_PHRASES = {name: _list(name) for name in words() if name != "NOT_NAME"} | {
    "ADVERBS": _ADVERBS,
    "ANYTHING": r"(?:[^,;:.!?…–—()\x00-]|(?<=\w)[-.,](?=\w))+",
    "BRAND": r"(?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)[A-Z][a-z]{5,}",
    "DAY": DAY,
    "DID": rf"(?:(?: have| has|['’]ve|['’]s)?{_ADVERBS})",
    "DOING": r"(?!playing|learning|working|going|doing|getting|having|using)[a-z]+ing",
    "END": r"(?=\s*(?:[,;:!?)…–—\x00]|\.(?!\w)|- |$)|\s+(?:and|but|so|because|since|while|now|too|any ?more|"
    r"any longer|from now on|again|where|over|after|before|until|instead|btw|to be|"
    r"rn|atm|pls|please|tbh|yay|apparently|as it turns out|it turns out|"
    r"which|who|when|though|although|as well|as of (?:now|today|yesterday|this|last)|on weekends|these days|"
    r"right now|at the moment|at|for|"
    r"with (?:my|his|her|our|a|an|two)|"
    r"last|this (?:week|month|year|morning|summer|winter|spring)|yesterday|today|on (?:[A-Z]\w+|\d+)|"
    r"in (?:early |late )?(?:[A-Z]\w+|\d+|spring|summer|autumn|fall|winter)|"
    rf"in (?i:{_MONTH_NAME})|"
    r"back in|(?:about |over )?(?:[a-z]+|\d+) (?:day|week|month|year)s? ago)\b)",
    "DONE": r"\b(?! (?:with|if|when)\b| in (?:the|a|my|this) (?:dream|film|movie|story|game|book|novel|play|show)\b)",
    "AND": r"(?:and|or|&)",
    "AGED": r"(?=\s*(?:[;!)…\x00]|,(?! ?\d)|\.(?!\w)|$)|\s+(?:and|but|so|today|years old|as of (?:today|yesterday))\b)",
    "ALLERGIC_TO": r"[a-z-]+(?: (?!and|but|so|or|which|since)[a-z-]+)?",
    "ALLERGY_TO": rf"(?:(?:my |the |some |all |most |any )?(?:{_list('ALLERGEN')}|[a-z]*(?:{_DRUG_ENDINGS})|"
    r"(?!(?:always|sometimes|perhaps|besides|nowadays|thus|needs|is|was|has|does|this|its)\b)[a-z]{2,}[a-rt-z]s))\b",
    "AMOUNT": r"(?:[$€£] ?)?\d+(?:[.,]\d+)*(?:k\b)?(?: ?(?:[$€£]|euros?|dollars?|pounds?|francs?|kg|kilos?|lbs?))?"
    r"(?: (?:a|per) (?:month|week|year|hour))?",
    "DOSE": r"\d+(?:[.,]\d+)? ?(?:mg|ml|mcg|µg|IU)\b"
    r"(?: (?:a|per) (?:day|week)| (?:once|twice) (?:a day|daily)| daily)?",
    "DOSED": r"(?=\s*(?:[,;:!?)…–—\x00]|\.(?!\w)|$)|\s+(?:and|but|so|because|since|now|every|each|once|twice|daily|"
    r"in the|at|before|after|with|for|from|last|this|yesterday|today|on|instead|as|to|these days)\b)",
    "MEDICINE": r"(?!(?:the|my|a|an|it|this|that|water|more|less|dose|dosage)\b)[A-Za-z][a-z-]{3,}(?: D3?)?",
    "WHO_DOSES": r"(?:(?:[Tt]he |[Mm]y )?(?:[Dd]octor|[Dd]oc|GP|[A-Z]?[a-z]+(?:ologist|iatrist))(?: [A-Z]\w+)?|"
    r"[Hh]e|[Ss]he|[Tt]hey|I|[Ww]e)",
    "DRUG": rf"[a-z]*(?:{_DRUG_ENDINGS})",
    "HAVING": rf"(?: have| has|['’]ve|['’]s){_ADVERBS}",
    "HIS": "(?:my|his|her|their)",
    "LASTED": r"(?: for (?:about |over |almost |the (?:last|past) )?(?P<lasted>(?:\d+|a|two|three|four|five|six|seven|"
    r"eight|nine|ten) (?:years?|months?|weeks?)))?",
    "MOVED_WHEN": r"(?:yesterday|today|again|recently|last (?:week|month|year|weekend|\w+day)|"
    r"this (?:week|month)|finally)",
    "NAME": FULL_NAME,
    "NAME_OF": rf"{_NAME}(?![\w-])",
    "OCCUPATION": rf"(?:(?!(?:{_NOT_A_TRADE})\b)[A-Za-zà-ÿ/-]+ ){{0,3}}"
    rf"{_TRADE}(?! (?:of|shop|school|class)\b)",
    "ONE_WORD": "[A-Za-z][a-z]+",
    "ORG": rf"(?:(?:(?:St|Mt)\. )?[{UPPER}][\w&'’.-]*\w(?:(?: of| for| and| &| the)* [{UPPER}0-9][\w&'’-]*){{0,4}}"
    rf"|(?:an?|the) (?!new\b)(?:[\w-]+ ){{0,3}}{_list('BUSINESS')}"
    r"|[a-z][a-z0-9-]*\.(?:com|io|ai|net|org|nl|de|fr|es|uk|co))",
    "PET": rf"(?:[{LOWER}-]+ ){{0,2}}{_list('PET_KIND')}",
    "PLACE": rf"(?:the )?(?:(?:St|Ste|Mt|Ft)\. )?[{UPPER}][\w'’-]+"
    rf"(?:(?: of| de| del| do| da| dos| di| la| am| sur| upon| on|,)? [{UPPER}][\w'’-]+){{0,4}}(?:,? D\.C\.)?",
    "PHONE": rf"{_list('PHONE')}(?: (?:[A-Z]?\d+\w*|Pro|Plus|Max|Ultra|Mini|SE|Air))*",
    "PRODUCT": r"[A-Z][\w+#.-]*\w(?: (?:[A-Z][\w+#.-]*\w|v?\d[\w.]*\w|\d))*",
    "RANKED": rf"(?:(?i:{_list('RANK')}) ){{0,2}}(?i:{_TRADE})",
    "SAID_DATE": SAID_DATE,
    "SCHOOL": rf"(?:[{UPPER}][\w'’.-]*(?: [{UPPER}][\w'’.-]*){{0,3}} (?:[Ss]chool|Elementary|Primary|Academy|High|"
    rf"College|"
    rf"Preschool|Kindergarten|Montessori)|St\.? [{UPPER}]\w+(?:['’]s)?)",
    "SOME_HOME": r"(?:an?|the|our|my) (?:new |small |big |tiny |little )*(?:place|flat|apartment|studio|house|home|"
    r"condo|loft|cottage|dorm)",
    "SAID": rf"(?:(?:the|my|our|his|her|an?) )?[\w&'’.+#-]*\w(?: (?!{_JOINING})[\w&'’.+#-]*\w){{0,3}}?",
    "GADGET": r"(?:[a-z]?[A-Z][\w+-]*)(?: (?:[A-Z0-9][\w+-]*|phone|bike|car))*",
    "MOVABLE": r"(?:(?:all |most of )?(?:my |our |the )?(?:notes|files|data|photos|docs|documents|mails?|e-?mails?|"
    r"tasks|code|"
    r"repos|projects|passwords|contacts|calendars?|playlists|music|savings|account|stuff|work|to-?dos)|everything|"
    r"it all)",
    "WEEKDAY": _WEEKDAY,
    "WEEKDAYS": rf"{_WEEKDAY}(?:(?:, and|,| and) {_WEEKDAY}){{0,4}}",
    "WITH_WHOM": r"(?: with (?:the |my )?[\w.]+)?",
    "WHEN": rf"(?:{_WEEKDAY}(?:,? (?:at )?{_CLOCK})?|{_CLOCK}|{DAY}|the {_NUMBER_TH}(?: of {_MONTH_SAID})?|"
    rf"{_MONTH_NAME})",
    "TO_WHEN": r"(?:to|on|for|at|in)",
}
_OTHER = (
    rf"(?P<who>[Mm]y {_list('ONLY_ONE')}(?:,? {FULL_NAME},?)?"
    rf"|(?:[Mm]y [a-z-]+(?: (?!to|in|at|of|on|for|from|by|with)[a-z]+)?,? )?{FULL_NAME})"
)
_SUBJECTS = {
    Person.FIRST: {
        "SUBJECT": r"[Ii]\b|[Ii]m\b|[Ii]ve\b|[Ww]e\b",
        "S": rf"(?:[Ii]|[Ww]e){_ADVERBS}(?: do)?",
        "BE": rf"(?:[Ii](?: am|['’]?m)|[Ww]e(?: are|['’]re)){_ADVERBS}",
        "WAS": rf"(?:[Ii] was|[Ww]e were){_ADVERBS}",
        "HAVE": rf"(?:[Ii]|[Ww]e){_ADVERBS}(?: have(?: got)?|['’]?ve got){_ADVERBS}",
        "MY": "(?:[Mm]y|[Oo]ur)",
        "NOT": r"(?:don['’]?t|do not)",
        "BE_NOT": r"(?:[Ii]['’]?m not|[Ii] am not|[Ii] not|[Ww]e['’]re not|[Ww]e aren['’]t|[Ww]e are not)",
    },
    Person.SECOND: {
        "SUBJECT": r"[Yy]ou\b",
        "S": rf"[Yy]ou{_ADVERBS}",
        "BE": rf"[Yy]ou(?: are|['’]re){_ADVERBS}",
        "WAS": rf"[Yy]ou were{_ADVERBS}",
        "HAVE": rf"[Yy]ou{_ADVERBS}(?: have(?: got)?|['’]ve got){_ADVERBS}",
        "MY": "[Yy]our",
        "NOT": r"(?:don['’]t|do not)",
        "BE_NOT": r"(?:[Yy]ou['’]re not|[Yy]ou aren['’]t|[Yy]ou are not)",
    },
    Person.THIRD: {
        "SUBJECT": _OTHER,
        "S": rf"{_OTHER}{_ADVERBS}",
        "BE": rf"{_OTHER}(?: is|['’]s){_ADVERBS}",
        "WAS": rf"{_OTHER} was{_ADVERBS}",
        "HAVE": rf"{_OTHER}{_ADVERBS}(?: has(?: got)?|['’]s got){_ADVERBS}",
        "MY": rf"(?P<who>[Mm]y {_list('ONLY_ONE')}|{_NAME})['’]s",
        "NOT": r"(?:doesn['’]t|does not)",
        "BE_NOT": rf"{_OTHER} (?:isn['’]t|is not)",
    },
}
_SLOT = re.compile(r"\{(?:(?P<group>[a-z]+)=)?(?P<name>[A-Z_]+)\}")
_VERB = re.compile(r"(?<!\?P)<([a-z]+)>")

_CLAUSE = re.compile(
    r"^|[,;:!…–—)-]\s+|\b(?:and|but|so|because|since|as|'cause|cuz|cause|why|how much|reasons?|you know|now that|"
    r"given that|considering(?: that)?|knowing)\s+",
    re.IGNORECASE,
)
_WISHED = r"I(?: want|['’]d like| would like) you to"
_REMINDER = (
    r"(?:(?:please|pls|just|also|always)\s+)*"
    rf"(?:(?:(?:can you|you (?:should|need to|must|have to)|{_WISHED})\s+(?:(?:please|just|also|always)\s+)*)?"
    r"(?:remember|note|keep in mind|bear in mind|be aware|don['’]?t forget|(?:make|take) (?:a )?note|save)"
    rf"|(?:you (?:should|must)|{_WISHED}) know)"
    r"(?: for (?:later|next time|the future))?(?:,? that)?"
)
_OPENING = re.compile(
    r"(?:well|yeah|yes|yep|yup|oh|wow|hey|hi|hello|thanks|thank you|actually|honestly|btw|by the way|also|plus|anyway|"
    r"now|currently|nowadays|lately|recently|fyi|sure|absolutely|definitely|totally|no|and|but|so|besides|personally|"
    r"fun fact|as you know|these days|(?:it )?turns out(?: that)?|(?:sad|bad|good|big|great|some) news|news|"
    r"guess what|yo|wait|um+|uh+|omg|tbh|no worries|right|nice|cool|great|"
    r"just|ok|okay|update|quick update|correction|sorry|ugh|so+|yay|finally|unfortunately|sadly|luckily|"
    rf"{_REMINDER}|{WITNESS}|(?:from|starting|as of) (?:{_MONTH_NAME}|now|today|(?:this|last|next) (?:week|month|"
    rf"year))(?: on)?|{SAID_DATE})"
    r"(?:,|:|!|\.+)?\s+",
    re.IGNORECASE,
)


def clause_starts(text: str) -> list[int]:
    """Return where the clauses of a sentence start, with and without words such as "well" and "last year"."""
    starts = []
    for found in _CLAUSE.finditer(text):
        start = found.end()
        starts.append(start)
        while (opening := _OPENING.match(text, start)) is not None:
            start = opening.end()
            starts.append(start)
    return list(dict.fromkeys(starts))


def has_further_letters(text: str) -> bool:
    """Return True if a text has letters that only patterns for all alphabets know."""
    return _FURTHER_LETTER.search(text) is not None


@cache
def letters(category: Literal["Lu", "Ll"]) -> str:
    """Return the capitals, or the small letters, of all alphabets, as a set of a pattern."""
    further = (chr(code) for code in range(0x100, 0x1F00) if _FURTHER_LETTER.match(chr(code)))
    own = UPPER if category == "Lu" else LOWER
    return own + "".join(letter for letter in further if unicodedata.category(letter) == category)


def opening(person: Person, *, possessive: bool, all_alphabets: bool) -> re.Pattern[str]:
    """Return the pattern of a subject, or of a possessive: a clause that does not open with it needs no rule tried."""
    return _compiled(_SUBJECTS[person]["MY" if possessive else "SUBJECT"], all_alphabets=all_alphabets)


def pattern(
    template: str, person: Person, further: Mapping[str, str] | None = None, *, all_alphabets: bool = False
) -> re.Pattern[str]:
    """Return the pattern of a template for one person; ``further`` are phrases of another language."""
    phrases = _PHRASES | _SUBJECTS[person] | dict(further or {})

    def filled(slot: re.Match[str]) -> str:
        phrase = phrases[slot["name"]]
        return f"(?P<{slot['group']}>{phrase})" if slot["group"] else phrase

    source = _VERB.sub(lambda verb: _inflected(verb.group(1), person), _SLOT.sub(filled, template))
    return _compiled(source, all_alphabets=all_alphabets)


def _compiled(source: str, *, all_alphabets: bool) -> re.Pattern[str]:
    if all_alphabets:
        source = source.replace(UPPER, letters("Lu")).replace(LOWER, letters("Ll"))
    return re.compile(source)


def _inflected(verb: str, person: Person) -> str:
    if person is not Person.THIRD:
        return verb
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("ch", "sh", "s", "x", "o")) else f"{verb}s"
