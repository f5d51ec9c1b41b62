"""The extractor by rules: what it reads from English sentences, and above all what it leaves alone."""

from __future__ import annotations

import time

import pytest

from memoranda_facts import Candidate
from memoranda_facts.extraction.quotations import own_text
from memoranda_facts.extraction.rule_table import rules
from memoranda_facts.extraction.rules import Said, candidates
from memoranda_facts.values import EVER

AT = "2026-05-20T10:00:00+00:00"
"""A Wednesday, on which all of it is said."""


def read(text: str) -> list[Candidate]:
    """Return what Ada's words say."""
    return candidates(Said(text, "Ada", AT, "item"))


def facts_in(text: str) -> set[str]:
    """Return what Ada's words say, in short: a minus for what ended, and the subject unless it is Ada."""
    return {
        f"{'-' if each.kind == 'end' else ''}{'' if each.subject == 'Ada' else each.subject + ' '}"
        f"{each.predicate}: {each.object}"
        for each in read(text)
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My name is Ada Lovelace.", {"name: Ada Lovelace"}),
        ("Hi, my name's Ada and I live in Paris, France.", {"name: Ada", "lives_in: Paris, France"}),
        ("Well, I'm based in New York City.", {"lives_in: New York City"}),
        ("We live in the Netherlands.", {"lives_in: the Netherlands"}),
        ("Tom and I live in Paris.", {"lives_in: Paris"}),
        ("I'm from Ireland.", {"from: Ireland"}),
        ("I was born in Lisbon.", {"born_in: Lisbon"}),
        ("I am Irish and I work at Google.", {"nationality: Irish", "employer: Google"}),
        ("I work as a software engineer at Siemens.", {"job: software engineer", "employer: Siemens"}),
        ("I'm a nurse.", {"job: nurse"}),
        ("I'm a 34-year-old teacher.", {"age: 34", "job: teacher"}),
        ("I was promoted to senior engineer last week.", {"job: senior engineer"}),
        ("My brother's name is Jim.", {"brother: Jim"}),
        ("I have a son called Max and two cats.", {"son: Max"}),
        ("We have three kids.", {"has: three kids"}),
        ("I'm married to Tom.", {"spouse: Tom"}),
        ("I have a dog named Rex.", {"pet: Rex"}),
        ("I'm vegetarian.", {"diet: vegetarian"}),
        ("I'm allergic to peanuts.", {"allergic_to: peanuts"}),
        ("I don't eat pork.", {"does_not_eat: pork"}),
        ("My birthday is March 5th.", {"birthday: 03-05"}),
        ("I was born on 5 March 1990.", {"born_on: 1990-03-05"}),
        ("I speak French and German.", {"speaks: French", "speaks: German"}),
        ("I play the piano.", {"plays: piano"}),
        ("I love hiking, it keeps me sane.", {"likes: hiking"}),
        ("I hate mushrooms.", {"dislikes: mushrooms"}),
        ("I don't like loud music.", {"dislikes: loud music"}),
        ("My favourite colour is blue.", {"favorite_color: blue"}),
        ("My email is ada@example.org.", {"email: ada@example.org"}),
    ],
)
def test_the_speaker_is_read(text: str, expected: set[str]) -> None:
    assert facts_in(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Eva lives in Rome.", {"Eva lives_in: Rome"}),
        ("Eva Maria Stein is now a doctor.", {"Eva Maria Stein job: doctor"}),
        ("My sister Eva lives in Rome.", {"sister: Eva", "Eva lives_in: Rome"}),
        ("My husband, Joe, is a chef.", {"husband: Joe", "Joe job: chef"}),
        ("My mom loves gardening.", {"Ada's mother likes: gardening"}),
        ("Bob's wife is Carol.", {"Bob wife: Carol"}),
        ("Anna's favorite color is green.", {"Anna favorite_color: green"}),
        ("Tom is no longer a teacher.", {"-Tom job: teacher"}),
        ("Tom is my brother.", {"brother: Tom"}),
        ("Sanne is my wife now.", {"wife: Sanne"}),
        ("She said Tom is my brother.", set()),
        ("Tom is my brother's friend.", set()),
        ("Sanne is my wife in the game.", set()),
    ],
)
def test_others_are_read_by_name_or_by_a_relation_that_means_one_person(text: str, expected: set[str]) -> None:
    assert facts_in(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I no longer live in Berlin.", {"-lives_in: Berlin"}),
        ("I don't live in Berlin anymore.", {"-lives_in: Berlin"}),
        ("I used to live in Rome, but now I live in Oslo.", {"-lives_in: Rome", "lives_in: Oslo"}),
        ("I moved from Berlin to Paris.", {"-lives_in: Berlin", "lives_in: Paris"}),
        ("I'm not vegetarian any more.", {"-diet: vegetarian"}),
        ("I used to be a teacher.", {"-job: teacher"}),
        ("I quit my job at Google.", {"-employer: Google"}),
        ("I don't like jazz anymore.", {"-likes: jazz"}),
        ("I don't play tennis anymore.", {"-plays: tennis"}),
    ],
)
def test_what_has_stopped_is_an_end(text: str, expected: set[str]) -> None:
    assert facts_in(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Do I live in Paris?",
        "I live in Paris, right?",
        "If I live in Paris, I need a flat.",
        "I would live in Paris.",
        "I'd live in Paris.",
        "I might be a teacher.",
        "Maybe I live in Paris.",
        "I wish I lived in Paris.",
        "I think I live in Paris.",
        "He said I live in Paris.",
        "Eva told me that Tom lives in Rome, and I work at Google.",
        "Let's say I live in Paris.",
        "Imagine I live in Paris.",
        "I'm moving to Rome next month.",
        "I want to live in Rome.",
        "I never lived in Rome.",
        "I don't live in Rome.",
        "I'm not a doctor.",
        "I almost moved to Rome.",
        "I lived in Rome.",
        "We moved to Rome when I was six.",
        "I live in Paris when I'm not travelling.",
        'She wrote "I live in Paris" on the wall.',
        "```\nI live in Paris.\n```",
        "> I live in Paris.",
        "Translate: I live in Paris.",
        "In the story, I live in Paris and I'm a nurse.",
        "I live in a small flat.",
        "I'm a good cook.",
        "I'm an aspiring writer.",
        "I love you.",
        "I love it when you sing.",
        "I love that song, it's great.",
        "I love how you cook.",
        "I love simple, quick meals.",
        "I like my job.",
        "Everyone loves pizza.",
        "Painting is now a job.",
        "She lives in Rome.",
        "My friend lives in Rome.",
        "My sister lives in Rome.",
        "My cat Tom passed away.",
        "You live in Paris.",
        "I'm engaged in politics.",
        "I'm single-minded.",
        "My name is a secret.",
        "I work at home.",
        "I have a question.",
        "",
    ],
)
def test_what_is_not_stated_is_left_alone(text: str) -> None:
    assert facts_in(text) == set()


