"""The rules of languages other than English, and templates that are compiled when a text has their words.

The rules of other languages are fewer than the English ones, and about the speaker alone. Compiling all templates takes
seconds, and most texts need only a few: "I moved to Porto" has no word for a diet. What a template needs is read from
it: its literal words, the alternatives of its groups, and the lists of words that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from memoranda_facts.extraction.grammar import LOWER, UPPER, Person, has_further_letters, pattern
from memoranda_facts.extraction.rule_table import Rule, rules, words
from memoranda_facts.extraction.sentences import MONTHS_ABROAD, Sentence

Needed = tuple[tuple[str, ...], ...]
"""Of each of these groups, one text must be there."""

_SHORTEST = 3
"""A literal of fewer letters is in nearly every text."""

_FEW = 3
"""So many texts are looked for in less time than a pattern takes to fail."""

_LISTS_OF = {"OCCUPATION": "TRADE", "PET": "PET_KIND"}
"""Phrases that end with a word of a list."""

_TOKEN = re.compile(
    r"\{(?:[a-z]+=)?(?P<slot>[A-Z_]+)\}|<(?P<verb>[a-z]+)>|(?P<group>\()|(?P<set>\[(?:\\.|[^\]\\])*\])"
    r"|(?P<escape>\\.)|(?P<literal>[A-Za-zà-ÿœ '’-])|(?P<other>.)"
)
_QUANTIFIER = re.compile(r"[?*+]|\{\d*,?\d*\}")


class LazyPattern:
    """The pattern of a template for one person; ``further`` are phrases of another language."""

    def __init__(self, template: str, person: Person, further: Mapping[str, str] | None = None) -> None:
        self._template, self._person, self._further = template, person, further
        self._needed = needed(template, frozenset(further or ()))
        self._compiled: dict[bool, re.Pattern[str]] = {}

    def ready(self, text: str, *, all_alphabets: bool) -> re.Pattern[str] | None:
        """Return the pattern, compiled if need be; None if it cannot match a text, with or without further letters."""
        for group in self._needed:
            for each in group:
                if each in text:
                    break
            else:
                return None
        if all_alphabets not in self._compiled:
            self._compiled[all_alphabets] = pattern(
                self._template, self._person, self._further, all_alphabets=all_alphabets
            )
            # From now on, trying it takes less time than looking for each word of a list.
            self._needed = tuple(group for group in self._needed if len(group) <= _FEW)
        return self._compiled[all_alphabets]


@cache
def needed(template: str, own: frozenset[str] = frozenset()) -> Needed:
    """Return what every text has that a template matches; ``own`` are phrases that mean something else here.

    Groups of few and long texts come first: most texts lack them.
    """
    groups = dict.fromkeys(_needed(template, own))
    return tuple(sorted(groups, key=lambda group: (len(group), -min(map(len, group)))))


def _needed(template: str, own: frozenset[str]) -> Iterator[tuple[str, ...]]:
    run, place = "", 0
    while place < len(template):
        token = _TOKEN.match(template, place)
        assert token is not None
        place = token.end()
        inner = ""
        if token["group"]:
            inner, place = _group(template, place)
        quantifier = _QUANTIFIER.match(template, place)
        if quantifier is not None:
            place = quantifier.end()
        if token["literal"] and quantifier is None:
            run += token["literal"]
            continue
        if token["verb"] and quantifier is None:
            run += token["verb"].removesuffix("y")  # "study" becomes "studies".
        yield from _literal(run)
        run = ""
        is_certain = quantifier is None or quantifier.group() == "+"
        if token["slot"] and is_certain:
            yield from _listed(token["slot"], own)
        if inner and is_certain:
            yield from _alternatives(inner, own)
    yield from _literal(run)


def _literal(run: str) -> Iterator[tuple[str, ...]]:
    text = run.strip()
    if len(text) >= _SHORTEST:
        yield (text,)


def _listed(slot: str, own: frozenset[str]) -> Iterator[tuple[str, ...]]:
    name = _LISTS_OF.get(slot, slot)
    if slot not in own and name in words():
        yield words()[name]


def _alternatives(inner: str, own: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Yield what a group of alternatives needs: one text of each of them, unless one needs nothing."""
    found: list[str] = []
    for each in _split(inner):
        needs: list[tuple[str, ...]] = list(_needed(each, own))
        if not needs:
            return
        best = min(needs, key=lambda group: (len(group), -len(group[0])))
        found += best
    yield tuple(found)


