"""Endings by rules: what a change ends, what it leaves alone, since when, and what a doubt does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import memoranda
from memoranda import HumanMemory
from memoranda.store import InMemoryStore
from memoranda_facts import Fact, Facts
from memoranda_facts.extraction import Extraction, ExtractionRun, RuleExtractor, Utterance, everyday_schema


async def told(*texts: str, extractor: RuleExtractor | None = None) -> Facts:
    """Return what is known of Nora after she said some things, one each month of 2026."""
    handle = InMemoryStore().scoped(user_id="nora", session_id="s")
    facts = Facts(handle, schema=everyday_schema())
    run = ExtractionRun(facts, extractor or RuleExtractor())
    for month, text in enumerate(texts, start=1):
        await handle.add(HumanMemory(content=text, created_at=f"2026-{month:02d}-10T09:00:00+00:00"))
        await run.run()
    return facts


async def in_prompts(*texts: str) -> list[str]:
    """Return what prompts show of Nora after she said some things, one each month of 2026."""
    async with memoranda.open("memory://", facts="rules") as store:
        nora = store.scoped(user_id="nora", session_id="s")
        for month, text in enumerate(texts, start=1):
            await nora.add(HumanMemory(content=text, created_at=f"2026-{month:02d}-10T09:00:00+00:00"))
        return await nora.known(tokens=200)


async def holding(*texts: str) -> list[str]:
    """Return the values that hold after some things were said."""
    return sorted(str(fact.object) for fact in await (await told(*texts)).current())


async def test_the_lines_of_a_life_that_changed() -> None:
    facts = await told(
        "Hi! I live in Lisbon and I work as a nurse.",
        "I'm vegetarian and allergic to peanuts. My cat is called Miso.",
        "I moved to Porto. I quit my job. From April I work at Farfetch.",
        "We got a dog! He's called Rolo.",
        "Miso died. I'm not vegetarian anymore, I eat fish now.",
    )
    assert await facts.profile_lines() == [
        "lives in Porto (since 2026-03-10; before: Lisbon)",
        "job: no longer nurse (since 2026-03-10)",
        "employer: Farfetch (since 2026-03-10)",
        "diet: no longer vegetarian (since 2026-05-10)",
        "allergic to peanuts (since 2026-02-10)",
        "pet: Rolo (since 2026-04-10)",
        "has a dog (since 2026-04-10)",
        "pet: no longer Miso (cat) (since 2026-05-10)",
    ]


@pytest.mark.parametrize(
    ("before", "later", "held"),
    [
        ("I'm a QA engineer.", "I am SDET 2 now.", ["SDET 2"]),
        ("I'm a sous chef.", "They made me head chef!", ["head chef"]),
        ("I work as a junior analyst.", "Got promoted, senior analyst as of today.", ["senior analyst"]),
        ("I take 500 mg of metformin.", "Metformin is 1000 mg now.", ["1000 mg", "metformin"]),
        ("I take 500 mg of metformin.", "My dose is 850 mg now.", ["850 mg", "metformin"]),
        ("I take 500 mg of metformin.", "I came off metformin.", []),
        ("I live in Bristol.", "Moved to Leeds last month!", ["Leeds"]),
        ("I have an iPhone 12.", "Upgraded to a Pixel 9.", ["Pixel 9"]),
        ("I have therapy on Mondays.", "Therapy is on Wednesdays now.", ["Wednesdays"]),
        ("Ich nehme 50 mg Sertralin.", "Mein Arzt hat das Sertralin auf 100 mg erhöht.", ["100 mg", "Sertralin"]),
        ("Tomo 20 mg de omeprazol.", "Me subieron el omeprazol a 40 mg.", ["40 mg", "omeprazol"]),
        ("Je prends 50 mg de sertraline.", "Je suis passée à 75 mg de sertraline.", ["75 mg", "sertraline"]),
    ],
)
async def test_a_new_title_or_dose_takes_the_place_of_the_old_one(before: str, later: str, held: list[str]) -> None:
    assert await holding(before, later) == held


@pytest.mark.parametrize(
    ("before", "later"),
    [
        ("I'm a data engineer.", "I'm exhausted now."),
        ("I'm a chef.", "My brother is a pilot now."),
        ("Soy camarero.", "Ahora soy feliz."),
        ("Ich bin Lehrer.", "Ich bin jetzt Vater."),
        ("I take 25 mg of atenolol.", "My mum takes 50 mg of atenolol."),
        ("I live in Oslo.", "Moved to Archive."),
        ("I have therapy on Mondays.", "Dinner is on Friday now."),
    ],
)
async def test_what_is_no_title_dose_or_home_of_the_speaker_replaces_nothing(before: str, later: str) -> None:
    assert set(await holding(before)) <= set(await holding(before, later))


@pytest.mark.parametrize(
    "ending", ["I quit.", "I got laid off!", "They let me go.", "got fired today", "Ich habe gekündigt."]
)
async def test_an_ending_needs_no_new_value_and_names_nothing(ending: str) -> None:
    assert await holding("I work at Siemens as a designer.", ending) == []


@pytest.mark.parametrize(
    "later",
    [
        "My sister quit.",
        "I want to quit.",
        "Should I quit?",
        "If I quit, I could travel.",
        "I didn't quit.",
        "I never quit.",
        "I almost quit.",
        '"I quit," said the hero.',
        "Please repeat after me: I quit.",
        "Bob: I quit.",
        "The server quit.",
        "I quit smoking.",
    ],
)
async def test_what_ends_no_job_leaves_it(later: str) -> None:
    assert "Siemens" in await holding("I work at Siemens.", later)


@pytest.mark.parametrize(
    "ending",
    [
        "Today was my last day at Siemens.",
        "Siemens laid me off.",
        "I don't work for Siemens any more",
        "Ich bin nicht mehr bei Siemens.",
    ],
)
async def test_an_ending_may_mention_what_it_ends_in_many_ways(ending: str) -> None:
    assert "Siemens" not in await holding("I work at Siemens.", ending)


async def test_what_is_meant_by_its_kind_ends_if_there_is_one_of_it() -> None:
    assert await holding("I have a dog called Bo.", "My dog died.") == []
    assert await holding("I have a dog called Bo. I have a dog called Rex.", "My dog died.") == ["Bo", "Rex"]


async def test_others_end_their_own_facts() -> None:
    facts = await told("I work at Audi. Tom works at Audi.", "Tom lost his job at Audi.")
    assert [fact.subject for fact in await facts.current(predicate="employer")] == ["nora"]


async def test_only_what_is_named_ends() -> None:
    assert await holding("I have a cat called Miso. I have a dog called Rex.", "Miso died.") == ["Rex"]
    assert await holding("I have a cat called Miso.", "Carlos died.") == ["Miso"]


async def test_a_new_value_ends_the_old_one_even_if_it_began_before_the_old_one_was_spoken_of() -> None:
    facts = await told("Hello.", "Hello again.", "I live in Lisbon.", "I moved to Porto in January.")
    (home,) = await facts.current()
    assert (home.object, home.valid_from) == ("Porto", "2026-04-10T09:00:00.000000+00:00")


async def test_a_new_value_ends_the_old_one_whatever_the_schema_of_the_reader() -> None:
    facts = await told("I live in Lisbon.", "I moved to Porto.")
    assert [fact.object for fact in await Facts(facts.store).current()] == ["Porto"]


async def test_an_end_takes_the_time_that_is_said_or_that_of_the_item() -> None:
    facts = await told("I have a cat called Miso.", "Hm.", "Hm.", "Hm.", "Miso died in March.")
    (miso,) = await facts.history("nora", "pet")
    assert (miso.state, miso.valid_to) == ("ended", "2026-03")
    facts = await told("I have a cat called Miso.", "Miso died yesterday.")
    (miso,) = await facts.history("nora", "pet")
    assert (miso.state, miso.valid_to) == ("ended", "2026-02-09")
    facts = await told("My girlfriend is Lena.", "We broke up.", "My girlfriend is Mia.")
    (mia,) = await facts.current()
    assert (mia.object, mia.valid_from) == ("Mia", "2026-03-10T09:00:00.000000+00:00")


async def test_a_change_and_what_it_ended_are_undone_together() -> None:
    facts = await told("I live in Lisbon.", "I moved to Porto.")
    (home,) = await facts.current()
    await facts.undo(home)
    assert [fact.object for fact in await facts.current()] == ["Lisbon"]


@pytest.mark.parametrize(
    "correction",
    ["Sorry, Thursday, not Tuesday.", "I meant Thursday, not Tuesday!", "no wait, I said tuesday, it's Thursday"],
)
async def test_a_correction_says_that_the_old_value_was_never_true(correction: str) -> None:
    facts = await told("My exam is on Tuesday.", correction)
    assert [str(fact.object).lower() for fact in await facts.current()] == ["thursday"]
    assert [fact.state for fact in await facts.history()] == ["retracted", "holds"]


async def test_a_correction_of_nothing_that_is_known_is_none() -> None:
    assert await holding("My exam is on Tuesday.", "It's coffee, not tea.") == ["Tuesday"]


async def test_a_doubt_is_a_dispute_and_both_are_shown() -> None:
    facts = await told("My exam is on Tuesday.", "I think my exam is on Thursday.")
    assert await facts.profile_lines() == [
        "exam: Tuesday (said 2026-01-10; disputed)",
        "exam: Thursday (said 2026-02-10; disputed)",
    ]
    facts = await told("I live in Lisbon.", "Not sure if I still live in Lisbon.")
    assert [fact.state for fact in await facts.current()] == ["disputed"]


@pytest.mark.parametrize(
    ("before", "later"),
    [
        ("I live in Utrecht.", "Not sure if I still live in Utrecht."),
        ("I live in Utrecht.", "we moved!"),
        ("I live in Utrecht.", "I moved house last month."),
        ("Ich wohne in Köln.", "Wir sind endlich umgezogen!"),
        ("Vivo en Sevilla.", "¡Nos hemos mudado!"),
        ("J'habite à Lyon.", "On a déménagé !"),
    ],
)
async def test_a_prompt_says_what_its_user_is_no_longer_sure_of(before: str, later: str) -> None:
    (line,) = await in_prompts(before, later)
    assert line.startswith("lives in ")
    assert line.endswith("; disputed)")


async def test_who_moved_and_says_where_has_no_doubt() -> None:
    lines = await in_prompts("I live in Utrecht.", "We moved! The new place is in Haarlem, boxes everywhere.")
    assert lines == ["lives in Haarlem (since 2026-02-10; before: Utrecht)"]
    assert await in_prompts("I live in Utrecht.", "We moved.", "I live in Utrecht.") == [
        "lives in Utrecht (since 2026-01-10)"
    ]


@pytest.mark.parametrize(
    "text", ["We moved on.", "I moved. Your turn.", "We moved the meeting.", "My sister moved.", "Have we moved?"]
)
async def test_who_moves_something_else_doubts_nothing(text: str) -> None:
    assert await in_prompts("I live in Utrecht.", text) == ["lives in Utrecht (since 2026-01-10)"]


@pytest.mark.parametrize(
    "text", ["¡Nos hemos mudado a Cádiz!", "¡Hola! ¡Me mudé a Cádiz!", "Por cierto, ¡vivo en Cádiz!"]
)
async def test_a_spanish_exclamation_is_read(text: str) -> None:
    assert await holding("Vivo en Sevilla.", text) == ["Cádiz"]


async def test_a_doubt_about_nothing_that_is_known_says_nothing() -> None:
    assert await holding("I think I live in Lisbon.") == []
    assert await holding("I live in Lisbon.", "Maybe I'll move to Porto.") == ["Lisbon"]


@pytest.mark.parametrize(
    "text",
    [
        "He works as a smith in act 3.",
        "It is called Walnut in version 7.",
        "She is called Mara in chapter 2.",
        "Anna lives in Rome in scene 4.",
        "My character Tom is a baker.",
        "We moved the meeting to Boston.",
        "Moved to Trash.",
        "The function is called Parse.",
    ],
)
async def test_sentences_about_work_are_no_facts_of_a_life(text: str) -> None:
    assert await holding(text) == []


async def test_one_message_may_set_and_end() -> None:
    assert await holding("I work at Bosch. Well, I quit. I work at Puma now.") == ["Puma"]


class Silent:
    """An extractor that takes utterances alone."""

    name = "silent"
    batch_size = 4

    async def extract(self, utterances: Sequence[Utterance]) -> Extraction:
        """Find nothing."""
        return Extraction()


class Asked(RuleExtractor):
    """An extractor that notes what it is told to hold."""

    def __init__(self) -> None:
        self.known: list[list[str]] = []

    async def extract(self, utterances: Sequence[Utterance], known: Sequence[Fact] = ()) -> Extraction:
        """Note what holds."""
        self.known.append([str(fact.object) for fact in known])
        return await super().extract(utterances, known)


async def test_an_extractor_is_told_what_holds_if_it_takes_that() -> None:
    asked = Asked()
    await told("I live in Lisbon.", "I moved to Porto.", "Hello.", extractor=asked)
    assert asked.known == [[], ["Lisbon"], ["Porto"]]
    handle = InMemoryStore().scoped(user_id="nora")
    await handle.add(HumanMemory(content="I live in Lisbon."))
    assert (await ExtractionRun(Facts(handle), Silent()).run()).read == 1


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (
            ["I take 10 mg of lisinopril every morning", "My doctor upped the lisinopril to 20 mg"],
            ["20 mg", "lisinopril"],
        ),
        (["I'm on sertraline 50 mg", "They bumped me up to 100 mg of sertraline"], ["100 mg", "sertraline"]),
        (["I take 10 mg of lisinopril", "I stopped taking lisinopril"], []),
        (["I take 10 mg of lisinopril", "Should I up the lisinopril to 40 mg?"], ["10 mg", "lisinopril"]),
        (["I pay 900 euros in rent", "The rent went up to 950 euros"], ["950 euros"]),
        (["My salary is $60k", "They raised my salary to $70k"], ["$70k"]),
    ],
)
async def test_a_new_amount_ends_the_old_one(texts: list[str], values: list[str]) -> None:
    assert await holding(*texts) == values


@pytest.mark.parametrize(
    ("before", "later", "held"),
    [
        ("I use Spotify.", "I switched from Spotify to Tidal.", ["Tidal"]),
        ("I drive a Golf.", "I sold the Golf and bought a Kona.", ["Kona"]),
        ("I bank with Barclays.", "Ditched Barclays for Monzo.", ["Monzo"]),
        ("Ich arbeite bei Siemens.", "Ich bin von Siemens zu Infineon gewechselt.", ["Infineon"]),
        ("Manejo un Jetta.", "Vendí el Jetta y compré un Mazda.", ["Mazda"]),
        ("Je travaille chez Decathlon.", "Je suis passé de Decathlon à Intersport.", ["Intersport"]),
    ],
)
async def test_what_is_swapped_takes_the_place_of_what_it_is_swapped_for(
    before: str, later: str, held: list[str]
) -> None:
    assert await holding(before, later) == held


@pytest.mark.parametrize(
    ("before", "later"),
    [
        ("I play the cello.", "I gave the cello up."),
        ("I'm learning Italian.", "I've given up on Italian."),
        ("Ich spiele Geige.", "Die Geige habe ich an den Nagel gehängt."),
        ("Ich nehme Sertralin.", "Mein Arzt hat Sertralin abgesetzt."),
        ("Juego al pádel.", "Dejé el pádel por una lesión."),
        ("J'apprends le russe.", "J'ai laissé tomber le russe."),
    ],
)
async def test_what_is_given_up_is_over_in_every_language(before: str, later: str) -> None:
    assert await holding(before)
    assert await holding(before, later) == []


@pytest.mark.parametrize(
    ("before", "later"),
    [
        ("Mein Hund heißt Bello.", "Bello ist nicht gestorben."),
        ("Mein Hund heißt Bello.", "Bello ist fast gestorben."),
        ("Ich wohne in Zürich.", "Er sagt, ich wohne nicht mehr in Zürich."),
        ("Soy alérgica a los gatos.", "Dicen que ya no soy alérgica a los gatos."),
        ("Je joue au hockey.", "Je n'ai pas lâché le hockey."),
        ("I drink three coffees a day.", "I can give up coffee any time."),
        ("I bank with Monzo.", "They moved everything from Monzo to Revolut."),
        ("I drive a Golf.", "My neighbour sold the Golf and bought a Kona."),
        ("I live in Porto.", "I'm moving to Bilbao next month."),
    ],
)
async def test_what_is_denied_or_told_of_others_ends_nothing(before: str, later: str) -> None:
    assert await holding(before)
    assert await holding(before, later) == await holding(before)


@pytest.mark.parametrize(
    ("before", "later"),
    [
        ("I'm allergic to kiwi.", "The allergist says I'm not allergic to kiwi."),
        ("Ich bin allergisch gegen Erdbeeren.", "Die Ärztin sagt, dass ich nicht mehr gegen Erdbeeren allergisch bin."),
        ("Soy alérgico a las nueces.", "El médico dice que ya no soy alérgico a las nueces."),
        ("Je suis diabétique.", "Mon médecin m'a dit que je ne suis plus diabétique."),
    ],
)
async def test_what_a_doctor_says_of_the_speaker_counts(before: str, later: str) -> None:
    assert await holding(before)
    assert await holding(before, later) == []


async def test_who_knows_nothing_of_it_ends_no_allergy() -> None:
    assert await holding("I'm allergic to kiwi.", "They say I'm not allergic to kiwi.") == ["kiwi"]


async def test_whoever_drinks_again_does_not_avoid_alcohol() -> None:
    facts = await told("No bebo alcohol.", "He vuelto a beber cerveza.")
    assert await facts.profile_lines() == ["drinks alcohol again (since 2026-02-10)"]


@pytest.mark.parametrize(
    ("before", "later"),
    [
        ("I live in Lisbon.", "I left Lisbon for good."),
        ("I drive a Golf.", "I sold the Golf and bought a house."),
        ("Juego al pádel.", "Dejé el pádel por una lesión."),
    ],
)
async def test_a_reason_takes_no_place_of_what_was_left(before: str, later: str) -> None:
    assert await holding(before, later) == []