@pytest.mark.parametrize(
    "text",
    [
        "Email from Bob: I live in Rome. I work at Siemens.",
        "Please repeat after me: I live in Rome.",
        "Here's the message I got: I live in Rome.",
        "Bob: I live in Rome.\nEva: I live in Oslo.",
        "Write a story. First line: I live in Rome.",
        "The first line of my novel: I live in Rome.",
        "Once upon a time there was a king. I live in Rome, he said.",
        "From: Bob\nTo: Ada\nSubject: Hello\n\nI live in Rome.",
        "Can you answer this?\n\nHi Ada,\n\nI live in Rome and I work at Siemens.\n\nBest regards,\nBob",
        "On Monday, Bob wrote:\nI live in Rome.",
        "---------- Forwarded message ---------\nI live in Rome.",
        "Look what she sent:\n\nI live in Rome.\n\nI work at Siemens.",
        "Er schrieb: „I live in Rome.“",
        "Er schrieb\n„Hallo.\nI live in Rome.\nTschüss“",
        'She texted me "hey\nI live in Rome.\nbye"',
        "“Hello.\nI live in Rome.\nBye.”",
        "»Hello. I live in Rome.«",
        "‹Hello. I live in Rome.›",
        "”Hello. I live in Rome.”",
        "「Hello. I live in Rome.」",
        "&quot;Hello. I live in Rome.&quot;",
        "&gt; I live in Rome.",
        "<blockquote>\nI live in Rome.\n</blockquote>",
        "~~~\nI live in Rome.\n~~~",
        "[10:32] Bob: I live in Rome.",
        "[12/05/2024, 10:32:11] Bob: I live in Rome.",
        "12.05.24, 10:32 - Bob: I live in Rome.",
        "Bob (10:32): I live in Rome.",
        "Bob: hi\nI live in Rome.",
        "Email from Bob: Hi Ada,\n\nI live in Rome.\n\nBob",
        "Message from Bob - I live in Rome.",
        "Bob - I live in Rome.",
        "Bob Miller – I live in Rome.",
        "hi\nBob - I live in Rome.",
        "Anna - Ich wohne in Rom.",
        "Email from Bob\n\nI live in Rome.",
        "Here is Bob's email. I live in Rome.",
        "Song lyrics\nI live in Rome.",
        "Bob wrote\nI live in Rome.",
        "**From:** Bob\n**Subject:** Hello\n\nI live in Rome.",
        "FW: hello\nI live in Rome.",
        "---------- Weitergeleitete Nachricht ---------\nI live in Rome.",
        "Dear Ada,\nI live in Rome.\nBest regards, Bob",
        "Dear Ada,\nI live in Rome.\n-- Bob",
        "Liebe Ada,\nich wohne in Rom.\nDein Bob",
        "Please repeat after me, I live in Rome.",
        "Repeat this. I live in Rome.",
        "Summarize this.\n\nI live in Rome.",
        "Fix my grammar. I live in Rome.",
        "Is this correct? I live in Rome.",
        "Übersetze das. Ich wohne in Rom.",
        "Schreibe mir eine Geschichte. Ich wohne in Rom.",
        "Mail von Bob: Hallo!\nIch wohne in Rom.",
        "Bob schrieb mir, ich wohne in Rom.",
        "Traduce esto. Vivo en Roma.",
        "Correo de Bob: Hola.\nVivo en Roma.",
        "Escribe un cuento. Vivo en Roma.",
        "Traduis ça. J'habite à Rome.",
        "Écris une histoire. J'habite à Rome.",
        "Répète après moi, j'habite à Rome.",
        "Mail de Bob : Salut !\nJ'habite à Rome.",
        "Le message de Bob. J'habite à Rome.",
    ],
)
def test_what_others_wrote_is_left_alone(text: str) -> None:
    assert facts_in(text) == set()