def _group(template: str, start: int) -> tuple[str, int]:
    """Return what a group holds that must be there, empty for a look-around, and where it ends."""
    depth, place = 1, start
    while depth:
        token = _TOKEN.match(template, place)
        assert token is not None
        depth += 1 if token["group"] else -1 if token.group() == ")" else 0
        place = token.end()
    inner = template[start : place - 1]
    if inner.startswith(("?=", "?!", "?<=", "?<!", "?i:")):
        return "", place
    return re.sub(r"^\?(?::|P<\w+>)", "", inner), place


def _split(inner: str) -> Sequence[str]:
    """Return the alternatives of a group."""
    parts, depth, last, place = [], 0, 0, 0
    while place < len(inner):
        token = _TOKEN.match(inner, place)
        assert token is not None
        depth += 1 if token["group"] else -1 if token.group() == ")" else 0
        if token.group() == "|" and depth == 0:
            parts.append(inner[last:place])
            last = token.end()
        place = token.end()
    return [*parts, inner[last:]]


@dataclass(frozen=True, slots=True)
class Language:
    """How a language is recognised, where its clauses begin, and which words make a sentence unreal or another's.

    ``phrases`` are what its templates have beside those of the grammar; ``END`` is where a phrase may end.
    """

    name: str
    marks: re.Pattern[str]
    clause: re.Pattern[str]
    unreal: re.Pattern[str]
    phrases: Mapping[str, str]
    witness: re.Pattern[str]
    """Who knows better than the speaker: "the doctor says that"."""
    verb_first: re.Pattern[str] | None = None
    """The verb and the speaker in the order that they have behind an adverb, if that is another."""


def _clauses(joining: str, opening: str) -> re.Pattern[str]:
    begins = rf"(?:^|[,;:!…–—-]\s+|\b(?:{joining})\s+)"
    return re.compile(rf"{begins}(?:(?:{opening})(?:,|:|!)?\s+)*", re.IGNORECASE | re.MULTILINE)


def _witness(who_says: str) -> re.Pattern[str]:
    return re.compile(rf"(?:(?:\w+,? )?(?:{who_says}) )", re.IGNORECASE)


def _words(some: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{some})\b", re.IGNORECASE)


def _end(following: str) -> str:
    """Return where a phrase ends: at a stop, or before one of these words."""
    return rf"(?=\s*(?:[,;:!?)…–—\x00]|\.(?!\w)|- |$)|\s+(?:{following})\b)"


_DRUG_ABROAD = (
    rf"(?:{'|'.join(words()['MEDICATION'])}"
    rf"|[{UPPER}{LOWER}][{LOWER}]*(?:pril|olol|statin|formin|sartan|sartán|prazol|triptan|triptán|oxacin|cil+in|mycin|micin|"
    r"profen|profèn|cetamol|cétamol|gliptin|dipin|semid|sémid|thyroxin|tiroxin|aspirin|azepam|azépam|pram|pentin|gabalin|"
    r"gabalín|trigin|tylin|tralin|xetin|xétin|solon|glutid|oxaban|zapin|prednison|semida|formina)[aeo]?)(?![\w-])"
)
"""A medicine by its ending, in German, Spanish and French."""

_COMMON_NOUN = rf"[{LOWER}]+"
_OCCUPATION = rf"[{LOWER}]+(?: de [{LOWER}]+)?"

