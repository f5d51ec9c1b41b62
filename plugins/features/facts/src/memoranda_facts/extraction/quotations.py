"""What somebody else said in a text: quotations, mails, letters, transcripts, and texts that are only to be worked on.

Rules would rather miss a fact than invent one, so a mark that is never closed counts to the end of its line, and words
that are introduced as another's to the end of their paragraph at least.
"""

from __future__ import annotations

import re
from collections.abc import Callable

BLANK = "\x00"
"""Stands for each character of what somebody else said, so that nothing is found in it."""

_CLOSED_BY = {
    "“": "”",
    "«": "»",
    "»": "«",
    "‹": "›",
    "›": "‹",
    "「": "」",
    "『": "』",
    "〝": "〞〟",
    "＂": "＂",
    "”": "”",
    "„": '“”"',
}
_IN_MARKS = "|".join(
    rf"{opened}[^{opened}{closed}]*[{closed}]|{opened}[^{closed}\n]*(?:[{closed}]|$)"
    for opened, closed in _CLOSED_BY.items()
)
_MARKED = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|``[^`]*?''|`[^`\n]*`|https?://\S+"
    r"|<(?P<tag>blockquote|q|cite|pre|code)\b[^<>]*>.*?(?:</(?P=tag)>|\Z)"
    r"|&(?:quot|ldquo|laquo|bdquo);.*?(?:&(?:quot|rdquo|raquo|ldquo);|$)"
    r"|(?<!\w)\"[^\"]*\"|\"[^\"\n]*(?:\"|$)|‚[^‘’\n]*(?:[‘’]|$)"
    rf"|{_IN_MARKS}"
    r"|(?<!\w)'[^'\n]{2,}?'(?!\w)|(?<!\w)‘[^’\n]{2,}?’(?!\w)"
    r"|^[ \t]*(?:>|&gt;).*$",
    re.DOTALL | re.MULTILINE,
)
"""Code, links, and what stands in quotation marks, over several lines, too, or behind the mark of a reply."""

_NAMED = r"[^\W\d_][\w'’.-]{0,40}"
_FORWARDED = re.compile(
    r"^[ \t]*+(?=\S)(?:-{3,}[ \t]*(?:original|forwarded|ursprüngliche|mensaje|message)\b.*"
    r"|-{4,}[ \t]*[^\s-][^\n]*?-{4,}"
    r"|(?:begin )?forwarded message:?.*"
    r"|(?:FWD?|WG|RV|TR)[ \t]?:.*"
    r"|[*_]*(?:From|To|Subject|Sent|Date|Von|An|Betreff|De|Para|Asunto|À|Objet)[*_]*[ \t]?:[*_]*[ \t].*"
    r"|.{0,80}\b(?:wrote|schrieb|escribió|a écrit|ha scritto|schreef|skrev|escreveu)[^\n:]{0,80}:"
    rf"|(?!I\b)(?-i:[^\W\d_a-z]){_NAMED} (?:wrote|writes|schrieb|schreibt|escribió|escribe|a écrit|écrit))[ \t]*$.*",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
"""The head of a mail, with everything after it."""

_TEXTS = (
    r"e-?mail|mail|message|letter|text|tweet|post|sms|(?:song )?lyrics|quote|poem|story|transcript|nachricht|brief|"
    r"gedicht|zitat|geschichte|correo|mensaje|carta|cita|cuento|poema|courriel|lettre|citation|histoire|poème"
)
_HEADING = re.compile(
    r"(?:^|(?<=[.!?])(?=\s))[ \t#*_]*+(?=\w)"
    r"(?:(?:here(?:['’]s| is| are)|this is|below is|hier ist|das ist|aquí está|este es|voici|c['’]est) )?"
    r"(?:(?:the|an?|this|der|die|das|ein|eine|el|la|un|una|le|une) |l['’])?"
    rf"(?:(?:(?:my|his|her|our) )?{_NAMED}['’]s (?:last |new )?)?(?:{_TEXTS})"
    r"(?: (?:from|by|of|von|vom|de|del|du|des) [^\n.!?:\x00]{1,40}| d['’][^\n.!?:\x00]{1,40})?"
    r"[ \t*_]*(?:[.!?…](?=\s|$)|$).*",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
"""A line or a sentence that is the title of another's text, with everything after it."""

_GREETING = re.compile(
    r"^[ \t]*(?:Dear|Hi|Hello|Hey|Liebe|Lieber|Hallo|Sehr geehrte[rn]?|Querid[oa]|Hola|Cher|Chère|Bonjour)"
    r"[^\n.!?]{0,40},[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSING = re.compile(
    r"^[ \t]*+(?:(?:(?:kind|best|warm)(?: regards| wishes)?|regards|sincerely|yours(?: \w+)?|cheers|love|"
    r"(?:viele|liebe|beste) grüße|mit freundlichen grüßen|saludos|un abrazo|cordialement|bises)"
    rf"(?:,?[ \t]*{_NAMED}){{0,3}}|(?:dein|deine|euer|eure|tu|ton|ta)[ \t]+{_NAMED}|--[ \t]*{_NAMED}.*?),?[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
"""The first line of a letter and its closing, each in a line of its own."""

_BEFORE = r"(?:^|(?<=[.!?])(?=\s))(?P<words>(?:[^.!?\n\x00:]|[.!?:](?=\S)){0,200}?)"
_COLON = re.compile(rf"{_BEFORE}[ \t]?:(?=\s)(?P<line_ends>[ \t]*$)?", re.MULTILINE)
_DASH = re.compile(rf"{_BEFORE}(?<=[ \t])[–—-](?=\s)(?P<line_ends>[ \t]*$)?", re.MULTILINE)
"""What stands before a colon or a dash, from the beginning of its sentence; a time of day is no end."""
_SAID = re.compile(
    r"^(?P<words>[^.!?\n\x00:–—]{1,82}?)(?<=[ \t])[–—-](?=[ \t]+(?:I|ich|yo|soy|je|j['’])\b)(?P<line_ends>[ \t]*$)?",
    re.MULTILINE | re.IGNORECASE,
)
"""What stands before a dash at the beginning of a line, if somebody speaks in the first person behind it."""

_QUOTES = re.compile(
    r"\b(?:e-?mail|mail|message|letter|text|texted|sms|whatsapp|post|tweet|comment|quote|review|story|poem|song|lyrics|"
    r"dialogue|script|article|page|paragraph|sentence|line|example|from|by|repeat|say|says|said|saying|tell|told|wrote|"
    r"writes?|writing|reads?|goes|translate|summari[sz]e|rewrite|rephrase|fix|proofread|improve|check|reply|replied|"
    r"answer\w*|respond\w*|ask(?:s|ed)?|caption|bio|slogan|headline|prompt|role|character|pretend|imagine|"
    r"schreib\w*|schrieb\w*|sagt\w*|sagen|übersetz\w*|nachricht|brief|dice|dijo|escrib\w*|repite|traduce|mensaje|correo|"
    r"carta|dit|écri\w*|répète|tradui\w*|lettre)\b",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\b(?:I|I['’]\w+|we|me|my|myself|our|fun fact|fyi|btw|by the way|update|news|correction|p\.?s|edit|reminder|"
    r"intro\w*|heads[- ]up|context|background|info|confession|thing|know|record|clear|important|remember|note|sorry|"
    r"note to self|remember this|don['’]?t forget|keep in mind|for your (?:records|notes)|merk\w* dir(?: bitte)?|"
    r"vergiss(?: bitte)? nicht|recuerda|no olvides|toma nota|retiens|n['’]oublie pas|"
    r"new \w+|(?:my|our) (?:\w+ ){1,2}(?:has |have |just )*changed|new \w+ (?:news|update)|(?:new )?dos(?:e|"
    r"age)(?: of [\w-]+)?|anyway|also|actually|honestly|truth|well|so|ok|okay|"
    r"neue\w* \w+|nuev[oa]s? \w+|nouve\w+ \w+|ich|wir|mir|mein\w*|übrigens|neuigkeit\w*|wichtig|achtung|info|kurz|"
    r"korrektur|yo|mi|noticias?|por cierto|importante|ojo|je|moi|mon|ma|mes|au fait|nouvelles?|attention)\s*$"
    r"|\b(?:about me|über mich|sobre mí|sur moi|you should know|I do|I am)\b",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(
    r"\b(?:I|I['’]\w+|my|me|we|our|ich|mein\w*|wir|yo|mi|mis|je|j['’]\w+|mon|ma|mes)\b", re.IGNORECASE
)
_TOPICS = (
    r"(?:food |nut )?allerg\w+|intoleran\w+|unverträglichkeit\w*|diets?|dietary|food|meals?|health|medical|"
    r"medication\w*|medicines?|jobs?|work|occupation|profession|career|employer|school|studies|education|home|house|"
    r"address|location|city|town|residence|family|kids|children|pets?|partner|relationship|marital|hobb\w+|"
    r"interests?|languages?|(?:nick|first |last |full )?name|age|birthday|birth\w*|sports?|fitness|travel|transport|"
    r"car|ernährung|essen|gesundheit|medikamente?|beruf|arbeit|schule|ausbildung|studium|wohnort|wohnung|adresse|"
    r"stadt|familie|kinder|haustiere?|hobbys?|sprachen?|alter|geburtstag|"
    r"alergias?|dieta|comida|salud|medicamentos?|trabajo|empleo|profesión|estudios|casa|dirección|ciudad|familia|hijos|"
    r"mascotas?|aficiones|idiomas?|nombre|edad|cumpleaños|"
    r"régime|alimentation|nourriture|santé|médicaments?|travail|emploi|métier|études|maison|ville|famille|enfants|"
    r"animaux|loisirs|langues?|nom|prénom|âge|anniversaire"
)
_TOPIC = re.compile(
    rf"[\s\d•*#_.)-]*(?:(?:my|current|about|on|re|mein\w*|zu[mr]?|mis?|sobre|mon|ma|mes) ){{0,2}}(?:{_TOPICS})"
    rf"(?:(?: and | & |/|, | und | y | et )(?:{_TOPICS}))*"
    r"(?: (?:status|situation|info|note|alert|warning|update|news|details?|restrictions?|requirements?|preferences?|"
    r"needs?|history|issues?))?[\s*_]*",
    re.IGNORECASE,
)
"""What people write before a statement of their own, as if they filled in a form."""

_OPENERS = (
    r"yes|yeah|yep|no|nope|nah|oh|ah|hm+|hi|hello|hey|thanks|thank you|great|good|nice|cool|sure|right|true|correct|"
    r"indeed|exactly|fine|please|look|listen|today|tonight|now|then|still|yesterday|tomorrow|\w+day|\w+ly|"
    r"ja|nein|nee|hallo|danke|gut|super|klar|genau|stimmt|heute|jetzt|gestern|morgen|leider|also|doch|"
    r"sí|hola|gracias|bueno|claro|vale|hoy|ahora|ayer|además|oui|non|salut|bonjour|merci|bon|alors|maintenant|hier"
)
_PART_OF_A_NAME = r"(?=[^\W\d_a-z])[^\W\d_][\w'’.]{1,40}"
_SPEAKER = re.compile(rf"(?!(?i:{_OPENERS})\b)[\s*_]*{_PART_OF_A_NAME}(?: {_PART_OF_A_NAME})?[\s*_]*")
"""A name before a dash: whoever copies what was said in a chat writes so who said it."""

_PLAYED = re.compile(
    r"\b(?:in (?:the|this|my|a|our) (?:story|novel|game|movie|film|dream|scene|script|play|scenario)|"
    r"role-?play(?:ing)?|act as|pretend(?:ing)?|protagonist\w*|narrator|"
    r"once upon a time|es war einmal|érase una vez|il était une fois|chapter (?:\d+|one)|"
    r"(?:first|opening|last) (?:line|sentence|paragraph) of|"
    r"(?<!I'm )(?<!I am )(?<!I )(?:write|continue|finish|begin|start) (?:me )?(?:a|an|the|my|this|our) (?:[\w-]+ ){0,2}"
    r"(?:story|novel|poem|scene|play|script|letter|song|monologue|dialogue|tale|haiku|speech|essay)|"
    r"translate|rephrase|rewrite|proofread|paraphrase|sarcas\w+|repeat after me|tl;?dr|"
    r"(?:following|this|next) (?:sentence|text|paragraph|passage|letter|email)|"
    r"rollenspiel|sprich mir nach|(?:hauptfigur|erzähler(?:in)?) (?:sagt|der|meiner|einer)|"
    r"fais comme si|haz como si)\b",
    re.IGNORECASE,
)
"""What is only played, or said for somebody to work on it."""

_ASKED = (
    r"(?:^|(?<=[.!?,:;\n])|\b(?:please|you|bitte|du|mir|puedes|podrías|favor|peux-tu|pouvez-vous|plaît))[ \t]*(?:me )?"
)
_TO_WORK_ON = re.compile(
    rf"{_ASKED}(?:"
    r"repeat (?:this|these|the|my|what)|summari[sz]e (?:this|that|the|it|my|what)"
    r"|is (?:this|it|the following)(?: \w+)? (?:grammatical(?:ly)?|correct|spelled)"
    r"|(?:fix|correct|check|improve|polish|edit|shorten) (?:my|the|this|these|that) (?:[\w-]+ ){0,2}"
    r"(?:grammar|spelling|punctuation|typos?|wording|text|sentence|paragraph|e-?mail|letter|essay|message|draft|"
    r"english|german|french|spanish)"
    r"|übersetz\w*|wiederhol\w*|korrigier\w*|fass\w* [^.!?\n]{0,60}\bzusammen|formulier\w* [^.!?\n]{0,40}\bum"
    r"|(?:schreib|verfass|erfind|dicht)e? (?:mir )?(?:das|die|den|ein|eine|einen|diese\w*|mein\w*) (?:[\w-]+ ){0,2}"
    r"(?:geschichte|märchen|gedicht|lied|brief|roman|szene|dialog|rede|aufsatz|text|e-?mail|mail|nachricht)"
    r"|traduce|traduzca|repite|repita|corrige|resume (?:est[eao]|el|la|lo)"
    r"|(?:escribe|inventa|continúa)(?:me)? (?:un|una|el|la|mi|est[ea]) (?:[\w-]+ ){0,2}"
    r"(?:cuento|historia|poema|canción|carta|novela|escena|diálogo|discurso|correo|mensaje|texto)"
    r"|tradui\w+|répèt\w+|répét\w+|corrige\w*|résume\w*|reformule\w*"
    r"|(?:écri\w*|invente|continue)(?:-moi)? (?:un|une|le|la|mon|ma|ce|cette) (?:[\w-]+ ){0,2}"
    r"(?:histoire|conte|poème|chanson|lettre|roman|scène|dialogue|discours|mail|courriel|message|texte)"
    r")\b",
    re.IGNORECASE | re.MULTILINE,
)
"""A request to do something with a text, in the languages of the rules."""


def is_text_to_work_on(text: str) -> bool:
    """Return True if a text asks for something to be done with words, or plays a role: it states nothing."""
    return bool(_PLAYED.search(text) or _TO_WORK_ON.search(text))


def own_text(text: str) -> str:
    """Return a text with a blank for each character of what somebody else said; places stay the same."""
    for foreign in (_MARKED, _FORWARDED, _HEADING):
        text = foreign.sub(_blanks, text)
    return _without_introduced(_without_letter(text))


def _without_letter(text: str) -> str:
    """Return a text without the letter in it, and without what follows that."""
    greeting = _GREETING.search(text)
    if greeting is None or _CLOSING.search(text, greeting.end()) is None:
        return text
    return text[: greeting.start()] + _blanked(text[greeting.start() :])


def _without_introduced(text: str) -> str:
    """Return a text without what a colon introduces as another's, and without texts that a dash introduces."""
    text = _without_behind(_COLON, text, lambda words: not _is_own(words) or _names_a_text(words))
    text = _without_behind(_DASH, text, lambda words: _names_a_text(words) and not _FIRST_PERSON.search(words))
    return _without_behind(_SAID, text, lambda words: _SPEAKER.fullmatch(words) is not None and not _is_own(words))


def _without_behind(lead_in: re.Pattern[str], text: str, introduces: Callable[[str], bool]) -> str:
    """Return a text without what is introduced: a mail or its like to the end, anything else with its paragraph."""
    start = 0
    while (lead := lead_in.search(text, start)) is not None:
        start, words = lead.end(), lead["words"]
        if not words.strip() or not introduces(words):
            continue
        end = -1 if _names_a_text(words) or lead["line_ends"] is not None else text.find("\n\n", start)
        stop = len(text) if end < 0 else end
        text = text[:start] + _blanked(text[start:stop]) + text[stop:]
        start = stop
    return text


def _is_own(words: str) -> bool:
    return _OWN.search(words) is not None or _TOPIC.fullmatch(words) is not None


def _names_a_text(words: str) -> bool:
    return _QUOTES.search(words) is not None


def _blanks(found: re.Match[str]) -> str:
    """Return blanks in place of what was found; the ends of lines stay."""
    return _blanked(found.group())


def _blanked(text: str) -> str:
    return re.sub(r"[^\n]", BLANK, text)