@pytest.mark.parametrize(
    "text",
    [
        'My friend said "wow". {}',
        "I'm reading “Dune” and »Emma«.\n{}",
        "I got an email from Bob. {}",
        "The letter arrived at 10:30. {}",
        "Quick update - {}",
        "Hi there - {}",
        "I have to check my email. {}",
        "Bob: hi\n\n{}",
        "My car - a Golf - broke down. {}",
    ],
)
def test_the_speakers_own_words_beside_those_of_others_are_read(text: str) -> None:
    assert "lives_in: Rome" in facts_in(text.replace("{}", "I live in Rome."))


@pytest.mark.parametrize(
    "part", ["“", "„", "x.", ". ", '"a\n', "Bob: ", "Bob - I am ", "Home: I ", "Here is ", "-----x", "<q "]
)
def test_the_time_to_find_quotations_grows_with_the_text_alone(part: str) -> None:
    def seconds(count: int) -> float:
        began = time.thread_time()
        own_text(part * count)
        return time.thread_time() - began

    assert seconds(16_000) < 64 * max(seconds(1_000), 0.002)


@pytest.mark.parametrize(
    "lead",
    [
        *("Fun fact", "About me", "One more thing you should know", "I have news", "Update"),
        *("Allergies", "1. Diet", "- Home", "My job", "Allergy alert", "Food & allergies", "Wohnort", "Salud", "Santé"),
    ],
)
def test_what_the_speaker_introduces_as_their_own_is_read(lead: str) -> None:
    assert facts_in(f"{lead}: I live in Rome.") == {"lives_in: Rome"}