_GERMAN_TITLE = (
    r"(?!(?:Mutter|Vater|Schwester|Bruder|Tochter|Kunde|Kundin|Single|Sportler|Raucher|Vegetarier|Veganer|Student)\w*\b)"
    rf"[{UPPER}][{LOWER}]*(?:er|erin|ist|istin|ent|entin|eur|eurin|ant|antin|or|orin|mann|frau|kraft|chef|chefin|leitung|"
    r"wirt|wirtin|selle|sellin)"
)
"""A noun that ends as trades do; towns have such people, too, so that it counts only beside a company or a job."""


def _title(trades: str) -> str:
    return rf"(?:{'|'.join(words()[trades])})(?: de [{LOWER}]+)?"


_MONTHS_DE = f"(?:{MONTHS_ABROAD['de']})"
_TIMES_DE = (
    rf"(?:{_MONTHS_DE}|(?:tag|woche|monat|jahr)\w*|\w+tag|wochenende|frühling|frühjahr|sommer|herbst|winter|anfang|ende|"
    r"gestern|heute|kurzem|neuestem|\d{4})\b"
)
_MONTHS_ES = f"(?:{MONTHS_ABROAD['es']}|primavera|verano|otoño|invierno)"
_MONTHS_FR = f"(?:{MONTHS_ABROAD['fr']}|printemps|été|automne|hiver)"

