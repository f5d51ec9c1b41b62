"""The rules of languages other than English, which are fewer than the English ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from memoranda_facts.extraction.grammar import FULL_NAME, LOWER, UPPER, Person, has_further_letters
from memoranda_facts.extraction.lazy_patterns import LazyPattern
from memoranda_facts.extraction.rule_table import Rule, rules, words
from memoranda_facts.extraction.said_dates import MONTHS_ABROAD
from memoranda_facts.extraction.sentences import Sentence


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
    rf"|[{UPPER}{LOWER}][{LOWER}]*(?:pril|olol|statin|formin|sartan|sartán|prazol|triptan|triptán|oxacin|cil+in|"
    rf"mycin|micin|"
    r"profen|profèn|cetamol|cétamol|gliptin|dipin|semid|sémid|thyroxin|tiroxin|aspirin|azepam|azépam|pram|pentin|"
    r"gabalin|"
    r"gabalín|trigin|tylin|tralin|xetin|xétin|solon|glutid|oxaban|zapin|prednison|semida|formina)[aeo]?)(?![\w-])"
)
"""A medicine by its ending, in German, Spanish and French."""

_COMMON_NOUN = rf"[{LOWER}]+"
_OCCUPATION = rf"[{LOWER}]+(?: de [{LOWER}]+)?"

_GERMAN_TITLE = (
    r"(?!(?:Mutter|Vater|Schwester|Bruder|Tochter|Kunde|Kundin|Single|Sportler|Raucher|Vegetarier|Veganer|"
    r"Student)\w*\b)"
    rf"[{UPPER}][{LOWER}]*(?:er|erin|ist|istin|ent|entin|eur|eurin|ant|antin|or|orin|mann|frau|kraft|chef|chefin|"
    rf"leitung|"
    r"wirt|wirtin|selle|sellin)"
)
"""A noun that ends as trades do; towns have such people, too, so that it counts only beside a company or a job."""


_DOCTOR_SAID = re.compile(
    r",? (?:sagt|meint|sagte|dit|a dit|dice|dijo|ha dicho) (?:der|die|meine?|le|la|mon|ma|el|mi) "
    r"\w*(?:arzt|ärztin|doktor|docteur|docteure|médecin|médico|médica|doctor|doctora|log[eao]|logue|ologin)[.!]*$",
    re.IGNORECASE,
)
"""Who knows better than the speaker, named at the end."""


def _others(possessive: str, relations: str, no_name: str) -> str:
    """Return the phrase of somebody else, for statements in the third person."""
    related = "|".join(words()[relations])
    one = "|".join(each for each in words()[relations] if each not in words()["ONE_OF_SEVERAL"])
    return rf"(?P<who>(?:{possessive}) (?:(?:{related}),? {FULL_NAME},?|(?:{one}))|(?!(?:{no_name})\b){FULL_NAME})"


def _title(trades: str) -> str:
    return rf"(?:{'|'.join(words()[trades])})(?: de [{LOWER}]+)?"


_MONTHS_DE = f"(?:{MONTHS_ABROAD['de']})"
_TIMES_DE = (
    rf"(?:{_MONTHS_DE}|(?:tag|woche|monat|jahr)\w*|\w+tag|wochenende|frühling|frühjahr|sommer|herbst|winter|anfang|"
    rf"ende|"
    r"gestern|heute|kurzem|neuestem|\d{4})\b"
)
_WHEN_DE = (
    r"gestern|heute|seit \w+|letzte[ns]? \w+|diese[ns]? \w+|vor \w+ \w+|im \w+|am \w+|endlich|gerade|inzwischen|"
    r"zurück|wieder zurück|zusammen|allein|schon|leider|jetzt|nun|mittlerweile|neulich|kürzlich|vorgestern|endgültig"
)
_ADVERBS_DE = (
    rf"(?: (?:{_WHEN_DE}|seit \w+ \w+|auch|noch|ja|übrigens|wieder|aktuell|derzeit|momentan|frisch|von Beruf|ab heute|"
    r"plötzlich|neuerdings|eben|halt|täglich|jeden \w+|morgens|abends|nachts|regelmäßig|(?:ein|zwei|"
    r"drei)mal (?:täglich|am Tag|"
    r"die Woche)|mit (?:meine[rmn]|unsere[rmn]) \w+)){0,4}"
)
"""The adverbs that may stand behind any German verb; without a bound, a text of nothing else takes forever."""

_ADVERBS_ES = (
    r"(?: (?:ahora|actualmente|también|todavía|aún|ya|recién|hoy|ayer|ahorita|otra vez|de nuevo|con mis? \w+)){0,3}"
)
_ADVERBS_FR = (
    r"(?: (?:maintenant|désormais|aussi|encore|toujours|actuellement|finalement|enfin|du coup|plutôt|déjà|devenue?|"
    r"rendue?|"
    r"depuis \w+|avec (?:mon|ma|mes) \w+)){0,3}"
)

_SCHOOLS_DE = "Grundschule|Schule|Gymnasium|Realschule|Gesamtschule|Kita|Kindergarten"

_MONTHS_ES = f"(?:{MONTHS_ABROAD['es']}|primavera|verano|otoño|invierno)"
_MONTHS_FR = f"(?:{MONTHS_ABROAD['fr']}|printemps|été|automne|hiver)"

GERMAN = Language(
    "de",
    marks=_words(
        r"ich|hab|neue|vertrage|wohne|wohnt|lebt|arbeite|arbeitet|fahre|spiele|lerne|studiere|heiße|heißt|esse|trinke|"
        r"antworte|nenn|bitte|geht|lieblings\w+|wir|mir|mein|meine|unser|unsere|bin|ist|sind|haben|habe|wurde|"
        r"nehme|rauchfrei seit|allergien?"
    ),
    witness=_witness(
        r"(?:(?:mein|meine|der|die) )?(?:\w*arzt|\w*ärztin|Doktor|\w+(?:ologe|ologin)|test|allergietest|befund) "
        r"(?:sagt|meint|hat (?:mir )?gesagt|sagte|zeigt|hat gezeigt)(?: mir)?,?(?: dass)?"
    ),
    clause=_clauses(
        "und|aber|denn|weil|nämlich|außerdem",
        r"(?:bitte )?(?:merke? dir(?: bitte)?|vergiss(?: bitte)? nicht|denk(?: bitte)? (?:daran|dran)|du musst wissen)"
        r",? dass|"
        r"ja|ab heute|ab sofort|ab jetzt|außerdem|zum glück|juhu|hey|moin|servus|okay|ok|tja|nee|nein|warte|also|"
        r"übrigens|leider|naja|ach|hallo|hi|so|jetzt|nun|heute|gestern|inzwischen|mittlerweile|aktuell|derzeit|"
        rf"zurzeit|momentan|endlich|neuerdings|(?:seit|im|am) (?:\w+ )?{_TIMES_DE}(?: {_MONTHS_DE})?|"
        rf"(?:letzte|diese)[nsr]? {_TIMES_DE}|vor (?:\w+ )?(?:tagen|wochen|monaten|kurzem|einem (?:monat|jahr))|"
        r"seit \w+",
    ),
    unreal=_words(
        r"würde|würden|möchte|möchten|will|wollen|wenn|falls|ob|vielleicht|hätte|könnte|könnten|sollte|soll|sollen|"
        r"fast|"
        r"beinahe|nie|niemals|glaube|denke|hoffe|sagt|sagte|schrieb|schreibt|laut|meint|meinte|"
        r"erzählt\w*|behauptet|angeblich|geträumt|stell dir vor|wünschte|wäre"
    ),
    phrases={
        "END": _end(
            r"und|gegen|an|beim|zum|nach|auf|um|wenn|aber|weil|seit|sondern|\w+tag|mit|für|am|im|in|bei|jetzt|nun|denn|"
            r"wo|der|die|das|wegen|letzte\w*|gestern|heute|vor"
        ),
        "WHEN": f"(?:{_WHEN_DE})",
        "ADV": _ADVERBS_DE,
        "WHO": _others(
            "[Mm]eine?|[Uu]nsere?",
            "RELATION_DE",
            "Er|Sie|Es|Wer|Man|Das|Der|Die|Dieser|Diese|Ein|Eine|Mein|Meine|Dein|Deine|Unser|Unsere|Ihr|Ihre|Sein|"
            "Seine|Jeder|"
            "Jemand|Niemand|Keiner|Wie|Wo|Was|Und|Aber|Kein|Keine|Alles|Ich|Du|Wir|Hier|Dort|Heute|Gestern|Jetzt|Nun|"
            "Danach",
        ),
        "SCHOOL": rf"(?:[{UPPER}][\w-]*-(?:{_SCHOOLS_DE})|(?:{_SCHOOLS_DE})(?: [{UPPER}][\w-]*\w)+)",
        "WEEKDAY": f"(?:{'|'.join(words()['WEEKDAY_DE'])})(?:,? (?:um )?\\d{{1,2}}(?:[:.]\\d\\d)?(?: Uhr)?)?",
        "BIN": rf"(?:[Ii]ch )?[Bb]in{_ADVERBS_DE}",
        "HABE": rf"(?:[Ii]ch )?[Hh]abe?{_ADVERBS_DE}",
        "NOUN": rf"[{UPPER}][{LOWER}]+",
        "TITLE": _GERMAN_TITLE,
        "WHO_DOSES": r"(?:[Mm]eine? |[Dd]er |[Dd]ie )(?:Arzt|Ärztin|Hausarzt|Hausärztin|Doktor|Psychiaterin|Psychiater|"
        r"Kardiologin|Kardiologe)",
        "PROPER": rf"[{UPPER}][\w'’-]+(?: [{UPPER}][\w'’-]+){{0,2}}",
        "MOVED": "(?:umgezogen|gezogen|übersiedelt|umgesiedelt|gezügelt)",
        "DRUG_ABROAD": _DRUG_ABROAD,
        "DAY_DE": rf"\d{{1,2}}\. (?i:{_MONTHS_DE})",
        "COMPANY": rf"(?:der |dem |einer |einem )?[{UPPER}][\w&.-]*\w(?: [{UPPER}][\w&.-]*\w){{0,2}}",
    },
    verb_first=re.compile(rf"([{LOWER}]+) (ich|wir)\b"),
)
SPANISH = Language(
    "es",
    marks=_words(
        "yo|mi|mis|me|ya|cita|vive|trabaja|tiene|va|cumplió|hago|llámame|respuestas|respóndeme|casé|también|dejado|"
        "tenemos|tenía|compré|"
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
        r"bueno|pues|mejor|hola|oye|resulta que|también|además|total|al fin|buenas|nada|no(?=,)|espera|ok|vale|uf|"
        r"a partir de ahora|"
        r"ahora|al final|ah|sí|por cierto|lamentablemente|ayer|anoche|hoy|ahora mismo|"
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
            "y|pero|porque|con|desde|el|la|los|las|todos|todas|cada|dos|tres|a las|aunque|en|hace|ayer|hoy|por|para|"
            "ahora|donde|este|esta|que|hoy|anoche|sino"
        ),
        "NOUN": _COMMON_NOUN,
        "OCCUPATION": _OCCUPATION,
        "ADV": _ADVERBS_ES,
        "WHO": _others(
            "[Mm]i|[Nn]uestr[oa]",
            "RELATION_ES",
            "Ella|Él|El|La|Los|Las|Un|Una|Usted|Este|Esta|Ese|Esa|Quien|Que|Qué|Nadie|Alguien|Mi|Tu|Su|Nuestro|"
            "Nuestra|Hoy|"
            "Ayer|Ahora|Ya|Aquí|Allí|Cada|Todo|Todos|Y|Pero|No|Yo",
        ),
        "SCHOOL": rf"(?:colegio|instituto|escuela|liceo|guardería|universidad)(?: (?:de |del |"
        rf"de la )?[{UPPER}][\w-]*\w)+",
        "WEEKDAY": f"(?:{'|'.join(words()['WEEKDAY_ES'])})(?: a las? \\d{{1,2}}(?::\\d\\d)?)?",
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
    marks=_words(
        "je|j|m|moi|ans|habite|vit|travaille|réponds|réponses|nous|on|mon|ma|mes|le|la|est|suis|c|allergies?|notre"
    ),
    clause=_clauses(
        "et|mais|car|parce que|donc",
        r"(?:s['’]il te plaît,? )?(?:n['’]oublie pas|souviens-toi|rappelle-toi|retiens|sache|note|garde en tête) que|"
        r"bon|bonjour|salut|coucou|en fait|au final|du coup|aussi|bref|ok|non|attends|voilà|ça y est|"
        r"à partir de maintenant|"
        r"alors|ah|oui|au fait|malheureusement|hier|aujourd['’]hui|maintenant|actuellement|désormais|"
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
            "et|mais|parce|car|s['’]il|avec|depuis|le|la|en|il y a|hier|pour|dans|où|ce|cet|cette|qui|maintenant|à|"
            "au|aujourd|"
            "(?:lun|mar|mercre|jeu|vendre|same)di|dimanche"
        ),
        "NOUN": _COMMON_NOUN,
        "OCCUPATION": _OCCUPATION,
        "ADV": _ADVERBS_FR,
        "WHO": _others(
            "[Mm]on|[Mm]a|[Nn]otre",
            "RELATION_FR",
            "Il|Elle|On|Le|La|Les|Un|Une|Qui|Que|Ce|Cette|Ceci|Cela|Ça|Mon|Ma|Ton|Ta|Son|Sa|Notre|Votre|Personne|"
            "Tout|Chaque|"
            "Aujourd|Hier|Maintenant|Et|Mais|Je|Tu|Nous|Vous|Ici",
        ),
        "SCHOOL": rf"(?:collège|lycée|école|crèche|université|maternelle)(?: (?:de |du |de la )?[{UPPER}][\w-]*\w)+",
        "WEEKDAY": f"(?:{'|'.join(words()['WEEKDAY_FR'])})(?: à \\d{{1,2}} ?h(?:\\d\\d)?)?",
        "JE": r"[Jj](?:e |['’])",
        "NE": r"(?:ne |n['’])?",
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
    end = _DOCTOR_SAID.search(stated)
    return None if language.unreal.search(stated, start, end.start() if end else len(stated)) else start


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