@pytest.mark.parametrize("lead", ["Yes", "Actually", "Home", "Sunday", "My news", "Sorry", "Honestly", "No, I moved"])
def test_a_dash_behind_what_is_no_name_introduces_nobody(lead: str) -> None:
    assert facts_in(f"{lead} - I live in Rome.") == {"lives_in: Rome"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Seit März lebe ich in Kiel.", "lives_in: Kiel"),
        ("Seit zwei Wochen wohne ich in Kiel.", "lives_in: Kiel"),
        ("Letzten Monat bin ich nach Kiel umgezogen.", "lives_in: Kiel"),
        ("Gestern sind wir nach Kiel gezogen.", "lives_in: Kiel"),
        ("Mittlerweile arbeite ich bei Bosch.", "employer: Bosch"),
        ("Seit Januar arbeite ich als Lehrerin.", "job: Lehrerin"),
        ("Desde marzo vivo en Bilbao.", "lives_in: Bilbao"),
        ("Desde hace dos meses vivimos en Bilbao.", "lives_in: Bilbao"),
        ("El mes pasado me mudé a Bilbao.", "lives_in: Bilbao"),
        ("Actualmente trabajo en Mango.", "employer: Mango"),
        ("Depuis mars j'habite à Lille.", "lives_in: Lille"),
        ("Depuis deux mois je vis à Lille.", "lives_in: Lille"),
        ("Actuellement je travaille chez Airbus.", "employer: Airbus"),
        ("Finally got my own flat in Bristol, so I've left Leeds.", "lives_in: Bristol"),
        ("You can reach me at ada@new.example now.", "email: ada@new.example"),
        ("My number changed, it's 555-9876 now.", "phone: 555-9876"),
        ("Please remember that I'm allergic to penicillin.", "allergic_to: penicillin"),
        ("Remember I'm vegan.", "diet: vegan"),
        ("Also, remember that I live in Porto.", "lives_in: Porto"),
        ("Don't forget I'm lactose intolerant.", "condition: lactose intolerant"),
        ("Keep in mind that I have asthma.", "condition: asthma"),
        ("You should know that I don't eat pork.", "does_not_eat: pork"),
        ("I want you to remember that I'm vegan.", "diet: vegan"),
        ("Can you remember that my sister is called Eva?", "sister: Eva"),
        ("Note to self: I live in Porto.", "lives_in: Porto"),
        ("Merk dir bitte: Ich bin allergisch gegen Nüsse.", "allergic_to: Nüsse"),
        ("Vergiss nicht, dass ich Veganerin bin.", "diet: Veganerin"),
        ("Denk daran, dass ich gegen Nüsse allergisch bin.", "allergic_to: Nüsse"),
        ("Recuerda que soy alérgica a las nueces.", "allergic_to: nueces"),
        ("N'oublie pas que je suis allergique aux noix.", "allergic_to: noix"),
        ("I was just diagnosed with type 2 diabetes.", "condition: type 2 diabetes"),
        ("I have two sons, Ben and Max.", "child: Max"),
        ("My kids are called Ben, Max and Mia.", "child: Max"),
        ("We have twins, Ben and Mia.", "child: Ben"),
        ("I live in St. Louis.", "lives_in: St. Louis"),
        ("I work at St. Mary's.", "employer: St. Mary's"),
        ("I live in Washington D.C. with two cats.", "lives_in: Washington D.C."),
        ("Porto is home now.", "lives_in: Porto"),
        ("I'm in Porto now.", "lives_in: Porto"),
        ("Ich habe eine neue Stelle als Lehrer.", "job: Lehrer"),
    ],
)
def test_a_statement_behind_other_words_is_read(text: str, expected: str) -> None:
    assert expected in facts_in(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ich heiße Jana.", {"name: Jana"}),
        ("Ich bin 29 Jahre alt.", {"age: 29"}),
        ("Ich bin gegen Penicillin allergisch.", {"allergic_to: Penicillin"}),
        ("Ich esse kein Schweinefleisch.", {"does_not_eat: Schweinefleisch"}),
        ("Ich trinke keinen Alkohol.", {"does_not_drink: Alkohol"}),
        ("Ich habe Asthma.", {"condition: Asthma"}),
        ("Ich bin schwanger.", {"condition: schwanger"}),
        ("Ich spreche Deutsch und Türkisch.", {"speaks: Deutsch", "speaks: Türkisch"}),
        ("Meine Kinder heißen Ben, Max und Mia.", {"child: Ben", "child: Max", "child: Mia"}),
        ("Ich komme aus Leipzig.", {"from: Leipzig"}),
        ("Me llamo Lucía y tengo 29 años.", {"name: Lucía", "age: 29"}),
        ("No como carne.", {"does_not_eat: carne"}),
        ("Tengo asma.", {"condition: asma"}),
        ("Hablo español y catalán.", {"speaks: español", "speaks: catalán"}),
        ("Mis hijos se llaman Leo y Ana.", {"child: Leo", "child: Ana"}),
        ("Je m'appelle Chloé et j'ai 29 ans.", {"name: Chloé", "age: 29"}),
        ("Je ne mange pas de porc.", {"does_not_eat: porc"}),
        ("J'ai de l'asthme.", {"condition: asthme"}),
        ("Je parle français et arabe.", {"speaks: français", "speaks: arabe"}),
        ("Je viens de Nantes.", {"from: Nantes"}),
        ("Ich esse heute keine Pizza.", set()),
        ("Ich esse kein Fleisch mehr, glaube ich.", set()),
        ("Ich bin 10 Minuten zu spät.", set()),
        ("Ich komme aus dem Urlaub.", set()),
        ("No como mucho.", set()),
        ("No bebo nada.", set()),
        ("Estudio mucho.", set()),
        ("Tengo 29 mensajes.", set()),
        ("Soy de los que ríen.", set()),
        ("J'étudie beaucoup.", set()),
        ("Je viens de manger.", set()),
        ("Je viens de Paris en train.", set()),
        ("Ich komme aus Berlin mit dem Zug.", set()),
    ],
)
def test_what_people_say_of_themselves_in_other_languages_is_read(text: str, expected: set[str]) -> None:
    assert facts_in(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm allergic to bees and penicillin.", {"bees", "penicillin"}),
        ("I'm allergic to peanuts, shellfish, and soy.", {"peanuts", "shellfish", "soy"}),
        ("I'm allergic to peanuts, shellfish, soy or bees.", {"peanuts", "shellfish", "soy", "bees"}),
        ("I'm allergic to cats & dogs.", {"cats", "dogs"}),
        ("I have allergies to pollen and dust mites.", {"pollen", "dust mites"}),
        ("I'm allergic to nuts and vegan.", {"nuts"}),
        ("I'm allergic to nuts and always careful.", {"nuts"}),
        ("I'm allergic to peanuts and love jazz.", {"peanuts"}),
        ("I'm allergic to penicillin and live in Porto.", {"penicillin"}),
        ("Ich bin allergisch gegen Nüsse, Soja und Milch.", {"Nüsse", "Soja", "Milch"}),
        ("Soy alérgica a las nueces y al polen.", {"nueces", "polen"}),
        ("Soy alérgica a las nueces y vivo en Madrid.", {"nueces"}),
        ("Je suis allergique aux noix et au soja.", {"noix", "soja"}),
        ("Je suis allergique aux noix et je vis à Lille.", {"noix"}),
    ],
)
def test_every_allergy_of_a_list_is_a_fact(text: str, expected: set[str]) -> None:
    found = {each.removeprefix("allergic_to: ") for each in facts_in(text) if each.startswith("allergic_to: ")}
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "Lebe ich in Kiel?",
        "Seit wann lebe ich in Kiel?",
        "Wenn ich im Mai in Kiel lebe, feiern wir.",
        "Im Mai lebt er in Kiel.",
        "Er sagt, dass ich in Kiel wohne.",
    ],
)
def test_a_question_or_a_condition_in_german_states_nothing(text: str) -> None:
    assert facts_in(text) == set()