GERMAN = Language(
    "de",
    marks=_words(
        r"ich|hab|neue|vertrage|lieblings\w+|wir|mir|mein|meine|unser|unsere|bin|ist|sind|haben|habe|wurde|"
        r"nehme|rauchfrei seit|allergien?"
    ),
    witness=_witness(
        r"(?:(?:mein|meine|der|die) )?(?:\w*arzt|\w*ärztin|Doktor|\w+(?:ologe|ologin)|test|allergietest|befund) "
        r"(?:sagt|meint|hat (?:mir )?gesagt|sagte|zeigt|hat gezeigt)(?: mir)?,?(?: dass)?"
    ),
    clause=_clauses(
        "und|aber|denn|weil",
        r"(?:bitte )?(?:merke? dir(?: bitte)?|vergiss(?: bitte)? nicht|denk(?: bitte)? (?:daran|dran)|du musst wissen)"
        r",? dass|"
        r"ja|also|übrigens|leider|naja|ach|hallo|hi|so|jetzt|nun|heute|gestern|inzwischen|mittlerweile|aktuell|derzeit|"
        rf"zurzeit|momentan|endlich|neuerdings|(?:seit|im|am) (?:\w+ )?{_TIMES_DE}(?: {_MONTHS_DE})?|"
        rf"(?:letzte|diese)[nsr]? {_TIMES_DE}|vor (?:\w+ )?(?:tagen|wochen|monaten|kurzem|einem (?:monat|jahr))|"
        r"seit \w+",
    ),
    unreal=_words(
        r"würde|würden|möchte|möchten|will|wollen|wenn|falls|ob|vielleicht|hätte|könnte|könnten|sollte|soll|sollen|fast|"
        r"beinahe|nie|niemals|glaube|denke|hoffe|sagt|sagte|schrieb|schreibt|laut|meint|meinte|"
        r"erzählt\w*|behauptet|angeblich|geträumt|stell dir vor|wünschte|wäre"
    ),
    phrases={
        "END": _end(
            r"und|gegen|aber|weil|seit|sondern|\w+tag|mit|für|am|im|in|bei|jetzt|nun|denn|wo|der|die|das|wegen|letzte\w*|gestern|heute|vor"
        ),
        "WHEN": r"(?:gestern|heute|seit \w+|letzte[ns]? \w+|diese[ns]? \w+|vor \w+ \w+|im \w+|am \w+|endlich|gerade|"
        r"inzwischen|"
        r"zurück|wieder zurück|zusammen|allein|schon|leider|jetzt|nun|mittlerweile|neulich|kürzlich|vorgestern|"
        r"endgültig)",
        "NOUN": rf"[{UPPER}][{LOWER}]+",
        "TITLE": _GERMAN_TITLE,
        "WHO_DOSES": r"(?:[Mm]eine? |[Dd]er |[Dd]ie )(?:Arzt|Ärztin|Hausarzt|Hausärztin|Doktor|Psychiaterin|Psychiater|"
        r"Kardiologin|Kardiologe)",
        "PROPER": rf"[{UPPER}][\w'’-]+(?: [{UPPER}][\w'’-]+){{0,2}}",
        "MOVED": "(?:umgezogen|gezogen|übersiedelt|umgesiedelt|gezügelt)",
        "DRUG_ABROAD": _DRUG_ABROAD,
        "DAY_DE": rf"\d{{1,2}}\. (?i:{_MONTHS_DE})",
        "OFTEN": r"(?:täglich|jeden (?:Tag|Morgen|Abend)|morgens|abends|nachts|regelmäßig|(?:ein|zwei|drei)mal "
        r"(?:täglich|am Tag))",
        "COMPANY": rf"(?:der |dem |einer |einem )?[{UPPER}][\w&.-]*\w(?: [{UPPER}][\w&.-]*\w){{0,2}}",
    },
    verb_first=re.compile(rf"([{LOWER}]+) (ich|wir)\b"),
)
SPANISH = Language(
    "es",
    marks=_words(
        "yo|mi|mis|me|ya|tenemos|tenía|compré|"
        "vivo|vivimos|trabajo|soy|estoy|tengo|hemos|dejé|murió|nos|toco|juego|aprendo|vendí|ahora|rompimos|"
        "renuncié|perdí|fumo|tomo|mudamos|trabajamos|he vuelto|vuelvo a|volví a|"
        r"no como|bebo|hablo|estudio|llamo|mis hij[oa]s|cumplí|cumplo|acabo de|acabamos de|uso|cumplo|juego|aprendo|"
        r"regres\w+|estamos|planeamos|cancelamos|murió|falleció|perdimos|tuvimos que|"
        "tuve que|resido|radico|conduzco|manejo|salgo con|llevo|alergias?|nuestr[oa]|conseguí|empecé|cambié|dejamos|"
        r"h(?:e|emos) \w+(?:ado|ido|to|cho)"
    ),
    clause=_clauses(
        "y|pero|porque|así que",
        r"(?:por favor,? )?(?:recuerda|acuérdate de|no olvides|ten en cuenta|toma nota de|apunta|anota|que sepas) que|"
        r"bueno|pues|hola|oye|ahora|al final|ah|sí|por cierto|lamentablemente|ayer|anoche|hoy|ahora mismo|"
        r"actualmente|recientemente|"
        r"últimamente|por fin|finalmente|hace poco|hace (?:\w+ )?(?:días?|semanas?|mes(?:es)?|años?)(?: que)?|"
        rf"(?:desde|en) (?:\w+ de )?{_MONTHS_ES}|desde (?:ayer|hoy|hace (?:poco|\w+ \w+))|"
        r"(?:el|la) (?:\w+ )?(?:día|semana|mes|año|lunes|martes|miércoles|jueves|viernes|sábado|domingo) (?:pasad[oa])|"
        r"est[ae] (?:semana|mes|año|mañana|fin de semana)",
    ),
    witness=_witness(
        r"(?:(?:mi|el|la) )?(?:médic[oa]|doctora?|alergólog[oa]|pruebas?|análisis|test) "
        r"(?:(?:me )?(?:dice|dijo|ha dicho|confirmó)|muestran?|salió negativ[oa] y) que"
    ),
    unreal=_words(
        "quiero|queremos|quisiera|gustaría|si|ojalá|tal vez|quizás?|podría|debería|casi|nunca|creo|pienso|espero|dice|"
        "dijo|escribió|contó|según|cuenta|imagina|supongamos|a lo mejor|haría"
    ),
    phrases={
        "END": _end(
            "y|pero|porque|con|desde|el|la|en|hace|ayer|hoy|por|para|ahora|donde|este|esta|que|hoy|anoche|sino"
        ),
        "NOUN": _COMMON_NOUN,
        "OCCUPATION": _OCCUPATION,
        "NO_ADVERB": r"(?!(?:nada|much[oa]s?|poc[oa]|bien|mal|fuera|sol[oa]|tanto|todavía|aún|más|menos|"
        r"hoy|ahora|aquí|allí|nunca|siempre|suficiente|demasiado|tarde|temprano|mejor|juntos|casi|[a-z]+mente)\b)",
        "DRUG_ABROAD": _DRUG_ABROAD,
        "TASTE": rf"[\w'’-]+(?: [{UPPER}][\w'’-]+){{0,2}}",
        "DAY_ES": rf"\d{{1,2}} de {_MONTHS_ES}",
        "AGAIN_ES": "(?:[Vv]olví|[Vv]uelvo|[Hh]e vuelto|[Vv]olvimos|[Ee]mpecé otra vez)",
        "MEAT_ES": "(?:carne|pescado|pollo|jamón|atún|cerdo)",
        "DAIRY_ES": "(?:queso|leche|huevos?|lácteos|yogur)",
        "ALCOHOLIC_ES": "(?:alcohol|cerveza|vino|ron|tequila|whisky)",
        "OFTEN": r"(?:cada (?:día|noche|mañana|tarde)|al día|a diario|diari[oa]|por la (?:mañana|noche|tarde)|"
        r"todos los días|todas las (?:noches|mañanas)|(?:una|dos|tres) (?:vez|veces))",
        "TITLE": _title("TRADE_ES"),
        "WHO_DOSES": r"(?:[Ee]l |[Ll]a |[Mm]i )(?:médic[oa]|doctora?|psiquiatra|cardiólog[oa])",
    },
)
FRENCH = Language(
    "fr",
    marks=_words("je|j|m|nous|on|mon|ma|mes|le|la|est|suis|c|allergies?|notre"),
    clause=_clauses(
        "et|mais|car|parce que|donc",
        r"(?:s['’]il te plaît,? )?(?:n['’]oublie pas|souviens-toi|rappelle-toi|retiens|sache|note|garde en tête) que|"
        r"bon|bonjour|salut|alors|ah|oui|au fait|malheureusement|hier|aujourd['’]hui|maintenant|actuellement|désormais|"
        rf"récemment|enfin|finalement|(?:depuis|en|au|cet|cette) (?:début |fin |le mois de )?{_MONTHS_FR}|"
        r"depuis (?:hier|peu|(?:\w+ )?(?:jours?|semaines?|mois|ans?|années?))|"
        r"il y a (?:\w+ )?(?:jours?|semaines?|mois)|"
        r"(?:le|la|ce|cette) (?:jour|semaine|mois|année|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)"
        r"(?: dernière?|-ci)?|l['’](?:année|été|hiver|automne) (?:dernière?|passée?)",
    ),
    witness=_witness(
        r"(?:(?:mon|ma|le|la) |l['’])?(?:médecin|docteure?|allergologue|tests?) (?:m['’]a dit|dit|a dit|confirme|"
        r"montre|a confirmé) qu(?:e|['’])"
    ),
    unreal=_words(
        "voudrais|voudrions|veux|aimerais|si|peut-être|pourrais|devrais|presque|jamais|crois|pense|espère|dit|disait|"
        "écrit|selon|raconte|imagine|supposons|serais|aurais"
    ),
    phrases={
        "END": _end(
            "et|mais|parce|car|avec|depuis|le|la|en|il y a|hier|pour|dans|où|ce|cet|cette|qui|maintenant|à|au|aujourd|"
            "(?:lun|mar|mercre|jeu|vendre|same)di|dimanche"
        ),
        "NOUN": _COMMON_NOUN,
        "OCCUPATION": _OCCUPATION,
        "TITLE": _title("TRADE_FR"),
        "DRUG_ABROAD": _DRUG_ABROAD,
        "TASTE": rf"[\w'’-]+(?: [{UPPER}][\w'’-]+){{0,2}}",
        "DAY_FR": rf"(?:1er|\d{{1,2}}) {_MONTHS_FR}",
        "AGAIN_FR": "(?:[Jj]['’]ai recommencé|[Jj]e me suis remise?|[Jj]e recommence)",
        "MEAT_FR": "(?:de la viande|du poisson|du poulet|du jambon|du bœuf|du porc)",
        "DAIRY_FR": "(?:du fromage|du lait|des œufs|du beurre|des yaourts)",
        "ALCOHOLIC_FR": "(?:de l['’]alcool|du vin|de la bière|du cidre|du rhum)",
        "OFTEN": r"(?:(?:tous|toutes) les (?:jours|matins|soirs|nuits)|chaque (?:jour|matin|soir)|le (?:matin|soir)|"
        r"(?:une|deux|trois) fois par jour)",
        "WHO_DOSES": r"(?:[Ll]e |[Ll]a |[Mm]on |[Mm]a )(?:médecin|docteure?|psychiatre|cardiologue|généraliste)",
    },
)