def test_a_statement_in_front_of_a_question_is_read() -> None:
    assert facts_in("I live in Paris, can you recommend a bakery?") == {"lives_in: Paris"}
    assert facts_in("Can my sister Eva come, too?") == {"sister: Eva"}


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("I live in Paris.", AT),
        ("I moved to Paris in 2019.", "2019"),
        ("I moved to Paris in March.", "2026-03"),
        ("I moved to Paris in August.", "2025-08"),
        ("I moved to Paris on 5 May.", "2026-05-05"),
        ("I moved to Paris on May 5th, 2024.", "2024-05-05"),
        ("I moved to Paris yesterday.", "2026-05-19"),
        ("I moved to Paris today.", AT),
        ("I moved to Paris this year.", AT),
        ("Last month I moved to Paris.", "2026-04"),
        ("I moved to Paris two years ago.", "2024"),
        ("I moved to Paris 3 weeks ago.", "2026-04-29"),
        ("I moved to Paris last Monday.", "2026-05-18"),
        ("I moved to Paris last weekend.", "2026-05-16"),
        ("I moved to Paris last week.", "2026-05-11"),
        ("I've lived in Paris since 2019.", "2019"),
        ("I've been living in Paris for two years.", "2024"),
        ("I was born in Paris.", EVER),
    ],
)
def test_a_fact_starts_at_the_date_that_is_said_or_when_it_is_said(text: str, moment: str) -> None:
    (made,) = read(text)
    assert (made.object, made.valid_from, made.valid_to) == ("Paris", moment, None)


def test_an_end_is_dated_and_has_no_start() -> None:
    old, new = read("I moved from Berlin to Paris in March.")
    assert (old.kind, old.object, old.valid_from, old.valid_to) == ("end", "Berlin", None, "2026-03")
    assert (new.kind, new.object, new.valid_from, new.valid_to) == ("set", "Paris", "2026-03", None)


def test_a_candidate_names_its_rule_and_the_words_that_support_it() -> None:
    text = "Good morning! As you know, I live in Paris. My dog Rex says hello."
    home, pet = read(text)
    (source,) = home.sources
    assert (source.item_id, text[source.start : source.end], home.rule) == ("item", "I live in Paris", "rules/lives-in")
    (source,) = pet.sources
    assert (text[source.start : source.end], pet.object, pet.qualifiers) == ("My dog Rex", "Rex", {"kind": "dog"})


def test_what_another_says_to_the_speaker_is_read_only_if_asked_for() -> None:
    said = Said("So you live in Paris, right? I live in the cloud, and Tom lives in Rome.", "Ada", AT, "item")
    assert [(each.subject, each.object) for each in candidates(said, to_speaker=True)] == [("Ada", "Paris")]


def test_the_same_statement_twice_is_one_candidate() -> None:
    assert len(read("I live in Paris. Yes, I live in Paris!")) == 1


def test_no_two_rules_share_a_name() -> None:
    names = [rule.name for rule in rules()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "part",
    [
        "a",
        "'",
        "My ",
        "\nHi Bob,\n",
        "\nFrom: Bob\n",
        "a: b ",
        "I love ",
        "and I love ",
        "New ",
        "last year ",
        "I live in New, ",
    ],
)
def test_a_long_text_without_an_end_says_nothing(part: str) -> None:
    assert facts_in(f"I live in {part * 5_000}") == set()


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("i live in berlin", {"lives_in: Berlin"}),
        ("im from porto btw", {"from: Porto"}),
        ("i moved to new york last week", {"lives_in: New York"}),
        ("we moved to porto from lisbon", {"-lives_in: Lisbon", "lives_in: Porto"}),
        ("i'm from the netherlands", {"from: the Netherlands"}),
        ("I moved to Vila do Conde", {"lives_in: Vila do Conde"}),
        ("i live in a small flat", set()),
        ("i live in fear of spiders", set()),
    ],
)
def test_places_are_known_without_capitals(text: str, facts: set[str]) -> None:
    assert facts_in(text) == facts