@cache
def _compiled(name: str) -> tuple[tuple[Rule, tuple[LazyPattern, ...]], ...]:
    language = next(each for each in (GERMAN, SPANISH, FRENCH) if each.name == name)
    return tuple(
        (rule, tuple(LazyPattern(template, Person.FIRST, language.phrases) for template in rule.templates))
        for rule in rules(language.name)
    )


def _own_part(stated: str, language: Language) -> int | None:
    """Return where a sentence of a language begins to speak for itself; None if it is not of it, or states nothing."""
    if not language.marks.search(stated):
        return None
    witnessed = language.witness.match(stated)
    start = witnessed.end() if witnessed else 0
    return None if language.unreal.search(stated, start) else start


def is_unreal_abroad(stated: str) -> bool:
    """Return True if a sentence is a wish, a condition or a report in one of these languages."""
    return any(
        language.marks.search(stated) and _own_part(stated, language) is None for language in (GERMAN, SPANISH, FRENCH)
    )


def foreign_matches(sentence: Sentence) -> Iterator[tuple[Rule, re.Match[str]]]:
    """Yield the rules of other languages that a sentence matches, with the first match of each in a clause."""
    stated = sentence.stated
    for language in (GERMAN, SPANISH, FRENCH):
        own = _own_part(stated, language)
        if own is None:
            continue
        tried: dict[str, list[tuple[Rule, list[re.Pattern[str]]]]] = {}
        for start in dict.fromkeys((own, *(found.end() for found in language.clause.finditer(stated)))):
            for text in _in_both_orders(stated, start, language):
                if text not in tried:
                    tried[text] = list(_ready(language.name, text))
                for rule, patterns in tried[text]:
                    match = next(filter(None, (each.match(text, start) for each in patterns)), None)
                    if match is not None:
                        yield rule, match


def _ready(name: str, text: str) -> Iterator[tuple[Rule, list[re.Pattern[str]]]]:
    """Yield the rules of a language that may match a text, with the patterns that may."""
    all_alphabets = has_further_letters(text)
    for rule, patterns in _compiled(name):
        wanted = (each.ready(text, all_alphabets=all_alphabets) for each in patterns)
        ready = [found for found in wanted if found is not None]
        if ready:
            yield rule, ready


def _in_both_orders(stated: str, start: int, language: Language) -> list[str]:
    """Return a sentence, and as it is without the adverb before a clause: "seit Mai lebe ich" says "ich lebe".

    All places in it stay the same.
    """
    inverted = language.verb_first.match(stated, start) if language.verb_first is not None and start else None
    if inverted is None:
        return [stated]
    verb, speaker = inverted.groups()
    return [stated, f"{stated[:start]}{speaker} {verb}{stated[inverted.end() :]}"]