@pytest.mark.parametrize(
    "text",
    [
        "I moved to Obsidian",
        "we moved to Slack",
        "I switched to Neovim",
        "We moved to Linear for issue tracking",
        "I moved to Marketing last month",
        "we moved to Plan B",
        "I'm in Figma now",
        "I'm in Porto now, waiting for my train.",
        "I'm in Porto now for work.",
        "Paul is home now.",
        "i moved to obsidian",
    ],
)
def test_what_one_moves_to_without_living_there_is_no_home(text: str) -> None:
    assert not any("lives_in" in each for each in facts_in(text))


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "I'm Nora, 29, nurse in Lisbon",
            {"name: Nora", "age: 29", "job: nurse", "lives_in: Lisbon"},
        ),
        ("Hi, I'm Tom, a carpenter.", {"name: Tom", "job: carpenter"}),
        ("I'm Irish, 34 and tired", {"nationality: Irish"}),
        ("I'm Ana, sorry for the late answer", set()),
    ],
)
def test_introductions_are_read(text: str, facts: set[str]) -> None:
    assert facts_in(text) == facts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I take metformin every morning.", {"takes: metformin"}),
        ("I'm 34 and a nurse.", {"age: 34"}),
        ("I drink three coffees a day.", {"drinks: coffee"}),
        ("I go to the gym on Mondays and Thursdays.", {"does: the gym", "when_gym: Mondays and Thursdays"}),
        ("Tomas, 41, carpenter from Brno", {"name: Tomas", "age: 41", "job: carpenter", "from: Brno"}),
        ("Allergies: peanuts, shellfish", {"allergic_to: peanuts", "allergic_to: shellfish"}),
        ("I live in Lisbon, vegan and allergic to nuts.", {"lives_in: Lisbon", "diet: vegan", "allergic_to: nuts"}),
        ("I study physics at ETH.", {"studies: physics", "studies_at: ETH"}),
        ("Meine Lieblingsfarbe ist Blau.", {"favorite_farbe: Blau"}),
        ("Mi color favorito es el verde.", {"favorite_color: verde"}),
        ("Ma couleur préférée est le bleu.", {"favorite_couleur: bleu"}),
        ("Ich habe am 5. März Geburtstag.", {"birthday: 03-05"}),
        ("Mi cumpleaños es el 5 de marzo.", {"birthday: 03-05"}),
        ("Mon anniversaire est le 5 mars.", {"birthday: 03-05"}),
        ("Ich nehme jeden Tag Ramipril.", {"takes: Ramipril"}),
        ("Tomo enalapril cada noche.", {"takes: enalapril"}),
        ("Je prends de la ventoline.", {"takes: ventoline"}),
    ],
)
def test_habits_medicines_ages_and_favourites_are_read(text: str, expected: set[str]) -> None:
    assert facts_in(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I'm 20 minutes late.",
        "I'm 15, 20 pages into the book.",
        "I met three people: Tomas, 41, carpenter from Brno.",
        "Here are the guests. Tomas, 41, carpenter from Brno. Anna, 30, nurse from Graz.",
        "Guest: Anna. Allergies: peanuts",
        "I'm cooking for Anna, vegan and allergic to nuts.",
        "Call me Friday morning.",
        "Hoy no tomo mate.",
        "The doctor says he's diabetic.",
    ],
)
def test_numbers_guests_and_others_are_no_facts_of_the_speaker(text: str) -> None:
    assert facts_in(text) == set()


@pytest.mark.parametrize("text", ["London is 8.", "Python ist 34.", "Tofu ist vegan.", "Bordeaux a 12 ans."])
def test_a_name_that_nobody_spoke_of_is_not_somebody(text: str) -> None:
    assert facts_in(text) == set()


@pytest.mark.parametrize(
    ("before", "later", "expected"),
    [
        ("My son Ben is 9.", "Ben turned 10 today!", "Ben age: 10"),
        ("Meine Tochter Lea ist 8.", "Lea ist heute 9 geworden.", "Lea age: 9"),
        ("Mi hija Alba tiene 5 años.", "Alba cumplió 6 años.", "Alba age: 6"),
    ],
)
def test_a_child_who_is_known_is_spoken_of_by_name(before: str, later: str, expected: str) -> None:
    assert expected in facts_in(f"{before} {later}")
